"""What checks that people already have say: Node Health Check (NHC) and plugins for Nagios.

A plugin ends with 0 (OK), 1 (warning), 2 (critical) or 3 (unknown), says one line and, after a bar,
measured values: ``'label'=value[unit];warn;crit;min;max`` (Nagios plugin API; Monitoring Plugins
development guidelines). NHC ends with 1 and says of each failed check ``ERROR:  nhc:  Health check
failed:  check_fs_mount:  /home not mounted`` (mej/nhc, script ``nhc``).
"""

import math
import re
from dataclasses import dataclass

from bigiron.model import CheckStatus

TEXT_LIMIT = 2_000
VALUES, DATA_LIMIT = 64, 16_384
_STATUS = {0: CheckStatus.PASS, 1: CheckStatus.WARN, 2: CheckStatus.FAIL}
_NHC = re.compile(r"ERROR:\s{1,8}[\w.-]{1,64}:\s{1,8}Health check failed:\s{1,8}(.{1,2000})")
_NHC_COUNT = re.compile(r"ERROR:\s{1,8}[\w.-]{1,64}:\s{1,8}\d{1,6} health checks failed")
_NO_VERDICT = re.compile(r"(?:Script )?timed out while executing|Watchdog timer", re.IGNORECASE)
_VALUE = re.compile(
    r"(?:'((?:[^']|''){1,100})'|([^\s='|]{1,100}))="
    r"([-+]?(?:\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][-+]?\d{1,3})?)([a-zA-Z%]{0,8})"
)
_SCALE = {"us": 1e-6, "ms": 1e-3}
"""Times are in seconds; other units stay as the plugin has them."""


@dataclass(frozen=True, slots=True)
class Said:
    """A check's outcome in its own words, with the values it measured."""

    status: CheckStatus
    text: str
    values: dict[str, float]


def said(status: int, output: str, errors: str) -> Said:
    """The outcome of a check that ended with this exit status and wrote these two texts."""
    failed = [found for line in f"{output}\n{errors}".splitlines() if (found := _NHC.search(line))]
    if failed:
        words = [found[1].strip() for found in failed]
        real = [text for text in words if not _NO_VERDICT.search(text)]
        text = _short("; ".join(real or words))
        return Said(CheckStatus.FAIL if real else CheckStatus.ERROR, text, {})
    if status != 0 and _NHC_COUNT.search(output):
        return Said(CheckStatus.FAIL, _short(output), {})
    first, values = _parts(output)
    text = first or _short(errors)
    if status < 0:
        return Said(CheckStatus.ERROR, f"ended by signal {-status}: {text}".rstrip(": "), values)
    outcome = _STATUS.get(status, CheckStatus.ERROR)
    if outcome is CheckStatus.ERROR and status != 3:
        text = f"exit {status}: {text}".rstrip(": ")
    return Said(outcome, text, values)


def _parts(output: str) -> tuple[str, dict[str, float]]:
    """The first line's words, and the values after the bars: on it, and at the end of long text."""
    first, _, rest = output.strip().partition("\n")
    words, _, data = first.partition("|")
    _, _, more = rest.partition("|")
    values: dict[str, float] = {}
    for found in _VALUE.finditer(f"{data[:DATA_LIMIT]} {more[:DATA_LIMIT]}"):
        if len(values) >= VALUES:
            break
        label = (found[1] or "").replace("''", "'") or found[2]
        value = float(found[3]) * _SCALE.get(found[4], 1.0)
        if math.isfinite(value):
            values.setdefault(label, value)
    return _short(words), values


def _short(text: str) -> str:
    return " ".join(text.split())[:TEXT_LIMIT]
