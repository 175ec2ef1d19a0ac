"""``ibswinfo``: temperature, fans and supplies of an unmanaged InfiniBand switch.

Source: the script's own output ("name | value" lines, PSU fields indented under their unit).
"""

import re
from collections.abc import Iterator

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, json_text, reader
from bigiron.model import CheckResult, CheckStatus, Device, Fact, Note, Observation, Sample

_FIELD = re.compile(r"^(\s*)([\w#/().: -]+?)\s*\|\s*(.*?)\s*$")
_PSU = re.compile(r"^PSU(\d+) status$")
_FAN = re.compile(r"^fan#(\d+) \(rpm\)$")
_FACTS = {
    "part number": "part_number",
    "serial number": "serial",
    "product name": "model",
    "firmware version": "firmware_version",
    "PSID": "psid",
}


class Ibswinfo:
    """The switch's own readings, on device "switch", "psuN" and "fanN"."""

    def sniff(self, head: Head) -> float:
        """Certain by the fields that stand together only here."""
        needed = ("part number", "PSID", "GUID", "fan status")
        return 0.9 if all(re.search(rf"\b{key}\s*\|", head.text) for key in needed) else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """Fields in the order given."""
        fields = [m for line in document.lines() if (m := _FIELD.match(line))]
        if not fields:
            raise ParseError(document.name, 0, "no field of ibswinfo")
        said = {m[2]: m[3] for m in fields if not m[1]}
        yield Device(
            document.node,
            "switch",
            "ibswitch",
            said.get("GUID", ""),
            model=said.get("product name", ""),
            vendor="Mellanox",
        )
        psu, bad = "switch", 0
        for match in fields:
            if unit := _PSU.match(match[2]):
                psu = f"psu{unit[1]}"
            under = psu if match[1] or _PSU.match(match[2]) else "switch"
            found = list(_field(document, under, match[2], match[3]))
            bad += _is_number(match[2]) and not found
            yield from found
        if bad:
            yield Note(document.name, "ibswinfo: readings that are no number", bad)


@reader()
def ibswinfo() -> Reader:
    """`ibswinfo` of an unmanaged switch."""
    return Ibswinfo()


def _is_number(name: str) -> bool:
    return name in {"power (W)", "temperature (C)"} or _FAN.match(name) is not None


def _field(document: Document, device: str, name: str, said: str) -> Iterator[Observation]:
    number = json_text.number(said)
    if name in _FACTS and said:
        yield Fact(document.node, _FACTS[name], said, "switch", document.now)
    elif name == "temperature (C)" and number is not None:
        yield Sample(document.node, "switch", "node_hwmon_temp_celsius", number, document.now)
    elif name == "power (W)" and number is not None:
        yield Sample(document.node, device, "node_psu_power_watts", number, document.now)
    elif (fan := _FAN.match(name)) and number is not None:
        yield Sample(document.node, f"fan{fan[1]}", "node_fan_rpm", number, document.now)
    elif name.endswith("status") or name == "DC power":
        good = said.upper() == "OK"
        yield CheckResult(
            document.node,
            f"ibswinfo {name if not _PSU.match(name) else 'PSU status'}",
            CheckStatus.PASS if good else CheckStatus.FAIL,
            device,
            text=f"{device} {name}: {said or '?'}",
            time=document.now,
            source=document.name,
        )
