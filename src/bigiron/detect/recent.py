"""The last stretch of samples, of a thousand subjects at once: how many, the least, the median.

numpy is imported where it is used: what reads a single document must not need it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bigiron.detect import Columnar, Series, Window

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

POSSIBLE = -100.0, 1e12
"""Values outside are an exporter's way to say that there is none."""


def recent_of(
    columns: Columnar, now_s: float, span_s: float, fresh_s: float
) -> "tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]":
    """Of each subject over the last ``span_s``: the count of samples, the least, the median.

    The count is 0 where the newest is not fresh or the samples do not reach back so far.
    """
    import numpy as np

    values = columns.recent(now_s - span_s - 1)
    reach = (columns.last_times >= now_s - fresh_s) & (columns.first_times <= now_s - span_s)
    told = (values > POSSIBLE[0]) & (values < POSSIBLE[1]) & reach[:, None]
    count = told.sum(axis=1)
    if not values.shape[1]:
        nothing = np.full(len(count), np.nan)
        return count, nothing, nothing
    ordered = np.sort(np.where(told, values, np.inf), axis=1)
    rows = np.arange(len(ordered))
    middle = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, values.shape[1] - 1)
    with np.errstate(invalid="ignore"):
        median = (ordered[rows, middle[0]] + ordered[rows, middle[1]]) / 2
    return count, ordered[:, 0], median


def recent(series: Series | None, window: Window, times: float = 1.0) -> Sequence[float]:
    """The values of the last ``sustain_s`` (times ``times``), if they reach back and are fresh."""
    if series is None or not series.times:
        return ()
    now_s, span_s = window.now.timestamp(), window.sustain_s * times
    if series.times[-1] < now_s - window.fresh_s or series.times[0] > now_s - span_s:
        return ()
    first = len(series.times)
    while first > 0 and series.times[first - 1] >= now_s - span_s - 1:
        first -= 1
    return [v for v in series.values[first:] if POSSIBLE[0] < v < POSSIBLE[1]]
