"""What the Redfish services of three hosts answer, by path: the older resources, and the newer."""

from collections.abc import Callable

Json = dict[str, object]
Answers = dict[str, Json]
V1 = "/redfish/v1"
GOOD: Json = {"State": "Enabled", "Health": "OK"}


def link(path: str) -> Json:
    """A reference to a resource."""
    return {"@odata.id": path}


def collection(answers: Answers, path: str, members: dict[str, Json]) -> None:
    """A collection and its members."""
    answers[path] = {
        "Members": [link(f"{path}/{name}") for name in members],
        "Members@odata.count": len(members),
    }
    answers |= {
        f"{path}/{name}": {**link(f"{path}/{name}"), "Id": name, **member}
        for name, member in members.items()
    }


def _root(*, expand: bool) -> Answers:
    return {
        V1: {
            "RedfishVersion": "1.15.0",
            "ProtocolFeaturesSupported": {"ExpandQuery": {"NoLinks": expand}},
            "Chassis": link(f"{V1}/Chassis"),
            "Managers": link(f"{V1}/Managers"),
            "Systems": link(f"{V1}/Systems"),
            "UpdateService": link(f"{V1}/UpdateService"),
        },
        f"{V1}/UpdateService": {"FirmwareInventory": link(f"{V1}/UpdateService/FirmwareInventory")},
    }


def _manager(answers: Answers, name: str, version: str, log: str) -> None:
    logs = f"{V1}/Systems/1/LogServices"
    collection(answers, f"{V1}/Managers", {name: {"FirmwareVersion": version, "Status": GOOD}})
    collection(answers, f"{V1}/Systems", {"1": {"LogServices": link(logs)}})
    collection(answers, logs, {log: {"Entries": link(f"{logs}/{log}/Entries")}})
    collection(answers, f"{logs}/{log}/Entries", {"1": entry("The chassis was turned on.")})
    members = answers[f"{logs}/{log}/Entries"]
    members["Members"] = [answers[f"{logs}/{log}/Entries/1"]]


def entry(message: str, severity: str = "OK", kind: str = "", **more: object) -> Json:
    """A log entry."""
    found: Json = {"Message": message, "Severity": severity, "EntryType": "SEL", **more}
    found.setdefault("Created", "2026-11-29T06:12:30+00:00")
    if kind:
        found["SensorType"] = kind
    return found


def older(supplies: int = 6) -> Answers:
    """Thermal and Power, and no expansion: every member is asked for."""
    answers = _root(expand=False)
    self_, board = f"{V1}/Chassis/Self", f"{V1}/Chassis/HGX_Baseboard"
    collection(
        answers,
        f"{V1}/Chassis",
        {
            "Self": {
                "ChassisType": "RackMount",
                "Thermal": link(f"{self_}/Thermal"),
                "Power": link(f"{self_}/Power"),
            },
            "HGX_Baseboard": {"Thermal": link(f"{board}/Thermal")},
            "Missing": {"Thermal": link(f"{V1}/Chassis/Missing/Thermal")},
        },
    )
    answers[f"{self_}/Thermal"] = {
        "Temperatures": [
            {
                "Name": "TEMP_AMBIENT",
                "ReadingCelsius": 24.5,
                "PhysicalContext": "Intake",
                "UpperThresholdCritical": 45,
                "Status": GOOD,
            },
            {"Name": "TEMP_CPU0", "ReadingCelsius": 58, "PhysicalContext": "CPU", "Status": GOOD},
            {"Name": "TEMP_CPU1", "ReadingCelsius": None, "Status": {"State": "Absent"}},
        ],
        "Fans": [
            {"Name": f"SYS_FAN_{n}", "Reading": 9000 + n, "ReadingUnits": "RPM", "Status": GOOD}
            for n in range(1, 5)
        ],
        "Redundancy": [{"Name": "fans", "Mode": "N+m", "Status": GOOD}],
    }
    answers[f"{board}/Thermal"] = {
        "Temperatures": [
            {"Name": f"HGX_GPU_{n}_TEMP", "ReadingCelsius": 41 + n, "Status": GOOD}
            for n in range(8)
        ]
    }
    answers[f"{self_}/Power"] = {
        "PowerControl": [
            {"PowerConsumedWatts": 5230, "PowerLimit": {"LimitInWatts": 10_200}},
            {"PowerConsumedWatts": 800},
        ],
        "Voltages": [
            {"Name": "VOLT_P12V", "ReadingVolts": 12.06, "Status": GOOD},
            {"Name": "VOLT_OFF", "ReadingVolts": 0, "Status": {"State": "Disabled"}},
        ],
        "PowerSupplies": [
            {
                "Name": f"PSU{n}",
                "LastPowerOutputWatts": 870 + n,
                "LineInputVoltage": 229,
                "SerialNumber": f"DPS33{n:04d}",
                "Model": "DPS-3300",
                "Manufacturer": "own",
                "FirmwareVersion": "02.09",
                "Status": GOOD,
            }
            for n in range(supplies)
        ],
        "Redundancy": [{"Name": "supplies", "Mode": "N+m", "Status": GOOD}],
    }
    _manager(answers, "BMC", "24.01.05", "SEL")
    versions: dict[str, Json] = {
        "HGX_FW_GPU_SXM_1": {"Version": "96.00.A5.00.01"},
        "HostBIOS": {"Version": "1.6.7"},
    }
    collection(answers, f"{V1}/UpdateService/FirmwareInventory", versions)
    return answers


def newer() -> Answers:
    """ThermalSubsystem, PowerSubsystem, Sensors; collections can be asked for whole."""
    answers = _root(expand=True)
    at = f"{V1}/Chassis/Tray_0"
    names = ("ThermalSubsystem", "PowerSubsystem", "Sensors", "EnvironmentMetrics")
    tray: Json = {name: link(f"{at}/{name}") for name in names}
    collection(answers, f"{V1}/Chassis", {"Tray_0": {"ChassisType": "Sled", **tray}})
    answers[f"{at}/ThermalSubsystem"] = {
        "Fans": link(f"{at}/ThermalSubsystem/Fans"),
        "ThermalMetrics": link(f"{at}/ThermalSubsystem/ThermalMetrics"),
        "FanRedundancy": [{"RedundancyType": "NPlusM", "Status": GOOD}],
    }
    answers[f"{at}/ThermalSubsystem/ThermalMetrics"] = {
        "TemperatureSummaryCelsius": {"Intake": {"Reading": 27.25}},
        "TemperatureReadingsCelsius": [
            {"DeviceName": "CPU_0_TempAvg", "Reading": 61.5},
            {"DataSourceUri": f"{at}/Sensors/E1S_0_Temp", "Reading": 40},
            {"DeviceName": "broken", "Reading": None},
        ],
    }
    answers[f"{at}/PowerSubsystem"] = {
        "PowerSupplies": link(f"{at}/PowerSubsystem/PowerSupplies"),
        "PowerSupplyRedundancy": [],
    }
    answers[f"{at}/EnvironmentMetrics"] = {
        "PowerWatts": {"Reading": 2410.5},
        "PowerLimitWatts": {"SetPoint": 2800, "ControlMode": "Automatic"},
    }
    fans: dict[str, Json] = {
        f"Fan_{n}": {
            "Name": f"Fan {n}",
            "SpeedPercent": {"Reading": 41.5, "SpeedRPM": 11_000 + n},
            "Status": GOOD,
        }
        for n in range(2)
    }
    shelf: dict[str, Json] = {
        "PDB_0": {
            "Name": "PSU 0",
            "LineInputStatus": "Normal",
            "Metrics": link(f"{at}/PowerSubsystem/PowerSupplies/PDB_0/Metrics"),
            "Status": GOOD,
        }
    }
    rails: dict[str, Json] = {
        "P12V": {"Name": "P12V", "ReadingType": "Voltage", "Reading": 12.1, "Status": GOOD},
        "Leak": {"Name": "Leak", "ReadingType": "Humidity", "Reading": 40, "Status": GOOD},
    }
    for path, members in (
        (f"{at}/ThermalSubsystem/Fans", fans),
        (f"{at}/PowerSubsystem/PowerSupplies", shelf),
        (f"{at}/Sensors", rails),
    ):
        whole(answers, path, members)
    answers[f"{at}/PowerSubsystem/PowerSupplies/PDB_0/Metrics"] = {
        "OutputPowerWatts": {"Reading": 2399.0}
    }
    _manager(answers, "BMC_0", "GB200Nvl-25.01-9", "EventLog")
    whole(answers, f"{V1}/UpdateService/FirmwareInventory", {"FW_BMC_0": {"Version": "25.01-9"}})
    return answers


def whole(answers: Answers, path: str, members: dict[str, Json]) -> None:
    """A collection that answers ``$expand`` with its members."""
    collection(answers, path, members)
    listed = [answers[f"{path}/{name}"] for name in members]
    answers[f"{path}?$expand=.($levels=1)"] = {"Members": listed}


SERVICES: dict[str, Callable[[], Answers]] = {
    "h100x8": older,
    "mi300xx8": older,
    "gb200x4": newer,
}
