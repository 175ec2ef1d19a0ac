"""The demo's story: what happens to which node, and when."""

import numpy as np

from bigiron.sim.live.episodes import Episode
from bigiron.sim.live.fleet import GPUS

FAULTS = (
    ("gpu_off_bus", 0.06),
    ("hbm_remap", 0.10),
    ("thermal_degradation", 0.04),
    ("pcie_downtrain", 0.14),
    ("hbm_uncorrectable", 0.22),
    ("ib_link_down", 0.28),
    ("config_drift", 0.34),
    ("node_crash", 0.40),
    ("gsp_timeout", 0.48),
)
"""Class and onset as a share of the story's length; what takes longest to show comes first."""
BENIGN = (("app_xid", 0.16), ("single_flap", 0.30), ("exporter_death", 0.44))
WHAT = {
    "gpu_off_bus": "a GPU falls off the bus",
    "hbm_remap": "a row remap fails: no spare rows left",
    "thermal_degradation": "a heat sink loses contact",
    "pcie_downtrain": "a PCIe link trains at half its width",
    "hbm_uncorrectable": "uncorrectable memory error, row remap pending",
    "ib_link_down": "an InfiniBand link flaps",
    "config_drift": "a node comes back with an old driver",
    "node_crash": "a node dies",
    "gsp_timeout": "a GPU's system processor stops answering",
    "app_xid": "a user's program faults (nobody's hardware)",
    "single_flap": "one link flap, over",
    "exporter_death": "an exporter dies (the node is fine)",
}


def story(nodes: int, length_s: float, seed: int, busy: list[int]) -> list[Episode]:
    """Episodes on nodes of their own; what shows only under load goes to ``busy`` nodes."""
    rng = np.random.default_rng([seed, 7])
    working = [int(n) for n in rng.permutation(busy)]
    others = [int(n) for n in rng.permutation(nodes) if int(n) not in working]
    made = []
    for kind, at in (*FAULTS, *BENIGN):
        loaded = kind in ("thermal_degradation", "slow_clock", "app_xid")
        pool = working if (loaded and working) or not others else others
        gpu = int(rng.integers(GPUS))
        benign = kind in dict(BENIGN)
        made.append(Episode(kind, pool.pop(), at * length_s, gpu, benign))
    return made
