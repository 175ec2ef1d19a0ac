"""Which Parquet segments there are, and which of them count.

``samples/2026-11-30/17-1764522000123456.parquet`` holds samples of 17:00 to 18:00 UTC, written at
that epoch microsecond. ``17-FIRST-LAST.parquet`` is one merged of all those written from FIRST to
LAST; while both it and they exist (a crash before they were removed) only the merged one counts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

SUFFIX = ".parquet"
UNFINISHED = ".part"
DAMAGED = ".damaged"


@dataclass(frozen=True, slots=True)
class Keep:
    """How long samples are buffered and kept."""

    flush_s: float = 60.0
    days: float = 30.0
    bytes: int = 20_000_000_000


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of samples of one hour, with the write times (epoch microseconds) it covers."""

    path: Path
    hour: datetime
    first: int
    last: int

    @property
    def ends(self) -> datetime:
        """No sample in it is of this time or later."""
        return self.hour + timedelta(hours=1)

    def covers(self, other: "Segment") -> bool:
        """Whether all that ``other`` holds is in here too."""
        if self.hour != other.hour or self.path == other.path:
            return False
        wider = (self.last - self.first) > (other.last - other.first)
        return wider and self.first <= other.first and other.last <= self.last


def path_of(folder: Path, hour: datetime, first: int, last: int) -> Path:
    """Where the segment of ``hour`` written from ``first`` to ``last`` lies."""
    span = f"{first}" if first == last else f"{first}-{last}"
    return folder / f"{hour:%Y-%m-%d}" / f"{hour:%H}-{span}{SUFFIX}"


def every(folder: Path) -> Iterator[Segment]:
    """Every segment, oldest hour first; files of other names are passed over."""
    for path in sorted(folder.glob(f"*/*{SUFFIX}")):
        segment = _parse(path)
        if segment is not None:
            yield segment


def counting(folder: Path) -> tuple[list[Segment], list[Segment]]:
    """The segments that count, and those that a merged one covers."""
    by_hour: dict[datetime, list[Segment]] = {}
    for segment in every(folder):
        by_hour.setdefault(segment.hour, []).append(segment)
    count: list[Segment] = []
    covered: list[Segment] = []
    for segments in by_hour.values():
        merged = [s for s in segments if s.first != s.last]
        for segment in segments:
            done = any(other.covers(segment) for other in merged)
            (covered if done else count).append(segment)
    return count, covered


def _parse(path: Path) -> Segment | None:
    hour, _, span = path.name.removesuffix(SUFFIX).partition("-")
    first, _, last = span.partition("-")
    try:
        day = datetime.strptime(f"{path.parent.name} {hour}", "%Y-%m-%d %H").replace(tzinfo=UTC)
        return Segment(path, day, int(first), int(last or first))
    except ValueError:
        return None
