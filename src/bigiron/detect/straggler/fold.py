"""The fold: one cleaned step in, a new state and who straggles now."""

import msgspec
import numpy as np
from numpy.typing import NDArray

from bigiron.detect import Block, Fleet
from bigiron.detect.chance.multiplicity import Budget
from bigiron.detect.chance.robust import grouped_median
from bigiron.detect.hygiene import Clean
from bigiron.detect.state import carried, follow
from bigiron.detect.straggler import READS, evidence, panel
from bigiron.detect.straggler.claims import claims
from bigiron.detect.straggler.decide import FALSE_SHARE, decide
from bigiron.detect.straggler.jobs import Placed, Programs, placed
from bigiron.detect.straggler.state import State, copied, moved, returned
from bigiron.model import Finding, Recovery

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

AT_WORK = 0.5
"""A job whose median utilisation is below this saves, loads or evaluates; nobody is compared."""

FARTHEST = 1.0
"""A difference at one step counts at most so much."""

AWAY = frozenset({"drain", "down"})


class Straggler:
    """The detector; ``budget`` is what it may spend of the fleet's false suspects."""

    name = "straggler"
    reads = READS

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = budget or Budget(share=FALSE_SHARE)

    def start(self, fleet: Fleet) -> State:
        """Nothing is known."""
        del fleet
        return State()

    def step(self, before: State, block: Block) -> tuple[State, list[Finding | Recovery]]:
        """The state after this block and who straggles now."""
        clean = block.clean
        if clean is None or not clean.nodes:
            return before, []
        after = _aligned(before, clean, block)
        programs = Programs(block.jobs)
        steps = evidence.HOUR_S / max(clean.step_s, 1.0)
        where = placed(block, clean)
        _end_jobs(after, where, programs, steps / 2)
        _add(after, where, panel.values(clean))
        hour = int(clean.time_s // evidence.HOUR_S)
        if before.time_s > 0 and hour > before.time_s // evidence.HOUR_S:
            _end_hour(after, programs, steps / 2)
            decide(after, self.budget.q(len(after.nodes), block.false_per_node_day))
        return after, claims(after, block, programs)


def _aligned(before: State, clean: Clean, block: Block) -> State:
    """A copy to write to, whose rows are this step's nodes."""
    index = follow(before.nodes, clean.nodes)
    away = np.array(
        [name in block.states and block.states[name].state in AWAY for name in clean.nodes]
    )
    after = msgspec.structs.replace(
        before,
        time_s=clean.time_s,
        nodes=clean.nodes,
        away=away,
        tracks=moved(before.tracks, index),
        shared=copied(before.shared),
    )
    back = carried(before.away, index, False) & ~away
    if back.any():
        returned(after.tracks, back)
    evidence.fade(after.shared, max(0.0, clean.time_s - before.time_s))
    return after


def _end_jobs(after: State, where: Placed, programs: Programs, least: float) -> None:
    """Close what ran in jobs that are over."""
    tracks, shared = after.tracks, after.shared
    ended = np.flatnonzero((tracks.key != where.key) & (tracks.key != 0))
    told = ended[(tracks.count[ended] >= least).any(axis=1)]
    if told.size:
        evidence.close_hour(tracks, shared, told, least, after.time_s)
    parts = ended[tracks.part_hours[ended] >= 1]
    if parts.size:
        evidence.close_part(tracks, shared, parts, programs, after.time_s)
    changed = np.flatnonzero(tracks.key != where.key)
    if changed.size:
        evidence.end_job(tracks, shared, changed, where.key[changed])


def _add(after: State, where: Placed, plain: Floats) -> None:
    """One step's differences from each job's nodes join the hour that runs."""
    tracks = after.tracks
    jobs = int(where.job.max(initial=-1)) + 1
    if jobs == 0:
        return
    values = panel.scaled(plain)
    values[~where.begun] = np.nan
    median = grouped_median(values, where.job, jobs)[np.maximum(where.job, 0)]
    with np.errstate(invalid="ignore"):
        working = ~(median[:, panel.USED] < AT_WORK)
    usable = (where.job >= 0) & working
    apart = np.where(usable[:, None], np.clip(values - median, -FARTHEST, FARTHEST), np.nan)
    told = np.isfinite(apart)
    tracks.total += np.where(told, apart, 0.0).astype(np.float32)
    tracks.plain += np.where(told, plain, 0.0).astype(np.float32)
    tracks.count += told


def _end_hour(after: State, programs: Programs, least: float) -> None:
    """End the hour of every node in a job, and the stretches that are long enough."""
    tracks, shared = after.tracks, after.shared
    rows = np.flatnonzero((tracks.key != 0) & (tracks.count >= least).any(axis=1))
    if rows.size:
        evidence.close_hour(tracks, shared, rows, least, after.time_s)
    parts = np.flatnonzero(tracks.part_hours >= evidence.PART_HOURS)
    if parts.size:
        evidence.close_part(tracks, shared, parts, programs, after.time_s)
