"""The driver's own library through its binding, with a stand-in of ours for the library."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.collected import captured, lines
from tests.unit.nvml_trees import NVIDIA, holding
from tools.capture_nvml import disguised, record

from bigiron.collect import Seen
from bigiron.collect.nvml import nvml, nvml_facts
from bigiron.host import Host

STUB = Path(__file__).with_name("nvml_stub.c")

SCRIPT = """
import json
from tests.unit.collected import lines
from bigiron.collect.nvml import nvml, nvml_facts
from bigiron.collect.nvml_real import Real
from bigiron.host import Host
from tools.capture_nvml import record
def host():
    return Host(handles={"nvml": Real()})
told = {"nvml": lines(nvml(host())), "facts": lines(nvml_facts(host())), "tree": record(host())}
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What the collectors say through the binding, in a process of its own."""
    pytest.importorskip("pynvml")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("nvml")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, STUB], check=True)
    path = os.pathsep.join(["src", ".", *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "LD_LIBRARY_PATH": str(folder), "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, list[str]] = json.loads(done.stdout)
    return told


def test_values_of_every_width_come_through(real: dict[str, list[str]]) -> None:
    for line in (
        "sample gpu0 gpu_temp_celsius 61",
        "sample gpu0 gpu_temp_margin_celsius -3",
        "sample gpu0 gpu_memory_temp_celsius 68",
        "sample gpu0 gpu_energy_joules_total 5000000000",
        "sample gpu0 gpu_remapped_rows_correctable_total 4",
        "sample gpu0 gpu_row_remap_banks_none 14",
        "sample gpu0 gpu_memory_total_bytes 85520809984",
        "sample gpu0 gpu_nvlink_tx_bytes_total 1024000",
        "sample gpu0 gpu_utilization_ratio 0.96999999999999997",
        "sample gpu0 gpu_throttle_reliability_seconds_total 7.0000000000000006e-09",
        "sample gpu0 gpu_nvlink_links_up 1",
        "sample gpu0 gpu_nvlink_links_down 1",
        "sample gpu0 gpu_nvlink_speed_bytes_per_second 26562000000",
    ):
        assert line in real["nvml"]


def test_blanks_are_left_out(real: dict[str, list[str]]) -> None:
    told = " ".join(real["nvml"])
    assert "gpu_power_watts" not in told
    assert "gpu_pcie_replays_total" not in told


def test_the_structure_that_the_driver_knows_is_found(real: dict[str, list[str]]) -> None:
    assert "sample gpu0 gpu_fabric_state 3" in real["nvml"]
    assert "sample gpu0 gpu_fabric_health_mask 426" in real["nvml"]
    for line in (
        "fact gpu0 fabric_cluster 'abababab-abab-abab-abab-abababababab'",
        "fact gpu0 fabric_clique '7'",
        "fact gpu0 chassis_serial '18201250004'",
        "fact gpu0 slot_number '12'",
        "fact gpu0 tray_index '3'",
        "fact gpu0 module_id '2'",
        "fact gpu0 temp_margin_shutdown_c -8",
        "fact gpu0 temp_margin_slowdown_c -2",
        "fact gpu0 temp_margin_max_operating_c 0.5",
        "fact gpu0 ecc_mode 'Enabled'",
        "fact gpu0 ecc_mode_pending 'Disabled'",
        "fact gpu0 gsp_firmware_version '570.1.2'",
        "fact gpu0 serial '1650000000001'",
        "fact - cuda_version '12.8'",
        "device gpu0 gpu GPU-00000000-aaaa-bbbb-cccc-000000000001 0000:19:00.0 "
        "NVIDIA H100 80GB HBM3 NVIDIA",
    ):
        assert line in real["facts"]


def test_a_lost_gpu_is_lost_through_the_binding_too(real: dict[str, list[str]]) -> None:
    (event,) = [line for line in real["nvml"] if line.startswith("event")]
    assert event.startswith("event nvrm.gpu_lost gpu1 x1 gpu1: NVML answers GPU_IS_LOST")


def test_what_was_recorded_says_the_same(real: dict[str, list[str]], tmp_path: Path) -> None:
    host = holding(tmp_path, json.dumps(real["tree"]))
    assert lines(nvml(host)) == real["nvml"]
    host.handles.clear()
    assert lines(nvml_facts(host)) == real["facts"]


@pytest.mark.parametrize("name", NVIDIA)
def test_a_recording_of_a_capture_says_what_the_capture_says(name: str, tmp_path: Path) -> None:
    host = holding(tmp_path, json.dumps(record(captured(name))))
    assert _said(host) == _said(captured(name))


def test_a_recording_names_no_real_part(tmp_path: Path) -> None:
    told = json.dumps(disguised(record(captured("gb200x4"))))
    known = [one for one in nvml_facts(captured("gb200x4")) if _names_a_part(one)]
    assert len(known) == 4 * 4
    assert [one for one in known if str(getattr(one, "value", "")) in told] == []
    host = holding(tmp_path, told)
    assert len(lines(nvml(host))) == len(lines(nvml(captured("gb200x4"))))


def _said(host: Host) -> list[str]:
    return lines([*nvml(host), *nvml_facts(host)])


def _names_a_part(one: Seen) -> bool:
    return getattr(one, "name", "") in ("uuid", "serial", "chassis_serial", "fabric_cluster")
