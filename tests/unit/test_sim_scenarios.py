"""Named scenarios hold what they promise, at the rates they promise."""

from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from bigiron.sim.book import Book
from bigiron.sim.causes import LLAMA3_TABLE5, failure_mix
from bigiron.sim.cluster import Cluster
from bigiron.sim.faults_lasting import DEVICE_DRIFTS, NODE_DRIFTS, golden
from bigiron.sim.history import History
from bigiron.sim.record import unfold
from bigiron.sim.scenarios import ACT, HARD, LEVELS, SCENARIOS, at_least
from bigiron.sim.shared import SHARED
from bigiron.sim.site import site

BENIGN = frozenset(
    {
        *("memory_vendor", "app_xid", "exporter_restart", "exporter_death", "scrape_outage"),
        *("sensor_glitch", "counter_burst", "single_flap", "operator_drain", "reboot_wave"),
        *("firmware_rollout", "storage_outage", "uneven_job", "heat_wave", "hot_workload"),
        "reenumeration",
    }
)
FAULTS = frozenset(
    {
        *("thermal_degradation", "fan_failure", "power_brake", "slow_clock", "straggler"),
        *("pcie_downtrain", "pcie_replay", "hbm_correctable", "hbm_remap", "hbm_uncorrectable"),
        *("nvlink_errors", "nvlink_fail", "ib_errors", "ib_link_down", "gpu_off_bus"),
        *("gsp_timeout", "node_crash", "driver_hang", "config_drift", "lemon"),
        "unattributed_failure",
    }
)


@cache
def happened(
    scenario: str, seed: int = 11, nodes: int = 48, days: float = 10
) -> tuple[History, Cluster]:
    """A scenario played out, without its telemetry."""
    place = site(nodes, seed, third_vendor=True)
    history = History(place, seed, 1_767_571_200.0, days * 86_400)
    golden(history)
    book = Book(place, seed, history.span_s)
    SCENARIOS[scenario](book, 6.5)
    return history, unfold(history, book, 300.0)


def kinds(scenario: str) -> Counter[str]:
    """How many episodes of each class."""
    return Counter(t.kind for t in happened(scenario)[0].truths)


def test_every_class_can_be_played() -> None:
    assert set(ACT) == BENIGN | FAULTS | set(SHARED)


@pytest.mark.parametrize(
    ("scenario", "promised"),
    [
        ("null", BENIGN | {"cooling_excursion"}),
        ("gradual", set(LEVELS)),
        ("failstop", set(HARD) - {"unattributed_failure"}),
        ("config", {"config_drift", "pcie_downtrain"}),
        ("shared", set(SHARED)),
        ("lemons", {"lemon"}),
        ("mixed", {"config_drift", "pcie_downtrain", *SHARED, *BENIGN}),
    ],
)
def test_a_scenario_holds_what_it_promises(scenario: str, promised: Iterable[str]) -> None:
    assert set(kinds(scenario)) >= set(promised)


def test_the_null_fleet_has_no_fault() -> None:
    assert {t.label for t in happened("null")[0].truths} == {"benign"}
    assert not any(run.state == "NODE_FAIL" for run in happened("null")[1].runs)


def test_every_size_of_every_gradual_class_is_there() -> None:
    history, _ = happened("gradual", nodes=96)
    faults = [t for t in history.truths if t.label == "fault"]
    sizes = {(t.kind, t.extra.get("sigma") or t.effect) for t in faults}
    assert {s for k, s in sizes if k == "thermal_degradation"} == {2, 3, 0.12}
    assert {s for k, s in sizes if k == "slow_clock"} == {0.03, 0.05, 0.1}
    assert all(t.fails_s is None and t.end_s is None for t in faults)
    assert all(t.onset_s <= t.extra["full_s"] for t in faults)
    assert max(t.onset_s for t in faults) < 0.5 * history.span_s


def test_every_fact_drifts() -> None:
    drifts = [t for t in happened("config")[0].truths if t.kind == "config_drift"]
    assert {t.extra["attribute"] for t in drifts} == {*NODE_DRIFTS, *DEVICE_DRIFTS}
    for truth in drifts:
        assert ("device" in truth.subject) is (truth.extra["attribute"] in DEVICE_DRIFTS)


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_truths_are_whole_and_in_their_order_of_time(scenario: str) -> None:
    history, _ = happened(scenario)
    names = set(history.site.names)
    for truth in history.truths:
        subject = truth.subject
        assert truth.kind in ACT
        assert truth.label in ("fault", "benign")
        assert 0 <= truth.onset_s < history.span_s
        if truth.fails_s is not None:
            assert truth.onset_s <= truth.fails_s
            assert truth.end_s is None or truth.fails_s <= truth.end_s
        if subject["kind"] == "group":
            assert subject["by"]
            assert subject["group"]
            assert set(subject["members"]) <= names
            assert len(subject["members"]) >= 1
        else:
            assert subject["node"] in names
        assert (subject["kind"] == "device") is ("device" in subject)


def test_a_node_has_one_episode_at_a_time() -> None:
    history, _ = happened("mixed", nodes=96, days=20)
    spans: dict[str, list[tuple[float, float]]] = {}
    for truth in history.truths:
        if "node" in truth.subject and truth.kind != "lemon":
            end_s = truth.end_s or truth.fails_s or truth.onset_s
            spans.setdefault(truth.subject["node"], []).append((truth.onset_s, end_s))
    assert len(spans) > 30
    overlaps = 0
    for of_node in spans.values():
        of_node.sort()
        overlaps += sum(a[1] > b[0] for a, b in pairwise(of_node))
    assert overlaps <= 1


def test_causes_are_as_published() -> None:
    assert sum(count for _, count, _ in LLAMA3_TABLE5) == 419
    assert all(sum(s.values()) == pytest.approx(1) for *_, s in LLAMA3_TABLE5)
    mix = failure_mix()
    assert sum(mix.values()) == pytest.approx(1)
    assert mix["hbm_uncorrectable"] == pytest.approx((72 * 0.7 + 19) / 419)
    assert set(mix) <= FAULTS


@pytest.mark.parametrize("rate", [6.5, 2.34])
def test_failures_come_at_the_published_rate(rate: float) -> None:
    failures, node_days = 0, 0.0
    by_kind: Counter[str] = Counter()
    for seed in range(40, 60):
        place = site(256, seed, third_vendor=True)
        book = Book(place, seed, 28 * 86_400)
        SCENARIOS["mixed"](book, rate)
        lemons = [p for p in book.plans if p.kind == "lemon"]
        sudden = [p for p in book.plans if p.kind in HARD]
        led = [p for p in book.plans if p.fails_after_s is not None]
        failures += len(sudden) + len(led)
        by_kind.update(p.kind for p in (*sudden, *led))
        node_days += 256 * 28
        expected = book.rate * node_days / 1000
        times = 1 + sum((p.size or 0) - 1 for p in lemons) / 256
        assert book.rate * times == pytest.approx(rate)
    assert abs(failures - expected) < 3 * np.sqrt(expected)
    for kind, share in failure_mix().items():
        assert abs(by_kind[kind] - share * expected) < 4 * np.sqrt(share * expected) + 1


def test_lemons_fail_jobs_at_their_multiple() -> None:
    lost, expected = 0, 0.0
    for seed in (3, 4, 5):
        history, cluster = happened("lemons", seed, 64, 28)
        nodes = {history.site.names.index(t.subject["node"]): t.effect for t in history.truths
                 if t.kind == "lemon"}  # fmt: skip
        base = 6.5 * 64 / (64 + sum(nodes.values()) - len(nodes))
        for run in cluster.runs:
            end_s = run.end_s or history.span_s
            for node in set(run.nodes) & set(nodes):
                expected += nodes[node] * base / 1000 * (end_s - run.start_s) / 86_400
        lost += sum(n in nodes and word == "down" for _, n, word, _ in history.states)
    expected /= 2  # the other half of the jobs fail with the node standing
    assert expected > 5
    assert abs(lost - expected) < 4 * np.sqrt(expected)


def test_jobs_are_as_published() -> None:
    history, cluster = happened("null", nodes=96, days=14)
    states = Counter(run.state.split()[0] for run in cluster.runs)
    total = sum(states.values())
    assert 0.5 < states["COMPLETED"] / total < 0.7
    assert 0.15 < states["FAILED"] / total < 0.32
    used = large = 0.0
    for run in cluster.runs:
        hours = ((run.end_s or history.span_s) - run.start_s) / 3600
        gpus = sum(mask.bit_count() for mask in run.masks)
        used += hours * gpus
        large += hours * gpus * (len(run.nodes) > 1)
    assert 0.7 < used / (96 * 8 * 14 * 24) < 0.95
    assert large / used > 0.6
    small = sum(len(run.nodes) == 1 for run in cluster.runs)
    assert small / total > 0.7


def test_no_gpu_has_two_jobs() -> None:
    _, cluster = happened("mixed")
    spans: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for run in cluster.runs:
        for node, mask in zip(run.nodes, run.masks, strict=True):
            for gpu in range(8):
                if mask >> gpu & 1:
                    end_s = run.end_s if run.end_s is not None else float("inf")
                    spans.setdefault((node, gpu), []).append((run.start_s, end_s))
    for of_gpu in spans.values():
        of_gpu.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(of_gpu))


def test_more_of_one_class_leaves_the_others_where_they_were() -> None:
    def planned(*kinds: str) -> list[tuple[float, int]]:
        book = Book(site(64, 8, third_vendor=True), 8, 10 * 86_400)
        for kind in kinds:
            at_least(book, (kind,), 6, 0.1, 0.9)
        return [(p.at_s, p.node) for p in book.plans if p.kind == "nvlink_fail"]

    alone, among = planned("nvlink_fail"), planned("gsp_timeout", "node_crash", "nvlink_fail")
    assert [at_s for at_s, _ in alone] == [at_s for at_s, _ in among]
    assert sum(a == b for a, b in zip(alone, among, strict=True)) >= 5
