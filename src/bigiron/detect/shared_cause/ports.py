"""A leaf switch: the ports of most of its nodes err, or go down, within the same hour."""

import numpy as np

from bigiron.detect.hygiene import Rows
from bigiron.detect.shared_cause.state import Flags, Floats, Ports
from bigiron.detect.state import carried, follow

METRICS = (
    "ib_symbol_errors_total",
    "ib_link_error_recovery_total",
    "ib_link_downed_total",
    "ib_rcv_errors_total",
    "ib_local_link_integrity_errors_total",
)

HOUR_S = 3600.0
USUAL_S = 2 * 86_400.0
AT_ONCE = 0.5
"""Hours: what comes within less of them counts as of now."""

LEAST = 3.0
"""Fewer errors an hour than this on a port mean nothing, whatever it had before."""

TIMES, DEVIATIONS = 3.0, 5.0
"""Odd is a port with three times its usual errors, and five Poisson deviations above them."""


def follow_ports(ports: Ports, rows: Rows, elapsed_s: float) -> tuple[Ports, Flags]:
    """The ports after a step, and which of them (n,) err more than they use to.

    ``elapsed_s`` is the time since the step before.
    """
    index = follow(ports.units, rows.units)
    lately = carried(ports.lately, index, 0.0)
    usual = carried(ports.usual, index, np.nan)
    new, told = _errors(rows)
    fade = np.exp(-elapsed_s / HOUR_S)
    lately = lately * fade + new
    odd = _odd(lately, usual)
    known = np.isfinite(usual)
    slow = min(elapsed_s, HOUR_S) / USUAL_S * np.where(odd, 0.1, 1.0)
    moved = usual + slow * (lately - usual)
    usual = np.where(known, np.where(told, moved, usual), np.where(told, lately, np.nan))
    usual = np.where(usual > 0, usual, np.where(np.isfinite(usual), 0.0, np.nan))
    return Ports(rows.units, lately, usual), odd & told


def _errors(rows: Rows) -> tuple[Floats, Flags]:
    """How many errors of any kind came within the last hour, and whose counters were heard.

    Those of a longer time without a look are taken to have come evenly, and fade like others.
    """
    new = np.zeros(len(rows.units))
    told = np.zeros(len(rows.units), np.bool_)
    for metric in METRICS:
        grown = rows.increments.get(metric)
        if grown is not None:
            here = np.isfinite(grown)
            hours = np.where(here, rows.spans[metric], 0.0) / HOUR_S
            new += np.where(here, grown, 0.0) * np.where(hours > AT_ONCE, _left(hours), 1.0)
            told |= here
    return np.where(rows.grace, 0.0, new), told


def _left(hours: Floats) -> Floats:
    """Of errors that came evenly over so many hours, the share that has not faded since."""
    some = np.maximum(hours, AT_ONCE)
    return (1.0 - np.exp(-some)) / some


def _odd(lately: Floats, usual: Floats) -> Flags:
    expected = np.nan_to_num(usual)
    limit = np.maximum(TIMES * expected, expected + DEVIATIONS * np.sqrt(expected)) + LEAST
    return np.isfinite(usual) & (lately > limit)
