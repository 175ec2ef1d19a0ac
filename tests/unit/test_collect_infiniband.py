"""Ports from sysfs: what RoCE does not have is absent, what is full is told, nothing floods."""

import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.collected import NAMES, Sick, captured, events, facts, golden, samples, sick

from bigiron.collect import Seen
from bigiron.collect.infiniband import infiniband
from bigiron.collect.rdma_adapters import Port
from bigiron.collect.rdma_counters import FAILED_S, REFUSED_S, Counters
from bigiron.errors import NoData
from bigiron.faults import shipped
from bigiron.host import Host
from bigiron.model import Event, Fact, Sample
from bigiron.signals import SIGNALS

PORTS = "/sys/class/infiniband/{}/ports/1/{}"


def look(host: Host) -> list[Seen]:
    return list(infiniband(host))


def said(host: Sick, adapter: str, name: str, content: str | int) -> None:
    host.put(PORTS.format(adapter, name), content)


@pytest.mark.parametrize("name", NAMES)
def test_what_it_says_of_captured_hosts(name: str) -> None:
    golden(infiniband, "infiniband", name)


@pytest.mark.parametrize("name", NAMES)
def test_every_metric_and_fault_is_in_its_catalogue(name: str) -> None:
    for one in look(captured(name)):
        assert not isinstance(one, Sample) or one.metric in SIGNALS
        assert not isinstance(one, Event) or one.code in shipped()
        assert not isinstance(one, Event | Fact | Sample) or one.time is None


def test_no_network_card_is_silent(tmp_path: Path) -> None:
    with pytest.raises(NoData):
        look(Host(root=tmp_path))


def test_facts_are_told_once_and_samples_always() -> None:
    host = sick("gb200x4")
    first, second = look(host), look(host)
    assert facts(first)["mlx5_0", "link_rate_gbps"] == 400.0
    assert facts(second) == {}
    states = [key for key in samples(second) if key[1] == "ib_state"]
    assert sorted(device for device, _ in states) == [f"mlx5_{i}" for i in range(6)]
    host.put("/sys/class/infiniband/mlx5_2/ports/1/rate", "200 Gb/sec (4X HDR)")
    assert facts(look(host)) == {("mlx5_2", "link_rate_gbps"): 200.0}


def test_what_roce_does_not_count_is_absent_not_zero() -> None:
    found = samples(look(captured("gb200x4")))
    assert ("mlx5_0", "ib_symbol_errors_total") in found
    assert ("mlx5_4", "ib_symbol_errors_total") not in found
    assert ("mlx5_4", "ib_link_downed_total") not in found
    assert found["mlx5_4", "roce_slow_restart_total"] == 0
    assert found["mlx5_4", "ib_xmit_bytes_total"] == 4 * 5_000_000_004


def test_broadcom_counts_by_its_own_names() -> None:
    found = samples(look(captured("mi300xx8")))
    assert found["bnxt_re3", "ib_rcv_bytes_total"] == 7_000_000_003
    assert found["bnxt_re3", "ib_packet_sequence_errors_total"] == 0
    assert ("bnxt_re3", "ib_out_of_sequence_total") not in found


def test_a_port_that_stays_down_is_told_and_one_that_flaps_is_counted() -> None:
    host = sick("gb200x4")
    look(host)
    said(host, "mlx5_3", "state", "1: DOWN")
    said(host, "mlx5_3", "phys_state", "3: Disabled")
    first = look(host)
    assert samples(first)["mlx5_3", "ib_state"] == 0
    assert events(first) == [], "links retrain: a sample is enough for now"
    assert events(look(host)) == []
    (event,) = [one for one in look(host) if isinstance(one, Event)]
    assert (event.code, event.device) == ("nic.down", "mlx5_3")
    assert "5 ports of its type are active" in event.text
    assert events(look(host)) == [], "and not at each look"
    said(host, "mlx5_3", "state", "4: ACTIVE")
    said(host, "mlx5_3", "phys_state", "5: LinkUp")
    said(host, "mlx5_3", "counters/link_downed", 1)
    host.put("/sys/class/infiniband/mlx5_3/device/net/ib3/carrier_changes", 4)
    after = look(host)
    assert events(after) == []
    assert samples(after)["mlx5_3", "ib_link_downed_total"] == 1
    assert samples(after)["mlx5_3", "ib_carrier_changes_total"] == 4


def test_a_port_without_subnet_manager_is_told() -> None:
    host = sick("gb200x4")
    said(host, "mlx5_1", "state", "2: INIT")
    assert [events(look(host)) for _ in range(3)] == [[], [], [("nic.down", "mlx5_1")]]


def test_counters_at_their_maximum_are_told_and_give_no_sample() -> None:
    host = sick("gb200x4")
    look(host)
    for name, most in (
        ("link_downed", 255),
        ("symbol_error", 65_535),
        ("port_xmit_wait", 2**32 - 1),
    ):
        said(host, "mlx5_0", f"counters/{name}", most)
    seen = look(host)
    (event,) = [one for one in seen if isinstance(one, Event)]
    assert (event.code, event.device) == ("ib.counter_full", "mlx5_0")
    assert event.text == (
        "mlx5_0: symbol_error (65,535), link_downed (255), port_xmit_wait (4,294,967,295) stand at "
        "their maximum, count no further until cleared: errors after it are not seen"
    )
    assert ("mlx5_0", "ib_link_downed_total") not in samples(seen)
    assert ("mlx5_0", "ib_link_error_recovery_total") in samples(seen)
    assert events(look(host)) == []


def test_a_driver_that_counts_further_is_never_full() -> None:
    host = sick("gb200x4")
    for value in (256, 255):
        said(host, "mlx5_0", "counters/link_downed", value)
        seen = look(host)
        assert events(seen) == []
        assert samples(seen)["mlx5_0", "ib_link_downed_total"] == value


def asked(host: Sick) -> list[str]:
    """Which counters were read since it was last asked."""
    found = [path for path in host.read_paths if re.search(r"/(?:hw_)?counters/", path)]
    host.read_paths.clear()
    return found


def test_an_adapter_that_refuses_is_asked_once_a_day() -> None:
    host = sick("gb200x4")
    for name in host.names(PORTS.format("mlx5_0", "counters")):
        said(host, "mlx5_0", f"counters/{name}", "N/A (no PMA)")
    seen = look(host)
    first = [path for path in asked(host) if "mlx5_0" in path]
    assert len([path for path in first if "/counters/" in path]) == 1
    assert ("mlx5_0", "ib_link_downed_total") not in samples(seen)
    assert samples(seen)["mlx5_0", "ib_rnr_nak_retry_total"] == 0
    assert samples(seen)["mlx5_0", "ib_state"] == 1
    assert events(seen) == []
    look(host)
    assert not [path for path in asked(host) if "mlx5_0" in path and "/counters/" in path]


def _port(*names: str) -> Port:
    at = "/sys/class/infiniband/mlx5_0/ports/1"
    return Port("mlx5_0", "1", at, "InfiniBand", 2, names, ())


def test_one_that_answered_before_is_told_when_it_fails_and_asked_again() -> None:
    host = sick("gb200x4")
    counters, port = Counters(), _port("symbol_error", "link_downed")
    assert len(list(counters.look(host, port, 0.0))) == 2
    said(host, "mlx5_0", "counters/symbol_error", "N/A (no PMA)")
    assert events(counters.look(host, port, 30.0)) == [("ib.cmd_failed", "mlx5_0")]
    asked(host)
    assert list(counters.look(host, port, 60.0)) == []
    assert asked(host) == []
    said(host, "mlx5_0", "counters/symbol_error", 0)
    assert len(list(counters.look(host, port, 31.0 + FAILED_S))) == 2


def test_one_file_that_is_refused_costs_no_other() -> None:
    host = sick("gb200x4")
    counters, port = Counters(), _port("symbol_error", "link_downed", "port_xmit_wait")
    said(host, "mlx5_0", "counters/link_downed", "")
    for now_s in (0.0, 30.0):
        found = samples(counters.look(host, port, now_s))
        metrics = [metric for _, metric in found]
        assert metrics == ["ib_symbol_errors_total", "ib_xmit_wait_total"]
    assert len([path for path in asked(host) if path.endswith("link_downed")]) == 1
    assert len(list(counters.look(host, port, 1.0 + REFUSED_S))) == 2
    assert len([path for path in asked(host) if path.endswith("link_downed")]) == 1


def test_module_memory_and_vpd_are_never_read() -> None:
    host = sick("gb200x4")
    for name in ("vpd", "rom", "resource0", "config"):
        host.put(f"/sys/class/infiniband/mlx5_0/device/{name}", b"")
    assert samples(look(host))["mlx5_0 module", "node_hwmon_temp_celsius"] == 48
    read = {path.rpartition("/")[2] for path in host.read_paths}
    assert not read & {"vpd", "rom", "resource0", "config", "eeprom"}


def test_a_dark_port_has_no_module_to_ask_for_its_heat() -> None:
    host = sick("gb200x4")
    said(host, "mlx5_0", "state", "1: DOWN")
    found = samples(look(host))
    assert ("mlx5_0 module", "node_hwmon_temp_celsius") not in found
    assert found["mlx5_0 asic", "node_hwmon_temp_celsius"] == 61


def test_heat_is_not_asked_for_at_each_look() -> None:
    host = captured("gb200x4")
    assert any(metric == "node_hwmon_temp_celsius" for _, metric in samples(look(host)))
    assert not any(metric == "node_hwmon_temp_celsius" for _, metric in samples(look(host)))


def test_an_adapter_that_goes_is_no_longer_told() -> None:
    host = sick("gb200x4")
    look(host)
    host.remove(host.real("/sys/class/infiniband/mlx5_3"))
    host.remove("/sys/class/infiniband/mlx5_3")
    look(host)
    assert ("mlx5_3", "ib_state") not in samples(look(host))


def test_a_second_port_and_functions_lent_out() -> None:
    host = sick("gb200x4")
    ports = "/sys/class/infiniband/mlx5_0/ports"
    for name in ("state", "phys_state", "rate", "link_layer"):
        host.put(f"{ports}/2/{name}", host.read(f"{ports}/1/{name}"))
    host.put("/sys/class/infiniband/mlx5_1/device/physfn", b"")
    seen = look(host)
    assert samples(seen)["mlx5_0:2", "ib_state"] == 1
    assert facts(seen)["mlx5_0:2", "link_layer"] == "InfiniBand"
    assert ("mlx5_1", "ib_state") not in samples(seen)


NOISE = st.one_of(
    st.binary(max_size=64), st.sampled_from([b"4: ACTIVE", b"255", b"400 Gb/sec", b"-1"])
)
FILES = (
    *("fw_ver", "node_desc", "node_guid", "ports/1/state", "ports/1/phys_state", "ports/1/rate"),
    *("ports/1/counters/link_downed", "ports/1/counters/symbol_error", "ports/1/gids/0"),
    *("ports/1/hw_counters/out_of_sequence", "ports/2/state", "ports/x/rate"),
)


@given(
    st.dictionaries(st.sampled_from(FILES), NOISE),
    st.dictionaries(
        st.sampled_from(("operstate", "speed", "mtu", "carrier_changes", "flags")), NOISE
    ),
)
def test_whatever_its_files_hold_it_says_something_or_nothing(
    files: dict[str, bytes], net: dict[str, bytes]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        card = Path(folder) / "sys/devices/pci0000:00/0000:01:00.0"
        for base, written in ((card / "infiniband/mlx5_0", files), (card / "net/ib0", net)):
            for name, data in written.items():
                (base / name).parent.mkdir(parents=True, exist_ok=True)
                (base / name).write_bytes(data)
            base.mkdir(parents=True, exist_ok=True)
            (base / "device").symlink_to("../..")
        for kind, name in (("infiniband", "mlx5_0"), ("net", "ib0")):
            at = Path(folder) / "sys/class" / kind
            at.mkdir(parents=True)
            to = f"../../devices/pci0000:00/0000:01:00.0/{kind}/{name}"
            (at / name).symlink_to(to)
        host = Host(root=Path(folder))
        for _ in range(4):
            for one in look(host):
                assert not isinstance(one, Sample) or one.metric in SIGNALS
