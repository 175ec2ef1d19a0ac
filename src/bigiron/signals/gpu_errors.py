"""Signals of memory errors, repairs and codes of accelerators. Sources as in ``gpu``."""

from bigiron.signals.noun import Bad, Kind, Signal, Source, signal

# DCGM's suffix, nvidia-smi's word and ours for each memory.
_PLACES = (
    ("SRM", "sram", "sram"),
    ("DEV", "dram", "dram"),
    ("L1", "l1_cache", "l1"),
    ("L2", "l2_cache", "l2"),
    ("REG", "register_file", "register"),
    ("TEX", "texture_memory", "texture"),
    ("SHM", "", "shared"),
    ("CBU", "cbu", "cbu"),
)
_SINCE = (("VOL", "volatile", "since the driver loaded"), ("AGG", "aggregate", "over its life"))
_SORTS = (("SBE", "corrected", "correctable"), ("DBE", "uncorrected", "uncorrectable"))


def _ecc_total(sort: tuple[str, str, str], since: tuple[str, str, str]) -> Signal:
    nvml = f"ecc.errors.{sort[1]}.{since[1]}.total"
    exporters = {
        "dcgm": f"DCGM_FI_DEV_ECC_{sort[0]}_{since[0]}_TOTAL",
        "nvml": nvml,
        "nvidia_gpu_exporter": "nvidia_smi_" + nvml.replace(".", "_"),
    }
    return signal(
        f"gpu_ecc_{sort[2]}_{since[1]}_total",
        "count",
        Kind.COUNTER,
        Bad.HIGH,
        f"{sort[2]} memory errors {since[2]}",
        **exporters,
    )


def _ecc_place(
    place: tuple[str, str, str], sort: tuple[str, str, str], since: tuple[str, str, str]
) -> Signal:
    exporters = {"dcgm": f"DCGM_FI_DEV_ECC_{sort[0]}_{since[0]}_{place[0]}"}
    if place[1]:
        nvml = f"ecc.errors.{sort[1]}.{since[1]}."
        names = [nvml + place[1]] + ([nvml + "device_memory"] if place[2] == "dram" else [])
        exporters["nvml"] = " ".join(names)
        exporters["nvidia_gpu_exporter"] = " ".join(
            "nvidia_smi_" + name.replace(".", "_") for name in names
        )
    return signal(
        f"gpu_ecc_{place[2]}_{sort[2]}_{since[1]}_total",
        "count",
        Kind.COUNTER,
        Bad.HIGH,
        f"{sort[2]} errors in {place[2]} {since[2]}",
        **exporters,
    )


_ECC: tuple[Signal, ...] = (
    *(_ecc_total(sort, since) for since in _SINCE for sort in _SORTS),
    *(_ecc_place(p, sort, since) for p in _PLACES for since in _SINCE for sort in _SORTS),
    *(
        signal(
            f"gpu_ecc_sram_{check}_uncorrectable_{since}_total",
            "count",
            Kind.COUNTER,
            Bad.HIGH,
            f"uncorrectable errors in sram that {text} found {when}",
            nvml=f"ecc.errors.uncorrected.{since}.sram.{check}",
        )
        for check, text in (("parity", "parity"), ("secded", "SEC-DED"))
        for _, since, when in _SINCE
    ),
)

_BANKS = ("max", "high", "partial", "low", "none")
_REPAIR: tuple[Signal, ...] = (
    signal(
        "gpu_sram_threshold_exceeded",
        "state",
        Kind.STATE,
        Bad.HIGH,
        "1: SRAM errors passed NVIDIA's threshold for replacing the GPU",
        dcgm="DCGM_FI_DEV_THRESHOLD_SRM DCGM_FI_DEV_SRAM_EXCEEDED",
    ),
    signal(
        "gpu_remapped_rows_correctable_total",
        "count",
        Kind.COUNTER,
        Bad.HIGH,
        "rows replaced after correctable errors",
        dcgm="DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL",
        nvml="remapped_rows.correctable",
        nvidia_gpu_exporter="nvidia_smi_remapped_rows_correctable",
    ),
    signal(
        "gpu_remapped_rows_uncorrectable_total",
        "count",
        Kind.COUNTER,
        Bad.HIGH,
        "rows replaced after uncorrectable errors",
        dcgm="DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL",
        nvml="remapped_rows.uncorrectable",
        nvidia_gpu_exporter="nvidia_smi_remapped_rows_uncorrectable",
    ),
    signal(
        "gpu_row_remap_pending",
        "state",
        Kind.STATE,
        Bad.HIGH,
        "1: a row is replaced at reset",
        dcgm="DCGM_FI_DEV_ROW_REMAP_PENDING",
        nvml="remapped_rows.pending",
        nvidia_gpu_exporter="nvidia_smi_remapped_rows_pending",
    ),
    signal(
        "gpu_row_remap_failure",
        "state",
        Kind.STATE,
        Bad.HIGH,
        "1: a row could not be replaced",
        dcgm="DCGM_FI_DEV_ROW_REMAP_FAILURE DCGM_FI_DEV_ROW_REMAP_FAILED",
        nvml="remapped_rows.failure",
        nvidia_gpu_exporter="nvidia_smi_remapped_rows_failure",
    ),
    *(
        signal(
            f"gpu_row_remap_banks_{b}",
            "count",
            Kind.GAUGE,
            Bad.HIGH if b in ("partial", "low", "none") else Bad.LOW,
            f"memory banks with {b} spare rows",
            dcgm=f"DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_{b.upper()} "
            f"DCGM_FI_DEV_BANK_REMAP_AVAIL_{b.upper()}",
            nvml=f"remapped_rows.histogram.{b}",
            nvidia_gpu_exporter=f"nvidia_smi_remapped_rows_histogram_{b}",
        )
        for b in _BANKS
    ),
    signal(
        "gpu_retired_pages_sbe_total",
        "count",
        Kind.COUNTER,
        Bad.HIGH,
        "pages retired after repeated correctable errors",
        dcgm="DCGM_FI_DEV_RETIRED_SBE DCGM_FI_DEV_PAGE_RETIRED_SBE_TOTAL",
        nvml="retired_pages.single_bit_ecc.count retired_pages.sbe",
        nvidia_gpu_exporter="nvidia_smi_retired_pages_single_bit_ecc_count",
    ),
    signal(
        "gpu_retired_pages_dbe_total",
        "count",
        Kind.COUNTER,
        Bad.HIGH,
        "pages retired after an uncorrectable error",
        dcgm="DCGM_FI_DEV_RETIRED_DBE DCGM_FI_DEV_PAGE_RETIRED_DBE_TOTAL",
        nvml="retired_pages.double_bit.count retired_pages.dbe",
        nvidia_gpu_exporter="nvidia_smi_retired_pages_double_bit_count",
    ),
    signal(
        "gpu_retired_pages_pending",
        "count",
        Kind.GAUGE,
        Bad.HIGH,
        "pages retired at reboot",
        dcgm="DCGM_FI_DEV_RETIRED_PENDING DCGM_FI_DEV_PAGE_RETIRED_PENDING",
        nvml="retired_pages.pending",
        nvidia_gpu_exporter="nvidia_smi_retired_pages_pending",
    ),
)

# dcgm-exporter writes DCGM's health result: 0 pass, 10 warn, 20 fail (dcgm_structs.h).
_DCGM_HEALTH = (Source("DCGM_EXP_GPU_HEALTH_STATUS", table={0.0: 1.0}, otherwise=0.0),)
_CODES: tuple[Signal, ...] = (
    signal(
        "gpu_xid_last",
        "code",
        Kind.STATE,
        Bad.HIGH,
        "the last Xid seen, which stays until another comes; not a count",
        dcgm="DCGM_FI_DEV_XID_ERRORS DCGM_FI_DEV_XID_ERROR dcgm_xid_errors",
    ),
    signal(
        "gpu_xid_count_total",
        "count",
        Kind.COUNTER,
        Bad.HIGH,
        "Xids seen, by number: device gpu0:xid79. An exporter's window may let it fall",
        dcgm="DCGM_EXP_XID_ERRORS_TOTAL DCGM_EXP_XID_ERRORS_COUNT",
    ),
    signal(
        "gpu_clock_events_total",
        "count",
        Kind.COUNTER,
        Bad.HIGH,
        "clock events seen, by reason: device gpu0:hw_thermal. A window may let it fall",
        dcgm="DCGM_EXP_CLOCK_EVENTS_TOTAL DCGM_EXP_CLOCK_EVENTS_COUNT",
    ),
    signal(
        "gpu_recovery_action",
        "code",
        Kind.STATE,
        Bad.HIGH,
        "what the driver asks for: 0 none, 1 GPU reset, 2 reboot, 3 drain, 4 drain and reset",
        dcgm="DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION DCGM_FI_DEV_GPU_RECOVERY_ACTION",
    ),
    signal(
        "gpu_fabric_state",
        "code",
        Kind.STATE,
        Bad.ANY,
        "joining the NVLink fabric: 0 not supported, 1 not started, 2 in progress, 3 done",
        dcgm="DCGM_FI_DEV_FABRIC_MANAGER_STATUS",
        nvml="fabric.state",
    ),
    signal(
        "gpu_fabric_health_mask",
        "mask",
        Kind.MASK,
        Bad.ANY,
        "two bits each, 0 not known, 1 a fault, 2 well: nvml.h, NVML_GPU_FABRIC_HEALTH_MASK",
        dcgm="DCGM_FI_DEV_FABRIC_HEALTH_MASK",
    ),
    signal(
        "gpu_health",
        "state",
        Kind.STATE,
        Bad.LOW,
        "the exporter's own word: 1 well, 0 not; of several watches the worst",
        dcgm=_DCGM_HEALTH,
        amd_exporter="GPU_HEALTH",
    ),
)

_RAS_BLOCKS = (
    "umc sdma gfx mmhub athub pcie_bif hdp xgmi_wafl df smn sem mp0 mp1 fuse mca vcn jpeg ih mpio"
)
_RAS_SORTS = (
    ("correctable", "CORRECT", "correctable_count", "corrected"),
    ("uncorrectable", "UNCORRECT", "uncorrectable_count", "not corrected"),
    ("deferred", "DEFERRED", "deferred_count", "poison, not yet consumed"),
)
_RAS: tuple[Signal, ...] = (
    *(
        signal(
            f"gpu_ras_{sort}_total",
            "count",
            Kind.COUNTER,
            Bad.HIGH,
            f"errors in all blocks, {text}",
            amd_exporter=f"GPU_ECC_{amd}_TOTAL",
            amd_smi=f"ecc.total_{smi}",
        )
        for sort, amd, smi, text in _RAS_SORTS
    ),
    *(
        signal(
            f"gpu_ras_{block}_{sort}_total",
            "count",
            Kind.COUNTER,
            Bad.HIGH,
            f"errors in {block}, {text}",
            amd_exporter=f"GPU_ECC_{amd}_{block.removeprefix('pcie_').upper()}",
            amd_smi=f"ecc_blocks.{block.upper()}.{smi}",
        )
        for block in _RAS_BLOCKS.split()
        for sort, amd, smi, text in _RAS_SORTS
    ),
    *(
        signal(
            f"gpu_bad_pages_{what}",
            "count",
            Kind.GAUGE,
            Bad.HIGH,
            f"memory pages {text}",
            amd_exporter=f"GPU_BAD_PAGES_{what.upper()}",
            amd_smi=f"bad_pages.{what}",
        )
        for what, text in (
            ("pending", "to be retired"),
            ("retired", "retired"),
            ("unreservable", "that could not be retired"),
        )
    ),
)

GPU_ERRORS: tuple[Signal, ...] = _ECC + _REPAIR + _CODES + _RAS
