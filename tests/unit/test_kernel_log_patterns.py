"""Messages to codes by the catalogue's patterns, and what lines they let pass unread."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigiron.errors import ConfigError
from bigiron.faults import Catalogue, catalogue, parse
from bigiron.ingest.log_literals import ORDINARY, Gate, required
from bigiron.ingest.log_patterns import FaultPatterns

TOML = Path(__file__).parents[1] / "fixtures" / "kernel_log" / "faults.toml"
PATTERNS = FaultPatterns(Catalogue(*parse(TOML.read_text("utf-8"), "faults.toml")))

ENTRY = """
[source.s]
title = "t"
date = "2026-01-01"
where = "w"
"""


def entry(code: str, patterns: list[str], needs: list[str], device: str = "") -> str:
    return f"""
[[fault]]
code = "{code}"
name = "n"
meaning = "m"
severity = "warning"
blame = "host"
source = "s"
device = "{device}"
patterns = {json.dumps(patterns)}
needs = {json.dumps(needs)}
"""


def build(*entries: str) -> FaultPatterns:
    return FaultPatterns(Catalogue(*parse(ENTRY + "".join(entries), "t.toml")))


def test_named_parts_become_device_and_attributes() -> None:
    found = PATTERNS.match("mlx5_core 0000:5e:00.1: poll_health:825: device's health compromised")
    assert found is not None
    assert (found.code, found.device, found.attrs) == (
        "ib.health_compromised",
        "0000:5e:00.1",
        {},
    )
    found = PATTERNS.match("nvme nvme4: I/O tag 22 (2016) opcode 0x2 QID 0 timeout, reset")
    assert found is not None
    assert (found.code, found.device) == ("nvme.timeout", "nvme4")
    found = PATTERNS.match("INFO: task jfsmount:136986 blocked for more than 120 seconds.")
    assert found is not None
    assert found.attrs == {"process": "jfsmount", "pid": "136986", "seconds": "120"}


def test_address_is_taken_from_the_message_if_the_pattern_names_none() -> None:
    found = PATTERNS.match("NVRM: GPU 0000:91:00.0: GPU has fallen off the bus.")
    assert found is not None
    assert found.device == "0000:91:00.0"


def test_all_clear_in_the_faults_own_words_is_no_fault() -> None:
    line = "amdgpu 0000:c3:00.0: amdgpu: {} uncorrectable hardware errors detected in umc block"
    assert PATTERNS.match(line.format("no")) is None
    found = PATTERNS.match(line.format("2"))
    assert found is not None
    assert found.attrs == {"count": "2", "block": "umc"}


def test_longest_need_goes_first_then_the_catalogues_order() -> None:
    general = entry("a.general", ["disk .*"], ["disk"])
    particular = entry("a.particular", ["disk failed badly"], ["disk failed"])
    late = entry("a.late", ["disk .*"], ["disk"])
    patterns = build(late, general, particular)
    found = patterns.match("disk failed badly")
    assert found is not None
    assert found.code == "a.particular"
    found = patterns.match("disk is fine")
    assert found is not None
    assert found.code == "a.late"


def test_a_pattern_is_not_tried_without_its_need() -> None:
    assert build(entry("a.b", [".*"], ["magic"])).match("anything") is None


def test_needs_may_be_left_to_the_pattern() -> None:
    patterns = build(entry("a.b", ["link [0-9]{1,3} went away"], []))
    assert patterns.gates == (Gate((" went away",)),)
    assert patterns.match("link 4 went away") is not None


def test_a_fault_that_any_line_could_mean_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"a\.b\.needs"):
        build(entry("a.b", [".*"], []))


def test_a_need_over_two_lines_is_refused() -> None:
    with pytest.raises(ConfigError, match="literals"):
        build(entry("a.b", ["x"], ["one\ntwo"]))


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        ("disk failed", ("disk failed",)),
        ("[Dd]isk gone", ("Disk gone", "disk gone")),
        ("abc*defgh", ("defgh",)),
        ("abcdx+yz", ("abcdx",)),
        ("(?:reset|init) gave up", ("reset gave up", "init gave up")),
        ("(?P<a>abcd|efgh(?:ij|kl))+", ("abcd", "efghij", "efghkl")),
        ("(?:maybe )?always there", ("always there", "maybe always there")),
        ("(?<!no )count(?!er)ed it", ("counted it",)),
        (r"\[Hardware Error\]\.", ("[Hardware Error].",)),
        (r"[]abc]hello(x[)]y)", ("hello",)),
        (r"\x41bcdefgh", ("bcdefgh",)),
        (r"x{2}yyyy", ("yyyy",)),
        (r"first thing|second thing", ("first thing", "second thing")),
    ],
)
def test_literals_that_every_match_contains(pattern: str, literals: tuple[str, ...]) -> None:
    assert required(pattern) == Gate(literals)


@pytest.mark.parametrize(
    "pattern", ["a|bcdefgh", "abc", "(?i)abcdefgh", ".*", "", r"\d+\w+", "(x)"]
)
def test_patterns_that_demand_nothing(pattern: str) -> None:
    assert required(pattern) is None


def test_a_common_word_is_gated_by_its_company() -> None:
    common = "nvidia-nvswitch"
    assert any(common in line for line in ORDINARY)
    gate = required(common + r"\d: (?!open).{0,90}(?:[Ff]ailed|timeout)")
    assert gate is not None
    assert gate == Gate((common,), after=("Failed", "failed", "timeout"))


def test_what_is_looked_ahead_for_may_come_first() -> None:
    gate = required("(?=.{0,20}failed).{0,20}firmware version ")
    assert gate is not None
    assert not gate.before


PIECES = st.sampled_from(
    [
        "abcd",
        "efgh ",
        "[Xx]yz",
        r"\d{1,3}",
        ".{0,3}",
        "(?:one|other)",
        "(?:maybe)?",
        "q+",
        "(?P<n>w|vv)",
    ]
)


@given(st.lists(PIECES, min_size=1, max_size=6, unique=True).map("".join), st.data())
def test_every_match_passes_its_gate(pattern: str, data: st.DataObject) -> None:
    gate = required(pattern)
    text = data.draw(st.from_regex(pattern))
    if gate is not None:
        assert any(literal in text for literal in gate.any_of)
        parts = [part for part in (gate.before, gate.any_of, gate.after) if part]
        joined = ".*".join("(?:" + "|".join(map(re.escape, part)) + ")" for part in parts)
        assert re.search(joined, text, re.DOTALL)


def test_shipped_catalogue_sees_nothing_wrong_in_ordinary_lines() -> None:
    patterns = FaultPatterns(catalogue())
    found = [match for line in ORDINARY if (match := patterns.match(line)) is not None]
    assert [one.code for one in found if catalogue().find(one.code).severity.rank] == []


@given(st.text(max_size=400))
def test_any_message_is_judged(message: str) -> None:
    found = PATTERNS.match(message)
    assert found is None or found.code
