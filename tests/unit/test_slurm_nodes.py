"""Nodes from scontrol, sinfo and JSON."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader
from bigiron.ingest.slurm_json import SlurmJson
from bigiron.ingest.slurm_nodes import ScontrolNodes, records_of_text
from bigiron.ingest.slurm_sinfo import SinfoTable
from bigiron.ingest.slurm_state import flags_of, state_of
from bigiron.ingest.slurm_values import gres_gpus, number, time_of, tres_gpus
from bigiron.model import Event, Fact, Node, NodeState, Note, Observation

FIXTURES = Path(__file__).parents[1] / "fixtures" / "slurm"
NOW = datetime(2026, 5, 11, 6, 0, tzinfo=UTC)


def read(reader: Reader, name: str) -> list[Observation]:
    document = Document.of(name, (FIXTURES / name).read_bytes(), NOW)
    assert reader.sniff(Head.of(document)) > 0.5
    return list(reader.read(document))


def read_text(reader: Reader, text: str) -> list[Observation]:
    return list(reader.read(Document.of("text", text.encode(), NOW)))


def states(observations: list[Observation]) -> dict[str, str]:
    return {o.node: o.state for o in observations if isinstance(o, NodeState)}


def codes(observations: list[Observation]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for event in (o for o in observations if isinstance(o, Event)):
        found.setdefault(event.node, []).append(event.code)
    return found


def notes(observations: list[Observation]) -> dict[str, int]:
    return {o.what: o.count for o in observations if isinstance(o, Note)}


@pytest.mark.parametrize("name", ["nodes.txt", "nodes_oneline.txt"])
def test_scontrol_tells_states_and_faults_in_both_forms(name: str) -> None:
    seen = read(ScontrolNodes(), name)
    assert states(seen) == {"gpu01": "alloc", "gpu02": "drain", "gpu03": "down", "gpu04": "drain"}
    assert codes(seen) == {"gpu02": ["slurm.gres_missing"], "gpu03": ["slurm.node_drain"]}
    nodes = {o.name: o for o in seen if isinstance(o, Node)}
    assert (nodes["gpu01"].sku, nodes["gpu01"].partition) == ("h100x8", "train")
    facts = {(o.node, o.name): o.value for o in seen if isinstance(o, Fact)}
    assert facts["gpu01", "gpu_count_configured"] == 8
    assert facts["gpu01", "slurm_version"] == "23.11.4"
    assert facts["gpu01", "kernel"] == "5.15.0-107-generic"
    assert ("gpu03", "slurm_version") not in facts


def test_a_reason_keeps_brackets_equal_signs_and_its_author() -> None:
    seen = read(ScontrolNodes(), "nodes.txt")
    down = next(o for o in seen if isinstance(o, NodeState) and o.node == "gpu03")
    assert down.reason == "psu 2 swap [chg=118]"
    assert down.by == "alice"
    assert down.since == datetime(2026, 5, 10, 9, 30, tzinfo=UTC)
    event = next(o for o in seen if isinstance(o, Event) and o.node == "gpu03")
    assert event.attrs == {"by": "alice", "for": "work"}


def test_missing_gres_tells_hardware_from_driver() -> None:
    one = next(
        o for o in read(ScontrolNodes(), "nodes.txt") if isinstance(o, Event) and o.node == "gpu02"
    )
    assert one.attrs["suspect"] == "hardware"
    assert (one.attrs["found"], one.attrs["configured"], one.line) == ("7", "8", 16)
    text = (FIXTURES / "nodes_oneline.txt").read_text().replace("(7 < 8)", "(0 < 8)")
    none = next(o for o in read_text(ScontrolNodes(), text) if isinstance(o, Event))
    assert none.attrs["suspect"] == "driver"


@pytest.mark.parametrize(
    ("state", "reason", "expected"),
    [
        ("DOWN+DRAIN+REBOOT_ISSUED", "new driver : reboot issued", ["slurm.node_drain"]),
        ("DOWN", "Node unexpectedly rebooted", ["slurm.reboot", "slurm.node_down"]),
        ("DOWN", "new driver : reboot timed out", ["slurm.node_down"]),
        ("DOWN+NOT_RESPONDING", "Not responding", ["slurm.not_responding"]),
        ("DOWN+DRAIN+NOT_RESPONDING", "Not responding", ["slurm.not_responding"]),
        ("DOWN+DRAIN", "Kill task failed", ["slurm.kill_task_failed", "slurm.node_down"]),
        ("DOWN+DRAIN+NOT_RESPONDING", "bigiron: xid 79", []),
        ("IDLE+DRAIN", "Low RealMemory (reported:99 < 100)", ["slurm.invalid_reg"]),
        ("IDLE+DRAIN", "Prolog error", ["slurm.prolog_failed"]),
        ("IDLE+DRAIN", "", ["slurm.node_drain"]),
        ("IDLE+DRAIN", "gpu 3 is not responding to us", ["slurm.node_drain"]),
        ("IDLE", "Not responding", []),
        ("IDLE+NOT_RESPONDING", "", []),
        ("IDLE+MAINTENANCE", "", []),
    ],
)
def test_what_a_state_and_its_reason_come_to(state: str, reason: str, expected: list[str]) -> None:
    told = f"Reason={reason} [root@2026-05-11T00:00:00]" if reason else ""
    text = f"NodeName=n1 CPUAlloc=0 State={state} Partitions=p {told}\n"
    assert codes(read_text(ScontrolNodes(), text)).get("n1", []) == expected


def test_other_names_and_addresses_of_a_node_are_told_where_they_differ() -> None:
    line = "NodeName=gpu01 CPUAlloc=0 NodeAddr=10.4.0.1 NodeHostName=gpu01 State=IDLE"
    (record, _, _), *_ = records_of_text(line)
    facts = [o for o in record.observations(NOW, "slurm") if isinstance(o, Fact)]
    assert [(f.name, f.value) for f in facts] == [("address", "10.4.0.1")]


def test_our_own_drain_is_no_event() -> None:
    seen = read(ScontrolNodes(), "nodes.txt")
    assert "gpu04" not in codes(seen)
    ours = next(o for o in seen if isinstance(o, NodeState) and o.node == "gpu04")
    assert ours.reason == "bigiron: xid 48 on gpu5 [F000012]"


def test_zoneless_times_are_noted_once() -> None:
    assert notes(read(ScontrolNodes(), "nodes.txt")) == {"times without a zone, read as UTC": 3}


def test_slurm_conf_is_not_taken_for_nodes() -> None:
    conf = Head("slurm.conf", b"", "NodeName=n[1-4] CPUs=8 State=UNKNOWN\nPartitionName=x\n")
    assert ScontrolNodes().sniff(conf) == 0


def test_text_without_nodes_is_refused() -> None:
    with pytest.raises(ParseError):
        read_text(ScontrolNodes(), "Node gpu99 not found\n")


def test_sinfo_default_merges_partitions() -> None:
    seen = read(SinfoTable(), "sinfo_default.txt")
    assert states(seen) == {
        "gpu03": "down",
        "gpu07": "drain",
        "gpu01": "alloc",
        "gpu02": "alloc",
        "gpu08": "maint",
        "gpu09": "maint",
    }
    assert codes(seen) == {"gpu03": ["slurm.not_responding"], "gpu07": ["slurm.node_drain"]}


def test_sinfo_reasons_tell_who_drained() -> None:
    seen = read(SinfoTable(), "sinfo_R.txt")
    assert codes(seen) == {
        "gpu03": ["slurm.not_responding"],
        "gpu07": ["slurm.health_check"],
        "gpu09": ["slurm.health_check"],
        "gpu11": ["slurm.kill_task_failed"],
    }
    assert states(seen)["gpu03"] == "down"
    check = next(o for o in seen if isinstance(o, Event) and o.node == "gpu07")
    assert check.time == datetime(2026, 5, 11, 3, 12, tzinfo=UTC)


def test_sinfo_columns_that_are_full_still_align() -> None:
    seen = read(SinfoTable(), "sinfo_N_O.txt")
    assert states(seen) == {"gpu01": "alloc", "gpu02": "drain", "gpu03": "drain"}
    drained = next(o for o in seen if isinstance(o, NodeState) and o.node == "gpu02")
    assert (drained.reason, drained.by) == ("fan 3 loud", "alice")
    assert codes(seen)["gpu03"] == ["slurm.invalid_reg"]


def test_sinfo_with_a_delimiter_counts_what_does_not_fit() -> None:
    seen = read(SinfoTable(), "sinfo_custom.txt")
    assert states(seen) == {"gpu01": "drain", "gpu02": "alloc"}
    assert notes(seen)["sinfo rows that do not fit their header"] == 1
    facts = {(o.node, o.name): o.value for o in seen if isinstance(o, Fact)}
    assert facts["gpu01", "gres"] == "gpu:a100:4(S:0-1)"


def test_json_of_21_08_has_one_state_and_flags() -> None:
    seen = read(SlurmJson(), "nodes_v0037.json")
    assert states(seen) == {"gpu01": "alloc", "gpu02": "drain"}
    assert notes(seen) == {"entries of Slurm's JSON that could not be read": 1}
    drained = next(o for o in seen if isinstance(o, NodeState) and o.node == "gpu02")
    assert (drained.by, drained.flags) == ("root", ("IDLE", "DRAIN"))


def test_json_of_25_05_has_lists_and_number_objects() -> None:
    seen = read(SlurmJson(), "nodes_v0043.json")
    assert states(seen) == {"gpu01": "alloc", "gpu02": "drain", "gpu03": "down"}
    assert codes(seen) == {
        "gpu02": ["slurm.kill_task_failed"],
        "gpu03": ["slurm.reboot", "slurm.node_down"],
    }
    reboot = next(o for o in seen if isinstance(o, Event) and o.code == "slurm.reboot")
    assert reboot.time == datetime.fromtimestamp(1778500100, UTC)


def test_sinfo_json_of_23_02_lists_rows() -> None:
    seen = read(SlurmJson(), "sinfo_rows.json")
    assert states(seen) == {"gpu05": "drain", "gpu06": "drain", "gpu07": "alloc"}
    assert codes(seen) == {"gpu05": ["slurm.epilog_failed"], "gpu06": ["slurm.epilog_failed"]}


@pytest.mark.parametrize(
    "text", ['{"nodes": [{"name": "x", "gres_drained": ', '{"meta": {"Slurm": {}}}', '["Slurm"]']
)
def test_unusable_json_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        read_text(SlurmJson(), text)


def test_an_error_answer_of_slurmrestd_is_told() -> None:
    answer = '{"meta": {"Slurm": {}}, "errors": [{"error": "Invalid node name specified"}]}'
    with pytest.raises(ParseError, match="Invalid node name"):
        read_text(SlurmJson(), answer)


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("IDLE", "idle"),
        ("idle*", "idle"),
        ("mix-", "alloc"),
        ("comp", "alloc"),
        ("plnd", "idle"),
        ("resv", "idle"),
        ("drained", "drain"),
        ("drng@", "drain"),
        ("IDLE+DRAIN+INVALID_REG", "drain"),
        ("inval", "drain"),
        ("failg", "drain"),
        ("IDLE+FAIL", "drain"),
        ("down$", "down"),
        ("DOWN+DRAIN+NOT_RESPONDING", "down"),
        ("error", "down"),
        ("DOWN+DRAIN+REBOOT_ISSUED", "maint"),
        ("reboot^", "maint"),
        ("idle~", "maint"),
        ("IDLE+MAINTENANCE+RESERVED", "maint"),
        ("futr", "unknown"),
        ("unk*", "unknown"),
        ("", "unknown"),
    ],
)
def test_every_word_for_a_state_comes_to_one_of_ours(word: str, state: str) -> None:
    assert state_of(flags_of(word)) == state


@pytest.mark.parametrize(
    ("gres", "count", "kind"),
    [
        ("gpu:h100:8(S:0-1)", 8, "h100"),
        ("gpu:4", 4, ""),
        ("gpu:a100:4,gpu:v100:2,nic:8", 6, "a100+v100"),
        ("gpu:h100:no_consume:8", 8, "h100"),
        ("shard:h100:32,gpu:h100:8", 8, "h100"),
        ("mps:400", 0, ""),
        ("(null)", 0, ""),
        ("gpu:1g.10gb:7", 7, "1g.10gb"),
    ],
)
def test_counts_gpus_in_gres(gres: str, count: int, kind: str) -> None:
    assert gres_gpus(gres) == (count, kind)


def test_values_of_every_version() -> None:
    assert tres_gpus("cpu=8,gres/gpu:h100=4,gres/gpu=4") == 4
    assert tres_gpus("cpu=8,gres/gpu:h100=4,gres/gpu:a100=2") == 6
    assert number({"set": False, "infinite": False, "number": 7}) is None
    assert number({"set": True, "infinite": True, "number": 7}) is None
    assert number({"set": True, "infinite": False, "number": 7}) == 7
    assert number(True) is None
    assert time_of("Unknown") is None
    assert time_of("2026-05-11T00:00:00+02:00") == datetime(2026, 5, 10, 22, 0, tzinfo=UTC)
