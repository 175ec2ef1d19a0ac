"""The catalogue of faults, as data.

Every ``*.toml`` file beside this module holds ``[source.KEY]`` tables (title, date, where) and
``[[fault]]`` entries (see ``bigiron.model.Fault``). A site adds or overrides entries with files
of the same form, named by ``faults = ["site.toml"]`` in bigiron.toml.

Codes are lower case words joined by dots, from the general to the particular:

    xid.79  xid.145.rlw_src_track.0x2  sxid.20034  dcgm.85  recovery.1  clock.hw_thermal
    pcie.aer_fatal  mce.uncorrected  edac.correctable  amdgpu.ras_uncorrectable  ib.link_down
    nvme.reset_failed  kernel.oom  kernel.hung_task  kernel.panic  ...

``find`` falls back from the particular to the general, and for an unknown number to
``xid.unknown`` and its like: an unknown code is itself worth telling, never dropped.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from bigiron.errors import ConfigError
from bigiron.model import ActionKind, Blame, Fault, Severity

CLEARS = ("reboot", "reset", "quiet", "person")


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where entries come from: a title, the day it was read, and where it can be found."""

    title: str
    date: str
    where: str


class Catalogue:
    """The known faults by code."""

    def __init__(self, faults: Iterable[Fault], sources: Mapping[str, Source]) -> None:
        self._faults = {fault.code: fault for fault in faults}
        self.sources = dict(sources)

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._faults.values())

    def __len__(self) -> int:
        return len(self._faults)

    def __contains__(self, code: str) -> bool:
        return code in self._faults

    def get(self, code: str) -> Fault | None:
        """The entry of exactly this code."""
        return self._faults.get(code)

    def find(self, code: str) -> Fault:
        """The entry of this code, of the nearest more general one, or ``FAMILY.unknown``.

        A code of no known family gets an entry that says so, as a warning of unknown blame.
        """
        parts = code.split(".")
        for end in range(len(parts), 0, -1):
            fault = self._faults.get(".".join(parts[:end]))
            if fault is not None:
                return fault
        return self._faults.get(f"{parts[0]}.unknown") or _uncatalogued(code)

    def with_overrides(self, files: Iterable[Path]) -> "Catalogue":
        """This catalogue with the entries of a site's own files added or replaced."""
        faults = dict(self._faults)
        sources = dict(self.sources)
        for file in files:
            try:
                text = file.read_text("utf-8")
            except OSError as error:
                raise ConfigError(str(file), "", f"cannot be read: {error.strerror}") from error
            more, more_sources = parse(text, str(file), known_sources=sources)
            faults.update({fault.code: fault for fault in more})
            sources.update(more_sources)
        return Catalogue(faults.values(), sources)


def _uncatalogued(code: str) -> Fault:
    return Fault(
        code=code,
        name=f"uncatalogued fault {code}",
        meaning="This code is in no catalogue that bigiron was given.",
        severity=Severity.WARNING,
        blame=Blame.UNKNOWN,
        source="bigiron",
        date="2026-11-30",
        look=("the raw line, and whether peers show the same",),
    )


def parse(
    text: str, file: str, known_sources: Mapping[str, Source] | None = None
) -> tuple[list[Fault], dict[str, Source]]:
    """The entries and sources of one TOML text. Raises ConfigError naming file and key."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(file, "", f"not TOML: {error}") from error
    unknown = set(data) - {"source", "fault"}
    if unknown:
        raise ConfigError(file, sorted(unknown)[0], "only [source.KEY] and [[fault]] belong here")
    try:
        sources = msgspec.convert(data.get("source", {}), dict[str, Source])
    except msgspec.ValidationError as error:
        raise ConfigError(file, "source", str(error)) from error
    every = {**(known_sources or {}), **sources}
    faults = [_fault(entry, file, every) for entry in data.get("fault", [])]
    return faults, sources


def _fault(entry: dict[str, Any], file: str, sources: Mapping[str, Source]) -> Fault:
    code = str(entry.get("code", "?"))
    unknown = set(entry) - set(Fault.__struct_fields__)
    if unknown:
        raise ConfigError(file, f"{code}.{sorted(unknown)[0]}", "no such key in a fault")
    entry = dict(entry)
    if "source" in entry and entry["source"] in sources:
        entry.setdefault("date", sources[entry["source"]].date)
    try:
        fault = msgspec.convert(entry, Fault)
    except msgspec.ValidationError as error:
        raise ConfigError(file, code, str(error)) from error
    if fault.source not in sources:
        raise ConfigError(file, f"{code}.source", f"no [source.{fault.source}] is given")
    if fault.clears not in CLEARS:
        raise ConfigError(file, f"{code}.clears", f"one of {', '.join(CLEARS)}")
    if fault.action is ActionKind.RESUME:
        raise ConfigError(file, f"{code}.action", "a fault never asks to resume a node")
    return fault


@cache
def catalogue() -> Catalogue:
    """The catalogue that ships with bigiron, read once."""
    faults: list[Fault] = []
    sources: dict[str, Source] = {}
    for file in sorted(resources.files(__name__).iterdir(), key=lambda f: f.name):
        if file.name.endswith(".toml"):
            more, more_sources = parse(file.read_text("utf-8"), file.name, sources)
            faults += more
            sources.update(more_sources)
    return Catalogue(faults, sources)
