"""The hub as it is started: a process, a growing log, questions while it runs."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

BIGIRON = [sys.executable, "-m", "bigiron"]
XID = "NVRM: Xid (PCI:0000:9b:00): 79, pid=1234, name=python3, GPU has fallen off the bus."

pytestmark = pytest.mark.system


class Running:
    """A hub on a log in a folder; ``said`` is what it printed once it has ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "kern.log"
        self.log.touch()
        self.process = subprocess.Popen(
            [*BIGIRON, "hub", "--folder", str(folder / "hub"), "--kernel-log", str(self.log)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said = ""

    def write(self, node: str) -> None:
        stamp = datetime.now(UTC).isoformat()
        with self.log.open("a") as file:
            file.write(f"{stamp} {node} kernel: {XID}\n")

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*BIGIRON, *arguments, "--folder", str(self.folder / "hub")],
            capture_output=True,
            text=True,
            check=False,
        )

    def findings(self, count: int, timeout_s: float = 20.0) -> list[dict[str, str]]:
        """The open findings, once there are ``count`` of them."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            answer = self.ask("findings", "--json")
            if answer.returncode == 0:
                found: list[dict[str, str]] = json.loads(answer.stdout)
                if len(found) >= count:
                    return found
            time.sleep(0.1)
        raise AssertionError(f"not {count} findings in {timeout_s:g} s: {answer}")

    def end(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.said, _ = self.process.communicate(timeout=30)
        return self.process.returncode


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    hub = Running(tmp_path)
    yield hub
    if hub.process.poll() is None:
        hub.end(signal.SIGKILL)
    if hub.process.stdout is not None:
        hub.process.stdout.close()


def test_a_line_in_the_log_is_a_finding_that_says_why(running: Running) -> None:
    running.write("gpu017")
    (found,) = running.findings(1)
    assert found["id"] == "F000001"
    why = running.ask("why", "gpu017")
    assert why.returncode == 0
    for part in ("unhealthy", "asked for: ", "F000001", "xid.79", f"{running.log}:1", XID):
        assert part in why.stdout
    assert running.end() == 0
    assert "Shadow mode" in running.said
    assert f"kernel log {running.log}" in running.said
    assert "open  F000001 fatal" in running.said
    assert running.said.endswith("Stopped; everything is written.\n")


def test_a_second_hub_in_the_folder_is_refused(running: Running) -> None:
    running.write("gpu001")
    running.findings(1)
    second = running.ask("hub", "--kernel-log", str(running.log))
    assert second.returncode == 3
    assert f"another hub (pid {running.process.pid})" in second.stderr
    assert "Traceback" not in second.stderr
    assert running.process.poll() is None


def test_a_killed_hub_goes_on_where_it_was(tmp_path: Path) -> None:
    first = Running(tmp_path)
    first.write("gpu001")
    first.findings(1)
    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    first.write("gpu002")
    second = Running(tmp_path)
    found = second.findings(2)
    assert sorted(row["id"] for row in found) == ["F000001", "F000002"]
    assert second.end(signal.SIGINT) == 0
    assert "1 finding stands from before" in second.said
    assert "F000001" not in second.said
