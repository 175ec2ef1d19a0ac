"""One part that many nodes share: found before any of them is blamed.

A cooling loop, a leaf switch, a power distribution unit, a file server, the weather. What each
node shows at a step (its air warmer than its own usual, its ports erring more than they use to,
its voltage sagging, itself gone) is a mark; marks that sit together in one group, more than
chance would have it, are the group's (``scan``, methods.md 3.6). ``explain`` then takes the blame
from the members, and finds groups in what other detectors claim.

The modules beside this one that import numpy are loaded only where folds run.
"""

from typing import TYPE_CHECKING

from bigiron.detect import StatefulDetector, fold

if TYPE_CHECKING:
    from bigiron.detect.shared_cause.state import State

READS = (
    "node_inlet_temp_celsius",
    "node_hwmon_temp_celsius",
    "node_rail_volts",
    "node_boot_time_seconds",
    "gpu_clock_event_reasons",
    "gpu_sm_clock_hertz",
    "gpu_utilization_ratio",
    "ib_symbol_errors_total",
    "ib_link_error_recovery_total",
    "ib_link_downed_total",
    "ib_rcv_errors_total",
    "ib_local_link_integrity_errors_total",
)


@fold(reads=READS)
def shared_cause() -> "StatefulDetector[State]":
    """A cooling loop, leaf switch, supply or file server that many nodes share."""
    from bigiron.detect.shared_cause.fold import SharedCause

    return SharedCause()
