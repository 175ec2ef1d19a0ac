"""What InfiniBand tools print: states, rates, counters, and the faults that show by themselves."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader
from bigiron.ingest.ib_counters import ib_counters
from bigiron.ingest.ib_port import rate_gbps, word
from bigiron.ingest.iblinkinfo import iblinkinfo
from bigiron.ingest.ibstat import ibstat
from bigiron.ingest.ibswinfo import ibswinfo
from bigiron.ingest.mlxlink import mlxlink
from bigiron.model import CheckResult, CheckStatus, Event, Fact, Note, Observation, Sample

TOOLS = Path(__file__).parent.parent / "fixtures" / "tools"
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def read(reader: Reader, name: str) -> list[Observation]:
    document = Document.of(name, (TOOLS / name).read_bytes(), NOW)
    assert reader.sniff(Head.of(document)) >= 0.7
    return list(reader.read(document))


def samples(found: list[Observation]) -> dict[tuple[str, str, str], float]:
    return {(x.node, x.device, x.metric): x.value for x in found if isinstance(x, Sample)}


def events(found: list[Observation]) -> dict[str, Event]:
    return {x.device: x for x in found if isinstance(x, Event)}


def test_ibstat_tells_the_port_that_is_down_beside_its_like_and_the_stuck_one() -> None:
    found = read(ibstat(), "ibstat.txt")
    measured = samples(found)
    assert measured[("", "mlx5_0", "ib_state")] == 1
    assert measured[("", "mlx5_0", "ib_rate_bits_per_second")] == 400e9
    assert measured[("", "mlx5_2", "ib_physical_state")] == 2
    told = events(found)
    assert set(told) == {"mlx5_2", "mlx5_3"}  # mlx5_4 has no active port of its type
    assert told["mlx5_2"].code == "nic.down"
    assert told["mlx5_3"].attrs["state"] == "initializing"
    firmware = {x.device: x.value for x in found if isinstance(x, Fact) and "firm" in x.name}
    assert firmware["mlx5_1"] == "28.39.2048"


def test_ibstatus_and_ibv_devinfo() -> None:
    status = read(ibstat(), "ibstatus.txt")
    assert samples(status)[("", "mlx5_6", "ib_rate_bits_per_second")] == 200e9
    assert not events(status)
    devinfo = read(ibstat(), "ibv_devinfo.txt")
    assert samples(devinfo)[("", "mlx5_7", "ib_rate_bits_per_second")] == 200e9
    assert samples(devinfo)[("", "mlx5_7", "ib_state")] == 1
    assert samples(devinfo)[("", "mlx5_7", "ib_physical_state")] == 5


@pytest.mark.parametrize(
    ("said", "plain"),
    [
        ("4: ACTIVE", "active"),
        ("PORT_ACTIVE (4)", "active"),
        ("2: INIT", "initializing"),
        ("LINK_UP (5)", "linkup"),
        ("", ""),
    ],
)
def test_port_states_of_every_tool_are_one_word(said: str, plain: str) -> None:
    assert word(said) == plain


def test_rates() -> None:
    assert rate_gbps("100 Gb/sec (4X EDR)") == 100
    assert rate_gbps("2.5 Gb/sec") == 2.5
    assert rate_gbps("") is None


def test_iblinkinfo_says_which_link_could_be_wider() -> None:
    found = read(iblinkinfo(), "iblinkinfo.txt")
    measured = samples(found)
    assert measured[("gpu041", "mlx5_0", "ib_rate_bits_per_second")] == 425e9
    leaf = "MF0;leaf-r1:MQM9700/U1"
    assert measured[(leaf, "port2", "ib_rate_bits_per_second")] == 53.125e9
    (event,) = [x for x in found if isinstance(x, Event)]
    assert (event.node, event.device, event.code) == (leaf, "port2", "ib.rate_degraded")
    assert event.attrs["could_be"] == "4X 106.25 Gbps"
    assert event.attrs["peer"] == "gpu042 mlx5_0"
    assert any(isinstance(x, Note) and x.count == 1 for x in found)


def test_ibswinfo_fails_fans_and_supplies_by_their_own_word() -> None:
    found = read(ibswinfo(), "ibswinfo.txt")
    failed = [
        (x.check, x.device)
        for x in found
        if isinstance(x, CheckResult) and x.status is CheckStatus.FAIL
    ]
    assert failed == [("ibswinfo PSU status", "psu1"), ("ibswinfo fan status", "switch")]
    measured = samples(found)
    assert measured[("", "psu0", "node_psu_power_watts")] == 181
    assert ("", "psu1", "node_psu_power_watts") not in measured
    assert measured[("", "fan1", "node_fan_rpm")] == 0
    assert any(isinstance(x, Note) for x in found)


def test_perfquery_counts_octets_in_fours() -> None:
    measured = samples(read(ib_counters(), "perfquery.txt"))
    assert measured[("", "mlx5_2", "ib_symbol_errors_total")] == 12
    assert measured[("", "mlx5_2", "ib_xmit_bytes_total")] == 400
    assert measured[("", "mlx5_2", "ib_xmit_wait_total")] == 77


def test_ibqueryerrors_names_node_and_port_and_skips_sums() -> None:
    measured = samples(read(ib_counters(), "ibqueryerrors.txt"))
    assert measured == {
        ("gpu042", "mlx5_0", "ib_symbol_errors_total"): 19,
        ("gpu042", "mlx5_0", "ib_link_downed_total"): 2,
        ("gpu042", "mlx5_0", "ib_xmit_wait_total"): 5000,
        ("MF0;leaf-r1:MQM9700/U1", "port5", "ib_rcv_errors_total"): 8,
    }


def test_ethtool_statistics() -> None:
    measured = samples(read(ib_counters(), "ethtool_stats.txt"))
    assert measured[("", "", "ib_link_downed_total")] == 6
    assert measured[("", "", "ib_xmit_bytes_total")] == 900


def test_mlxlink_text_of_a_port_without_a_cable() -> None:
    found = read(mlxlink(), "mlxlink_mlx5_2.txt")
    told = [(x.code, x.device) for x in found if isinstance(x, Event)]
    assert told == [("nic.down", "mlx5_2"), ("ib.port_error", "mlx5_2")]
    assert samples(found)[("", "mlx5_2 module", "node_hwmon_temp_celsius")] == 54
    assert samples(found)[("", "mlx5_2", "ib_link_downed_total")] == 5


def test_mlxlink_json_of_a_good_port() -> None:
    found = read(mlxlink(), "mlxlink_mlx5_0.json")
    assert not [x for x in found if isinstance(x, Event)]
    assert samples(found)[("", "mlx5_0", "ib_rate_bits_per_second")] == 400e9
    facts = {x.name: x.value for x in found if isinstance(x, Fact)}
    assert facts["raw_physical_ber"] == 3e-9
    assert facts["fec"] == "Standard_RS-FEC"


@pytest.mark.parametrize("reader", [ibstat(), iblinkinfo(), ib_counters(), mlxlink(), ibswinfo()])
def test_text_of_something_else_is_refused(reader: Reader) -> None:
    document = Document.of("x", b"hello\nworld\n", NOW)
    assert reader.sniff(Head.of(document)) == 0
    with pytest.raises(ParseError):
        list(reader.read(document))
