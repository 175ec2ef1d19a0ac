"""Documents that hold other documents: each part is read by whoever recognises it best.

What the parts tell is then brought under one name: a part that knows a GPU only by its PCI
address or UUID means the same one as a part that gives its index.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, reader
from bigiron.model import CheckResult, Device, Event, Fact, Note, Observation, Sample

SURE = 0.3
"""A part recognised less surely than this is not read."""

CONTAINERS = frozenset({"nvidia_smi_bundle", "nvidia_bug_report"})
MAX_SECTIONS = 2000
MAX_SECTION = 32 * 1024 * 1024
"""Bytes of one part; what is beyond is cut."""


@dataclass(slots=True)
class Section:
    """A part: what it calls itself, the line it begins at (from 1) and its text."""

    title: str
    line: int
    text: str


def observe_sections(document: Document, sections: Iterable[Section]) -> Iterator[Observation]:
    """Everything the parts tell; a Note counts those that nobody could read."""
    readers = [(plugin.name, plugin.run()) for plugin in reader if plugin.name not in CONTAINERS]
    seen: list[Observation] = []
    unread: list[str] = []
    for section in sections:
        part = Document.of(
            f"{document.name}: {section.title}" if section.title else document.name,
            section.text[:MAX_SECTION].encode("utf-8", "replace"),
            document.now,
            document.node,
        )
        head = Head.of(part)
        sure, name, best = max(
            ((one.sniff(head), name, one) for name, one in readers), key=lambda found: found[0]
        )
        if sure < SURE:
            unread.append(section.title)
            continue
        try:
            seen += [_placed(one, section, document.node) for one in best.read(part)]
        except ParseError as error:
            seen.append(Note(part.name, f"not readable as {name}: {error.problem}"))
    yield from _renamed(seen)
    if unread:
        shown = "; ".join(title[:60] for title in unread[:5])
        yield Note(document.name, f"parts that nobody reads: {shown}", len(unread))


def _placed(one: Observation, section: Section, node: str) -> Observation:
    """An event's line counts from the top of the whole document; a host it names goes for all."""
    if isinstance(one, Event) and one.line:
        one = msgspec.structs.replace(one, line=one.line + section.line - 1)
    named = isinstance(one, Sample | Event | Fact | CheckResult | Device) and not one.node
    return msgspec.structs.replace(one, node=node) if named and node else one


def _renamed(seen: list[Observation]) -> Iterator[Observation]:
    names: dict[str, str] = {}
    for one in seen:
        if isinstance(one, Device) and one.kind == "gpu" and one.name.startswith("gpu"):
            for other in (one.bus, one.id):
                if other and names.setdefault(other, one.name) != one.name:
                    names[other] = ""  # two GPUs share it: masked output
    yield from _devices(seen, names)
    for one in seen:
        if isinstance(one, Device):
            continue
        if isinstance(one, Sample | Event | Fact | CheckResult):
            name = names.get(one.device, "")
            yield msgspec.structs.replace(one, device=name) if name else one
        else:
            yield one


def _devices(seen: list[Observation], names: dict[str, str]) -> Iterator[Device]:
    """Each device once, with everything that any part tells of it."""
    known: dict[str, Device] = {}
    for one in seen:
        if isinstance(one, Device):
            name = names.get(one.name, "") or one.name
            before = known.get(name, Device(one.node, name))
            known[name] = Device(
                one.node or before.node,
                name,
                before.kind or one.kind,
                before.id or one.id,
                before.bus or one.bus,
                before.model or one.model,
                before.vendor or one.vendor,
            )
    yield from known.values()
