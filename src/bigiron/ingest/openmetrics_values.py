"""A page's numbers -> canonical values, all at once. The same with numpy and without it."""

import math
from array import array
from collections.abc import Callable, Sequence

from bigiron import signals
from bigiron.ingest.openmetrics_series import Rule

_FIRST_BLANK = 2_147_483_632.0


class Conversion:
    """Scales and blanks of a fixed list of values, taken once and applied to every scrape."""

    def __init__(self, rules: Sequence[Rule], *, vector: bool = True) -> None:
        self._scales = array("d", [rule.source.scale for rule in rules])
        self._blanks = bytes([rule.blanks for rule in rules])
        self._tables = [
            (place, rule.source)
            for place, rule in enumerate(rules)
            if rule.source.table is not None
        ]
        self._scale = (_vector(self._scales, self._blanks) if vector else None) or self._each

    def apply(self, raw: "array[float]") -> "array[float]":
        """In each signal's unit; NaN where the exporter has no value or says so with a blank."""
        values = self._scale(raw)
        for place, source in self._tables:
            values[place] = source.convert(raw[place])
        return values

    def _each(self, raw: "array[float]") -> "array[float]":
        return array(
            "d",
            [
                math.nan if blank and signals.is_blank(value) else value * scale
                for value, scale, blank in zip(raw, self._scales, self._blanks, strict=True)
            ],
        )


def _vector(
    scales: "array[float]", blanks: bytes
) -> "Callable[[array[float]], array[float]] | None":
    """The same with numpy; None where it is not installed (the base install)."""
    try:
        import numpy as np
    except ImportError:
        return None
    factor = np.frombuffer(scales)
    may_be_blank = np.frombuffer(blanks, dtype=np.bool_)
    known = np.array(sorted(float(blank) for blank in signals.BLANKS))

    def scale(raw: "array[float]") -> "array[float]":
        out = array("d", raw)
        view = np.frombuffer(out)
        large = np.flatnonzero(view >= _FIRST_BLANK)
        if large.size:
            large = large[may_be_blank[large] & np.isin(view[large], known)]
        with np.errstate(invalid="ignore", over="ignore"):
            np.multiply(view, factor, out=view)
        if large.size:
            view[large] = math.nan
        return out

    return scale
