"""The catalogue's patterns: what they recognise, what they leave alone, and what they cost."""

import re
import time
import tomllib
from pathlib import Path

import pytest

from bigiron.faults import Catalogue, shipped
from bigiron.ingest.log_patterns import FaultPatterns
from bigiron.model import Fault

LINES = Path(__file__).parents[1] / "fixtures" / "faults" / "lines.toml"
EXAMPLES: dict[str, list[str]] = tomllib.loads(LINES.read_text("utf-8"))["lines"]
PATTERNED = [fault for fault in shipped() if fault.patterns]

NEEDS_LIMIT = 110
"""Each need costs the scan of a large log a little."""


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return shipped()


@pytest.fixture(scope="module")
def patterns(catalogue: Catalogue) -> FaultPatterns:
    return FaultPatterns(catalogue)


@pytest.mark.parametrize(
    ("code", "line"),
    [(code, line) for code, lines in EXAMPLES.items() if code != "none" for line in lines],
)
def test_a_line_means_its_code(patterns: FaultPatterns, code: str, line: str) -> None:
    match = patterns.match(line)
    assert match is not None
    assert match.code == code


@pytest.mark.parametrize("line", EXAMPLES["none"])
def test_an_innocent_line_means_nothing(patterns: FaultPatterns, line: str) -> None:
    assert patterns.match(line) is None


@pytest.mark.parametrize(
    ("line", "device", "attrs"),
    [
        (
            "nvme nvme3: I/O tag 41 (1029) opcode 0x2 (Read) QID 7 timeout, aborting",
            "nvme3",
            {"then": "aborting"},
        ),
        ("pcieport 0000:97:01.0: AER: Corrected error received: 0000:9b:00.0", "0000:9b:00.0", {}),
        (
            "watchdog: BUG: soft lockup - CPU#71 stuck for 23s! [pt_main_thread:71234]",
            "",
            {"cpu": "71", "seconds": "23", "process": "pt_main_thread", "pid": "71234"},
        ),
        (
            "amdgpu 0000:c3:00.0: amdgpu: socket: 1, die: 0 3 new uncorrectable hardware errors"
            " detected in umc block",
            "0000:c3:00.0",
            {"count": "3", "block": "umc"},
        ),
        ("nfs: server 10.20.0.7 not responding, still trying", "", {"server": "10.20.0.7"}),
        ("systemd-networkd[1311]: ib4: Lost carrier", "ib4", {}),
        (
            "EDAC MC3: 1 UE memory scrubbing error on CPU_SrcID#1_MC#1_Chan#0_DIMM#0 (channel:0)",
            "",
            {"mc": "MC3", "count": "1", "dimm": "CPU_SrcID#1_MC#1_Chan#0_DIMM#0"},
        ),
    ],
)
def test_a_line_names_its_device_and_details(
    patterns: FaultPatterns, line: str, device: str, attrs: dict[str, str]
) -> None:
    match = patterns.match(line)
    assert match is not None
    assert (match.device, match.attrs) == (device, attrs)


def test_every_entry_with_patterns_has_an_example() -> None:
    assert [fault.code for fault in PATTERNED if fault.code not in EXAMPLES] == []


def test_xid_lines_are_left_to_their_own_reader() -> None:
    assert [f.code for f in PATTERNED if f.code.startswith(("xid.", "sxid."))] == []


@pytest.mark.parametrize("fault", PATTERNED, ids=lambda fault: fault.code)
def test_a_match_always_holds_a_need(fault: Fault) -> None:
    for pattern in fault.patterns:
        compiled = re.compile(pattern)
        matched = [line for line in EXAMPLES[fault.code] if compiled.search(line)]
        assert all(any(need in line for need in fault.needs) for line in matched)
    assert any(re.search(p, line) for p in fault.patterns for line in EXAMPLES[fault.code])


def test_the_needs_stay_few() -> None:
    needs = {need for fault in PATTERNED for need in fault.needs}
    assert len(needs) <= NEEDS_LIMIT
    assert min(len(need) for need in needs) >= 3


def adversarial(fault: Fault, pattern: str, size: int) -> list[str]:
    """Long lines that begin to match again and again."""
    pieces = [piece for piece in re.split(r"[\\\[\](){}.*+?|^$<>]+", pattern) if len(piece) > 3]
    seeds = [fault.needs[0], " ".join(pieces), f"{fault.needs[-1]}0000:9b:00.0: 1 ", "1", "a", " "]
    return [(seed * (size // max(len(seed), 1) + 1))[:size] for seed in seeds if seed]


@pytest.mark.parametrize("fault", PATTERNED, ids=lambda fault: fault.code)
def test_no_line_makes_a_pattern_crawl(fault: Fault) -> None:
    for pattern in fault.patterns:
        compiled = re.compile(pattern)
        for line in adversarial(fault, pattern, 20_000):
            began = time.perf_counter()
            compiled.search(line)
            assert time.perf_counter() - began < 1.0, f"{pattern} on {line[:40]!r}..."


@pytest.mark.parametrize("fault", PATTERNED, ids=lambda fault: fault.code)
def test_repetition_is_bounded(fault: Fault) -> None:
    for pattern in fault.patterns:
        bare = re.sub(r"\\.|\[[^\]]*\]", "x", pattern)
        assert not re.search(r"[*+]", bare), "write {0,N}: an open end costs time on a long line"
