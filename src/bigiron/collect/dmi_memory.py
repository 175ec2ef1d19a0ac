"""Memory modules as the firmware describes them: SMBIOS structures of type 17 (DMTF DSP0134).

The kernel shows each structure's bytes below ``/sys/firmware/dmi/entries``, to root alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bigiron.errors import NoData, Permanent
from bigiron.host import Host

ENTRIES = "/sys/firmware/dmi/entries"
LIMIT = 4096
MODULES = 1024
_TYPE = 17
_SIZE, _LOCATOR, _VENDOR, _SERIAL, _PART, _LONG_SIZE = 0x0C, 0x10, 0x17, 0x18, 0x1A, 0x1C
_UNKNOWN, _EXTENDED, _KILOBYTES = 0xFFFF, 0x7FFF, 0x8000
_PLACEHOLDERS = ("unknown", "not specified", "no dimm", "none", "to be filled", "default", "n/a")


@dataclass(frozen=True, slots=True)
class Module:
    """One module that is there; texts are "" where the firmware gives none."""

    locator: str
    megabytes: int
    vendor: str
    serial: str
    part: str


def modules(host: Host) -> Iterator[Module]:
    """The modules in their slots. Raises NoData where the firmware's tables are not shown."""
    for name in host.names(ENTRIES)[: 64 * MODULES]:
        if not name.startswith(f"{_TYPE}-"):
            continue
        try:
            data = host.part(f"{ENTRIES}/{name}/raw", None, LIMIT)
        except (NoData, Permanent):
            continue
        found = module(data)
        if found is not None:
            yield found


def module(data: bytes) -> Module | None:
    """A structure of type 17; None for an empty slot, another type, or one that is cut short."""
    if len(data) < 4 or data[0] != _TYPE or not _SIZE + 2 <= data[1] <= len(data):
        return None
    body, strings = data[: data[1]], data[data[1] :].split(b"\0")
    size = int.from_bytes(body[_SIZE : _SIZE + 2], "little")
    if size == _EXTENDED and len(body) >= _LONG_SIZE + 4:
        megabytes = int.from_bytes(body[_LONG_SIZE : _LONG_SIZE + 4], "little") & 0x7FFFFFFF
    elif size == _UNKNOWN:
        return None
    else:
        megabytes = (size & 0x7FFF) // 1024 if size & _KILOBYTES else size
    if not megabytes:
        return None

    def said(offset: int) -> str:
        index = body[offset] if offset < len(body) else 0
        text = strings[index - 1] if 0 < index <= len(strings) else b""
        return plain(text.decode("ascii", "replace"))

    return Module(said(_LOCATOR), megabytes, said(_VENDOR), said(_SERIAL), said(_PART))


def plain(text: str) -> str:
    """A text of the firmware's tables; "" for what stands there where nothing was filled in."""
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())[:80]
    bare = words.casefold().strip(" .0")
    return "" if not bare or bare.startswith(_PLACEHOLDERS) or bare == "123456789" else words
