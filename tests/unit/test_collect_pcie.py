"""PCIe from sysfs: which links are less than they should be, by which part; errors; placement."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hosts.sysfs_tree import ACS_ON, aer, config
from tests.unit.collected import NAMES, Sick, captured, events, facts, golden, samples, sick

from bigiron.collect import Seen
from bigiron.collect.pci_config import ACS_ID, FIRST, HOPS, acs_control
from bigiron.collect.pci_tree import tree
from bigiron.collect.pcie import pcie
from bigiron.collect.pcie_errors import Errors, counts
from bigiron.collect.standing import standing
from bigiron.errors import NoData
from bigiron.host import Host
from bigiron.model import Event

DEVICES = "/sys/bus/pci/devices"
UPLINK, GPU1, PORT_OF_GPU1, MLX0 = "0000:38:00.0", "0000:1b:00.0", "0000:17:03.0", "0000:18:00.0"


def look(host: Host) -> list[Seen]:
    return list(pcie(host))


def width(host: Sick, bus: str, lanes: int) -> None:
    host.put(f"{DEVICES}/{bus}/current_link_width", lanes)


def speed(host: Sick, bus: str, said: str) -> None:
    host.put(f"{DEVICES}/{bus}/current_link_speed", said)


@pytest.mark.parametrize("name", NAMES)
def test_what_it_says_of_captured_hosts(name: str) -> None:
    golden(pcie, "pcie", name)


@pytest.mark.parametrize("name", NAMES)
def test_no_captured_host_has_a_fault_at_any_look(name: str) -> None:
    host = captured(name)
    assert [events(look(host)) for _ in range(3)] == [[], [], []]


def test_what_does_not_change_is_told_once() -> None:
    host = sick("h100x8")
    assert look(host)
    assert look(host) == []
    width(host, UPLINK, 8)
    assert facts(look(host)) == {(UPLINK, "pcie_link_width"): 8}


def test_nothing_to_see_is_silent(tmp_path: Path) -> None:
    for host in (Host(root=tmp_path), Host(root=tmp_path / "nowhere")):
        with pytest.raises(NoData):
            look(host)


def test_a_narrowed_switch_uplink_is_named_as_what_it_is() -> None:
    host = sick("h100x8")
    width(host, UPLINK, 8)
    (event,) = [one for one in look(host) if isinstance(one, Event)]
    assert (event.code, event.device) == ("pcie.link_downgraded", UPLINK)
    assert event.text == (
        "PCIe link of switch uplink 0000:38:00.0 (mlx5_2, gpu2, mlx5_3, gpu3, nvme2, nvme3) runs "
        "at 32 GT/s x8: it and the port above (0000:37:01.0) can use x16, as 3 like it do"
    )
    assert event.attrs["serves"] == "mlx5_2 gpu2 mlx5_3 gpu3 nvme2 nvme3"
    assert look(host) == [], "what stands is not told at each look"


def test_a_gpu_with_half_its_lanes_is_named_by_its_own_name() -> None:
    host = sick("h100x8")
    width(host, GPU1, 8)
    width(host, PORT_OF_GPU1, 8)
    assert events(look(host)) == [("pcie.link_downgraded", "gpu1")]


def test_a_card_in_a_slot_of_eight_lanes_is_no_fault() -> None:
    host = sick("h100x8")
    width(host, GPU1, 8)
    host.put(f"{DEVICES}/{PORT_OF_GPU1}/max_link_width", 8)
    seen = look(host)
    assert events(seen) == []
    assert facts(seen)["gpu1", "pcie_link_width_max"] == 8


def test_a_machine_whose_links_are_all_narrow_is_built_so() -> None:
    host = sick("h100x8")
    for part in tree(host).parts:
        if part.kind == "gpu":
            width(host, part.bus, 8)
    assert events(look(host)) == []


def test_the_only_card_of_its_kind_is_judged_by_both_its_ends() -> None:
    host = sick("cpu-only")
    width(host, "0000:71:00.0", 1)
    width(host, "0000:71:00.1", 1)
    (event,) = [one for one in look(host) if isinstance(one, Event)]
    assert event.device == "eno1", "both ports share one link"
    assert event.text.endswith("x1: it and the port above (0000:70:01.0) can use x4")


def test_in_a_virtual_machine_most_must_be_better() -> None:
    host = sick("t4x4")
    for index in range(3):
        width(host, f"0000:00:{0x1B + index:02x}.0", 16)
    assert events(look(host)) == [("pcie.link_downgraded", "gpu3")]


def test_an_idle_gpu_may_be_slow_and_a_working_adapter_may_not() -> None:
    host = sick("h100x8")
    speed(host, GPU1, "2.5 GT/s PCIe")
    seen = look(host)
    assert events(seen) == []
    assert ("gpu1", "pcie_link_gen") not in facts(seen), "it moves with load: no setting"
    assert facts(seen)["gpu1", "pcie_link_gen_max"] == 5
    speed(host, MLX0, "2.5 GT/s PCIe")
    (event,) = [one for one in look(host) if isinstance(one, Event)]
    assert (event.code, event.device) == ("pcie.link_downgraded", "mlx5_0")
    assert event.text.endswith("2.5 GT/s x16: both ends can do 32 GT/s, and 7 like it do better")


def test_a_rate_that_does_not_exist_is_told() -> None:
    host = sick("h100x8")
    speed(host, MLX0, "3.0 GT/s PCIe")
    assert events(look(host)) == [("pcie.link_downgraded", "mlx5_0")]


def test_a_device_that_reads_all_ones_is_told_at_the_second_look() -> None:
    host = sick("h100x8")
    host.put(f"{DEVICES}/{GPU1}/config", b"\xff" * 64)
    width(host, GPU1, 63)
    speed(host, GPU1, "Unknown")
    assert events(look(host)) == []
    assert events(look(host)) == [("pcie.device_inaccessible", "gpu1")]
    assert events(look(host)) == []
    host.put(f"{DEVICES}/{GPU1}/config", config("10de", "2330"))
    assert events(look(host)) == []
    assert not standing(host, "pcie").stands("pcie.device_inaccessible", "gpu1")


def test_a_device_that_sleeps_is_not_woken() -> None:
    host = sick("h100x8")
    host.put(f"{DEVICES}/{GPU1}/power/control", "auto")
    host.put(f"{DEVICES}/{GPU1}/power/runtime_status", "suspended")
    width(host, GPU1, 1)
    seen = look(host)
    assert events(seen) == []
    assert ("gpu1", "pcie_link_width") not in facts(seen)
    host.put(f"{DEVICES}/{GPU1}/power/runtime_status", "active")
    assert events(look(host)) == [("pcie.link_downgraded", "gpu1")]


def test_a_part_that_is_taken_out_is_looked_for_anew() -> None:
    host = sick("l40sx8")
    look(host)
    host.remove(f"{DEVICES}/{tree(host).parts[0].bus}/current_link_width")
    assert look(host) == []
    assert ("gpu1", "bus") in facts(look(host)), "all is told anew"


def test_ports_that_redirect_peers_are_named() -> None:
    host = sick("h100x8")
    host.put(f"{DEVICES}/{PORT_OF_GPU1}/config", config("1000", "c030", ACS_ON))
    found = facts(look(host))
    assert found["", "acs"] == "enabled"
    assert found["", "acs_ports"] == PORT_OF_GPU1


def test_acs_is_not_told_where_only_root_may_read_it() -> None:
    host = sick("l40sx8")
    for bus, folder in tree(host).ports.items():
        host.put(f"{folder}/config", config("1000", bus[-4:-2] + "00"))
    assert ("", "acs") not in facts(look(host))


def _aer(host: Sick, folder: str, errors: dict[str, int]) -> None:
    for name, text in aer(errors).items():
        host.put(f"{folder}/{name}", text)


def test_growth_of_errors_is_told_by_kind_and_a_trickle_is_not() -> None:
    host = sick("l40sx8")
    found = tree(host)
    part = next(p for p in found.parts if p.name == "mlx5_0")
    port = part.path[0]
    folders = {p.bus: (p.name, p.folder) for p in found.parts} | {port: (port, found.ports[port])}
    errors = Errors()
    _aer(host, part.folder, {"RxErr": 7, "CmpltTO": 3})
    first = list(errors.look(host, folders, 0.0))
    assert events(first) == [], "what was counted before the first look is of no known time"
    assert samples(first)["mlx5_0", "pcie_aer_correctable_total"] == 7
    _aer(host, part.folder, {"RxErr": 20, "CmpltTO": 5})
    _aer(host, found.ports[port], {"RxErr": 900, "BadTLP": 100})
    told = [e for e in errors.look(host, folders, 300.0) if isinstance(e, Event)]
    assert {(e.code, e.device): e.text for e in told} == {
        ("pcie.aer_nonfatal", "mlx5_0"): (
            f"mlx5_0 ({part.bus}): 2 non-fatal PCIe errors in 300 s: 2 CmpltTO"
        ),
        ("pcie.aer_correctable", port): (
            f"{port}: 1,000 corrected PCIe errors in 300 s: 900 RxErr, 100 BadTLP"
        ),
    }
    _aer(host, part.folder, {"CmpltTO": 1})  # found anew: it counts from zero
    again = [e for e in errors.look(host, folders, 600.0) if isinstance(e, Event)]
    assert [(e.code, e.attrs["errors"]) for e in again] == [("pcie.aer_nonfatal", "1")]
    assert list(errors.look(host, {}, 900.0)) == []


@given(st.text(max_size=400))
def test_any_text_of_errors_is_counted_or_refused(text: str) -> None:
    found = counts(text)
    assert found is None or all(count >= 0 for count in found.values())


@given(st.binary(max_size=4096))
def test_any_configuration_space_ends(data: bytes) -> None:
    reads = []

    def read(start: int, count: int) -> bytes:
        reads.append(start)
        return data[start : start + count]

    control = acs_control(read)
    assert len(reads) <= HOPS + 1
    assert control is None or 0 <= control <= 0xFFFF


def test_a_chain_of_capabilities_that_runs_in_a_circle_ends() -> None:
    head = (0x0001 | 2 << 16 | FIRST << 20).to_bytes(4, "little")
    assert acs_control(lambda start, count: (bytes(FIRST) + head)[start : start + count]) is None
    assert ACS_ID == 0x0D


@given(
    st.dictionaries(
        st.sampled_from(
            [
                *("class", "vendor", "device", "numa_node", "max_link_speed", "max_link_width"),
                *("current_link_speed", "current_link_width", "config", "aer_dev_correctable"),
            ]
        ),
        st.one_of(st.binary(max_size=80), st.sampled_from([b"0x030200", b"0x0680", b"0x10de"])),
    )
)
def test_whatever_its_files_hold_it_says_something_or_nothing(files: dict[str, bytes]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder) / "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0"
        at.mkdir(parents=True)
        for name, data in files.items():
            (at / name).write_bytes(data)
        devices = Path(folder) / "sys/bus/pci/devices"
        devices.mkdir(parents=True)
        (devices / "0000:01:00.0").symlink_to(
            "../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0"
        )
        host = Host(root=Path(folder))
        for _ in range(3):
            try:
                look(host)
            except NoData:
                break
