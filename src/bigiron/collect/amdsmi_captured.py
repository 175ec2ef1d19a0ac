"""A captured AMD SMI: what each function answered (``bigiron/amdsmi.json``).

    {"system": {"amdsmi_get_afids_from_cper(1f0c22d9)": [[25], 1]},
     "every": {"amdsmi_get_gpu_bad_page_threshold": 256,
               "amdsmi_get_gpu_fan_speed(0)": {"error": 2}},
     "gpus": [{"amdsmi_get_gpu_device_bdf": "0000:13:00.0", ...}]}

A key is a function with its arguments besides the GPU; bytes stand there as their CRC-32.
``every`` holds what all GPUs answered alike; a GPU's own answers go before it. ``{"error": 8}``
is an error number of the library; ``"*": {"error": 8}`` makes a GPU answer so to everything, and
``amdsmi_init`` of the system makes the library not start. What is not there is not supported.
"""

import json
import zlib

from bigiron.collect.amdsmi_library import Argument, Refused, Status
from bigiron.errors import NoData, Permanent
from bigiron.host import Host

FILE = "/bigiron/amdsmi.json"


class Captured:
    """One captured machine."""

    def __init__(self, told: object) -> None:
        answers = _mapping(told)
        self._system = _mapping(answers.get("system"))
        _plain(self._system.get("amdsmi_init", 0))
        every, gpus = _mapping(answers.get("every")), answers.get("gpus")
        listed = gpus if isinstance(gpus, list) else []
        self._gpus = [{**every, **_mapping(gpu)} for gpu in listed]

    def count(self) -> int:
        """How many GPUs were captured."""
        return len(self._gpus)

    def call(self, function: str, *arguments: Argument) -> object:
        """What was answered. Raises Refused."""
        owner = self._system
        if arguments and isinstance(arguments[0], int):
            if not 0 <= arguments[0] < len(self._gpus):
                raise Refused(Status.NOT_FOUND)
            owner = self._gpus[arguments[0]]
            arguments = arguments[1:]
            _plain(owner.get("*", 0))
        found = key(function, arguments)
        if found not in owner:
            raise Refused(Status.NOT_SUPPORTED)
        return _plain(owner[found])

    def close(self) -> None:
        """Nothing is open."""


def opened(host: Host) -> Captured | None:
    """The capture of a host; None where it has none. Raises Refused, Permanent."""
    try:
        text = host.read(FILE)
    except NoData:
        return None
    try:
        return Captured(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise Permanent(f"{FILE}: not JSON: {error}") from error


def key(function: str, arguments: tuple[Argument, ...]) -> str:
    """A function with its arguments besides the GPU, as it stands in a capture."""
    if not arguments:
        return function
    return f"{function}({', '.join(map(_word, arguments))})"


def _word(argument: Argument) -> str:
    return f"{zlib.crc32(argument):08x}" if isinstance(argument, bytes) else str(argument)


def _plain(value: object) -> object:
    if isinstance(value, dict) and "error" in value:
        status = value["error"]
        raise Refused(status if isinstance(status, int) else Status.UNKNOWN_ERROR)
    return value


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
