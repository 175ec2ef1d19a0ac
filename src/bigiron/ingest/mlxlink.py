"""``mlxlink``: one port's state, rate, error rates, FEC and module, as text and as JSON.

Text is "Name : value" under titles; ``--json`` nests the same names under result.output.
Effective BER above 1e-12 after error correction, or symbol BER at all, is for the judge; here a
link that is not up, and the tool's own troubleshooting recommendation, become an Event.
Source: NVIDIA Firmware Tools, mlxlink output.
"""

import re
from collections.abc import Iterator, Mapping

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, json_text, reader
from bigiron.ingest.json_text import at
from bigiron.ingest.mlxlink_module import module_checks
from bigiron.model import Event, Fact, Observation, Sample

_TEXT = re.compile(r"^([A-Z][\w ./()\[\]&-]+?)\s*:\s*(.*?)\s*$")
_ANSI = re.compile(r"\x1b\[[\d;]*m")
_DEVICE = re.compile(r"(mlx\d+_\d+)")
_SPEED = re.compile(r"(?:IB-|BaseTx-)?([\d.]+)G", re.IGNORECASE)
_IB_SPEED = {
    "SDR": 10,
    "DDR": 20,
    "QDR": 40,
    "FDR": 56,
    "EDR": 100,
    "HDR": 200,
    "NDR": 400,
    "XDR": 800,
}
"""Gb/s of four lanes, by the name of the signalling rate."""
_COUNTERS = {
    "Symbol Errors": "ib_symbol_errors_total",
    "Link Down Counter": "ib_link_downed_total",
    "Link Error Recovery Counter": "ib_link_error_recovery_total",
}
_FACTS = {
    "FEC": "fec",
    "Firmware Version": "firmware_version",
    "Vendor Name": "module_vendor",
    "Vendor Part Number": "module_part_number",
    "Vendor Serial Number": "module_serial",
}
_SECTIONS = (
    "Operational Info",
    "Troubleshooting Info",
    "Physical Counters and BER Info",
    "Module Info",
    "Tool Information",
)


class Mlxlink:
    """What mlxlink says of one port."""

    def sniff(self, head: Head) -> float:
        """Certain by its titles."""
        found = sum(section in head.text for section in _SECTIONS)
        return 0.95 if found >= 2 else 0.5 if "Physical state" in head.text and found else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """State, rate, counters, module."""
        fields = _fields(document)
        state = fields.get("State", "")
        if not state and "Physical state" not in fields and "Speed" not in fields:
            raise ParseError(document.name, 0, "no port state of mlxlink")
        found = _DEVICE.search(document.name)
        device = found[1] if found else ""
        yield from _state(document, device, fields)
        for name, metric in _COUNTERS.items():
            number = json_text.number(fields.get(name))
            if number is not None:
                yield Sample(document.node, device, metric, number, document.now)
        for name, fact in _FACTS.items():
            said = json_text.text(fields.get(name))
            if said:
                yield Fact(document.node, fact, said, device, document.now)
        for name in ("Effective Physical BER", "Symbol BER", "Raw Physical BER"):
            ber = json_text.number(fields.get(name))
            if ber is not None:
                fact = name.casefold().replace(" ", "_")
                yield Fact(document.node, fact, ber, device, document.now)
        module = f"{device} module".strip()
        yield from module_checks(fields, document.node, module, document.now, document.name)
        heat = json_text.number(fields.get("Temperature [C]"))
        if heat is not None:
            yield Sample(document.node, module, "node_hwmon_temp_celsius", heat, document.now)
        yield from _trouble(document, device, fields)


@reader()
def mlxlink() -> Reader:
    """`mlxlink -d DEVICE [-m -c --json]`."""
    return Mlxlink()


def _fields(document: Document) -> dict[str, str]:
    if document.head().lstrip().startswith(b"{"):
        output = json_text.mapping(at(json_text.load(document), "result", "output"))
        return {
            name: json_text.text(value)
            for section in output.values()
            for name, value in json_text.mapping(section).items()
        }
    fields: dict[str, str] = {}
    for line in document.lines():
        match = _TEXT.match(_ANSI.sub("", line))
        if match and len(fields) < 10_000:
            fields.setdefault(match[1], match[2])
    return fields


def _state(document: Document, device: str, fields: Mapping[str, str]) -> Iterator[Observation]:
    state, physical = fields.get("State", ""), fields.get("Physical state", "")
    active = float(state.casefold() == "active")
    yield Sample(document.node, device, "ib_state", active, document.now)
    rate = _rate(fields.get("Speed", ""), fields.get("Width", ""))
    if rate:
        yield Sample(document.node, device, "ib_rate_bits_per_second", rate * 1e9, document.now)
        yield Fact(document.node, "link_rate_gbps", rate, device, document.now)
    if not active and physical.casefold() not in {"disabled", ""}:
        yield Event(
            document.node,
            "nic.down",
            f"{device or 'the port'} is {state or 'not active'}, physical state {physical}",
            device,
            document.now,
            source=document.name,
            attrs={"state": state, "physical_state": physical},
        )


def _rate(speed: str, width: str) -> float | None:
    """Gb/s of "IB-NDR" with its lanes, or of "400G"."""
    name = speed.upper().removeprefix("IB-")
    lanes = json_text.number(width) or 4.0
    if name in _IB_SPEED:
        return _IB_SPEED[name] * lanes / 4
    match = _SPEED.search(speed)
    return float(match[1]) if match else None


def _trouble(document: Document, device: str, fields: Mapping[str, str]) -> Iterator[Event]:
    code = json_text.text(fields.get("Status Opcode"))
    said = json_text.text(fields.get("Recommendation"))
    if code in {"", "0"} or not said or said.casefold().startswith("no issue"):
        return
    yield Event(
        document.node,
        "ib.port_error",
        f"{device or 'port'}: mlxlink status {code}: {said}",
        device,
        document.now,
        source=document.name,
        attrs={"opcode": code},
    )
