"""Signals of hosts, network ports and disks.

``node_exporter``: names of prometheus/node_exporter 1.x, its textfile scripts and
smartctl_exporter; ``ipmi_exporter``: prometheus-community; ``redfish``: properties of Redfish
Thermal, Power and Sensor resources.
"""

from bigiron.signals.agent import AGENT
from bigiron.signals.noun import Bad, Kind, Signal, Source, signal

# InfiniBand port states: 1 down, 2 init, 3 armed, 4 active (IB specification, sysfs ABI).
_IB_ACTIVE = (Source("node_infiniband_state_id", table={4.0: 1.0}, otherwise=0.0),)

_IB_COUNTERS = (
    ("ib_link_downed_total", "times the link went down", "link_downed_total"),
    ("ib_symbol_errors_total", "symbols received wrong", "symbol_error_total symbol_errors_total"),
    ("ib_link_error_recovery_total", "times the link recovered", "link_error_recovery_total"),
    (
        "ib_rcv_errors_total",
        "packets received with an error",
        "port_errors_received_total port_receive_errors_total",
    ),
    (
        "ib_xmit_discards_total",
        "packets not sent because the port was down or congested",
        "port_discards_transmitted_total",
    ),
    (
        "ib_local_link_integrity_errors_total",
        "times too many local errors came in a row",
        "local_link_integrity_errors_total",
    ),
    (
        "ib_excessive_buffer_overruns_total",
        "times buffers overran for long",
        "excessive_buffer_overrun_errors_total",
    ),
    ("ib_rnr_nak_retry_total", "times the receiver was not ready", "rnr_nak_retry_err_total"),
    ("ib_xmit_wait_total", "ticks with data to send and no credit", "port_transmit_wait_total"),
    (
        "ib_rcv_constraint_errors_total",
        "packets refused by a switch port",
        "port_constraint_errors_received_total",
    ),
    ("roce_slow_restart_total", "RoCE slow restarts", "roce_slow_restart_total"),
)
_RDMA_COUNTERS = (
    ("ib_out_of_sequence_total", "packets received out of their order"),
    ("ib_packet_sequence_errors_total", "times the receiver told that packets are missing"),
    ("ib_local_ack_timeouts_total", "times the sender waited in vain for a receipt"),
    ("roce_icrc_errors_total", "RoCE packets received with a bad checksum"),
)
_IB: tuple[Signal, ...] = (
    signal(
        "ib_state", "state", Kind.STATE, Bad.LOW, "1: the port is active", node_exporter=_IB_ACTIVE
    ),
    signal(
        "ib_physical_state",
        "code",
        Kind.STATE,
        Bad.ANY,
        "1 sleep, 2 polling, 3 disabled, 4 training, 5 link up, 6 recovering",
        node_exporter="node_infiniband_physical_state_id",
    ),
    signal(
        "ib_rate_bits_per_second",
        "bits_per_second",
        Kind.GAUGE,
        Bad.LOW,
        "rate the port came up with",
        node_exporter="node_infiniband_rate_bytes_per_second*8",
    ),
    *(
        signal(
            name,
            "count",
            Kind.COUNTER,
            Bad.HIGH,
            text,
            node_exporter=" ".join(f"node_infiniband_{s}" for s in sources.split()),
        )
        for name, text, sources in _IB_COUNTERS
    ),
    *(signal(name, "count", Kind.COUNTER, Bad.HIGH, text) for name, text in _RDMA_COUNTERS),
    signal(
        "ib_rcv_bytes_total",
        "bytes",
        Kind.COUNTER,
        Bad.NONE,
        "bytes received",
        node_exporter="node_infiniband_port_data_received_bytes_total",
    ),
    signal(
        "ib_xmit_bytes_total",
        "bytes",
        Kind.COUNTER,
        Bad.NONE,
        "bytes sent",
        node_exporter="node_infiniband_port_data_transmitted_bytes_total",
    ),
    signal(
        "ib_carrier_changes_total",
        "count",
        Kind.COUNTER,
        Bad.HIGH,
        "times the port's network device lost or got its carrier",
    ),
)

_HOST: tuple[Signal, ...] = (
    signal(
        "node_boot_time_seconds",
        "unixtime",
        Kind.GAUGE,
        Bad.ANY,
        "when the host booted",
        node_exporter="node_boot_time",
    ),
    signal("node_load1", "count", Kind.GAUGE, Bad.NONE, "load average of one minute"),
    signal(
        "node_memory_available_bytes",
        "bytes",
        Kind.GAUGE,
        Bad.LOW,
        "memory to be had",
        node_exporter="node_memory_MemAvailable_bytes node_memory_MemAvailable",
    ),
    signal(
        "node_memory_total_bytes",
        "bytes",
        Kind.GAUGE,
        Bad.LOW,
        "memory the kernel sees",
        node_exporter="node_memory_MemTotal_bytes node_memory_MemTotal",
    ),
    signal(
        "node_hwmon_temp_celsius",
        "celsius",
        Kind.GAUGE,
        Bad.HIGH,
        "a sensor of the host; device chip:sensor",
        ipmi_exporter="ipmi_temperature_celsius",
        redfish="Temperatures.ReadingCelsius Sensors.Temperature.Reading",
    ),
    signal(
        "node_inlet_temp_celsius",
        "celsius",
        Kind.GAUGE,
        Bad.HIGH,
        "air or coolant coming in",
        redfish="EnvironmentMetrics.InletTemperatureCelsius",
    ),
    signal(
        "node_rail_volts",
        "volts",
        Kind.GAUGE,
        Bad.ANY,
        "a supply rail; device chip:sensor",
        node_exporter="node_hwmon_in_volts",
        ipmi_exporter="ipmi_voltage_volts",
        redfish="Voltages.ReadingVolts Sensors.Voltage.Reading",
    ),
    signal(
        "node_fan_rpm",
        "rpm",
        Kind.GAUGE,
        Bad.LOW,
        "a fan of the host",
        node_exporter="node_hwmon_fan_rpm",
        ipmi_exporter="ipmi_fan_speed_rpm",
        redfish="Fans.Reading Fans.SpeedRPM",
    ),
    signal(
        "node_pump_rpm",
        "rpm",
        Kind.GAUGE,
        Bad.LOW,
        "a pump of the host",
        redfish="Pumps.SpeedRPM Pumps.PumpSpeedRPM",
    ),
    signal(
        "node_power_watts",
        "watts",
        Kind.GAUGE,
        Bad.NONE,
        "power drawn by the host",
        node_exporter="node_hwmon_power_average_watt",
        ipmi_exporter="ipmi_dcmi_power_consumption_watts",
        redfish="PowerControl.PowerConsumedWatts EnvironmentMetrics.PowerWatts",
    ),
    signal(
        "node_psu_power_watts",
        "watts",
        Kind.GAUGE,
        Bad.ANY,
        "a supply's output",
        ipmi_exporter="ipmi_power_watts",
        redfish="PowerSupplies.PowerOutputWatts PowerSupplies.LastPowerOutputWatts",
    ),
    signal(
        "node_edac_correctable_total",
        "count",
        Kind.COUNTER,
        Bad.HIGH,
        "errors in host memory, corrected",
        node_exporter="node_edac_correctable_errors_total",
    ),
    signal(
        "node_edac_uncorrectable_total",
        "count",
        Kind.COUNTER,
        Bad.HIGH,
        "errors in host memory, not corrected",
        node_exporter="node_edac_uncorrectable_errors_total",
    ),
    signal(
        "node_oom_kills_total",
        "count",
        Kind.COUNTER,
        Bad.HIGH,
        "processes killed for memory",
        node_exporter="node_vmstat_oom_kill",
    ),
    signal(
        "node_filesystem_readonly",
        "state",
        Kind.STATE,
        Bad.HIGH,
        "1: mounted read-only; device is the mount point",
    ),
    signal(
        "node_scrape_up",
        "state",
        Kind.STATE,
        Bad.LOW,
        "1: the exporter answered; device is its job",
        prometheus="up",
    ),
    signal(
        "node_scrape_duration_seconds",
        "seconds",
        Kind.GAUGE,
        Bad.HIGH,
        "how long the exporter took; device is its job",
        prometheus="scrape_duration_seconds",
    ),
    signal(
        "node_scrape_samples",
        "count",
        Kind.GAUGE,
        Bad.LOW,
        "samples the exporter gave; device is its job",
        prometheus="scrape_samples_scraped",
    ),
    signal(
        "node_time_offset_seconds",
        "seconds",
        Kind.GAUGE,
        Bad.ANY,
        "how far the clock is off",
        node_exporter="node_timex_offset_seconds node_ntp_offset_seconds",
    ),
    signal(
        "node_network_carrier_changes_total",
        "count",
        Kind.COUNTER,
        Bad.HIGH,
        "times a network device lost or got its carrier",
    ),
    signal("node_network_up", "state", Kind.STATE, Bad.LOW, "1: the network device is up"),
    signal(
        "node_network_speed_bytes_per_second",
        "bytes_per_second",
        Kind.GAUGE,
        Bad.LOW,
        "speed the network device came up with",
        node_exporter="node_network_speed_bytes",
    ),
)

_NVME: tuple[Signal, ...] = (
    signal(
        "nvme_spare_ratio",
        "ratio",
        Kind.GAUGE,
        Bad.LOW,
        "spare blocks left",
        node_exporter="nvme_available_spare_ratio smartctl_device_available_spare*0.01",
    ),
    signal(
        "nvme_media_errors_total",
        "count",
        Kind.COUNTER,
        Bad.HIGH,
        "data the disk lost",
        node_exporter="smartctl_device_media_errors",
    ),
    signal(
        "nvme_critical_warning",
        "mask",
        Kind.MASK,
        Bad.HIGH,
        "SMART critical warning bits (NVMe base specification)",
        node_exporter="nvme_critical_warning_total smartctl_device_critical_warning",
    ),
    signal(
        "nvme_used_ratio",
        "ratio",
        Kind.GAUGE,
        Bad.HIGH,
        "share of rated wear used",
        node_exporter="nvme_percentage_used_ratio smartctl_device_percentage_used*0.01",
    ),
    signal(
        "nvme_temp_celsius",
        "celsius",
        Kind.GAUGE,
        Bad.HIGH,
        "temperature of the disk",
        node_exporter="nvme_temperature_celsius smartctl_device_temperature",
    ),
)

NODE: tuple[Signal, ...] = _IB + _HOST + _NVME + AGENT
