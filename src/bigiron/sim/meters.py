"""Counters and states of GPUs and ports: they grow, reset at a reboot, and are set by strokes."""

import numpy as np

from bigiron.sim.effects import ALL, Mods, Stroke
from bigiron.sim.noise import Floats
from bigiron.sim.plant import Seen
from bigiron.sim.site import GPUS, THIRD_VENDOR, Site
from bigiron.sim.streams import stream

VENDOR_RATIO = 8.0
"""How many more correctable errors the third memory vendor's parts have, all of them."""
RATES = {
    "pcie_replay": (0.02, 1.0, 2.0),
    "ecc_sbe": (0.008, 1.2, 3.0),
    "nvlink_crc": (0.001, 1.0, 2.0),
    "nvlink_replay": (0.0005, 1.0, 1.5),
    "remap_cor": (2e-5, 1.0, 1.0),
    "ib_symbol": (0.03, 1.2, 3.0),
    "ib_recovery": (0.0004, 1.0, 1.2),
}
"""Bursts an hour under load (median of the units), spread of its logarithm, errors a burst."""
NIC = ("ib_symbol", "ib_recovery", "ib_downed")
VOLATILE = (
    *("pcie_replay", "ecc_sbe", "ecc_dbe", "nvlink_crc", "nvlink_replay", "ib_symbol"),
    *("ib_recovery", "ib_downed", "power_ms", "thermal_ms"),
)
"""What starts from zero after a reboot; remapped rows are kept in the board's own memory."""
LASTING = ("remap_cor", "remap_unc")
RESETS = {
    "reboot": (*VOLATILE, "xid"),
    "reload": (*(name for name in VOLATILE if name not in NIC), "xid"),
    "swap": (*LASTING, "remap_failure", "xid"),
}
"""What each of them sets to zero."""
STATES = ("remap_failure", "xid", "pcie_gen", "pcie_width")


class Meters:
    """``values`` by name as (nodes, 8): GPU sockets, or NICs for the names in ``NIC``."""

    def __init__(self, site: Site, seed: int, step_s: float) -> None:
        count = len(site.nodes)
        shape = (count, GPUS)
        self._step_s = step_s
        self._counts = {name: stream(seed, "counts", name) for name in RATES}
        self._faults = {name: stream(seed, "counts of faults", name) for name in RATES}
        self.rates: dict[str, Floats] = {}
        for name, (median, spread, _) in RATES.items():
            temper = stream(seed, "rates", name).standard_normal(shape)
            self.rates[name] = median * np.exp(spread * temper)
        third = np.array(site.hbm) == THIRD_VENDOR
        self.rates["ecc_sbe"] *= np.where(third, VENDOR_RATIO, 1.0)
        start = stream(seed, "counters at the start")
        self.values: dict[str, Floats] = {
            name: np.zeros(shape) for name in (*VOLATILE, *LASTING, *STATES)
        }
        uptime_h = start.uniform(20, 900, (count, 1))
        for name, rate in self.rates.items():
            self.values[name] = start.poisson(rate * uptime_h * 0.8) * 1.0
        self.values["power_ms"] = np.floor(uptime_h * 3.6e6 * start.uniform(0, 0.05, shape))
        self.values["remap_cor"] = start.poisson(0.05, shape) * 1.0
        self.values["remap_unc"] = start.poisson(0.02, shape) * 1.0
        self.boot = -3600.0 * uptime_h[:, 0]
        gen = np.array([float(s.pcie_gen) for s in site.skus])
        self.values["pcie_gen"] = np.repeat(gen[:, None], GPUS, axis=1)
        self.values["pcie_width"] = np.full(shape, 16.0)

    def stroke(self, stroke: Stroke) -> None:
        """Does one thing: reboot, reload, swap, xid, ``add.NAME`` or ``set.NAME``."""
        node, value = stroke.node, stroke.value
        where = slice(None) if stroke.device == ALL else stroke.device
        kind, _, name = stroke.what.partition(".")
        for counter in RESETS.get(kind, ()):
            self.values[counter][node, where] = 0
        if kind == "reboot":
            self.boot[node] = stroke.at_s
        elif kind == "add":
            self.values[name][node, where] += value
        elif kind in ("set", "xid"):
            self.values[name or kind][node, where] = value

    def step(self, seen: Seen, mods: Mods) -> None:
        """What one step adds. ``rate.NAME`` effects are errors an hour under load."""
        hours = self._step_s / 3600
        exposure = 0.1 + 0.9 * seen.busy
        for name, (_, _, burst) in RATES.items():
            mean = self.rates[name] * hours * exposure
            rng = self._counts[name]
            hits = rng.poisson(mean)
            some = np.flatnonzero(hits)
            if len(some):
                sizes = rng.geometric(1 / burst, len(some))
                self.values[name].reshape(-1)[some] += hits.reshape(-1)[some] * sizes
            if f"rate.{name}" in mods:
                self.values[name] += self._extra(name, mods[f"rate.{name}"] * hours * exposure)
        self.values["power_ms"] += np.floor(seen.capped * self._step_s * 1000)
        self.values["thermal_ms"] += np.floor(seen.hot * self._step_s * 1000)

    def _extra(self, name: str, mean: Floats) -> Floats:
        """Errors of a fault: in lumps, from a stream of their own."""
        found, rng = np.zeros_like(mean), self._faults[name]
        at = np.nonzero(mean)
        found[at] = rng.poisson(mean[at] * rng.gamma(2.0, 0.5, len(at[0])))
        return found
