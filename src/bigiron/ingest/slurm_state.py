"""Slurm's words for a node's state, in long, compact and JSON form, and what they come to.

A state is a base (IDLE, ALLOCATED, MIXED, DOWN, ERROR, FUTURE, UNKNOWN) with flags. ``scontrol``
joins them with ``+``, JSON lists them, ``sinfo`` merges them into one word (``drained``, ``drng``)
and a suffix. Source: the manual pages of sinfo and scontrol, 20.11 to 25.11.
"""

from collections.abc import Iterable
from functools import lru_cache

SUFFIXES = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}

_MERGED = {
    "DRAINED": ("IDLE", "DRAIN"),
    "DRAINING": ("ALLOCATED", "DRAIN"),
    "DRNG": ("ALLOCATED", "DRAIN"),
    "FAILING": ("ALLOCATED", "FAIL"),
    "FAILG": ("ALLOCATED", "FAIL"),
    "COMPLETING": ("ALLOCATED", "COMPLETING"),
    "COMP": ("ALLOCATED", "COMPLETING"),
    "INVAL": ("IDLE", "DRAIN", "INVALID_REG"),
    "MAINT": ("MAINTENANCE",),
    "RESV": ("IDLE", "RESERVED"),
    "RESERVED": ("RESERVED",),
    "PLND": ("IDLE", "PLANNED"),
    "REBOOT": ("REBOOT_ISSUED",),
    "BOOT": ("REBOOT_ISSUED",),
    "REBOOT_ISSUED": ("REBOOT_ISSUED",),
    "POW_DN": ("POWERING_DOWN",),
    "POW_UP": ("POWERING_UP",),
    "POWER_UP": ("POWERING_UP",),
    "POWERED_OFF": ("POWERED_DOWN",),
    "ALLOC": ("ALLOCATED",),
    "MIX": ("MIXED",),
    "UNK": ("UNKNOWN",),
    "ERR": ("ERROR",),
    "FUTR": ("FUTURE",),
    "NO_RESPOND": ("NOT_RESPONDING",),
    "BLOCK": ("BLOCKED",),
    "NPC": ("PERFCTRS",),
}
_STATES = (
    ("maint", {"REBOOT_ISSUED", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN"}),
    ("down", {"DOWN", "ERROR"}),
    ("drain", {"DRAIN", "FAIL", "INVALID_REG"}),
    ("maint", {"MAINTENANCE", "MAINT"}),
    ("alloc", {"ALLOCATED", "MIXED", "COMPLETING"}),
    ("idle", {"IDLE", "RESERVED", "PLANNED", "BLOCKED", "PERFCTRS"}),
)
"""The first of these that holds one of a node's flags is its state."""


def flags_of(word: str) -> tuple[str, ...]:
    """The flags in one state as any tool writes it, in upper case: ``drng*`` or ``IDLE+DRAIN``."""
    return _flags(word.strip())


@lru_cache(maxsize=1024)
def _flags(word: str) -> tuple[str, ...]:
    found: list[str] = []
    for part in word.upper().split("+"):
        name = part.strip()
        marks = []
        while name and name[-1] in SUFFIXES:
            marks.append(SUFFIXES[name[-1]])
            name = name[:-1]
        if name:
            found += _MERGED.get(name, (name,))
        found += reversed(marks)
    return tuple(dict.fromkeys(found))


def flags_of_all(words: Iterable[str]) -> tuple[str, ...]:
    """The flags in a list of words, each once."""
    return tuple(dict.fromkeys(flag for word in words for flag in flags_of(word)))


def state_of(flags: Iterable[str]) -> str:
    """One of the model's words for a set of flags.

    A reboot or a power saving that someone asked for is ``maint``: the node is away on purpose.
    Otherwise down wins over drain, drain over a maintenance reservation. FAIL ("expected to
    fail", set by an administrator) takes no new work: drain.
    """
    found = frozenset(flags)
    return next((state for state, any_of in _STATES if found & any_of), "unknown")
