"""Whatever is cut off, damaged or nested too deep: a ParseError or observations, never a crash."""

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, json_text
from bigiron.ingest.agfhc import agfhc
from bigiron.ingest.amd_smi import amd_smi
from bigiron.ingest.copy_bandwidth import copy_bandwidth
from bigiron.ingest.flight_recorder import flight_recorder
from bigiron.ingest.golden_manifest import golden_manifest
from bigiron.ingest.gpcnet import gpcnet
from bigiron.ingest.gpu_burn import gpu_burn
from bigiron.ingest.gpu_microbench import gpu_microbench
from bigiron.ingest.ib_counters import ib_counters
from bigiron.ingest.iblinkinfo import iblinkinfo
from bigiron.ingest.ibstat import ibstat
from bigiron.ingest.ibswinfo import ibswinfo
from bigiron.ingest.mlxlink import mlxlink
from bigiron.ingest.nccl_tests import nccl_tests
from bigiron.ingest.node_facts import node_facts
from bigiron.ingest.nvbandwidth import nvbandwidth
from bigiron.ingest.perftest import perftest
from bigiron.ingest.rdma_statistics import rdma_statistics
from bigiron.ingest.rocm_smi import rocm_smi
from bigiron.ingest.rvs import rvs
from bigiron.ingest.smartctl import smartctl
from bigiron.ingest.superbench import superbench
from bigiron.ingest.training_log import training_log
from bigiron.model import CheckResult, CheckStatus, Observation

TOOLS = Path(__file__).parent.parent / "fixtures" / "tools"
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
READERS: dict[str, Reader] = {
    "rocm_smi_6.json": rocm_smi(),
    "amd_smi_metric_24.json": amd_smi(),
    "amd_smi_static_25.json": amd_smi(),
    "amd_smi_bad_pages.json": amd_smi(),
    "amd_smi_xgmi.json": amd_smi(),
    "rvs.log": rvs(),
    "agfhc.log": agfhc(),
    "agfhc_results.json": agfhc(),
    "nicctl_port_statistics.json": rdma_statistics(),
    "rdma_statistic.json": rdma_statistics(),
    "nvbandwidth.json": nvbandwidth(),
    "nvbandwidth.txt": nvbandwidth(),
    "nccl_tests.txt": nccl_tests(),
    "superbench_diagnosis.jsonl": superbench(),
    "superbench_results.jsonl": superbench(),
    "gpu_microbench.json": gpu_microbench(),
    "perftest.txt": perftest(),
    "gpcnet.txt": gpcnet(),
    "gpu_burn.txt": gpu_burn(),
    "gpu_fryer.txt": gpu_burn(),
    "bandwidth_test.txt": copy_bandwidth(),
    "gpu_copy.txt": copy_bandwidth(),
    "ibstat.txt": ibstat(),
    "ibstatus.txt": ibstat(),
    "ibv_devinfo.txt": ibstat(),
    "iblinkinfo.txt": iblinkinfo(),
    "ibswinfo.txt": ibswinfo(),
    "perfquery.txt": ib_counters(),
    "ibqueryerrors.txt": ib_counters(),
    "ethtool_stats.txt": ib_counters(),
    "mlxlink_mlx5_2.txt": mlxlink(),
    "mlxlink_mlx5_0.json": mlxlink(),
    "smartctl_nvme.json": smartctl(),
    "smartctl_unreadable.json": smartctl(),
    "nvme_smart_log.txt": smartctl(),
    "nvme_list.json": smartctl(),
    "training.log": training_log(),
    "sysfs_good.json": node_facts(),
    "ethernet_good.json": node_facts(),
    "manifest_example.json": golden_manifest(),
    "sichek_spec.yaml": golden_manifest(),
}
ALL = {type(reader).__name__: reader for reader in (*READERS.values(), flight_recorder())}


def read(reader: Reader, name: str, data: bytes) -> list[Observation] | None:
    """Its observations; None if it was refused, which must name the document."""
    document = Document.of(name, data, NOW)
    assert 0 <= reader.sniff(Head.of(document)) <= 1
    source = name
    try:
        return list(reader.read(document))
    except ParseError as error:
        source = error.source
    assert source == name
    return None


@pytest.mark.parametrize("name", READERS)
def test_every_fixture_is_read_by_its_reader_and_claimed_by_no_other(name: str) -> None:
    data = (TOOLS / name).read_bytes()
    assert read(READERS[name], name, data)
    head = Head.of(Document.of("anything", data, NOW))
    claims = {type(r).__name__: r.sniff(head) for r in ALL.values()}
    own = claims.pop(type(READERS[name]).__name__)
    assert own >= 0.7
    assert max(claims.values()) < own, claims


@settings(max_examples=40, deadline=None)
@given(share=st.floats(0, 1), seed=st.integers(0, 1 << 30))
@pytest.mark.parametrize("name", READERS)
def test_cut_off_and_damaged_anywhere(name: str, share: float, seed: int) -> None:
    data = (TOOLS / name).read_bytes()
    cut = data[: int(len(data) * share)]
    read(READERS[name], name, cut)
    chance = random.Random(seed)
    damaged = bytearray(data)
    for _ in range(5):
        damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    found = read(READERS[name], name, bytes(damaged))
    assert found is None or all(isinstance(x, Observation) for x in found)


@pytest.mark.parametrize("name", [n for n in READERS if n.endswith((".txt", ".log"))])
def test_a_text_that_was_cut_never_passes_more_than_the_whole(name: str) -> None:
    lines = (TOOLS / name).read_bytes().splitlines(keepends=True)
    whole = _passed(read(READERS[name], name, b"".join(lines)) or [])
    for end in range(len(lines)):
        cut = _passed(read(READERS[name], name, b"".join(lines[:end])) or [])
        # These are lists of single results: what stands before the cut did pass.
        assert cut - whole <= {"rvs gm", "rvs mem", "rvs pbqt", "gpu_copy"}, end


def _passed(found: list[Observation]) -> set[str]:
    return {x.check for x in found if isinstance(x, CheckResult) and x.status is CheckStatus.PASS}


ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["N/A", "1", "x", ""]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=30, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("name", [n for n in READERS if n.endswith(".json")])
def test_any_value_of_another_type_anywhere(name: str, data: st.DataObject) -> None:
    value: Any = json_text.loads((TOOLS / name).read_text(), name)
    spot: Any = value
    for _ in range(data.draw(st.integers(0, 5))):
        keys = list(spot) if isinstance(spot, dict) else list(range(len(spot or [])))
        key = data.draw(st.sampled_from(keys)) if keys else None
        child = spot[key] if key is not None else None
        if not isinstance(child, dict | list) or not child:
            break
        spot = child
    if isinstance(spot, dict) and spot:
        spot[data.draw(st.sampled_from(sorted(spot)))] = data.draw(ODD)
    found = read(READERS[name], name, json.dumps(value).encode())
    assert found is None or all(isinstance(x, Observation) for x in found)


DEEP = (b"[" * 200_000, b'{"a":' * 200_000, b'[{"gpu": 0, "ecc": ' + b"[" * 200_000)


@pytest.mark.parametrize("data", DEEP)
@pytest.mark.parametrize("name", ["amd_smi_xgmi.json", "nvbandwidth.json", "sysfs_good.json"])
def test_nested_too_deep_is_refused(name: str, data: bytes) -> None:
    assert read(READERS[name], name, data) is None


def test_json_limits_and_leniency() -> None:
    with pytest.raises(ParseError, match="more than 4 bytes"):
        json_text.loads("[1, 2, 3]", "x", limit=4)
    with pytest.raises(ParseError, match="x:3: not JSON"):
        json_text.loads('warning\n{"a": 1,\n nonsense', "x")
    with pytest.raises(ParseError, match="no JSON"):
        json_text.loads("nothing here", "x")
    assert json_text.loads('note\n{"a": NaN}\ntrailing', "x") is not None
    assert json_text.number("(1725Mhz)") == 1725
    assert json_text.number("1,234 W") == 1234
    assert json_text.number("N/A") is None
    assert json_text.number(True) is None
    assert json_text.number(float("nan")) is None
    assert json_text.number(10**400) is None
