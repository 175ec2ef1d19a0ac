"""A recording of a simulated fleet in the form of docs/formats.md, with its truth."""

import csv
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from bigiron.model import Device
from bigiron.nodesets import fold
from bigiron.sim.book import Book
from bigiron.sim.cluster import Cluster, Run
from bigiron.sim.faults_lasting import golden
from bigiron.sim.history import History
from bigiron.sim.scenarios import ACT, SCENARIOS
from bigiron.sim.scene import HOUR_S, Plan, Scene
from bigiron.sim.site import site
from bigiron.sim.tape import Tape
from bigiron.sim.telemetry import TRACKS, Telemetry
from bigiron.sim.workload import Demand, Request

JOBS_HEADER = (
    "JobIDRaw|JobName|User|Account|Partition|State|ExitCode|Submit|Start|End|"
    "ElapsedRaw|NNodes|NodeList|AllocTRES|Restarts"
)
RATE = 6.5
"""Failures per 1,000 node-days of Meta's larger research cluster; 2.34 on the other
(arXiv 2410.21680)."""


def record(
    out: Path,
    scenario: str = "mixed",
    *,
    nodes: int,
    days: float,
    step_s: int,
    seed: int,
    start: datetime,
    rate: float = RATE,
    noisy: float = 1.0,
) -> int:
    """Writes a recording into ``out`` (made new) and returns the number of samples.

    ``rate``: failures per 1,000 node-days in the scenarios that have a rate; ``noisy``: how many
    times the usual noise. Raises FileExistsError if ``out`` exists, KeyError for an unknown
    scenario.
    """
    plan = SCENARIOS[scenario]
    (out / "logs").mkdir(parents=True)
    place = site(nodes, seed, third_vendor=True)
    span_s = days * 86_400 // step_s * step_s
    devices = list(place.devices())
    history = History(place, seed, start.timestamp(), span_s)
    golden(history)
    book = Book(place, seed, span_s)
    plan(book, rate)
    cluster = unfold(history, book, step_s, noisy)
    names = place.names
    tape = Tape(out / "samples", names, int(start.timestamp() * 1000), TRACKS)
    Telemetry(history, cluster.runs, step_s, noisy).write(tape)
    count = tape.close()
    _tables(out, history, devices)
    _jobs(out / "jobs.psv", history, cluster.runs)
    _lines(out, history)
    _truth(out / "truth.jsonl", history)
    end = start + timedelta(seconds=span_s)
    (out / "recording.toml").write_text(
        f'name = "{scenario}-s{seed}"\nstart = "{_iso(start)}"\nend = "{_iso(end)}"\n'
        f'step_s = {step_s}\ndescription = "{nodes} simulated nodes, {days:g} days: '
        f'{scenario}, seed {seed}."\n',
        "utf-8",
    )
    return count


def unfold(
    history: History,
    book: Book,
    step_s: float,
    noisy: float = 1.0,
    requests: Sequence[Request] | None = None,
) -> Cluster:
    """Lets the plans happen among the users' jobs, which are drawn unless they are given."""
    capacity = tuple(
        (partition, len(nodes)) for partition, nodes in history.site.groups("partition").items()
    )
    broken = any(plan.kind == "app_xid" for plan in book.plans)
    if requests is None:
        requests = list(Demand(capacity, history.span_s, history.seed, broken).requests())
    cluster = Cluster.make(history, requests)
    scene = Scene(history, cluster, step_s, book.rate, noisy)
    for plan in book.plans:
        history.at(plan.at_s, partial(_begin, scene, plan))
    history.run()
    return cluster


def _begin(scene: Scene, plan: Plan, at_s: float) -> None:
    """An episode begins; if someone has its node out of service just then, later."""
    if plan.node in scene.cluster.closed:
        scene.history.at(at_s + HOUR_S, partial(_begin, scene, plan))
    else:
        ACT[plan.kind](scene, plan, at_s)


def _iso(time: datetime) -> str:
    return time.astimezone(UTC).isoformat()


def _at(history: History, at_s: float) -> str:
    """Whole seconds, as schedulers and inventories write."""
    return datetime.fromtimestamp(int(history.start + at_s), UTC).isoformat()


def _tables(out: Path, history: History, devices: list[Device]) -> None:
    columns = ("node", "sku", "role", "rack", "leaf", "pdu", "cooling", "ring", "partition", "site")
    site, names = history.site, history.site.names
    rows = [[n.name, *(getattr(n, c) for c in columns[1:])] for n in site.nodes]
    _csv(out / "nodes.csv", columns, rows)
    _csv(
        out / "devices.csv",
        ("node", "device", "kind", "id", "bus", "model", "vendor"),
        ([d.node, d.name, d.kind, d.id, d.bus, d.model, d.vendor] for d in devices),
    )
    states = sorted(history.states, key=lambda s: s[0])
    _csv(
        out / "nodestate.csv",
        ("time", "node", "state", "reason"),
        ([_at(history, t), names[n], word, why] for t, n, word, why in states),
    )
    _csv(
        out / "maintenance.csv",
        ("start", "end", "nodes", "kind"),
        (
            [_at(history, a), _at(history, b), fold(names[n] for n in members), kind]
            for a, b, members, kind in sorted(history.maintenance)
        ),
    )


def _csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def _jobs(path: Path, history: History, runs: Sequence[Run]) -> None:
    """sacct's rows in order of start; what still runs has no end."""
    with path.open("w", encoding="utf-8") as file:
        file.write(JOBS_HEADER + "\n")
        for run in runs:
            request, over = run.request, run.end_s is not None
            end_s = run.end_s if run.end_s is not None else history.span_s
            gpus = sum(mask.bit_count() for mask in run.masks)
            fields = (
                run.id,
                "train" if len(run.nodes) > 1 else "run",
                request.user,
                f"acct{int(request.user[1:]) % 5}",
                request.partition,
                run.state,
                run.exit_code,
                _at(history, run.submit_s),
                _at(history, run.start_s),
                _at(history, end_s) if over else "Unknown",
                int(end_s) - int(run.start_s),
                len(run.nodes),
                fold(history.site.names[n] for n in run.nodes),
                f"gres/gpu={gpus},node={len(run.nodes)}",
                run.restarts,
            )
            file.write("|".join(map(str, fields)) + "\n")


def _lines(out: Path, history: History) -> None:
    """The kernel log and the facts, in order of time, as far as the recording goes."""
    names = history.site.names
    with (out / "logs" / "kernel.log").open("w", encoding="utf-8") as file:
        for at_s, node, message in sorted(history.lines):
            if 0 <= at_s <= history.span_s:
                time = datetime.fromtimestamp(round(history.start + at_s, 6), UTC)
                stamp = time.isoformat(timespec="microseconds")
                file.write(f"{stamp} {names[node]} kernel: {message}\n")
    with (out / "facts.jsonl").open("w", encoding="utf-8") as file:
        for at_s, node, device, facts in sorted(history.facts, key=lambda f: f[0]):
            if at_s <= history.span_s:
                line = {"time": _at(history, at_s), "node": names[node], "device": device}
                file.write(json.dumps({**line, "facts": facts}) + "\n")


def _truth(path: Path, history: History) -> None:
    def time(at_s: float | None) -> str | None:
        return None if at_s is None or at_s > history.span_s else _at(history, at_s)

    with path.open("w", encoding="utf-8") as file:
        for number, truth in enumerate(sorted(history.truths, key=lambda t: t.onset_s), 1):
            line: dict[str, Any] = {
                "episode": f"e{number}",
                "class": truth.kind,
                "label": truth.label,
                "subject": truth.subject,
                "onset": time(truth.onset_s),
                "fails": time(truth.fails_s),
                "end": time(truth.end_s),
                "effect": truth.effect,
                "precursor": truth.precursor,
            }
            extra = dict(truth.extra)
            if "full_s" in extra:
                extra["full"] = time(extra.pop("full_s"))
            file.write(json.dumps({**line, **extra}) + "\n")
