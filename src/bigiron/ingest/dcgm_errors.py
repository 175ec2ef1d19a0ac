"""DCGM's error codes (DCGM_FR_*): numbers, names, and the messages of versions that give none.

The numbers are the order of ``dcgmError_t`` in dcgm_errors.h of DCGM 4.6; new ones are added at
the end, so a number keeps its meaning. DCGM 2 and 3 write only a message: the commonest are
recognised by their wording.
"""

import re

_NAMES = """
OK UNKNOWN UNRECOGNIZED PCI_REPLAY_RATE VOLATILE_DBE_DETECTED VOLATILE_SBE_DETECTED
PENDING_PAGE_RETIREMENTS RETIRED_PAGES_LIMIT RETIRED_PAGES_DBE_LIMIT CORRUPT_INFOROM
CLOCKS_EVENT_THERMAL POWER_UNREADABLE CLOCKS_EVENT_POWER NVLINK_ERROR_THRESHOLD NVLINK_DOWN
NVSWITCH_FATAL_ERROR NVSWITCH_NON_FATAL_ERROR NVSWITCH_DOWN NO_ACCESS_TO_FILE NVML_API
DEVICE_COUNT_MISMATCH BAD_PARAMETER CANNOT_OPEN_LIB DENYLISTED_DRIVER NVML_LIB_BAD
GRAPHICS_PROCESSES HOSTENGINE_CONN FIELD_QUERY BAD_CUDA_ENV PERSISTENCE_MODE LOW_BANDWIDTH
HIGH_LATENCY CANNOT_GET_FIELD_TAG FIELD_VIOLATION FIELD_THRESHOLD FIELD_VIOLATION_DBL
FIELD_THRESHOLD_DBL UNSUPPORTED_FIELD_TYPE FIELD_THRESHOLD_TS FIELD_THRESHOLD_TS_DBL
THERMAL_VIOLATIONS THERMAL_VIOLATIONS_TS TEMP_VIOLATION CLOCKS_EVENT_VIOLATION INTERNAL
PCIE_GENERATION PCIE_WIDTH ABORTED TEST_DISABLED CANNOT_GET_STAT STRESS_LEVEL CUDA_API
FAULTY_MEMORY CANNOT_SET_WATCHES CUDA_UNBOUND ECC_DISABLED MEMORY_ALLOC CUDA_DBE MEMORY_MISMATCH
CUDA_DEVICE ECC_UNSUPPORTED ECC_PENDING MEMORY_BANDWIDTH TARGET_POWER API_FAIL API_FAIL_GPU
CUDA_CONTEXT DCGM_API CONCURRENT_GPUS TOO_MANY_ERRORS NVLINK_CRC_ERROR_THRESHOLD
NVLINK_ERROR_CRITICAL ENFORCED_POWER_LIMIT MEMORY_ALLOC_HOST GPU_OP_MODE NO_MEMORY_CLOCKS
NO_GRAPHICS_CLOCKS HAD_TO_RESTORE_STATE L1TAG_UNSUPPORTED L1TAG_MISCOMPARE ROW_REMAP_FAILURE
UNCONTAINED_ERROR EMPTY_GPU_LIST DBE_PENDING_PAGE_RETIREMENTS UNCORRECTABLE_ROW_REMAP
PENDING_ROW_REMAP BROKEN_P2P_MEMORY_DEVICE BROKEN_P2P_WRITER_DEVICE NVSWITCH_NVLINK_DOWN
EUD_BINARY_PERMISSIONS EUD_NON_ROOT_USER EUD_SPAWN_FAILURE EUD_TIMEOUT EUD_ZOMBIE
EUD_NON_ZERO_EXIT_CODE EUD_TEST_FAILED FILE_CREATE_PERMISSIONS PAUSE_RESUME_FAILED
PCIE_H_REPLAY_VIOLATION GPU_EXPECTED_NVLINKS_UP NVSWITCH_EXPECTED_NVLINKS_UP XID_ERROR
SBE_VIOLATION DBE_VIOLATION PCIE_REPLAY_VIOLATION SBE_THRESHOLD_VIOLATION DBE_THRESHOLD_VIOLATION
PCIE_REPLAY_THRESHOLD_VIOLATION CUDA_FM_NOT_INITIALIZED SXID_ERROR GFLOPS_THRESHOLD_VIOLATION
NAN_VALUE FABRIC_MANAGER_TRAINING_ERROR BROKEN_P2P_PCIE_MEMORY_DEVICE
BROKEN_P2P_PCIE_WRITER_DEVICE BROKEN_P2P_NVLINK_MEMORY_DEVICE BROKEN_P2P_NVLINK_WRITER_DEVICE
TEST_SKIPPED SRAM_THRESHOLD NVLINK_EFFECTIVE_BER_THRESHOLD FALLEN_OFF_BUS
NVLINK_SYMBOL_BER_THRESHOLD IMEX_UNHEALTHY FABRIC_PROBE_STATE BINARY_PERMISSIONS
GPU_RECOVERY_RESET GPU_RECOVERY_REBOOT GPU_RECOVERY_DRAIN_P2P GPU_RECOVERY_DRAIN_RESET NCCL_ERROR
RETEST_REQUESTED CONTAINED_ERROR UNCORRECTABLE_ROW_REMAP_LIMIT
"""
NAMES: tuple[str, ...] = tuple(_NAMES.split())

MEMORY_ALLOC = NAMES.index("MEMORY_ALLOC")
MEMORY_ALLOC_HOST = NAMES.index("MEMORY_ALLOC_HOST")

_OLD_NAMES = {
    "BLACKLISTED_DRIVER": "DENYLISTED_DRIVER",
    "CLOCK_THROTTLE_THERMAL": "CLOCKS_EVENT_THERMAL",
    "CLOCK_THROTTLE_POWER": "CLOCKS_EVENT_POWER",
    "THROTTLING_VIOLATION": "CLOCKS_EVENT_VIOLATION",
}
_BY_NAME = {name: code for code, name in enumerate(NAMES)}
_BY_NAME.update({old: _BY_NAME[new] for old, new in _OLD_NAMES.items()})

_NAMED = re.compile(r"DCGM_FR_([A-Z0-9_]+)")

_MESSAGES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), name)
    for pattern, name in (
        (r"fallen off the bus", "FALLEN_OFF_BUS"),
        (r"row re-?mappings? (?:are|is) pending", "PENDING_ROW_REMAP"),
        (r"row re-?map(?:ping)? fail|failed to re-?map", "ROW_REMAP_FAILURE"),
        (r"uncorrectable (?:rows?|memory errors).*remapped", "UNCORRECTABLE_ROW_REMAP"),
        (r"pending page retirements?.*double|DBE.*pending", "DBE_PENDING_PAGE_RETIREMENTS"),
        (r"pending (?:page retirement|retired page)", "PENDING_PAGE_RETIREMENTS"),
        (r"volatile double[- ]bit", "VOLATILE_DBE_DETECTED"),
        (r"volatile single[- ]bit|more than \d+ single-bit", "VOLATILE_SBE_DETECTED"),
        (r"retired pages.*(?:double[- ]bit|DBE)", "RETIRED_PAGES_DBE_LIMIT"),
        (r"retired pages", "RETIRED_PAGES_LIMIT"),
        (r"ECC memory .*not (?:currently )?(?:active|enabled)", "ECC_DISABLED"),
        (r"pending ECC|ECC .*pending", "ECC_PENDING"),
        (r"persistence mode .*(?:disabled|not enabled)", "PERSISTENCE_MODE"),
        (r"graphics processes? (?:is|are) running|running graphics", "GRAPHICS_PROCESSES"),
        (r"inforom.*corrupt|corrupt.*inforom", "CORRUPT_INFOROM"),
        (r"PCIe? replays? (?:per|rate|events)|replay rate", "PCI_REPLAY_RATE"),
        (r"SRAM.*threshold", "SRAM_THRESHOLD"),
        (r"NVLink .*(?:is|are) (?:currently )?down|NvLinks? .*down", "NVLINK_DOWN"),
        (r"NVLink.*CRC", "NVLINK_CRC_ERROR_THRESHOLD"),
        (r"NVLink.*error", "NVLINK_ERROR_THRESHOLD"),
        (r"PCIe? generation", "PCIE_GENERATION"),
        (r"PCIe? (?:link )?width", "PCIE_WIDTH"),
        (r"could not allocate|unable to allocate|allocat\w+ .*memory.*fail", "MEMORY_ALLOC"),
        (r"Detected \d+ .*(?:FB|frame buffer).*error|faulty memory", "FAULTY_MEMORY"),
        (r"clock.*(?:thermal|temperature)|thermal (?:throttl|slowdown)", "CLOCKS_EVENT_THERMAL"),
        (r"thermal violation", "THERMAL_VIOLATIONS"),
        (r"temperature .*(?:exceed|above|reached)", "TEMP_VIOLATION"),
        (r"\bXID\b", "XID_ERROR"),
        (r"denylist|blacklist", "DENYLISTED_DRIVER"),
        (r"CUDA_\w+ environment|environment variable", "BAD_CUDA_ENV"),
        (r"fabric ?manager", "FABRIC_MANAGER_TRAINING_ERROR"),
        (r"bandwidth .*(?:below|less|minimum)", "LOW_BANDWIDTH"),
        (r"\bDBE\b|double[- ]bit", "VOLATILE_DBE_DETECTED"),
    )
)

_PACKED = tuple(
    (re.compile(pattern.pattern.replace(" ", ""), re.IGNORECASE), name)
    for pattern, name in _MESSAGES
)
"""The same without blanks: DCGM 2 wraps messages in the middle of a word."""

_TESTS = {
    "blacklist": "DENYLISTED_DRIVER",
    "denylist": "DENYLISTED_DRIVER",
    "nvml library": "NVML_LIB_BAD",
    "cuda main library": "CANNOT_OPEN_LIB",
    "permissions and os blocks": "NO_ACCESS_TO_FILE",
    "permissions and os-related blocks": "NO_ACCESS_TO_FILE",
    "persistence mode": "PERSISTENCE_MODE",
    "environment variables": "BAD_CUDA_ENV",
    "environmental variables": "BAD_CUDA_ENV",
    "graphics processes": "GRAPHICS_PROCESSES",
    "inforom": "CORRUPT_INFOROM",
}
"""What a failed test without a message can only mean."""


def fault_code(number: int) -> str:
    """``dcgm.85`` for an error number; ``dcgm.unknown`` for one that cannot be."""
    return f"dcgm.{number}" if 0 < number < 100_000 else "dcgm.unknown"


def by_text(message: str) -> int | None:
    """The error number a message names (``DCGM_FR_...``) or can be recognised as."""
    named = _NAMED.search(message)
    if named is not None and named[1] in _BY_NAME:
        return _BY_NAME[named[1]]
    packed = re.sub(r"\s+", "", message)
    for pattern, name in _MESSAGES:
        if pattern.search(message):
            return _BY_NAME[name]
    for pattern, name in _PACKED:
        if pattern.search(packed):
            return _BY_NAME[name]
    return None


def by_test(test: str) -> int | None:
    """The error number that a failure of this test, by its shown name, stands for."""
    name = _TESTS.get(test.strip().lower())
    return _BY_NAME[name] if name else None
