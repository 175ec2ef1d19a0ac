"""A node's captured facts: what contradicts itself is told, the rest can be compared."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader
from bigiron.ingest.golden_manifest import golden_manifest
from bigiron.ingest.node_facts import node_facts
from bigiron.ingest.smartctl import smartctl
from bigiron.model import Event, Fact, Note, Observation, Sample

TOOLS = Path(__file__).parent.parent / "fixtures" / "tools"
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
DEVICES = "/sys/bus/pci/devices/"
BUSES = ("0000:1a:00.0", "0000:3c:00.0", "0000:9a:00.0", "0000:bc:00.0")


def read(reader: Reader, name: str, data: bytes | None = None) -> list[Observation]:
    document = Document.of(name, data or (TOOLS / name).read_bytes(), NOW)
    assert reader.sniff(Head.of(document)) >= 0.9
    return list(reader.read(document))


def changed(name: str, change: Callable[[dict[str, Any]], object]) -> list[Observation]:
    facts = json.loads((TOOLS / name).read_text())
    change(facts)
    return read(node_facts(), name, json.dumps(facts).encode())


def events(found: list[Observation]) -> list[tuple[str, str]]:
    return [(x.code, x.device) for x in found if isinstance(x, Event)]


def _link(bus: str) -> str:
    return f"/sys/class/pci_bus/{bus[:7]}/device/{bus}/"


def test_a_good_node_has_facts_and_no_event() -> None:
    found = read(node_facts(), "sysfs_good.json")
    assert events(found) == []
    facts = {(x.device, x.name): x.value for x in found if isinstance(x, Fact)}
    assert facts[("mlx5_0", "pcie_link_gen")] == 5
    assert facts[("mlx5_0", "pcie_link_width")] == 16
    assert facts[("mlx5_3", "link_rate_gbps")] == 400
    assert facts[("mlx5_3", "netdev")] == "ib3"
    assert facts[("mlx5_3", "mtu")] == 2044


def test_the_one_adapter_with_a_lesser_link_is_told() -> None:
    found = changed(
        "sysfs_good.json",
        lambda f: f.update({_link(BUSES[2]) + "current_link_speed": "8.0 GT/s PCIe"}),
    )
    assert events(found) == [("pcie.link_downgraded", "mlx5_2")]


def test_two_that_differ_are_another_slot_and_no_fault() -> None:
    speed = "current_link_speed"
    found = changed(
        "sysfs_good.json",
        lambda f: f.update({_link(bus) + speed: "8.0 GT/s PCIe" for bus in BUSES[:2]}),
    )
    assert events(found) == []


def test_narrower_than_the_device_itself_allows() -> None:
    found = changed(
        "sysfs_good.json",
        lambda f: f.update(
            {_link("0000:05:00.0") + n: v for n, v in _shape("16.0 GT/s", "2", "4").items()}
        ),
    )
    assert events(found) == [("pcie.link_downgraded", "0000:05:00.0")]


def _shape(speed: str, width: str, most: str) -> dict[str, str]:
    return {"current_link_speed": speed, "current_link_width": width, "max_link_width": most}


def test_a_rate_that_no_generation_has() -> None:
    found = changed(
        "sysfs_good.json",
        lambda f: f.update(
            {_link("0000:06:00.0") + n: v for n, v in _shape("4 GT/s", "4", "4").items()}
        ),
    )
    assert events(found) == [("pcie.link_downgraded", "0000:06:00.0")]


@pytest.mark.parametrize(
    ("path", "said", "code"),
    [
        ("infiniband/mlx5_1/ports/1/rate", "100 Gb/sec (4X EDR)", "nic.rate"),
        ("infiniband/mlx5_1/fw_ver", "unknown fw", "nic.firmware"),
        ("infiniband/mlx5_1/ports/1/state", "2: INIT", "nic.down"),
        ("infiniband/mlx5_1/ports/1/state", "1: DOWN", "nic.down"),
        ("net/ib1/operstate", "down", "nic.down"),
    ],
)
def test_a_port_that_contradicts_itself_or_its_like(path: str, said: str, code: str) -> None:
    found = changed("sysfs_good.json", lambda f: f.update({f"{DEVICES}{BUSES[1]}/{path}": said}))
    assert events(found) == [(code, "mlx5_1")]


def test_no_interface_up_anywhere_is_how_a_site_without_ipoib_looks() -> None:
    found = changed(
        "sysfs_good.json",
        lambda f: f.update(
            {f"{DEVICES}{bus}/net/ib{i}/operstate": "down" for i, bus in enumerate(BUSES)}
        ),
    )
    assert events(found) == []


def test_interfaces_bound_against_the_order_of_the_slots() -> None:
    def swap(facts: dict[str, Any]) -> None:
        for bus, old, new in ((BUSES[0], "ib0", "ib1"), (BUSES[1], "ib1", "ib0")):
            for path in [p for p in facts if p.startswith(f"{DEVICES}{bus}/net/{old}/")]:
                facts[path.replace(f"/{old}/", f"/{new}/")] = facts.pop(path)

    found = changed("sysfs_good.json", swap)
    assert events(found) == [("nic.misbound", "mlx5_0"), ("nic.misbound", "mlx5_1")]
    first = next(x for x in found if isinstance(x, Event))
    assert first.attrs["expected"] == "ib0"


def test_good_interfaces_and_one_nobody_configured() -> None:
    found = read(node_facts(), "ethernet_good.json")
    assert events(found) == []
    measured = {(x.device, x.metric): x.value for x in found if isinstance(x, Sample)}
    assert measured[("ens1f0", "node_network_up")] == 1
    assert measured[("ens1f0", "node_network_speed_bytes_per_second")] == 12.5e9
    assert measured[("ens9", "node_network_up")] == 0


def _interface(facts: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(i for i in facts["intf_status"] if i["ifname"] == name)
    return found


def test_interface_down_with_wrong_mtu_gone_or_swapped() -> None:
    down = changed("ethernet_good.json", lambda f: _interface(f, "ens2f0").update(operstate="DOWN"))
    assert events(down) == [("nic.down", "ens2f0")]
    mtu = changed("ethernet_good.json", lambda f: _interface(f, "ens1f0").update(mtu=1500))
    assert events(mtu) == [("nic.mtu", "ens1f0")]
    gone = changed("ethernet_good.json", lambda f: f["intf_status"].remove(_interface(f, "ens1f0")))
    assert events(gone) == [("nic.down", "ens1f0")]
    swapped = changed(
        "ethernet_good.json",
        lambda f: f["phys_macaddr"].update(ens1f0="02:00:00:00:00:02", ens2f0="02:00:00:00:00:01"),
    )
    assert events(swapped) == [("nic.swapped", "ens1f0"), ("nic.swapped", "ens2f0")]
    bond = changed("ethernet_good.json", lambda f: _interface(f, "ens1f0").pop("main"))
    assert events(bond) == [("nic.misbound", "ens1f0")]


def test_a_manifest_gives_facts_of_a_golden_node_under_the_same_names() -> None:
    found = read(golden_manifest(), "manifest_example.json")
    facts = {(x.node, x.device, x.name): x.value for x in found if isinstance(x, Fact)}
    node = "golden:manifest_example"
    assert facts[(node, "", "sku")] == "manifest_example"
    assert facts[(node, "mlx5_0", "pcie_link_gen")] == 5
    assert facts[(node, "mlx5_0", "netdev")] == "ib0"
    assert facts[(node, "mlx5_0", "link_rate_gbps")] == 400
    assert facts[(node, "mlx5_0", "firmware_version")] == "28.39.2048 | 28.40.1000"
    assert facts[(node, "nvme1", "pcie_link_gen")] == "3 | 4"
    assert facts[(node, "0000:18:00.0", "pcie_link_width")] == 16
    assert facts[(node, "ens1f0", "mtu")] == 9000
    assert any(isinstance(x, Note) for x in found)


def test_a_specification_accuses_nobody() -> None:
    found = read(golden_manifest(), "sichek_spec.yaml")
    assert [type(x) for x in found] == [Note]


def test_a_manifest_is_no_node_and_a_node_no_manifest() -> None:
    manifest = Document.of("m", (TOOLS / "manifest_example.json").read_bytes(), NOW)
    node = Document.of("n", (TOOLS / "sysfs_good.json").read_bytes(), NOW)
    assert node_facts().sniff(Head.of(manifest)) == 0
    assert golden_manifest().sniff(Head.of(node)) == 0
    with pytest.raises(ParseError):
        list(node_facts().read(manifest))


def test_smartctl_tells_low_spare_and_each_warning_bit() -> None:
    found = read(smartctl(), "smartctl_nvme.json")
    assert events(found) == [("nvme.spare_low", "nvme2"), ("nvme.critical_warning", "nvme2")]
    warning = [x for x in found if isinstance(x, Event)][1]
    assert "spare below" in warning.text
    assert "reliability degraded" in warning.text
    measured = {(x.device, x.metric): x.value for x in found if isinstance(x, Sample)}
    assert measured[("nvme2", "nvme_spare_ratio")] == pytest.approx(0.04)
    assert measured[("nvme2", "nvme_media_errors_total")] == 11


def test_a_drive_whose_log_cannot_be_read_is_told_and_not_taken_as_well() -> None:
    found = read(smartctl(), "smartctl_unreadable.json")
    assert events(found) == [("nvme.unreadable", "nvme4")]
    assert not [x for x in found if isinstance(x, Sample)]


def test_nvme_smart_log_text_json_and_list() -> None:
    text = read(smartctl(), "nvme_smart_log.txt")
    measured = {(x.device, x.metric): x.value for x in text if isinstance(x, Sample)}
    assert measured[("nvme3", "nvme_spare_ratio")] == 1
    assert measured[("nvme3", "nvme_temp_celsius")] == 38
    assert events(text) == []
    log = b'{"critical_warning": 0, "temperature": 311, "avail_spare": 5, "spare_thresh": 10}'
    kelvin = read(smartctl(), "nvme6-smart.json", log)
    assert events(kelvin) == [("nvme.spare_low", "nvme6")]
    assert {x.value for x in kelvin if isinstance(x, Sample) and "temp" in x.metric} == {38}
    listed = read(smartctl(), "nvme_list.json")
    facts = {(x.device, x.name): x.value for x in listed if isinstance(x, Fact)}
    assert facts[("nvme0", "firmware_version")] == "GDC7302Q"
