"""How things break for good: what the kernel says, what the counters show, which jobs end.

Each function breaks one thing at one time and returns the reason an operator would give. What
stays broken is an effect that the repair ends.
"""

import numpy as np

from bigiron.sim import kernel
from bigiron.sim.scene import Plan, Scene

LASTING = ("off.gpu", "off.nic", "frozen", "off.dcgm", "off.node", "load1")
"""Effects that a breakdown leaves until the repair."""


def off_bus(scene: Scene, plan: Plan, at_s: float, *, silent: bool = False) -> str:
    """The GPU is gone: its samples end. XID 79 unless ``silent``: of PCIe failures a third to a
    half come without one (arXiv 2410.21680)."""
    history, node, socket = scene.history, plan.node, plan.device
    if not silent:
        history.tell(node, at_s, kernel.fallen_off(history.site, node, socket))
    history.effect("off.gpu", node, 1.0, at_s, device=socket)
    history.at(at_s + 300, lambda t: history.fact(node, t, gpu_count=7))
    scene.lose_jobs(node, at_s + 5, "NODE_FAIL", "0:0", socket)
    return "NHC: GPU fell off the bus" if not silent else "NHC: 7 of 8 GPUs"


def recount(scene: Scene, plan: Plan, at_s: float) -> None:
    """After the repair all GPUs are counted again."""
    scene.history.fact(plan.node, at_s + 60, gpu_count=8)


def memory_error(scene: Scene, plan: Plan, at_s: float, rng: np.random.Generator) -> str:
    """An uncorrectable error: XID 48, 63, 94 or 95; the program ends."""
    history, node, socket = scene.history, plan.node, plan.device
    sram, contained = bool(rng.uniform() < 0.2), bool(rng.uniform() < 0.75)
    lines = kernel.uncorrectable(history.site, node, socket, rng, sram=sram, contained=contained)
    history.tell(node, at_s, lines)
    history.stroke("add.ecc_dbe", node, at_s, 1, socket)
    if not sram:
        history.stroke("add.remap_unc", node, at_s, 1, socket)
    history.stroke("xid", node, at_s, 94 if contained else 95, socket)
    scene.lose_jobs(node, at_s + 3, "FAILED", "1:0", socket)
    return "NHC: uncorrectable ECC" + ("" if sram else ", row remap pending")


def remap_failure(scene: Scene, plan: Plan, at_s: float) -> str:
    """No spare row is left: XID 64 and the flag."""
    history = scene.history
    history.say(plan.node, at_s, kernel.remap_failed(history.site, plan.node, plan.device))
    history.stroke("set.remap_failure", plan.node, at_s, 1, plan.device)
    history.stroke("xid", plan.node, at_s, 64, plan.device)
    scene.lose_jobs(plan.node, at_s + 3, "FAILED", "1:0", plan.device)
    return "row remap failure"


def nvlink(scene: Scene, plan: Plan, at_s: float, rng: np.random.Generator) -> str:
    """A link dies: XID 74; the job that used it ends."""
    history = scene.history
    link = int(rng.integers(18))
    history.tell(plan.node, at_s, kernel.nvlink_fatal(history.site, plan.node, plan.device, link))
    history.stroke("add.nvlink_crc", plan.node, at_s, int(rng.integers(5, 60)), plan.device)
    history.stroke("xid", plan.node, at_s, 74, plan.device)
    scene.lose_jobs(plan.node, at_s + 3, "FAILED", "1:0", plan.device)
    return "NVLink error XID 74"


def port_down(scene: Scene, plan: Plan, at_s: float) -> str:
    """A port goes down and stays so; collectives over it time out."""
    history = scene.history
    history.say(plan.node, at_s, kernel.link(history.site, plan.node, plan.device, "Link down"))
    history.stroke("add.ib_downed", plan.node, at_s, 1, plan.device)
    scene.lose_jobs(plan.node, at_s + 20, "FAILED", "1:0")
    return "NHC: IB port down"


def gsp(scene: Scene, plan: Plan, at_s: float, rng: np.random.Generator) -> str:
    """The GPU's system processor stops answering: XID 119; readings stand still."""
    history = scene.history
    history.tell(plan.node, at_s, kernel.gsp_timeout(history.site, plan.node, plan.device, rng))
    history.stroke("xid", plan.node, at_s, 119, plan.device)
    history.effect("frozen", plan.node, 1.0, at_s + scene.step_s, device=plan.device)
    scene.lose_jobs(plan.node, at_s + 60, "FAILED", "1:0", plan.device)
    return "GSP timeout XID 119"


def crash(scene: Scene, plan: Plan, at_s: float, rng: np.random.Generator) -> str:
    """The node is gone, with or without a last word."""
    if rng.uniform() < 0.5:
        last = ("Kernel panic - not syncing: Fatal machine check", "mce: [Hardware Error]: CPU 12")
        scene.history.say(plan.node, at_s - 1, *reversed(last))
    scene.history.effect("off.node", plan.node, 1.0, at_s)
    return "Not responding"
