"""Checks that a site has, run as they are: NHC and plugins as Nagios runs them."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigiron.collect.executables import CHECKS, OUTPUT_BYTES, Executable, executables
from bigiron.collect.plugin_output import TEXT_LIMIT, VALUES, said
from bigiron.errors import NoData
from bigiron.host import Host
from bigiron.model import CheckResult, CheckStatus

NHC = "ERROR:  nhc:  Health check failed:  {}\n"


def script(folder: Path, text: str, name: str = "check") -> str:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


def ran(*checks: Executable, host: Host | None = None) -> list[CheckResult]:
    host = host or Host()
    host.handles[CHECKS] = checks
    results = []
    for one in executables(host):
        assert isinstance(one, CheckResult)
        results.append(one)
    return results


def test_nothing_is_run_that_is_not_configured() -> None:
    with pytest.raises(NoData):
        list(executables(Host()))


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        (0, CheckStatus.PASS),
        (1, CheckStatus.WARN),
        (2, CheckStatus.FAIL),
        (3, CheckStatus.ERROR),
        (77, CheckStatus.ERROR),
    ],
)
def test_a_plugin_says_by_its_exit_status(tmp_path: Path, status: int, wanted: CheckStatus) -> None:
    line = "DISK - free space: / 3326 MB | /=2643MB;5948;5958;0;5968 time=12ms"
    path = script(tmp_path, f"echo '{line}'; exit {status}")
    (result,) = ran(Executable("disk", (path,), code="storage.full"))
    assert (result.check, result.status) == ("disk", wanted)
    assert result.text.endswith("DISK - free space: / 3326 MB")
    assert result.values == {"/": 2643.0, "time": 0.012}
    failed = wanted in (CheckStatus.WARN, CheckStatus.FAIL)
    assert result.code == ("storage.full" if failed else "")


def test_arguments_are_handed_over_as_they_are(tmp_path: Path) -> None:
    path = script(tmp_path, 'printf "%s;" "$@"')
    nasty = ("a b", "$(touch /tmp/x)", "; rm -rf /", "'\"")
    (result,) = ran(Executable("args", (path, *nasty)))
    assert result.text == "a b;$(touch /tmp/x);; rm -rf /;'\";"


def test_nhc_fails_by_its_words() -> None:
    fails = NHC.format("check_fs_mount:  /home not mounted") + NHC.format("check_hw_ib:  no ib")
    told = said(1, fails, "")
    assert told.status is CheckStatus.FAIL
    assert told.text == "check_fs_mount: /home not mounted; check_hw_ib: no ib"
    assert said(1, "", fails).status is CheckStatus.FAIL, "on either output"
    assert said(0, "", "").status is CheckStatus.PASS
    assert said(1, "ERROR:  nhc:  3 health checks failed.", "").status is CheckStatus.FAIL


def test_an_nhc_that_timed_out_came_to_no_verdict() -> None:
    late = NHC.format('Script timed out while executing "check_fs_mount_rw -f /home".')
    assert said(1, late, "").status is CheckStatus.ERROR
    told = said(1, late + NHC.format("check_hw_cpuinfo:  12 cores"), "")
    assert (told.status, told.text) == (CheckStatus.FAIL, "check_hw_cpuinfo: 12 cores")


def test_what_could_not_be_run_is_an_error_and_no_failure(tmp_path: Path) -> None:
    slow = script(tmp_path, "echo begun; sleep 60", "slow")
    loud = script(tmp_path, "yes | head -c 2000000", "loud")
    dies = script(tmp_path, "kill -SEGV $$", "dies")
    start = time.monotonic()
    results = ran(
        Executable("slow", (slow,), timeout_s=0.3),
        Executable("loud", (loud,)),
        Executable("none", (f"{tmp_path}/nothing",)),
        Executable("dies", (dies,)),
    )
    assert time.monotonic() - start < 20
    assert [one.status for one in results] == [CheckStatus.ERROR] * 4
    said_of = {one.check: one.text for one in results}
    assert "no answer in 0.3 s" in said_of["slow"]
    assert f"more than {OUTPUT_BYTES:,} bytes" in said_of["loud"]
    assert "not there" in said_of["none"]
    assert said_of["dies"] == "ended by signal 11"


def test_a_check_is_run_no_more_often_than_it_is_to_be(tmp_path: Path) -> None:
    path, host = script(tmp_path, "echo fine"), Host()
    often = Executable("often", (path,), every_s=1.0)
    assert len(ran(often, Executable("seldom", (path,)), host=host)) == 2
    assert ran(often, Executable("seldom", (path,)), host=host) == []
    time.sleep(1.05)
    assert [one.check for one in ran(often, Executable("seldom", (path,)), host=host)] == ["often"]


@pytest.mark.parametrize(
    "argv",
    [(), ("check",), ("./check",), ("/bin/true", "a\0b")],
    ids=["none", "path", "dot", "nul"],
)
def test_only_an_absolute_path_is_run(argv: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="bad:"):
        Executable("bad", argv)
    with pytest.raises(ValueError, match="timeout_s"):
        Executable("bad", ("/bin/true",), timeout_s=1e9)


def test_a_captured_machine_runs_nothing_of_ours(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    path = script(tmp_path, f"touch {touched}")
    (result,) = ran(Executable("x", (path,)), host=Host(root=tmp_path))
    assert result.status is CheckStatus.ERROR
    assert not touched.exists()


def test_values_are_read_as_the_guidelines_write_them() -> None:
    text = "OK | 'it''s'=1.5s;1;2 load=.5 pct=99%;~:80;@10:20 bad=x 'a b'=-3e2c t=U big=1e999"
    assert said(0, f"{text}\nlong\ntext | more=7\nlast=8", "").values == {
        "it's": 1.5,
        "load": 0.5,
        "pct": 99.0,
        "a b": -300.0,
        "more": 7.0,
        "last": 8.0,
    }
    many = " ".join(f"v{n}={n}" for n in range(500))
    assert len(said(0, f"OK | {many}", "").values) == VALUES


@given(st.integers(-64, 255), st.text(max_size=300), st.text(max_size=100))
def test_no_output_breaks_it(status: int, output: str, errors: str) -> None:
    told = said(status, output, errors)
    assert len(told.text) <= TEXT_LIMIT + 60
    assert (told.status is CheckStatus.PASS) <= (status == 0)


def test_long_output_is_read_in_little_time() -> None:
    start = time.monotonic()
    for text in ("'" * 200_000, "a=" * 100_000, "ERROR:  " * 30_000, "1" * 250_000, "x=1" * 80_000):
        said(0, f"OK | {text}", text)
    assert time.monotonic() - start < 5
