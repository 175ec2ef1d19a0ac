"""RDMA NIC counters as JSON: ``rdma statistic -j`` and AMD's ``nicctl show port statistics -j``.

Counter names differ by driver (mlx5, ionic, bnxt_re); each canonical metric takes the first name
that is present. Names: rdma-tool's output of these drivers; AMD device-metrics-exporter's NIC
mock data.
"""

from collections.abc import Iterator

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, json_text, reader
from bigiron.ingest.json_text import JsonMap, at
from bigiron.model import Device, Observation, Sample

OF_DRIVERS = (
    ("ib_rcv_bytes_total", ("rx_rdma_ucast_bytes", "rx_bytes", "rx_read_bytes")),
    ("ib_xmit_bytes_total", ("tx_rdma_ucast_bytes", "tx_bytes", "tx_write_bytes")),
    ("ib_rnr_nak_retry_total", ("rnr_nak_retry_err", "resp_tx_rnr_retry_err", "rnr_naks_rcvd")),
    ("roce_slow_restart_total", ("roce_slow_restart",)),
    ("ib_link_downed_total", ("link_downed",)),
    ("ib_symbol_errors_total", ("symbol_error",)),
    ("ib_out_of_sequence_total", ("out_of_sequence", "resp_rx_outouf_seq", "oos_drop_count")),
    (
        "ib_packet_sequence_errors_total",
        ("packet_seq_err", "req_rx_pkt_seq_err", "seq_err_naks_rcvd"),
    ),
    ("ib_local_ack_timeouts_total", ("local_ack_timeout_err", "to_retransmits")),
    ("roce_icrc_errors_total", ("rx_icrc_encapsulated",)),
)
"""Of each metric the names that drivers give it in their hardware counters."""
_PORT = (
    ("ib_rcv_bytes_total", ("octets_rx_ok", "octets_rx_all")),
    ("ib_xmit_bytes_total", ("octets_tx_ok", "octets_tx_all")),
    ("ib_rcv_errors_total", ("frames_rx_bad_all", "frames_rx_bad_fcs")),
    ("ib_xmit_discards_total", ("frames_tx_bad",)),
    ("ib_symbol_errors_total", ("rsfec_uncorrectable_word",)),
)


class RdmaStatistics:
    """Counters of each port."""

    def sniff(self, head: Head) -> float:
        """Certain by the key pairs that no other tool prints."""
        if json_text.has_keys(head, "ifname", "port") and "rdma" in head.text + head.name:
            return 0.85
        if json_text.has_keys(head, "ifname", "port") and (
            "rnr_" in head.text or "cqe" in head.text
        ):
            return 0.85
        return 0.9 if json_text.has_keys(head, "nic", "port", "statistics") else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """Ports in the order given."""
        value = json_text.load(document)
        seen = 0
        nics = at(value, "nic")
        for index, nic in enumerate(json_text.objects(nics)):
            seen += 1
            yield from _nic(document, f"nic{index}", nic)
        for port in json_text.objects(value) if nics is None else ():
            name = json_text.text(port.get("ifname"))
            if name:
                seen += 1
                yield from _counters(document, name, port, OF_DRIVERS)
        if not seen:
            raise ParseError(document.name, 0, "no port in these RDMA statistics")


@reader()
def rdma_statistics() -> Reader:
    """`rdma statistic -j` and `nicctl show port statistics -j`."""
    return RdmaStatistics()


def _nic(document: Document, name: str, nic: JsonMap) -> Iterator[Observation]:
    yield Device(document.node, name, "nic", json_text.text(nic.get("id")), vendor="AMD")
    for port in json_text.objects(nic.get("port")):
        yield from _counters(document, name, json_text.mapping(port.get("statistics")), _PORT)
        downs = json_text.number(at(port, "status", "number_of_link_down_events"))
        if downs is not None:
            yield Sample(document.node, name, "ib_link_downed_total", downs, document.now)


def _counters(
    document: Document, name: str, counters: JsonMap, names: tuple[tuple[str, tuple[str, ...]], ...]
) -> Iterator[Sample]:
    for metric, keys in names:
        found = next(
            (n for key in keys if (n := json_text.number(counters.get(key))) is not None), None
        )
        if found is not None:
            yield Sample(document.node, name, metric, found, document.now)
