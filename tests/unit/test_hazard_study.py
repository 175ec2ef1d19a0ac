"""The study behind the hazard's weights finds what was put into a fleet's history."""

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bigiron.decide.hazard_weights import Weights, parse
from bigiron.model import Severity

STUDY = Path(__file__).parents[2] / "tools" / "study_hazard.py"
START = datetime(2026, 3, 1, tzinfo=UTC)
NODES, DAYS = 30, 60
SIGN_DAILY, FAILS_THEN, FAILS_ELSE = 0.1, 0.5, 0.01


def lines(path: Path, rows: Sequence[object]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def finding(number: int, node: str, fault: str, severity: str) -> dict[str, object]:
    return {
        "id": f"F{number:06d}",
        "detector": "d",
        "fault": fault,
        "severity": severity,
        "subject": {"kind": "node", "node": node},
        "confidence": 1.0,
        "because": ["it is odd"],
    }


def made(recording: Path, replayed: Path, seed: int) -> None:
    """Half of the days with ``odd.sign`` end in a failure of six hours, which ``odd.end`` tells;
    ``odd.noise`` is as frequent and means nothing; ``odd.user`` is not held against the node."""
    rng = random.Random(seed)
    names = [f"n{i}" for i in range(NODES)]
    findings: list[tuple[datetime, dict[str, object]]] = []
    truth, number = [], 0

    def stands(node: str, fault: str, severity: str, since: datetime, until: datetime) -> None:
        nonlocal number
        number += 1
        told = finding(number, node, fault, severity)
        findings.append((since, {**told, "change": "open"}))
        findings.append((until, {**told, "change": "close", "closed_because": "it is over"}))

    for node in names:
        for day in range(DAYS - 1):
            begins = START + timedelta(days=day)
            signed = rng.random() < SIGN_DAILY
            for fault, there in (
                ("odd.sign", signed),
                ("odd.noise", rng.random() < SIGN_DAILY),
                ("odd.user", rng.random() < SIGN_DAILY),
            ):
                if there:
                    stands(node, fault, "warning", begins, begins + timedelta(days=1))
            if rng.random() < (FAILS_THEN if signed else FAILS_ELSE):
                fails = begins + timedelta(hours=18)
                end = fails + timedelta(hours=6)
                stands(node, "odd.end", "fatal", fails, end)
                subject = {"kind": "node", "node": node}
                at = {"onset": fails.isoformat(), "fails": fails.isoformat()}
                truth.append({"label": "fault", "subject": subject, **at, "end": end.isoformat()})
    findings.sort(key=lambda pair: pair[0])
    recording.mkdir()
    replayed.mkdir()
    end = START + timedelta(days=DAYS)
    (recording / "recording.toml").write_text(
        f'name = "made-{seed}"\nstart = "{START.isoformat()}"\nend = "{end.isoformat()}"\n'
    )
    (recording / "nodes.csv").write_text("node\n" + "".join(f"{name}\n" for name in names))
    lines(recording / "truth.jsonl", truth)
    lines(replayed / "findings.jsonl", [{"time": t.isoformat(), **f} for t, f in findings])
    counted = [f["id"] for _, f in findings if f["fault"] != "odd.user"]
    lines(replayed / "verdicts.jsonl", [{"findings": counted}])
    (replayed / "summary.json").write_text("{}")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Weights, str]:
    folder = tmp_path_factory.mktemp("study")
    (folder / "work").mkdir()
    given: list[str] = []
    for number in range(2):
        recording = folder / f"rec{number}"
        made(recording, folder / "work" / f"{number}-{recording.name}", number)
        given += ["--recording", str(recording)]
    out = folder / "ours.toml"
    command = [sys.executable, str(STUDY), *given, "--weights", str(out)]
    done = subprocess.run(
        [*command, "--work", str(folder / "work")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return parse(out.read_text(), "ours.toml"), done.stdout


def test_a_sign_that_precedes_failures_weighs_and_one_that_does_not_hardly_does(
    fitted: tuple[Weights, str],
) -> None:
    weights, _ = fitted
    sign, noise = (weights.of(f"odd.{one}", Severity.WARNING) for one in ("sign", "noise"))
    assert 2.0 < sign[0] < 5.0
    assert noise[0] < 0.6
    assert noise[1] < 0.6
    assert weights.of("odd.end", Severity.FATAL)[0] > 4.0


def test_the_base_is_that_of_nodes_that_show_nothing(fitted: tuple[Weights, str]) -> None:
    weights, _ = fitted
    assert weights.source.title == "made-0, made-1"
    assert weights.base.rate == pytest.approx(1000 * (0.05 + 0.009), rel=0.15)
    # A day on: what comes without a sign, and what comes of a sign tomorrow.
    assert 0.01 < weights.base.p_24h < 0.06
    # A week on: nearly what comes to any node, 1 - (1 - 0.059) ** 7.
    assert 0.25 < weights.base.p_7d < 0.35


def test_what_is_not_held_against_a_node_has_no_weight(fitted: tuple[Weights, str]) -> None:
    weights, _ = fitted
    assert not any(one.fault == "odd.user" for one in weights.weight)
    assert {one.n for one in weights.weight if one.fault == "odd.noise"} != {0}


def test_nodes_that_have_not_failed_yet_are_ranked_better_than_by_chance(
    fitted: tuple[Weights, str],
) -> None:
    _, page = fitted
    well = next(line for line in page.splitlines() if line.startswith("| not yet failed"))
    auc = float(well.split("|")[5].split("[")[0])
    assert 0.65 < auc < 0.95
