"""Counters of RDMA ports, read so that nothing floods the kernel log.

Each file of ``counters/`` is a question to the adapter's firmware, and mlx5 logs every question
that is refused: adapters which a baseboard keeps to itself (ConnectX-7 of B200 and GB200 boards)
refuse all of them, and readers that ask again and again fill the log (gpud #1164 and #1167,
node_exporter #3434). So a port that refuses the first one is not asked for more, nor again within
a day; that costs one line a day. Files are found by listing: RoCE ports do not have all of them,
and what is not there is no zero.

InfiniBand's own counters stop at their maximum: 4, 8, 16 or 32 bits, as the kernel declares them
(Linux, drivers/infiniband/core/sysfs.c). One that stands there tells nothing any more and gives
no sample; a driver that counts further is recognised by a larger value.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from bigiron.collect.rdma_adapters import Port
from bigiron.errors import NoData, Permanent
from bigiron.host import Host
from bigiron.ingest.rdma_statistics import OF_DRIVERS
from bigiron.model import Event, Sample

REFUSED_S = 86_400.0
FAILED_S = 600.0
"""A port that told its counters before may come to itself again."""

PMA: dict[str, tuple[str, int, int]] = {
    "port_xmit_data": ("ib_xmit_bytes_total", 4, 32),
    "port_rcv_data": ("ib_rcv_bytes_total", 4, 32),
    "symbol_error": ("ib_symbol_errors_total", 1, 16),
    "link_error_recovery": ("ib_link_error_recovery_total", 1, 8),
    "link_downed": ("ib_link_downed_total", 1, 8),
    "port_rcv_errors": ("ib_rcv_errors_total", 1, 16),
    "port_xmit_discards": ("ib_xmit_discards_total", 1, 16),
    "local_link_integrity_errors": ("ib_local_link_integrity_errors_total", 1, 4),
    "excessive_buffer_overrun_errors": ("ib_excessive_buffer_overruns_total", 1, 4),
    "port_rcv_constraint_errors": ("ib_rcv_constraint_errors_total", 1, 8),
    "port_xmit_wait": ("ib_xmit_wait_total", 1, 32),
}
"""Of each file its metric, the factor to its unit, and the bits it is declared with. Data are
counted in units of four bytes, and come first: what has no other counter has these."""

_ENDLESS = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class _File:
    """``most`` is what it can count to."""

    name: str
    path: str
    metric: str
    factor: int
    most: int


@dataclass(slots=True)
class Counters:
    """What was refused and until when, which files were ever read, which count on and on."""

    files: dict[str, tuple[tuple[_File, ...], ...]] = field(default_factory=dict)
    refused: dict[str, float] = field(default_factory=dict)
    good: set[str] = field(default_factory=set)
    wide: set[str] = field(default_factory=set)

    def renew(self) -> None:
        """Ports may have changed: look at what files they have."""
        self.files.clear()

    def look(self, host: Host, port: Port, now_s: float) -> Iterator[Sample | Event]:
        """A port's counters; an event for those at their maximum, and for one that fails now."""
        if port.folder not in self.files:
            self.files[port.folder] = _files(port)
        full: list[_File] = []
        for group in self.files[port.folder]:
            yield from self._group(host, port, group, now_s, full)
        if full:
            yield _full(port, full)

    def _group(
        self, host: Host, port: Port, group: tuple[_File, ...], now_s: float, full: list[_File]
    ) -> Iterator[Sample | Event]:
        """The counters of one folder; those at their maximum are added to ``full``."""
        read = 0
        for file in group:
            if self.refused.get(file.path, 0.0) > now_s:
                continue
            try:
                value = _value(host, file)
            except NoData:
                continue
            except Permanent as error:
                yield from self._fails(port, (file,) if read else group, now_s, error)
                continue
            read += 1
            self.good.add(file.path)
            if value > file.most:
                self.wide.add(file.path)
            if value == file.most and file.path not in self.wide:
                full.append(file)
            else:
                yield Sample("", port.name, file.metric, float(value * file.factor))

    def _fails(
        self, port: Port, files: tuple[_File, ...], now_s: float, error: Permanent
    ) -> Iterator[Event]:
        """Not to be asked again for long; told where they could be read before."""
        known = any(file.path in self.good for file in files)
        for file in files:
            self.refused[file.path] = now_s + (FAILED_S if known else REFUSED_S)
        if known:
            text = f"{port.name} no longer tells its counters: {error}"
            yield Event("", "ib.cmd_failed", text, port.name, source="infiniband")


def _files(port: Port) -> tuple[tuple[_File, ...], ...]:
    """The files of a port that are worth reading; each metric from one of them."""
    found = [
        _File(name, f"{port.folder}/counters/{name}", metric, factor, (1 << bits) - 1)
        for name, (metric, factor, bits) in PMA.items()
        if name in port.counters
    ]
    known = {file.metric for file in found}
    more = []
    for metric, names in OF_DRIVERS:
        name = next((name for name in names if name in port.hw_counters), None)
        if name is not None and metric not in known:
            more.append(_File(name, f"{port.folder}/hw_counters/{name}", metric, 1, _ENDLESS))
    return tuple(found), tuple(more)


def _value(host: Host, file: _File) -> int:
    """Raises NoData, and Permanent where there is no number (``N/A (no PMA)``)."""
    said = host.read(file.path)
    if not (said.isascii() and said.isdigit()) or len(said) > 20:
        raise Permanent(f"{file.path}: {said[:40] or 'empty'}")
    return int(said)


def _full(port: Port, full: list[_File]) -> Event:
    which = ", ".join(f"{file.name} ({file.most:,})" for file in full)
    stand = (
        "stands at its maximum and counts" if len(full) == 1 else "stand at their maximum, count"
    )
    text = f"{port.name}: {which} {stand} no further until cleared: errors after it are not seen"
    attrs = {file.name: str(file.most) for file in full}
    return Event("", "ib.counter_full", text, port.name, source="infiniband", attrs=attrs)
