"""dcgmi diag, health and nvlink: only the word Pass is a pass."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, reader
from bigiron.ingest.dcgm_errors import NAMES, by_text
from bigiron.model import CheckResult, CheckStatus, Fact, Note, Observation, Sample

FIXTURES = Path(__file__).parent.parent / "fixtures" / "nvidia"
NOW = datetime(2026, 6, 1, tzinfo=UTC)
Told = tuple[str, str, CheckStatus, str]


def read(format_: str, name: str, text: str | None = None) -> list[Observation]:
    data = (FIXTURES / name).read_bytes() if text is None else text.encode()
    document = Document.of(name, data, NOW)
    assert reader[format_].run().sniff(Head.of(document)) >= 0.3
    return list(reader[format_].run().read(document))


def told(seen: list[Observation]) -> set[Told]:
    return {(o.check, o.device, o.status, o.code) for o in seen if isinstance(o, CheckResult)}


def samples(seen: list[Observation], device: str) -> dict[str, float]:
    return {o.metric: o.value for o in seen if isinstance(o, Sample) and o.device == device}


def test_dcgm_4_results_by_entity_with_codes() -> None:
    seen = read("dcgmi_diag", "dcgm4-diag.json")
    assert told(seen) == {
        ("dcgm.software", "gpu0", CheckStatus.PASS, ""),
        ("dcgm.software", "gpu1", CheckStatus.FAIL, "dcgm.80"),
        ("dcgm.memory", "gpu0", CheckStatus.ERROR, "dcgm.56"),
        ("dcgm.memory", "gpu1", CheckStatus.ERROR, ""),
        ("dcgm.pcie", "gpu0", CheckStatus.PASS, ""),
        ("dcgm.pcie", "gpu1", CheckStatus.ERROR, ""),
        ("dcgm.cpu_eud", "cpu0", CheckStatus.SKIP, ""),
    }
    software = [o for o in seen if isinstance(o, CheckResult) and o.device == "gpu1"]
    assert software[0].text == "GPU 1 had a row remap failure.; GPU 1 has row remappings pending."
    versions = {o.name: o.value for o in seen if isinstance(o, Fact)}
    assert versions == {"dcgm_version": "4.4.1", "driver_version": "575.57.08"}
    pcie = [o for o in seen if isinstance(o, CheckResult) and o.check == "dcgm.pcie"]
    assert pcie[0].values == {"gpu_to_host_bandwidth_gb_per_s": 54.31}


def test_dcgm_3_results_by_gpu_ids_and_message() -> None:
    seen = read("dcgmi_diag", "dcgm3-diag.json")
    assert told(seen) == {
        ("dcgm.denylist", "gpu0", CheckStatus.PASS, ""),
        ("dcgm.denylist", "gpu1", CheckStatus.PASS, ""),
        # the warning names GPU 1: nothing is said against GPU 0
        ("dcgm.persistence_mode", "gpu1", CheckStatus.FAIL, "dcgm.29"),
        ("dcgm.inforom", "", CheckStatus.FAIL, "dcgm.9"),
        ("dcgm.fabric_manager", "gpu0", CheckStatus.SKIP, ""),
        ("dcgm.fabric_manager", "gpu1", CheckStatus.SKIP, ""),
        ("dcgm.gpu_memory", "gpu0", CheckStatus.WARN, "dcgm.unknown"),
    }


def test_dcgm_table_results_with_wrapped_warnings() -> None:
    assert told(read("dcgmi_diag", "dcgm4-diag.txt")) == {
        ("dcgm.software", "gpu0", CheckStatus.PASS, ""),
        ("dcgm.software", "gpu1", CheckStatus.FAIL, "dcgm.85"),
        ("dcgm.memory", "gpu0", CheckStatus.SKIP, ""),
        ("dcgm.memory", "gpu1", CheckStatus.SKIP, ""),
        ("dcgm.pcie", "gpu0", CheckStatus.PASS, ""),
        ("dcgm.pcie", "gpu1", CheckStatus.FAIL, "dcgm.46"),
        ("dcgm.targeted_power", "", CheckStatus.PASS, ""),
    }


def test_a_table_without_entities_blames_the_gpu_its_warning_names() -> None:
    text = (
        "+---+---+\n| Diagnostic | Result |\n+===+===+\n"
        "|-----  Deployment  --------+------------------------------------------------|\n"
        "| Page Retirement/Row Remap | Fail |\n"
        "|                           | Error: GPU 3 had memory errors and row |\n"
        "|                           | remappings are pending |\n"
        "| Inforom                   | Pass |\n+---+---+\n"
    )
    assert told(read("dcgmi_diag", "d.txt", text)) == {
        ("dcgm.page_retirement_row_remap", "gpu3", CheckStatus.FAIL, "dcgm.85"),
        ("dcgm.inforom", "", CheckStatus.PASS, ""),
    }


def test_a_message_row_that_names_its_gpu_belongs_to_the_test_above_it() -> None:
    text = (
        "+---+---+\n| Diagnostic | Result |\n+===+===+\n"
        "|-----  Hardware  ----------+------------------------------------------------|\n"
        "| memory                    | Fail |\n"
        "|                           | GPU0: Pass |\n"
        "|                           | GPU1: Fail |\n"
        "| Warning: GPU1             | Detected a DBE. Drain the GPU and reset it or |\n"
        "|                           | reboot the node. |\n"
        "|                           | GPU2: Pass |\n+---+---+\n"
    )
    assert told(read("dcgmi_diag", "d.txt", text)) == {
        ("dcgm.memory", "gpu0", CheckStatus.PASS, ""),
        ("dcgm.memory", "gpu1", CheckStatus.FAIL, "dcgm.4"),
        ("dcgm.memory", "gpu2", CheckStatus.PASS, ""),
    }


def test_a_refusal_of_an_unsupported_gpu_is_a_skip() -> None:
    text = (
        '{"DCGM GPU Diagnostic":{"version":"4.2.3"}}\n'
        "Error: Unable to run diagnostic on unsupported GPU 0.\n"
    )
    assert told(read("dcgmi_diag", "d.json", text)) == {("dcgm.diag", "gpu0", CheckStatus.SKIP, "")}


def test_no_test_and_no_reason_is_an_error() -> None:
    text = '{"DCGM GPU Diagnostic":{"version":"4.2.3"}}'
    assert told(read("dcgmi_diag", "d.json", text)) == {("dcgm.diag", "", CheckStatus.ERROR, "")}


@pytest.mark.parametrize(
    "after",
    [
        "Error: The diagnostic timed out.",
        "command terminated with exit code 226",
        "dcgmi exit status 205",
        "Error: unable to establish a connection to the specified host: localhost",
    ],
)
def test_what_follows_the_passes_takes_the_whole_back(after: str) -> None:
    text = (
        '{"DCGM Diagnostic":{"test_categories":[{"category":"Hardware","tests":[{"name":"memory",'
        f'"results":[{{"entity_group":"GPU","entity_id":0,"status":"Pass"}}]}}]}}]}}}}\n{after}\n'
    )
    seen = told(read("dcgmi_diag", "d.json", text))
    assert ("dcgm.diag", "", CheckStatus.ERROR, "") in seen
    assert ("dcgm.memory", "gpu0", CheckStatus.PASS, "") in seen


def test_a_runtime_error_is_an_error() -> None:
    text = '{"DCGM GPU Diagnostic":{"runtime_error":"Diagnostic could not be run: busy"}}'
    assert [s for _, _, s, _ in told(read("dcgmi_diag", "d.json", text))] == [CheckStatus.ERROR]


def test_a_diag_cut_short_keeps_its_failures_and_is_no_pass() -> None:
    text = (FIXTURES / "dcgm4-diag.json").read_text()
    seen = read("dcgmi_diag", "d.json", text[: text.index("Could not allocate")])
    assert ("dcgm.software", "gpu1", CheckStatus.FAIL, "dcgm.80") in told(seen)
    assert ("dcgm.diag", "", CheckStatus.ERROR, "") in told(seen)
    # GPU 0 passed memory in the half that is left, but the other half held a warning
    assert not any(check == "dcgm.memory" for check, _, _, _ in told(seen) if check)
    assert any(isinstance(o, Note) for o in seen)


def test_tests_at_the_top_and_test_summaries_are_read() -> None:
    text = (
        '{"DCGM Diagnostic":{"tests":[{"name":"pcie","test_summary":{"status":"Fail","warnings":'
        '[{"warning":"x","error_id":45}]}},{"name":"memory","results":[{"entity_group":"GPU",'
        '"entity_id":2,"status":"Pass"}],"test_summary":{"status":"Fail"}}]}}'
    )
    assert told(read("dcgmi_diag", "d.json", text)) == {
        ("dcgm.pcie", "", CheckStatus.FAIL, "dcgm.45"),
        ("dcgm.memory", "gpu2", CheckStatus.PASS, ""),
        ("dcgm.memory", "", CheckStatus.FAIL, "dcgm.unknown"),
    }


def test_json_that_nests_without_end_is_refused() -> None:
    with pytest.raises(ParseError):
        read("dcgmi_diag", "d.json", '{"DCGM Diagnostic": ' + "[" * 200_000)


def test_error_names_stand_at_their_numbers() -> None:
    assert NAMES[85] == "PENDING_ROW_REMAP"
    assert NAMES[56] == "MEMORY_ALLOC"
    assert len(NAMES) == 133
    assert by_text("failed with DCGM_FR_FALLEN_OFF_BUS") == 120
    assert by_text("a message of tomorrow") is None


def test_health_table_by_gpu_and_system() -> None:
    assert told(read("dcgmi_health", "dcgmi-health.txt")) == {
        ("dcgm.health_thermal", "gpu0", CheckStatus.WARN, "dcgm.40"),
        ("dcgm.health_memory", "gpu1", CheckStatus.FAIL, "dcgm.4"),
    }


def test_health_json_by_gpu_and_system() -> None:
    assert told(read("dcgmi_health", "dcgmi-health.json")) == {
        ("dcgm.health_pcie", "gpu2", CheckStatus.WARN, "dcgm.3")
    }


def test_health_that_is_well_unknown_or_not_watched() -> None:
    well = '{"body":{"Overall Health":{"value":"Healthy"}},"header":["Health Monitor Report"]}'
    assert told(read("dcgmi_health", "h.json", well)) == {("dcgm.health", "", CheckStatus.PASS, "")}
    strange = well.replace("Healthy", "Splendid")
    assert told(read("dcgmi_health", "h.json", strange)) == {
        ("dcgm.health", "", CheckStatus.ERROR, "")
    }
    unwatched = "Error: Health watches not enabled. Please enable watches.\n"
    assert told(read("dcgmi_health", "h.txt", unwatched)) == {
        ("dcgm.health", "", CheckStatus.ERROR, "")
    }


def test_nvlink_errors_as_json_and_as_tables() -> None:
    seen = read("dcgmi_nvlink", "dcgmi-nvlink-e.json")
    assert samples(seen, "gpu5") == {
        "gpu_nvlink_crc_data_errors_total": 22,
        "gpu_nvlink_crc_flit_errors_total": 0,
        "gpu_nvlink_recoveries_total": 2,
        "gpu_nvlink_replays_total": 3,
    }
    by_link = [o.value for o in seen if isinstance(o, Fact) and o.name == "nvlink_errors_by_link"]
    assert by_link == [
        "link 0 crc data error 21; link 0 recovery error 2; "
        "link 1 crc data error 1; link 1 replay error 3"
    ]
    tables = read("dcgmi_nvlink", "dcgmi-nvlink-e.txt")
    assert samples(tables, "gpu0")["gpu_nvlink_crc_flit_errors_total"] == 2
    assert samples(tables, "gpu1")["gpu_nvlink_crc_data_errors_total"] == 31


def test_nvlink_status_letters() -> None:
    seen = read("dcgmi_nvlink", "dcgmi-nvlink-s.txt")
    assert samples(seen, "gpu0") == {"gpu_nvlink_links_up": 6, "gpu_nvlink_links_down": 1}
    assert samples(seen, "gpu1") == {"gpu_nvlink_links_up": 8, "gpu_nvlink_links_down": 0}
    assert samples(seen, "nvswitch8") == {"gpu_nvlink_links_up": 2, "gpu_nvlink_links_down": 1}
