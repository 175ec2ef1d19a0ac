"""The rules for repeat offenders, each a row: what is counted, how often, how long, who says so."""

from enum import StrEnum
from typing import NamedTuple

DAY_S = 86_400.0


class Counts(StrEnum):
    """What a rule counts."""

    FATAL = "fatal"
    """Incidents after which the part cannot go on."""
    GRAVE = "grave"
    """Those, and the critical ones that a reset, a restart or a person ends."""
    REMAP = "remap"
    """Memory rows that a GPU replaced."""
    CRASH = "crash"
    """Crashes of the kernel."""
    TURN = "turn"
    """Times out of service, after a grave incident."""


class Apart(StrEnum):
    """What must lie between two incidents for both to count."""

    TIME = "time"
    """Silence (``past.gap_s``)."""
    RESTART = "restart"
    """A boot of the node or a reset of the part."""
    TURN = "turn"
    """The node was taken out of service and put back."""


class Rule(NamedTuple):
    """``least`` incidents or more of a part, or of a node, within ``window_s``.

    ``alike``: of one code. ``kinds``: at least so many different ones (codes, signatures).
    ``others``: at least so many of other parts than the worst one. ``fault`` is the catalogue's
    entry, which has what is asked for.
    """

    name: str
    fault: str
    counts: Counts
    least: int
    window_s: float
    source: str
    of_node: bool = False
    alike: bool = False
    apart: Apart = Apart.TIME
    kinds: int = 1
    others: int = 0


PART = "repeat_part"
NODE = "repeat_node"
REMAP = "repeat_remap"

RULES = (
    Rule(
        "returned",
        PART,
        Counts.GRAVE,
        2,
        14 * DAY_S,
        "a drain was right if the same fault comes again within 14 days (methods.md 6)",
        alike=True,
        apart=Apart.TURN,
    ),
    Rule(
        "returned twice",
        PART,
        Counts.GRAVE,
        3,
        30 * DAY_S,
        "the same over the window of 28 to 30 days in which lemons are counted (arXiv 2410.21680)",
        alike=True,
        apart=Apart.TURN,
    ),
    Rule(
        "after reset",
        PART,
        Counts.GRAVE,
        3,
        7 * DAY_S,
        "gpud: two reboots that did not cure it, then hardware inspection (pull 1126)",
        alike=True,
        apart=Apart.RESTART,
    ),
    Rule(
        "fatal",
        PART,
        Counts.FATAL,
        5,
        DAY_S,
        "NVSentinel: RepeatedXIDErrorOnSameGPU, 5 in 24 h, then contact support",
    ),
    Rule(
        "remapped",
        REMAP,
        Counts.REMAP,
        2,
        7 * DAY_S,
        "repeated Xid 63 in 7 days (methods.md 3.3); DCGM: more than one page retired in a week",
    ),
    Rule(
        "fatal of a node",
        NODE,
        Counts.FATAL,
        5,
        7 * DAY_S,
        "NVSentinel: MultipleRemediations, 5 of a node in 7 days, then contact support (#127)",
        of_node=True,
        others=2,
    ),
    Rule(
        "out of service",
        NODE,
        Counts.TURN,
        3,
        7 * DAY_S,
        "Guard: a node triaged three times in a week is retired",
        of_node=True,
    ),
    Rule(
        "crashes",
        NODE,
        Counts.CRASH,
        5,
        30 * DAY_S,
        "Google's CCKC: 5 kernel crashes of 3 kinds in 30 days, mostly on one core",
        of_node=True,
        kinds=3,
    ),
)

LONGEST_S = max(rule.window_s for rule in RULES)

CORE_SHARE = 0.8
"""Google's CCKC: so many of the crashes on one core say that it is the core."""
