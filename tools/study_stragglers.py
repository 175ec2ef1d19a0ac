"""The stage-peer rule on real training traces. `python tools/study_stragglers.py [FOLDER]`.

FOLDER holds trace-NAME.parquet and meta-NAME.yaml of ByteDance's StragglerAnalysis; without it,
../shared/data/public/stragglers beside the checkout.
"""

import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

import polars as pl
import study_page

from bigiron.detect.step_time import FEWEST, StepTime, slow_ranks

COMMAND = "python tools/study_stragglers.py"
COMPUTE = ("forward-compute", "backward-compute")
NAIVE = 1.1


def main() -> int:
    """Write the figures into docs/studies/stragglers.md."""
    folder = study_page.data("stragglers")
    traces = sorted(folder.glob("trace-*.parquet"))
    if not traces:
        sys.exit(f"{folder}: no trace-NAME.parquet in it")
    lines = [
        "| trace | layout (DP x PP x TP) | workers traced | steps | "
        "slower than 1.1 x the job's median | flagged by stage peers | at step |",
        "|---|---|---|---|---|---|---|",
    ]
    ratios = [
        "",
        "Ratio of median compute time per worker (rank: against the job, against stage peers):",
        "",
    ]
    for path in traces:
        name = path.stem.removeprefix("trace-")
        times = _times(path)
        lines.append(_row(name, folder / f"meta-{name}.yaml", times))
        ratios.append(f"* {name}: " + "; ".join(_ratios(times)))
    study_page.write("studies/stragglers.md", COMMAND, lines + ratios)
    return 0


def _times(path: Path) -> list[StepTime]:
    """Forward and backward compute of each step and worker, without waiting and transfers."""
    frame = (
        pl.read_parquet(path)
        .filter(pl.col("optype").cast(pl.String).is_in(COMPUTE))
        .group_by("step", "rank", "stage", "dp_rank")
        .agg(pl.col("duration").sum())
        .sort("step", "rank")
    )
    rows = frame.select("step", "rank", "stage", "dp_rank", "duration").iter_rows()
    return [StepTime(*row) for row in rows]


def _row(name: str, meta: Path, times: list[StepTime]) -> str:
    layout = dict(line.split(": ") for line in meta.read_text("utf-8").splitlines() if ": " in line)
    steps = sorted({t.step for t in times})
    of_job = _against_job(times)
    naive = [rank for rank, ratio in of_job.items() if ratio > NAIVE]
    slow = slow_ranks(times)
    flagged = ", ".join(f"rank {s.rank} ({s.ratio:.2f} x)" for s in slow) or "none"
    first = {s.rank: _first(times, s.rank, steps) for s in slow}
    when = ", ".join(f"{place}th of {len(steps)}" for place in first.values()) or "-"
    shape = " x ".join(layout[k].strip() for k in ("dp_size", "pp_size", "tp_size"))
    return (
        f"| {name} | {shape} | {len(of_job)} | {len(steps)} | {len(naive)} of {len(of_job)} | "
        f"{flagged} | {when} |"
    )


def _first(times: list[StepTime], rank: int, steps: list[int]) -> int:
    """How many steps had been seen when a rank was first flagged."""
    for seen in range(FEWEST, len(steps) + 1):
        known = set(steps[:seen])
        if any(s.rank == rank for s in slow_ranks(t for t in times if t.step in known)):
            return seen
    return len(steps)


def _against_job(times: list[StepTime]) -> dict[int, float]:
    of_step: dict[int, list[float]] = defaultdict(list)
    for t in times:
        of_step[t.step].append(t.compute_s)
    middle = {step: median(values) for step, values in of_step.items()}
    ratios: dict[int, list[float]] = defaultdict(list)
    for t in times:
        ratios[t.rank].append(t.compute_s / middle[t.step])
    return {rank: median(values) for rank, values in sorted(ratios.items())}


def _ratios(times: list[StepTime]) -> list[str]:
    stages: dict[tuple[int, int], dict[int, float]] = defaultdict(dict)
    for t in times:
        stages[t.step, t.stage][t.rank] = t.compute_s
    peers: dict[int, list[float]] = defaultdict(list)
    for members in stages.values():
        for rank, value in members.items():
            others = [v for r, v in members.items() if r != rank]
            peers[rank].append(value / median(others))
    of_job = _against_job(times)
    return [f"{r}: {of_job[r]:.2f}, {median(peers[r]):.2f}" for r in sorted(peers)]


if __name__ == "__main__":
    sys.exit(main())
