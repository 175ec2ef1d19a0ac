"""What ipmitool and FreeIPMI print on hosts whose controller is asked in band."""

from tests.hosts.sysfs_tree import Tree

COMMANDS = "bigiron/commands"
IPMITOOL = {"a100x8": 6, "a100x8-mig": 6, "l40sx8": 4, "mi250x8": 3}
"""Hosts with ipmitool, and how many power supplies each has."""
FREEIPMI = ("cpu-only",)


def ipmi(tree: Tree, name: str) -> None:
    """The driver's device file, and the answers of the tools."""
    tree.put("/dev/ipmi0", b"")
    if name in FREEIPMI:
        command = (
            "ipmi-sensors --comma-separated-output --no-header-output --output-sensor-state "
            "--ignore-not-available-sensors"
        )
        tree.put(f"{COMMANDS}/{command}", freeipmi())
        return
    supplies = IPMITOOL[name]
    for command, said in {
        "sdr elist all": sdr(supplies),
        "dcmi power reading": dcmi_reading(2875 if supplies > 4 else 1210),
        "dcmi power get_limit": dcmi_limit(6500, active=supplies > 4),
        "mc info": mc_info(),
        "fru print": fru(supplies),
        "sel info": sel_info(3, 1),
        "sel elist last 3": sel_daily(),
    }.items():
        tree.put(f"{COMMANDS}/ipmitool {command}", said)


def sdr(supplies: int, **changed: str) -> str:
    """``ipmitool sdr elist all``; ``changed`` are rows by their keys here, or new ones."""
    rows = {
        "Inlet": "Inlet Temp       | 04h | ok  |  7.1 | 23 degrees C",
        "CPU0": "CPU0 Temp        | 0Eh | ok  |  3.1 | 51 degrees C",
        "CPU1": "CPU1 Temp        | 0Fh | ns  |  3.2 | No Reading",
        "P12V": "P12V             | 20h | ok  |  7.1 | 12.04 Volts",
        "P3V3": "P3V3             | 21h | ok  |  7.1 | 3.31 Volts",
        "VBAT": "VBAT             | 29h | ok  |  7.1 | 0x04",
        "FAN1": "FAN1             | 41h | ok  | 29.1 | 8900 RPM",
        "FAN2": "FAN2             | 42h | ok  | 29.2 | 9050 RPM",
        "FAN3": "FAN3             | 43h | ns  | 29.3 | Disabled",
        "Redundancy": "PSU Redundancy   | CAh | ok  |  7.1 | Fully Redundant",
        "Watchdog": "Watchdog         | 90h | ok  |  7.1 | ",
        "SEL": "SEL              | 72h | ns  |  7.1 | No Reading",
    }
    for number in range(supplies):
        status = f"PSU{number} Status      | {0xB0 + number:X}h | ok  | 10.{number}"
        rows[f"PSU{number}"] = f"{status} | Presence detected"
        power = f"PSU{number} Power Out   | {0xC0 + number:X}h | ok  | 10.{number}"
        rows[f"OUT{number}"] = f"{power} | {480 + number} Watts"
    return "\n".join({**rows, **changed}.values())


def dcmi_reading(watts: int) -> str:
    """``ipmitool dcmi power reading``."""
    return (
        f"\n    Instantaneous power reading:              {watts:>8} Watts\n"
        "    Minimum during sampling period:                411 Watts\n"
        "    IPMI timestamp:                           11/30/2026 09:12:44 UTC    \n"
        "    Power reading state is:                   activated\n"
    )


def dcmi_limit(watts: int, *, active: bool) -> str:
    """``ipmitool dcmi power get_limit``."""
    state = "Power Limit Active" if active else "No Active Power Limit"
    return (
        f"\n    Current Limit State: {state}\n    Exception actions:   Log Event to SEL\n"
        f"    Power Limit:         {watts} Watts\n    Correction time:     1000 milliseconds\n"
    )


def mc_info() -> str:
    """``ipmitool mc info``."""
    return (
        "Device ID                 : 32\nFirmware Revision         : 1.74\nIPMI Version"
        "              : 2.0\nManufacturer Name         : own\nProduct ID    : 1 (0x0001)\n"
    )


def fru(supplies: int) -> str:
    """``ipmitool fru print``."""
    text = "FRU Device Description : Builtin FRU Device (ID 0)\n Board Mfg             : own\n"
    text += " Board Serial          : BB0017\n"
    for number in range(supplies):
        text += (
            f"\nFRU Device Description : PSU{number} (ID {number + 1})\n"
            f" Product Manufacturer  : own\n Product Part Number   : PS-3000\n"
            f" Product Serial        : PS3K{number:05d}\n"
        )
    return text + "\nFRU Device Description : Riser (ID 9)\n Device not present (Timeout)\n"


def sel_info(entries: int, percent: int, *, full: bool = False, added: str = "") -> str:
    """``ipmitool sel info``."""
    return (
        "SEL Information\nVersion          : 1.5 (v1.5, v2 compliant)\n"
        f"Entries          : {entries}\nFree Space       : 65000 bytes \n"
        f"Percent Used     : {percent}%\nLast Add Time    : {added or '11/29/2026 06:12:30 UTC'}\n"
        f"Last Del Time    : Not Available\nOverflow         : {str(full).lower()}\n"
    )


def sel_daily() -> str:
    """Entries of a node that is well."""
    return (
        "   1 |  Pre-Init  |0000000017| Power Unit #0x01 | Power off/down | Asserted\n"
        "   2 | 11/29/2026 | 06:10:02 UTC | System Event BIOS | Timestamp Clock Sync | Asserted\n"
        "   3 | 11/29/2026 | 06:12:30 UTC | OS Boot #0x22 | C: boot completed | Asserted\n"
    )


def freeipmi() -> str:
    """``ipmi-sensors`` with commas and the sensor's state."""
    return (
        "1,Inlet Ambient,Temperature,Nominal,21.00,C,'OK'\n"
        "2,Fan 1,Fan,Nominal,N/A,N/A,'transition to Running'\n"
        "3,Fan 1 DutyCycle,Fan,Nominal,21.56,%,'OK'\n"
        "4,Power Supply 1,Power Supply,Nominal,90.00,W,'Presence detected'\n"
        "5,Power Supply 2,Power Supply,Nominal,N/A,N/A,'Presence detected'\n"
        "6,Power Meter,Other,Nominal,188.00,W,'OK'\n"
        "7,Intrusion,Physical Security,N/A,N/A,N/A,N/A\n"
    )
