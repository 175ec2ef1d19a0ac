"""Faults of a node's set-up and character: drift from the golden config, and lemons."""

from bigiron.sim.history import (
    BIOS,
    KERNEL,
    NIC_FIRMWARE,
    OLD_BIOS,
    OLD_DRIVER,
    OLD_KERNEL,
    History,
)
from bigiron.sim.history import OLD_NIC_FIRMWARE as OLD_NIC
from bigiron.sim.scene import Plan, Scene
from bigiron.sim.streams import stream

NODE_DRIFTS = ("driver_version", "kernel", "bios_version", "fabricmanager_version")
DEVICE_DRIFTS = ("power_limit_w", "ecc_mode", "vbios_version", "pcie_link_width", "fw_version")
LOWER_LIMIT = 0.15
"""How much lower a drifted power limit is, share."""


def config_drift(scene: Scene, plan: Plan, at_s: float) -> None:
    """Node or device. It comes back from a reinstall with something other than the rest has.

    ``mode`` names the fact; by default drawn. A power limit and a link width show in the
    telemetry too, the other facts show nowhere else.
    """
    history, rng = scene.history, scene.rng(plan)
    pool = NODE_DRIFTS if plan.device < 0 else DEVICE_DRIFTS
    fact = plan.mode or pool[int(rng.integers(len(pool)))]

    def begun(time_s: float) -> None:
        if fact == "driver_version":
            history.drivers[plan.node] = OLD_DRIVER
        up_s = history.restart(plan.node, time_s + 60, float(rng.uniform(12, 30)))
        history.at(up_s + 60, drifted)
        history.at(up_s + 240, lambda t: scene.cluster.open(plan.node, t))

    def drifted(time_s: float) -> None:
        _drift(scene, plan, time_s, fact)

    scene.cluster.close(plan.node, at_s, "drain", "reimage")
    scene.cluster.empty(plan.node, at_s, begun)


def _drift(scene: Scene, plan: Plan, at_s: float, fact: str) -> None:
    history, node = scene.history, plan.node
    sku = history.site.skus[node]
    old = {
        "driver_version": OLD_DRIVER,
        "kernel": OLD_KERNEL,
        "bios_version": OLD_BIOS,
        "fabricmanager_version": OLD_DRIVER,
        "power_limit_w": int(sku.limit_w * (1 - LOWER_LIMIT)),
        "ecc_mode": "Disabled",
        "vbios_version": f"{sku.vbios.partition('.00.')[0]}.00.68.00.01",
        "pcie_link_width": 8,
        "fw_version": OLD_NIC[sku.nic],
    }
    device = ""
    if plan.device >= 0:
        index = history.site.index_of(node, plan.device)
        device = f"nic{plan.device}" if fact == "fw_version" else f"gpu{index}"
    truth = scene.open(plan, at_s, attribute=fact, value=old[fact])
    if device:
        truth.subject["device"] = device
    if fact == "power_limit_w":
        truth.effect = LOWER_LIMIT
        history.effect("limit", node, LOWER_LIMIT, at_s, device=plan.device)
    if fact == "pcie_link_width":
        history.stroke("set.pcie_width", node, at_s, 8, plan.device)
    history.fact(node, at_s, device, **{fact: old[fact]})


def pcie_downtrain(scene: Scene, plan: Plan, at_s: float) -> None:
    """Device. Its link trains narrower or slower: no code; host copies take longer."""
    history, rng = scene.history, scene.rng(plan)
    what = plan.mode or ("width" if rng.uniform() < 0.6 else "gen")
    generation = history.site.skus[plan.node].pcie_gen
    value = (8, 4)[int(rng.uniform() < 0.3)] if what == "width" else generation - 2
    gap = 0.05 if value in (8, generation - 1) else 0.1
    truth = scene.open(plan, at_s, effect=gap, what=what, value=value)
    history.stroke(f"set.pcie_{what}", plan.node, at_s, value, plan.device)
    history.effect("gap", plan.node, gap, at_s, device=plan.device)
    if plan.lasts_s is not None:
        good = 16 if what == "width" else generation
        taken_s = at_s + plan.lasts_s
        scene.take_out(
            *(truth, plan, taken_s, "NHC: PCIe link degraded"),
            undo=("gap",),
            swap=False,
            then=lambda t: history.stroke(f"set.pcie_{what}", plan.node, t, good, plan.device),
        )


def lemon(scene: Scene, plan: Plan, at_s: float) -> None:
    """Node. It fails jobs at ``size`` times the base rate, with nothing in the telemetry."""
    size = plan.size if plan.size is not None else 20.0
    scene.open(plan, at_s, effect=size)
    rate = size * scene.rate / 1000 / 86_400
    rng = stream(scene.history.seed, "lemon", plan.number)

    def lose(node: int, time_s: float) -> None:
        lost = rng.uniform() < 0.5
        if lost:
            scene.cluster.close(node, time_s, "down", "Not responding")
            scene.history.at(
                time_s + float(rng.uniform(240, 1500)), lambda t: scene.cluster.open(node, t)
            )
        scene.cluster.lose(
            node, time_s, "NODE_FAIL" if lost else "FAILED", "0:0" if lost else "1:0"
        )

    scene.cluster.endanger(plan.node, at_s, rate, lose)


def golden(history: History) -> None:
    """The facts of every node and device as first seen."""
    for n, node in enumerate(history.site.nodes):
        sku, rng = history.site.skus[n], stream(history.seed, "boot ids", n)
        history.fact(
            *(n, 0.0),
            driver_version=history.drivers[n],
            cuda_version="12.8",
            kernel=KERNEL,
            hostname=node.name,
            bios_version=BIOS,
            fabricmanager_version=history.drivers[n],
            boot_id=rng.bytes(8).hex(),
            gpu_count=8,
        )
        for k in range(8):
            history.fact(
                *(n, 0.0, f"gpu{k}"),
                uuid=history.site.uuids[n][k],
                bus=history.site.bus(n, k),
                serial=history.site.serials[n][k],
                vbios_version=sku.vbios,
                power_limit_w=int(sku.limit_w),
                ecc_mode="Enabled",
                pcie_link_width=16,
                pcie_link_gen=sku.pcie_gen,
                hbm_vendor=history.site.hbm[n][k],
            )
            history.fact(
                *(n, 0.0, f"nic{k}"),
                fw_version=NIC_FIRMWARE[sku.nic],
                board_id="MT_0000000838" if sku.nic.endswith("7") else "MT_0000000223",
                guid=history.site.guids[n][k],
            )
