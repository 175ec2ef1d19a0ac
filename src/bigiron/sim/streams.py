"""Random numbers by concern: a stream of its own for each thing that is drawn.

Adding a fault class, or drawing more for one, leaves every other stream as it was.
"""

from zlib import crc32

import numpy as np


def stream(seed: int, *words: str | int) -> np.random.Generator:
    """The generator of one concern, named by words: the same name, the same numbers."""
    return np.random.default_rng([seed, *(crc32(str(word).encode()) for word in words)])


def lognormal(rng: np.random.Generator, median: float, spread: float) -> float:
    """A positive, right-skewed number: ``spread`` is the standard deviation of its logarithm."""
    return float(median * np.exp(spread * rng.standard_normal()))
