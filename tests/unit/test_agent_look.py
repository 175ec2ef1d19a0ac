"""One look at a machine: all that it has is seen, and what hangs or fails keeps nothing else."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

HOSTS = Path(__file__).parents[1] / "hosts"


def look(*words: str, code: str = "") -> subprocess.CompletedProcess[str]:
    """`bigiron agent --once` in a process of its own; ``code`` runs there before it."""
    script = f"import sys\n{code}\nfrom bigiron.cli import main\nsys.exit(main())"
    argv = [sys.executable, "-c", script, "agent", "--once", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)


def seen(host: str, *words: str, code: str = "") -> dict[str, dict[str, object]]:
    done = look("--root", str(HOSTS / host), "--format", "json", *words, code=code)
    assert not done.stderr
    return {one["name"]: one for one in json.loads(done.stdout)}


def test_a_node_of_eight_gpus_tells_of_each() -> None:
    found = seen("h100x8")
    assert not [name for name, one in found.items() if one["problem"]]
    samples = [one for of in found.values() for one in of["batch"].get("samples", ())]  # type: ignore[attr-defined]
    told = [one["device"] for one in samples if one["metric"] == "gpu_temp_celsius"]
    assert len(told) == 8  # by the exporter or by NVML, not by both
    assert {*told} == {f"gpu{number}" for number in range(8)}
    assert found["amdsmi"]["absent"] is True


def test_a_machine_without_gpus_works_and_says_so() -> None:
    found = seen("cpu-only")
    assert all(found[name]["absent"] for name in ("nvml", "amdsmi"))
    assert not [name for name, one in found.items() if one["problem"]]


def test_only_the_named_collector_is_run() -> None:
    assert set(seen("h100x8", "--collector", "pcie")) == {"pcie"}


EXTRA = """
import os, time
from bigiron.collect import collector
from bigiron.errors import Permanent
from bigiron.model import Sample

@collector(timeout_s=0.5, apart=True)
def sleeper(host):
    \"\"\"Never answers.\"\"\"
    time.sleep(600)

@collector(timeout_s=30, apart=True)
def dead(host):
    \"\"\"Is killed.\"\"\"
    os._exit(9)

@collector(timeout_s=30, apart=True)
def broken(host):
    \"\"\"Fails half way.\"\"\"
    yield Sample("", "", "node_load", 1.0)
    raise Permanent("the card says no")
"""


def test_what_hangs_fails_or_dies_is_told_and_keeps_nobody() -> None:
    began = time.monotonic()
    names = [
        word for name in ("sleeper", "dead", "broken", "pcie") for word in ("--collector", name)
    ]
    found = seen("h100x8", *names, code=EXTRA)
    assert time.monotonic() - began < 60
    assert found["sleeper"]["problem"] == "no answer in 0.5 s; left behind"
    assert found["dead"]["problem"] == "its process was killed"
    assert found["broken"]["problem"] == "the card says no"
    assert len(found["broken"]["batch"]["samples"]) == 1  # type: ignore[index]
    assert found["pcie"]["batch"]["samples"]  # type: ignore[index]


def test_a_failed_collector_is_in_the_exit_code_and_the_page() -> None:
    words = ("--root", str(HOSTS / "cpu-only"), "--collector", "dead", "--collector", "pressure")
    done = look(*words, "--format", "openmetrics", code=EXTRA)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert 'collector_success{collector="dead"} 0' in lines
    assert 'collector_success{collector="pressure"} 1' in lines
    assert lines[-1] == "# EOF"
    assert any(line.startswith("node_memory_available_bytes ") for line in lines)


def test_the_table_is_for_a_person() -> None:
    done = look("--root", str(HOSTS / "h100x8"), "--collector", "nvml_facts")
    assert done.returncode == 0
    assert "driver_version" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [(("--collector", "nvlm"), "no collector nvlm"), (("--root", "/nowhere"), "does not exist")],
)
def test_wrong_words_are_told(words: tuple[str, ...], said: str) -> None:
    done = look(*words)
    assert done.returncode == 4
    assert said in done.stderr


def test_no_child_is_left(tmp_path: Path) -> None:
    """The sleeper is killed, not waited for and not left."""
    mark = tmp_path / "pid"
    code = EXTRA.replace(
        "time.sleep(600)", f"open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    )
    seen("cpu-only", "--collector", "sleeper", code=code)
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)
