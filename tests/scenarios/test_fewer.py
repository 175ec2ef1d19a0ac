"""A GPU that was never seen: told by its like and by its scheduler, never guessed."""

from tests.scenarios.stage import Stage, busy, wobble

from bigiron.hub.turn import Settings
from bigiron.model import Batch, Fact

NODES = tuple(f"a{number:02d}" for number in range(1, 13))
LOOK = Settings(keep_intervals=False, sustain_s=0.0)


def _short_of(stage: Stage, node: str, device: str) -> None:
    for key in [k for k in stage.said if k[0] == node and k[1] == device]:
        del stage.said[key]


def test_one_look_opens_on_the_node_that_shows_fewer_gpus_than_its_like() -> None:
    stage = Stage(NODES, settings=LOOK)
    busy(stage, NODES)
    _short_of(stage, "a07", "gpu3")
    wobble(stage, 0)
    stage.run()
    assert list(stage.open) == ["gpu.missing a07/gpu3"]
    assert "a07 shows 7 GPUs: gpu3 is missing. 11 nodes like it show 8." in str(stage.open)


def test_a_hub_that_starts_after_the_loss_sees_it_too() -> None:
    stage = Stage(NODES)
    busy(stage, NODES)
    _short_of(stage, "a07", "gpu3")
    for minute in range(5):
        wobble(stage, minute)
        stage.run()
    assert list(stage.open) == ["gpu.missing a07/gpu3"]


def test_few_nodes_of_a_kind_say_nothing() -> None:
    stage = Stage(NODES[:5], settings=LOOK)
    busy(stage, NODES[:5])
    _short_of(stage, "a03", "gpu3")
    wobble(stage, 0)
    stage.run()
    assert stage.open == {}


def test_nodes_of_two_kinds_are_not_compared() -> None:
    stage = Stage(NODES, settings=LOOK)
    busy(stage, NODES)
    for node in NODES[:4]:
        for gpu in range(4, 8):
            _short_of(stage, node, f"gpu{gpu}")
    wobble(stage, 0)
    stage.run()
    assert stage.open == {}


def test_the_schedulers_count_tells_where_there_are_no_like_nodes() -> None:
    stage = Stage(NODES[:2], settings=LOOK)
    busy(stage, NODES[:2])
    _short_of(stage, "a02", "gpu5")
    configured = tuple(Fact(node, "gpu_count_configured", 8) for node in NODES[:2])
    stage.memory.take(Batch(stage.now, facts=configured))
    wobble(stage, 0)
    stage.run()
    assert list(stage.open) == ["gpu.missing a02/gpu5"]
    assert "Its scheduler counts on 8." in str(stage.open)
