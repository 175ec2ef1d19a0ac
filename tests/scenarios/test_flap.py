import msgspec
from tests.scenarios.stage import Stage

from bigiron.detect import Block, Fleet
from bigiron.detect.flap import Flap, Ports
from bigiron.model import Change, Sample


def goes_down(stage: Stage, times: int, minutes_apart: float) -> None:
    for _ in range(times):
        key = ("a1", "mlx5_2", "ib_link_downed_total")
        stage.said[key] = stage.said[key] + 1
        stage.run(minutes_apart)


def ready() -> Stage:
    stage = Stage(step_s=300)
    stage.says("a1", "mlx5_2", ib_link_downed_total=4)
    stage.run(10)
    return stage


def test_opens_on_three_times_in_three_hours() -> None:
    stage = ready()
    goes_down(stage, 2, 30)
    assert stage.open == {}
    goes_down(stage, 1, 5)
    assert list(stage.open) == ["ib.flap a1/mlx5_2"]


def test_opens_on_five_times_in_a_day() -> None:
    stage = ready()
    goes_down(stage, 4, 300)
    assert stage.open == {}
    goes_down(stage, 1, 5)
    assert list(stage.open) == ["ib.flap a1/mlx5_2"]


def test_one_flap_and_an_old_total_raise_nothing() -> None:
    stage = ready()
    goes_down(stage, 1, 600)
    assert stage.changes(Change.OPEN) == []


def test_survives_counter_reset() -> None:
    stage = ready()
    stage.says("a1", "mlx5_2", ib_link_downed_total=0)
    stage.run(10)
    assert stage.open == {}
    goes_down(stage, 3, 10)
    assert list(stage.open) == ["ib.flap a1/mlx5_2"]


def test_closes_after_a_quiet_day_and_keeps_open_on_silence() -> None:
    quiet, silent = ready(), ready()
    for stage in (quiet, silent):
        goes_down(stage, 3, 10)
    silent.silent("a1")
    quiet.run(60 * 26)
    silent.run(60 * 26)
    assert quiet.open == {}
    assert "ib.flap a1/mlx5_2" in silent.open


def test_the_state_survives_json_in_the_middle() -> None:
    stage = ready()
    whole, cut = Ports(), Ports()
    for minute, value in enumerate((0, 1, 1, 2, 0, 1)):
        time = stage.now.replace(minute=minute)
        sample = Sample("a1", "p", "ib_link_downed_total", value, time)
        block = Block(time, Fleet(), (sample,))
        whole, of_whole = Flap().step(whole, block)
        cut, of_cut = Flap().step(cut, block)
        cut = msgspec.json.decode(msgspec.json.encode(cut), type=Ports)
        assert of_whole == of_cut
    assert whole == cut
    assert len(whole.ports["a1/p"].counted) == 3
