"""The driver's own AMD SMI through the vendor's Python binding, where it is installed.

The binding comes with ROCm (``/opt/rocm/share/amd_smi``), not from a package index that a node
can be expected to reach, so it is taken from where ROCm puts it.
"""

import contextlib
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bigiron.collect.amdsmi_library import Argument, Refused, Status

PLACES = ("/opt/rocm/share/amd_smi",)
"""Where ROCm's packages leave the binding."""

BROKEN = (AttributeError, KeyError, IndexError, TypeError, ValueError)
"""What the binding raises where the library tells something that it does not expect."""


class Real:
    """Raises Refused where the library does not start."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._inner = getattr(module, "amdsmi_interface", None)
        """Where the binding's functions are; its package leaves some out (7.0: those of CPER)."""
        self._error: type[Exception] = module.AmdSmiException
        self._plain(module.amdsmi_init)
        handles = self._plain(module.amdsmi_get_processor_handles)
        self._gpus: list[Any] = handles if isinstance(handles, list) else []

    def count(self) -> int:
        """How many GPUs, or partitions of GPUs, the library lists."""
        return len(self._gpus)

    def call(self, function: str, *arguments: Argument) -> object:
        """What a function gives. Raises Refused, also where the binding has no such function."""
        found = getattr(self._module, function, None) or getattr(self._inner, function, None)
        if found is None:
            raise Refused(Status.NOT_SUPPORTED)
        given = [self._argument(argument) for argument in arguments]
        if arguments and isinstance(arguments[0], int):
            if not 0 <= arguments[0] < len(self._gpus):
                raise Refused(Status.NOT_FOUND)
            given[0] = self._gpus[arguments[0]]
        return self._plain(found, *given)

    def close(self) -> None:
        """Let the driver go."""
        with contextlib.suppress(Refused):
            self._plain(self._module.amdsmi_shut_down)

    def _argument(self, argument: Argument) -> Any:
        if not isinstance(argument, str):
            return argument
        kind, _, member = argument.partition(".")
        found = getattr(getattr(self._module, kind, None), member, None)
        if found is None:
            raise Refused(Status.NOT_SUPPORTED)
        return found

    def _plain(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except self._error as error:
            code = getattr(error, "err_code", None)
            raise Refused(code if isinstance(code, int) else Status.INVAL) from error
        except BROKEN as error:
            raise Refused(Status.UNEXPECTED_DATA) from error


def opened() -> Real | None:
    """The library; None where the binding or what it loads is not installed. Raises Refused."""
    sys.path.extend(place for place in PLACES if Path(place).is_dir() and place not in sys.path)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # it prints where it finds no library
            module = importlib.import_module("amdsmi")
    except (ImportError, OSError, *BROKEN):
        return None
    return Real(module)
