"""The values amd-smi prints, in base units."""

import re

from bigiron.ingest import json_text
from bigiron.ingest.json_text import JsonMap

_FACTOR = {
    "%": 0.01,
    "mv": 0.001,
    "mhz": 1e6,
    "ghz": 1e9,
    "kb": 1024.0,
    "mb": 1024.0**2,
    "gb": 1024.0**3,
    "mb/s": 125_000.0,
    "mw": 0.001,
    "mj": 0.001,
}
"""What each unit is in the base unit; one that is not listed (W, C, J, GT/s) is one already."""


def measure(value: object) -> float | None:
    """A number, ``{"value", "unit"}`` or "24 W" in base units; None for "N/A" and its like."""
    unit = ""
    if isinstance(value, dict):
        unit = json_text.text(value.get("unit"))
        value = value.get("value")
    elif isinstance(value, str):
        match = re.fullmatch(r"\s*[-+.\deE]+\s*([%A-Za-z/]+)\s*", value)
        unit = match[1] if match else ""
    number = json_text.number(value)
    return None if number is None else number * _FACTOR.get(unit.casefold(), 1.0)


def gpu_name(entry: JsonMap) -> str:
    """``gpu3`` from the index in "gpu" or "gpu_id"; "" without one."""
    for key in ("gpu", "gpu_id"):
        index = json_text.number(entry.get(key))
        if index is not None and 0 <= index < 4096 and index == int(index):
            return f"gpu{int(index)}"
    return ""
