"""``nvidia-smi topo -m``: how GPUs and NICs are connected, and which CPUs are near.

Columns are counted, not measured: labels may run into each other (``NIC28NIC29``), the heading
may be wrapped, rows may come in any order.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, reader
from bigiron.ingest.nvidia_failures import failure, failures
from bigiron.model import Device, Fact, Note, Observation

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LABEL = re.compile(r"^(?:GPU\d{1,3}|NIC\d{1,3}|(?:mlx5|bnxt_re|irdma|roce|ibp|rdma|efa|ib)\w*)$")
_MERGED = re.compile(r"(?:GPU|NIC)\d{1,3}(?=(?:GPU|NIC|$))")
_CELL = re.compile(r"^(?:X|SYS|NODE|PHB|PXB|PIX|PSB|C2C|SOC|NV\d{1,3}|N/A|\?)$")
_LEGEND = re.compile(r"^\s*(NIC\d{1,3}):\s*(\S+)\s*$")
_CPUS = re.compile(r"^[\d,-]+$")
NEAR = ("PIX", "PXB", "PHB")
"""Connections of a NIC that stay below the GPU's own PCIe host bridge, nearest first."""


@dataclass(slots=True)
class _Matrix:
    labels: list[str] = field(default_factory=list)
    rows: dict[str, list[str]] = field(default_factory=dict)
    rest: dict[str, list[str]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    outside: list[tuple[int, str]] = field(default_factory=list)
    odd: int = 0


class _Reader:
    def sniff(self, head: Head) -> float:
        lines = [_ANSI.sub("", line).split() for line in head.text.splitlines()[:200]]
        heading = any(_is_heading(words) for words in lines)
        rows = any(_is_row(words) for words in lines)
        return 0.93 if heading and rows else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        matrix = _parse(document)
        events = list(failures(document, iter(matrix.outside)))
        if not matrix.rows and not events:
            raise ParseError(document.name, 1, "no topology matrix in it")
        yield from _observe(document, matrix)
        yield from events
        if matrix.odd:
            yield Note(document.name, "rows or columns that do not fit the heading", matrix.odd)


def _is_heading(words: list[str]) -> bool:
    return bool(words) and bool(_LABEL.match(words[0])) and not any(map(_CELL.match, words[:-1]))


def _is_row(words: list[str]) -> bool:
    return len(words) > 1 and bool(_LABEL.match(words[0])) and bool(_CELL.match(words[1]))


def _parse(document: Document) -> _Matrix:
    matrix = _Matrix()
    for number, raw in enumerate(document.lines(), 1):
        line = _ANSI.sub("", raw[:16_384])
        words = line.split()
        legend = _LEGEND.match(line)
        if legend is not None:
            matrix.names[legend[1]] = legend[2]
        elif _is_row(words):
            cells = words[1:]
            end = next((i for i, word in enumerate(cells) if not _CELL.match(word)), len(cells))
            matrix.rows[words[0]] = cells[:end]
            matrix.rest[words[0]] = cells[end:]
        elif not matrix.rows and _is_heading(words):
            matrix.labels += _labels(words)
        elif failure(line):
            matrix.outside.append((number, line))
    return matrix


def _labels(words: list[str]) -> list[str]:
    labels = []
    for word in words:
        if word in ("CPU", "NUMA", "GPU"):  # the first of the columns after the matrix
            break
        labels.append(word)
    return labels


def _columns(matrix: _Matrix, cells: int) -> list[str]:
    """The labels that belong to so many cells: merged ones taken apart if that makes them fit."""
    if len(matrix.labels) >= cells:
        return matrix.labels
    apart: list[str] = []
    for label in matrix.labels:
        apart += _MERGED.findall(label) or [label]
    return apart


def _observe(document: Document, matrix: _Matrix) -> Iterator[Observation]:
    for row in sorted(matrix.rows, key=_order):
        if not row.startswith("GPU"):
            continue
        cells = matrix.rows[row]
        columns = _columns(matrix, len(cells))
        while len(cells) > len(columns) and cells[-1] == "N/A":  # of the columns after the matrix
            cells.pop()
        if len(columns) != len(cells):
            matrix.odd += 1
        gpu = f"gpu{int(row[3:])}"
        pairs: dict[str, str] = {}
        for label, cell in zip(columns, cells, strict=False):
            if _LABEL.match(label):
                pairs[matrix.names.get(label, label)] = cell
            else:
                matrix.odd += 1
        yield Device(document.node, gpu, "gpu", vendor="NVIDIA")
        yield from _facts(document, gpu, pairs, matrix.rest[row])
    for label in dict.fromkeys(label for label in matrix.labels if _LABEL.match(label)):
        if not label.startswith("GPU"):
            yield Device(document.node, _device(matrix.names.get(label, label)), "nic")


def _facts(
    document: Document, gpu: str, pairs: dict[str, str], rest: list[str]
) -> Iterator[Observation]:
    told = [f"{_device(to)}={cell}" for to, cell in pairs.items() if cell != "X"]
    if told:
        yield Fact(document.node, "topology", " ".join(told), gpu)
    for nearness in NEAR:
        nics = [_device(to) for to, cell in pairs.items() if cell == nearness and to[:3] != "GPU"]
        if nics:
            yield Fact(document.node, "nearest_nics", ",".join(nics), gpu)
            break
    if rest and _CPUS.match(rest[0]):
        yield Fact(document.node, "cpu_affinity", rest[0], gpu)
        if len(rest) > 1 and rest[1].isdecimal() and len(rest[1]) < 6:
            yield Fact(document.node, "numa_node", int(rest[1]), gpu)


def _device(label: str) -> str:
    """Our name of a column: ``gpu1``, ``nic0`` where no legend names it, else the NIC's own."""
    return label.lower() if label.startswith(("GPU", "NIC")) else label


def _order(label: str) -> tuple[str, int]:
    digits = re.sub(r"\D", "", label)[:6]
    return label[:3], int(digits or 0)


@reader()
def nvidia_smi_topo() -> _Reader:
    """nvidia-smi topo -m: how GPUs and NICs are connected."""
    return _Reader()
