"""A hub killed two hundred times at random moments keeps an exact account of what happened."""

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bigiron.model import Change
from bigiron.store.reading import Reading

KILLS = 200
SEED = 20260304
CHILD = Path(__file__).with_name("hub_child.py")
CODES = {
    "xid.79": "NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.",
    "xid.48": "NVRM: Xid (PCI:0000:9b:00): 48, An uncorrectable double bit error (DBE)",
    "xid.74": "NVRM: Xid (PCI:0000:9b:00): 74, NVLink: fatal error detected on link 3",
}


class Writer(threading.Thread):
    """Writes a log until told to stop, and remembers what it wrote.

    Each fault has a device of its own, and some are written again later: that is one finding.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self.claims: set[tuple[str, str, str]] = set()
        self.lines = 0
        self.stopping = threading.Event()
        self._path = path

    def run(self) -> None:
        chance = random.Random(SEED)
        written: list[tuple[str, str, str]] = []
        with self._path.open("a", buffering=1) as file:
            while not self.stopping.wait(chance.uniform(0.0, 0.08)):
                if chance.random() < 0.3:
                    file.write(f"{datetime.now(UTC).isoformat()} n0001 gpu0 - nothing to see\n")
                    continue
                if written and chance.random() < 0.2:
                    claim = chance.choice(written)
                else:
                    claim = (f"n{len(written):04d}", "gpu0", chance.choice(list(CODES)))
                    written.append(claim)
                node, device, code = claim
                self.lines += 1
                self.claims.add(claim)
                stamp = datetime.now(UTC).isoformat()
                file.write(f"{stamp} {node} {device} {code} {CODES[code]} #{self.lines}\n")


def caught_up(folder: Path, log: Path, deadline: float) -> bool:
    end = log.stat().st_size
    while time.monotonic() < deadline:
        with Reading(folder) as reading:
            if reading.cursors().get(log.name, "").startswith(f"{end} "):
                return True
        time.sleep(0.1)
    return False


@pytest.mark.system
@pytest.mark.slow
def test_two_hundred_kills_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    folder, log = tmp_path / "hub", tmp_path / "faults.log"
    writer = Writer(log)
    with subprocess.Popen(
        [sys.executable, str(CHILD), str(folder), str(log), str(KILLS), str(SEED)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.readline() == "ready\n"
        writer.start()
        ends = json.loads(child.stdout.readline())
        writer.stopping.set()
        writer.join()
        print("go", file=child.stdin, flush=True)
        assert child.stdout.readline() == "last\n"
        assert caught_up(folder, log, time.monotonic() + 20)
        child.send_signal(signal.SIGTERM)
        assert child.stdout.readline() == "stopped\n"
    assert child.returncode == 0
    assert ends == {str(-signal.SIGKILL): KILLS}, "every hub ran until it was killed"
    assert len(writer.claims) > KILLS
    with Reading(folder) as reading:
        _compare(reading, writer, log)


def _compare(reading: Reading, writer: Writer, log: Path) -> None:
    findings = reading.findings(closed=True, limit=1_000_000)
    mine = [f for f in findings if f.finding.fault in CODES]
    claims = [(f.finding.subject.node, f.finding.subject.device, f.finding.fault) for f in mine]
    assert Counter(claims) == Counter(writer.claims), "each fault is one finding"
    assert [f.id for f in findings if f.closed] == [], "none was closed by silence"
    assert len({f.id for f in findings}) == len(findings)
    for found in mine:
        opened = [c for c in reading.changes(found.id) if c.change is Change.OPEN]
        assert len(opened) == 1, f"{found.id} opened once"
    events = reading.events(limit=1_000_000)
    from_log = [e.text.rsplit("#", 1)[1] for e in events if e.source == log.name]
    assert sorted(map(int, from_log)) == list(range(1, writer.lines + 1))
    counted = [int(e.text.split()[1]) for e in events if e.source == "counter"]
    assert len(counted) > KILLS, "the hubs came to work between the kills"
    assert sorted(counted) == list(range(1, int(reading.cursors()["counter"]) + 1))
    actions = reading.actions(limit=1_000_000)
    assert len({(a.key, bool(a.held)) for a in actions}) == len(actions)
