"""Benchmarks: what did not run, broke off or measured zero is an error and never a pass."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader
from bigiron.ingest.copy_bandwidth import copy_bandwidth
from bigiron.ingest.gpcnet import gpcnet
from bigiron.ingest.gpu_burn import gpu_burn
from bigiron.ingest.gpu_microbench import gpu_microbench
from bigiron.ingest.nccl_tests import nccl_tests
from bigiron.ingest.nvbandwidth import nvbandwidth
from bigiron.ingest.perftest import perftest
from bigiron.ingest.superbench import superbench
from bigiron.model import CheckResult, CheckStatus, Note, Observation

TOOLS = Path(__file__).parent.parent / "fixtures" / "tools"
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
PASS, FAIL, SKIP, ERROR = CheckStatus.PASS, CheckStatus.FAIL, CheckStatus.SKIP, CheckStatus.ERROR


def read(reader: Reader, name: str) -> list[Observation]:
    return read_bytes(reader, (TOOLS / name).read_bytes(), name)


def read_bytes(reader: Reader, data: bytes, name: str = "x") -> list[Observation]:
    document = Document.of(name, data, NOW)
    assert reader.sniff(Head.of(document)) >= 0.7
    return list(reader.read(document))


def results(found: list[Observation]) -> list[CheckResult]:
    return [x for x in found if isinstance(x, CheckResult)]


def by_check(found: list[Observation]) -> dict[str, CheckStatus]:
    return {x.check: x.status for x in results(found)}


def test_nvbandwidth_json_passes_only_what_moved_bytes() -> None:
    found = read(nvbandwidth(), "nvbandwidth.json")
    assert by_check(found) == {
        "nvbandwidth host_to_device_memcpy_ce": PASS,
        "nvbandwidth device_to_device_memcpy_read_ce": ERROR,
        "nvbandwidth device_local_copy": ERROR,
        "nvbandwidth multinode_device_to_device_memcpy_read_ce": SKIP,
        "nvbandwidth device_to_host_memcpy_sm": ERROR,
        "nvbandwidth all_to_host_memcpy_ce": FAIL,
        "nvbandwidth host_to_all_memcpy_ce": ERROR,
    }
    first = results(found)[0]
    assert (first.values["min"], first.values["max"]) == (27.1, 55.4)


def test_nvbandwidth_json_with_an_error_and_no_test() -> None:
    data = b'{"nvbandwidth": {"error": "invalid arguments", "testcases": []}}'
    assert by_check(read_bytes(nvbandwidth(), data)) == {"nvbandwidth": ERROR}
    assert by_check(read_bytes(nvbandwidth(), b'{"nvbandwidth": {"x": 1}}')) == {
        "nvbandwidth": ERROR
    }


def test_nvbandwidth_text_ends_with_an_unfinished_test() -> None:
    assert by_check(read(nvbandwidth(), "nvbandwidth.txt")) == {
        "nvbandwidth host_to_device_memcpy_ce": PASS,
        "nvbandwidth device_to_device_memcpy_read_ce": ERROR,
        "nvbandwidth multinode_device_to_device_memcpy_read_ce": SKIP,
        "nvbandwidth device_to_host_memcpy_sm": ERROR,
    }


def test_nccl_tests_pass_with_node_and_bandwidth() -> None:
    (result,) = results(read(nccl_tests(), "nccl_tests.txt"))
    assert (result.status, result.node) == (PASS, "gpu017")
    assert result.values["busbw_avg_gb_per_s"] == pytest.approx(53.8765)
    assert result.values["busbw_max_gb_per_s"] == 80.66
    assert result.values["ranks"] == 2


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        ("Out of bounds values : 0 OK", "Out of bounds values : 7 FAILED", FAIL),
        ("80.50      0    52.00", "80.50     12    52.00", FAIL),
        ("Avg bus bandwidth    : 53.8765", "Avg bus bandwidth    : 0", ERROR),
        ("Avg bus bandwidth    : 53.8765", "Avg bus bandwidth    : -nan", ERROR),
        ("# Avg bus bandwidth    : 53.8765", "", ERROR),
        (
            "# Out of bounds",
            "gpu017: Test NCCL failure common.cu:958 'unhandled system error'\n#",
            ERROR,
        ),
    ],
)
def test_nccl_tests_that_are_no_pass(old: str, new: str, status: CheckStatus) -> None:
    text = (TOOLS / "nccl_tests.txt").read_text()
    assert old in text
    (result,) = results(read_bytes(nccl_tests(), text.replace(old, new).encode()))
    assert result.status is status


def test_nccl_tests_of_the_old_columns_and_several_runs() -> None:
    old = (
        "# nThread 1 nGpus 8 minBytes 1\n"
        "#       size         count    type   redop     time   algbw   busbw  error  ...\n"
        " 8388608 2097152 float sum 162.0 51.79 90.63 2e-07 160.0 52.44 91.77 2e-07\n"
        "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 68.4\n"
    )
    found = results(read_bytes(nccl_tests(), (old + old.replace("68.4", "0")).encode()))
    assert [x.status for x in found] == [PASS, ERROR]


def test_superbench_diagnosis_tells_defects_from_tests_that_did_not_run() -> None:
    found = read(superbench(), "superbench_diagnosis.jsonl")
    told = [(x.node, x.status, x.device) for x in results(found)]
    assert told == [("node-a", FAIL, "gpu5"), ("node-b", ERROR, ""), ("node-c", PASS, "")]
    assert any(isinstance(x, Note) and x.count == 1 for x in found)


def test_superbench_results_are_judged_by_return_code_and_zero() -> None:
    found = read(superbench(), "superbench_results.jsonl")
    assert by_check(found) == {
        "superbench kernel-launch": PASS,
        "superbench mem-bw": ERROR,
        "superbench disk": ERROR,
    }


def test_superbench_baseline_is_only_a_reference() -> None:
    data = b'{"a/b": 1.0, "a/c": 2.0, "a/d": 0.3, "a/return_code": 0}'
    found = read_bytes(superbench(), data)
    assert [type(x) for x in found] == [Note]


def test_gpu_microbench_takes_the_tools_own_word_and_skips_absent_units() -> None:
    found = read(gpu_microbench(), "gpu_microbench.json")
    (result,) = results(found)
    assert (result.node, result.device, result.status) == ("amd-r1", "kfd4711", FAIL)
    assert result.values == {"hbm_bw": 4100.5, "hbm_bw_stdev": 9.1}
    assert any(isinstance(x, Note) for x in found)


def test_gpu_microbench_measured_as_zero_is_an_error() -> None:
    data = b'{"metrics": {"GPU Device": 2, "HBM BW": {"traffic": 9, "mean": 0.0}}}'
    (result,) = results(read_bytes(gpu_microbench(), data))
    assert (result.device, result.status) == ("gpu2", ERROR)


def test_perftest_takes_the_largest_message_and_tells_what_did_not_connect() -> None:
    first, second = results(read(perftest(), "perftest.txt"))
    assert (first.status, first.device) == (PASS, "mlx5_4")
    assert first.values["bw_average_gb_per_sec"] == 391.95
    assert (second.status, second.device) == (ERROR, "mlx5_5")
    assert "Couldn't connect" in second.text


def test_perftest_zero_and_no_row() -> None:
    head = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
    zero = head + " 65536 1000 0.00 0.00 0.0\n"
    assert [x.status for x in results(read_bytes(perftest(), zero.encode()))] == [ERROR]
    assert [x.status for x in results(read_bytes(perftest(), head.encode()))] == [ERROR]


def test_gpcnet_that_refused_is_an_error() -> None:
    (result,) = results(read(gpcnet(), "gpcnet.txt"))
    assert result.status is ERROR
    assert "at least 10 nodes" in result.text


def test_gpcnet_with_a_table_passes() -> None:
    text = b"Network Tests v1.3\n| RR Two-sided Lat (8 B) | 1.2 | 1.9 | 2.4 |\n"
    (result,) = results(read_bytes(gpcnet(), text))
    assert (result.status, result.values) == (PASS, {"rr_two_sided_lat_8_b": 1.9})


def test_gpu_burn_ends_with_a_verdict_for_each_gpu() -> None:
    good, bad = results(read(gpu_burn(), "gpu_burn.txt"))
    assert (good.device, good.status, good.values["gflops"]) == ("gpu0", PASS, 52101)
    assert (bad.device, bad.status) == ("gpu1", FAIL)
    assert "errors" in bad.text


def test_gpu_burn_reports_that_share_a_line_are_of_the_same_gpus() -> None:
    report = (
        "50.0%  proc'd: 96 (7150 Gflop/s) - {} ({} Gflop/s)   errors: 0 - 0   temps: 38 C - 36 C "
    )
    line = "".join(report.format(*done) for done in [(0, 0), (48, 6900), (0, 0)])
    text = f"{line}\nTested 2 GPUs:\n\tGPU 0: OK\n\tGPU 1: OK\n".encode()
    found = results(read_bytes(gpu_burn(), text))
    assert [(x.device, x.status) for x in found] == [("gpu0", PASS), ("gpu1", PASS)]
    assert found[1].values == {"gflops": 6900}


def test_gpu_burn_cut_off_is_an_error() -> None:
    text = (TOOLS / "gpu_burn.txt").read_bytes().split(b"Killing")[0]
    assert [x.status for x in results(read_bytes(gpu_burn(), text))] == [ERROR, ERROR]


def test_gpu_fryer_names_the_gpu_that_is_not_healthy() -> None:
    found = results(read(gpu_burn(), "gpu_fryer.txt"))
    told = {x.device: x.status for x in found}
    assert told == {"gpu0": ERROR, "gpu1": FAIL}  # without "healthy" gpu0 is not cleared
    assert found[1].values["gflops"] == 30_500
    healthy = b"GPU #0:  51494 Gflops/s (min: 1)\nAll GPUs seem healthy\n"
    assert [x.status for x in results(read_bytes(gpu_burn(), healthy))] == [PASS]


def test_copy_tests() -> None:
    (h2d,) = results(read(copy_bandwidth(), "bandwidth_test.txt"))
    assert (h2d.status, h2d.values["bandwidth_gb_per_s"]) == (PASS, 54.9)
    (copy,) = results(read(copy_bandwidth(), "gpu_copy.txt"))
    assert copy.status is ERROR  # one copy moved nothing
    begun = b"[CUDA Bandwidth Test] - Starting...\nRunning on...\n"
    assert [x.status for x in results(read_bytes(copy_bandwidth(), begun))] == [ERROR]


def test_nothing_of_superbench_is_refused() -> None:
    with pytest.raises(ParseError):
        list(superbench().read(Document.of("x", b"no json at all\n", NOW)))
