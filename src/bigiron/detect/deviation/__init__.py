"""Peers and own past in one: what differs from its like more than it used to, and stays so.

For each stream of a device (thermal resistance, clock, ...): its value less what its load
explains, less the median of its cohort at the same time, less its own baseline. That double
difference is averaged over an hour at work, divided by a spread pooled over the fleet, and
accumulated one-sided in the bad direction. Common changes cancel in the cohort, old oddities in
the baseline, chance in the accumulation (methods.md 3.1; docs/detection.md).

The modules beside this one import numpy and are loaded only where folds run.
"""

from typing import TYPE_CHECKING

from bigiron.detect import StatefulDetector, fold

if TYPE_CHECKING:
    from bigiron.detect.deviation.state import State

READS: tuple[str, ...] = (
    "gpu_temp_celsius",
    "gpu_memory_temp_celsius",
    "gpu_power_watts",
    "gpu_sm_clock_hertz",
    "gpu_clock_event_reasons",
    "gpu_utilization_ratio",
    "gpu_sm_active_ratio",
    "gpu_fan_speed_ratio",
    "gpu_throttle_thermal_seconds_total",
    "gpu_throttle_sw_thermal_seconds_total",
    "gpu_throttle_hw_thermal_seconds_total",
    "gpu_throttle_hw_power_brake_seconds_total",
    "gpu_throttle_hw_slowdown_seconds_total",
    "gpu_throttle_reliability_seconds_total",
    "gpu_throttle_board_limit_seconds_total",
    "gpu_pcie_rx_bytes_per_second",
    "gpu_pcie_tx_bytes_per_second",
    "gpu_nvlink_bandwidth_bytes_per_second",
    "node_inlet_temp_celsius",
    "node_hwmon_temp_celsius",
    "node_rail_volts",
    "node_fan_rpm",
    "node_pump_rpm",
    "node_scrape_duration_seconds",
)


@fold(reads=READS)
def deviation() -> "StatefulDetector[State]":
    """Parts that drift away from their peers and their own past."""
    from bigiron.detect.deviation.fold import Deviation

    return Deviation()
