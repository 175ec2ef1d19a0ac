"""Inspection: what is said of whose files, in which words, with which exit code."""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bigiron.cli.report import show
from bigiron.detect import Window
from bigiron.hub.documents import Documents
from bigiron.hub.inspect import Report, claims, inspect, judge
from bigiron.hub.recognise import formats, read_all
from bigiron.model import Finding, Health, Note, Recovery
from bigiron.registry import Plugin

LOST = (
    "Mar  2 16:24:18 {host} kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid=4711, name=python3, "
    "GPU has fallen off the bus.\n"
)
QUIET = "Mar  2 16:24:18 {host} kernel: usb 1-1.4: new high-speed USB device number 5\n"
BUSES = ("1a:00.0", "3d:00.0", "4e:00.0", "5f:00.0", "9b:00.0", "ad:00.0", "ba:00.0", "cb:00.0")


def smi_xml(mark: str = "a") -> str:
    gpus = "".join(
        f'<gpu id="00000000:{bus.upper()}"><product_name>NVIDIA H100 80GB HBM3</product_name>'
        f"<uuid>GPU-{mark}0000000-0000-4000-8000-00000000000{index}</uuid>"
        f"<pci><pci_bus_id>00000000:{bus.upper()}</pci_bus_id></pci>"
        "<temperature><gpu_temp>41 C</gpu_temp></temperature></gpu>"
        for index, bus in enumerate(BUSES)
    )
    return (
        '<?xml version="1.0" ?>\n<nvidia_smi_log><timestamp>Mon Mar  2 16:30:00 2026</timestamp>'
        f"<driver_version>570.124.06</driver_version><attached_gpus>8</attached_gpus>{gpus}"
        "</nvidia_smi_log>"
    )


def look(*paths: Path) -> Report:
    return inspect([str(path) for path in paths], Documents())


def found(report: Report) -> dict[str, list[str]]:
    return {
        d.node: [f"{f.severity} {f.fault} {f.subject.key}" for f in d.findings]
        for d in report.diagnoses
    }


def bigiron(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    argv = [sys.executable, "-m", "bigiron", *words]
    return subprocess.run(argv, input=stdin, capture_output=True, timeout=60, check=False)


# --- exit codes, as a shell sees them


def test_a_healthy_log_on_standard_input_exits_0() -> None:
    done = bigiron("inspect", "-", stdin=QUIET.format(host="g1").encode())
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"g1  healthy\n  Nothing wrong was seen.\n")


def test_a_packed_log_on_standard_input_exits_2() -> None:
    done = bigiron("inspect", "-", stdin=gzip.compress(LOST.format(host="g1").encode()))
    assert done.returncode == 2
    assert b"GPU 9b:00 fell off the bus at 2" in done.stdout
    assert b"do           drain it and reboot now" in done.stdout


def test_nothing_recognised_exits_3() -> None:
    done = bigiron("inspect", "-", stdin=b"a shopping list\n")
    assert done.returncode == 3
    assert b"standard input: not recognised" in done.stdout


@pytest.mark.parametrize("words", [["inspect"], ["inspect", "--what", "x"], ["inspekt", "x"]])
def test_wrong_usage_exits_4_and_says_why(words: list[str]) -> None:
    done = bigiron(*words)
    assert (done.returncode, done.stdout) == (4, b"")
    assert b"Error: " in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_path_that_is_not_there_exits_4_and_is_named(tmp_path: Path) -> None:
    done = bigiron("inspect", str(tmp_path / "gone.log"))
    assert done.returncode == 4
    assert b"gone.log: no such file or directory" in done.stderr
    assert b"gone.log: cannot be read: No such file or directory" in done.stdout


def test_a_path_that_is_not_there_beside_one_that_is_leaves_the_exit_code(tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_text(LOST.format(host="g1"))
    done = bigiron("inspect", str(tmp_path / "gone.log"), str(tmp_path / "kern.log"))
    assert done.returncode == 2
    assert b"gone.log: cannot be read" in done.stdout


def test_healthy_hosts_are_told_folded(tmp_path: Path) -> None:
    hosts = "".join(QUIET.format(host=f"g{number:02d}") for number in range(1, 13))
    (tmp_path / "kern.log").write_text(hosts + LOST.format(host="g20"))
    done = bigiron("inspect", str(tmp_path / "kern.log"))
    assert b"12 healthy: g[01-12]" in done.stdout


def test_the_formats_are_listed_with_what_they_are() -> None:
    done = bigiron("inspect", "--formats")
    assert done.returncode == 0
    names = [line.split()[0] for line in done.stdout.decode().splitlines()]
    assert names == [name for name, _ in formats()]
    assert all(len(line.split()) >= 3 for line in done.stdout.decode().splitlines())
    assert b"--formats" in bigiron("inspect", "--help").stdout


def test_json_holds_everything_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_text(LOST.format(host="g1"))
    (tmp_path / "x.bin").write_bytes(b"\0\1\2" * 99)
    done = bigiron("inspect", "--json", str(tmp_path))
    report: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode, report["exit_code"]) == (2, 2)
    (host,) = report["diagnoses"]
    assert (host["node"], host["health"]) == ("g1", "unhealthy")
    (finding,) = host["findings"]
    assert (finding["fault"], finding["action"], finding["when"]) == ("xid.79", "reboot", "now")
    assert finding["evidence"][0]["line"] == 1
    assert [s["format"] for s in report["seen"]] == ["kernel_log"]
    assert [n["what"] for n in report["notes"] if "x.bin" in n["source"]] == [
        "binary: not recognised"
    ]


BLOCKED = ("numpy", "polars", "httpx", "httpx2", "sqlalchemy", "jinja2", "lightkube", "yaml")


def test_the_base_install_is_enough(tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_text(LOST.format(host="g1"))
    (tmp_path / "nvidia-smi.xml").write_text(smi_xml())
    script = (
        "import sys\n"
        f"for name in {BLOCKED}: sys.modules[name] = None\n"
        "from bigiron.cli import main\n"
        f"sys.argv = ['bigiron', 'inspect', {str(tmp_path)!r}]\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (2, b"")
    assert b"GPU 9b:00 (gpu4) fell off the bus" in done.stdout


# --- whose file it is


def test_the_kernels_address_and_nvidia_smis_index_are_one_gpu(tmp_path: Path) -> None:
    (tmp_path / "dmesg").write_text(
        "[ 512.000000] NVRM: Xid (PCI:0000:9b:00): 79, pid=1, name=x, GPU has fallen off the bus.\n"
    )
    (tmp_path / "nvidia-smi.xml").write_text(smi_xml())
    report = look(tmp_path)
    assert found(report) == {"host": ["fatal xid.79 host/gpu4"]}
    (diagnosis,) = report.diagnoses
    assert diagnosis.parts == "8 × NVIDIA H100 80GB HBM3, driver 570.124.06"
    assert diagnosis.findings[0].because[0].startswith("GPU 9b:00 (gpu4) fell off the bus 512 s")


def test_two_hosts_in_one_folder_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LOST.format(host="g1"))
    (tmp_path / "b.log").write_text(QUIET.format(host="g2"))
    assert found(look(tmp_path)) == {"g1": ["fatal xid.79 g1/0000:9b:00.0"], "g2": []}


def test_two_machines_xml_side_by_side_are_two_hosts(tmp_path: Path) -> None:
    (tmp_path / "left.xml").write_text(smi_xml("a"))
    (tmp_path / "right.xml").write_text(smi_xml("b"))
    report = look(tmp_path)
    assert sorted(d.node for d in report.diagnoses) == ["left", "right"]
    assert {d.parts.split(",")[0] for d in report.diagnoses} == {"8 × NVIDIA H100 80GB HBM3"}


def test_a_list_of_jobs_makes_no_host(tmp_path: Path) -> None:
    (tmp_path / "sacct.txt").write_text(
        "JobID|JobName|State|Start|End|NodeList\n"
        "71|train|COMPLETED|2024-03-01T00:00:00|2024-03-01T01:00:00|g[1-2]\n"
        "72|train|FAILED|2024-03-01T02:00:00|2024-03-01T03:00:00|g1\n"
    )
    report = look(tmp_path / "sacct.txt")
    assert (report.exit_code, report.diagnoses) == (0, ())
    assert report.jobs == {"COMPLETED": 1, "FAILED": 1}


NO_DOCUMENT_OF_A_MACHINE = {
    "rules.yaml": 'rules:\n  - pattern: "BUG: unable to handle kernel paging request at .*"\n',
    "formats.tsv": "nvlink.c\tTRAIN\tNVLink: Link training failed for link %u (0x%x)\n",
    "fields.csv": "name,id\nGPU_TEMP,150\nGPU_POWER,155\n",
}


@pytest.mark.parametrize("name", NO_DOCUMENT_OF_A_MACHINE)
def test_a_list_of_what_to_look_for_accuses_no_machine(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(NO_DOCUMENT_OF_A_MACHINE[name])
    report = look(tmp_path / name)
    assert (report.exit_code, report.diagnoses) == (3, ())


def test_a_drive_below_its_own_threshold_is_critical(tmp_path: Path) -> None:
    drive = {
        "smartctl": {"exit_status": 0},
        "device": {"name": "/dev/nvme3", "protocol": "NVMe"},
        "nvme_smart_health_information_log": {
            "available_spare": 4,
            "available_spare_threshold": 10,
            "percentage_used": 97,
        },
    }
    (tmp_path / "nvme3.json").write_text(json.dumps(drive))
    assert found(look(tmp_path / "nvme3.json")) == {"host": ["critical nvme.spare_low host/nvme3"]}


def test_an_idle_slowdown_of_a_desktop_gpu_lowers_nothing(tmp_path: Path) -> None:
    page = "".join(
        f'DCGM_FI_DEV_CLOCKS_EVENT_REASONS{{gpu="{gpu}",UUID="GPU-{gpu}",Hostname="g1"}} 32\n'
        for gpu in range(4)
    )
    (tmp_path / "m.prom").write_text("# TYPE DCGM_FI_DEV_CLOCKS_EVENT_REASONS gauge\n" + page)
    assert look(tmp_path / "m.prom").exit_code == 0


# --- a manifest, a hung job, a check


def _facts(rate: int) -> str:
    return json.dumps(
        {
            "intf_status": [
                {"ifname": "eth7", "link_type": "ether", "operstate": "UP", "mtu": 9000}
            ],
            "link_speed": {"eth7": str(rate)},
        }
    )


MANIFEST = json.dumps(
    {
        "pci": {"0000:41:00.0": {"type": "net", "dev": "eth7", "slot": "P1", "link_width": "16"}},
        "eth": {"P1": {"netdev": "eth7", "speed": 200000, "mtu": 9000}},
    }
)


def test_a_manifest_declares_and_is_no_machine(tmp_path: Path) -> None:
    (tmp_path / "box.json").write_text(MANIFEST)
    (tmp_path / "facts.json").write_text(_facts(100000))
    report = look(tmp_path / "box.json", tmp_path / "facts.json")
    assert report.exit_code == 1
    (diagnosis,) = report.diagnoses
    (finding,) = diagnosis.findings
    assert finding.fault == "config.drift.link_rate_gbps"
    assert "eth7" in finding.because[0]
    assert "has link rate 100 Gb/s; it should be 200 Gb/s, as declared." in finding.because[0]
    (tmp_path / "facts.json").write_text(_facts(200000))
    assert look(tmp_path / "box.json", tmp_path / "facts.json").exit_code == 0


def test_a_manifest_alone_is_nothing_to_judge(tmp_path: Path) -> None:
    (tmp_path / "box.json").write_text(MANIFEST)
    report = look(tmp_path / "box.json")
    assert (report.exit_code, report.diagnoses) == (3, ())


def dump(last: int, *, pending: bool) -> str:
    """A flight recorder dump of a rank of four: the collective 8 was entered or never was."""
    entry = {
        "pg_id": 0,
        "process_group": ["0", "default_pg"],
        "collective_seq_id": 8,
        "profiling_name": "nccl:all_reduce",
        "state": "scheduled",
        "is_p2p": False,
    }
    status = {"last_enqueued_collective": last, "last_completed_collective": 7}
    return json.dumps(
        {
            "version": "2.9",
            "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
            "pg_status": {"0": status},
            "entries": [entry] if pending else [],
        }
    )


def test_a_folder_of_dumps_is_one_job_and_names_the_rank_it_waits_for(tmp_path: Path) -> None:
    job = tmp_path / "run7"
    job.mkdir()
    for rank in range(4):
        text = dump(7, pending=False) if rank == 2 else dump(8, pending=True)
        (job / f"trace_{rank}.json").write_text(text)
    report = look(tmp_path)
    assert (report.exit_code, report.diagnoses) == (2, ())
    (finding,) = report.groups
    assert (finding.subject.key, finding.fault) == ("job:run7", "nccl.hung")
    assert finding.because[0] == (
        "The job hangs: rank 2 holds it up; 3 others wait for it, and it waits for nobody."
    )
    assert finding.evidence[0].source.endswith("run7/trace_2.json")


def test_a_check_that_did_not_run_is_no_health(tmp_path: Path) -> None:
    (tmp_path / "net.log").write_text("ERROR: this application must be run on at least 10 nodes\n")
    report = look(tmp_path / "net.log")
    assert report.exit_code == 1
    (diagnosis,) = report.diagnoses
    assert diagnosis.health is Health.UNKNOWN
    assert diagnosis.findings[0].because[0].startswith('Check "gpcnet" did not run: this ')


def test_a_failed_diagnostic_is_critical_even_where_a_setting_is_wrong(tmp_path: Path) -> None:
    test = {"name": "Persistence Mode", "results": [{"status": "Fail"}]}
    document = {
        "DCGM GPU Diagnostic": {"test_categories": [{"category": "Deployment", "tests": [test]}]}
    }
    (tmp_path / "diag.json").write_text(json.dumps(document))
    report = look(tmp_path / "diag.json")
    assert report.exit_code == 2
    assert found(report) == {"host": ["critical dcgm.29 host"]}


def test_link_errors_past_the_threshold_name_gpu_and_link(tmp_path: Path) -> None:
    link = {"children": {"CRC Data Error": {"value": "31"}, "CRC FLIT Error": {"value": "900"}}}
    document = {"body": {"Link 5": link}, "header": ["NVLINK Error Counts", "GPU 3"]}
    (tmp_path / "nvlink.json").write_text(json.dumps(document))
    (finding,) = look(tmp_path / "nvlink.json").diagnoses[0].findings
    assert finding.severity.rank >= 2
    assert finding.subject.device == "gpu3"
    assert "link 5 crc data error 31" in finding.because[1]


def test_a_cordon_keeps_its_reason_and_accuses_nobody(tmp_path: Path) -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "g7", "annotations": {"ops.example/reason": "fan swap"}},
        "spec": {
            "unschedulable": True,
            "taints": [{"key": "ops.example/unhealthy", "value": "xid79", "effect": "NoSchedule"}],
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    (tmp_path / "node.json").write_text(json.dumps(node))
    report = look(tmp_path / "node.json")
    assert (report.exit_code, found(report)) == (0, {"g7": ["info k8s.cordoned g7"]})
    because = report.diagnoses[0].findings[0].because
    assert because[1] == "The reason given: fan swap; taint ops.example/unhealthy=xid79"


# --- the words


def shown(capsys: pytest.CaptureFixture[str], report: Report) -> list[str]:
    show(report)
    return capsys.readouterr().out.splitlines()


def test_the_text_is_wide_and_unpadded_in_a_pipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kern.log").write_text(LOST.format(host="g1") + "x" * 50)
    lines = shown(capsys, look(tmp_path / "kern.log"))
    assert max(map(len, lines)) <= 160
    assert max(map(len, lines)) > 120
    assert [line for line in lines if line != line.rstrip()] == []
    assert not any("\x1b" in line for line in lines)


def test_a_finding_says_what_whose_fault_what_to_do_and_where_it_was_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kern.log").write_text(LOST.format(host="g1"))
    lines = shown(capsys, look(tmp_path / "kern.log"))
    assert lines[0] == "g1  unhealthy"
    assert lines[1].startswith("  FATAL  GPU 9b:00 fell off the bus at ")
    labels = [line[4:17].strip() for line in lines if line[:4].isspace()]
    wanted = ["whose fault", "do", "look at", "seen in"]
    assert [label for label in labels if label in wanted] == wanted


def test_many_files_with_one_note_are_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(9):
        (tmp_path / f"n{number}.txt").write_text("hello\n")
    (tmp_path / "kern.log").write_text(QUIET.format(host="g1"))
    lines = shown(capsys, look(tmp_path))
    told = [line for line in lines if "not recognised" in line]
    assert told == [f"note: 9 files, the first {tmp_path}/n0.txt: not recognised"]


# --- what one plugin does wrong


def test_a_detector_that_fails_costs_only_its_own_claims(tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_text(LOST.format(host="g1"))
    notes: list[Note] = []
    readings = read_all([str(tmp_path)], Documents(), notes)
    _, window = judge(readings, readings[0].document.now, notes)

    def broken(window: Window) -> Iterator[Finding | Recovery]:
        return iter([window.events[10**9]])  # type: ignore[list-item]

    def fine(window: Window) -> Iterator[Finding | Recovery]:
        yield from claims(window, [])

    plugins = [Plugin(run.__name__, run, 0.0, (), "-") for run in (broken, fine)]
    assert [f.fault for f in claims(window, notes, plugins)] == ["xid.79"]
    assert [(n.source, n.what.split(":")[0]) for n in notes if n.source.startswith("detector")] == [
        ("detector broken", "failed")
    ]
