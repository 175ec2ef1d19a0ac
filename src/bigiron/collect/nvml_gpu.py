"""One GPU: what it is asked, what it did not answer, and what it will not answer again."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic
from typing import Any

from bigiron.collect.nvml_library import (
    FOR_GOOD,
    LOUD,
    STALE,
    Code,
    Field,
    Handle,
    Library,
    Refused,
    name,
    number,
)
from bigiron.ingest.nvidia_values import absent
from bigiron.model import Event, Note

AGAIN_S = 3600.0
"""After this what a GPU refused for good is asked again: MIG may have been switched."""

REOPEN_S = 600.0
"""A lost GPU may come back to a library that is opened anew. Not at every look: closing it may
end what the driver keeps ready of the other GPUs."""

PULSE = frozenset(
    {
        "nvmlDeviceGetHandleByIndex",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetTemperatureV",
        "nvmlDeviceGetTemperature",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetFieldValues",
    }
)
"""Functions that every GPU in order answers."""

SILENT = 3
"""A GPU that fails to answer so many functions does not answer, whichever they are. One that
fails at a single one of the others, or at some fields, may just meet a flaw of its driver: a
note."""

Key = tuple[str, tuple[Any, ...]]


class Gpu:
    """A GPU between two calls of a collector; ``begin`` starts a look at it."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._never: set[Key | Field] = set()
        self._answered: set[Key | Field] = set()
        self._since = clock()
        self._lost = False
        self.device = ""
        self.bus = ""
        self.uuid = ""
        self.model = ""
        self.answers = True
        """Whether NVML gave its handle and UUID in this look."""
        self.links = -1
        """How many NVLinks it has; -1: not known yet."""
        self.links_seen: set[int] = set()
        """Those that have answered."""
        self.seldom: dict[Field, float] = {}
        """What is read seldom, as it was when it was last read."""
        self.seldom_s = float("-inf")
        self.loud: dict[int, list[str]] = {}
        self.kept: dict[str, tuple[float, float]] = {}
        """Counters at the last look: the value and when it was read (monotonic seconds)."""

    def begin(self, library: Library, handle: Handle, device: str) -> None:
        """A new look at this GPU."""
        self.library, self.handle, self.device = library, handle, device
        self.answers = handle is not None
        self.loud = {}
        self._lost = False
        self.now = self._clock()
        if self.now - self._since >= AGAIN_S:
            self._never.clear()
            self._answered.clear()
            self._since, self.links = self.now, -1

    def ask(self, function: str, *arguments: Any) -> Any:
        """What a function gives; None where it refuses. What is loud is remembered."""
        key = function, arguments
        if self._lost or key in self._never:
            return None
        try:
            value = self.library.call(function, self.handle, *arguments)
        except Refused as refused:
            self._refused(refused.code, key, function)
            return None
        self._answered.add(key)
        return value

    def first(self, *asked: Key) -> Any:
        """The answer of the first of some functions that gives one, the newest version first."""
        for function, arguments in asked:
            value = self.ask(function, *arguments)
            if value is not None:
                return value
        return None

    def number(self, function: str, *arguments: Any) -> float | None:
        """A function's number."""
        return number(self.ask(function, *arguments))

    def word(self, function: str, *arguments: Any) -> str:
        """A function's text, "" where there is none or it says that there is none."""
        value = self.ask(function, *arguments)
        if not isinstance(value, str):
            return ""
        text = value.strip()[:256]
        return "" if absent(text) else text

    def fields(self, wanted: Sequence[Field]) -> dict[Field, float]:
        """The values of those fields that have one."""
        asked = [field for field in wanted if field not in self._never]
        if self._lost or not asked:
            return {}
        try:
            answers = self.library.fields(self.handle, asked)
        except Refused as refused:
            self._refused(refused.code, None, "nvmlDeviceGetFieldValues")
            return {}
        found: dict[Field, float] = {}
        for field, (code, raw) in zip(asked, answers, strict=True):
            if code != Code.SUCCESS:
                self._refused(code, field, f"field {field[0]}")
            elif (value := number(raw)) is not None:
                found[field] = value
        self._answered.update(found)
        return found

    def grown(self, counter: str, value: float) -> float | None:
        """By how much a second a counter grew since the last look; None at the first, or if reset.

        A look that is long past says nothing of now.
        """
        before = self.kept.get(counter)
        self.kept[counter] = value, self.now
        if before is None or value < before[0] or not 0 < self.now - before[1] <= AGAIN_S:
            return None
        return (value - before[0]) / (self.now - before[1])

    def _refused(self, code: int, key: Key | Field | None, what: str) -> None:
        if code in FOR_GOOD and key is not None and key not in self._answered:
            self._never.add(key)
        if code in LOUD or code in STALE or code == Code.NO_PERMISSION:
            self.loud.setdefault(code, []).append(what)
        self._lost |= code == Code.GPU_IS_LOST


def stale(gpus: Iterable[Gpu], opened_s: float) -> bool:
    """Whether the library must be opened anew before the next look; ``opened_s``: how long ago it
    was."""
    codes = {code for gpu in gpus for code in gpu.loud}
    return not codes.isdisjoint(STALE) or (Code.GPU_IS_LOST in codes and opened_s >= REOPEN_S)


def troubles(gpu: Gpu) -> Iterator[Event]:
    """What a GPU's refusals are: an event for each kind of fault."""
    told: set[str] = set()
    for code, functions in gpu.loud.items():
        fault = LOUD.get(code, "")
        failed = [one for one in functions if not one.startswith("field ")]
        doubtful = fault == "nvrm.no_answer" and not (
            len(failed) >= SILENT or PULSE.intersection(failed)
        )
        if not fault or fault in told or doubtful:
            continue
        told.add(fault)
        what = ", ".join(dict.fromkeys(functions[:SILENT]))
        text = f"{gpu.device}: NVML answers {name(code)} to {what}"
        yield Event("", fault, text, gpu.device, source="nvml", attrs=_attrs(gpu, code))


def _attrs(gpu: Gpu, code: int) -> dict[str, str]:
    known = {"nvml": name(code), "pci": gpu.bus, "uuid": gpu.uuid}
    return {key: value for key, value in known.items() if value}


def notes(gpus: Iterable[Gpu]) -> Iterator[Note]:
    """What was not used, counted over all GPUs: each kind of refusal once."""
    refused: Counter[int] = Counter()
    for gpu in gpus:
        told = {event.attrs.get("nvml") for event in troubles(gpu)}
        refused.update(
            {code: len(asked) for code, asked in gpu.loud.items() if name(code) not in told}
        )
    for code, count in sorted(refused.items()):
        yield Note("nvml", f"answered {name(code)}", count)
