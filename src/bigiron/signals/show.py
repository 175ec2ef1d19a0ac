"""Values as people write them."""

import math

_SUFFIX = {
    "celsius": (" °C", 0),
    "watts": (" W", 0),
    "volts": (" V", 3),
    "rpm": (" rpm", 0),
}
_SCALED = {
    "bytes": "B",
    "bytes_per_second": "B/s",
    "bits_per_second": "bit/s",
    "joules": "J",
}
_FORMS = {
    "hertz": ("{:,.0f} MHz", 1e-6),
    "ratio": ("{:.3g} %", 100.0),
    "lanes": ("x{:.0f}", 1.0),
    "gen": ("gen {:.0f}", 1.0),
    "ber": ("{:.1e}", 1.0),
}
_PREFIXES = ("", "k", "M", "G", "T", "P", "E")


def show_value(unit: str, value: float) -> str:
    """``value`` of ``unit`` in words; ``n/a`` for NaN."""
    if not math.isfinite(value):
        return "n/a" if math.isnan(value) else f"{value:+}"
    if unit in _SUFFIX:
        suffix, digits = _SUFFIX[unit]
        return f"{value:,.{digits}f}{suffix}"
    if unit in _SCALED:
        return _scaled(value, _SCALED[unit])
    return _special(unit, value)


def _special(unit: str, value: float) -> str:
    if unit == "mask":
        return f"0x{int(value):x}"
    if unit in _FORMS:
        form, factor = _FORMS[unit]
        return form.format(value * factor)
    if unit == "seconds":
        return _seconds(value)
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4g}"


def _scaled(value: float, unit: str) -> str:
    place = 0
    while abs(value) >= 999.95 and place < len(_PREFIXES) - 1:
        value /= 1000.0
        place += 1
    text = f"{value:.1f}" if place and abs(value) < 100 else f"{value:.0f}"
    return f"{text} {_PREFIXES[place]}{unit}"


def _seconds(value: float) -> str:
    size = abs(value)
    if size >= 172_800:
        return f"{value / 86_400:,.1f} d"
    if size >= 7_200:
        return f"{value / 3_600:.1f} h"
    if size >= 1 or size == 0:
        return f"{value:,.3g} s" if size < 100 else f"{value:,.0f} s"
    return f"{value * 1e3:.3g} ms" if size >= 1e-3 else f"{value * 1e6:.3g} µs"
