"""What stood against each node at each hour of a replayed recording, and what became of it."""

import csv
import json
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from bigiron.nodesets import unfold

HOUR_S, DAY_S = 3600.0, 86_400.0
HORIZON_D = {"24h": 1.0, "7d": 7.0}
SINCE_START_S = DAY_S
"""The first day is left out: detectors have no past of their own yet."""
PAST_S = 30 * DAY_S
PARTS = 4
SIGNS_S = 900.0
"""What opens so soon before a failure is taken to be of it."""
APART_S = DAY_S
"""As in ``decide.judge``: hard evidence again within a day is the same incident."""
HARD = ("critical", "fatal")
CONFIDENT = 0.5
FOREVER = float("inf")


class Evidence(NamedTuple):
    """What counts of a finding."""

    fault: str
    severity: str
    confidence: float


class Stretch(NamedTuple):
    """A finding as it stood from then to then, seconds since 1970."""

    since_s: float
    until_s: float
    id: str
    evidence: Evidence


class Cell(NamedTuple):
    """Hours of one node that were alike.

    ``part`` numbers the quarters of the recording. ``failed`` is, by horizon, whether the node
    was broken or broke within it; None where the recording ends before that is known. ``down``:
    it was broken at that hour.
    """

    node: str
    part: int
    evidence: tuple[Evidence, ...]
    incidents: int
    down: bool
    failed: tuple[bool | None, ...]


@dataclass(slots=True)
class History:
    """A replayed recording: hours by cell, and how much of what there was."""

    name: str
    nodes: int
    days: float
    failures: int
    hours: Counter[Cell] = field(default_factory=Counter)
    findings: list[tuple[Evidence, bool]] = field(default_factory=list)
    """Each finding at its worst, and whether its node was broken then or within 7 days."""

    @property
    def node_days(self) -> float:
        """How much was watched."""
        return self.nodes * self.days


def history(recording: Path, replayed: Path) -> History:
    """The rows of a recording and of what ``bigiron replay`` wrote of it."""
    about = tomllib.loads((recording / "recording.toml").read_text("utf-8"))
    start, end = _seconds(about["start"]), _seconds(about["end"])
    with (recording / "nodes.csv").open(encoding="utf-8", newline="") as file:
        nodes = [row["node"] for row in csv.DictReader(file)]
    outages = _outages(recording, end)
    stretches = _stretches(replayed, outages, end)
    failures = sum(start <= a < end for spells in outages.values() for a, _ in spells)
    told = History(about["name"], len(nodes), (end - start) / DAY_S, failures)
    for node in nodes:
        _hours(told, node, stretches.get(node, []), outages.get(node, []), (start, end))
        told.findings += _findings(stretches.get(node, []), outages.get(node, []))
    return told


def _hours(
    told: History,
    node: str,
    stretches: list[Stretch],
    outages: list[tuple[float, float]],
    span: tuple[float, float],
) -> None:
    ends = _incidents(stretches)
    start, end = span
    for hour in range(int(SINCE_START_S / HOUR_S), int((end - DAY_S - start) / HOUR_S) + 1):
        now = start + hour * HOUR_S
        stands = sorted(s.evidence for s in stretches if s.since_s <= now < s.until_s)
        down = any(a <= now < b for a, b in outages)
        failed = tuple(
            None
            if now + days * DAY_S > end
            else any(a < now + days * DAY_S and now < b for a, b in outages)
            for days in HORIZON_D.values()
        )
        incidents = sum(now - PAST_S < at <= now for at in ends)
        part = int(PARTS * (now - start) / (end - start))
        told.hours[Cell(node, part, tuple(stands), incidents, down, failed)] += 1


def _findings(
    stretches: list[Stretch], outages: list[tuple[float, float]]
) -> Iterator[tuple[Evidence, bool]]:
    worst: dict[str, Stretch] = {}
    for stretch in stretches:
        known = worst.get(stretch.id)
        if known is None or _rank(stretch) > _rank(known):
            worst[stretch.id] = stretch
    for stretch in worst.values():
        week = stretch.since_s + 7 * DAY_S
        yield stretch.evidence, any(a < week and stretch.since_s < b for a, b in outages)


def _rank(stretch: Stretch) -> int:
    return ("warning", *HARD).index(stretch.evidence.severity)


def _incidents(stretches: Iterable[Stretch]) -> list[float]:
    """When hard evidence was over, that of one incident once."""
    spells = sorted(
        (s.since_s, s.until_s)
        for s in stretches
        if s.evidence.severity in HARD and s.evidence.confidence >= CONFIDENT
    )
    ends: list[float] = []
    for _, until in _merged(spells, 0.0):
        if ends and until - ends[-1] < APART_S:
            ends.pop()
        ends.append(until)
    return [end for end in ends if end < FOREVER]


def _stretches(
    replayed: Path, outages: dict[str, list[tuple[float, float]]], end: float
) -> dict[str, list[Stretch]]:
    """The findings that verdicts rest on, by node, each with its changes one after another."""
    counted = {id_ for line in _lines(replayed / "verdicts.jsonl") for id_ in line["findings"]}
    changes: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in _lines(replayed / "findings.jsonl"):
        if line["id"] in counted:
            changes[line["id"]].append(line)
    found: dict[str, list[Stretch]] = defaultdict(list)
    for id_, lines in changes.items():
        node = lines[0]["subject"]["node"]
        until = _seconds(lines[-1]["time"]) if lines[-1]["change"] == "close" else FOREVER
        opened = _seconds(lines[0]["time"])
        until = min(until, _given_back(opened, outages.get(node, []), end, until))
        times = [_seconds(line["time"]) for line in lines]
        for line, since, after in zip(lines, times, [*times[1:], until], strict=True):
            if line["change"] == "close" or line["severity"] == "info" or since >= until:
                continue
            evidence = Evidence(line["fault"], line["severity"], line["confidence"])
            found[node].append(Stretch(since, min(after, until), id_, evidence))
    return found


def _given_back(
    opened_s: float, outages: list[tuple[float, float]], end: float, closed_s: float
) -> float:
    """When whoever gave the node back would have closed it, which nobody does in a recording.

    The signs of a failure end with its repair; what never closed by itself, with any repair.
    """
    for since, until in outages:
        own = since - SIGNS_S <= opened_s
        if opened_s < until < end and (own or closed_s == FOREVER):
            return until
    return FOREVER


def _outages(recording: Path, end: float) -> dict[str, list[tuple[float, float]]]:
    """When each node was broken: as the truth has it, and while the scheduler called it down."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    truth = recording / "truth.jsonl"
    for line in _lines(truth) if truth.exists() else ():
        if line["label"] == "fault" and line["fails"] and line["subject"].get("node"):
            until = _seconds(line["end"]) if line["end"] else end
            found[line["subject"]["node"]].append((_seconds(line["fails"]), until))
    for node, since, until in _down(recording, end):
        found[node].append((since, until))
    return {node: _merged(sorted(spells), HOUR_S) for node, spells in found.items()}


def _down(recording: Path, end: float) -> Iterator[tuple[str, float, float]]:
    path = recording / "nodestate.csv"
    if not path.exists():
        return
    planned = _planned(recording / "maintenance.csv")
    since: dict[str, float] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            node, now = row["node"], _seconds(row["time"])
            if row["state"] == "down":
                since.setdefault(node, now)
            elif node in since and row["state"] in ("idle", "alloc", "resume"):
                begun = since.pop(node)
                if not any(a <= begun <= b for a, b in planned.get(node, ())):
                    yield node, begun, now
    for node, begun in since.items():
        yield node, begun, end


def _planned(path: Path) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                for node in unfold(row["nodes"]):
                    found[node].append((_seconds(row["start"]), _seconds(row["end"])))
    return found


def _merged(spells: list[tuple[float, float]], gap_s: float) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for since, until in spells:
        if merged and since <= merged[-1][1] + gap_s:
            merged[-1] = (merged[-1][0], max(merged[-1][1], until))
        else:
            merged.append((since, until))
    return merged


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _seconds(time: str | datetime) -> float:
    at = datetime.fromisoformat(time) if isinstance(time, str) else time
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
