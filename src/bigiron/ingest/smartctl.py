"""Health of NVMe drives: ``smartctl -a --json``, ``nvme smart-log`` and ``nvme list``.

* ``nvme.spare_low``: available spare below the drive's own threshold.
* ``nvme.critical_warning``: a bit of the critical warning byte is set, or SMART says "failed".
* ``nvme.unreadable``: the drive is there and its health log cannot be read.

Bits and units: NVM Express Base Specification, SMART / Health Information log page; spare and
wear are percentages, temperature is kelvin in the log and degrees Celsius in smartctl's output.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, json_text, reader
from bigiron.ingest.json_text import JsonMap, at
from bigiron.model import Device, Event, Fact, Observation, Sample

_METRICS = (
    ("nvme_spare_ratio", ("available_spare", "avail_spare"), 0.01),
    ("nvme_media_errors_total", ("media_errors",), 1.0),
    ("nvme_critical_warning", ("critical_warning",), 1.0),
    ("nvme_used_ratio", ("percentage_used", "percent_used"), 0.01),
)
_THRESHOLD = ("available_spare_threshold", "spare_thresh")
_WARNINGS = (
    "spare below its threshold",
    "temperature beyond a threshold",
    "reliability degraded",
    "media read-only",
    "volatile memory backup failed",
    "persistent memory region unreliable",
)
_TEXT_TITLE = re.compile(r"^Smart Log for NVME device:\s*(\w+)", re.MULTILINE)
_SMARTCTL_TEXT = re.compile(r"^smartctl \d+\.\d+ ", re.MULTILINE)
_OVERALL = re.compile(r"^SMART overall-health self-assessment test result:\s*(\w+)", re.MULTILINE)
_TEXT = re.compile(r"^([A-Za-z][\w ]*?)\s*:\s*(.*?)\s*$")
_NAME = re.compile(r"(nvme\d+)")


class Smartctl:
    """Samples, facts and faults of one drive, or the list of a node's drives."""

    def sniff(self, head: Head) -> float:
        """Certain by smartctl's own section, the SMART log's fields, or the list of devices."""
        if json_text.has_keys(head, "smartctl", "device"):
            return 0.95
        if _SMARTCTL_TEXT.search(head.text[:4096]):
            return 0.95
        if _TEXT_TITLE.search(head.text) or json_text.has_keys(head, "avail_spare", "spare_thresh"):
            return 0.95
        return 0.9 if json_text.has_keys(head, "Devices") and "nvme" in head.text else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """One drive, or as many as the list holds."""
        head = document.head().decode("utf-8", "replace")
        title = _TEXT_TITLE.search(head)
        if title:
            yield from _health(document, _drive(title[1]), _from_text(document))
            return
        if _SMARTCTL_TEXT.search(head[:4096]) and not head.lstrip().startswith("{"):
            yield from _smartctl_text(document)
            return
        found = json_text.mapping(json_text.load(document))
        if "smartctl" in found:
            yield from _smartctl(document, found)
        elif "Devices" in found:
            yield from _listed(document, found)
        elif "critical_warning" in found:
            match = _NAME.search(PurePath(document.name).name)
            yield from _health(document, match[1] if match else "nvme", found)
        else:
            raise ParseError(document.name, 0, "no drive in this output")


@reader()
def smartctl() -> Reader:
    """`smartctl -a` with --json or without, `nvme smart-log`, `nvme list -o json`."""
    return Smartctl()


def _drive(path: str) -> str:
    match = _NAME.search(path)
    return match[1] if match else PurePath(path).name


def _smartctl(document: Document, found: JsonMap) -> Iterator[Observation]:
    drive = _drive(json_text.text(at(found, "device", "name")) or "disk")
    serial = json_text.text(found.get("serial_number"))
    model = json_text.text(found.get("model_name"))
    yield Device(document.node, drive, "nvme", serial, model=model)
    facts = {
        "model": model,
        "serial": serial,
        "firmware_version": json_text.text(found.get("firmware_version")),
    }
    for name, said in facts.items():
        if said:
            yield Fact(document.node, name, said, drive, document.now)
    log = json_text.mapping(found.get("nvme_smart_health_information_log"))
    if log:
        yield from _health(document, drive, log)
    else:
        yield from _unreadable(document, drive, found)
    if at(found, "smart_status", "passed") is False and not log.get("critical_warning"):
        text = f"{drive}: SMART overall health is FAILED"
        yield _event(document, "nvme.critical_warning", drive, text, {})


def _smartctl_text(document: Document) -> Iterator[Observation]:
    """``smartctl -a`` as it prints: which drive it is of, only the document's name may tell."""
    match = re.search(r"(nvme\d+|sd[a-z]{1,2})", PurePath(document.name).name)
    drive = match[1] if match else "disk"
    fields = _from_text(document)
    overall = _OVERALL.search(document.text(1 << 20))
    if overall is None and "critical_warning" not in fields:
        raise ParseError(document.name, 1, "no health of a drive in this smartctl output")
    yield Device(
        document.node,
        drive,
        "nvme" if drive.startswith("nvme") else "",
        json_text.text(fields.get("serial_number")),
        model=json_text.text(fields.get("model_number") or fields.get("device_model")),
    )
    wear = json_text.text(fields.get("media_and_data_integrity_errors")).replace(",", "")
    yield from _health(document, drive, {**fields, "media_errors": wear})
    failed = overall is not None and overall[1].upper() not in {"PASSED", "OK"}
    if failed and not json_text.number(fields.get("critical_warning")):
        text = f"{drive}: SMART overall health is {overall[1] if overall else 'FAILED'}"
        yield _event(document, "nvme.critical_warning", drive, text, {})


def _unreadable(document: Document, drive: str, found: JsonMap) -> Iterator[Event]:
    """No health log although one was asked of an NVMe drive."""
    if json_text.text(at(found, "device", "protocol")).casefold() not in {"nvme", ""}:
        return
    said = [
        json_text.text(message.get("string"))
        for message in json_text.objects(at(found, "smartctl", "messages"))
    ]
    text = f"{drive}: unable to read its health log: {'; '.join(said)[:300] or 'it is missing'}"
    status = json_text.text(at(found, "smartctl", "exit_status"))
    yield _event(document, "nvme.unreadable", drive, text, {"exit_status": status})


def _health(document: Document, drive: str, log: Mapping[str, object]) -> Iterator[Observation]:
    for metric, keys, factor in _METRICS:
        number = _first(log, keys)
        if number is not None:
            yield Sample(document.node, drive, metric, number * factor, document.now)
    heat = json_text.number(log.get("temperature"))
    if heat is not None:
        # nvme-cli's JSON is in kelvin, which no drive that runs is below 200 of.
        celsius = heat - 273 if heat > 200 else heat
        yield Sample(document.node, drive, "nvme_temp_celsius", celsius, document.now)
    spare, threshold = _first(log, _METRICS[0][1]), _first(log, _THRESHOLD)
    if spare is not None and threshold is not None and spare < threshold:
        text = f"{drive}: low spare space, {spare:g}% is left and {threshold:g}% is the threshold"
        attrs = {"available_spare": f"{spare:g}", "threshold": f"{threshold:g}"}
        yield _event(document, "nvme.spare_low", drive, text, attrs)
    warning = int(json_text.number(log.get("critical_warning")) or 0)
    if warning:
        bits = [words for bit, words in enumerate(_WARNINGS) if warning >> bit & 1]
        text = f"{drive}: critical warning {warning:#x}: {', '.join(bits) or 'unknown bit'}"
        yield _event(document, "nvme.critical_warning", drive, text, {"bits": f"{warning:#x}"})


def _first(log: Mapping[str, object], keys: tuple[str, ...]) -> float | None:
    return next((n for key in keys if (n := json_text.number(log.get(key))) is not None), None)


def _from_text(document: Document) -> dict[str, object]:
    fields: dict[str, object] = {}
    for line in document.lines():
        match = _TEXT.match(line)
        if match and len(fields) < 1000:
            said = match[2]
            hexadecimal = re.match(r"0x([0-9a-fA-F]{1,8})\b", said)
            value: object = int(hexadecimal[1], 16) if hexadecimal else said
            fields[match[1].strip().casefold().replace(" ", "_")] = value
    return {
        **fields,
        "avail_spare": fields.get("available_spare"),
        "spare_thresh": fields.get("available_spare_threshold"),
        "percent_used": fields.get("percentage_used"),
    }


def _listed(document: Document, found: JsonMap) -> Iterator[Observation]:
    for item in json_text.objects(found.get("Devices")):
        drive = _drive(json_text.text(item.get("DevicePath")))
        if not drive:
            continue
        serial = json_text.text(item.get("SerialNumber"))
        model = json_text.text(item.get("ModelNumber"))
        yield Device(document.node, drive, "nvme", serial, model=model)
        facts = {"model": model, "serial": serial, "firmware_version": item.get("Firmware")}
        for name, value in facts.items():
            said = json_text.text(value)
            if said:
                yield Fact(document.node, name, said, drive, document.now)


def _event(document: Document, code: str, drive: str, text: str, attrs: dict[str, str]) -> Event:
    return Event(document.node, code, text, drive, document.now, source=document.name, attrs=attrs)
