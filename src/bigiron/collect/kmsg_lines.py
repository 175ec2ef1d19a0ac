"""From records of the kernel's ring to numbered lines, as the log parser reads them.

A line's number is its record's sequence. Dictionaries are left to whoever asks for them, a message
of several lines is told line by line, and the fragments of one line are put together.
"""

from dataclasses import dataclass, field
from itertools import repeat

from bigiron.collect.kmsg_ring import place, record
from bigiron.ingest.log_scan import Block

FRAGMENTS = 64
"""A line in more pieces than this is none."""
_NEWLINE = b"\\x0a"
_UNUSUAL = (_NEWLINE, b",c;", b",c,", b",+;", b",+,")
"""What a line that goes on elsewhere has, and others may have: those are then looked at."""


@dataclass(slots=True)
class Run:
    """Lines whose numbers follow one another from ``first``; ``raws`` are their records."""

    first: int
    lines: list[bytes] = field(default_factory=list)
    raws: list[bytes] = field(default_factory=list)

    def block(self) -> Block:
        """The lines, as the parser takes them."""
        data = b"".join(self.lines)
        return Block(data, self.first, len(data))


@dataclass(slots=True)
class Lines:
    """Takes records in order; ``next`` is the sequence that is expected, None: any.

    ``lost`` are missing between those that came, ``old`` had been read before, ``junk`` are no
    records; ``oldest`` and ``newest`` are the sequences that came, read before or not.
    """

    next: int | None
    runs: list[Run] = field(default_factory=list)
    lost: int = 0
    old: int = 0
    junk: int = 0
    oldest: int | None = None
    newest: int = -1
    _open: dict[bytes, tuple[Run, int]] = field(default_factory=dict)

    def take(self, raws: list[bytes]) -> None:
        """The next records."""
        if not self._plain(raws):
            self._each(raws)

    def _plain(self, raws: list[bytes]) -> bool:
        """All at once if each is one line and none is missing, which is what a flood is made of.

        Their sequences only grow, so that the first and the last tell.
        """
        first, last = (place(raws[0]), place(raws[-1])) if raws else (None, None)
        if first is None or last is None or last[0] - first[0] + 1 != len(raws):
            return False
        whole = b"".join(raws)
        if self.next not in (None, first[0]) or whole.count(b"\n") != len(raws):
            return False
        if not all(map(bytes.endswith, raws, repeat(b"\n"))) or any(
            map(whole.__contains__, _UNUSUAL)
        ):
            return False
        self.runs.append(Run(first[0], raws, raws))
        self.oldest, self.newest, self.next = first[0], last[0], last[0] + 1
        return True

    def _each(self, raws: list[bytes]) -> None:
        run: Run | None = None
        for raw in raws:
            at = place(raw)
            if at is None:
                self.junk += 1
                continue
            sequence, flag = at
            if self.oldest is None:
                self.oldest = sequence
            self.newest = sequence
            if self.next is not None and sequence != self.next:
                run = None
                if sequence < self.next:
                    self.old += 1
                    continue
                self.lost += sequence - self.next
            self.next = sequence + 1
            if run is None or _NEWLINE in raw:
                run = self._run(sequence)
            run.raws.append(raw)
            if flag in (b"c", b"+"):
                self._fragment(run, flag, raw)
            elif _NEWLINE in raw:
                self._several(run, sequence, raw)
                run = None
            else:
                run.lines.append(raw[: raw.find(b"\n") + 1] or raw + b"\n")

    def _run(self, sequence: int) -> Run:
        self.runs.append(Run(sequence))
        return self.runs[-1]

    def _several(self, run: Run, sequence: int, raw: bytes) -> None:
        """Each line of a message as one of its own, with what stands before the first."""
        head, _, rest = raw.partition(b";")
        first, *others = rest.partition(b"\n")[0].split(_NEWLINE)
        run.lines.append(head + b";" + first + b"\n")
        for text in filter(None, others):
            self.runs.append(Run(sequence, [head + b";" + text + b"\n"], [raw]))

    def _fragment(self, run: Run, flag: bytes, raw: bytes) -> None:
        """A piece of a line: its first one, or what is added to that of the same caller."""
        found = record(raw)
        if found is None:
            run.lines.append(b"\n")
            return
        begun = self._open.get(found.caller) if flag == b"+" else None
        if begun is None:
            run.lines.append(raw[: raw.find(b"\n") + 1] or raw + b"\n")
            self._open[found.caller] = run, len(run.lines) - 1
            return
        there, number = begun
        there.lines[number] = there.lines[number][:-1] + found.message + b"\n"
        run.lines.append(b"\n")


def unfinished(raws: list[bytes]) -> int:
    """How many records at the end are the beginning of a line that goes on."""
    for count, raw in enumerate(reversed(raws[-FRAGMENTS:]), 1):
        at = place(raw)
        if at is None or at[1] not in (b"c", b"+"):
            return 0
        if at[1] == b"c":
            return count
    return 0
