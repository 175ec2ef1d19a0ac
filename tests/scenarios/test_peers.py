import random

from tests.scenarios.stage import Stage

from bigiron.model import ActionKind, Change


class Fleet:
    """Twelve nodes at work whose readings scatter; chosen devices differ by a constant."""

    def __init__(self, seed: int = 7) -> None:
        self.stage = Stage([f"c{i:02d}" for i in range(12)])
        self.random = random.Random(seed)
        self.hotter: dict[tuple[str, str], float] = {}
        self.slower: dict[tuple[str, str], float] = {}
        self.reasons: dict[tuple[str, str], float] = {}
        self.own = {
            (node, f"gpu{gpu}"): self.random.gauss(0, 2.0)
            for node in self.stage.names
            for gpu in range(8)
        }

    def run(self, minutes: int, load: float = 0.97) -> None:
        for _ in range(minutes):
            for key, own_c in self.own.items():
                power_w = self.random.gauss(620, 15)
                clock_hz = self.random.gauss(1.75e9, 3e7)
                self.stage.says(
                    *key,
                    gpu_utilization_ratio=load,
                    gpu_power_watts=power_w,
                    gpu_temp_celsius=round(58 + own_c + self.hotter.get(key, 0.0)),
                    gpu_sm_clock_hertz=clock_hz * (1 - self.slower.get(key, 0.0)),
                    gpu_clock_event_reasons=self.reasons.get(key, 0.0),
                )
            self.stage.run()


def test_a_healthy_fleet_raises_nothing() -> None:
    fleet = Fleet()
    fleet.run(240)
    assert fleet.stage.changes(Change.OPEN) == []


def test_opens_on_a_gpu_much_hotter_than_its_like_and_asks_for_a_test_only() -> None:
    fleet = Fleet()
    fleet.hotter["c03", "gpu5"] = 17.0
    fleet.run(35)
    assert list(fleet.stage.open) == ["gpu.hot c03/gpu5"]
    assert [a.kind for a in fleet.stage.actions] == [ActionKind.CHECK]


def test_a_warm_row_of_nodes_is_not_hot_gpus() -> None:
    fleet = Fleet()
    for node in ("c03", "c04", "c05"):
        for gpu in range(8):
            fleet.hotter[node, f"gpu{gpu}"] = 14.0
    fleet.run(60)
    assert fleet.stage.changes(Change.OPEN) == []


def test_opens_on_a_clock_that_stays_low_without_a_reason() -> None:
    fleet = Fleet()
    fleet.slower["c03", "gpu5"] = 0.25
    fleet.run(45)
    assert list(fleet.stage.open) == ["gpu.slow_clock c03/gpu5"]


def test_a_clock_lowered_by_the_power_cap_is_not_slow() -> None:
    fleet = Fleet()
    fleet.slower["c03", "gpu5"] = 0.25
    fleet.reasons["c03", "gpu5"] = 0x4
    fleet.run(45)
    assert fleet.stage.changes(Change.OPEN) == []


def test_an_idle_hour_does_not_close_a_slow_clock() -> None:
    fleet = Fleet()
    fleet.slower["c03", "gpu5"] = 0.25
    fleet.run(45)
    fleet.run(60, load=0.0)
    assert list(fleet.stage.open) == ["gpu.slow_clock c03/gpu5"]


def test_a_sensor_that_reads_anything_now_and_then_makes_no_gpu_hot() -> None:
    fleet = Fleet(seed=9)
    bad = "c05", "gpu1"
    for _ in range(120):
        fleet.hotter[bad] = 142.0 if fleet.random.random() < 0.5 else 0.0
        fleet.run(1)
    assert fleet.stage.changes(Change.OPEN) == []
