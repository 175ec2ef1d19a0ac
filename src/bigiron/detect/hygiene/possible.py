"""What a sensor can read at all. Outside it the reading is a glitch and says nothing.

The bounds are physical and generous: they must hold for parts that are broken, too. By unit
first, then by metric where one differs.
"""

from collections.abc import Mapping

from bigiron import signals

BY_UNIT: Mapping[str, tuple[float, float]] = {
    # Silicon shuts itself down near 95 °C (NVML) and below 125 °C; the air of a data centre is
    # between 5 and 45 °C (ASHRAE TC 9.9 class A4).
    "celsius": (-20.0, 150.0),
    # The largest accelerators take 1,400 W, a node of eight with its fans below 20 kW.
    "watts": (0.0, 40_000.0),
    # The fastest graphics and memory clocks of these parts lie below 4 GHz.
    "hertz": (0.0, 5e9),
    # A share; exporters round and average to a little more than all.
    "ratio": (0.0, 1.05),
    # Rails of 0.7 to 54 V.
    "volts": (0.0, 65.0),
    "rpm": (0.0, 60_000.0),
    "seconds": (-1e12, 1e12),
    "bytes": (0.0, 1e16),
    # 1.8 TB/s is what all NVLinks of one GPU move together (facts.md 6).
    "bytes_per_second": (0.0, 1e14),
    "bits_per_second": (0.0, 1e14),
    # Bits wrong of all bits.
    "ber": (0.0, 1.0),
}

BY_METRIC: Mapping[str, tuple[float, float]] = {
    # A GPU in a machine room is never at 0 °C: exporters read 0 where there is no sensor.
    "gpu_temp_celsius": (1.0, 150.0),
    "gpu_memory_temp_celsius": (1.0, 150.0),
    # A margin is the distance to a limit and may be negative.
    "gpu_temp_margin_celsius": (-60.0, 150.0),
    # An idle accelerator draws tens of watts, one at its limit at most 1,400: 3 kW is impossible.
    "gpu_power_watts": (1.0, 3_000.0),
    "gpu_power_limit_watts": (1.0, 3_000.0),
    "gpu_sm_clock_hertz": (1.0, 5e9),
    "gpu_memory_clock_hertz": (1.0, 2e10),
    "gpu_memory_clock_max_hertz": (1.0, 2e10),
    # From the epoch to the year 2100.
    "node_boot_time_seconds": (1.0, 4_102_444_800.0),
    "node_time_offset_seconds": (-1e9, 1e9),
    # A load average of more than a million processes is none.
    "node_load1": (0.0, 1e6),
    # A link has at most 16 lanes (32 in the specification), generations so far end at 7.
    "gpu_pcie_link_width": (0.0, 32.0),
    "gpu_pcie_link_gen": (0.0, 8.0),
}

COUNTER = (0.0, 1.8e19)
"""A counter is not negative and fits 64 bits."""

ANY = (-1e300, 1e300)

IN_THE_PART = ("gpu_remapped_rows_", "gpu_retired_pages_", "gpu_row_remap_", "nvme_")


def bounds(metric: str) -> tuple[float, float]:
    """The least and the most a metric can be, both possible."""
    found = BY_METRIC.get(metric)
    if found is None:
        signal = signals.SIGNALS.get(metric)
        unit = signal.unit if signal is not None else metric.rsplit("_", 1)[-1]
        found = COUNTER if is_counter(metric) else BY_UNIT.get(unit, ANY)
    return found


def is_counter(metric: str) -> bool:
    """Whether a metric only counts upwards."""
    signal = signals.SIGNALS.get(metric)
    if signal is None:
        return metric.endswith("_total")
    return signal.kind is signals.Kind.COUNTER


def is_gauge(metric: str) -> bool:
    """Whether a metric is a reading that moves freely, no state and no mask."""
    signal = signals.SIGNALS.get(metric)
    return not is_counter(metric) if signal is None else signal.kind is signals.Kind.GAUGE


def outlives_boot(metric: str) -> bool:
    """Whether a counter is kept in the part itself, so that its growth over a boot is real.

    Aggregate error counts, remapped rows and retired pages are kept in the InfoROM (NVML), an
    NVMe drive's media errors in the drive (NVMe base specification, SMART log).
    """
    return "_aggregate_" in metric or metric.startswith(IN_THE_PART)
