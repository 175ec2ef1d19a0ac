"""From opened patterns to findings: who holds whom up, by how much, since when, in which jobs."""

from datetime import UTC, datetime
from math import exp

import numpy as np

from bigiron.detect import Block
from bigiron.detect.chance.multiplicity import cauchy
from bigiron.detect.straggler.decide import CHANGED_HOURS, PROGRAMS, chances
from bigiron.detect.straggler.jobs import Programs
from bigiron.detect.straggler.panel import (
    ACTIVE,
    COMPUTE,
    LOAD,
    PATTERNS,
    POWER,
    STREAMS,
    USED,
)
from bigiron.detect.straggler.state import SUSPECTED, State
from bigiron.faults import catalogue
from bigiron.model import ActionKind, Evidence, Finding, Recovery, Severity, Subject, When

NAME, FAULT = "straggler", "straggler"

MUCH_LOAD = 1.25
"""A load average so many times the peers' is worth a word."""


def claims(after: State, block: Block, programs: Programs) -> list[Finding | Recovery]:
    """Who straggles now."""
    del block
    rows = np.flatnonzero(after.tracks.opened.any(axis=1))
    return [_finding(after, int(row), programs) for row in rows]


def _finding(after: State, row: int, programs: Programs) -> Finding:
    tracks, node = after.tracks, after.nodes[row]
    opened = np.flatnonzero(tracks.opened[row])
    suspected = bool((tracks.opened[row] == SUSPECTED).any())
    since = _since(after, row)
    texts = [_saying(after, row, int(pattern), programs) for pattern in opened]
    if load := _load(after, row):
        texts.append(load)
    known = catalogue().find(FAULT)
    shown = sorted({stream for at in opened for stream in _STREAMS[PATTERNS[at].name]} | {LOAD})
    return Finding(
        NAME,
        FAULT,
        Severity.WARNING if suspected else Severity.INFO,
        Subject(node=node),
        since,
        tuple(texts),
        confidence=round(_confidence(after, row), 3),
        blame=known.blame,
        action=known.action if suspected else ActionKind.NONE,
        when=known.when if suspected else When.NEVER,
        evidence=tuple(
            one for stream in shown if (one := _evidence(after, row, stream, since)) is not None
        ),
        look=known.look,
    )


_STREAMS = {
    "idle": (USED,),
    "less": (ACTIVE, POWER),
    "more": (ACTIVE, POWER),
    "slow": (COMPUTE,),
}


def _since(after: State, row: int) -> datetime | None:
    """When the first of what is open began."""
    tracks = after.tracks
    opened = tracks.opened[row] > 0
    began = np.concatenate((tracks.level_since[row][opened], tracks.change_since[row][opened]))
    began = began[np.isfinite(began)]
    return datetime.fromtimestamp(float(began.min()), UTC) if began.size else None


def _confidence(after: State, row: int) -> float:
    """A half at the cutoff, towards 1 the less chance explains it."""
    every, _ = chances(after.tracks)
    p = float(cauchy(every[row : row + 1])[0])
    return 1 / (1 + (p / after.cut) ** 0.25) if p <= 1 and after.cut > 0 else 0.5


def _shown(after: State, row: int, stream: int) -> tuple[float, float, float] | None:
    """What the node, its peers and its own past show in the last hours, as an operator reads it;
    None if it is not told."""
    tracks = after.tracks
    own, plain = float(tracks.recent[row, stream]), float(tracks.recent_plain[row, stream])
    if not np.isfinite(own) or not np.isfinite(plain):
        return None
    base = float(tracks.base[row, stream])
    less = 1.0 if stream == LOAD else 0.0
    if STREAMS[stream].log:
        peer = plain * exp(-own)
        return plain - less, max(0.0, peer - less), max(0.0, peer * exp(base) - less)
    return plain, plain - own, plain - own + base


def _saying(after: State, row: int, pattern: int, programs: Programs) -> str:
    """One sentence: what shows, against whom, in which jobs, since when."""
    stream = _STREAMS[PATTERNS[pattern].name][0]
    shown = _shown(after, row, stream)
    node = after.nodes[row]
    if shown is None:
        return f"{node} holds its jobs up{_where(after, row, pattern, programs)}."
    text = _SAYINGS[PATTERNS[pattern].name](node, *shown)
    return f"{text}{_where(after, row, pattern, programs)}."


def _idle(node: str, value: float, peer: float, past: float) -> str:
    return (
        f"The GPUs of {node} idle {1 - value:.0%} of the time while the other ranks wait for them "
        f"(peers {1 - peer:.0%}, own past {1 - min(past, 1.0):.0%})"
    )


def _less(node: str, value: float, peer: float, past: float) -> str:
    return (
        f"The GPUs of {node} do less than those that wait for them: SMs active {value:.1%} of the "
        f"time (peers {peer:.1%}, own past {past:.1%}), and draw less power"
    )


def _more(node: str, value: float, peer: float, past: float) -> str:
    return (
        f"The GPUs of {node} compute while the others wait: SMs active {value:.1%} of the time "
        f"(peers {peer:.1%}, own past {past:.1%}), and they draw more power"
    )


def _slow(node: str, value: float, peer: float, past: float) -> str:
    return (
        f"The ranks on {node} compute {value:#.3g} s a step (peers {peer:#.3g} s, own past "
        f"{past:#.3g} s)"
    )


_SAYINGS = {"idle": _idle, "less": _less, "more": _more, "slow": _slow}


def _where(after: State, row: int, pattern: int, programs: Programs) -> str:
    """In which jobs, and since when."""
    tracks = after.tracks
    since = _since(after, row)
    dated = f", since {since:%Y-%m-%d %H:%M}" if since is not None else ""
    if tracks.programs[row, pattern] >= PROGRAMS:
        return f", in {int(tracks.programs[row, pattern])} different jobs{dated}"
    if tracks.change_hours[row, pattern] >= CHANGED_HOURS:
        job = programs.find(int(tracks.key[row]))
        named = f" {job.id}" if job is not None else ""
        return f", which began in the middle of job{named}{dated}"
    if tracks.opened[row, pattern] == SUSPECTED:
        return f", which began in the middle of a job{dated}"
    return f", in one job so far, which may be the job's own doing{dated}"


def _load(after: State, row: int) -> str:
    """A sentence on the host's load, where it is high."""
    shown = _shown(after, row, LOAD)
    if shown is None or shown[0] < MUCH_LOAD * max(shown[1], shown[2], 1.0):
        return ""
    value, peer, past = shown
    return f"Its load average is {value:.0f} (peers {peer:.0f}, own past {past:.0f})."


def _evidence(after: State, row: int, stream: int, since: datetime | None) -> Evidence | None:
    shown = _shown(after, row, stream)
    if shown is None:
        return None
    value, peer, past = (round(one, 4) for one in shown)
    one = STREAMS[stream]
    unit = {"power": "watts", "compute": "seconds", "load": "count"}.get(one.name, "ratio")
    text = f"{one.metric} {value:g} (peers {peer:g}, own past {past:g})"
    return Evidence(
        "sample", text, since, metric=one.metric, value=value, peer=peer, past=past, unit=unit
    )
