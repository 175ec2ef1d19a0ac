"""Simulated fleets recorded, replayed and scored, the usual methods beside ours. `make sim`.

    python bench/sim.py             every scenario, five seeds, into docs/detection.md (2 hours)
    python bench/sim.py --quick     small fleets, two seeds, printed only (minutes)
    python bench/sim.py --scenario null --seeds 201,202 --nodes 64 --days 14

Seeds 201 to 205 were used for no tuning. Recordings are made, judged and removed one by one.
"""

import json
import pickle
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click

from bigiron import __version__
from bigiron.analyze.intervals import Rate, Share, share
from bigiron.analyze.score import ClassScore, Score, score
from bigiron.analyze.score_tally import Tally, merged
from bigiron.cli.score import percentiles_text, rate_text, share_text
from bigiron.cli.score_files import Truth
from bigiron.hub.baselines import run as run_baselines

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
import study_page

SEEDS = (201, 202, 203, 204, 205)
OURS = "bigiron"
KEPT = "Keep what came of each recording here, and go on from what is kept (of the same code)."


@dataclass(frozen=True, slots=True)
class Size:
    """How large a scenario's fleet is, how long, and whether the baselines judge its first seed."""

    nodes: int
    days: float
    baselines: bool = False


FULL = {
    "null": Size(64, 28, baselines=True),
    "gradual": Size(64, 28, baselines=True),
    "failstop": Size(48, 5),
    "config": Size(48, 5),
    "shared": Size(48, 5),
    "lemons": Size(48, 10),
    "mixed": Size(64, 14),
}
QUICK = {
    "null": Size(32, 5, baselines=True),
    "gradual": Size(32, 10, baselines=True),
    "failstop": Size(32, 2),
    "config": Size(32, 2),
    "shared": Size(32, 2),
    "lemons": Size(32, 5),
    "mixed": Size(32, 5, baselines=True),
}
STEP_S = 300


@dataclass(frozen=True, slots=True)
class Task:
    """One recording to make and judge."""

    scenario: str
    seed: int
    size: Size
    folder: str


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of one recording: a tally by method, and what the replay took."""

    scenario: str
    tallies: dict[str, Tally]
    wall_s: float
    peak_mib: float


@click.command()
@click.option("--quick", is_flag=True, help="Small fleets and two seeds; nothing is written.")
@click.option("--scenario", "only", multiple=True, type=click.Choice(tuple(FULL)))
@click.option("--seeds", help="As 201,202; else 201 to 205.")
@click.option("--nodes", type=int, help="Instead of each scenario's own.")
@click.option("--days", type=float, help="Instead of each scenario's own.")
@click.option("--baselines", is_flag=True, help="The usual methods on every seed, not the first.")
@click.option("--kept", type=click.Path(file_okay=False, path_type=Path), help=KEPT)
@click.option("--jobs", default=1, show_default=True, help="Recordings at a time.")
@click.option("--temp", type=click.Path(file_okay=False), help="Where recordings are put.")
@click.option("--page/--no-page", default=None, help="Write docs/detection.md. [default: if whole]")
def main(
    *,
    quick: bool,
    only: tuple[str, ...],
    seeds: str | None,
    nodes: int | None,
    days: float | None,
    baselines: bool,
    kept: Path | None,
    jobs: int,
    temp: str | None,
    page: bool | None,
) -> None:
    """Record, replay and score simulated fleets."""
    sizes = QUICK if quick else FULL
    drawn = tuple(map(int, seeds.split(","))) if seeds else SEEDS[: 2 if quick else None]
    whole = not (quick or only or seeds or nodes or days)
    with tempfile.TemporaryDirectory(dir=temp) as folder:
        tasks = [
            Task(
                name,
                seed,
                Size(
                    nodes or size.nodes,
                    days or size.days,
                    size.baselines and (baselines or seed == drawn[0]),
                ),
                folder,
            )
            for name, size in sizes.items()
            if not only or name in only
            for seed in drawn
        ]
        judged = list(_judged(tasks, jobs, kept))
    lines = list(_page(judged, tasks, drawn))
    if page or (page is None and whole):
        study_page.write("detection.md", "make sim", lines)
    else:
        click.echo("\n".join(lines))


def _judged(tasks: Sequence[Task], jobs: int, kept: Path | None) -> Iterator[Judged]:
    with ProcessPoolExecutor(jobs, max_tasks_per_child=1) as pool:
        judging = pool.map(partial(_known_or_judge, kept), tasks)
        for task, one in zip(tasks, judging, strict=True):
            told = score(one.tallies[OURS])
            false = rate_text(told.false_suspects_per_1000_node_days)
            click.echo(
                f"{task.scenario} {task.seed}: recall {share_text(told.faults.recall)}, "
                f"false suspects {false}, {one.wall_s:.0f} s, {one.peak_mib:.0f} MiB",
                err=True,
            )
            yield one


def _known_or_judge(kept: Path | None, task: Task) -> Judged:
    """What an earlier run of the same version kept, else what comes of it now."""
    if kept is None:
        return _judge(task)
    size = f"{task.size.nodes}x{task.size.days:g}"
    path = kept / f"{task.scenario}-{task.seed}-{size}-{__version__}.pickle"
    if path.exists():
        known: Judged = pickle.loads(path.read_bytes())
        return known
    one = _judge(task)
    kept.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(one))
    return one


def _judge(task: Task) -> Judged:
    with tempfile.TemporaryDirectory(dir=task.folder) as folder:
        recording, out = Path(folder) / "recording", Path(folder) / "out"
        size = ("--nodes", str(task.size.nodes), "--days", str(task.size.days))
        seeded = ("--seed", str(task.seed), "--step", str(STEP_S))
        _bigiron("sim", "record", task.scenario, "--out", str(recording), *size, *seeded)
        _bigiron("replay", str(recording), "--out", str(out))
        summary = json.loads((out / "summary.json").read_text("utf-8"))
        truth = Truth(recording)
        tallies = {OURS: truth.against(out).tally}
        if task.size.baselines:
            for name, written in run_baselines(recording, out / "baselines").items():
                tallies[name] = truth.against(written).tally
        return Judged(task.scenario, tallies, summary["wall_s"], summary["peak_mib"])


def _bigiron(*words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bigiron", *words], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"bigiron {' '.join(words)}: {done.stderr.strip()[-2000:]}")


def _page(judged: Sequence[Judged], tasks: Sequence[Task], seeds: Sequence[int]) -> Iterator[str]:
    of: dict[str, list[Judged]] = defaultdict(list)
    for one in judged:
        of[one.scenario].append(one)
    ours = {name: _score(group, OURS) for name, group in of.items()}
    everything = score(merged(one.tallies[OURS] for one in judged))
    yield (
        f"Measured {datetime.now(UTC):%Y-%m-%d} with bigiron {__version__}, seeds "
        f"{', '.join(map(str, seeds))}, telemetry every {STEP_S} s, 8 GPUs a node. Value "
        "[95 % interval] (count)."
    )
    yield from ("", *_bars(ours, everything), "")
    yield from (*_scenarios(ours, of, tasks), "")
    yield from (*_classes(everything), "")
    yield from _harmless(everything)
    yield from _methods(of)


def _score(group: Iterable[Judged], method: str) -> Score:
    return score(merged(one.tallies[method] for one in group))


def _bars(ours: dict[str, Score], everything: Score) -> Iterator[str]:
    """What must hold, and whether it does."""
    yield from ("| what must hold | measured | |", "|---|---|---|")
    null = ours.get("null")
    if null:
        yield _most("null: false suspects per 1,000 node-days <= 0.5", null, 0.5)
        yield _none("null: benign episodes that blamed a node: none", null.harmless_total)
        drains = null.drains
        yield f"| null: drains: none | {drains} | {_met(drains == 0)} |"
    if "gradual" in ours:
        levels = {one.strength: one for one in ours["gradual"].levels}
        for size in ("3 sigma", "5 % slower"):
            if size in levels:
                found = levels[size].within_7_days
                yield _least(f"gradual: found within 7 days at {size} >= 0.97", found, 0.97)
        if "2 sigma" in levels:
            found = levels["2 sigma"].within_14_days
            yield _least("gradual: found within 14 days at 2 sigma >= 0.80", found, 0.80)
        yield _most("gradual: false suspects per 1,000 node-days <= 0.5", ours["gradual"], 0.5)
    for name, label in (("failstop", "fail-stop"), ("config", "config drift")):
        if name in ours:
            yield _least(f"{label}: found in time >= 0.99", ours[name].faults.recall, 0.99)
    if "shared" in ours:
        shared = ours["shared"].shared
        named = share(shared.right.hits, shared.recall.n)
        yield _least("shared causes: right group named >= 0.95", named, 0.95)
        drains = ours["shared"].false_drains_per_1000_node_days.count
        yield f"| shared causes: nodes drained for it: none | {drains} | {_met(drains == 0)} |"
    yield _least("right device named, all scenarios >= 0.95", everything.right_device, 0.95)


def _least(what: str, found: Share, bar: float) -> str:
    holds = "not measured" if found.value is None else _met(found.value >= bar)
    return f"| {what} | {share_text(found)} | {holds} |"


def _most(what: str, of: Score, bar: float) -> str:
    rate: Rate = of.false_suspects_per_1000_node_days
    return f"| {what} | {rate_text(rate)} | {_met((rate.value or 0.0) <= bar)} |"


def _none(what: str, share: Share) -> str:
    return f"| {what} | {share.hits} of {share.n} | {_met(share.hits == 0)} |"


def _met(holds: bool) -> str:
    return "holds" if holds else "**does not hold**"


def _scenarios(
    ours: dict[str, Score], of: dict[str, list[Judged]], tasks: Sequence[Task]
) -> Iterator[str]:
    sizes = {task.scenario: task.size for task in tasks}
    yield (
        "| scenario | recordings | node-days | recall | by luck | false suspects /1,000 nd | "
        "false drains /1,000 nd | precision (faults /1,000 nd) | replay, s | MiB |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for name, one in ours.items():
        size = sizes[name]
        base = one.base_rate_per_1000_node_days or 0.0
        yield (
            f"| {name} | {one.recordings} of {size.nodes} nodes, {size.days:g} d | "
            f"{one.node_days:,.0f} | {share_text(one.faults.recall)} | {one.faults.luck:.1f} | "
            f"{rate_text(one.false_suspects_per_1000_node_days)} | "
            f"{rate_text(one.false_drains_per_1000_node_days)} | "
            f"{share_text(one.precision)} ({base:.1f}) | "
            f"{max(j.wall_s for j in of[name]):.0f} | {max(j.peak_mib for j in of[name]):.0f} |"
        )


def _classes(everything: Score) -> Iterator[str]:
    yield "| class (all scenarios) | n | recall | luck | delay h p10/50/90 | lead h | right part |"
    yield "|---|---|---|---|---|---|---|"
    for one in (*everything.classes, everything.faults, everything.shared):
        if one.recall.n:
            yield _class(one)


def _class(one: ClassScore) -> str:
    cut = f" ({one.cut} cut)" if one.cut else ""
    lead = percentiles_text(one.lead_h) if one.lead_h.n else "-"
    right = share_text(one.right) if one.right.n else "-"
    return (
        f"| {one.kind} | {one.recall.n}{cut} | {share_text(one.recall)} | {one.luck:.1f} | "
        f"{percentiles_text(one.delay_h)} | {lead} | {right} |"
    )


def _harmless(everything: Score) -> Iterator[str]:
    told = ", ".join(f"{h.kind} {h.blamed.hits}/{h.blamed.n}" for h in everything.harmless)
    yield f"Benign and shared episodes during which a healthy node was blamed: {told or 'none'}."
    top = ", ".join(f"{f.detector} {f.fault} {f.count}" for f in everything.false_suspects[:8])
    yield ""
    yield f"False suspects by detector and fault, all scenarios: {top or 'none'}."
    yield ""


def _methods(of: dict[str, list[Judged]]) -> Iterator[str]:
    for name, every in of.items():
        group = [one for one in every if len(one.tallies) > 1]
        if not group:
            continue
        methods = list(group[0].tallies)
        yield from (
            f"| {name} ({len(group)} of {len(every)} recordings): method | recall | by luck | "
            "false suspects /1,000 nd | false drains /1,000 nd | benign, a node blamed | "
            "right device |",
            "|---|---|---|---|---|---|---|",
        )
        for method in methods:
            one = _score(group, method)
            yield (
                f"| {method} | {share_text(one.faults.recall)} | {one.faults.luck:.1f} | "
                f"{rate_text(one.false_suspects_per_1000_node_days)} | "
                f"{rate_text(one.false_drains_per_1000_node_days)} | "
                f"{share_text(one.harmless_total)} | {share_text(one.right_device)} |"
            )
        yield ""


if __name__ == "__main__":
    main()
