"""Signals that only AMD's accelerators have. Sources as in ``gpu``."""

from bigiron.signals.noun import Bad, Kind, Signal, signal

GPU_AMD: tuple[Signal, ...] = (
    signal(
        "gpu_edge_temp_celsius",
        "celsius",
        Kind.GAUGE,
        Bad.HIGH,
        "temperature at the edge of the GPU die, which is cooler than the junction",
    ),
    signal(
        "gpu_vr_temp_celsius",
        "celsius",
        Kind.GAUGE,
        Bad.HIGH,
        "temperature of the GPU's voltage regulators, the hottest",
    ),
    signal(
        "gpu_memory_temp_slowdown_celsius",
        "celsius",
        Kind.GAUGE,
        Bad.NONE,
        "where clocks are lowered because of GPU memory",
    ),
    signal(
        "gpu_memory_temp_shutdown_celsius",
        "celsius",
        Kind.GAUGE,
        Bad.NONE,
        "where the GPU shuts down because of its memory",
    ),
    *(
        signal(
            f"gpu_throttle_{name}_seconds_total",
            "seconds",
            Kind.COUNTER,
            Bad.HIGH,
            f"time at lowered clocks: {why}",
        )
        for name, why in (
            ("vr_thermal", "a voltage regulator was too hot"),
            ("memory_thermal", "GPU memory was too hot"),
        )
    ),
    signal(
        "gpu_bad_pages_threshold",
        "count",
        Kind.GAUGE,
        Bad.NONE,
        "retired pages at which the driver asks for the GPU to be replaced",
    ),
    signal(
        "gpu_pcie_other_end_recoveries_total",
        "count",
        Kind.COUNTER,
        Bad.HIGH,
        "times the other end asked the PCIe link to recover",
    ),
    signal("gpu_xgmi_links_up", "count", Kind.GAUGE, Bad.LOW, "XGMI links that work"),
    signal("gpu_xgmi_link_width", "lanes", Kind.GAUGE, Bad.LOW, "lanes of an XGMI link in use"),
    signal(
        "gpu_xgmi_speed_bytes_per_second",
        "bytes_per_second",
        Kind.GAUGE,
        Bad.LOW,
        "speed one XGMI link came up with, one way",
    ),
)
