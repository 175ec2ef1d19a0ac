"""Whose file is it: documents that name no host are given one, and hosts are told apart."""

from datetime import UTC, datetime

from bigiron.hub.hosts import Reading, assign
from bigiron.ingest import Document
from bigiron.model import Device, Event, Fact, Observation

NOW = datetime(2026, 5, 4, tzinfo=UTC)


def _reading(path: str, kind: str, *observations: Observation) -> Reading:
    return Reading(Document.of(path, b"x", NOW), kind, list(observations))


def _event(node: str = "") -> Event:
    return Event(node, "xid.79", "fell off", device="0000:9b:00.0")


def _gpu(uuid: str) -> Device:
    return Device("", "gpu0", "gpu", uuid)


def _hosts(*readings: Reading) -> list[str]:
    assign(readings)
    return [r.host for r in readings]


def test_a_lone_silent_file_is_the_host() -> None:
    assert _hosts(_reading("/tmp/dmesg.txt", "kernel_log", _event())) == ["host"]


def test_a_silent_file_beside_one_that_tells_is_the_same_host() -> None:
    log = _reading("case/syslog", "kernel_log", _event("gpu017"))
    smi = _reading("case/nvidia-smi.xml", "nvidia_smi_xml", _gpu("GPU-1"))
    assert _hosts(log, smi) == ["gpu017", "gpu017"]


def test_a_hostname_fact_tells() -> None:
    facts = _reading("case/facts.json", "node_facts", Fact("", "hostname", "gpu018"))
    smi = _reading("case/smi.txt", "nvidia_smi_text", _gpu("GPU-1"))
    assert _hosts(facts, smi) == ["gpu018", "gpu018"]


def test_two_of_a_kind_with_other_parts_are_two_hosts() -> None:
    first = _reading("in/a.xml", "nvidia_smi_xml", _gpu("GPU-1"))
    second = _reading("in/b.xml", "nvidia_smi_xml", _gpu("GPU-2"))
    assert _hosts(first, second) == ["a", "b"]


def test_two_of_a_kind_with_the_same_parts_are_one_host() -> None:
    first = _reading("in/before.xml", "nvidia_smi_xml", _gpu("GPU-1"))
    second = _reading("in/after.xml", "nvidia_smi_xml", _gpu("GPU-1"))
    assert len(set(_hosts(first, second))) == 1


def test_rotated_logs_are_one_host() -> None:
    names = ("dmesg.log", "dmesg.log.1", "dmesg.log.2")
    hosts = _hosts(*(_reading(f"case/{name}", "kernel_log", _event()) for name in names))
    assert len(set(hosts)) == 1


def test_folders_that_hold_the_same_kinds_are_hosts_of_their_own() -> None:
    readings = [
        _reading(f"bundle.tar!{node}/{name}", kind, *seen)
        for node in ("n01", "n02")
        for name, kind, seen in (
            ("dmesg", "kernel_log", [_event()]),
            ("smi.xml", "nvidia_smi_xml", [_gpu(f"GPU-{node}")]),
        )
    ]
    assert _hosts(*readings) == ["n01", "n01", "n02", "n02"]


def test_folders_of_one_host_are_not_taken_apart() -> None:
    log = _reading("case/var/log/dmesg", "kernel_log", _event())
    smi = _reading("case/sos_commands/smi.xml", "nvidia_smi_xml", _gpu("GPU-1"))
    assert len(set(_hosts(log, smi))) == 1


def test_a_log_of_many_hosts_lends_its_name_to_none() -> None:
    many = _reading("in/all.log", "kernel_log", _event("n01"), _event("n02"))
    smi = _reading("in/n02-smi.xml", "nvidia_smi_xml", _gpu("GPU-1"))
    other = _reading("in/other.txt", "nvidia_smi_text", _gpu("GPU-9"))
    assert _hosts(many, smi, other) == ["", "n02", "other"]


def test_what_is_of_no_machine_gets_no_host() -> None:
    log = _reading("case/dmesg", "kernel_log", _event())
    jobs = _reading("case/sacct.txt", "slurm_sacct", Fact("", "version", "24.05"))
    golden = _reading("case/box.json", "golden_manifest", Fact("golden:box", "mtu", 9000, "eth0"))
    rank = _reading("case/dump_3", "flight_recorder", Fact("", "fr_rank", 3, "rank3"))
    assert _hosts(log, jobs, golden, rank) == ["host", "", "", ""]
    assert (golden.told, rank.rank) == (set(), 3)
