"""Benign: what goes wrong with the watching, not with the watched, and single harmless strokes."""

import numpy as np

from bigiron.sim import kernel
from bigiron.sim.scene import HOUR_S, Plan, Scene

BURSTS = {
    "pcie_replay": (200, 4000),
    "ecc_sbe": (50, 900),
    "nvlink_crc": (10, 60),
    "ib_symbol": (50, 600),
}


def exporter_restart(scene: Scene, plan: Plan, at_s: float) -> None:
    """Node. Its GPU exporter is away for a few scrapes; last values start from nothing."""
    lasts_s = max(2.0 * scene.step_s, float(scene.rng(plan).uniform(300, 1800)))
    _away(scene, plan, at_s, lasts_s)
    scene.history.stroke("xid", plan.node, at_s + lasts_s, 0)


def exporter_death(scene: Scene, plan: Plan, at_s: float) -> None:
    """Node. Its GPU exporter is dead for hours; jobs go on."""
    _away(scene, plan, at_s, float(scene.rng(plan).uniform(1, 9)) * HOUR_S)


def _away(scene: Scene, plan: Plan, at_s: float, lasts_s: float) -> None:
    truth = scene.open(plan, at_s, label="benign")
    truth.end_s = at_s + lasts_s
    scene.history.effect("off.dcgm", plan.node, 1.0, at_s, at_s + lasts_s)


def scrape_outage(scene: Scene, plan: Plan, at_s: float) -> None:
    """Group. The monitoring itself is away: nothing of anyone is scraped."""
    members = tuple(scene.history.site.groups(plan.by)[plan.group])
    lasts_s = max(2.0 * scene.step_s, float(scene.rng(plan).uniform(600, 3600)))
    truth = scene.open(plan, at_s, label="benign", members=members)
    truth.end_s = at_s + lasts_s
    for key in ("off.dcgm", "off.node", "off.nic"):
        scene.history.effect(key, members, 1.0, at_s, at_s + lasts_s)


def sensor_glitch(scene: Scene, plan: Plan, at_s: float) -> None:
    """Device. Some readings are blank, zero or absurd (``what``); the GPU is well."""
    rng = scene.rng(plan)
    what = plan.mode or ("blank", "zero", "spike")[int(rng.integers(3))]
    lasts_s = float(rng.uniform(1, 12)) * HOUR_S
    truth = scene.open(plan, at_s, label="benign", what=what)
    truth.end_s = at_s + lasts_s
    share = float(rng.uniform(0.05, 0.3))
    scene.history.effect(
        f"glitch.{what}", plan.node, share, at_s, at_s + lasts_s, device=plan.device
    )


def counter_burst(scene: Scene, plan: Plan, at_s: float) -> None:
    """Device. One burst of errors on one counter (``what``), over at once."""
    rng = scene.rng(plan)
    names = tuple(BURSTS)
    what = plan.mode or names[int(rng.integers(len(names)))]
    low, high = BURSTS[what]
    size = float(np.floor(np.exp(rng.uniform(np.log(low), np.log(high)))))
    truth = scene.open(plan, at_s, label="benign", effect=size, what=what)
    if what == "ib_symbol":
        truth.subject["device"] = f"nic{plan.device}"
    truth.end_s = at_s + scene.step_s
    scene.history.stroke(f"add.{what}", plan.node, at_s, size, plan.device)


def single_flap(scene: Scene, plan: Plan, at_s: float) -> None:
    """Device (a NIC). Its link goes down once and is up again within seconds."""
    history, rng = scene.history, scene.rng(plan)
    truth = scene.open(plan, at_s, label="benign")
    truth.end_s = up_s = at_s + float(rng.uniform(2, 12))
    history.say(plan.node, at_s, kernel.link(history.site, plan.node, plan.device, "Link down"))
    history.say(plan.node, up_s, kernel.link(history.site, plan.node, plan.device, "Link up"))
    history.stroke("add.ib_downed", plan.node, at_s, 1, plan.device)


WATCH = {
    f.__name__: f
    for f in (
        *(exporter_restart, exporter_death, scrape_outage, sensor_glitch, counter_burst),
        single_flap,
    )
}
