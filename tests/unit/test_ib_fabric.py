"""A fabric in text: ibdiagnet's counters, a manager's list of bad ports, ibnetdiscover -p."""

from datetime import UTC, datetime

import pytest

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader
from bigiron.ingest.ib_fabric import ib_bad_ports, ibdiagnet_counters, ibnetdiscover
from bigiron.model import Event, Note, Observation, Sample

NOW = datetime(2026, 11, 30, tzinfo=UTC)
RULE = "-" * 55
COUNTERS = f"""{RULE}
Port=1 Lid=0x1a03 GUID=0x00a1b2c3d4e50001 Device=4129 Port Name=gpu042/U1/B5D0F0/0/0
{RULE}
symbol_error_counter_extended=0x000000000000001f
port_rcv_errors_extended=0x0000000000000002
port_rcv_data_extended=0x00000000deadbeef
{RULE}
Port=31 Lid=0x0421 GUID=0x00a1b2c3d4e50002 Device=54000 Port Name=leaf-r2/P31
{RULE}
link_error_recovery_counter_extended=0x000000000000000b
"""
BAD = """# NodeGUID, PortNum, NodeDesc, PeerNodeGUID, PeerPortNum,  PeerNodeDesc, {Cond}, TimeStamp
0x00a1b2c3d4e50002, 31, "leaf-r2", 0x00a1b2c3d4e50003, 7, "spine-s1, upper", {FLAPPING}, \
Tue Mar 17 14:00:37 2026
0x00a1b2c3d4e50003, 7, "spine-s1, upper", 0x00a1b2c3d4e50002, 31, "leaf-r2", {FLAPPING}, \
Tue Mar 17 14:00:37 2026
0x00a1b2c3d4e50004, 9, "leaf-r3", 0x00a1b2c3d4e50005, 1, "gpu017 mlx5_0", {HIGH_BER}, soon
0x00a1b2c3d4e50004, nine
"""
LINKS = """CA   134  1 0x00a1b2c3d4e50001 4x NDR - SW  1719 10 0x00a1b2c3d4e50002 \
( 'gpu042 mlx5_0' - 'leaf-r2' )
SW  1719 10 0x00a1b2c3d4e50002 4x NDR - CA   134  1 0x00a1b2c3d4e50001 \
( 'leaf-r2' - 'gpu042 mlx5_0' )
SW  1719 37 0x00a1b2c3d4e50002 4x ???                                    'leaf-r2'
"""


def read(reader: Reader, text: str) -> list[Observation]:
    document = Document.of("fabric.txt", text.encode(), NOW)
    assert reader.sniff(Head.of(document)) >= 0.9
    return list(reader.read(document))


def notes(seen: list[Observation]) -> list[int]:
    return [note.count for note in seen if isinstance(note, Note)]


def test_counters_are_hexadecimal_and_belong_to_the_port_above_them() -> None:
    seen = read(ibdiagnet_counters(), COUNTERS)
    assert [(s.node, s.device, s.metric, s.value) for s in seen if isinstance(s, Sample)] == [
        ("gpu042", "hca1_port1", "ib_symbol_errors_total", 31),
        ("gpu042", "hca1_port1", "ib_rcv_errors_total", 2),
        ("leaf-r2", "port31", "ib_link_error_recovery_total", 11),
    ]
    assert notes(seen) == [1]


def test_a_bad_link_is_told_once_and_by_its_condition() -> None:
    seen = read(ib_bad_ports(), BAD)
    assert [(e.code, e.node, e.device, e.time) for e in seen if isinstance(e, Event)] == [
        ("ib.flap", "leaf-r2", "port31", datetime(2026, 3, 17, 14, 0, 37, tzinfo=UTC)),
        ("ib.port_error", "leaf-r3", "port9", NOW),
    ]
    assert notes(seen) == [1]


def test_links_have_rates_and_ports_without_a_peer_are_counted() -> None:
    seen = read(ibnetdiscover(), LINKS)
    rates = {
        (s.node, s.device): s.value
        for s in seen
        if isinstance(s, Sample) and s.metric == "ib_rate_bits_per_second"
    }
    assert rates == {("gpu042", "mlx5_0"): 400e9, ("leaf-r2", "port10"): 400e9}
    assert notes(seen) == [1]


@pytest.mark.parametrize("reader", [ibdiagnet_counters(), ib_bad_ports(), ibnetdiscover()])
def test_text_of_something_else_is_left_alone(reader: Reader) -> None:
    document = Document.of("x", b"hello\nPort=1 of nothing\nCA 1\n", NOW)
    assert reader.sniff(Head.of(document)) == 0.0


@pytest.mark.parametrize("reader", [ibdiagnet_counters(), ibnetdiscover()])
def test_nothing_of_use_is_refused(reader: Reader) -> None:
    with pytest.raises(ParseError):
        list(reader.read(Document.of("x", b"hello\n", NOW)))
