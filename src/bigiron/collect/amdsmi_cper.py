"""Error records (CPER) that an AMD GPU keeps in a ring, each told once.

The ring is read with the library's call from where the last look ended, and now and then from its
beginning: a reset of the GPU may begin it anew, and what stands before the cursor is never given
again. So records are known by their contents too. AMD's field ids (AFID) in a record name the
error; the library decodes them.
"""

import zlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from bigiron.collect.amdsmi_gpu import Gpu
from bigiron.collect.amdsmi_library import MORE_DATA, mapping
from bigiron.ingest import Document, amd_smi_inventory, json_text
from bigiron.model import Event, Note

CALL, DECODE = "amdsmi_get_gpu_cper_entries", "amdsmi_get_afids_from_cper"
ALL = 0b111
"""Severities asked for: a bit each for recoverable, fatal, corrected (amdsmi.h, cper_sev)."""
BUFFER = 64 * 1024
ROUNDS = 16
KNOWN = 1024
"""Records remembered of a GPU; its ring holds fewer."""
RECORD = 16 * 1024
AFRESH = 20
"""After so many looks the ring is read from its beginning."""

_NOW = datetime.min.replace(tzinfo=UTC)


class Records:
    """Of one GPU: where its ring was read to, and what was told."""

    def __init__(self) -> None:
        self._cursor = 0
        self._looks = 0
        self._known: dict[tuple[str, str, int], None] = {}

    def new(self, gpu: Gpu) -> Iterator[Event | Note]:
        """The records that were not told yet, with their own times."""
        self._looks += 1
        if self._looks % AFRESH == 0:
            self._cursor = 0
        for _ in range(ROUNDS):
            told = gpu.ask(CALL, ALL, BUFFER, self._cursor)
            if not isinstance(told, list | tuple) or len(told) != 4:
                self._cursor = 0
                return
            entries, cursor, data, status = told
            yield from self._tell(gpu, entries, data)
            if type(cursor) is not int or cursor == self._cursor or cursor < 0:
                return
            self._cursor = cursor
            if status != MORE_DATA:
                return

    def _tell(self, gpu: Gpu, entries: object, data: object) -> Iterator[Event | Note]:
        blobs = data if isinstance(data, list) else []
        unknown = 0
        for place, entry in enumerate(mapping(entries).values()):
            told = mapping(entry)
            blob = _bytes(blobs[place]) if place < len(blobs) else b""
            mark = str(told.get("record_id")), str(told.get("timestamp")), zlib.crc32(blob)
            if not told or mark in self._known:
                continue
            self._known[mark] = None
            if len(self._known) > KNOWN:
                del self._known[next(iter(self._known))]
            event = _event(gpu, told, blob)
            if event is None:
                unknown += 1
            else:
                yield event
        if unknown:
            yield Note("amdsmi", f"{gpu.device}: error records of no known severity", unknown)


def _event(gpu: Gpu, entry: Mapping[str, object], blob: bytes) -> Event | None:
    severity = json_text.text(entry.get("error_severity")).replace("non_fatal_", "nonfatal-")
    decoded = gpu.of_system(DECODE, blob) if blob else None
    afids = decoded[0] if isinstance(decoded, list | tuple) and decoded else []
    afids = [one for one in afids if type(one) is int] if isinstance(afids, list) else []
    document = Document.of("amdsmi", b"", _NOW)
    for one in amd_smi_inventory.inventory(
        document, gpu.device, {"severity": severity, "afids": afids}
    ):
        if isinstance(one, Event):
            attrs = {
                **one.attrs,
                "record": _word(entry.get("record_id")),
                "notify": _word(entry.get("notify_type")),
                "pci": gpu.bus,
            }
            return Event(
                "",
                one.code,
                one.text,
                gpu.device,
                _time(json_text.text(entry.get("timestamp"))),
                source="amdsmi",
                attrs={key: value for key, value in attrs.items() if value},
            )
    return None


def _word(value: object) -> str:
    """The binding gives texts of the record as bytes."""
    if isinstance(value, bytes):
        value = value.rstrip(b"\0").decode("ascii", "replace")
    return json_text.text(value)[:64]


def _time(said: str) -> datetime | None:
    """``2026/11/30 12:00:01``, which the driver writes in UTC; None if it is no time."""
    try:
        return datetime.strptime(said, "%Y/%m/%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None


def _bytes(blob: object) -> bytes:
    """A record; the binding gives its bytes as signed numbers."""
    listed = mapping(blob).get("bytes")
    if not isinstance(listed, list) or len(listed) > RECORD:
        return b""
    return bytes(one & 0xFF for one in listed if type(one) is int)
