"""Which GPUs there are: ``nvidia-smi -L``, ``nvidia-smi --version``, ``dcgmi discovery -l``."""

import re
from collections.abc import Iterator

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, pci_address, reader
from bigiron.ingest.nvidia_failures import failure, failures
from bigiron.model import Device, Fact, Note, Observation

_GPU = re.compile(
    r"^GPU (?P<index>\d{1,3}): (?P<model>.+?) \(UUID: (?P<uuid>GPU-[0-9A-Fa-f-]+)\)\s*$"
)
_MIG = re.compile(r"^\s+MIG \S+\s+Device\s+\d+:")
_VERSION = re.compile(
    r"^(?P<what>NVIDIA-SMI|NVML|DRIVER|KMD|CUDA(?: UMD)?) version\s*:\s*(?P<v>\S+)", re.I
)
MAX_LINE = 512
_FACTS = {"driver": "driver_version", "kmd": "driver_version", "cuda": "cuda_version"}


class _List:
    def sniff(self, head: Head) -> float:
        lines = [line[:MAX_LINE] for line in head.text.splitlines()[:200] if line.strip()]
        gpus = sum(bool(_GPU.match(line)) for line in lines)
        others = sum(not (_GPU.match(line) or _MIG.match(line)) for line in lines)
        if not gpus or any(line.lstrip().startswith("Link ") for line in lines):
            return 0.0
        return 0.9 if others <= 3 else 0.4

    def read(self, document: Document) -> Iterator[Observation]:
        gpus: list[re.Match[str]] = []
        outside: list[tuple[int, str]] = []
        strange = 0
        for number, raw in enumerate(document.lines(), 1):
            line = raw[:MAX_LINE].rstrip()
            match = _GPU.match(line)
            if match is not None:
                gpus.append(match)
            elif failure(line):
                outside.append((number, line))
            elif line.strip() and not _MIG.match(line) and number > 1:
                strange += 1
        events = list(failures(document, iter(outside)))
        if not gpus and not events:
            raise ParseError(document.name, 1, "no list of GPUs in it")
        if gpus:
            yield Fact(document.node, "gpu_count", len({gpu["index"] for gpu in gpus}))
        for gpu in gpus:
            name = f"gpu{int(gpu['index'])}"
            yield Device(
                document.node, name, "gpu", gpu["uuid"], model=gpu["model"], vendor="NVIDIA"
            )
            yield Fact(document.node, "uuid", gpu["uuid"], name)
            yield Fact(document.node, "model", gpu["model"], name)
        yield from events
        if strange:
            yield Note(document.name, "lines that list no GPU", strange)


class _Version:
    def sniff(self, head: Head) -> float:
        found = [m["what"] for line in head.text.splitlines()[:20] if (m := _VERSION.match(line))]
        return 0.9 if "NVIDIA-SMI" in found else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        found: dict[str, str] = {}
        for line in document.lines():
            match = _VERSION.match(line)
            name = _FACTS.get(match["what"].lower().split()[0], "") if match else ""
            if match is not None and name:
                found[name] = match["v"]
        if not found:
            raise ParseError(document.name, 1, "no driver version in it")
        for name, value in found.items():
            yield Fact(document.node, name, value)


_CELLS = re.compile(r"^\|\s*(?P<id>\d*)\s*\|\s*(?P<text>.*?)\s*\|\s*$")
_FOUND = re.compile(r"^(\d{1,3}) GPUs? found\.", re.MULTILINE)


class _Discovery:
    def sniff(self, head: Head) -> float:
        return 0.9 if _FOUND.search(head.text) and "Device Information" in head.text else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        text = document.text(1 << 20)
        found = _FOUND.search(text)
        if found is None:
            raise ParseError(document.name, 1, "no 'GPUs found' in it")
        yield Fact(document.node, "gpu_count", int(found[1]))
        gpus: dict[str, dict[str, str]] = {}
        name = ""
        for line in text[found.end() :].splitlines()[:10_000]:
            if line[:1].isdecimal():  # the next table, of switches or of CPUs
                break
            cells = _CELLS.match(line[:MAX_LINE])
            if cells is None:
                continue
            name = f"gpu{int(cells['id'][:6])}" if cells["id"] else name
            key, _, value = cells["text"].partition(":")
            if name and value:
                gpus.setdefault(name, {})[key.strip().lower()] = value.strip()
        for name, told in gpus.items():
            uuid, model = told.get("device uuid", ""), told.get("name", "")
            bus = pci_address(told.get("pci bus id", ""))
            yield Device(document.node, name, "gpu", uuid, bus, model, "NVIDIA")
        if len(gpus) < int(found[1]):
            yield Note(document.name, "fewer GPUs listed than found: cut short")


@reader()
def nvidia_smi_list() -> _List:
    """nvidia-smi -L: the GPUs by index, model and UUID."""
    return _List()


@reader()
def nvidia_smi_version() -> _Version:
    """nvidia-smi --version: the versions of driver and CUDA."""
    return _Version()


@reader()
def dcgmi_discovery() -> _Discovery:
    """dcgmi discovery -l: the GPUs that DCGM sees."""
    return _Discovery()
