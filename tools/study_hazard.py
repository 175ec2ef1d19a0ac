"""The hazard's weights, fitted and tested. `python tools/study_hazard.py`.

Without arguments: simulates fleets (`bigiron sim record mixed`, published failure rate and mix),
one a seed, replays them, fits, tests each fleet with what the others gave, and writes the weights
that ship (src/bigiron/decide/hazard.toml) and the figures of docs/studies/hazard.md. Takes about an
hour of one core; ``--work DIR`` keeps what was replayed, and goes on from it.

``--recording DIR --weights FILE``, the first as often as there are recordings, fits to a site's own
history instead and prints the figures.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import hazard_fit as hf
import hazard_page as page
import study_page
from hazard_rows import HORIZON_D, History, history

from bigiron.decide.hazard_weights import parse

COMMAND = "python tools/study_hazard.py"
WEIGHTS = study_page.ROOT / "src" / "bigiron" / "decide" / "hazard.toml"
SEEDS = (601, 602, 603, 604, 605, 606, 607, 608)
NODES, DAYS = 64, 28
PUBLISHED = 6.5
"""Failures per 1,000 node-days of Meta's RSC-1 (arXiv 2410.21680)."""


def main() -> int:
    """Fit, test, write."""
    told = _arguments()
    own = bool(told.recording)
    if own and told.weights is None:
        sys.exit("--weights FILE is wanted with --recording: where the weights are to be written")
    with tempfile.TemporaryDirectory(prefix="hazard-") as temporary:
        work = told.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        if own:
            pairs = [(one, work / f"{n}-{one.name}") for n, one in enumerate(told.recording)]
            make = _replayed
        else:
            pairs = [(work / f"mixed-{seed}", work / f"mixed-{seed}-out") for seed in told.seeds]
            make = partial(_simulated, told.nodes, told.days)
        with ThreadPoolExecutor(told.jobs) as pool:
            list(pool.map(make, *zip(*pairs, strict=True)))
        histories = [history(*pair) for pair in pairs]
    study = _study(histories, PUBLISHED if not own else None)
    text = page.weights(study, _title(histories, own=own), datetime.now(UTC).date().isoformat())
    where = told.weights or WEIGHTS
    parse(text, str(where))
    where.write_text(text, "utf-8")
    if own:
        print("\n".join(page.figures(study)))
    else:
        study_page.write("studies/hazard.md", COMMAND, page.figures(study))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=lambda t: tuple(map(int, t.split(","))), default=SEEDS)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--days", type=float, default=DAYS)
    parser.add_argument("--recording", type=Path, action="append", default=[])
    parser.add_argument("--weights", type=Path, help="file to write")
    parser.add_argument("--work", type=Path, help="folder that is kept and gone on from")
    parser.add_argument("--jobs", type=int, default=1, help="recordings worked on at a time")
    return parser.parse_args()


def _simulated(nodes: int, days: float, recording: Path, out: Path) -> None:
    """Record and replay one fleet, unless that was done; samples are removed when replayed."""
    if (out / "summary.json").exists():
        return
    seed = recording.name.rsplit("-", 1)[-1]
    size = ("--nodes", str(nodes), "--days", str(days), "--seed", seed)
    shutil.rmtree(recording, ignore_errors=True)
    _bigiron("sim", "record", "mixed", *size, "--out", str(recording))
    _replayed(recording, out)
    shutil.rmtree(recording / "samples")


def _replayed(recording: Path, out: Path) -> None:
    if not (out / "summary.json").exists():
        _bigiron("replay", str(recording), "--out", str(out))


def _bigiron(*arguments: str) -> None:
    print("bigiron", *arguments, file=sys.stderr, flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "bigiron", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"bigiron {' '.join(arguments)}: {done.stderr.strip()}")


def _title(histories: Sequence[History], *, own: bool) -> str:
    names = ", ".join(one.name for one in histories)
    return names if own else f"simulated fleets ({names}); no real fleet"


def _study(histories: Sequence[History], rate: float | None) -> page.Study:
    """Everything fitted: by leaving out each group in turn, and on all."""
    data = hf.rows(histories)
    observed = 1000 * sum(h.failures for h in histories) / sum(h.node_days for h in histories)
    if not observed:
        sys.exit("no failure in these recordings: there is nothing to fit to")
    known = hf.keys(histories)
    models = {horizon: _calibrated(data, horizon, list(known), observed) for horizon in HORIZON_D}
    tests = {horizon: _tests(data, horizon, list(known), observed) for horizon in HORIZON_D}
    return page.Study(histories, observed, rate or observed, known, models, tests)


def _calibrated(
    data: hf.Rows, horizon: str, known: Sequence[hf.Key], rate: float
) -> tuple[hf.Fitted, float, float]:
    """A model fitted to all groups and calibrated on log-odds given without their own group."""
    apart = _apart(data, horizon, known, rate)
    slope, shift = hf.platt(data, horizon, apart)
    return hf.fit(data, horizon, known, rate).calibrated(slope, shift), slope, shift


def _apart(data: hf.Rows, horizon: str, known: Sequence[hf.Key], rate: float) -> hf.Floats:
    """Log-odds of each case by a model that has not seen its group."""
    _, _, cells = hf.cases(data, horizon)
    where = {id(cell): i for i, cell in enumerate(cells)}
    apart = hf.np.zeros(len(cells))
    for group, rest in _folds(data):
        fitted = hf.fit(data.of(rest), horizon, known, rate)
        own = data.of([group])
        for cell, logit in zip(
            hf.cases(own, horizon)[2], hf.logits(own, horizon, fitted, rate), strict=True
        ):
            apart[where[id(cell)]] = logit
    return apart


def _tests(data: hf.Rows, horizon: str, known: Sequence[hf.Key], rate: float) -> page.Test:
    """What came of each group, and what models that were fitted and calibrated without it said."""
    parts = []
    for group, rest in _folds(data):
        model, _, _ = _calibrated(data.of(rest), horizon, known, rate)
        assumed = {key: hf.ASSUMED[key[0]] for key in known}
        fixed = hf.Fitted(model.base, 0.0, assumed)
        own = data.of([group])
        failed, weight, cells = hf.cases(own, horizon)
        told = (hf.logits(own, horizon, one, rate) for one in (model, fixed))
        parts.append((failed, weight, cells, *told))
    return page.test(parts)


def _folds(data: hf.Rows) -> Iterator[tuple[int, list[int]]]:
    groups = sorted(set(data.group.tolist()))
    for group in groups:
        yield group, [other for other in groups if other != group]


if __name__ == "__main__":
    sys.exit(main())
