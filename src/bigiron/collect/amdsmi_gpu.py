"""One GPU of AMD: what it is asked, what it will not answer, and when that is a fault.

Only its metrics (``CORE``), which every user may read, or an answer that came too late say that
a GPU does not answer. Other functions fail for as many reasons as there are versions and
permissions: those are notes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic

from bigiron.collect.amdsmi_library import (
    ABSENT,
    Argument,
    Library,
    Refused,
    Status,
    counted,
    name,
)
from bigiron.ingest import json_text
from bigiron.model import Event, Note

CORE = "amdsmi_get_gpu_metrics_info"

AGAIN_S = 3600.0
"""After this what a GPU does not have is asked for again: its partitions may have changed."""

LOOKS = 2
"""A GPU that is being reset, or whose driver is being loaded, is silent for one look."""

HARD = frozenset(
    {
        Status.TIMEOUT,
        Status.RETRY,
        Status.INTERRUPT,
        Status.IO,
        Status.BUSY,
        Status.NOT_FOUND,
        Status.AMDGPU_RESTART_ERR,
    }
)
"""Answers that no setting or permission of this program explains."""
NEWER = frozenset({Status.INSUFFICIENT_SIZE, Status.UNEXPECTED_SIZE, Status.UNEXPECTED_DATA})
"""Metrics of a version that the library does not know: the driver is newer."""
_ENDS = frozenset({Status.TIMEOUT, Status.AMDGPU_RESTART_ERR})
"""Whichever function answers so, nothing more is asked in this look."""

_FAULTS: dict[int, tuple[str, str]] = {
    Status.NOT_FOUND: ("amdgpu.lost", "the driver no longer finds it"),
    Status.AMDGPU_RESTART_ERR: ("amdgpu.reset_failed", "its driver could not be restarted"),
}


class Gpu:
    """A GPU between two looks, each from ``begin`` to ``end``."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._never: set[tuple[str, tuple[Argument, ...]]] = set()
        self._since = clock()
        self.bus = ""
        self.device = ""
        self.metrics: dict[str, object] = {}
        self.failed = 0
        """Why it does not answer in this look; 0: it does."""
        self.silent = 0
        """Looks in a row in which it did not."""
        self.answered = False
        """Whether it ever did."""
        self.linked = False
        """Whether a link to another GPU was ever seen to work."""
        self.refused: Counter[tuple[str, int]] = Counter()

    def begin(self, library: Library, index: int, *, gone: bool = False) -> None:
        """A new look: its metrics are read, unless it is ``gone`` from the bus."""
        self._library, self._index, self.device = library, index, f"gpu{index}"
        self.failed, self.metrics = 0, {}
        self.refused.clear()
        if self._clock() - self._since >= AGAIN_S:
            self._never.clear()
            self._since = self._clock()
        if gone:
            self.failed = Status.NOT_FOUND
            return
        try:
            told = library.call(CORE, index)
        except Refused as refused:
            self.failed = 0 if refused.status in ABSENT | NEWER else refused.status
        else:
            self.metrics = told if isinstance(told, dict) else {}

    def end(self) -> None:
        """The look is over."""
        self.silent = self.silent + 1 if self.failed else 0
        self.answered |= not self.failed

    def ask(self, function: str, *arguments: Argument) -> object:
        """What a function gives; None where it refuses, and of a GPU that does not answer."""
        key = function, arguments
        if self.failed or key in self._never:
            return None
        try:
            return self._library.call(function, self._index, *arguments)
        except Refused as refused:
            if refused.status in ABSENT or refused.status == Status.NO_PERM:
                self._never.add(key)
            if refused.status not in ABSENT:
                self.refused[function, refused.status] += 1
            if refused.status in _ENDS:
                self.failed = refused.status
            return None

    def number(self, function: str, *arguments: Argument) -> float | None:
        """A function's number."""
        return counted(self.ask(function, *arguments))

    def word(self, function: str, *arguments: Argument) -> str:
        """A function's text, "" where there is none or it says that there is none."""
        said = self.ask(function, *arguments)
        return json_text.text(said)[:256] if isinstance(said, str) else ""

    def of_system(self, function: str, *arguments: Argument) -> object:
        """What a function gives that asks no GPU; None where it refuses."""
        try:
            return self._library.call(function, *arguments)
        except Refused as refused:
            self.refused[function, refused.status] += 1
            return None


def troubles(gpus: Sequence[Gpu]) -> Iterator[Event]:
    """GPUs that have not answered for two looks.

    Where no GPU ever answered, only what no setting or permission explains is a GPU's fault.
    """
    any_answers = any(gpu.answered for gpu in gpus)
    for gpu in gpus:
        if gpu.silent >= LOOKS and (any_answers or gpu.failed in HARD):
            code, why = _FAULTS.get(gpu.failed, ("amdgpu.not_answering", ""))
            words = why or "its driver does not answer for it"
            attrs = {"amdsmi": name(gpu.failed), "pci": gpu.bus}
            yield Event(
                "",
                code,
                f"{gpu.device} ({gpu.bus}): {words} (AMD SMI: {name(gpu.failed)})",
                gpu.device,
                source="amdsmi",
                attrs={key: value for key, value in attrs.items() if value},
            )


def closed_to_us(gpus: Sequence[Gpu]) -> str:
    """Why no GPU's metrics can be read by this program; "" if that is not so."""
    if not gpus or any(gpu.answered or not gpu.failed or gpu.failed in HARD for gpu in gpus):
        return ""
    return name(gpus[0].failed)


def notes(gpus: Iterable[Gpu]) -> Iterator[Note]:
    """What was refused besides: each function and reason once."""
    total: Counter[tuple[str, int]] = Counter()
    for gpu in gpus:
        total.update(gpu.refused)
    for (function, status), count in sorted(total.items()):
        yield Note("amdsmi", f"{function}: {name(status)}", count)
