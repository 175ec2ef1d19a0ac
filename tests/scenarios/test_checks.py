from tests.scenarios.stage import Stage

from bigiron.model import CheckResult, CheckStatus, Health, Severity


def result(stage: Stage, status: CheckStatus, code: str = "", check: str = "memory") -> None:
    stage.take(checks=(CheckResult("a1", check, status, "gpu2", code, "what it said", stage.now),))
    stage.run()


def test_opens_on_a_failed_check_with_the_catalogues_words() -> None:
    stage = Stage()
    result(stage, CheckStatus.FAIL, "dcgm.80")
    (finding,) = stage.open.values()
    assert (finding.fault, finding.subject.key) == ("dcgm.80", "a1/gpu2")
    assert stage.health("a1") is not Health.HEALTHY


def test_closes_on_a_pass_and_on_nothing_else() -> None:
    stage = Stage()
    result(stage, CheckStatus.FAIL, "dcgm.80")
    result(stage, CheckStatus.SKIP)
    assert len(stage.open) == 1
    result(stage, CheckStatus.ERROR)
    assert "dcgm.80 a1/gpu2" in stage.open
    result(stage, CheckStatus.PASS)
    assert stage.open == {}


def test_a_failure_whose_reason_is_not_known_counts_as_a_failure() -> None:
    stage = Stage()
    result(stage, CheckStatus.FAIL, code="dcgm.unknown")
    (finding,) = stage.open.values()
    assert finding.severity is Severity.CRITICAL


def test_a_pass_of_another_check_closes_nothing() -> None:
    stage = Stage()
    result(stage, CheckStatus.FAIL, "dcgm.80")
    result(stage, CheckStatus.PASS, check="pcie")
    assert list(stage.open) == ["dcgm.80 a1/gpu2"]


def test_a_check_that_did_not_run_is_told_and_lowers_nothing() -> None:
    stage = Stage()
    result(stage, CheckStatus.ERROR)
    (finding,) = stage.open.values()
    assert finding.severity is Severity.INFO
    assert stage.health("a1") is Health.HEALTHY
    result(stage, CheckStatus.SKIP)
    assert len(stage.open) <= 1


def test_a_mere_warning_weighs_no_more_than_a_warning() -> None:
    stage = Stage()
    result(stage, CheckStatus.WARN, "dcgm.80")
    (finding,) = stage.open.values()
    assert finding.severity.rank <= Severity.WARNING.rank
