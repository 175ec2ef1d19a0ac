"""The catalogue of faults, as data.

Every ``*.toml`` file beside this module holds ``[source.KEY]`` tables (title, date, where) and
``[[fault]]`` entries (see ``bigiron.model.Fault``). A site adds or overrides entries with files
of the same form, named by ``faults = ["site.toml"]`` in bigiron.toml; of a code that is known an
entry there gives only what differs. Where one message fits several patterns, the entry with the
longest literal (``needs``) in that message names it; of equal ones the one that stands first.

Codes are lower case words joined by dots, from the general to the particular:

    xid.79  xid.145.rlw_src_track.0x2  xid.149.netir_link_evt.r10  sxid.20034  dcgm.85
    recovery.1  clock.hw_thermal
    pcie.aer_fatal  mce.uncorrected  edac.correctable  amdgpu.ras_uncorrectable  ib.link_down
    nvme.reset_failed  kernel.oom  kernel.hung_task  kernel.panic  ...

``find`` falls back from the particular to the general, and for an unknown number to
``xid.unknown`` and its like: an unknown code is itself worth telling, never dropped.
"""

import re
import tomllib
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, cast

import msgspec

from bigiron.errors import ConfigError
from bigiron.model import ActionKind, Blame, Fault, Severity

CLEARS = ("reboot", "reset", "quiet", "person")

FOUND_LIMIT = 10_000
"""Codes whose entry is remembered; there is no end of codes that no catalogue knows."""

_ENTRY = re.compile(r"^\[\[fault\]\]", re.MULTILINE)
_CODE = re.compile(r'^code = "([^"]+)"$', re.MULTILINE)


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where entries come from: a title, the day it was read, and where it can be found."""

    title: str
    date: str
    where: str


class Shelf(Mapping[str, Fault]):
    """The entries of some TOML texts by code, each read when it is first asked for.

    A look at one log needs a handful of more than a thousand entries, and a person waits for it.
    An entry's text begins at its ``[[fault]]`` line and holds a line ``code = "..."``.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.sources: dict[str, Source] = {}
        self._texts: dict[str, tuple[str, str]] = {}
        self._read: dict[str, Fault] = {}
        for file, text in texts.items():
            head, *entries = _ENTRY.split(text)
            if "[source." in head:
                self.sources.update(parse(head, file, self.sources)[1])
            for entry in entries:
                found = _CODE.search(entry)
                if found is None:
                    raise ConfigError(file, "fault", f"an entry without a code: {entry[:80]!r}")
                self._texts[found[1]] = (entry, file)

    def __getitem__(self, code: str) -> Fault:
        fault = self._read.get(code)
        if fault is None:
            entry, file = self._texts[code]
            (fault,), _ = parse(f"[[fault]]{entry}", file, self.sources)
            self._read[code] = fault
        return fault

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def __contains__(self, code: object) -> bool:
        return code in self._texts

    def patterned(self, code: str) -> bool:
        """Whether an entry has patterns, without reading it."""
        return "\npatterns" in self._texts[code][0]


class Catalogue:
    """The known faults by code: those given and, beneath them, those of a shelf."""

    def __init__(
        self, faults: Iterable[Fault], sources: Mapping[str, Source], shelf: Shelf | None = None
    ) -> None:
        self._own = {fault.code: fault for fault in faults}
        self._shelf = Shelf({}) if shelf is None else shelf
        self._faults: Mapping[str, Fault] = ChainMap(self._own, cast(Any, self._shelf))
        self._found: dict[str, Fault] = {}
        self.sources = dict(sources)

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._faults.values())

    def __len__(self) -> int:
        return len(self._faults)

    def __contains__(self, code: str) -> bool:
        return code in self._faults

    def patterned(self) -> Iterator[Fault]:
        """The entries with patterns, in the catalogue's order."""
        for code in self._faults:
            own = self._own.get(code)
            if own.patterns if own is not None else self._shelf.patterned(code):
                yield self._faults[code]

    def get(self, code: str) -> Fault | None:
        """The entry of exactly this code."""
        return self._faults.get(code)

    def find(self, code: str) -> Fault:
        """The entry of this code, of the nearest more general one, or ``FAMILY.unknown``.

        A code of no known family gets an entry that says so, as a warning of unknown blame.
        """
        found = self._found.get(code)
        if found is None:
            found = self.known(code) or _uncatalogued(code)
            if len(self._found) < FOUND_LIMIT:
                self._found[code] = found
        return found

    def known(self, code: str) -> Fault | None:
        """The same; None for a code of no known family."""
        parts = code.split(".")
        for end in range(len(parts), 0, -1):
            fault = self._faults.get(".".join(parts[:end]))
            if fault is not None:
                return fault
        return self._faults.get(f"{parts[0]}.unknown")

    def with_overrides(self, files: Iterable[Path]) -> "Catalogue":
        """This catalogue with the entries of a site's own files added or replaced."""
        own = dict(self._own)
        known: Mapping[str, Fault] = ChainMap(own, cast(Any, self._shelf))
        sources = dict(self.sources)
        for file in files:
            try:
                text = file.read_text("utf-8")
            except OSError as error:
                raise ConfigError(str(file), "", f"cannot be read: {error.strerror}") from error
            more, more_sources = parse(text, str(file), sources, known)
            for fault in more:
                _check_patterns(fault, str(file))
            own.update({fault.code: fault for fault in more})
            sources.update(more_sources)
        return Catalogue(own.values(), sources, self._shelf)


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
    text: str,
    file: str,
    known_sources: Mapping[str, Source] | None = None,
    known_faults: Mapping[str, Fault] | None = None,
) -> tuple[list[Fault], dict[str, Source]]:
    """The entries and sources of one TOML text. Raises ConfigError naming file and key.

    An entry of a code in ``known_faults`` keeps what it does not give anew.
    """
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
    entries = data.get("fault", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigError(file, "fault", "entries are written as [[fault]]")
    faults = [_fault(entry, file, every, known_faults or {}) for entry in entries]
    return faults, sources


def _fault(
    given: dict[str, Any],
    file: str,
    sources: Mapping[str, Source],
    known: Mapping[str, Fault],
) -> Fault:
    code = str(given.get("code", "?"))
    unknown = set(given) - set(Fault.__struct_fields__)
    if unknown:
        raise ConfigError(file, f"{code}.{sorted(unknown)[0]}", "no such key in a fault")
    dated: dict[str, Any] = {}
    if str(given.get("source")) in sources:
        dated = {"date": sources[str(given["source"])].date}
    former = msgspec.to_builtins(known[code]) if code in known else {}
    entry = {**former, **dated, **given}
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


def _check_patterns(fault: Fault, file: str) -> None:
    for pattern in fault.patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(file, f"{fault.code}.patterns", f"{pattern!r}: {error}") from error
    if fault.patterns and not (fault.needs and all(fault.needs)):
        wanted = "literals, one of which stands in every line that the patterns match"
        raise ConfigError(file, f"{fault.code}.needs", wanted)


def catalogue() -> Catalogue:
    """The catalogue in use: the one that ships with bigiron, with the site's if ``use`` said so."""
    return _in_use[-1] if _in_use else shipped()


_in_use: list[Catalogue] = []


def use(files: Iterable[Path]) -> Catalogue:
    """Put a site's files over the shipped catalogue, for this process and from now on.

    Called once, at the start, before anything is judged. Raises ConfigError.
    """
    _in_use[:] = [shipped().with_overrides(files)]
    return _in_use[-1]


@cache
def shipped() -> Catalogue:
    """The catalogue that ships with bigiron; its entries are read when they are asked for."""
    files = sorted(resources.files(__name__).iterdir(), key=lambda f: f.name)
    shelf = Shelf({f.name: f.read_text("utf-8") for f in files if f.name.endswith(".toml")})
    return Catalogue((), shelf.sources, shelf)
