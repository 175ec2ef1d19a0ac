"""rocm-smi's text, as the objects its ``--json`` would give.

``rocm-smi -a`` writes "GPU[0]  : GPU use (%): 3": the same keys as JSON. Without options it
prints one line a GPU under a title; ``--showrasinfo`` a table of blocks and their counts.
"""

import re
from collections.abc import Iterator

_TITLE = re.compile(r"={3,} ?ROCm (?:System Management Interface|SMI)\b")
_LINE = re.compile(r"^GPU\[(?P<gpu>\d{1,4})\]\s*:\s*(?P<key>[^:]{1,80}?)\s*:\s*(?P<value>.*?)\s*$")
_RAS = re.compile(r"^GPU\[(?P<gpu>\d{1,4})\]\s*:\s*RAS INFO\s*$")
_BLOCK = re.compile(
    r"^\s*(?P<block>[A-Z][A-Z0-9_]{1,15})\s+\w+\s+(?P<ce>\d{1,12})\s+(?P<ue>\d{1,12})\s*$"
)
_ROW = re.compile(r"^(?P<gpu>\d{1,4})\s+(?P<rest>\S.*\S)\s*$")
_HEAT = re.compile(r"(?<![\w.])(\d{1,3}(?:\.\d+)?)\s?°?[cC]\b")
_WATTS = re.compile(r"(?<![\w.])(\d{1,5}(?:\.\d+)?)\s?W\b")
_MHZ = re.compile(r"(?<![\w.])(\d{1,6})Mhz\b", re.IGNORECASE)
_SHARE = re.compile(r"(?<![\w.])(\d{1,3}(?:\.\d+)?)%")


def is_text(text: str) -> bool:
    """Whether it has rocm-smi's title."""
    return _TITLE.search(text) is not None


def cards(text: str) -> dict[str, dict[str, object]]:
    """``{"card0": {key: value}}`` with the keys of ``--json``."""
    found: dict[str, dict[str, object]] = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is not None:
            card = found.setdefault(f"card{int(match['gpu'])}", {})
            card.setdefault(match["key"], match["value"])
        elif (row := _ROW.match(line)) is not None and (brief := _brief(row["rest"])):
            found.setdefault(f"card{int(row['gpu'])}", {}).update(brief)
    return found


def _brief(rest: str) -> dict[str, object]:
    """The line of one GPU in the short table: temperature, watts, clocks and shares by unit."""
    heat, watts, clocks = _HEAT.search(rest), _WATTS.findall(rest), _MHZ.findall(rest)
    if heat is None or not clocks:
        return {}
    card: dict[str, object] = {"Temperature (Sensor junction) (C)": heat[1]}
    if watts:
        card["Current Socket Graphics Package Power (W)"] = watts[0]
    if len(watts) > 1:
        card["Max Graphics Package Power (W)"] = watts[-1]
    card["sclk clock speed:"] = f"({clocks[0]}Mhz)"
    if len(clocks) > 1:
        card["mclk clock speed:"] = f"({clocks[1]}Mhz)"
    shares = _SHARE.findall(rest)
    if len(shares) >= 2:
        card["GPU use (%)"] = shares[-1]
    return card


def ras_counts(text: str) -> Iterator[tuple[str, str, str, float]]:
    """GPU, block in lower case, ``correctable`` or ``uncorrectable``, count."""
    gpu = ""
    for line in text.splitlines():
        title = _RAS.match(line)
        if title is not None:
            gpu = f"gpu{int(title['gpu'])}"
        elif gpu and (row := _BLOCK.match(line)) is not None:
            yield gpu, row["block"].lower(), "correctable", float(row["ce"])
            yield gpu, row["block"].lower(), "uncorrectable", float(row["ue"])
