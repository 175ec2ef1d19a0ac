"""What is remembered of a node for a month: its faults, each burst once, its boots, its turns.

A state holds numbers and codes, no lines: of a node a few dozen notes at most, of which all but
grave faults are forgotten after a day.
"""

import re
from bisect import insort
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

import msgspec

from bigiron.detect.chains import entry_of, is_a
from bigiron.detect.incidents import REBOOT
from bigiron.detect.repeat.rows import LONGEST_S
from bigiron.model import Blame, Event, Finding, Severity

BURST_S = 180.0
"""Lines of one fault this close are one burst (NVSentinel's burst window: 3 minutes)."""

LASTING_S = 3 * 3600.0
LASTING = ("xid.74", "xid.79", "xid.95", "xid.109", "xid.119", "xid.120", "amdgpu.lost", "nvrm")
"""Faults that go on speaking until they are dealt with: silence of three hours parts them
(NVSentinel's sticky XIDs are 74, 79, 95, 109 and 119)."""

REMAP_S = 3600.0
"""Rows that are replaced within an hour are of one defect."""

RESET = "recovery.0"
REMAPS = ("xid.63",)
CRASHES = (
    *("kernel.panic", "kernel.oops", "kernel.gpf", "kernel.bug", "kernel.hard_lockup"),
    "mce.fatal",
)
ASKED = ("xid.154", "recovery")
"""What the driver asks for after a fault is no fault of its own."""

TOLD_ABOUT = ("slurm", "k8s", "check", "node")
"""What a scheduler makes of a node's fault is not another fault."""

OWN = frozenset({Blame.DEVICE, Blame.LINK, Blame.HOST, Blame.SWITCH})
"""Whose faults are a part's: a program's, the driver's or the building's are not repaired in it."""

AFTER_S = 86_400.0
"""So long that may be wanted which does not count itself: as the cause of what does."""

MOST_NOTES = 96
"""Of one node; the newest."""

AT_ONCE_S, AT_ONCE = 120.0, 3
"""The same fault on three nodes within two minutes has one cause elsewhere."""

LATELY_S = 900.0
"""Lines of one moment reach the hub this far apart."""

_NUMBERS = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{6,}\b|\d+", re.IGNORECASE)


class Note(NamedTuple):
    """One burst of one code on one part: when it began and ended (epoch seconds).

    ``unit`` is the part's identity where one was known, ``sign`` what tells kinds of crashes
    apart, ``cpu`` the core it names, ``void`` whether it does not count: it came while the node
    was out of service, or to many nodes at once.
    """

    first_s: float
    last_s: float
    code: str
    device: str = ""
    unit: str = ""
    sign: str = ""
    cpu: str = ""
    void: bool = False


class Turn(NamedTuple):
    """When a node was out of service (epoch seconds; ``until_s`` None: it is), in what words."""

    since_s: float
    until_s: float | None
    word: str


class Told(msgspec.Struct, frozen=True):
    """A claim, the part it is about, and until when the counts bear it (epoch seconds)."""

    finding: Finding
    unit: str
    until_s: float


class State(msgspec.Struct, frozen=True):
    """By node its notes and its turns, oldest first; by code who had it lately (epoch seconds,
    node); by key what is claimed; when the old was last thrown away (epoch seconds).
    """

    notes: dict[str, tuple[Note, ...]] = {}
    turns: dict[str, tuple[Turn, ...]] = {}
    lately: dict[str, tuple[tuple[float, str], ...]] = {}
    told: dict[str, Told] = {}
    tidied_s: float = 0.0


def wanted(event: Event) -> bool:
    """Whether an event is remembered at all."""
    if event.attrs.get("earlier_boot") == "yes" or event.attrs.get("severity_word") == "Non-fatal":
        return False
    if event.code in (REBOOT, RESET):
        return True
    return entry_of(event.code).severity is not Severity.INFO and not told_about(event.code)


@cache
def told_about(code: str) -> bool:
    """Whether a code is a scheduler's or a check's word on a fault."""
    return any(is_a(code, family) for family in TOLD_ABOUT)


@cache
def grave(code: str) -> bool:
    """Whether a fault is a part's own and bad enough to be counted."""
    entry = entry_of(code)
    bad = entry.severity.rank >= Severity.CRITICAL.rank and entry.blame in OWN
    return bad and not any(is_a(code, asked) for asked in ASKED)


@cache
def counts(code: str) -> bool:
    """Whether a rule counts a code, or what parts its incidents."""
    return code in (REBOOT, RESET) or code in REMAPS or crash(code) or grave(code)


@cache
def crash(code: str) -> bool:
    """Whether a code is a crash of the kernel."""
    return any(is_a(code, one) for one in CRASHES)


@cache
def gap_s(code: str) -> float:
    """The silence after which a fault of this code is a new one."""
    if code in REMAPS:
        return REMAP_S
    return LASTING_S if any(is_a(code, one) for one in LASTING) else BURST_S


def noted(event: Event, at_s: float, unit: str, *, void: bool) -> Note:
    """An event as a note of its own."""
    told = event.attrs.get("reason") or event.text
    sign = _NUMBERS.sub("#", told)[:60] if crash(event.code) else ""
    cpu = event.attrs.get("cpu", "") if sign else ""
    return Note(at_s, at_s, event.code, event.device, unit, sign, cpu, void)


def joined(notes: Sequence[Note], new: Note) -> list[Note]:
    """The notes with one more, as part of the burst it belongs to or by itself; in order."""
    gap, left = gap_s(new.code), list[Note]()
    for note in notes:
        same = (note.code, note.device, note.unit) == (new.code, new.device, new.unit)
        near = note.first_s - gap <= new.last_s and new.first_s <= note.last_s + gap
        if not (same and near):
            left.append(note)
            continue
        older = min(note, new)
        first_s, last_s = older.first_s, max(note.last_s, new.last_s)
        new = older._replace(first_s=first_s, last_s=last_s)
    insort(left, new)
    return left


def pruned(notes: Iterable[Note], now_s: float) -> tuple[Note, ...]:
    """Without what is too old for any rule; the newest where there are too many."""
    left = [n for n in notes if now_s - n.last_s <= (LONGEST_S if counts(n.code) else AFTER_S)]
    return tuple(left[-MOST_NOTES:])


def gathered(
    lately: dict[str, tuple[tuple[float, str], ...]],
    new: Iterable[tuple[str, Note]],
    now_s: float,
) -> dict[str, tuple[tuple[float, str], ...]]:
    """Who had each code lately, with the new notes."""
    after: dict[str, list[tuple[float, str]]] = {
        code: [one for one in same if now_s - one[0] <= LATELY_S] for code, same in lately.items()
    }
    for node, note in new:
        after.setdefault(note.code, []).append((note.first_s, node))
    return {code: tuple(sorted(set(same))) for code, same in sorted(after.items()) if same}


def at_once(lately: Sequence[tuple[float, str]], at_s: float) -> frozenset[str]:
    """The nodes that had a code within two minutes of a time; none unless they are many."""
    nodes = frozenset(node for time_s, node in lately if abs(time_s - at_s) <= AT_ONCE_S)
    return nodes if len(nodes) >= AT_ONCE else frozenset()


def voided(notes: Iterable[Note], code: str, at_s: float) -> tuple[Note, ...]:
    """The notes, those of a code near a time not to be counted any more."""
    return tuple(
        note._replace(void=True)
        if note.code == code and abs(note.first_s - at_s) <= AT_ONCE_S
        else note
        for note in notes
    )
