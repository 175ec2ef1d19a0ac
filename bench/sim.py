"""A simulated fleet recorded, replayed and compared with its truth. `make sim`.

The comparison is a plain one: was a finding opened on the right node between an episode's onset
and an hour after it, and were nodes blamed on which nothing, or only something benign, happened.
"""

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

SEEDS = (101, 102, 103)
NODES, HOURS, STEP_S = 64, 24, 60
WITHIN = timedelta(hours=1)
WORTH = ("warning", "critical", "fatal")


def main() -> int:
    """Print what was found of what was injected, and who was blamed for nothing."""
    found: dict[str, list[bool]] = defaultdict(list)
    blamed, node_days = 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for seed in SEEDS:
            recording, out = Path(folder) / f"rec{seed}", Path(folder) / f"out{seed}"
            size = ("--nodes", str(NODES), "--hours", str(HOURS), "--step", str(STEP_S))
            _bigiron("sim", "record", "--out", str(recording), "--seed", str(seed), *size)
            _bigiron("replay", str(recording), "--out", str(out))
            blamed += _compare(
                _rows(recording / "truth.jsonl"), _rows(out / "findings.jsonl"), found
            )
            node_days += NODES * HOURS / 24
    for kind, hits in sorted(found.items()):
        print(f"{kind:22} {sum(hits)} of {len(hits)}")
    rate = 1000 * blamed / node_days
    print(f"nodes blamed for nothing: {blamed} in {node_days:g} node-days ({rate:.1f} per 1,000)")
    return 0


def _compare(
    truth: list[dict[str, Any]], findings: list[dict[str, Any]], found: dict[str, list[bool]]
) -> int:
    opened: dict[str, list[datetime]] = defaultdict(list)
    for finding in findings:
        subject = finding["subject"]
        if finding["change"] == "open" and finding["severity"] in WORTH and "node" in subject:
            opened[subject["node"]].append(datetime.fromisoformat(finding["time"]))
    faulty = set()
    for episode in truth:
        if "node" not in episode["subject"]:
            continue
        node, onset = episode["subject"]["node"], datetime.fromisoformat(episode["onset"])
        if episode["label"] == "fault":
            faulty.add(node)
            hit = any(onset <= time <= onset + WITHIN for time in opened[node])
            found[episode["class"]].append(hit)
    return len({node for node, times in opened.items() if times} - faulty)


def _bigiron(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "bigiron", *words], check=True, stdout=subprocess.DEVNULL)


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


if __name__ == "__main__":
    sys.exit(main())
