from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from bigiron.detect import Series, Window
from bigiron.detect.settle import Docket, Rules, settle
from bigiron.model import Change, Evidence, Finding, Recovery, Severity, Subject

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
READS = {"level": ("m",), "edge": ()}


def claim(detector: str = "level", **changes: Any) -> Finding:
    finding = Finding(
        detector,
        "f",
        Severity.WARNING,
        Subject("n1", "gpu0"),
        NOW,
        ("it is 71 °C",),
        evidence=(Evidence("sample", "seen", metric="m"),),
    )
    return msgspec.structs.replace(finding, **changes)


def window(minutes: float, *, seen: bool = True) -> Window:
    now = NOW + timedelta(minutes=minutes)
    at = now.timestamp() if seen else NOW.timestamp() - 9999
    return Window(now, series={"m": {("n1", "gpu0"): Series([at], [1.0])}})


def after(
    *claims: Finding,
    docket: Docket | None = None,
    minutes: float = 0,
    seen: bool = True,
    recovered: tuple[Recovery, ...] = (),
    rules: Rules | None = None,
    ran: dict[str, tuple[str, ...]] | None = None,
) -> tuple[Docket, list[Change]]:
    docket, changes = settle(
        docket or Docket(),
        claims,
        recovered,
        window(minutes, seen=seen),
        reads=READS if ran is None else ran,
        rules=rules or Rules(close_after_s=60),
    )
    return docket, [c.change for c in changes]


def test_opens_once_and_keeps_its_id() -> None:
    docket, changes = after(claim())
    assert changes == [Change.OPEN]
    assert list(docket.open) == ["F000001"]
    docket, changes = after(claim(), docket=docket, minutes=1)
    assert (list(docket.open), changes) == (["F000001"], [])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"because": ("it is 74 °C",)}, False),
        ({"confidence": 0.95}, False),
        ({"confidence": 0.85}, True),
        ({"severity": Severity.CRITICAL}, True),
        ({"because": ("it is 74 °C", "and it spreads")}, True),
    ],
)
def test_updates_only_on_what_matters(changes: dict[str, Any], told: bool) -> None:
    docket, _ = after(claim())
    _, seen = after(claim(**changes), docket=docket, minutes=1)
    assert seen == ([Change.UPDATE] if told else [])


def test_a_level_closes_when_it_was_seen_gone_for_long_enough() -> None:
    docket, _ = after(claim())
    docket, changes = after(docket=docket, minutes=1)
    assert changes == []
    docket, changes = after(docket=docket, minutes=3)
    assert (docket.open, changes) == ({}, [Change.CLOSE])


def test_silence_is_not_recovery() -> None:
    docket, _ = after(claim(), claim("edge"))
    for minutes in range(1, 600):
        docket, changes = after(docket=docket, minutes=minutes, seen=False)
        assert changes == []
    assert len(docket.open) == 2


def test_what_reads_no_metrics_closes_only_by_its_own_word() -> None:
    docket, _ = after(claim("edge"))
    docket, changes = after(docket=docket, minutes=60)
    assert changes == []
    gone = Recovery(claim("edge").key, "the node booted")
    docket, changes = after(docket=docket, minutes=61, recovered=(gone,))
    assert changes == [Change.CLOSE]


def test_a_detector_that_did_not_run_closes_nothing() -> None:
    docket, _ = after(claim())
    for minutes in (10, 20, 30):
        docket, changes = after(docket=docket, minutes=minutes, ran={})
    assert changes == []
    assert len(docket.open) == 1


def test_a_claim_made_again_beats_its_recovery() -> None:
    docket, _ = after(claim())
    gone = Recovery(claim().key, "gone")
    docket, changes = after(claim(), docket=docket, minutes=1, recovered=(gone,))
    assert (len(docket.open), changes) == (1, [])


def test_a_claim_waits_until_it_has_held_without_a_long_gap() -> None:
    rules = Rules(open_after_s={"level": 300.0}, gap_s=90)
    docket, changes = after(claim(), rules=rules)
    opened = []
    for minute in range(1, 12):
        claims = () if minute in (2, 3) else (claim(),)
        docket, changes = after(*claims, docket=docket, minutes=minute, rules=rules)
        if changes:
            opened.append(minute)
    assert opened == [9]


def test_of_two_claims_with_one_key_the_stronger_stands() -> None:
    docket, _ = after(claim(), claim(severity=Severity.CRITICAL))
    (held,) = docket.open.values()
    assert held.finding.severity is Severity.CRITICAL


def test_there_is_a_most_that_stands() -> None:
    many = [claim(subject=Subject(f"n{i}")) for i in range(30)]
    docket, changes = after(*many, rules=Rules(most_open=10))
    assert (len(docket.open), len(changes)) == (10, 10)
