"""What is to happen in a recording: named scenarios, as lists of plans.

Every class draws its times and nodes from a stream of its own. A node has one episode at a time.
"""

from collections.abc import Callable

import numpy as np

from bigiron.sim import faults_hard, faults_lasting
from bigiron.sim.benign_watch import WATCH
from bigiron.sim.benign_work import WORK
from bigiron.sim.book import Book
from bigiron.sim.causes import failure_mix
from bigiron.sim.faults_slow import SLOW
from bigiron.sim.scene import HOUR_S, Plan, Scene
from bigiron.sim.shared import BY, SHARED
from bigiron.sim.site import THIRD_VENDOR
from bigiron.sim.workload import BROKEN_USER

DAY_S = 86_400.0
HARD = {
    f.__name__: f
    for f in (
        *(faults_hard.gpu_off_bus, faults_hard.hbm_uncorrectable, faults_hard.nvlink_fail),
        *(faults_hard.gsp_timeout, faults_hard.node_crash, faults_hard.driver_hang),
        *(faults_hard.ib_link_down, faults_hard.unattributed_failure),
    )
}
LASTING = {
    f.__name__: f
    for f in (faults_lasting.config_drift, faults_lasting.pcie_downtrain, faults_lasting.lemon)
}
ACT: dict[str, Callable[[Scene, Plan, float], None]] = {
    **SLOW,
    **HARD,
    **LASTING,
    **SHARED,
    **WATCH,
    **WORK,
}
"""What each class does at its onset."""
LEVELS: dict[str, tuple[tuple[str, float], ...]] = {
    "thermal_degradation": (("sigma", 2), ("sigma", 3), ("size", 0.12)),
    "fan_failure": (("sigma", 2), ("sigma", 3), ("size", 0.15)),
    "power_brake": (("sigma", 2), ("sigma", 3), ("size", 0.05)),
    "slow_clock": (("size", 0.03), ("size", 0.05), ("size", 0.1)),
    "straggler": (("size", 0.03), ("size", 0.05), ("size", 0.1)),
    "pcie_replay": (("sigma", 2), ("sigma", 3), ("size", 2.0)),
    "hbm_correctable": (("sigma", 2), ("sigma", 3), ("size", 2.0)),
    "hbm_remap": (("size", 4), ("size", 6), ("size", 12)),
    "nvlink_errors": (("sigma", 2), ("sigma", 3), ("size", 0.5)),
    "ib_errors": (("sigma", 2), ("sigma", 3), ("size", 5.0)),
}
"""Effects of the scenario gradual: standard deviations, or sizes (a share of speed lost, of
resistance; errors an hour; rows)."""
BENIGN_PER_1000_NODE_DAYS = {
    "exporter_restart": 8.0,
    "exporter_death": 2.5,
    "sensor_glitch": 2.5,
    "counter_burst": 5.0,
    "single_flap": 5.0,
    "operator_drain": 4.0,
    "reenumeration": 1.0,
}
BENIGN_EVERY_DAYS = {
    "scrape_outage": 8.0,
    "storage_outage": 9.0,
    "uneven_job": 5.0,
    "hot_workload": 6.0,
    "reboot_wave": 13.0,
    "firmware_rollout": 28.0,
    "heat_wave": 20.0,
    "cooling_excursion": 10.0,
}
BENIGN_BY = {
    "reboot_wave": ("rack", "cooling", "leaf"),
    "cooling_excursion": ("cooling",),
    "storage_outage": ("partition", "site"),
}
"""The kinds of group each happens to; the rest to the whole site."""
SILENT_PER_1000_NODE_DAYS = 0.27
"""Gradual degradations that begin and do not fail in time to be seen: at the upper end of what
is published, one node in ten a year."""
LEMON_SHARE = 0.012
"""Meta found 40 lemons; on their larger cluster 1.2 % of the nodes (arXiv 2410.21680)."""
LEMON_TIMES = (10.0, 20.0, 40.0)


def everything_benign(book: Book, much: float = 1.0) -> None:
    """Every benign class, at least once each; ``much`` scales how often."""
    span_s, days = book.span_s, book.span_s / DAY_S
    book.add_site("memory_vendor", 0.0, "hbm_vendor", THIRD_VENDOR)
    book.add_site("app_xid", 0.0, "user", BROKEN_USER)
    for kind, rate in BENIGN_PER_1000_NODE_DAYS.items():
        rng = book.rng(kind)
        count = max(1, int(rng.poisson(much * rate * len(book.site.nodes) * days / 1000)))
        for at_s in np.sort(rng.uniform(0.03, 0.95, count)) * span_s:
            book.add(kind, rng, float(at_s), 14 * HOUR_S)
    for kind, every in BENIGN_EVERY_DAYS.items():
        rng = book.rng(kind)
        count = max(1, int(rng.poisson(much * days / every)))
        if kind == "firmware_rollout":
            count = 1
        last = {"firmware_rollout": 0.5, "heat_wave": 0.75}.get(kind, 0.9)
        for at_s in np.sort(rng.uniform(0.08, last, count)) * span_s:
            levels = BENIGN_BY.get(kind, ("site",))
            book.add_group(kind, rng, float(at_s), levels[int(rng.integers(len(levels)))])


def gradual_faults(book: Book) -> None:
    """Every gradual class at each of its levels, onsets in the second seventh to the middle."""
    cells = [(kind, *LEVELS[kind][k]) for k in range(3) for kind in LEVELS]
    room = max(len(LEVELS), int(0.45 * len(book.site.nodes)))
    rng = book.rng("gradual")
    for k in range(room):
        kind, what, value = cells[k % len(cells)]
        at_s = float(rng.uniform(0.18, 0.45)) * book.span_s
        given = {"sigma": value} if what == "sigma" else {"size": value}
        book.add(kind, book.rng(f"{kind} {k}"), at_s, book.span_s, **given)  # type: ignore[arg-type]


def failures(book: Book, rate: float) -> None:
    """Failures at ``rate`` per 1,000 node-days, causes in the published mix.

    Lemons planned before take their part of the rate. Those of gradual classes have their onset
    hours to days before.
    """
    count = len(book.site.nodes)
    more = sum((plan.size or 0) - 1 for plan in book.plans if plan.kind == "lemon")
    book.rate = rate = rate * count / (count + more)
    node_days = len(book.site.nodes) * book.span_s / DAY_S
    for kind, share in failure_mix().items():
        rng = book.rng(f"failures {kind}")
        count = rng.poisson(rate * share * node_days / 1000)
        for fails_s in np.sort(rng.uniform(0, book.span_s, count)):
            if kind not in SLOW:
                book.add(kind, rng, float(fails_s), 36 * HOUR_S)
                continue
            lead_s = float(rng.uniform(8, 120)) * HOUR_S
            at_s = max(0.0, float(fails_s) - lead_s)
            fails_after_s = float(fails_s) - at_s
            book.add(kind, rng, at_s, fails_after_s + 36 * HOUR_S, fails_after_s=fails_after_s)


def silent_degradations(book: Book) -> None:
    """Gradual classes that do not fail, found and repaired by someone after days, if at all."""
    node_days = len(book.site.nodes) * book.span_s / DAY_S
    rng = book.rng("silent")
    kinds = [*LEVELS, "pcie_downtrain", "config_drift"]
    count = rng.poisson(SILENT_PER_1000_NODE_DAYS * node_days / 1000)
    for at_s in np.sort(rng.uniform(0.1, 0.8, count)):
        kind = kinds[int(rng.integers(len(kinds)))]
        lasts_s = float(rng.uniform(3, 15)) * DAY_S
        book.add(kind, rng, float(at_s) * book.span_s, lasts_s, lasts_s=lasts_s)


def at_least(book: Book, kinds: tuple[str, ...], count: int, low: float, high: float) -> None:
    """So many episodes of each class, at random times between two shares of the recording."""
    for kind in kinds:
        rng = book.rng(f"{kind} at least")
        for at_s in np.sort(rng.uniform(low, high, count)) * book.span_s:
            if kind in BY:
                book.add_group(kind, rng, float(at_s), BY[kind])
            else:
                book.add(kind, rng, float(at_s), 40 * HOUR_S)


def lemons(book: Book, count: int) -> None:
    """Lemons from the start on, at 10, 20 and 40 times the base rate in turn."""
    rng = book.rng("lemon")
    for k in range(count):
        book.add("lemon", rng, 0.0, book.span_s, size=LEMON_TIMES[k % 3])


def null(book: Book, rate: float) -> None:
    """Every benign class and no fault."""
    del rate
    everything_benign(book)


def gradual(book: Book, rate: float) -> None:
    """Every gradual class at known sizes; none fails, none is repaired. Some benign."""
    del rate
    gradual_faults(book)
    everything_benign(book, 0.3)


def failstop(book: Book, rate: float) -> None:
    """Every class that breaks at once, several times. Some benign."""
    del rate
    kinds = tuple(k for k in HARD if k != "unattributed_failure")
    at_least(book, kinds, max(1, len(book.site.nodes) // 16), 0.05, 0.9)
    everything_benign(book, 0.3)


def config(book: Book, rate: float) -> None:
    """Drift of every fact on nodes and devices, and PCIe links that train down. Some benign."""
    del rate
    facts = (*faults_lasting.NODE_DRIFTS, *faults_lasting.DEVICE_DRIFTS)
    rng = book.rng("every drift")
    for k in range(max(len(facts), len(book.site.nodes) // 6)):
        fact = facts[k % len(facts)]
        at_s = float(rng.uniform(0.08, 0.9)) * book.span_s
        whole = fact in faults_lasting.NODE_DRIFTS
        book.add("config_drift", rng, at_s, 40 * HOUR_S, mode=fact, whole=whole)
    at_least(book, ("pcie_downtrain",), max(1, len(book.site.nodes) // 18), 0.08, 0.9)
    everything_benign(book, 0.3)


def shared(book: Book, rate: float) -> None:
    """Shared causes: cooling, leaf switches, power distribution. Some benign."""
    del rate
    count = max(1, min(12, int(book.span_s / DAY_S * 0.5)))
    at_least(book, tuple(SHARED), count, 0.06, 0.92)
    everything_benign(book, 0.3)


def with_lemons(book: Book, rate: float) -> None:
    """Nodes that fail jobs with no telemetry, among failures at the base rate."""
    lemons(book, max(3, round(0.03 * len(book.site.nodes))))
    failures(book, rate)
    everything_benign(book, 0.3)


def mixed(book: Book, rate: float) -> None:
    """A fleet's life: failures at the published rate and mix, silent degradations, lemons,
    drift, shared causes, everything benign."""
    lemons(book, round(LEMON_SHARE * len(book.site.nodes)))
    failures(book, rate)
    silent_degradations(book)
    count = max(1, int(book.span_s / DAY_S / 14))
    at_least(book, ("config_drift", "pcie_downtrain", *SHARED), count, 0.08, 0.9)
    everything_benign(book)


SCENARIOS: dict[str, Callable[[Book, float], None]] = {
    "null": null,
    "gradual": gradual,
    "failstop": failstop,
    "config": config,
    "shared": shared,
    "lemons": with_lemons,
    "mixed": mixed,
}
