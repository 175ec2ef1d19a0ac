"""The reader of kernel logs in every form they are kept in (see ``log_lines``)."""

from collections.abc import Iterable, Iterator
from functools import cache

from bigiron.faults import Catalogue, catalogue
from bigiron.ingest import LINE_LIMIT, Document, Head, Reader, log_sniff, reader
from bigiron.ingest.log_events import HOST_LINES, Knowledge, LineEvents
from bigiron.ingest.log_scan import CHUNK_BYTES, Block, Prefilter, blocks, hits, prefilter
from bigiron.ingest.log_storm import STORM_CAP, Storms
from bigiron.model import Event, Fact, Note, Observation


class KernelLog:
    """Reads a log by one catalogue; ``search`` finds the lines worth reading."""

    def __init__(
        self,
        faults: Catalogue,
        *,
        search: Prefilter | None = None,
        chunk_bytes: int = CHUNK_BYTES,
        storm_cap: int = STORM_CAP,
    ) -> None:
        self.knowledge = Knowledge(faults)
        self.search = search or prefilter(self.knowledge.gates)
        self._chunk_bytes = chunk_bytes
        self._storm_cap = storm_cap

    def sniff(self, head: Head) -> float:
        """High for lines with a log's prefixes, middling for bare messages that mean a fault."""
        return log_sniff.score(head, self.knowledge)

    def read(self, document: Document) -> Iterator[Observation]:
        """Events and facts as the log has them, crash dumps in the order of time, then notes.

        Never raises on what the log holds.
        """
        lines = LineEvents(self.knowledge, document.name, document.now)
        with document.open() as file:
            yield from self.observe(blocks(file, self._chunk_bytes), lines, Storms(self._storm_cap))

    def observe(
        self, parts: Iterable[Block], lines: LineEvents, storms: Storms
    ) -> Iterator[Event | Fact | Note]:
        """The same for any run of blocks: what the follower of a growing log uses."""
        dumped: list[tuple[tuple[int, int], Event]] = []
        for seen in self._seen(parts, lines):
            if isinstance(seen, Fact):
                yield seen
                continue
            told = storms.take(seen)
            if told is not None and lines.dump.open:
                dumped.append((lines.dump.order, told))
            elif told is not None:
                yield told
        yield from (event for _, event in sorted(dumped, key=lambda one: (one[0], one[1].line)))
        yield from storms.rest(lines.source)
        for what, count in lines.notes.items():
            yield Note(lines.source, what, count)

    def _seen(self, parts: Iterable[Block], lines: LineEvents) -> Iterator[Event | Fact]:
        for block in parts:
            data = block.data
            if block.cut:
                lines.note(f"lines longer than {LINE_LIMIT:,} bytes, cut", block.cut)
            if lines.wants_next():
                yield from lines.next_line(data[: _line_end(data, 0)])
            if block.line <= HOST_LINES:
                lines.look_for_hosts(data, block.line)
            for line, raw, after in hits(block, self.search):
                yield from lines.read(line, raw)
                if lines.wants_next() and after < len(data):
                    yield from lines.next_line(data[after : _line_end(data, after)])
        yield from lines.finish()


def _line_end(data: bytes, start: int) -> int:
    end = data.find(b"\n", start)
    return end if end >= 0 else len(data)


@cache
def shipped() -> KernelLog:
    """The reader with the catalogue that ships with bigiron; building it takes a moment."""
    return KernelLog(catalogue())


@reader()
def kernel_log() -> Reader:
    """Kernel and system logs: kmsg, dmesg, journalctl, syslog, container logs, crash dumps."""
    return shipped()
