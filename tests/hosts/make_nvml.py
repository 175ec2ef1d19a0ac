"""What NVML answers on six hosts (``bigiron/nvml.json``). The shape is NVML's, the values our own.

python -m tests.hosts.make_nvml        write them below tests/hosts
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

HERE = Path(__file__).parent
NOT_SUPPORTED = {"error": 3}
Answers = dict[str, Any]

_PLAIN: Answers = {
    "nvmlDeviceGetBrand": 14,
    "nvmlDeviceGetPersistenceMode": 1,
    "nvmlDeviceGetComputeMode": 0,
    "nvmlDeviceGetVirtualizationMode": 0,
    "nvmlDeviceGetEccMode": [1, 1],
    "nvmlDeviceGetMigMode": [0, 0],
    "nvmlDeviceGetCurrentClocksEventReasons": 0,
    "nvmlDeviceGetUtilizationRates": {"gpu": 97, "memory": 41},
    "nvmlDeviceGetComputeRunningProcesses_v3": 1,
    "nvmlDeviceGetGraphicsRunningProcesses_v3": 0,
    "nvmlDeviceGetNumFans": 0,
    "nvmlDeviceGetFanSpeed": NOT_SUPPORTED,
    "nvmlDeviceValidateInforom": 0,
    "nvmlDeviceGetPcieThroughput(0)": 1_204_000,
    "nvmlDeviceGetPcieThroughput(1)": 1_377_000,
}
_FIELDS: Answers = {str(number): 0 for number in (*range(3, 7), 11, 12, 22, 23, 74, 75, 76)}
_FIELDS |= {str(number): 0 for number in (77, 78, 79, 94, 95, 230)}
_REMAPS: Answers = {str(number): 0 for number in range(142, 146)}
_SLOWDOWNS: Answers = {"269": 0, "270": 0, "271": 0}
_SRAM: Answers = {
    "nvmlDeviceGetSramEccErrorStatus(1)": dict.fromkeys(
        (
            *("aggregateUncParity", "aggregateUncSecDed", "aggregateCor"),
            *("volatileUncParity", "volatileUncSecDed", "volatileCor"),
            *("aggregateUncBucketL2", "aggregateUncBucketSm", "aggregateUncBucketPcie"),
            *("aggregateUncBucketMcu", "aggregateUncBucketOther", "bThresholdExceeded"),
        ),
        0,
    )
}
SERIALS = {"a100x8": 1_560_020, "a100x8-mig": 1_560_120, "h100x8": 1_650_623} | {
    "gb200x4": 1_820_025,
    "l40sx8": 1_324_023,
    "t4x4": 1_562_420,
}


def _uuid(kind: str, host: str, *which: int) -> str:
    return f"{kind}-{uuid5(NAMESPACE_DNS, f'{host}.{which}')}"


def _limits(watts: int, least: int, module: int = 0) -> Answers:
    """Power limits; functions count in milliwatts."""
    fields = {"189": watts * 1000, "192": watts * 1000}
    if module:
        fields["190"] = [watts * 1000, module * 1000]  # type: ignore[assignment]
    return {
        "nvmlDeviceGetPowerManagementLimit": watts * 1000,
        "nvmlDeviceGetPowerManagementDefaultLimit": watts * 1000,
        "nvmlDeviceGetPowerManagementLimitConstraints": [least * 1000, watts * 1000],
        "nvmlDeviceGetEnforcedPowerLimit": watts * 1000,
        "fields": fields,
    }


def _clocks(sm: int, memory: int, most: int) -> Answers:
    return {
        "nvmlDeviceGetClockInfo(1)": sm,
        "nvmlDeviceGetClockInfo(2)": memory,
        "nvmlDeviceGetMaxClockInfo(1)": most,
        "nvmlDeviceGetMaxClockInfo(2)": memory,
    }


def _pcie(gen: int, width: int = 16, now: int = 0) -> Answers:
    return {
        "nvmlDeviceGetCurrPcieLinkGeneration": now or gen,
        "nvmlDeviceGetMaxPcieLinkGeneration": gen,
        "nvmlDeviceGetGpuMaxPcieLinkGeneration": gen,
        "nvmlDeviceGetCurrPcieLinkWidth": width,
        "nvmlDeviceGetMaxPcieLinkWidth": width,
    }


def _memory(total_mib: int, reserved_mib: int, used_mib: int) -> Answers:
    mib = 1024 * 1024
    told = {"total": total_mib, "reserved": reserved_mib, "used": used_mib}
    told["free"] = total_mib - reserved_mib - used_mib
    return {"nvmlDeviceGetMemoryInfo(2)": {key: value * mib for key, value in told.items()}}


def _banks(count: int) -> Answers:
    spare = {"max": count, "high": 0, "partial": 0, "low": 0, "none": 0}
    return {"nvmlDeviceGetRowRemapperHistogram": spare}


def _thresholds(shutdown: int, slowdown: int, most: int = 0, memory: int = 0) -> Answers:
    told = (
        {0: shutdown, 1: slowdown} | ({2: memory} if memory else {}) | ({3: most} if most else {})
    )
    return {f"nvmlDeviceGetTemperatureThreshold({kind})": value for kind, value in told.items()}


def _margins(memory: bool = True) -> Answers:
    """Degrees to the throttling point at which things happen (T.limit)."""
    return {"193": -8, "194": -2, "196": 0} | ({"195": 0} if memory else {})


def _merge(*parts: Mapping[str, Any]) -> Answers:
    """Answers of several parts, their fields together."""
    merged: Answers = {}
    fields: Answers = {}
    for part in parts:
        fields |= part.get("fields", {})
        merged |= part
    return merged | {"fields": fields}


def _own(host: str, index: int, bus: str, celsius: int, watts: float) -> Answers:
    """What is each GPU's own: identity, and values that differ a little."""
    return {
        "nvmlDeviceGetUUID": _uuid("GPU", host, index),
        "nvmlDeviceGetPciInfo": {"busId": f"0000{bus.upper()}"},
        "nvmlDeviceGetSerial": f"{SERIALS[host]}{index * 37 + 1009:06d}",
        "nvmlDeviceGetTemperature(0)": celsius,
        "nvmlDeviceGetPowerUsage": round(watts * 1000),
        "fields": {"83": 41_800_000_000 + index * 913_377_000},
    }


def _system(driver: str, cuda: int) -> Answers:
    return {
        "nvmlSystemGetDriverVersion": driver,
        "nvmlSystemGetNVMLVersion": f"12.{driver}",
        "nvmlSystemGetCudaDriverVersion_v2": cuda,
        "nvmlGetExcludedDeviceCount": 0,
    }


def _a100(vbios: str = "92.00.45.00.03") -> Answers:
    links = 12
    laned = (32, 39, 46, 53)
    beyond = (96, 102, 108, 114)
    counters = {str(first + link): 0 for first in laned for link in range(6)}
    counters |= {str(sixth + link): 0 for sixth in beyond for link in range(6)}
    speeds = {str(first + link): 25_781 for first in (84, 132) for link in range(6)}
    states = {f"nvmlDeviceGetNvLinkState({link})": 1 for link in range(links)}
    return _merge(
        _PLAIN,
        {
            "nvmlDeviceGetName": "NVIDIA A100-SXM4-80GB",
            "nvmlDeviceGetArchitecture": 7,
            "nvmlDeviceGetVbiosVersion": vbios,
            "nvmlDeviceGetInforomImageVersion": "G506.0212.00.02",
            "nvmlDeviceGetBoardPartNumber": "692-2G506-0212-002",
            "nvmlDeviceGetGspFirmwareVersion": "550.144.03",
            "nvmlDeviceGetApplicationsClock(0)": 1275,
            "nvmlDeviceGetApplicationsClock(2)": 1593,
            "nvmlDeviceGetNvLinkVersion(0)": 4,
            "nvmlDeviceGetModuleId": NOT_SUPPORTED,
            "nvmlDeviceGetGpuFabricInfoV(2)": {"state": 0, "status": 0, "healthMask": 0},
            "fields": {**_FIELDS, **_REMAPS, "91": links, **counters, **speeds},
        },
        _limits(400, 100),
        _clocks(1410, 1593, 1410),
        _pcie(4),
        _memory(81_920, 566, 71_204),
        _banks(640),
        _thresholds(92, 89, 85, 95),
        states,
        _SRAM,
        {"fields": {"82": 62}},
    )


def _hosts(every: Answers, gpus: list[Answers], driver: str, cuda: int) -> Answers:
    return {"system": _system(driver, cuda), "every": every, "gpus": gpus}


_SXM_A100 = "03 04 43 44 83 84 c3 c4".split()  # noqa: SIM905


def a100x8() -> Answers:
    """Eight busy SXM4 modules with twelve NVLinks each."""
    gpus = [
        _own("a100x8", i, f"0000:{bus}:00.0", 58 + i % 3, 371.4 + i)
        for i, bus in enumerate(_SXM_A100)
    ]
    return _hosts(_a100(), gpus, "550.144.03", 12040)


def a100x8_mig() -> Answers:
    """The first four GPUs are cut into seven; a partitioned GPU has no NVLink and no load."""
    every = _a100()
    gpus = [
        _own("a100x8-mig", i, f"0000:{bus}:00.0", 41 + i % 3, 118.4 + i)
        for i, bus in enumerate(_SXM_A100)
    ]
    mib = 1024 * 1024
    for index, gpu in enumerate(gpus[:4]):
        gpu |= {
            "nvmlDeviceGetMigMode": [1, 1],
            "nvmlDeviceGetMaxMigDeviceCount": 7,
            "nvmlDeviceGetUtilizationRates": NOT_SUPPORTED,
            "mig": [
                {
                    "nvmlDeviceGetUUID": _uuid("MIG", "a100x8-mig", index, part),
                    "nvmlDeviceGetName": "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
                    "nvmlDeviceGetGpuInstanceId": 7 + part,
                    "nvmlDeviceGetMemoryInfo": {
                        "total": 9728 * mib,
                        "used": (12 + 700 * part) * mib,
                        "free": (9716 - 700 * part) * mib,
                    },
                }
                for part in range(7)
            ],
        }
        gpu |= {f"nvmlDeviceGetNvLinkState({link})": NOT_SUPPORTED for link in range(12)}
    return _hosts(every, gpus, "550.144.03", 12040)


def h100x8() -> Answers:
    """Eight busy SXM5 modules with eighteen NVLinks each, all on the fabric."""
    links = 18
    every = _merge(
        _PLAIN,
        {
            "nvmlDeviceGetName": "NVIDIA H100 80GB HBM3",
            "nvmlDeviceGetArchitecture": 9,
            "nvmlDeviceGetVbiosVersion": "96.00.A5.00.01",
            "nvmlDeviceGetInforomImageVersion": "G520.0200.00.05",
            "nvmlDeviceGetBoardPartNumber": "692-2G520-0200-000",
            "nvmlDeviceGetGspFirmwareVersion": "570.124.06",
            "nvmlDeviceGetAddressingMode": 1,
            "nvmlDeviceGetApplicationsClock(0)": 1980,
            "nvmlDeviceGetApplicationsClock(2)": 2619,
            "nvmlDeviceGetC2cModeInfoV": {"isC2cEnabled": 0},
            "nvmlDeviceGetRepairStatus": [0, 0],
            "nvmlDeviceGetMarginTemperature": 27,
            "nvmlDeviceGetGpuFabricInfoV(3)": {
                "clusterUuid": "0" * 32,
                "status": 0,
                "cliqueId": 0,
                "state": 3,
                "healthMask": 2,
                "healthSummary": 1,
            },
            "fields": {
                **_FIELDS,
                **_REMAPS,
                **_SLOWDOWNS,
                **_margins(),
                **{str(number): 0 for number in (169, 174, 177)},
                **{str(number): [0] * links for number in (161, 162, 163)},
                **{str(number): 4_294_967_295 for number in (185, 186)},
                "82": 68,
                "91": links,
                "164": [26_562] * links,
                "165": [1] * links,
                "166": 6,
                "138/all": 88_412_300_117,
                "139/all": 88_410_997_433,
            },
        },
        _limits(700, 200),
        _clocks(1755, 2619, 1980),
        _pcie(5),
        _memory(81_559, 480, 72_116),
        _banks(2560),
        _SRAM,
    )
    gpus = [
        _own("h100x8", i, f"0000:{bus}:00.0", 59 + i % 4, 688.2 + i)
        | {"nvmlDeviceGetPlatformInfo(2)": {"chassisSerialNumber": "", "moduleId": i + 1}}
        for i, bus in enumerate("19 1b 3b 3d 9b 9d bb bd".split())  # noqa: SIM905
    ]
    gpus[2]["fields"] |= {"94": 3, "74": 8_812_000_000_000}
    return _hosts(every, gpus, "570.124.06", 12080)


def gb200x4() -> Answers:
    """Four GPUs of two superchips in a rack of one NVLink fabric; its power is the module's too."""
    links = 18
    every = _merge(
        _PLAIN,
        {
            "nvmlDeviceGetName": "NVIDIA GB200",
            "nvmlDeviceGetArchitecture": 10,
            "nvmlDeviceGetVbiosVersion": "97.00.B9.00.4C",
            "nvmlDeviceGetInforomImageVersion": "G548.0201.00.06",
            "nvmlDeviceGetBoardPartNumber": "900-2G548-0001-000",
            "nvmlDeviceGetGspFirmwareVersion": "570.124.06",
            "nvmlDeviceGetAddressingMode": 2,
            "nvmlDeviceGetC2cModeInfoV": {"isC2cEnabled": 1},
            "nvmlDeviceGetRepairStatus": [0, 0],
            "nvmlDeviceGetMarginTemperature": 33,
            "nvmlDeviceGetApplicationsClock(0)": {"error": 26},
            "nvmlDeviceGetGpuFabricInfoV(3)": {
                "clusterUuid": "5f1c9a0e77d84b21a6c03e9f10b7d2e4",
                "status": 0,
                "cliqueId": 32766,
                "state": 3,
                "healthMask": 0x1AA,
                "healthSummary": 1,
            },
            "fields": {
                **_FIELDS,
                **_REMAPS,
                **_SLOWDOWNS,
                **_margins(),
                **{str(number): 0 for number in (169, 174, 177)},
                **{str(number): [0] * links for number in (206, 207, 208, 209, 210, 211, 212)},
                **{str(number): [0] * links for number in (214, 215, 219)},
                "82": 61,
                "91": links,
                "164": [53_125] * links,
                "165": [1] * links,
                "166": 7,
                "170": 10,
                "185": [1_011_400, 1_388_200],
                "220": [0x50F] * links,
                "221": [0] * links,
                "222": [0x1FE] * links,
                "138/all": 121_873_400_551,
                "139/all": 121_870_112_209,
            },
        },
        _limits(1200, 200, 2700),
        _clocks(1920, 3996, 2062),
        _pcie(5),
        _memory(189_471, 617, 160_003),
        _banks(5952),
        _SRAM,
    )
    gpus = [
        _own("gb200x4", i, f"{domain}:01:00.0", 55 + i, 1003.5 + i)
        | {
            "nvmlDeviceGetPlatformInfo(2)": {
                "chassisSerialNumber": "1820125000417",
                "slotNumber": 12,
                "trayIndex": 7,
                "moduleId": i + 1,
            }
        }
        for i, domain in enumerate(("0008", "0009", "0018", "0019"))
    ]
    return _hosts(every, gpus, "570.124.06", 12080)


def l40sx8() -> Answers:
    """Eight idle cards: low clocks, PCIe at its first generation, no NVLink."""
    every = _merge(
        _PLAIN,
        {
            "nvmlDeviceGetName": "NVIDIA L40S",
            "nvmlDeviceGetArchitecture": 8,
            "nvmlDeviceGetVbiosVersion": "95.02.66.00.15",
            "nvmlDeviceGetInforomImageVersion": "G133.0242.00.03",
            "nvmlDeviceGetBoardPartNumber": "900-2G133-A880-000",
            "nvmlDeviceGetGspFirmwareVersion": "570.124.06",
            "nvmlDeviceGetAddressingMode": 1,
            "nvmlDeviceGetMarginTemperature": 59,
            "nvmlDeviceGetMigMode": NOT_SUPPORTED,
            "nvmlDeviceGetCurrentClocksEventReasons": 1,
            "nvmlDeviceGetUtilizationRates": {"gpu": 0, "memory": 0},
            "nvmlDeviceGetComputeRunningProcesses_v3": 0,
            "nvmlDeviceGetPcieThroughput(0)": 0,
            "nvmlDeviceGetPcieThroughput(1)": 0,
            "nvmlDeviceGetApplicationsClock(0)": 2520,
            "nvmlDeviceGetApplicationsClock(2)": 9001,
            "fields": {**_FIELDS, **_REMAPS, **_SLOWDOWNS, **_margins(memory=False)},
        },
        _limits(350, 100),
        _clocks(210, 405, 2520),
        {"nvmlDeviceGetMaxClockInfo(2)": 9001},
        _pcie(4, now=1),
        _memory(46_068, 594, 0),
        _banks(192),
        _SRAM,
    )
    gpus = [
        _own("l40sx8", i, f"0000:{bus}:00.0", 27 + i % 3, 34.1 + i / 4)
        for i, bus in enumerate("29 2a 2b 2c a9 aa ab ac".split())  # noqa: SIM905
    ]
    return _hosts(every, gpus, "570.124.06", 12080)


def t4x4() -> Answers:
    """Four cards of a virtual machine, before row remapping: pages are retired."""
    every = _merge(
        _PLAIN,
        {
            "nvmlDeviceGetName": "Tesla T4",
            "nvmlDeviceGetArchitecture": 6,
            "nvmlDeviceGetVbiosVersion": "90.04.96.00.02",
            "nvmlDeviceGetInforomImageVersion": "G183.0200.00.02",
            "nvmlDeviceGetBoardPartNumber": "900-2G183-A800-001",
            "nvmlDeviceGetVirtualizationMode": 1,
            "nvmlDeviceGetMigMode": NOT_SUPPORTED,
            "nvmlDeviceGetCurrentClocksEventReasons": {"error": 13},
            "nvmlDeviceGetCurrentClocksThrottleReasons": 4,
            "nvmlDeviceGetApplicationsClock(0)": 585,
            "nvmlDeviceGetApplicationsClock(2)": 5001,
            "fields": {
                **_FIELDS,
                **{str(number): 0 for number in (7, 8, 9, 10, 13, 14, 15, 16, 17, 18, 19)},
                "29": 0,
                "30": 0,
                "31": 0,
            },
        },
        _limits(70, 60),
        _clocks(1230, 5001, 1590),
        _pcie(3, 8),
        _memory(15_360, 446, 9_731),
        _thresholds(96, 93, 85),
    )
    gpus = [
        _own("t4x4", i, f"0000:00:{bus}.0", 71 + i, 69.1 + i / 10)
        for i, bus in enumerate(("1b", "1c", "1d", "1e"))
    ]
    gpus[3]["fields"] |= {"29": 1}
    return _hosts(every, gpus, "570.124.06", 12080)


HOSTS: dict[str, Callable[[], Answers]] = {
    "a100x8": a100x8,
    "a100x8-mig": a100x8_mig,
    "h100x8": h100x8,
    "gb200x4": gb200x4,
    "l40sx8": l40sx8,
    "t4x4": t4x4,
}


def text(told: Mapping[str, Any]) -> str:
    """The file's text: one answer of what all GPUs share a line, and one GPU a line."""
    shared = ",\n  ".join(f"{json.dumps(key)}: {json.dumps(v)}" for key, v in told["every"].items())
    gpus = ",\n  ".join(json.dumps(gpu) for gpu in told["gpus"])
    return (
        f'{{"system": {json.dumps(told["system"])},\n'
        f'"every": {{\n  {shared}}},\n"gpus": [\n  {gpus}]}}\n'
    )


def make(folder: Path, name: str) -> Path:
    """One host's bigiron/nvml.json below ``folder``; its path."""
    at = folder / name / "bigiron" / "nvml.json"
    at.parent.mkdir(parents=True, exist_ok=True)
    at.write_text(text(HOSTS[name]()))
    return at


if __name__ == "__main__":
    for host in HOSTS:
        make(HERE, host)
