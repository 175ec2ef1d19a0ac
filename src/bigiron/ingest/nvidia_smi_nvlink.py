"""``nvidia-smi nvlink``: status (-s), error counters (-e) and capabilities (-c) of each link."""

import re
from collections.abc import Iterator

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, reader
from bigiron.ingest.nvidia_failures import failure, failures
from bigiron.ingest.nvidia_links import Links, observe_links
from bigiron.ingest.nvidia_values import number
from bigiron.model import Note, Observation

_GPU = re.compile(
    r"^\s*GPU (?P<index>\d{1,3}): (?P<model>.*?)(?:\s*\(UUID: (?P<uuid>[^)]*)\)?)?\s*$"
)
_STATUS = re.compile(r"^\s*Link (?P<link>\d{1,3}): (?P<state><\w+>|[\d.]+ ?GB/s|N/A)\s*$")
_COUNTER = re.compile(
    r"^\s*Link (?P<link>\d{1,3})[:,]\s*(?P<counter>[A-Za-z][^:]*?(?: - \d+)?):"
    r"\s*(?P<value>\S.*?)\s*$"
)
_INACTIVE = re.compile(r"all links are in-?active", re.IGNORECASE)
_NONE = re.compile(r"not supported for Devices in MIG mode|not have or support NVLink", re.I)
MAX_LINE = 512
_FLOAT = re.compile(r"^\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$")


class _Reader:
    def sniff(self, head: Head) -> float:
        text = head.text
        lines = [line[:MAX_LINE].rstrip() for line in text.splitlines()[:300]]
        if not any(_GPU.match(line) for line in lines):
            return 0.0
        if _INACTIVE.search(text):
            return 0.92
        if any(_STATUS.match(line) or _COUNTER.match(line) for line in lines):
            return 0.92
        return 0.92 if _NONE.search(text) else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        every: list[Links] = []
        outside: list[tuple[int, str]] = []
        strange = 0
        for at, raw in enumerate(document.lines(), 1):
            line = raw[:MAX_LINE].rstrip()
            gpu = _GPU.match(line)
            if gpu is not None:
                uuid = gpu["uuid"] or ""
                every.append(Links(f"gpu{int(gpu['index'])}", id=uuid, model=gpu["model"]))
            elif failure(line):
                outside.append((at, line))
            elif every and line.strip():
                strange += not _line(every[-1], line)
        events = list(failures(document, iter(outside)))
        if not every and not events:
            raise ParseError(document.name, 1, "no GPU with links in it")
        yield from observe_links(document, _merged(every))
        yield from events
        if strange:
            yield Note(document.name, "nvlink lines not understood", strange)


def _merged(every: list[Links]) -> list[Links]:
    """One entry a GPU: ``-s`` and ``-e`` may stand one after the other."""
    merged: dict[str, Links] = {}
    for one in every:
        known = merged.setdefault(one.name, one)
        if known is not one:
            known.speeds |= one.speeds
            known.down |= one.down
            known.up |= one.up
            known.counters |= one.counters
            known.all_inactive |= one.all_inactive
    return list(merged.values())


def _line(links: Links, line: str) -> bool:
    """Takes one line below a GPU; False if it could not be understood."""
    if _INACTIVE.search(line):
        links.all_inactive = True
        return True
    if _NONE.search(line) or "NVML:" in line or "not supported" in line.lower():
        return True
    status = _STATUS.match(line)
    if status is not None:
        link, speed = int(status["link"]), number(status["state"])
        if speed is not None and speed > 0:
            links.speeds[link] = speed
        elif status["state"] != "N/A":
            links.down.add(link)
        return True
    counter = _COUNTER.match(line)
    if counter is None:
        return False
    value = counter["value"].split()[0]
    if _FLOAT.match(value):
        links.counters[int(counter["link"]), counter["counter"].strip().lower()] = float(value)
    return True


@reader()
def nvidia_smi_nvlink() -> _Reader:
    """nvidia-smi nvlink -s, -e, -c: the state, speed and error counters of each NVLink."""
    return _Reader()
