"""Faults and benign happenings that can be injected into the simulated fleet.

An episode has a class of formats.md section 5, a subject and an onset; ``begin`` changes the
state once and says what the kernel logs, ``each`` acts on every step after that.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bigiron.sim.live.fleet import Inventory, bus, nic_bus
from bigiron.sim.live.physics import State

OLD_DRIVER = "550.54.15"

Lines = list[str]
"""Kernel messages, without time and host."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One thing that happens to one node at ``onset_s`` seconds after the start."""

    kind: str
    node: int
    onset_s: float
    gpu: int = 0
    benign: bool = False

    def subject(self, inventory: Inventory) -> str:
        """``n017/gpu3`` or ``n017``."""
        name = inventory.nodes[self.node].name
        if self.kind in NIC_KINDS:
            return f"{name}/mlx5_{self.gpu}"
        return name if self.kind in NODE_KINDS else f"{name}/gpu{self.gpu}"


NODE_KINDS = frozenset({"node_crash", "driver_hang", "config_drift", "exporter_death", "app_xid"})
NIC_KINDS = frozenset({"ib_link_down", "single_flap"})


def begin(episode: Episode, inventory: Inventory, state: State) -> Lines:
    """Changes the state at the onset; the kernel messages that go with it."""
    return _BEGIN[episode.kind](episode, inventory, state)


def each(episode: Episode, state: State, since_s: float) -> Iterator[str]:
    """What an episode goes on doing ``since_s`` seconds after its onset."""
    n, g = episode.node, episode.gpu
    if episode.kind == "thermal_degradation":
        state.resistance[n, g] = max(state.resistance[n, g], 0.055 + min(since_s, 30) / 30 * 0.05)
    elif episode.kind == "slow_clock":
        state.slow[n, g] = max(state.slow[n, g], 0.22)
    elif episode.kind == "ib_link_down" and since_s < 60:
        state.counters["ib_downed"][n, g] += 1
        yield f"mlx5_core {nic_bus(g)} ib{g}: Link down"
        yield f"mlx5_core {nic_bus(g)} ib{g}: Link up"


def _off_bus(e: Episode, inventory: Inventory, state: State) -> Lines:
    state.present[e.node, e.gpu] = False
    at = bus(e.gpu)[:-2]
    return [
        f"NVRM: GPU at PCI:{at}: {inventory.uuids[e.node][e.gpu]}",
        f"NVRM: GPU Board Serial Number: {inventory.serials[e.node][e.gpu]}",
        f"NVRM: Xid (PCI:{at}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        f"NVRM: Xid (PCI:{at}): 154, pid='<unknown>', name=<unknown>, "
        "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
    ]


def _uncorrectable(e: Episode, inventory: Inventory, state: State) -> Lines:
    del inventory
    state.counters["ecc_dbe"][e.node, e.gpu] += 1
    state.counters["remap_unc"][e.node, e.gpu] += 1
    state.states["remap_pending"][e.node, e.gpu] = 1
    state.states["xid"][e.node, e.gpu] = 94
    at = bus(e.gpu)[:-2]
    return [
        f"NVRM: Xid (PCI:{at}): 48, pid=51377, name=python3, An uncorrectable double bit error "
        "(DBE) has been detected on GPU in the framebuffer at partition 6, subpartition 1.",
        f"NVRM: Xid (PCI:{at}): 63, pid=51377, name=python3, Row Remapper: New row "
        "marked for remapping, reset gpu to activate.",
        f"NVRM: Xid (PCI:{at}): 94, pid=51377, name=python3, Contained: CE User Channel (0x9). "
        "RST: No, D-RST: No",
    ]


def _remap_failure(e: Episode, inventory: Inventory, state: State) -> Lines:
    del inventory
    state.states["remap_failure"][e.node, e.gpu] = 1
    state.states["xid"][e.node, e.gpu] = 64
    at = bus(e.gpu)[:-2]
    return [f"NVRM: Xid (PCI:{at}): 64, pid=51377, name=python3, Row Remapper: Failed to remap row"]


def _downtrain(e: Episode, inventory: Inventory, state: State) -> Lines:
    del inventory
    state.width[e.node, e.gpu] = 8
    return []


def _gsp(e: Episode, inventory: Inventory, state: State) -> Lines:
    del inventory
    state.states["xid"][e.node, e.gpu] = 119
    at = bus(e.gpu)[:-2]
    return [
        f"NVRM: Xid (PCI:{at}): 119, pid=2311, name=dcgm-exporter, Timeout after 45s of waiting "
        f"for RPC response from GPU{e.gpu} GSP! Expected function 76 (GSP_RM_CONTROL) "
        "(0x20801702 0x4)."
    ]


def _crash(e: Episode, inventory: Inventory, state: State) -> Lines:
    del inventory
    state.up[e.node] = False
    return ["Kernel panic - not syncing: Fatal machine check"]


def _hang(e: Episode, inventory: Inventory, state: State) -> Lines:
    del inventory
    state.frozen[e.node] = True
    return []


def _application(e: Episode, inventory: Inventory, state: State) -> Lines:
    del e, inventory, state
    return [
        f"NVRM: Xid (PCI:{bus(g)[:-2]}): 31, pid={6000 + g}, name=python3, Ch 00000010, intr "
        "00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_3 faulted @ 0x7f12_44000000. "
        "Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"
        for g in range(2)
    ]


def _one_flap(e: Episode, inventory: Inventory, state: State) -> Lines:
    del inventory
    state.counters["ib_downed"][e.node, e.gpu] += 1
    port = f"mlx5_core {nic_bus(e.gpu)} ib{e.gpu}"
    return [f"{port}: Link down", f"{port}: Link up"]


def _drift(e: Episode, inventory: Inventory, state: State) -> Lines:
    del inventory
    state.drivers[e.node] = OLD_DRIVER
    return []


def _exporter(e: Episode, inventory: Inventory, state: State) -> Lines:
    del inventory
    state.exporter[e.node] = False
    return []


def _nothing(e: Episode, inventory: Inventory, state: State) -> Lines:
    del e, inventory, state
    return []


_BEGIN: dict[str, Callable[[Episode, Inventory, State], Lines]] = {
    "gpu_off_bus": _off_bus,
    "hbm_uncorrectable": _uncorrectable,
    "hbm_remap": _remap_failure,
    "pcie_downtrain": _downtrain,
    "gsp_timeout": _gsp,
    "node_crash": _crash,
    "driver_hang": _hang,
    "thermal_degradation": _nothing,
    "slow_clock": _nothing,
    "ib_link_down": _nothing,
    "config_drift": _drift,
    "app_xid": _application,
    "single_flap": _one_flap,
    "exporter_death": _exporter,
}
