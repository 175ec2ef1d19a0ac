"""One look at a live fleet, reading only: any mix of sources, then the hub's own turn once."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from time import monotonic

import msgspec

from bigiron.errors import BigironError
from bigiron.hub.documents import Documents
from bigiron.hub.inspect import exit_code, owned, read_all
from bigiron.hub.memory import Limits, Memory
from bigiron.hub.names import Names
from bigiron.hub.plausible import plausible
from bigiron.hub.turn import Settings, Standing, turn
from bigiron.hub.twice import Twice
from bigiron.ingest import Source, gather
from bigiron.model import (
    Action,
    ActionKind,
    Batch,
    Event,
    Finding,
    Health,
    NodeState,
    Note,
    Observation,
    Verdict,
    When,
)

UP = "node_scrape_up"
"""What a source that fetches pages says of each: 0 if it could not be had."""


class Asked(msgspec.Struct, frozen=True):
    """A source that was asked: what came of it, in how many seconds, or why nothing did."""

    name: str
    seconds: float
    observations: int
    problem: str = ""


class Row(msgspec.Struct, frozen=True):
    """One node: its verdict, the reason in words, what should be done and the scheduler's word."""

    node: str
    health: Health
    p_fail_24h: float
    p_fail_7d: float
    reason: str
    action: ActionKind
    when: When
    held: str
    state: str
    findings: tuple[Finding, ...]


class Scan(msgspec.Struct, frozen=True):
    """What one look says. ``exit_code``: 0 healthy, 1 warning, 2 critical, 3 nothing reached."""

    time: datetime
    exit_code: int
    rows: tuple[Row, ...]
    groups: tuple[Finding, ...]
    asked: tuple[Asked, ...]
    notes: tuple[Note, ...]


def scan(
    sources: Sequence[Source],
    logs: Sequence[str],
    now: datetime,
    settings: Settings,
    *,
    since: datetime | None = None,
) -> Scan:
    """Asks every source once, at the same time, and judges what they say.

    ``logs`` are files, folders or archives of kernel logs; events older than ``since`` are left
    out and counted. A source that fails is shown, and the rest is judged without it.
    """
    memory = Memory(Limits(series_s=float("inf"), gap_s=0.0, events_s=float("inf")))
    asked: list[Asked] = []
    notes: list[Note] = []
    batches: list[Batch] = []
    for batch, answer in _ask(sources):
        asked.append(answer)
        if batch is not None:
            batches.append(plausible(batch, now))
            notes += batches[-1].notes
    if logs:
        of_logs, answers = _logs(logs, now, since, notes)
        asked += answers
        batches += of_logs
    names = Names()
    notes += names.learn(batches)
    twice = Twice()
    for batch in batches:
        memory.take(twice.once(names.renamed(batch))[0])
    # In one look everything is new: "so many nodes were flagged within minutes" says nothing.
    policy = msgspec.structs.replace(settings.policy, breaker_share=1.0, job_share=1.0)
    settings = msgspec.structs.replace(settings, sustain_s=0.0, keep_intervals=False, policy=policy)
    standing, outcome = turn(memory, Standing(), now, settings)
    reached = any(not one.problem for one in asked)
    findings = [held.finding for held in standing.open.values()]
    rows = _rows(standing, outcome.actions, memory.window(now).states)
    return Scan(
        now,
        exit_code(findings) if reached else 3,
        tuple(rows),
        tuple(f for f in findings if f.subject.by),
        tuple(asked),
        (*notes, *outcome.notes),
    )


def _ask(sources: Sequence[Source]) -> list[tuple[Batch | None, Asked]]:
    if not sources:
        return []
    with ThreadPoolExecutor(max_workers=min(16, len(sources))) as pool:
        return list(pool.map(_ask_one, sources))


def _ask_one(source: Source) -> tuple[Batch | None, Asked]:
    began = monotonic()
    try:
        batch, _ = source.poll("")
    except BigironError as error:
        return None, Asked(source.name, monotonic() - began, 0, str(error))
    except Exception as error:  # noqa: BLE001  (one source's bug must not cost the others' answers)
        problem = f"failed: {type(error).__name__}: {error}"
        return None, Asked(source.name, monotonic() - began, 0, problem)
    fields = (batch.events, batch.facts, batch.states, batch.jobs, batch.nodes)
    told = sum(map(len, fields))
    problem = "" if told or _answered(batch) else "nothing answered"
    count = told + len(batch.samples) + sum(len(one.values) for one in batch.columns)
    return batch, Asked(source.name, monotonic() - began, 0 if problem else count, problem)


def _answered(batch: Batch) -> bool:
    """Whether samples came, and not only that no exporter answered."""
    up = [sample.value for sample in batch.samples if sample.metric == UP]
    return bool(batch.columns) or (any(up) if up else bool(batch.samples))


def _logs(
    paths: Sequence[str], now: datetime, since: datetime | None, notes: list[Note]
) -> tuple[list[Batch], list[Asked]]:
    began = monotonic()
    documents = Documents()
    readings = read_all(list(paths), documents, notes)
    notes += documents.notes
    batches = []
    old = 0
    for reading in readings:
        seen = list(owned(reading))
        kept = [one for one in seen if since is None or not _before(one, since)]
        old += len(seen) - len(kept)
        # A log whose every event is old says nothing of its host today: not that it is healthy.
        if len(kept) == len(seen) or any(isinstance(one, Event) for one in kept):
            batches.append(gather(now, reading.document.name, kept))
    if old and since is not None:
        notes.append(Note("kernel log", f"events before {since:%Y-%m-%d %H:%M} left out", old))
    count = sum(len(b.events) for b in batches)
    problem = "" if batches else "nothing in it was recognised"
    if readings and not batches:
        problem = f"all of its {old:,} events are older than --since"
    return batches, [Asked(", ".join(paths), monotonic() - began, count, problem)]


def _before(seen: Observation, since: datetime) -> bool:
    return isinstance(seen, Event) and seen.time is not None and seen.time < since


def _rows(
    standing: Standing, actions: Sequence[Action], states: Mapping[str, NodeState]
) -> list[Row]:
    by_node: dict[str, Action] = {action.node: action for action in actions}
    rows = [
        _row(verdict, standing, by_node.get(node), states)
        for node, verdict in standing.verdicts.items()
    ]
    return sorted(rows, key=lambda r: (-r.health.rank, -r.p_fail_24h, r.node))


def _row(
    verdict: Verdict, standing: Standing, action: Action | None, states: Mapping[str, NodeState]
) -> Row:
    findings = [standing.open[id_].finding for id_ in verdict.findings if id_ in standing.open]
    findings.sort(key=lambda f: -f.severity.rank)
    reason = findings[0].because[0] if findings and findings[0].because else verdict.because
    state = states.get(verdict.node)
    return Row(
        verdict.node,
        verdict.health,
        verdict.p_fail_24h,
        verdict.p_fail_7d,
        reason,
        action.kind if action else ActionKind.NONE,
        action.when if action else When.NEVER,
        action.held if action else "",
        "+".join(state.flags) or state.state if state is not None else "",
        tuple(findings),
    )
