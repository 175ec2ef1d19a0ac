"""The hazard: a sum of log-odds that evidence only ever raises."""

import math
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import alembic.command
import alembic.config
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from bigiron.config import Config, load
from bigiron.decide.hazard import BASE, chance
from bigiron.decide.hazard_weights import Weights, parse, shipped
from bigiron.errors import ConfigError
from bigiron.hub.settings import settings
from bigiron.model import Blame, Finding, Health, Severity, Subject, Verdict
from bigiron.store.database import FILE, engine
from bigiron.store.ledger import Ledger
from bigiron.store.turn import Turn

NOW = datetime(2026, 6, 1, tzinfo=UTC)

TEXT = """
[source]
title = "a fleet"
date = "2026-06-01"
[base]
rate = 6.5
p_24h = 0.006
p_7d = 0.04
sku = {old = 13.0}
[past]
shape = 0.35
w_24h = 0.5
w_7d = 0.6
[[weight]]
severity = "warning"
w_24h = 1.0
w_7d = 1.5
[[weight]]
severity = "critical"
w_24h = 3.0
w_7d = 2.5
[[weight]]
severity = "fatal"
w_24h = 8.0
w_7d = 7.0
[[weight]]
severity = "warning"
fault = "gpu"
w_24h = 2.0
w_7d = 2.5
[[weight]]
severity = "warning"
fault = "gpu.hot"
w_24h = 0.1
w_7d = 0.2
"""
OWN = parse(TEXT, "own.toml")


def finding(
    severity: Severity = Severity.WARNING,
    fault: str = "odd",
    *,
    confidence: float = 1.0,
    blame: Blame = Blame.DEVICE,
    by: str = "",
) -> Finding:
    subject = Subject(by=by, group="r1", members=("n1",)) if by else Subject("n1", "gpu1")
    return Finding("d", fault, severity, subject, NOW, ("it is odd",), confidence, blame)


FINDINGS = st.builds(
    finding,
    st.sampled_from(Severity),
    st.sampled_from(["odd", "gpu.hot", "gpu.lost", "gpu", "xid.79", "never.seen.before"]),
    confidence=st.floats(0, 1),
    blame=st.sampled_from(Blame),
    by=st.sampled_from(["", "", "rack"]),
)
SEVERAL = st.lists(FINDINGS, max_size=6).map(lambda fs: {f"F{i}": f for i, f in enumerate(fs)})
WEIGHTS = st.sampled_from([OWN, shipped()])


def logit(p: float) -> float:
    return math.log(p / (1 - p))


@given(SEVERAL, st.integers(0, 9), WEIGHTS)
def test_the_contributions_add_up_to_the_log_odds(
    findings: dict[str, Finding], incidents: int, weights: Weights
) -> None:
    told = chance(findings, weights, incidents=incidents)
    day = sum(one.log_odds_24h for one in told.contributions)
    week = sum(one.log_odds_7d for one in told.contributions)
    assert told.p_24h == pytest.approx(1 / (1 + math.exp(-day)), abs=6e-5)
    assert told.p_7d == pytest.approx(1 / (1 + math.exp(-max(day, week))), abs=6e-5)


@given(SEVERAL, FINDINGS, st.integers(0, 9), WEIGHTS)
def test_more_evidence_never_lowers_it_and_a_week_is_never_safer_than_a_day(
    findings: dict[str, Finding], more: Finding, incidents: int, weights: Weights
) -> None:
    before = chance(findings, weights, incidents=incidents)
    after = chance({**findings, "F9": more}, weights, incidents=incidents)
    again = chance(findings, weights, incidents=incidents + 1)
    assert before.p_24h <= after.p_24h
    assert before.p_7d <= after.p_7d
    assert before.p_24h <= again.p_24h
    assert before.p_7d <= again.p_7d
    assert all(told.p_24h <= told.p_7d for told in (before, after, again))


def test_a_node_of_which_nothing_is_known_has_the_base_rate_of_its_sku() -> None:
    told = chance({}, OWN)
    assert [one.what for one in told.contributions] == [BASE]
    assert (told.p_24h, told.p_7d) == (0.006, 0.04)
    old = chance({}, OWN, sku="old")
    assert logit(old.p_24h) - logit(told.p_24h) == pytest.approx(math.log(2), abs=0.02)
    assert chance({}, OWN, sku="new").p_24h == told.p_24h


def test_what_is_no_fault_of_the_node_adds_nothing() -> None:
    base = chance({}, OWN)
    for one in (
        finding(Severity.FATAL, blame=Blame.APPLICATION),
        finding(Severity.FATAL, by="rack"),
        finding(Severity.INFO),
        finding(Severity.FATAL, confidence=0.0),
    ):
        assert chance({"F1": one}, OWN) == base


def test_the_strongest_counts_in_full_and_each_further_one_half_of_the_last() -> None:
    told = chance(
        {
            "F1": finding(Severity.WARNING),
            "F2": finding(Severity.FATAL),
            "F3": finding(Severity.CRITICAL),
        },
        OWN,
    )
    added = [(one.what, one.log_odds_24h) for one in told.contributions[1:]]
    assert added == [("F2", 8.0), ("F3", 1.5), ("F1", 0.25)]


def test_the_nearest_known_fault_gives_the_weight_and_an_unknown_one_its_severitys() -> None:
    def weight(fault: str) -> float:
        return chance({"F1": finding(fault=fault)}, OWN).contributions[1].log_odds_24h

    assert weight("gpu.hot") == weight("gpu.hot.hbm") == 0.1
    assert weight("gpu.slow") == 2.0
    assert weight("gpus") == weight("of.a.detector.not.yet.written") == 1.0
    assert chance({"F1": finding(Severity.FATAL, "gpu.hot")}, OWN).contributions[1] == (
        msgspec.structs.replace(
            chance({"F1": finding(Severity.FATAL)}, OWN).contributions[1], what="F1"
        )
    )


def test_former_incidents_raise_it_ever_less() -> None:
    p = [chance({}, OWN, incidents=n).p_24h for n in range(5)]
    assert p == sorted(p)
    steps = [logit(after) - logit(before) for before, after in pairwise(p[1:])]
    assert all(later < sooner for sooner, later in pairwise(steps))
    assert chance({}, OWN, incidents=2).contributions[1].what == "2 incidents in 30 days"


def test_what_ships_says_what_it_was_fitted_to_and_orders_severities() -> None:
    weights = shipped()
    assert weights.source.title
    assert weights.base.rate == 6.5
    general = [weights.of("no.such.fault", s) for s in Severity]
    assert general[0] == (0.0, 0.0)
    assert general == sorted(general)
    assert 0.003 < weights.base.p_24h < weights.base.p_7d < 0.06


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (("rate = 6.5", "rate = 0"), "base.rate"),
        (("w_24h = 8.0", "w_24h = -1.0"), "w_24h"),
        (("p_7d = 0.04", "p_7d = 0.004"), "a week is longer than a day"),
        (('severity = "fatal"', 'severity = "fatal"\nfault = "xid"'), "severity fatal without"),
        (("shape = 0.35", "shapes = 0.35"), "shapes"),
        (("[source]", "[source"), "not TOML"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(change: tuple[str, str], wanted: str) -> None:
    with pytest.raises(ConfigError, match=r"own\.toml") as error:
        parse(TEXT.replace(*change, 1), "own.toml")
    assert wanted in str(error.value)


def test_a_site_may_judge_by_weights_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(TEXT)
    config = tmp_path / "bigiron.toml"
    config.write_text('hazard = "own.toml"\n[hub]\nhold_s = 60\n')
    judging = settings(load(config)).judging
    assert (judging.weights, judging.hold_s) == (OWN, 60.0)
    assert settings(Config()).judging.weights == shipped()
    (tmp_path / "own.toml").unlink()
    with pytest.raises(ConfigError, match=r"own\.toml: cannot be read"):
        settings(load(config))


def test_a_ledger_of_before_is_brought_up_to_date(tmp_path: Path) -> None:
    """What was judged then has no week and no reasons, and stands."""
    with engine(tmp_path / FILE).connect() as connection:
        how = alembic.config.Config()
        how.set_main_option("script_location", "bigiron.store:migrations")
        how.attributes["connection"] = connection
        with connection.begin():
            alembic.command.upgrade(how, "0002")
            connection.execute(
                text(
                    "INSERT INTO verdicts (node, health, findings, because, time, p_fail_24h) "
                    "VALUES ('n1', 'degraded', '[\"F000001\"]', 'it is odd', "
                    "'2026-06-01 00:00:00', 0.25)"
                )
            )
    before = Verdict(NOW, "n1", Health.DEGRADED, 0.25, ("F000001",), "it is odd", p_fail_7d=0.25)
    contributions = chance({"F000001": finding()}, OWN).contributions
    after = msgspec.structs.replace(
        before, p_fail_7d=0.5, held_until=NOW, contributions=contributions
    )
    with Ledger(tmp_path) as ledger:
        assert ledger.verdicts() == {"n1": before}
        ledger.commit_turn(Turn(NOW, verdicts=(after,)))
    with Ledger(tmp_path) as ledger:
        assert ledger.verdicts() == {"n1": after}
