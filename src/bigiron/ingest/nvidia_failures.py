"""What NVIDIA's tools print instead of an answer: the driver is gone, or a GPU is.

Wording as nvidia-smi of drivers 450 to 610 prints it; it comes before, between or in place of
the output that was asked for, so every reader looks for it in the lines it cannot place.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from bigiron.ingest import Document, pci_address
from bigiron.model import Device, Event

TEXT_LIMIT = 400
"""An event's text is cut here."""

_HANDLE = re.compile(
    r"Unable to determine the device handle for GPU\s*(?P<index>\d{1,3}(?=:\s|:?$))?:?\s*"
    r"(?P<bus>[0-9A-Fa-f]{2,8}(?::[0-9A-Fa-f]{2}){1,2}\.[0-7])?\s*:?\s*(?P<why>.*)",
    re.IGNORECASE,
)
_INFOROM = re.compile(
    r"infoROM is corrupted at gpu\s*(?P<bus>[0-9A-Fa-f]{2,8}(?::[0-9A-Fa-f]{2}){1,2}\.[0-7])",
    re.IGNORECASE,
)
_RESET = re.compile(r"requires? (?:a )?reset|reset (?:is )?required", re.IGNORECASE)

_WHOLE: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), code)
    for pattern, code in (
        (r"Driver/library version mismatch", "nvrm.version_mismatch"),
        (r"^(?:ERROR:\s*)?No devices were found", "gpu.missing"),
        (r"^Failed to initialize NVML:.*(?:lost|fallen)", "nvrm.gpu_lost"),
        (r"^Failed to initialize NVML", "nvrm.probe_failed"),
        (r"couldn't communicate with the NVIDIA driver", "nvrm.probe_failed"),
        (r"couldn't find (?:libnvidia-ml|nvml)", "nvrm.probe_failed"),
        (r"^(?:the )?GPU access (?:is )?blocked by the operating system", "nvrm.probe_failed"),
        (r"^Failed to (?:get|properly shut down) NVML", "nvrm.probe_failed"),
    )
)


@dataclass(frozen=True, slots=True)
class Failure:
    """One line that tells of a failure: its code and, where told, whose it is."""

    code: str
    device: str
    text: str
    bus: str = ""


def failure(line: str) -> Failure | None:
    """What this line says is wrong, if it is one of the tools' failure texts."""
    text = line.strip()
    match = _HANDLE.search(text)
    if match is not None:
        bus = pci_address(match["bus"] or "")
        device = f"gpu{match['index']}" if match["index"] else bus
        code = "gpu.recovery_needed" if _RESET.search(match["why"]) else "nvrm.gpu_lost"
        return Failure(code, device, text[:TEXT_LIMIT], bus)
    match = _INFOROM.search(text)
    if match is not None:
        return Failure("dcgm.9", pci_address(match["bus"]), text[:TEXT_LIMIT])
    for pattern, code in _WHOLE:
        if pattern.search(text):
            return Failure(code, "", text[:TEXT_LIMIT])
    return None


def failures(document: Document, lines: Iterator[tuple[int, str]]) -> Iterator[Device | Event]:
    """One event for each failure text among these numbered lines, repeats counted.

    A text that gives a GPU's index and its PCI address also tells that these are one device.
    """
    found: dict[Failure, list[int]] = {}
    for at, line in lines:
        told = failure(line)
        if told is not None:
            found.setdefault(told, []).append(at)
    for told, lines_of in found.items():
        if told.bus and told.device != told.bus:
            yield Device(document.node, told.device, "gpu", bus=told.bus, vendor="NVIDIA")
        yield Event(
            node=document.node,
            code=told.code,
            text=told.text,
            device=told.device,
            source=document.name,
            line=lines_of[0],
            count=len(lines_of),
        )


def tells_failure(text: str) -> bool:
    """Whether any of the first lines is a failure text."""
    return any(failure(line) for line in text.splitlines()[:200])
