"""Whose file is it? Gives each document that does not name its host a host.

A document may tell (a syslog line's host, a ``hostname`` fact). Where it does not, what lies
together belongs together: documents of one folder are one host's, unless two of one format show
they are not (other parts, or another file name that is no rotation of the first).
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from bigiron.ingest import Document
from bigiron.ingest.golden_manifest import GOLDEN
from bigiron.model import Device, Fact, Job, Maintenance, Node, Note, Observation

UNNAMED = "host"
"""The name of the only machine when nothing names it."""

SCHEDULERS = ("slurm_", "kubernetes_")
"""Formats that name every node they are about; what else they say is of the whole cluster."""

_SUFFIX = re.compile(r"\.(?:log|txt|xml|json|jsonl|csv|out|prom|psv|gz)$")
_ROTATION = re.compile(r"(?:[.-]\d+|[-_]?(?:old|prev|current))$")


@dataclass(slots=True)
class Reading:
    """A document, the reader that knew it and what it said."""

    document: Document
    format: str
    observations: list[Observation] = field(default_factory=list)
    host: str = ""

    @property
    def told(self) -> set[str]:
        """The hosts the document names itself."""
        names: set[str] = set()
        for seen in self.observations:
            if isinstance(seen, Fact) and seen.name == "hostname" and not seen.device:
                names.add(seen.node or str(seen.value))
            elif not isinstance(seen, Note | Job | Maintenance):
                names.add(seen.name if isinstance(seen, Node) else seen.node)
        return {name for name in names if name and not name.startswith(GOLDEN)}

    @property
    def golden(self) -> bool:
        """Whether it says what a machine should be, and so is no machine's."""
        return self.format == "golden_manifest"

    @property
    def rank(self) -> int | None:
        """The rank of a job whose flight recorder wrote it."""
        for seen in self.observations:
            if isinstance(seen, Fact) and seen.name == "fr_rank" and isinstance(seen.value, int):
                return seen.value
        return None

    @property
    def of_rank(self) -> bool:
        """Whether it is of a rank of a job, which may run anywhere."""
        return self.rank is not None

    @property
    def of_job(self) -> bool:
        """Whether it holds the step times of a job's ranks, which may run anywhere."""
        return self.format == "step_times"

    @property
    def homeless(self) -> bool:
        """Whether it is of no machine: a manifest, a job or its rank, a scheduler's word."""
        of_jobs = self.of_rank or self.of_job
        return self.golden or of_jobs or self.format.startswith(SCHEDULERS)

    @property
    def parts(self) -> frozenset[str]:
        """Serials and UUIDs of the parts it lists."""
        return frozenset(o.id for o in self.observations if isinstance(o, Device) and o.id)

    @property
    def stem(self) -> str:
        """The file's name without suffix and rotation number."""
        name = PurePosixPath(self.document.name.replace("!", "/")).name
        while (shorter := _ROTATION.sub("", _SUFFIX.sub("", name))) != name and shorter:
            name = shorter
        return name or "file"


def assign(readings: Sequence[Reading]) -> None:
    """Sets ``host`` on every reading that names none or one and is about a machine."""
    readings = [reading for reading in readings if not reading.homeless]
    for group in _groups(readings):
        _assign_group(group, alone=len(readings) == len(group))


def _groups(readings: Sequence[Reading]) -> list[list[Reading]]:
    """Readings that lie together: by the first folder in which their paths part."""
    paths = [PurePosixPath(r.document.name.replace("!", "/")).parts for r in readings]
    shared = 0
    while paths and all(len(p) > shared + 1 and p[shared] == paths[0][shared] for p in paths):
        shared += 1
    by_key: dict[str, list[Reading]] = defaultdict(list)
    for reading, path in zip(readings, paths, strict=True):
        by_key[path[shared] if len(path) > shared + 1 else ""].append(reading)
    formats = [{r.format for r in group if len(r.told) == 0} for group in by_key.values()]
    twice = {f for f in set().union(*formats) if sum(f in each for each in formats) > 1}
    told_apart = len({name for r in readings for name in r.told}) > 1
    return list(by_key.values()) if twice or told_apart else [list(readings)]


def _assign_group(group: list[Reading], *, alone: bool) -> None:
    told = sorted({name for reading in group for name in reading.told})
    silent = [r for r in group if not r.told]
    for reading in group:
        if len(reading.told) == 1:
            reading.host = next(iter(reading.told))
    if not _several(silent):
        name = told[0] if len(told) == 1 else "" if told else _name(group, alone=alone)
        for reading in silent:
            reading.host = _in_path(reading, told) or name or reading.stem
        return
    for reading in silent:
        reading.host = _in_path(reading, told) or _named_like(reading, silent)


def _in_path(reading: Reading, told: list[str]) -> str:
    """The told host whose name stands in the path; the longest if several."""
    names = [name for name in told if name in reading.document.name]
    return max(names, key=len, default="")


def _several(silent: list[Reading]) -> bool:
    """Whether two of one format cannot be the same machine's."""
    by_format: dict[str, list[Reading]] = defaultdict(list)
    for reading in silent:
        by_format[reading.format].append(reading)
    for same in by_format.values():
        parts = {r.parts for r in same if r.parts}
        if len(parts) > 1 and not frozenset.intersection(*parts):
            return True
        if not parts and len({r.stem for r in same}) > 1:
            return True
    return False


def _named_like(reading: Reading, silent: list[Reading]) -> str:
    """The stem of the first reading that shows the same parts, or its own."""
    if reading.parts:
        for other in silent:
            if other.parts & reading.parts:
                return other.stem
    return reading.stem


def _name(group: list[Reading], *, alone: bool) -> str:
    if alone:
        return UNNAMED
    path = PurePosixPath(group[0].document.name.replace("!", "/"))
    return path.parent.name or UNNAMED
