"""What should be alike on all machines of a kind, from files; told by golden's own names."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.collected import NAMES, captured, facts, golden, sick

from bigiron.collect.dmi_memory import module, plain
from bigiron.collect.gpu_models import sku
from bigiron.collect.inventory import inventory
from bigiron.collect.inventory_setup import CHUNK, packages
from bigiron.collect.pci_tree import Part
from bigiron.detect.golden.facts import relevant
from bigiron.errors import NoData
from bigiron.host import Host
from bigiron.model import Fact

OF_NO_WEIGHT = {
    *("system_vendor", "model", "serial", "board", "board_serial", "bios_vendor", "bios_date"),
    *("cpu_model", "cpu_count", "cpu_driver", "numa_nodes", "dimms", "sku", "thp_defrag"),
    *("gres_conf", "cgroup_conf", "kubelet_conf", "vendor"),
}
"""Told for people and for parts' histories; no node differs by them from its like."""


def told(host: Host) -> dict[str, object]:
    return {name: value for (device, name), value in facts(inventory(host)).items() if not device}


@pytest.mark.parametrize("name", NAMES)
def test_what_it_says_of_captured_hosts(name: str) -> None:
    golden(inventory, "inventory", name)


@pytest.mark.parametrize("name", NAMES)
def test_golden_knows_every_fact_or_it_is_for_people(name: str) -> None:
    found = {one.name for one in inventory(captured(name)) if isinstance(one, Fact)}
    assert {one for one in found if relevant(one) is None} <= OF_NO_WEIGHT


def test_a_host_is_guessed_by_its_accelerators() -> None:
    guessed = {name: told(captured(name))["sku"] for name in NAMES}
    assert guessed == {
        "a100x8": "a100x8",
        "a100x8-mig": "a100x8",
        "h100x8": "h100x8",
        "gb200x4": "gb200x4",
        "l40sx8": "l40sx8",
        "t4x4": "t4x4",
        "mi250x8": "mi250x8",
        "mi300xx8": "mi300xx8",
        "cpu-only": "cpu",
    }
    assert sku([Part("gpu0", "gpu", "0000:01:00.0", "10de:ffff", "", ())]) == "10de-ffffx1"


def test_nothing_to_see_is_silent(tmp_path: Path) -> None:
    with pytest.raises(NoData):
        list(inventory(Host(root=tmp_path)))


def test_settings_that_slow_a_job_are_seen() -> None:
    host = sick("h100x8")
    host.put("/sys/devices/system/cpu/cpufreq/policy2/scaling_governor", "powersave")
    host.put("/sys/devices/system/cpu/smt/control", "forceoff")
    host.put("/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", 16)
    host.put("/sys/kernel/iommu_groups/5/type", "DMA-FQ")
    host.put("/proc/sys/kernel/numa_balancing", 1)
    found = told(host)
    assert found["cpu_governor"] == "performance x3, powersave x1"
    assert found["smt"] == "off"
    assert found["hugepages"] == "1048576kB:16"
    assert found["iommu"] == "on"
    assert found["sysctl.kernel.numa_balancing"] == "1"


def test_a_module_that_is_not_loaded_is_told_and_a_version_that_is_its_owners_is_not() -> None:
    host = sick("h100x8")
    assert told(host)["module.nvidia_peermem"] == "loaded"
    host.remove("/sys/module/nvidia_peermem")
    found = told(host)
    assert found["module.nvidia_peermem"] == "not loaded"
    assert found["module.gdrdrv"] == "2.4.4"
    assert "module.nvidia_peermem" not in told(captured("mi300xx8"))


def test_what_users_and_addresses_change_is_not_in_a_mount() -> None:
    found = told(captured("h100x8"))
    assert found["mount./apps"] == "nfs4 home:/export/apps hard,nconnect=8,vers=4.2"
    assert "mount./home/someone" not in found, "an automounter brought it"
    assert "mount./run/containerd/task/rootfs" not in found


def test_a_comment_does_not_change_a_configuration() -> None:
    host = sick("h100x8")
    before = told(host)["slurm_conf"]
    at = "/etc/slurm/slurm.conf"
    host.put(at, "# a comment\n\n" + host.read(at))
    assert told(host)["slurm_conf"] == before
    host.put(at, host.read(at) + "\nReturnToService=1")
    assert told(host)["slurm_conf"] != before


def test_modules_of_memory_are_parts() -> None:
    found = facts(inventory(captured("h100x8")))
    assert found["dimm:CPU0_DIMM_A1", "serial"] == "80CE0123004A1B00"
    assert found["dimm:CPU1_DIMM_H2", "model"] == "OWN-64G-5600"
    assert found["", "dimms"] == "32 x 64 GiB"
    host = sick("h100x8")
    raw = "/sys/firmware/dmi/entries/17-3/raw"
    empty = bytearray(host.part(raw, 0, 4096))
    empty[0x0C:0x0E] = b"\0\0"
    host.put(raw, bytes(empty))
    assert told(host)["dimm_count"] == 31
    assert told(captured("a100x8"))["dimms"] == "16 x 64 GiB", "by the memory controller"


def test_what_nobody_filled_in_is_no_serial() -> None:
    for text in ("To be filled by O.E.M.", "Default string", "None", "0000000", " ", "0123456789"):
        assert plain(text) == ""
    assert plain("  NVB0021X17 ") == "NVB0021X17"


def test_a_package_at_the_edge_of_a_piece_is_found(tmp_path: Path) -> None:
    wanted = "Package: enroot\nStatus: install ok installed\nVersion: 3.5.0-1\n\n"
    gone = "Package: podman\nStatus: deinstall ok config-files\nVersion: 4.9.3\n\n"
    at = tmp_path / "var/lib/dpkg/status"
    at.parent.mkdir(parents=True)
    for shift in (-20, -1, 0, 1, 20):
        filler = "Package: other\n\n" * 20_000
        at.write_text(filler[: CHUNK + shift - len(wanted) // 2] + "\n\n" + wanted + gone)
        assert list(packages(Host(root=tmp_path))) == [("", "package.enroot", "3.5.0-1")]


@given(st.binary(max_size=300))
def test_any_bytes_are_a_module_or_none(data: bytes) -> None:
    for one in (module(data), module(b"\x11\x28" + data)):
        assert one is None or one.megabytes > 0


FILES = (
    *("proc/cpuinfo", "proc/meminfo", "proc/cmdline", "proc/1/mountinfo", "etc/os-release"),
    *("etc/nccl.conf", "etc/security/limits.conf", "etc/slurm/slurm.conf", "var/lib/dpkg/status"),
    *("sys/devices/system/cpu/online", "sys/devices/system/edac/mc/mc0/dimm0/size"),
    *("sys/kernel/mm/transparent_hugepage/enabled", "proc/driver/nvidia/params"),
    *("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "sys/class/dmi/id/product_name"),
)
WORDS = (
    *(b"MemTotal: 99 kB", b"0-9999999999999999", b"1 2 3 4 5 6 - nfs a b", b"* - memlock x"),
    *(b"Package: runc\nStatus: a installed\nVersion: ", b"NCCL_X=1", b"nan", b"1e400"),
)


@given(
    st.dictionaries(
        st.sampled_from(FILES), st.one_of(st.binary(max_size=200), st.sampled_from(WORDS))
    )
)
def test_whatever_its_files_hold_it_says_something_or_nothing(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            at = Path(folder) / name
            at.parent.mkdir(parents=True, exist_ok=True)
            at.write_bytes(data)
        try:
            found = list(inventory(Host(root=Path(folder))))
        except NoData:
            return
        assert all(isinstance(one, Fact) and one.value not in ("", 0) for one in found)
