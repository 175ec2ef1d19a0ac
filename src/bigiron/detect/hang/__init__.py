"""A GPU driver that hangs: its GPUs' readings end or stand still while the node lives.

An exporter that died looks the same at first, and blames nobody. What tells them apart is the
host: whatever asks the driver waits for ever, so tasks hang in the kernel and the load average
climbs although no job began.
"""

from typing import TYPE_CHECKING

from bigiron.detect import StatefulDetector, fold

if TYPE_CHECKING:
    from bigiron.detect.hang.fold import State

READS = (
    "node_load1",
    "gpu_temp_celsius",
    "gpu_power_watts",
    "gpu_utilization_ratio",
    "gpu_sm_clock_hertz",
)


@fold(reads=READS)
def hang() -> "StatefulDetector[State]":
    """Nodes whose GPU driver no longer answers while they live."""
    from bigiron.detect.hang.fold import Hangs

    return Hangs()
