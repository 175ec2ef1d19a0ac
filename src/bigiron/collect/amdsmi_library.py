"""AMD SMI as the collectors ask it: one function of the library by its name.

Two things answer: the vendor's Python binding (``amdsmi_real``) and a captured machine
(``amdsmi_captured``). Both say what they do not know by raising Refused with the library's own
number. What the binding gives is a mapping, a list, a text or a number.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Protocol

from bigiron.host import Host

Argument = int | str | bytes
"""A text is a member of one of the library's enumerations: ``AmdSmiGpuBlock.UMC``."""


class Status(IntEnum):
    """Return values that mean something here (amdsmi.h, amdsmi_status_t; ROCm 7.0)."""

    INVAL = 1
    NOT_SUPPORTED = 2
    NOT_YET_IMPLEMENTED = 3
    FAIL_LOAD_MODULE = 4
    FAIL_LOAD_SYMBOL = 5
    DRM_ERROR = 6
    API_FAILED = 7
    TIMEOUT = 8
    RETRY = 9
    NO_PERM = 10
    INTERRUPT = 11
    IO = 12
    FILE_ERROR = 14
    OUT_OF_RESOURCES = 15
    INTERNAL_EXCEPTION = 16
    INPUT_OUT_OF_BOUNDS = 17
    INIT_ERROR = 18
    DIRECTORY_NOT_FOUND = 20
    BUSY = 30
    NOT_FOUND = 31
    NOT_INIT = 32
    NO_SLOT = 33
    DRIVER_NOT_LOADED = 34
    NO_DATA = 40
    INSUFFICIENT_SIZE = 41
    UNEXPECTED_SIZE = 42
    UNEXPECTED_DATA = 43
    FILE_NOT_FOUND = 52
    AMDGPU_RESTART_ERR = 54
    SETTING_UNAVAILABLE = 55
    CORRUPTED_EEPROM = 56
    UNKNOWN_ERROR = 0xFFFF_FFFF


MORE_DATA = 39
"""Success, and there is more to fetch (amdsmi.h, AMDSMI_STATUS_MORE_DATA)."""

ABSENT = frozenset(
    {
        Status.INVAL,
        Status.NOT_SUPPORTED,
        Status.NOT_YET_IMPLEMENTED,
        Status.FAIL_LOAD_SYMBOL,
        Status.INPUT_OUT_OF_BOUNDS,
        Status.DIRECTORY_NOT_FOUND,
        Status.NO_SLOT,
        Status.NO_DATA,
        Status.FILE_NOT_FOUND,
        Status.SETTING_UNAVAILABLE,
    }
)
"""There is no such value on this GPU: silent, and asked for again only seldom."""

STALE = frozenset({Status.NOT_FOUND, Status.NOT_INIT, Status.DRIVER_NOT_LOADED})
"""After these from every GPU the library is opened anew: the driver went, or was loaded again."""


class Refused(Exception):  # noqa: N818  (an answer, not a mistake)
    """The library's answer is an error number."""

    def __init__(self, status: int) -> None:
        super().__init__(name(status))
        self.status = status


class Library(Protocol):
    """An opened library."""

    def count(self) -> int:
        """How many GPUs it lists; they are asked by their place in that list."""
        ...

    def call(self, function: str, *arguments: Argument) -> object:
        """What a function gives; of those of a GPU the first argument is its place.

        Raises Refused.
        """
        ...

    def close(self) -> None:
        """Let the driver go."""
        ...


def name(status: int) -> str:
    """The error as amdsmi.h names it: ``NOT_SUPPORTED``; of an unknown one its number."""
    try:
        return Status(status).name
    except ValueError:
        return f"error {status}"


SENTINELS = frozenset({0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF})
"""All ones, in 32 and 64 bits: the driver has no value (kernel, gpu_metrics)."""
SMALL_SENTINEL = 0xFFFF
"""The same in 16 bits, which for a counter is a number like any other."""


def counted(value: object) -> float | None:
    """A counter's value; None for "N/A", all ones, what is negative and what is no number."""
    if type(value) is not int and type(value) is not float:
        return None
    return None if value in SENTINELS or not 0 <= value < 1e20 else float(value)


def gauged(value: object) -> float | None:
    """A measured value that is not 0; None as in ``counted``.

    A die that has no sensor of its own (the second one of an MI250) reads 0: no GPU that runs
    draws 0 W, is at 0 °C or has its clocks at 0 Hz.
    """
    found = counted(value)
    return None if found in (None, 0.0, SMALL_SENTINEL) else found


def mapping(value: object) -> Mapping[str, object]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def opened(host: Host) -> Library | None:
    """The library of this host, kept open; None where there is none. Raises Refused, Permanent."""
    return host.held("amdsmi", lambda: _open(host))


def _open(host: Host) -> Library | None:
    if str(host.root) == "/":
        from bigiron.collect import amdsmi_real

        return amdsmi_real.opened()
    from bigiron.collect import amdsmi_captured

    return amdsmi_captured.opened(host)


def let_go(host: Host) -> None:
    """Close the library; it is opened anew when it is next asked for."""
    library: Library | None = host.handles.get("amdsmi")
    host.let_go("amdsmi")
    if library is not None:
        library.close()
