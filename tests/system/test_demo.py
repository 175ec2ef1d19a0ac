"""The demo end to end: a simulated fleet, the real hub, what it finds and whom it leaves alone."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bigiron.model import Blame, Finding, Severity
from bigiron.sim.live.story import BENIGN, FAULTS, WHAT
from bigiron.store.reading import Reading

LIMIT_S = 60.0
SLOW = {"thermal_degradation"}
"""What the demo's help says is not found in half a minute: heat builds up."""

AS = {
    "gpu_off_bus": {"xid.79"},
    "hbm_remap": {"xid.64", "gpu.row_remap_failure"},
    "pcie_downtrain": {"gpu.pcie_width"},
    "hbm_uncorrectable": {"xid.48", "gpu.ecc_uncorrectable"},
    "ib_link_down": {"ib.flap"},
    "config_drift": {"config.drift.driver_version"},
    "node_crash": {"kernel.panic"},
    "gsp_timeout": {"xid.119"},
}


def against(finding: Finding) -> bool:
    return finding.severity is not Severity.INFO and finding.blame is not Blame.APPLICATION


@pytest.mark.system
@pytest.mark.slow
def test_the_demo_finds_its_faults_and_blames_nobody_harmless(tmp_path: Path) -> None:
    began = time.monotonic()
    given = ["--minutes", "0.5", "--nodes", "16", "--no-prometheus", "--folder", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "bigiron", "demo", *given],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < LIMIT_S
    told = {kind: _row(done.stdout, WHAT[kind]) for kind, _ in (*FAULTS, *BENIGN)}
    with Reading(tmp_path / "hub") as reading:
        rows = reading.findings(closed=True, limit=100_000)
    found: dict[str, set[str]] = {}
    for row in rows:
        if against(row.finding):
            found.setdefault(row.finding.subject.node, set()).add(row.finding.fault)
    for kind, _ in FAULTS:
        if kind not in SLOW:
            assert found.get(told[kind], set()) & AS[kind], f"{kind} on {told[kind]}"
    for kind, _ in BENIGN:
        assert told[kind] not in found, f"{kind} on {told[kind]}"
    assert set(found) - {""} <= set(told.values()), "nothing happened to any other node"
    assert "0 of 3 harmless happenings blamed on a node; 0 untouched nodes flagged." in done.stdout
    log = (tmp_path / "hub.log").read_text()
    assert log.endswith("Stopped; everything is written.\n")
    assert "Traceback" not in log


def _row(text: str, what: str) -> str:
    """The node that the final table names beside what was injected."""
    match = re.search(rf"^{re.escape(what)}\s+(n\d+)", text, re.MULTILINE)
    assert match is not None, f"{what!r} in:\n{text}"
    return match[1]
