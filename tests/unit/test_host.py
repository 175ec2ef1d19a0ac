import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from bigiron.errors import NoData, Permanent, Temporary
from bigiron.host import Host

SYSTEM = "/usr/bin:/bin"


def command(folder: Path, text: str) -> Host:
    """A host whose ``tool`` is this shell script."""
    path = folder / "tool"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return Host(path=f"{folder}:{SYSTEM}")


def test_what_a_command_says(tmp_path: Path) -> None:
    there = command(tmp_path, 'printf "%s %s %s" "$1" "$TZ" "$LC_ALL"; echo aside >&2')
    assert there.run(["tool", "a b"], timeout_s=5) == "a b UTC C"


def test_a_failure_is_told_with_its_words(tmp_path: Path) -> None:
    with pytest.raises(Permanent, match="tool x: exit 3: no such thing"):
        command(tmp_path, "echo no such thing >&2; exit 3").run(["tool", "x"], timeout_s=5)


def test_what_is_not_there_or_cannot_be_run(tmp_path: Path) -> None:
    with pytest.raises(NoData, match="not installed"):
        Host(path=str(tmp_path)).run(["tool"], timeout_s=5)
    (tmp_path / "tool").write_bytes(b"\x7fELF no program")
    (tmp_path / "tool").chmod(0o755)
    with pytest.raises(Permanent, match="tool: cannot be run: Exec format error"):
        Host(path=str(tmp_path)).run(["tool"], timeout_s=5)


def test_a_command_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    there = command(tmp_path, f"sleep 60 & echo $! > {tmp_path}/child; sleep 60")
    with pytest.raises(Temporary, match=r"no answer in 0\.5 s"):
        there.run(["tool"], timeout_s=0.5)
    child = int((tmp_path / "child").read_text())
    until = time.monotonic() + 5
    while time.monotonic() < until and _lives(child):
        time.sleep(0.02)
    assert not _lives(child)


def test_what_it_leaves_behind_holds_nobody_up(tmp_path: Path) -> None:
    there = command(tmp_path, f"sleep 20 & echo $! > {tmp_path}/child; echo done")
    began = time.monotonic()
    assert there.run(["tool"], timeout_s=10) == "done\n"
    assert time.monotonic() - began < 5
    os.kill(int((tmp_path / "child").read_text()), 9)


def test_a_command_that_says_too_much_is_ended(tmp_path: Path) -> None:
    there = replace(command(tmp_path, "exec yes node"), output_bytes=10_000)
    with pytest.raises(Permanent, match="says more than 10,000 bytes"):
        there.run(["tool"], timeout_s=60)


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_how_a_command_ended_is_told_with_both_its_outputs(tmp_path: Path) -> None:
    there = command(tmp_path, "echo half; echo why >&2; exit 2")
    assert there.outcome(["tool"], timeout_s=5) == (2, "half\n", "why\n")
    killed = command(tmp_path, "kill -9 $$").outcome(["tool"], timeout_s=5)
    assert killed.status == -9


def test_a_command_that_goes_on_is_read_by_whoever_started_it(tmp_path: Path) -> None:
    there = command(tmp_path, "echo first; exec sleep 60")
    with there.start(["tool"]) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"first\n"
        process.kill()
    with pytest.raises(NoData, match="not installed"):
        Host(root=tmp_path).start(["tool"])
