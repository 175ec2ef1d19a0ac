import pytest
from tests.scenarios.stage import Stage

from bigiron.hub.turn import Settings
from bigiron.model import ActionKind, Change, Health, Severity, When


def test_opens_on_a_pending_row_remap_and_asks_for_a_reset_after_the_job() -> None:
    stage = Stage()
    stage.says("a1", "gpu3", gpu_row_remap_pending=1)
    stage.run()
    finding = stage.open["gpu.row_remap_pending a1/gpu3"]
    assert (finding.action, finding.when) == (ActionKind.RESET_GPU, When.JOB_END)
    assert stage.health("a1") is Health.DEGRADED


def test_a_failed_row_remap_is_a_repair() -> None:
    stage = Stage()
    stage.says("a1", "gpu3", gpu_row_remap_failure=1)
    stage.run()
    assert stage.open["gpu.row_remap_failure a1/gpu3"].action is ActionKind.REPAIR
    assert stage.health("a1") is Health.UNHEALTHY


def test_keeps_open_on_silence_and_closes_on_recovery() -> None:
    stage = Stage()
    stage.says("a1", "gpu3", gpu_row_remap_pending=1)
    stage.run()
    stage.silent("a1", "gpu_row_remap_pending")
    stage.run(120)
    assert "gpu.row_remap_pending a1/gpu3" in stage.open
    stage.says("a1", "gpu3", gpu_row_remap_pending=0)
    stage.run(5)
    assert stage.open == {}


def test_a_value_that_comes_and_goes_with_single_scrapes_does_not_chatter() -> None:
    stage = Stage()
    for _ in range(10):
        stage.says("a1", "gpu3", gpu_row_remap_pending=1)
        stage.run()
        stage.says("a1", "gpu3", gpu_row_remap_pending=0)
        stage.run()
    assert stage.changes(Change.OPEN) == ["gpu.row_remap_pending"]
    assert stage.changes(Change.CLOSE) == []


@pytest.mark.parametrize(
    ("metric", "value", "fault"),
    [
        ("gpu_remapped_rows_uncorrectable_total", 512, "gpu.row_remap_limit"),
        ("gpu_ecc_uncorrectable_volatile_total", 1, "gpu.ecc_uncorrectable"),
        ("gpu_sram_threshold_exceeded", 1, "gpu.sram_threshold"),
        ("gpu_retired_pages_sbe_total", 60, "gpu.retired_pages_limit"),
        ("gpu_ras_uncorrectable_total", 2, "amdgpu.ras_uncorrectable"),
        ("gpu_recovery_action", 1, "gpu.recovery_needed"),
    ],
)
def test_opens_at_the_limit(metric: str, value: float, fault: str) -> None:
    stage = Stage()
    stage.says("a1", "gpu3", **{metric: value})
    stage.run()
    assert [f.fault for f in stage.open.values()] == [fault]


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("gpu_remapped_rows_uncorrectable_total", 511),
        ("gpu_ecc_uncorrectable_volatile_total", 0),
        ("gpu_retired_pages_sbe_total", 59),
        ("gpu_recovery_action", 0),
        ("gpu_temp_celsius", 91),
        ("gpu_memory_temp_celsius", 104),
        ("gpu_memory_temp_celsius", 9.223372036854775e18),
        ("gpu_clock_event_reasons", 0x4),
        ("nvme_spare_ratio", 0.11),
        ("gpu_fabric_health_mask", 0b10101010),
    ],
)
def test_below_the_limit_nothing_opens(metric: str, value: float) -> None:
    stage = Stage()
    stage.says("a1", "gpu3", **{metric: value})
    stage.run(30)
    assert stage.open == {}


def test_a_slowdown_of_a_moment_raises_nothing() -> None:
    stage = Stage()
    stage.says("a1", "gpu3", gpu_clock_event_reasons=0)
    stage.run(20)
    stage.says("a1", "gpu3", gpu_clock_event_reasons=0x40)
    stage.run(3)
    stage.says("a1", "gpu3", gpu_clock_event_reasons=0)
    stage.run(20)
    assert stage.changes(Change.OPEN) == []


def test_a_sustained_slowdown_opens() -> None:
    stage = Stage()
    stage.says("a1", "gpu3", gpu_clock_event_reasons=0x40 | 0x8)
    stage.run(15)
    assert list(stage.open) == ["clock.hw_thermal a1/gpu3"]


def test_a_power_brake_on_most_gpus_is_about_the_node() -> None:
    stage = Stage()
    for gpu in range(8):
        stage.says("a1", f"gpu{gpu}", gpu_clock_event_reasons=0x80 if gpu < 6 else 0)
    stage.run(15)
    assert list(stage.open) == ["clock.hw_power_brake a1"]
    assert stage.open["clock.hw_power_brake a1"].because[0].startswith("6 GPUs of a1 (gpu0, ")


def test_a_single_look_believes_what_it_sees() -> None:
    stage = Stage(settings=Settings(sustain_s=0.0, keep_intervals=False))
    stage.says("a1", "gpu3", gpu_clock_event_reasons=0x40)
    stage.turn()
    assert list(stage.open) == ["clock.hw_thermal a1/gpu3"]


def test_the_gpus_own_slowdown_temperature_is_its_limit() -> None:
    cool, hot = Stage(), Stage()
    for stage, limit in ((cool, 95), (hot, 87)):
        stage.says("a1", "gpu3", gpu_temp_celsius=88, gpu_temp_slowdown_celsius=limit)
        stage.run(15)
    assert cool.open == {}
    assert list(hot.open) == ["gpu.temp_high a1/gpu3"]


def test_a_recovery_action_the_log_has_told_is_not_counted_twice() -> None:
    stage = Stage()
    stage.happens("a1", "xid.74", "gpu3", ago_s=5)
    stage.happens("a1", "recovery.1", "gpu3", ago_s=4)
    stage.says("a1", "gpu3", gpu_recovery_action=1)
    stage.run(3)
    assert list(stage.open) == ["xid.74 a1/gpu3"]


class TestLinks:
    def test_the_odd_one_out_is_narrow(self) -> None:
        stage = Stage()
        for gpu in range(8):
            stage.says("a1", f"gpu{gpu}", gpu_pcie_link_width=8 if gpu == 4 else 16)
        stage.run()
        assert list(stage.open) == ["gpu.pcie_width a1/gpu4"]
        assert "8 of 16 lanes" in stage.open["gpu.pcie_width a1/gpu4"].because[0]

    def test_a_machine_built_with_fewer_lanes_is_healthy(self) -> None:
        stage = Stage()
        for gpu in range(8):
            stage.says("a1", f"gpu{gpu}", gpu_pcie_link_width=8, gpu_pcie_link_width_max=16)
        stage.run(30)
        assert stage.open == {}

    def test_a_link_slow_at_idle_is_not_flagged_and_at_work_is(self) -> None:
        stage = Stage()
        for gpu in range(8):
            stage.says("a1", f"gpu{gpu}", gpu_pcie_link_gen=1 if gpu == 4 else 5)
        stage.says("a1", "gpu4", gpu_utilization_ratio=0.0)
        stage.run(30)
        assert stage.open == {}
        stage.says("a1", "gpu4", gpu_utilization_ratio=0.9)
        stage.run(30)
        assert list(stage.open) == ["gpu.pcie_gen a1/gpu4"]

    def test_idling_does_not_close_a_slow_link_and_full_speed_does(self) -> None:
        stage = Stage()
        for gpu in range(8):
            stage.says("a1", f"gpu{gpu}", gpu_pcie_link_gen=3 if gpu == 4 else 5)
        stage.says("a1", "gpu4", gpu_utilization_ratio=0.9)
        stage.run(30)
        stage.says("a1", "gpu4", gpu_utilization_ratio=0.0)
        stage.run(120)
        assert list(stage.open) == ["gpu.pcie_gen a1/gpu4"]
        stage.says("a1", "gpu4", gpu_pcie_link_gen=5)
        stage.run()
        assert stage.open == {}

    def test_a_port_that_was_never_active_is_uncabled_not_down(self) -> None:
        stage = Stage(("a1", "a2", "a3"))
        for node in stage.names:
            stage.says(node, "mlx5_0", ib_state=1)
            stage.says(node, "mlx5_1", ib_state=0)
        stage.run(30)
        assert stage.open == {}
        stage.says("a2", "mlx5_0", ib_state=0)
        stage.run()
        assert list(stage.open) == ["nic.down a2/mlx5_0"]

    def test_a_port_whose_like_are_active_in_other_nodes_is_down(self) -> None:
        stage = Stage(tuple(f"a{i}" for i in range(8)))
        for node in stage.names:
            stage.says(node, "mlx5_0", ib_state=0 if node == "a3" else 1)
        stage.run()
        assert list(stage.open) == ["nic.down a3/mlx5_0"]

    def test_inactive_nvlinks_of_a_partitioned_gpu_are_as_they_should_be(self) -> None:
        stage = Stage()
        for gpu in range(8):
            down = 18 if gpu < 2 else 0
            stage.says("a1", f"gpu{gpu}", gpu_nvlink_links_down=down, gpu_nvlink_links_up=18 - down)
        stage.facts("a1", "gpu0", mig_mode="Enabled")
        stage.run(15)
        assert list(stage.open) == ["gpu.nvlink_inactive a1/gpu1"]

    def test_cards_without_nvlinks_are_healthy(self) -> None:
        stage = Stage()
        for gpu in range(8):
            stage.says("a1", f"gpu{gpu}", gpu_nvlink_links_down=4, gpu_nvlink_links_up=0)
        stage.run(15)
        assert stage.open == {}


class TestXidGauge:
    def test_opens_on_a_change_and_not_on_a_value_that_was_there(self) -> None:
        stage = Stage()
        stage.says("a1", "gpu1", gpu_xid_last=79)
        stage.says("a1", "gpu2", gpu_xid_last=0)
        stage.run(20)
        assert stage.open == {}
        stage.says("a1", "gpu2", gpu_xid_last=79)
        stage.run(5)
        assert list(stage.open) == ["xid.79 a1/gpu2"]
        assert stage.open["xid.79 a1/gpu2"].severity is Severity.FATAL

    def test_what_the_log_tells_is_not_counted_twice(self) -> None:
        stage = Stage()
        stage.says("a1", "gpu2", gpu_xid_last=0)
        stage.run(5)
        stage.happens("a1", "xid.79", "gpu2")
        stage.says("a1", "gpu2", gpu_xid_last=79)
        stage.run(60)
        assert stage.changes(Change.OPEN) == ["xid.79"]
        assert next(iter(stage.open.values())).detector == "fault"

    def test_a_programs_code_is_ignored(self) -> None:
        stage = Stage()
        stage.says("a1", "gpu2", gpu_xid_last=0)
        stage.run(5)
        stage.says("a1", "gpu2", gpu_xid_last=31)
        stage.run(20)
        assert stage.open == {}

    def test_closes_when_the_exporter_starts_again(self) -> None:
        stage = Stage()
        stage.says("a1", "gpu2", gpu_xid_last=0)
        stage.run(5)
        stage.says("a1", "gpu2", gpu_xid_last=79)
        stage.run(5)
        stage.says("a1", "gpu2", gpu_xid_last=0)
        stage.run(5)
        assert stage.open == {}


def test_one_error_is_one_error() -> None:
    one, two = Stage(), Stage()
    one.says("a1", "gpu3", gpu_ecc_uncorrectable_volatile_total=1.0)
    two.says("a1", "gpu3", gpu_ecc_uncorrectable_volatile_total=2.0)
    for stage, said in (
        (one, "1 uncorrectable memory error "),
        (two, "2 uncorrectable memory err"),
    ):
        stage.run(3)
        assert said in stage.open["gpu.ecc_uncorrectable a1/gpu3"].because[0]
