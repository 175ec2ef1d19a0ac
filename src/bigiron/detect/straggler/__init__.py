"""The host that slows its job: whose GPUs wait for it while the other ranks wait for them.

In bulk-synchronous training every rank waits for the slowest in the next collective, and waiting
looks like work: a kernel spins, utilisation stays near 100 %. What tells the straggler from its
victims is what it does *not* share with them: its GPUs idle while the others spin, or they compute
while the others only wait (methods.md 3.1). A node is compared with the other nodes of its job at
the same time, and that difference with the node's own past: a pattern that a job has from its
start is the job's (stages of unequal work), one that follows the node into other jobs, or begins
in the middle of one, is the node's.

The modules beside this one import numpy and are loaded only where folds run.
"""

from typing import TYPE_CHECKING

from bigiron.detect import StatefulDetector, fold

if TYPE_CHECKING:
    from bigiron.detect.straggler.state import State

READS: tuple[str, ...] = (
    "gpu_utilization_ratio",
    "gpu_sm_active_ratio",
    "gpu_power_watts",
    "gpu_step_compute_seconds",
    "node_load1",
)


@fold(reads=READS)
def straggler() -> "StatefulDetector[State]":
    """Hosts that hold their jobs up, by what their GPUs do while the others wait."""
    from bigiron.detect.straggler.fold import Straggler

    return Straggler()
