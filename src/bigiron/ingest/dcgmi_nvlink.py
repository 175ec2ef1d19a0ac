"""``dcgmi nvlink``: link status (-s) and error counts (-e, -e -j)."""

import re
from collections.abc import Iterator

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, reader
from bigiron.ingest.dcgmi_tree import Tree, trees
from bigiron.ingest.nvidia_links import Links, observe_links
from bigiron.ingest.nvidia_values import number
from bigiron.model import Note, Observation

_ERRORS = "NVLINK Error Counts"
_DEVICE = re.compile(r"^\s*(?P<kind>gpuId|physicalId)\s+(?P<id>\d{1,4})\s*:\s*(?P<rest>[UDX_ ]*)$")
_STATES = re.compile(r"^\s*[UDX_](?:\s+[UDX_])*\s*$")
LIMIT = 16 * 1024 * 1024
_LINK = re.compile(r"^Link (\d{1,3})$")
_GPU = re.compile(r"^GPU (?:Id: )?(\d{1,3})$", re.IGNORECASE)


class _Reader:
    def sniff(self, head: Head) -> float:
        if _ERRORS in head.text:
            return 0.95
        lines = [line[:1024].rstrip() for line in head.text.splitlines()[:200]]
        return 0.95 if any(_DEVICE.match(line) for line in lines) else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        text = document.text(LIMIT)
        if _ERRORS in text:
            yield from _errors(document, text)
        else:
            yield from _status(document, text)


def _errors(document: Document, text: str) -> Iterator[Observation]:
    for tree in trees(text, document.name):
        links = _counted(tree)
        if links is not None:
            yield from observe_links(document, [links])
        if not tree.complete:
            yield Note(document.name, "output cut short, used as far as it goes")


def _counted(tree: Tree) -> Links | None:
    gpu = next((m[1] for line in tree.header if (m := _GPU.match(line.strip()))), None)
    if gpu is None:
        return None
    links = Links(f"gpu{int(gpu)}")
    for name, entry in tree.body.children.items():
        link = _LINK.match(name)
        for counter, count in entry.children.items():
            value = number(count.value)
            if link is not None and value is not None:
                links.counters[int(link[1]), counter.strip().lower()] = value
    return links


def _status(document: Document, text: str) -> Iterator[Observation]:
    every: list[Links] = []
    waiting = False
    for raw in text.splitlines():
        line = raw[:1024].rstrip()
        device = _DEVICE.match(line)
        if device is not None:
            switch = device["kind"] == "physicalId"
            name = f"{'nvswitch' if switch else 'gpu'}{int(device['id'])}"
            every.append(Links(name, kind="switch" if switch else "gpu"))
            waiting = True
            line = device["rest"]
        if waiting and _STATES.match(line):
            _letters(every[-1], line.split())
            waiting = False
    if not every:
        raise ParseError(document.name, 1, "no link status in it")
    yield from observe_links(document, every)
    if waiting:
        yield Note(document.name, "output cut short, used as far as it goes")


def _letters(links: Links, letters: list[str]) -> None:
    """Up=U, Down=D, Disabled=X, Not Supported=_ (the key that dcgmi prints below)."""
    for link, letter in enumerate(letters):
        group = {"U": links.up, "D": links.down, "X": links.disabled}.get(letter)
        if group is not None:
            group.add(link)


@reader()
def dcgmi_nvlink() -> _Reader:
    """dcgmi nvlink -s and -e: the state and the error counters of each NVLink."""
    return _Reader()
