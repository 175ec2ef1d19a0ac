"""Signals of a host that the node agent reads itself.

Documentation/accounting/psi.rst, /proc/vmstat, adjtimex(2), EDAC, the baseboard controller (BMC).
"""

from bigiron.signals.noun import Bad, Kind, Signal, signal

_PRESSURE = (
    ("cpu_waiting", "time that some task waited for a processor"),
    ("memory_waiting", "time that some task waited for memory"),
    ("memory_stalled", "time that all tasks waited for memory"),
    ("io_waiting", "time that some task waited for storage"),
    ("io_stalled", "time that all tasks waited for storage"),
)
AGENT: tuple[Signal, ...] = (
    *(
        signal(f"node_pressure_{name}_seconds_total", "seconds", Kind.COUNTER, Bad.NONE, text)
        for name, text in _PRESSURE
    ),
    signal(
        "node_memory_corrupted_bytes",
        "bytes",
        Kind.GAUGE,
        Bad.HIGH,
        "memory that the kernel no longer uses because it was damaged",
        node_exporter="node_memory_HardwareCorrupted_bytes",
    ),
    signal(
        "node_tasks_stuck",
        "count",
        Kind.GAUGE,
        Bad.HIGH,
        "processes stuck in the kernel for two minutes and more",
    ),
    signal(
        "node_machine_checks_total",
        "count",
        Kind.COUNTER,
        Bad.HIGH,
        "machine check exceptions of all CPUs",
    ),
    signal(
        "node_service_up", "state", Kind.STATE, Bad.LOW, "1: the service runs; device is its name"
    ),
    signal(
        "node_time_synchronized",
        "state",
        Kind.STATE,
        Bad.LOW,
        "1: the clock follows a time source",
        node_exporter="node_timex_sync_status",
    ),
    signal(
        "node_filesystem_answers",
        "state",
        Kind.STATE,
        Bad.LOW,
        "1: the file system answered in time; device is the mount point",
    ),
    signal(
        "node_filesystem_used_ratio",
        "ratio",
        Kind.GAUGE,
        Bad.HIGH,
        "share of a file system's bytes in use; device is the mount point",
    ),
    signal(
        "node_filesystem_inodes_used_ratio",
        "ratio",
        Kind.GAUGE,
        Bad.HIGH,
        "share of a file system's inodes in use; device is the mount point",
    ),
    signal(
        "node_power_cap_watts",
        "watts",
        Kind.GAUGE,
        Bad.LOW,
        "what the BMC lets the host draw",
        redfish="PowerControl.PowerLimit.LimitInWatts PowerLimitWatts.SetPoint",
    ),
    signal(
        "node_psu_up",
        "state",
        Kind.STATE,
        Bad.LOW,
        "1: the supply is there, well and has input",
    ),
    signal(
        "node_redundant",
        "state",
        Kind.STATE,
        Bad.LOW,
        "1: one of the supplies or fans may fail; device says which of the two",
    ),
    signal(
        "node_fan_ratio",
        "ratio",
        Kind.GAUGE,
        Bad.NONE,
        "a fan's speed, of its greatest",
        redfish="Fans.SpeedPercent.Reading*0.01",
    ),
    signal(
        "node_sel_used_ratio", "ratio", Kind.GAUGE, Bad.HIGH, "share of the BMC's event log in use"
    ),
    signal("nvme_up", "state", Kind.STATE, Bad.LOW, "1: the kernel's driver has the drive live"),
    signal(
        "agent_collector_success",
        "state",
        Kind.STATE,
        Bad.NONE,
        "1: the collector read what is there, or there is nothing to read; device is its name",
    ),
    signal(
        "agent_collector_absent",
        "state",
        Kind.STATE,
        Bad.NONE,
        "1: the machine has nothing that the collector could read; device is its name",
    ),
    signal(
        "agent_collector_duration_seconds",
        "seconds",
        Kind.GAUGE,
        Bad.NONE,
        "how long the collector's last look took; device is its name",
    ),
    signal(
        "agent_clock_skew_seconds",
        "seconds",
        Kind.GAUGE,
        Bad.NONE,
        "how far the node's clock is ahead of the hub's",
    ),
    signal(
        "agent_spool_bytes", "bytes", Kind.GAUGE, Bad.NONE, "what waits on the node for the hub"
    ),
    signal(
        "agent_dropped_packets_total",
        "count",
        Kind.COUNTER,
        Bad.NONE,
        "packets dropped for want of room before the hub took them; device is their lane",
    ),
    signal(
        "agent_memory_bytes",
        "bytes",
        Kind.GAUGE,
        Bad.NONE,
        "memory of the agent's processes that is theirs alone",
    ),
)
