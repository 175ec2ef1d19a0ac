"""NVIDIA's Xid and SXid lines, in every spelling drivers 450 to 610 have given them.

    NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
    NVRM: Xid (0000:03:00): 13, Channel 00000001
    NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: ... RST: No, D-RST: No
    NVRM: Xid (PCI:0009:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x4 (...)
    NVRM: Xid (PCI:0018:01:00): 149, NETIR_BER_EVENT Nonfatal XC0 i0 Link 03 (0x00086226 ...)
    nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress ... (First)

Forms: NVIDIA/open-gpu-kernel-modules (nvErrorLog, kern_gpu_error_cont_ga100.c, gpu.c) and the
XID catalogue at docs.nvidia.com/deploy/xid-errors.
"""

import re
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from bigiron.ingest import pci_address
from bigiron.ingest.xid_nvlink import NvlinkCodes

NEEDS = ("Xid (", "NVRM: Xid ")


class Other(StrEnum):
    """Why a line that speaks of an Xid yields no event."""

    DETAIL = "detail"
    """It adds registers to an SXid told on another line."""
    UNREADABLE = "unreadable"
    """Its number cannot be read."""


class XidLine(NamedTuple):
    """A fault code, the device it is about and what else the line says."""

    code: str
    device: str
    attrs: dict[str, str]


_HEAD = re.compile(r"\b(S?)Xid \(([^()]{1,120})\): *([^\s,]{1,20}),? ?")
_PROCESS = re.compile(r"pid=([^,\s]{1,40})(?:, |,|$)(?:name=([^,]{0,64})(?:, |,|$))?")
_CHANNEL = re.compile(r"\b[Cc]h(?:annel)?(?: ?ID)?:? (?:0x)?([0-9a-fA-F]{1,8})\b")
_LINK = re.compile(r"\b[Ll]ink (\d{1,3})\b")
_RESET = re.compile(r"\bRST: (Yes|No), D-RST: (Yes|No)")
_RECOVERY = re.compile(
    r"recovery action changed from 0x([0-9a-fA-F]{1,8}) \(([^)]*)\)"
    r" to 0x([0-9a-fA-F]{1,8}) \(([^)]*)\)"
)
_NVLINK5 = re.compile(
    r"([A-Z][A-Z0-9_/]{1,60}) +((?:Link )?Fatal|Non-?fatal) +(XC\d{1,3})(?: +i(\d{1,3}))?"
    r"(?: +Link +(-?\d{1,3}))?(?: *\(((?:0x[0-9a-fA-F]{1,16}[ ,]*)+)\))?"
)
_SXID = re.compile(r"(Non-fatal|Fatal|Fatal error|Corrected)\b,? ?")
_SXID_DETAIL = re.compile(r"(?:Severity \d|Data \{|.{0,40}\bdata\[\d{1,3}\] = )")
_SWITCH = re.compile(r"\bnvidia-(nvswitch\d{1,3}): ")
_OLD_BUS = re.compile(r"00([0-9a-f]{2}):([0-9a-f]{2})$", re.IGNORECASE)
_UUID = re.compile(r"GPU-[0-9a-f]{8}-[0-9a-f-]{27}", re.IGNORECASE)
_MIG = re.compile(r"GPU-I:(\w{1,8})")

_address = lru_cache(maxsize=4096)(pci_address)

NVLINK5 = range(144, 151)
DETAIL_LIMIT = 500


class XidLines:
    """Reads Xid lines; ``nvlink`` knows which NVLink 5 codes the catalogue tells apart."""

    def __init__(self, nvlink: NvlinkCodes) -> None:
        self._nvlink = nvlink

    def parse(self, message: str) -> XidLine | Other | None:
        """What an Xid or SXid message says; None if it is neither."""
        head = _HEAD.search(message)
        if head is None:
            return Other.UNREADABLE if "NVRM: Xid " in message else None
        number = head[3]
        if not (number.isascii() and number.isdigit()) or len(number) > 7:
            return Other.UNREADABLE
        device, attrs = _where(head[2])
        rest = message[head.end() :].strip()
        if head[1]:
            return _sxid(int(number), device, attrs, rest, message)
        return self._xid(int(number), device, attrs, rest)

    def _xid(self, number: int, device: str, attrs: dict[str, str], rest: str) -> XidLine:
        code = f"xid.{number}"
        if process := _PROCESS.match(rest):
            rest = rest[process.end() :].lstrip()
            pid, name = process[1].strip("'`"), (process[2] or "").strip("'`")
            if pid.isdigit():
                attrs["pid"] = pid
            if name and name != "<unknown>":
                attrs["process"] = name
        if rest:
            attrs["detail"] = rest[:DETAIL_LIMIT]
        if channel := _CHANNEL.search(rest):
            attrs["channel"] = channel[1]
        if link := _LINK.search(rest):
            attrs["link"] = str(int(link[1]))
        if reset := _RESET.search(rest):
            attrs["rst"], attrs["drst"] = reset[1].lower(), reset[2].lower()
        if number == 154 and (change := _RECOVERY.search(rest)):
            code = _recovery(change, attrs)
        elif number in NVLINK5 and (found := _NVLINK5.search(rest)):
            code = self._nvlink5(number, found, attrs)
        return XidLine(code, device, attrs)

    def _nvlink5(self, number: int, found: re.Match[str], attrs: dict[str, str]) -> str:
        attrs["unit"] = found[1]
        attrs["severity_word"] = found[2]
        words = [int(word, 16) for word in (found[6] or "").replace(",", " ").split()]
        if words:
            attrs["intr_info"] = f"0x{words[0]:08x}"
        status = words[1] if len(words) > 1 else 0
        if len(words) > 1:
            attrs["error_status"] = f"0x{status:08x}"
        return self._nvlink.code(number, found[1], words[0] if words else 0, status)


def _where(text: str) -> tuple[str, dict[str, str]]:
    """The device in an Xid's brackets and what else stands there (a MIG instance, a UUID)."""
    attrs: dict[str, str] = {}
    first, _, more = text.strip().partition(" ")
    if mig := _MIG.search(text):
        attrs["mig"] = mig[1]
    if uuid := _UUID.search(text):
        attrs["uuid"] = uuid[0]
    device = _address(first) or _address(more)
    if not device and (old := _OLD_BUS.match(first.removeprefix("PCI:"))):
        device = pci_address(f"{old[1]}:{old[2]}")  # drivers before 295 wrote bus and slot only
    return device or attrs.get("uuid", ""), attrs


def _recovery(change: re.Match[str], attrs: dict[str, str]) -> str:
    before, after = int(change[1], 16), int(change[3], 16)
    attrs["xid"] = "154"
    attrs["recovery_from"], attrs["recovery_to"] = str(before), str(after)
    attrs["recovery_action"] = change[4]
    return f"recovery.{after}"


def _sxid(
    number: int, device: str, attrs: dict[str, str], rest: str, message: str
) -> XidLine | Other:
    if _SXID_DETAIL.match(rest):
        return Other.DETAIL
    if switch := _SWITCH.search(message):
        attrs["switch"] = switch[1]
    if word := _SXID.match(rest):
        attrs["severity_word"] = word[1]
        rest = rest[word.end() :]
    if link := _LINK.search(rest):
        attrs["link"] = str(int(link[1]))
    if "(First)" in rest:
        attrs["first"] = "yes"
    if rest:
        attrs["detail"] = rest[:DETAIL_LIMIT]
    return XidLine(f"sxid.{number}", device, attrs)
