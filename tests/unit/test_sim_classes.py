"""Each class of episode shows its own symptoms and nothing else.

Every concern draws from its own stream, so a day with an episode and the same day without it
differ by the episode alone.
"""

from functools import cache

import numpy as np
import pytest
from tests.unit.sim_play import HOUR_S, NODE, NODES, PEER, Played, changed, play

from bigiron.sim.scene import Plan
from bigiron.sim.tape import BLANK

AT_S = 6 * HOUR_S
GPU = 3
TEMPS = {"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_MEMORY_TEMP"}
WORK = {*TEMPS, "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_PROF_SM_ACTIVE", "node_hwmon_in_volts"}
CLOCK, REASONS = "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"
UTIL, LOAD1 = "DCGM_FI_DEV_GPU_UTIL", "node_load1"
SBE, DBE = "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"
CRC = "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"
NVLINK_REPLAY = "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"
REPLAY, WIDTH = "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "DCGM_FI_DEV_PCIE_LINK_WIDTH"
UNCORRECTABLE_ROWS = "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"
CORRECTABLE_ROWS = "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS"
XID = "DCGM_FI_DEV_XID_ERRORS"
SYMBOL = "node_infiniband_symbol_error_total"
RECOVERY = "node_infiniband_link_error_recovery_total"
DOWNED = "node_infiniband_link_downed_total"
VOLTS, INLET = "node_hwmon_in_volts", "node_hwmon_temp_celsius"
BOTH, HERE = [PEER, NODE], [NODE]


@cache
def quiet() -> Played:
    """The day on which nothing happens but the users' jobs."""
    return play()


def on(kind: str, **given: float | str) -> Played:
    """The day with one episode of the class, on GPU (or NIC) 3 of the node or the whole node."""
    whole = ("fan_failure", "power_brake", "straggler", "driver_hang", "exporter_death")
    device = -1 if kind in whole else GPU
    return play(Plan(kind, AT_S, 1, NODE, device, **given))  # type: ignore[arg-type]


def symptoms(played: Played, until_h: float = 9) -> dict[str, list[int]]:
    """Metric: nodes that differ from the quiet day, from the onset on."""
    assert changed(played, quiet(), (0, 6)) == {}
    return {
        name: list(nodes) for name, (nodes, _) in changed(played, quiet(), (6, until_h)).items()
    }


def only(played: Played, metric: str, device: int = GPU) -> bool:
    """Whether the metric differs on that device of the node alone."""
    differs = (played.values[metric] != quiet().values[metric]).any(axis=0)
    return [tuple(at) for at in np.argwhere(differs)] == [(NODE, device)]


def rise(played: Played, metric: str) -> float:
    """How much more the metric is at the day's end than on the quiet day."""
    at = (-1, NODE, GPU)
    return float(played.values[metric][at] - quiet().values[metric][at])


def test_the_node_is_at_work_when_things_happen() -> None:
    power = quiet().values["DCGM_FI_DEV_POWER_USAGE"][72:]
    assert np.median(power[:, BOTH], axis=0).min() > 300


def test_a_thermal_degradation_warms_its_gpu_and_nothing_else() -> None:
    played = on("thermal_degradation", size=0.1)
    assert symptoms(played, 24) == dict.fromkeys(sorted(TEMPS), HERE)
    assert only(played, "DCGM_FI_DEV_GPU_TEMP")
    warmer = played.values["DCGM_FI_DEV_GPU_TEMP"] - quiet().values["DCGM_FI_DEV_GPU_TEMP"]
    power = quiet().values["DCGM_FI_DEV_POWER_USAGE"][-12:, NODE, GPU].mean()
    share = (24 * HOUR_S - AT_S) / (48 * HOUR_S)
    assert share * 0.05 * 0.056 * power < warmer[-12:, NODE, GPU].mean() < 0.11 * 0.06 * power


def test_a_failed_fan_warms_all_gpus_of_its_node() -> None:
    played = on("fan_failure", size=0.15)
    assert symptoms(played) == dict.fromkeys(sorted(TEMPS), HERE)
    warmer = played.values["DCGM_FI_DEV_GPU_TEMP"] - quiet().values["DCGM_FI_DEV_GPU_TEMP"]
    assert warmer[80:, NODE].mean(axis=0).min() > 2


def test_a_weak_supply_sags_and_a_weaker_one_brakes() -> None:
    assert symptoms(on("power_brake", sigma=3), 24) == {VOLTS: HERE}
    played = on("power_brake", size=0.08)
    assert set(symptoms(played, 24)) >= {VOLTS, CLOCK, REASONS}
    reasons = played.values[REASONS].astype(int)
    assert (reasons[:, NODE] & 0x80).any()
    assert not (np.delete(reasons, NODE, axis=1) & 0x80).any()
    sag = quiet().values[VOLTS] - played.values[VOLTS]
    assert 0.05 < sag[-12:, NODE, 0].mean() < 0.5


def test_a_slow_gpu_shows_its_clock_and_its_peers_wait() -> None:
    played = on("slow_clock", size=0.05)
    assert symptoms(played) == {**dict.fromkeys(sorted(WORK), BOTH), CLOCK: HERE}
    assert only(played, CLOCK)
    assert np.median(played.values[CLOCK][80:, NODE, GPU]) == pytest.approx(1980 * 0.942, abs=16)
    power = played.values["DCGM_FI_DEV_POWER_USAGE"] / quiet().values["DCGM_FI_DEV_POWER_USAGE"]
    assert power[80:, PEER].mean() < 0.99


def test_a_straggling_host_idles_its_gpus_while_the_others_spin() -> None:
    played = on("straggler", size=0.1, mode="memory")
    assert symptoms(played) == {**dict.fromkeys(sorted(WORK), BOTH), UTIL: HERE}
    assert LOAD1 in symptoms(on("straggler", size=0.1, mode="cpu"))
    used = played.values[UTIL][80:] - quiet().values[UTIL][80:]
    assert used[:, NODE].mean() == pytest.approx(-10, abs=1.5)
    power = played.values["DCGM_FI_DEV_POWER_USAGE"] - quiet().values["DCGM_FI_DEV_POWER_USAGE"]
    assert power[80:, NODE].mean() < power[80:, PEER].mean() < -5


@pytest.mark.parametrize(
    ("mode", "metric"), [("width", WIDTH), ("gen", "DCGM_FI_DEV_PCIE_LINK_GEN")]
)
def test_a_link_trained_down_shows_itself_and_slows_the_job(mode: str, metric: str) -> None:
    played = on("pcie_downtrain", mode=mode)
    found = symptoms(played)
    assert found[metric] == HERE
    assert set(found) == {*WORK, UTIL, metric}
    assert only(played, metric)


@pytest.mark.parametrize(
    ("kind", "metric", "also"),
    [
        ("pcie_replay", REPLAY, None),
        ("hbm_correctable", SBE, CORRECTABLE_ROWS),
        ("nvlink_errors", CRC, NVLINK_REPLAY),
        ("ib_errors", SYMBOL, RECOVERY),
    ],
)
def test_errors_grow_on_one_counter(kind: str, metric: str, also: str | None) -> None:
    played = on(kind, size=6)
    assert set(symptoms(played, 24)) <= {metric, also}
    assert only(played, metric)
    assert rise(played, metric) == pytest.approx(6 * 15, rel=0.4)


def test_rows_are_remapped_one_by_one_and_said_so() -> None:
    played = on("hbm_remap", size=5, lasts_s=12 * HOUR_S)
    assert set(symptoms(played, 17)) == {UNCORRECTABLE_ROWS, XID}
    rows = played.values[UNCORRECTABLE_ROWS][:204, NODE, GPU]
    assert rows.max() - rows[0] == 5
    said = [m for _, n, m in played.history.lines if n == NODE and ": 63," in m]
    assert len(said) == 5


@pytest.mark.parametrize(
    ("kind", "code", "metrics"),
    [
        ("hbm_uncorrectable", 48, {DBE, XID}),
        ("nvlink_fail", 74, {CRC, XID}),
        ("gsp_timeout", 119, {XID}),
    ],
)
def test_a_hard_fault_is_told_at_once_and_ends_the_job(
    kind: str, code: int, metrics: set[str]
) -> None:
    played = on(kind)
    found = changed(played, quiet(), (6, 6 + 5 / 60))
    assert {m for m in found if m not in {*WORK, UTIL, CLOCK, REASONS, LOAD1}} >= metrics
    lines = [(t, m) for t, n, m in played.history.lines if n == NODE and f": {code}," in m]
    assert lines[0][0] == AT_S
    lost = [r for r in played.cluster.runs if NODE in r.nodes and r.state == "FAILED"]
    assert any(AT_S < (r.end_s or 0) < AT_S + 600 for r in lost)
    assert any(n == NODE and word == "drain" for _, n, word, _ in played.history.states)


@pytest.mark.parametrize(("mode", "told"), [("xid", True), ("silent", False)])
def test_a_gpu_off_the_bus_has_no_samples(mode: str, told: bool) -> None:
    played = on("gpu_off_bus", mode=mode)
    gone = quiet().seen["dcgm"][72:100] & ~played.seen["dcgm"][72:100]
    assert {tuple(at) for at in np.argwhere(gone.any(axis=0))} == {(NODE, GPU)}
    assert any(": 79," in m for _, n, m in played.history.lines if n == NODE) is told
    counts = [
        f["gpu_count"] for _, n, _, f in played.history.facts if n == NODE and "gpu_count" in f
    ]
    assert counts == [8, 7, 8]


def test_a_crashed_node_is_silent_and_down_until_it_has_booted() -> None:
    played = play(Plan("node_crash", AT_S, 1, NODE))
    truth = played.history.truths[0]
    assert truth.end_s is not None
    end = int(truth.end_s / 300)
    assert not played.seen["node"][72 : end - 6, NODE].any()
    assert played.seen["node"][end + 1 :, NODE].mean() > 0.95
    words = [word for _, n, word, _ in played.history.states if n == NODE]
    assert words.index("down") < words.index("resume")
    assert any(r.state == "NODE_FAIL" and NODE in r.nodes for r in played.cluster.runs)
    boots = np.unique(played.values["node_boot_time_seconds"][:, NODE])
    assert len(boots) == 2


def test_a_hung_driver_freezes_or_silences_its_gpus_while_the_node_lives() -> None:
    frozen = on("driver_hang", mode="freeze")
    readings = frozen.values["DCGM_FI_DEV_POWER_USAGE"][74:100, NODE]
    readings = np.where(readings == BLANK, readings[0], readings)
    assert (readings == readings[0]).all()
    assert frozen.seen["node"][72:, NODE].mean() > 0.95
    gone = on("driver_hang", mode="gone")
    assert not gone.seen["dcgm"][73:100, NODE].any()
    climb = gone.values[LOAD1][90, NODE, 0] - quiet().values[LOAD1][73, NODE, 0]
    assert climb > 5


def test_a_port_down_stays_down_and_a_flapping_one_comes_back() -> None:
    down = on("ib_link_down", mode="down")
    words = [
        m.rpartition(": ")[2] for _, n, m in down.history.lines if "mlx5_core" in m and "ib3" in m
    ]
    assert words[0] == "Link down"
    assert "Link up" not in words
    flapping = on("ib_link_down", mode="flapping")
    assert flapping.values[DOWNED][:, NODE, GPU].max() >= 3
    assert down.values[DOWNED][:90, NODE, GPU].max() == 1


@pytest.mark.parametrize(
    ("fact", "value"), [("driver_version", "570.86.15"), ("kernel", "5.15.0-112-generic")]
)
def test_a_drifted_node_differs_in_one_fact(fact: str, value: str) -> None:
    played = play(Plan("config_drift", AT_S, 1, NODE, mode=fact))
    truth = played.history.truths[0]
    told = [(t, f) for t, n, _, f in played.history.facts if n == NODE and t > 0]
    assert [f for _, f in told if "boot_id" not in f] == [{fact: value}]
    assert truth.onset_s == told[-1][0]
    assert truth.extra["attribute"] == fact


def test_a_lower_power_limit_is_a_fact_and_caps_the_clock() -> None:
    played = play(Plan("config_drift", AT_S, 1, NODE, GPU, mode="power_limit_w"))
    after = int(played.history.truths[0].onset_s / 300) + 1
    power = played.values["DCGM_FI_DEV_POWER_USAGE"][after:, NODE, GPU]
    assert power[power < BLANK].max() <= 700 * 0.85 * 1.02


def test_a_lemon_loses_jobs_and_shows_nothing() -> None:
    plan = Plan("lemon", 0.0, 1, NODE, size=1500.0)
    lost = [r for r in play(plan).cluster.runs if NODE in r.nodes]
    lost = [r for r in lost if r.restarts or r.state == "NODE_FAIL"]
    assert len(lost) >= 2
    assert not [line for line in play(plan).history.lines if line not in quiet().history.lines]


@pytest.mark.parametrize("kind", ["exporter_death", "exporter_restart"])
def test_an_exporter_away_takes_samples_and_nothing_else(kind: str) -> None:
    played = play(Plan(kind, AT_S, 1, NODE))
    assert set(symptoms(played)) == {"seen.dcgm"}
    assert symptoms(played)["seen.dcgm"] == HERE


def test_an_outage_of_the_monitoring_takes_everyones_samples() -> None:
    played = play(Plan("scrape_outage", AT_S, 1, by="site", group="s1"))
    assert set(symptoms(played)) == {"seen.dcgm", "seen.nic", "seen.node"}
    assert symptoms(played)["seen.node"] == list(range(NODES))


@pytest.mark.parametrize(("what", "value"), [("blank", BLANK), ("zero", 0.0), ("spike", 200.0)])
def test_a_glitching_sensor_reads_absurdly_now_and_then(what: str, value: float) -> None:
    played = on("sensor_glitch", mode=what)
    assert set(symptoms(played, 24)) <= {*TEMPS, "DCGM_FI_DEV_POWER_USAGE"}
    differs = played.values["DCGM_FI_DEV_GPU_TEMP"] != quiet().values["DCGM_FI_DEV_GPU_TEMP"]
    assert set(played.values["DCGM_FI_DEV_GPU_TEMP"][differs]) == {value}
    assert only(played, "DCGM_FI_DEV_GPU_TEMP")


def test_a_burst_is_one_step_and_a_flap_is_one_flap() -> None:
    burst = on("counter_burst", mode="pcie_replay")
    assert set(symptoms(burst, 24)) == {REPLAY}
    more = burst.values[REPLAY][:, NODE, GPU] - quiet().values[REPLAY][:, NODE, GPU]
    assert set(more[72:]) == {more[-1]}
    flap = on("single_flap")
    assert set(symptoms(flap, 24)) == {DOWNED}
    assert rise(flap, DOWNED) == 1


def test_warm_air_warms_its_members_alone() -> None:
    played = play(Plan("cooling_excursion", AT_S, 1, by="cooling", group="loop01"))
    assert set(symptoms(played)) == {*TEMPS, INLET}
    warmer = played.values[INLET][80:100] - quiet().values[INLET][80:100]
    assert 3.5 < warmer.mean() < 10
    wave = play(Plan("heat_wave", AT_S, 1, by="site", group="s1"))
    assert set(symptoms(wave, 10)) == {*TEMPS, INLET}


def test_a_bad_leaf_shows_on_the_ports_of_all_its_nodes() -> None:
    played = play(Plan("leaf_bad", AT_S, 1, by="leaf", group="leaf01"))
    found = symptoms(played, 8)
    assert set(found) == {*WORK, SYMBOL, RECOVERY, DOWNED}
    assert found[SYMBOL] == list(range(NODES))


def test_a_power_dip_is_everyones_at_the_same_second() -> None:
    played = play(Plan("pdu_blip", AT_S, 1, by="pdu", group="pdu01"))
    truth = played.history.truths[0]
    assert truth.end_s is not None
    low = quiet().values[VOLTS] - played.values[VOLTS] > 0.1
    steps = np.flatnonzero(low.all(axis=(1, 2)))
    assert list(steps) == list(range(72, int(truth.end_s / 300) + 1))


def test_an_uneven_job_is_lighter_on_half_of_its_nodes() -> None:
    played = play(Plan("uneven_job", AT_S, 1, by="site", group="s1"))
    truth = played.history.truths[0]
    names = played.history.site.names
    half = [names.index(n) for n in truth.subject["members"]]
    span = slice(int(truth.onset_s / 300) + 2, int((truth.end_s or 0) / 300) - 1)
    active = np.median(played.values["DCGM_FI_PROF_SM_ACTIVE"][span, half], axis=(0, 2))
    assert active.max() / active.min() > 1.05


def test_a_hot_job_meets_the_power_cap_everywhere() -> None:
    played = play(Plan("hot_workload", AT_S, 1, by="site", group="s1"))
    truth = played.history.truths[0]
    nodes = [played.history.site.names.index(n) for n in truth.subject["members"]]
    span = slice(int(truth.onset_s / 300) + 2, int((truth.end_s or 0) / 300) - 1)
    capped = played.values[REASONS][span, nodes].astype(int) & 0x4 > 0
    assert capped.mean() > 0.9
    assert np.median(played.values[CLOCK][span, nodes]) < 1900


def test_indexes_move_over_a_reboot_and_the_facts_tell() -> None:
    played = play(Plan("reenumeration", AT_S, 1, NODE))
    told = {d: f for t, n, d, f in played.history.facts if n == NODE and t > 0 and d}
    assert len(told) == 2
    before = {d: f for t, n, d, f in played.history.facts if n == NODE and t == 0 and d in told}
    assert {f["uuid"] for f in told.values()} == {f["uuid"] for f in before.values()}
    (a, moved), (b, _) = sorted(told.items())
    assert moved["uuid"] == before[b]["uuid"]
    assert moved["uuid"] != before[a]["uuid"]


def test_a_planned_wave_is_announced_and_reboots_everyone_within() -> None:
    played = play(Plan("reboot_wave", AT_S, 1, by="rack", group="r01"))
    (begin_s, end_s, members, kind), *_ = played.history.maintenance
    assert (kind, members) == ("reboot", tuple(range(NODES)))
    for node in members:
        boots = np.unique(played.values["node_boot_time_seconds"][:, node]) - 1_767_571_200
        assert begin_s < boots.max() < end_s + HOUR_S


def test_a_file_server_away_stalls_the_jobs_and_is_said_by_many() -> None:
    played = play(Plan("storage_outage", AT_S, 1, by="partition", group="train"))
    said = {n for _, n, m in played.history.lines if "not responding, still trying" in m}
    assert len(said) >= 3
    active = played.values["DCGM_FI_PROF_SM_ACTIVE"][73:75, BOTH]
    assert active.mean() < 0.1


@pytest.mark.parametrize(
    ("what", "fact"),
    [("driver", "driver_version"), ("bios", "bios_version"), ("nic", "fw_version")],
)
def test_a_rollout_changes_its_fact_on_every_node_ring_by_ring(what: str, fact: str) -> None:
    plan = Plan("firmware_rollout", 2 * HOUR_S, 1, by="site", group="s1", mode=what)
    history = play(plan).history
    changed_on = {n for t, n, _, facts in history.facts if t > 0 and fact in facts}
    assert len(changed_on) >= NODES - 1
    waves = [t for t in history.truths if t.kind == "firmware_rollout"]
    assert {t.subject["by"] for t in waves} == {"ring"}
    assert {t.extra["what"] for t in waves} == {what}
    announced = {n for _, _, members, kind in history.maintenance for n in members}
    assert changed_on <= announced


def test_a_new_start_of_the_driver_clears_the_gpus_counters_alone() -> None:
    played = on("hbm_uncorrectable")
    counted = [played.values[m][:, NODE, 0] for m in ("DCGM_FI_DEV_POWER_VIOLATION", SYMBOL)]
    boots = np.unique(played.values["node_boot_time_seconds"][:, NODE])
    fell = [bool((np.diff(of) < 0).any()) for of in counted]
    assert fell == ([True, False] if len(boots) == 1 else [True, True])
