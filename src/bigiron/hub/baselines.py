"""The usual methods over a recording, told in replay's form so that score judges all alike."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bigiron.analyze import baselines as plain
from bigiron.analyze.baselines_many import SMALLEST_JOB, isolation, mahalanobis, minder
from bigiron.analyze.bocpd import change_points
from bigiron.errors import Permanent
from bigiron.hub.baseline_data import HOUR_S, Grid, by_machine, grids
from bigiron.ingest.kernel_log import shipped
from bigiron.ingest.recording import About, Recording
from bigiron.ingest.recording_tables import Tables
from bigiron.model import Job
from bigiron.signals import Bad, Kind

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Key = tuple[str, str]

CALM_S = 86_400.0
PATIENCE = 3
NO_MEASURE = frozenset({"node_boot_time_seconds"})
"""A moment, not a measure of anything that can be too high."""

MINDER_WINDOW = 8
MINDER_EVERY = 4
"""Minder looks at 8 samples; at telemetry's step, not each second, so its 4 minutes of continuity
are two looks in a row, four samples apart."""


@dataclass(slots=True)
class Raised:
    """What one method raised: (step seconds since the start, subject, what)."""

    alarms: list[tuple[float, Key, str]] = field(default_factory=list)
    drains: list[tuple[float, str, str]] = field(default_factory=list)

    def of_streams(
        self, flags: Flags, keys: Sequence[Key], what: str, step_s: float, patience: int
    ) -> None:
        """Alarms of ``flags[step, stream]``."""
        calm = max(1, round(CALM_S / step_s))
        self.alarms += [
            (alarm.step * step_s, keys[alarm.stream], what)
            for alarm in plain.alarms(flags, patience, calm)
        ]


def run(folder: Path, out: Path) -> dict[str, Path]:
    """Run every method over the recording; the folder each wrote, by its name.

    Raises ParseError if the recording cannot be read, Permanent if ``out`` cannot be written.
    """
    about = Recording(folder).about
    tables = Tables(folder, folder.name)
    nodes = [node.name for node in tables.nodes()]
    raised: dict[str, Raised] = defaultdict(Raised)
    per_hour = max(1, round(HOUR_S / about.step_s))
    hourly: dict[str, tuple[tuple[Key, ...], Floats]] = {}
    windows: dict[str, tuple[tuple[Key, ...], Floats]] = {}
    for grid in grids(folder, about):
        if grid.signal.name in NO_MEASURE:
            continue
        _single(raised, grid, about, per_hour)
        if grid.signal.kind is Kind.GAUGE:
            windows[grid.signal.name] = (grid.keys, grid.values[::2].astype(np.float32))
        if grid.signal.bad is not Bad.NONE and grid.signal.kind is not Kind.STATE:
            hourly[grid.signal.name] = (grid.keys, grid.hourly(per_hour))
    _codes(raised["limits and codes"], tables, about)
    _together(raised, hourly, nodes)
    _jobs(raised["Minder-style"], windows, tables.jobs(), nodes, about)
    order = (
        *("3 sigma", "robust z", "limits and codes", "Mahalanobis"),
        *("isolation forest", "BOCPD", "Minder-style"),
    )
    return {name: _write(raised[name], out / name.replace(" ", "-"), about) for name in order}


def _single(raised: dict[str, Raised], grid: Grid, about: About, per_hour: int) -> None:
    """The methods that look at one metric at a time."""
    name, bad, step_s = grid.signal.name, grid.signal.bad, about.step_s
    day = max(1, round(86_400 / step_s))
    flags = plain.above_limit(name, grid.values)
    raised["limits and codes"].of_streams(flags, grid.keys, name, step_s, PATIENCE)
    if bad is Bad.NONE or grid.signal.kind is Kind.STATE:
        return
    flags = plain.three_sigma(grid.values, bad, day)
    raised["3 sigma"].of_streams(flags, grid.keys, name, step_s, PATIENCE)
    hourly = grid.hourly(per_hour)
    raised["robust z"].of_streams(
        plain.robust_z(hourly, bad), grid.keys, name, per_hour * step_s, PATIENCE
    )
    flags = change_points(hourly, bad)
    raised["BOCPD"].of_streams(flags, grid.keys, name, per_hour * step_s, 1)


def _codes(raised: Raised, tables: Tables, about: About) -> None:
    """Xids a health check acts upon; it drains the node at once, as such checks do."""
    for event in tables.events(shipped()):
        family, _, number = event.code.partition(".")
        if family != "xid" or event.time is None or not number.isdigit():
            continue
        if int(number) in plain.CODES:
            at_s = (event.time - about.start).total_seconds()
            raised.alarms.append((at_s, (event.node, event.device), event.code))
            raised.drains.append((at_s, event.node, event.code))


def _together(
    raised: dict[str, Raised],
    hourly: dict[str, tuple[tuple[Key, ...], Floats]],
    nodes: list[str],
) -> None:
    if not hourly:
        return
    machines = by_machine(hourly, nodes)
    keys = [(node, "") for node in nodes]
    for name, flags in (
        ("Mahalanobis", mahalanobis(machines)),
        ("isolation forest", isolation(machines)),
    ):
        raised[name].of_streams(flags, keys, name, HOUR_S, PATIENCE)


def _jobs(
    raised: Raised,
    windows: dict[str, tuple[tuple[Key, ...], Floats]],
    jobs: Iterable[Job],
    nodes: list[str],
    about: About,
) -> None:
    """Minder's distance within each job of at least four nodes."""
    if not windows:
        return
    step_s = 2 * about.step_s
    machines = by_machine(windows, nodes)
    place = {node: i for i, node in enumerate(nodes)}
    flags = np.zeros(machines.shape[:2], np.bool_)
    for job in jobs:
        members = [place[node] for node in job.nodes if node in place]
        if len(members) < SMALLEST_JOB or job.start is None or job.end is None:
            continue
        first = int((job.start - about.start).total_seconds() / step_s) + 1
        last = min(len(machines), int((job.end - about.start).total_seconds() / step_s))
        for end in range(max(0, first) + MINDER_WINDOW, last, MINDER_EVERY):
            window = machines[end - MINDER_WINDOW : end, members].transpose(1, 0, 2)
            flags[end, members] = minder(window)
    looks = flags[::MINDER_EVERY]
    for k in range(1, MINDER_EVERY):
        more = flags[k::MINDER_EVERY]
        looks[: len(more)] |= more
    keys = [(node, "") for node in nodes]
    raised.of_streams(looks, keys, "distance to the job", MINDER_EVERY * step_s, 2)


def _write(raised: Raised, out: Path, about: About) -> Path:
    """findings.jsonl and actions.jsonl; one alarm a part until it has been calm for a day."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with (out / "findings.jsonl").open("wb") as file:
            for line in _findings(raised, about):
                file.write(msgspec.json.encode(line) + b"\n")
        with (out / "actions.jsonl").open("wb") as file:
            for at_s, node, why in _once(raised.drains):
                time = (about.start + timedelta(seconds=at_s)).isoformat()
                line = {"time": time, "node": node, "action": "drain", "mode": "shadow"}
                file.write(msgspec.json.encode({**line, "reason": why, "findings": []}) + b"\n")
    except OSError as error:
        raise Permanent(f"{error.filename or out}: {error.strerror}") from error
    return out


def _findings(raised: Raised, about: About) -> Iterator[dict[str, Any]]:
    for number, (at_s, (node, device), what) in enumerate(_once(raised.alarms), 1):
        subject = {"kind": "device" if device else "node", "node": node}
        yield {
            "time": (about.start + timedelta(seconds=at_s)).isoformat(),
            "id": f"B{number:06d}",
            "change": "open",
            "detector": "baseline",
            "fault": what,
            "severity": "warning",
            "subject": {**subject, "device": device} if device else subject,
            "confidence": 1.0,
            "because": [],
        }


def _once(told: Iterable[tuple[float, Any, str]]) -> Iterator[tuple[float, Any, str]]:
    """In order of time, a part's alarms within a day of its last one left out."""
    last: dict[Any, float] = {}
    for at_s, who, what in sorted(told):
        if at_s - last.get(who, -np.inf) > CALM_S:
            yield at_s, who, what
        last[who] = at_s
