"""A stand-in for the vendor's Python binding: two GPUs, and its ways of saying no.

Names, enumerations and errors are as in amdsmi 7.0; only what the tests ask for is here.
"""

from enum import Enum, IntEnum
from types import SimpleNamespace
from typing import Any

STARTED: list[bool] = []
RECORD = [67, 80, 69, 82, -1, -128, 0, 5]


class AmdSmiException(Exception):  # noqa: N818
    """The root of the binding's errors."""


class AmdSmiLibraryException(AmdSmiException):
    def __init__(self, err_code: int) -> None:
        super().__init__(err_code)
        self.err_code = err_code


class AmdSmiParameterException(AmdSmiException):
    err_code = None


class AmdSmiGpuBlock(IntEnum):
    UMC = 1


class AmdSmiFwBlock(Enum):
    AMDSMI_FW_ID_PM = 77


def amdsmi_init() -> None:
    STARTED.append(True)


def amdsmi_shut_down() -> None:
    STARTED.append(False)


def amdsmi_get_processor_handles() -> list[object]:
    return ["first", "second"]


def amdsmi_get_gpu_device_bdf(handle: object) -> str:
    return {"first": "0000:13:00.0", "second": "0000:2b:00.0"}[str(handle)]


def amdsmi_get_gpu_metrics_info(handle: object) -> dict[str, Any]:
    if handle == "second":
        raise AmdSmiLibraryException(8)
    return {"temperature_hotspot": 64, "average_gfx_activity": 12, "xcp_stats.vcn_busy": [[0] * 8]}


def amdsmi_get_gpu_ecc_enabled(_handle: object) -> int:
    return 1


def amdsmi_get_gpu_ecc_count(_handle: object, block: AmdSmiGpuBlock) -> dict[str, int]:
    if not isinstance(block, AmdSmiGpuBlock):
        raise AmdSmiParameterException(block)
    return {"correctable_count": 4, "uncorrectable_count": 0, "deferred_count": 0}


def amdsmi_get_gpu_asic_info(_handle: object) -> dict[str, str]:
    return {"asic_serial": hex(int("not hexadecimal", 16))}


def amdsmi_get_gpu_board_info(_handle: object) -> dict[str, str]:
    return {"product_serial": "692243000027", "fru_id": "N/A"}


def amdsmi_get_gpu_device_uuid(_handle: object) -> str:
    return "41ff74a1-0000-1000-8041-9d2c51e07a3b"


def amdsmi_get_fw_info(_handle: object) -> dict[str, Any]:
    listed = [{"fw_name": AmdSmiFwBlock.AMDSMI_FW_ID_PM, "fw_version": "00.85.119.00"}]
    return {"fw_list": listed}


def amdsmi_get_gpu_cper_entries(
    _handle: object, _severities: int, _size: int, cursor: int
) -> tuple[dict[int, Any], int, list[Any], int]:
    if cursor:
        return {}, cursor, [], 0
    entry = {"error_severity": "fatal", "timestamp": "2026/11/30 09:00:01", "record_id": b"7\0"}
    return {0: entry}, 1, [{"bytes": RECORD, "size": len(RECORD)}], 0


def _afids(record: bytes) -> tuple[list[int], int]:
    return ([25], 1) if bytes(one & 0xFF for one in RECORD) == record else ([], 0)


amdsmi_interface = SimpleNamespace(amdsmi_get_afids_from_cper=_afids)
