"""What the reason and state of a Slurm node say: a fault, an operator's wish, or nothing.

The controller writes some reasons itself, under its own user; they are told by their wording, as
SlurmUser may well be root. Everything else is a person's or a health check program's, and is kept
word for word. Source: slurm's src/slurmctld and src/interfaces/gres.c, 20.11 to 25.05.
"""

import re
from collections.abc import Iterator
from datetime import datetime

from bigiron.model import Event

OURS = "bigiron:"
"""Reasons that begin so are our own doing and say nothing new."""

_GRES = re.compile(
    r"gres/(?P<what>[\w/:.-]+) count (?:reported lower than configured|too low)"
    r" \((?P<found>\d+) < (?P<wanted>\d+)\)"
)
_WRITTEN_BY_SLURM = tuple(
    (re.compile(rf"(?:^|[:;,] ?){words}", re.IGNORECASE), code)
    for words, code in (
        (r"not responding", "slurm.not_responding"),
        (r"kill task failed", "slurm.kill_task_failed"),
        (r"prolog (?:error|failed|failure)", "slurm.prolog_failed"),
        (r"batch job complete failure", "slurm.prolog_failed"),
        (r"epilog (?:error|failed|failure)", "slurm.epilog_failed"),
        (r"low (?:realmemory|cpus|tmpdisk|socket)", "slurm.invalid_reg"),
        (r"node unexpectedly rebooted", "slurm.reboot"),
        (r"NHC\b|(?:node )?health ?check", "slurm.health_check"),
    )
)
"""At the beginning or after a colon, where Slurm appends; within a person's sentence the same
words mean what the person meant."""


def events_of(
    node: str,
    flags: tuple[str, ...],
    state: str,
    reason: str,
    by: str,
    since: datetime | None,
    where: tuple[str, int],
) -> Iterator[Event]:
    """What a node's state and reason come to, each code once, at the time the reason was set.

    Who drains a node may then stop or restart it: a node that is down under a person's drain, or
    in a reboot that was asked for, is told as ``slurm.node_drain`` and as nothing worse.
    ``where`` is the source and line. The attributes keep ``by`` and, for missing devices, the
    counts: none found of several usually means that the driver was not loaded when slurmd
    registered, some found that one has failed.
    """
    attrs = {"by": by} if by else {}
    ours = reason.startswith(OURS)
    serving = state in ("idle", "alloc")  # a reason that stayed behind is history
    codes = {} if ours or serving else dict(_from_reason(reason))
    if "INVALID_REG" in flags and not codes.keys() & {"slurm.gres_missing", "slurm.invalid_reg"}:
        codes["slurm.invalid_reg"] = {}
    if state == "down" and ("DRAIN" not in flags or codes):
        if "slurm.not_responding" not in codes:
            codes[_down_code(flags)] = {}
    elif not codes and not ours and (state in ("drain", "down") or "REBOOT_ISSUED" in flags):
        codes["slurm.node_drain"] = _what_for(flags, state)
    text = reason or "+".join(flags)
    for code, more in codes.items():
        yield Event(
            node=node,
            code=code,
            text=text,
            time=since,
            source=where[0],
            line=where[1],
            attrs={**attrs, **more},
        )


def _down_code(flags: tuple[str, ...]) -> str:
    return "slurm.not_responding" if "NOT_RESPONDING" in flags else "slurm.node_down"


def _from_reason(reason: str) -> Iterator[tuple[str, dict[str, str]]]:
    match = _GRES.search(reason)
    if match is not None:
        found, wanted = match["found"], match["wanted"]
        cause = "driver" if found == "0" else "hardware"
        yield (
            "slurm.gres_missing",
            {"gres": match["what"], "found": found, "configured": wanted, "suspect": cause},
        )
    for pattern, code in _WRITTEN_BY_SLURM:
        if pattern.search(reason):
            yield code, {}


def _what_for(flags: tuple[str, ...], state: str) -> dict[str, str]:
    """What someone took the node out for: work on it may well shut it down or restart it."""
    if "REBOOT_ISSUED" in flags:
        return {"for": "reboot"}
    return {"for": "work"} if state == "down" else {}
