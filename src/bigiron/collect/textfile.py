"""What a site's own scripts say: the folder of node_exporter's textfile collector.

Each ``*.prom`` file is told at every look, as node_exporter does, until it has not been written for
longer than it should be: then the script behind it is dead, and its last word is no news. A file is
bad if it was at two looks, since a script may be writing it.
"""

import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from bigiron.collect import Seen, collector
from bigiron.collect.standing import standing
from bigiron.errors import NoData, Permanent
from bigiron.host import Host
from bigiron.ingest.openmetrics_page import Page, PageParser
from bigiron.model import Event, Note

FOLDERS = (
    "/var/lib/node_exporter/textfile_collector",
    "/var/lib/prometheus/node-exporter",
    "/var/lib/node_exporter",
)
"""Where packages and playbooks put it (prometheus-node-exporter of Debian is the second)."""
WHERE = "textfile:folders"
MOST_FILES = 100
MOST_BYTES = 1024 * 1024
STALE_S = 26 * 3600.0
"""A day's script and its slack."""
LATE = 5.0
"""A file that is written every minute is late after as many times its usual gap, not tomorrow."""
FEWEST_GAPS = 3


@dataclass(slots=True)
class _File:
    """What is known of a file: when it was written, how often it is, and whether it was bad."""

    parser: PageParser = field(default_factory=lambda: PageParser(fixed=True, vector=False))
    written_s: float = 0.0
    longest_s: float = 0.0
    gaps: int = 0
    bad: str = ""
    told: object = None
    notes: tuple[Note, ...] = ()

    def look(self, written_s: float) -> None:
        """When it was written last."""
        if self.written_s and written_s > self.written_s:
            self.longest_s = max(self.longest_s, written_s - self.written_s)
            self.gaps += 1
        self.written_s = written_s

    def stale_s(self) -> float:
        """Seconds after which it is."""
        usual = LATE * self.longest_s if self.gaps >= FEWEST_GAPS else STALE_S
        return min(STALE_S, max(300.0, usual))


@collector(every_s=60.0, timeout_s=15.0)
def textfile(host: Host) -> Iterator[Seen]:
    """Metrics that a site's scripts leave in the folder of node_exporter's textfile collector."""
    folders: tuple[str, ...] = host.handles.get(WHERE, FOLDERS)
    paths = [path for folder in folders for path in _files(host, folder)]
    if not paths:
        host.let_go("textfile")
        raise NoData("no folder of text files")
    known = host.held("textfile", dict[str, _File])
    for gone in known.keys() - set(paths):
        del known[gone]
    now_s = host.handles.get("textfile:clock", time.time)()
    wrong: list[str] = []
    for path in paths[:MOST_FILES]:
        yield from _told(host, path, known.setdefault(path, _File()), now_s, wrong)
    if len(paths) > MOST_FILES:
        wrong.append(f"{len(paths):,} files: only {MOST_FILES} are read")
    text = "; ".join(wrong[:5]) + (f"; and {len(wrong) - 5} more" if len(wrong) > 5 else "")
    events = [Event("", "node.textfile_bad", text, source="textfile")] if wrong else []
    yield from standing(host, "textfile").news(events)


def _files(host: Host, folder: str) -> list[str]:
    try:
        return [f"{folder}/{name}" for name in host.names(folder) if name.endswith(".prom")]
    except (NoData, Permanent):
        return []


def _told(host: Host, path: str, file: _File, now_s: float, wrong: list[str]) -> Iterator[Seen]:
    """A file's samples while it is fresh; what is the matter with it goes to ``wrong``."""
    try:
        found = host.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise Permanent(f"{path}: no regular file")  # noqa: TRY301
        file.look(found.st_mtime)
        age_s = now_s - file.written_s
        if age_s > file.stale_s() and not host.captured:
            wrong.append(f"{path}: not written for {_age(age_s)}")
            return
        page, problem = _page(host, path, file)
    except NoData:  # taken away this moment
        return
    except Permanent as error:
        page, problem = None, str(error)
    if problem and file.bad:
        wrong.append(problem)
    file.bad = problem
    if page is None:
        return
    if file.told is not page.inventory:
        file.told = page.inventory
        yield from page.devices()
        yield from page.facts(None)
    yield from page.samples(None)
    notes = tuple(note for note in page.notes(path) if "not exposition" not in note.what)
    if notes != file.notes:
        file.notes = notes
        yield from notes


def _page(host: Host, path: str, file: _File) -> tuple[Page, str]:
    """What a file holds, and with its line what is wrong with it. Raises NoData, Permanent."""
    data = host.part(path, None, MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise Permanent(f"{path}: larger than {MOST_BYTES:,} bytes")
    page = file.parser.parse(data)
    counts = page.counts
    if not counts.malformed:
        return page, ""
    lines = f"{counts.malformed} lines" if counts.malformed > 1 else "this line"
    return page, f"{path}:{counts.first_malformed}: {lines} cannot be read"


def _age(seconds: float) -> str:
    """``40 minutes``, ``3 days``."""
    for unit, size in (("days", 86_400), ("hours", 3600)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 60:.0f} minutes"
