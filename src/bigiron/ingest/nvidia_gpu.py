"""One GPU's query fields (``nvidia_fields``) to devices, facts, samples and events."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from bigiron.ingest import Document, pci_address
from bigiron.ingest.nvidia_fields import (
    FABRIC_FAILED,
    FABRIC_STATES,
    FACTS,
    FLAGS,
    HEALTH_CONFIGURATION_SHIFT,
    HEALTH_CONFIGURATIONS,
    HEALTH_SLOTS,
    HEALTH_WORDS,
    MEASURES,
    NUMBER_FACTS,
    REASONS,
    RECOVERY_ACTIONS,
    Measure,
)
from bigiron.ingest.nvidia_values import absent, clean, flag, number, trouble
from bigiron.model import Device, Event, Fact, FactValue, Note, Observation, Sample

LOST_FIELDS = 3
"""A GPU whose temperature and at least this many fields cannot be read does not answer at all."""

SRAM_SOURCES = ("l2", "sm", "mcu", "pcie", "other")


@dataclass(slots=True)
class Reading:
    """What one tool said about one GPU at one time: raw words under their query names."""

    fields: dict[str, str] = field(default_factory=dict)
    line: int = 0
    time: datetime | None = None
    processes: int | None = None
    """How many processes use it; None if the document does not say."""

    def get(self, name: str) -> str:
        """The field's word, "" where there is none or it says that there is none."""
        word = self.fields.get(name, "")
        if not word:
            return ""
        return "" if absent(word) or trouble(word) else clean(word)


def device_name(reading: Reading, order: int | None) -> str:
    """``gpu3`` by the index the tool gives or by ``order``, else by PCI address or minor number."""
    index = reading.get("index")
    if index.isdecimal():
        return f"gpu{int(index)}"
    if order is not None:
        return f"gpu{order}"
    minor = reading.get("minor_number")
    if minor.isdecimal():
        return f"gpu{int(minor)}"
    return pci_address(reading.get("pci.bus_id"))


def observe(document: Document, reading: Reading, name: str) -> Iterator[Observation]:
    """Everything one reading tells about the GPU called ``name``."""
    teller = _Teller(document, reading, name)
    yield Device(
        node=document.node,
        name=name,
        kind="gpu",
        id=reading.get("uuid"),
        bus=pci_address(reading.get("pci.bus_id")),
        model=reading.get("name"),
        vendor="NVIDIA",
    )
    yield from teller.events()
    yield from teller.facts()
    yield from teller.samples()
    yield from teller.notes()


@dataclass(frozen=True, slots=True)
class _Plan:
    """What there is to look for in readings that have these fields: most ask for a few."""

    measures: tuple[Measure, ...]
    number_facts: tuple[Measure, ...]
    facts: tuple[tuple[str, str], ...]
    flags: tuple[tuple[str, str], ...]
    ecc: bool
    reasons: bool


@lru_cache(maxsize=64)
def _plan(fields: tuple[str, ...]) -> _Plan:
    there = frozenset(fields)
    return _Plan(
        tuple(measure for measure in MEASURES if measure.field in there),
        tuple(measure for measure in NUMBER_FACTS if measure.field in there),
        tuple(pair for pair in FACTS if pair[0] in there),
        tuple(pair for pair in FLAGS if pair[0] in there),
        any(name.startswith("ecc.errors.") for name in fields),
        any(name.startswith("clocks_event_reasons.") for name in fields),
    )


class _Teller:
    def __init__(self, document: Document, reading: Reading, name: str) -> None:
        self._document = document
        self._reading = reading
        self._name = name
        self._plan = _plan(tuple(reading.fields))
        self._strange: set[str] = set()

    def facts(self) -> Iterator[Fact]:
        reading = self._reading
        bus = pci_address(reading.get("pci.bus_id"))
        if bus:
            yield self._fact("bus", bus)
        for source, name in self._plan.facts:
            word = reading.get(source)
            if word:
                yield self._fact(name, word)
        told: set[str] = set()
        for measure in self._plan.number_facts:
            value = self._number(measure.field, measure.unit)
            if value is not None and measure.metric not in told:
                told.add(measure.metric)
                yield self._fact(measure.metric, int(value) if value.is_integer() else value)
        active = [r for r, _ in REASONS if self._active(r)] if self._plan.reasons else []
        if active:
            yield self._fact("clock_event_reasons", ", ".join(active))
        if not self._plan.ecc:
            return
        sources = [(s, self._number(f"{_UNCORRECTED_SRAM}.{s}")) for s in SRAM_SOURCES]
        if any(value for _, value in sources):
            text = ", ".join(f"{s} {value:.0f}" for s, value in sources if value is not None)
            yield self._fact("sram_uncorrectable_sources", text)

    def samples(self) -> Iterator[Sample]:
        told: set[str] = set()
        for measure in self._plan.measures:
            if measure.metric in told:
                continue
            value = self._number(measure.field, measure.unit)
            if value is not None:
                told.add(measure.metric)
                yield self._sample(measure.metric, value)
        for source, metric in self._plan.flags:
            word = self._reading.get(source)
            value = flag(word) if word else None
            if value is not None and metric not in told:
                told.add(metric)
                yield self._sample(metric, value)
            elif word and value is None:
                self._strange.add(source)
        if self._plan.ecc:
            yield from self._ecc()
        if self._plan.reasons:
            yield from self._clock_reasons()
        yield from self._states()
        if self._reading.processes is not None:
            yield self._sample("gpu_processes", float(self._reading.processes))

    def events(self) -> Iterator[Event]:
        """One event for each kind of failure that its fields tell of, lost before all others."""
        unread: dict[str, list[str]] = {}
        for source, word in self._reading.fields.items():
            code = trouble(word)
            if code:
                unread.setdefault(code, []).append(source)
        silent = unread.get("gpu.unhealthy", [])
        if "temperature.gpu" in silent and len(silent) >= LOST_FIELDS:
            unread.setdefault("nvrm.gpu_lost", []).extend(silent)
            del unread["gpu.unhealthy"]
        for code in sorted(unread, reverse=True):
            names = unread[code]
            word = clean(self._reading.fields[names[0]])
            yield self._event(code, f"{word!r} in place of {', '.join(names[:6])}")
        action = self._reading.get("gpu_recovery_action")
        if action and action.lower() not in RECOVERY_ACTIONS:
            yield self._event("gpu.recovery_needed", f"recovery action {action!r}")

    def notes(self) -> Iterator[Note]:
        """What the fields held that could not be understood."""
        if self._strange:
            what = f"{self._name}: not understood: {', '.join(sorted(self._strange)[:6])}"
            yield Note(self._document.name, what, len(self._strange))

    def _ecc(self) -> Iterator[Sample]:
        for kind, scope, total, places in _ecc_counts(self._reading.fields):
            for place, value in places.items():
                yield self._sample(f"gpu_ecc_{place}_{kind}_{scope}_total", value)
            if total is not None:
                yield self._sample(f"gpu_ecc_{kind}_{scope}_total", total)

    def _clock_reasons(self) -> Iterator[Sample]:
        mask = self._number("clocks_event_reasons.active")
        if mask is None:
            flags = {r: flag(self._reading.get(f"clocks_event_reasons.{r}")) for r, _ in REASONS}
            if all(value is None for value in flags.values()):
                return
            mask = float(sum(bit for reason, bit in REASONS if flags[reason]))
        yield self._sample("gpu_clock_event_reasons", mask)

    def _states(self) -> Iterator[Sample]:
        action = RECOVERY_ACTIONS.get(self._reading.get("gpu_recovery_action").lower())
        if action is None:
            action = self._old_recovery_action()
        if action is not None:
            yield self._sample("gpu_recovery_action", float(action))
        state = self._reading.get("fabric.state").lower()
        if state in FABRIC_STATES:
            status = self._reading.get("fabric.status").lower()
            failed = state == "completed" and status not in ("", "success")
            yield self._sample(
                "gpu_fabric_state", FABRIC_FAILED if failed else FABRIC_STATES[state]
            )
        elif state:
            self._strange.add("fabric.state")
        mask = self._health_mask()
        if mask is not None:
            yield self._sample("gpu_fabric_health_mask", float(mask))

    def _old_recovery_action(self) -> int | None:
        reset = flag(self._reading.get("reset_required"))
        drain = flag(self._reading.get("drain_and_reset_recommended"))
        if reset is None and drain is None:
            return None
        if reset:
            return RECOVERY_ACTIONS["reset"]
        return RECOVERY_ACTIONS["drain and reset"] if drain else 0

    def _health_mask(self) -> int | None:
        mask, told = 0, False
        for source, shift in HEALTH_SLOTS:
            word = self._reading.get(source).lower()
            if word in HEALTH_WORDS:
                mask, told = mask | HEALTH_WORDS[word] << shift, True
            elif word:
                self._strange.add(source)
        word = self._reading.get("fabric.health.incorrect_configuration").lower()
        if word:
            code = HEALTH_CONFIGURATIONS.get(word.replace("_", " "), 0)
            mask, told = mask | code << HEALTH_CONFIGURATION_SHIFT, True
            if not code:
                self._strange.add("fabric.health.incorrect_configuration")
        return mask if told else None

    def _active(self, reason: str) -> bool:
        mask = self._number("clocks_event_reasons.active")
        if mask is not None:
            return bool(int(mask) & dict(REASONS)[reason])
        return flag(self._reading.get(f"clocks_event_reasons.{reason}")) == 1.0

    def _number(self, source: str, unit: str = "") -> float | None:
        word = self._reading.get(source)
        if not word:
            return None
        value = number(word, unit)
        if value is None:
            self._strange.add(source)
        return value

    def _fact(self, name: str, value: FactValue) -> Fact:
        return Fact(self._document.node, name, value, self._name, self._reading.time)

    def _sample(self, metric: str, value: float) -> Sample:
        return Sample(self._document.node, self._name, metric, float(value), self._reading.time)

    def _event(self, code: str, text: str) -> Event:
        return Event(
            node=self._document.node,
            code=code,
            text=f"{self._name}: {text}",
            device=self._name,
            time=self._reading.time,
            source=self._document.name,
            line=self._reading.line,
        )


_UNCORRECTED_SRAM = "ecc.errors.uncorrected.aggregate.sram"
_PLACES = (
    ("dram", ("dram", "device_memory")),
    ("l1", ("l1_cache",)),
    ("l2", ("l2_cache",)),
    ("register", ("register_file",)),
    ("texture", ("texture_memory",)),
)
_SRAM_PARTS = ("sram.parity", "sram.secded")

EccCount = tuple[str, str, float | None, dict[str, float]]


def _ecc_counts(fields: Mapping[str, str]) -> Iterator[EccCount]:
    """Kind, scope, total and the count of each place, in both schemas of ECC counters.

    Until driver 450 places were device memory, register file, caches and texture memory; since
    then SRAM and DRAM, later with SRAM split into parity and SEC-DED. The total is the tool's
    own where it gives one, else the sum of what it gives.
    """
    for kind, word in (("correctable", "corrected"), ("uncorrectable", "uncorrected")):
        for scope in ("volatile", "aggregate"):
            prefix = f"ecc.errors.{word}.{scope}."
            places: dict[str, float] = {}
            for place, names in _PLACES:
                value = _first(fields, [prefix + name for name in names])
                if value is not None:
                    places[place] = value
            sram = _first(fields, [f"{prefix}sram"])
            if sram is None:
                sram = _sum(_first(fields, [prefix + part]) for part in _SRAM_PARTS)
            if sram is not None:
                places["sram"] = sram
            total = _first(fields, [f"{prefix}total"])
            if total is None:
                total = _sum([*places.values(), _first(fields, [f"{prefix}cbu"])])
            yield kind, scope, total, places


def _first(fields: Mapping[str, str], names: Sequence[str]) -> float | None:
    for name in names:
        word = fields.get(name)
        value = number(word) if word else None
        if value is not None:
            return value
    return None


def _sum(values: Iterator[float | None] | Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
