"""Every fact that matters: another value is found at once, and what it does is said."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scenarios.stage import T0, Stage

from bigiron.detect import Exempt
from bigiron.detect.golden.facts import PREFIXES, RELEVANT, Weight, relevant
from bigiron.detect.golden.values import comparable, fits, label, newer
from bigiron.hub.turn import Settings
from bigiron.model import FactValue

NODES = [f"f{i:02d}" for i in range(12)]

DRIFTS: list[tuple[str, str, FactValue, FactValue, str]] = [
    ("driver_version", "", "570.124.06", "570.86.15", "another driver"),
    ("vbios_version", "gpu3", "96.00.A5.00.03", "96.00.68.00.01", "clock and power tables"),
    ("firmware_version", "mlx5_0", "28.39.3004", "28.37.1014", "link training"),
    ("fw_version", "nic2", "28.39.3004", "28.37.1014", "link training"),
    ("bmc_version", "", "24.03.11", "23.09.02", "fan curves"),
    ("bios_version", "", "2.4.1", "2.3.5", "power, NUMA and PCIe"),
    ("kernel", "", "5.15.0-126-generic", "5.15.0-112-generic", "another kernel"),
    ("kernel_cmdline", "", "quiet iommu=pt", "quiet", "IOMMU"),
    ("power_limit_w", "gpu3", 700, 595, "lowers clocks"),
    ("clock_limit_mhz", "gpu3", 1980, 1200, "hold the whole job back"),
    ("application_clock_mhz", "gpu3", 1980, 1200, "hold the whole job back"),
    ("ecc_mode", "gpu3", "Enabled", "Disabled", "corrupt results"),
    ("mig_mode", "gpu3", "Disabled", "Enabled", "whole-GPU job"),
    ("persistence_mode", "gpu3", "Enabled", "Disabled", "unloads between jobs"),
    ("pcie_link_width", "gpu3", 16, 8, "less host bandwidth"),
    ("pcie_link_width_max", "gpu3", 16, 8, "less host bandwidth"),
    ("pcie_link_gen_max", "gpu3", 5, 4, "halves host bandwidth"),
    ("pcie_slot", "gpu3", "SLOT 4", "SLOT 7", "another slot"),
    ("numa_node", "gpu3", 0, 1, "another CPU socket"),
    ("nvlink_count", "gpu3", 18, 17, "less bandwidth to its peers"),
    ("gpu_count", "", 8, 7, "cannot start"),
    ("iommu", "", "off", "on", "peer-to-peer"),
    ("acs", "", "disabled", "enabled", "through the CPU"),
    ("hugepages", "", 4096, 0, "page walks"),
    ("link_rate_gbps", "mlx5_0", 400, 200, "the pace of every collective"),
    ("memory_total_gb", "", 2015.4, 1951.4, "Less memory"),
    ("env.NCCL_IB_HCA", "", "mlx5", "mlx5_0", "NCCL settings"),
    ("mounts", "", "/home,/scratch", "/home", "miss their data"),
    ("mount./scratch", "", "nfs4 10.0.0.1:/scratch", "absent", "miss their data"),
]


def fleet(name: str, device: str, value: FactValue, exempt: tuple[Exempt, ...] = ()) -> Stage:
    """Twelve nodes that have held a value for half an hour; each has its own host name."""
    settings = Settings(
        keep_intervals=False, exempt=exempt, step_s=600.0, fresh_s=1500.0, sustain_s=1500.0
    )
    stage = Stage(NODES, gpus=0, settings=settings, step_s=600.0)
    for node in NODES:
        stage.facts(node, hostname=node)
        stage.facts(node, device, **{name: value})
    stage.run(30)
    return stage


@pytest.mark.parametrize(("name", "device", "usual", "other", "effect"), DRIFTS)
def test_another_value_is_found_at_the_next_look_with_what_it_does_and_ends_when_it_is_right(
    name: str, device: str, usual: FactValue, other: FactValue, effect: str
) -> None:
    stage = fleet(name, device, usual)
    assert stage.open == {}
    stage.facts("f07", device, **{name: other})
    stage.run(10)
    (finding,) = stage.open.values()
    where = f"f07/{device}" if device else "f07"
    known = relevant(name)
    assert known is not None
    assert finding.subject.key == where
    assert finding.fault == f"{known.fault}.{name}"
    assert effect in " ".join(finding.because)
    assert finding.confidence == 0.8
    stage.facts("f07", device, **{name: usual})
    stage.run(10)
    assert stage.open == {}


def test_every_fact_that_the_field_compares_is_known() -> None:
    missing = [name for name, *_ in DRIFTS if relevant(name) is None]
    assert missing == []


@pytest.mark.parametrize("known", [*RELEVANT.values(), *PREFIXES.values()])
def test_every_fact_has_a_sentence_a_source_and_a_weight(known: object) -> None:
    assert isinstance(known, tuple)
    effect, source, weight, *_ = known
    assert effect.endswith(".")
    assert effect[:1].isupper()
    assert source
    assert isinstance(weight, Weight)


SAME: list[tuple[str, FactValue, FactValue]] = [
    ("pcie_link_width", 16, "16"),
    ("pcie_link_width", 16, 16.0),
    ("ecc_mode", "Enabled", "on"),
    ("persistence_mode", "Enabled", True),
    ("iommu", "off", "disabled"),
    ("memory_total_gb", 2015.4, 2010.2),
    ("clock_limit_mhz", 1980, 1965),
    ("power_limit_w", 700, 699.99),
    ("kernel_cmdline", "quiet iommu=pt", "iommu=pt  quiet"),
    ("kernel_cmdline", "root=UUID=1 quiet", "BOOT_IMAGE=/vmlinuz-5.15 root=UUID=2 quiet"),
    ("mounts", "/home,/scratch", "/scratch /home"),
    ("hostname", "a", "b"),
    ("nvlink_count", 17, 18),
    ("power_limit_w", 650, 700),
]


@pytest.mark.parametrize(("name", "usual", "other"), SAME)
def test_the_same_said_in_another_way_and_what_is_better_is_no_drift(
    name: str, usual: FactValue, other: FactValue
) -> None:
    stage = fleet(name, "", usual)
    stage.facts("f07", "", **{name: other})
    stage.run(10)
    assert stage.open == {}


def test_numbers_that_all_differ_a_little_have_a_usual_value_nevertheless() -> None:
    stage = fleet("memory_total_gb", "", 2015.4)
    for number, node in enumerate(NODES):
        stage.facts(node, memory_total_gb=2015.0 + number / 10)
    stage.run(10)
    assert stage.open == {}
    stage.facts("f03", memory_total_gb=1919.0)
    stage.run(10)
    assert list(stage.open) == ["config.drift.memory_total_gb f03"]


def test_a_slot_is_compared_at_its_own_address() -> None:
    stage = fleet("hostname", "", "same")
    for node in NODES:
        for index, (bus, socket) in enumerate((("0000:1b:00.0", 0), ("0000:9b:00.0", 1))):
            stage.facts(node, f"gpu{index}", bus=bus, numa_node=socket)
    stage.run(10)
    stage.facts("f02", "gpu0", bus="0000:9b:00.0", numa_node=1)
    stage.facts("f02", "gpu1", bus="0000:1b:00.0", numa_node=0)
    stage.run(10)
    assert stage.open == {}
    stage.facts("f05", "gpu1", numa_node=0)
    stage.run(10)
    assert [f.subject.key for f in stage.open.values()] == ["f05/gpu1"]


def exemption(value: FactValue = "", hours: float = 24.0, fact: str = "driver_version") -> Exempt:
    values = (value,) if value != "" else ()
    until = T0 + timedelta(hours=hours)
    return Exempt(frozenset({"f07"}), fact, values, until, "a trial")


def test_an_exception_excuses_until_it_ends_and_is_then_named() -> None:
    stage = fleet("driver_version", "", "570.1", (exemption(hours=2.0),))
    stage.facts("f07", driver_version="535.1")
    stage.run(60)
    assert stage.open == {}
    stage.run(60)
    (finding,) = stage.open.values()
    assert finding.because[-1] == "The exception for it ended at 2026-05-04 10:00 (a trial)."


def test_an_exception_of_some_values_excuses_no_other_and_of_one_node_no_other() -> None:
    stage = fleet("driver_version", "", "570.1", (exemption("535.1"),))
    stage.facts("f07", driver_version="535.1")
    stage.run(10)
    assert stage.open == {}
    stage.facts("f07", driver_version="525.1")
    stage.run(10)
    assert list(stage.open) == ["config.drift.driver_version f07"]
    stage.facts("f07", driver_version="535.1")
    stage.facts("f08", driver_version="535.1")
    stage.run(10)
    assert list(stage.open) == ["config.drift.driver_version f08"]


def test_an_exception_holds_for_the_fact_by_any_of_its_names() -> None:
    stage = fleet("fw_version", "nic0", "28.39", (exemption("28.1", fact="firmware_version"),))
    stage.facts("f07", "nic0", fw_version="28.1")
    stage.run(10)
    assert stage.open == {}


def test_a_finding_that_is_excused_or_mended_says_why_it_ends() -> None:
    stage = fleet("env.NCCL_DEBUG", "", "WARN")
    stage.facts("f07", **{"env.NCCL_DEBUG": "TRACE"})
    stage.run(10)
    stage.facts("f07", **{"env.NCCL_DEBUG": "WARN"})
    outcome = stage.run(10)
    assert [c.because for c in outcome.changes] == [
        "env.NCCL_DEBUG is WARN, which no longer differs"
    ]


@given(st.sampled_from(sorted(RELEVANT)), st.one_of(st.text(), st.integers(), st.floats()))
def test_any_value_can_be_compared_and_is_itself(name: str, value: FactValue) -> None:
    own = comparable(name, value)
    assert comparable(name, own) == own
    known = relevant(name)
    assert known is not None
    assert fits(name, value, [value])
    assert not newer(value, value, known.order)
    assert label(name)


@given(st.lists(st.sampled_from(["quiet", "iommu=pt", "nosmt", "root=/dev/sda1"]), max_size=6))
def test_the_order_of_kernel_arguments_says_nothing(arguments: list[str]) -> None:
    one, other = " ".join(arguments), "  ".join(sorted(arguments))
    assert comparable("kernel_cmdline", one) == comparable("kernel_cmdline", other)


def test_later_versions_are_known_by_their_numbers() -> None:
    assert newer("570.158.01", "570.86.15", "version")
    assert newer("96.00.A5.00.03", "96.00.68.00.01", "hex")
    assert not newer("5.15.0-112", "5.15.0-126", "version")
    assert not newer("on", "off", "")
