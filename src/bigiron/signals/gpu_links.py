"""Signals of accelerators' PCIe, NVLink and XGMI. Sources as in ``gpu``."""

from bigiron.signals.noun import Bad, Kind, Signal, Source, signal

# GT/s per lane -> PCIe generation (PCI-SIG).
_GEN = {2.5: 1.0, 5.0: 2.0, 8.0: 3.0, 16.0: 4.0, 32.0: 5.0, 64.0: 6.0}

_PCIE: tuple[Signal, ...] = (
    signal(
        "gpu_pcie_link_gen",
        "gen",
        Kind.GAUGE,
        Bad.LOW,
        "PCIe generation in use; falls when idle and rises with load",
        dcgm="DCGM_FI_DEV_PCIE_LINK_GEN",
        nvml="pcie.link.gen.current pcie.link.gen.gpucurrent",
        nvidia_gpu_exporter="nvidia_smi_pcie_link_gen_current",
        amd_exporter=(Source("PCIE_SPEED", table=_GEN),),
        amd_smi=(Source("pcie.speed", table=_GEN),),
    ),
    signal(
        "gpu_pcie_link_width",
        "lanes",
        Kind.GAUGE,
        Bad.LOW,
        "PCIe lanes in use",
        dcgm="DCGM_FI_DEV_PCIE_LINK_WIDTH",
        nvml="pcie.link.width.current",
        nvidia_gpu_exporter="nvidia_smi_pcie_link_width_current",
        amd_smi="pcie.width",
    ),
    signal(
        "gpu_pcie_link_gen_max",
        "gen",
        Kind.GAUGE,
        Bad.LOW,
        "highest PCIe generation here",
        dcgm="DCGM_FI_DEV_PCIE_MAX_LINK_GEN",
        nvml="pcie.link.gen.max",
        nvidia_gpu_exporter="nvidia_smi_pcie_link_gen_max",
        amd_exporter=(Source("PCIE_MAX_SPEED", table=_GEN),),
    ),
    signal(
        "gpu_pcie_link_width_max",
        "lanes",
        Kind.GAUGE,
        Bad.LOW,
        "most PCIe lanes here",
        dcgm="DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH",
        nvml="pcie.link.width.max",
        nvidia_gpu_exporter="nvidia_smi_pcie_link_width_max",
    ),
    signal(
        "gpu_pcie_replays_total",
        "count",
        Kind.COUNTER,
        Bad.HIGH,
        "PCIe packets sent again",
        dcgm="DCGM_FI_DEV_PCIE_REPLAY_COUNTER DCGM_FI_DEV_PCIE_REPLAY_TOTAL "
        "dcgm_pcie_replay_counter",
        amd_exporter="PCIE_REPLAY_COUNT",
        amd_smi="pcie.replay_count",
    ),
    signal(
        "gpu_pcie_replay_rollovers_total",
        "count",
        Kind.COUNTER,
        Bad.HIGH,
        "times the replay counter ran over, after which the link retrains",
        amd_exporter="PCIE_REPLAY_ROLLOVER_COUNT",
        amd_smi="pcie.replay_roll_over_count",
    ),
    signal(
        "gpu_pcie_nak_sent_total",
        "count",
        Kind.COUNTER,
        Bad.HIGH,
        "bad packets refused",
        amd_exporter="PCIE_NACK_SENT_COUNT",
        amd_smi="pcie.nak_sent_count",
    ),
    signal(
        "gpu_pcie_nak_received_total",
        "count",
        Kind.COUNTER,
        Bad.HIGH,
        "packets the other end refused",
        amd_exporter="PCIE_NACK_RECEIVED_COUNT",
        amd_smi="pcie.nak_received_count",
    ),
    signal(
        "gpu_pcie_recoveries_total",
        "count",
        Kind.COUNTER,
        Bad.HIGH,
        "times the link went from L0 to recovery",
        amd_exporter="PCIE_RECOVERY_COUNT",
        amd_smi="pcie.l0_to_recovery_count",
    ),
    *(
        signal(
            f"gpu_pcie_{way}_bytes_per_second",
            "bytes_per_second",
            Kind.GAUGE,
            Bad.NONE,
            f"PCIe traffic, {text}",
            dcgm=f"DCGM_FI_PROF_PCIE_{way.upper()}_BYTES dcgm_fi_prof_pcie_{way}_bytes "
            f"DCGM_FI_DEV_PCIE_{way.upper()}_THROUGHPUT*1000",
        )
        for way, text in (("rx", "received"), ("tx", "sent"))
    ),
    signal(
        "pcie_aer_correctable_total",
        "count",
        Kind.COUNTER,
        Bad.HIGH,
        "AER correctable errors",
        dcgm="DCGM_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS DCGM_FI_DEV_PCIE_CORRECTABLE_ERROR_TOTAL",
        node_exporter="node_pcidevice_aer_correctable_total",
    ),
    signal("pcie_aer_nonfatal_total", "count", Kind.COUNTER, Bad.HIGH, "AER non-fatal errors"),
    signal("pcie_aer_fatal_total", "count", Kind.COUNTER, Bad.HIGH, "AER fatal errors"),
)

_NVLINK_ERRORS = (
    ("crc_flit_errors", "CRC_FLIT_ERROR", "flits with a bad checksum"),
    ("crc_data_errors", "CRC_DATA_ERROR", "data with a bad checksum"),
    ("replays", "REPLAY_ERROR", "packets sent again"),
    ("recoveries", "RECOVERY_ERROR", "links that recovered"),
)
_NVLINK: tuple[Signal, ...] = (
    *(
        signal(
            f"gpu_nvlink_{name}_total",
            "count",
            Kind.COUNTER,
            Bad.HIGH,
            f"NVLink: {text}, all links",
            dcgm=f"DCGM_FI_DEV_NVLINK_{field}_COUNT_TOTAL DCGM_FI_DEV_NVLINK_{field}_TOTAL"
            + {
                "crc_flit_errors": " DCGM_FI_DEV_NVLINK_ERROR_DL_CRC "
                "DCGM_FI_DEV_NVLINK_CRC_ERROR_TOTAL",
                "replays": " DCGM_FI_DEV_NVLINK_ERROR_DL_REPLAY DCGM_FI_DEV_NVLINK_REPLAY_TOTAL",
                "recoveries": " DCGM_FI_DEV_NVLINK_ERROR_DL_RECOVERY "
                "DCGM_FI_DEV_NVLINK_RECOVERY_TOTAL"
                " DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS "
                "DCGM_FI_DEV_NVLINK_RECOVERY_EVENT_TOTAL",
            }.get(name, ""),
        )
        for name, field, text in _NVLINK_ERRORS
    ),
    signal("gpu_nvlink_links_up", "count", Kind.GAUGE, Bad.LOW, "NVLinks that work"),
    signal("gpu_nvlink_links_down", "count", Kind.GAUGE, Bad.HIGH, "NVLinks that do not"),
    signal(
        "gpu_nvlink_bandwidth_bytes_per_second",
        "bytes_per_second",
        Kind.GAUGE,
        Bad.NONE,
        "NVLink traffic, both ways, all links; DCGM gives KiB/s divided by 1000, a rate whatever "
        "its TYPE line says",
        dcgm="DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL*1024000 "
        "DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL*1024000 dcgm_nvlink_bandwidth_total*1024000 "
        "DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND",
    ),
    *(
        signal(
            f"gpu_nvlink_{way}_bytes_per_second",
            "bytes_per_second",
            Kind.GAUGE,
            Bad.NONE,
            f"NVLink traffic, {text}, all links",
            dcgm=f"DCGM_FI_PROF_NVLINK_{way.upper()}_BYTES",
        )
        for way, text in (("rx", "received"), ("tx", "sent"))
    ),
    *(
        signal(
            f"gpu_nvlink_{way}_bytes_total",
            "bytes",
            Kind.COUNTER,
            Bad.NONE,
            f"bytes {text}",
            dcgm=f"DCGM_FI_DEV_NVLINK_COUNT_{way.upper()}_BYTES "
            f"DCGM_FI_DEV_NVLINK_{way.upper()}_BYTES_TOTAL",
        )
        for way, text in (("rx", "received"), ("tx", "sent"))
    ),
    signal(
        "gpu_nvlink_effective_ber",
        "ber",
        Kind.GAUGE,
        Bad.HIGH,
        "bit errors left after FEC",
        dcgm="DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER_FLOAT DCGM_FI_DEV_NVLINK_EFFECTIVE_BER_RATIO",
    ),
    signal(
        "gpu_nvlink_symbol_ber",
        "ber",
        Kind.GAUGE,
        Bad.HIGH,
        "symbol errors after FEC",
        dcgm="DCGM_FI_DEV_NVLINK_COUNT_SYMBOL_BER_FLOAT DCGM_FI_DEV_NVLINK_SYMBOL_BER_RATIO",
    ),
    signal(
        "gpu_nvlink_speed_bytes_per_second",
        "bytes_per_second",
        Kind.GAUGE,
        Bad.LOW,
        "speed one NVLink came up with",
    ),
)

_XGMI: tuple[Signal, ...] = (
    signal("gpu_xgmi_correctable_total", "count", Kind.COUNTER, Bad.HIGH, "XGMI corrected errors"),
    signal(
        "gpu_xgmi_uncorrectable_total", "count", Kind.COUNTER, Bad.HIGH, "XGMI errors not corrected"
    ),
    *(
        signal(
            f"gpu_xgmi_{way}_bytes_total",
            "bytes",
            Kind.COUNTER,
            Bad.NONE,
            f"XGMI bytes {text}",
            amd_exporter=f"GPU_XGMI_LINK_{way.upper()}*1024",
        )
        for way, text in (("rx", "received"), ("tx", "sent"))
    ),
    signal("gpu_xgmi_links_down", "count", Kind.GAUGE, Bad.HIGH, "XGMI links that do not work"),
)

GPU_LINKS: tuple[Signal, ...] = _PCIE + _NVLINK + _XGMI
