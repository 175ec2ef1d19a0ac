"""The module of a port as mlxlink tells it: faults by lane, state, readings against limits."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bigiron.ingest import Document
from bigiron.ingest.mlxlink import mlxlink
from bigiron.model import CheckResult, CheckStatus

FIXTURE = Path(__file__).parents[1] / "fixtures" / "tools" / "mlxlink_module_mlx5_4.txt"
NOW = datetime(2026, 11, 30, tzinfo=UTC)


def results(text: str) -> dict[str, CheckResult]:
    document = Document.of("mlxlink_mlx5_4.txt", text.encode(), NOW, node="gpu042")
    found = (x for x in mlxlink().read(document) if isinstance(x, CheckResult))
    return {result.check.removeprefix("module "): result for result in found}


def test_faults_name_their_lane_and_readings_their_limits() -> None:
    found = results(FIXTURE.read_text())
    bad = {name: one.text for name, one in found.items() if one.status is not CheckStatus.PASS}
    assert bad == {
        "Rx LOS": "Rx LOS on lane 3",
        "Tx CDR LOL": "Tx CDR LOL on lane 2, 4",
        "Bias Current": "Bias Current 13.702 mA is outside its limits 5 to 12 mA",
        "Rx Power Current": "Rx Power Current -40 dBm is outside its limits -6.2 to 4.1 dBm",
    }
    assert found["Rx LOS"].status is CheckStatus.FAIL
    assert found["Tx CDR LOL"].status is CheckStatus.WARN
    assert {one.device for one in found.values()} == {"mlx5_4 module"}


def test_what_the_module_does_not_tell_is_not_judged() -> None:
    found = results(FIXTURE.read_text())
    assert "Tx LOS" not in found
    assert "Tx Power Current" not in found


@pytest.mark.parametrize(
    ("state", "status"), [("Ready state", CheckStatus.PASS), ("LowPwr state", CheckStatus.FAIL)]
)
def test_only_a_ready_module_passes(state: str, status: CheckStatus) -> None:
    text = FIXTURE.read_text().replace(": Ready state", f": {state}")
    assert results(text)["state"].status is status


def test_readings_of_a_port_that_is_down_are_no_news() -> None:
    text = FIXTURE.read_text().replace(": Active", ": Disabled")
    assert "Rx Power Current" not in results(text)


def test_limits_that_make_no_sense_are_left_alone() -> None:
    text = FIXTURE.read_text().replace("[5..12]", "[0..0]").replace("[-6.2..4.1]", "[..]")
    assert not {"Bias Current", "Rx Power Current"} & set(results(text))
