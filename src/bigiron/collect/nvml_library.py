"""NVML as the collectors ask it: one function by its name, or many fields of a GPU at once.

Two things answer: the driver's own library (``nvml_real``) and a captured machine
(``nvml_captured``). Both say what they do not know by raising Refused with NVML's own number.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, Protocol

from bigiron.host import Host


class Code(IntEnum):
    """Return values of NVML that mean something here (nvml.h, nvmlReturn_t)."""

    SUCCESS = 0
    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    INSUFFICIENT_POWER = 8
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    IRQ_ISSUE = 11
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    CORRUPTED_INFOROM = 14
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    OPERATING_SYSTEM = 17
    LIB_RM_VERSION_MISMATCH = 18
    IN_USE = 19
    NO_DATA = 21
    ARGUMENT_VERSION_MISMATCH = 25
    DEPRECATED = 26
    NOT_READY = 27
    GPU_NOT_FOUND = 28
    INVALID_STATE = 29
    UNKNOWN = 999


LOUD: Mapping[int, str] = {
    Code.GPU_IS_LOST: "nvrm.gpu_lost",
    Code.RESET_REQUIRED: "gpu.recovery_needed",
    Code.TIMEOUT: "nvrm.no_answer",
    Code.UNKNOWN: "nvrm.no_answer",
    Code.IRQ_ISSUE: "nvrm.no_answer",
    Code.OPERATING_SYSTEM: "nvrm.no_answer",
    Code.INSUFFICIENT_POWER: "nvrm.external_power",
    Code.CORRUPTED_INFOROM: "nvrm.inforom_corrupt",
    Code.LIB_RM_VERSION_MISMATCH: "nvrm.version_mismatch",
    Code.DRIVER_NOT_LOADED: "nvrm.not_loaded",
}
"""What no healthy GPU answers, and the fault that it is. All else is a value that there is not."""

FOR_GOOD = frozenset(
    {
        Code.INVALID_ARGUMENT,
        Code.NOT_SUPPORTED,
        Code.NO_PERMISSION,
        Code.FUNCTION_NOT_FOUND,
        Code.ARGUMENT_VERSION_MISMATCH,
        Code.DEPRECATED,
    }
)
"""Who refuses so will refuse the next time: asked again seldom."""

STALE = frozenset(
    {
        Code.UNINITIALIZED,
        Code.DRIVER_NOT_LOADED,
        Code.LIB_RM_VERSION_MISMATCH,
        Code.GPU_NOT_FOUND,
    }
)
"""After these the library is opened anew: the driver went, or its list of GPUs is old."""

ALL = 0xFFFF_FFFF
"""The scope of a field that is of all links together."""

Field = tuple[int, int]
"""A field's number (nvml.h, NVML_FI_*) and its scope: a link, a power scope, ALL, else 0."""

Handle = Any
"""A GPU or a MIG instance, as its library knows it."""


class Refused(Exception):  # noqa: N818  (an answer, not a mistake)
    """NVML's answer is an error number."""

    def __init__(self, code: int) -> None:
        super().__init__(name(code))
        self.code = code


class Library(Protocol):
    """An opened NVML."""

    def call(self, function: str, *arguments: Any) -> Any:
        """What a function gives, as numbers, texts, lists of them, or a mapping for a struct.

        A structure with versions is asked by its version as the last argument. Raises Refused.
        """
        ...

    def fields(self, gpu: Handle, wanted: Sequence[Field]) -> Sequence[tuple[int, float]]:
        """Return code and value of each field, in one call. Raises Refused if none is answered."""
        ...

    def close(self) -> None:
        """Let the driver go."""
        ...


def name(code: int) -> str:
    """The error as nvml.h names it: ``GPU_IS_LOST``; of an unknown one its number."""
    try:
        return Code(code).name
    except ValueError:
        return f"error {code}"


BLANKS = frozenset({0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF})
"""What NVML writes where it has no value (nvml.h, NVML_VALUE_NOT_AVAILABLE as unsigned)."""


def number(value: object) -> float | None:
    """A value as a number; None for what is none, for NVML's blanks and for what is no number."""
    if type(value) is not int and type(value) is not float:
        return None
    if value in BLANKS or not -1e300 < value < 1e300:
        return None
    return value


def opened(host: Host) -> Library:
    """The library of this host, kept open. Raises Refused, NoData, Permanent."""
    return host.held("nvml", lambda: _open(host))


def _open(host: Host) -> Library:
    if str(host.root) == "/":
        from bigiron.collect.nvml_real import Real

        return Real()
    from bigiron.collect.nvml_captured import Captured

    return Captured.of(host.read("/bigiron/nvml.json"))


def let_go(host: Host) -> None:
    """Close the library; it is opened anew when it is next asked for."""
    library = host.handles.get("nvml")
    host.let_go("nvml")
    if library is not None:
        library.close()
