"""Noise as sensors and loads have it: correlated in time, heavy-tailed, with a known spread.

The magnitudes are chosen as plausible for air-cooled eight-GPU nodes and are documented in
docs/simulator.md; no detector's constant is known here.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
TAIL = 4
"""Degrees of freedom of the innovations: now and then one is far out."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Standard deviation (in the quantity's unit) and correlation time of a wandering value."""

    sd: float
    tau_s: float

    def times(self, scale: float) -> "Noise":
        """The same, so many times as large."""
        return Noise(self.sd * scale, self.tau_s)

    def hourly_sd(self) -> float:
        """Standard deviation of its mean over an hour."""
        x = self.tau_s / 3600
        return float(self.sd * np.sqrt(2 * x * (1 - x * (1 - np.exp(-1 / x)))))


GPU_TEMP = Noise(0.55, 2400)
"""Airflow at one GPU, degrees Celsius."""
THERMAL_DRIFT = Noise(0.2, 5 * 86_400)
"""What no model explains and no fault causes: slow, degrees Celsius."""
MEMORY_TEMP = Noise(0.5, 1800)
DRAW = Noise(0.008, 1800)
"""Power at equal load, share."""
CLOCK = Noise(9.0, 1200)
"""How far the clock stays below where it could be, MHz."""
RAIL = Noise(0.011, 900)
"""Volts of the node's 12 V rail."""
INLET = Noise(0.25, 5400)
LOOP = Noise(0.6, 86_400)
"""Supply air of one cooling loop, degrees Celsius."""
ACTIVITY = Noise(0.03, 900)
"""A job's own ups and downs, common to all its ranks, share."""
RANK = Noise(0.008, 3600)
"""Unevenness of one rank's work, share."""
HOST = Noise(0.05, 1200)
"""The host's own load average, share."""


class Wander:
    """A stationary first-order process over an array; ``value`` is its present state."""

    def __init__(
        self, rng: np.random.Generator, shape: tuple[int, ...], noise: Noise, step_s: float
    ) -> None:
        self._rng = rng
        self._keep = float(np.exp(-step_s / noise.tau_s))
        fresh = np.sqrt((1 - self._keep**2) * (TAIL - 2) / TAIL)
        self._fresh = float(fresh) * noise.sd
        self.value: Floats = rng.standard_normal(shape) * noise.sd

    def step(self) -> Floats:
        """One step on."""
        shock = self._rng.standard_t(TAIL, self.value.shape)
        self.value = self._keep * self.value + self._fresh * shock
        return self.value
