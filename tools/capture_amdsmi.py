"""What AMD SMI answers here, as a captured host has it: ``bigiron/amdsmi.json``.

    python tools/capture_amdsmi.py FOLDER [--as-is]

Every call that the collectors make of this machine is made and written down, and no other.
Serial numbers and UUIDs are changed to others of the same shape, unless ``--as-is``.
"""

import argparse
import hashlib
import json
import re
import sys
from enum import Enum
from pathlib import Path
from typing import Any

from bigiron.collect import amdsmi_real
from bigiron.collect.amdsmi import amdsmi, amdsmi_facts
from bigiron.collect.amdsmi_captured import FILE, key
from bigiron.collect.amdsmi_library import Argument, Library, Refused
from bigiron.errors import NoData, Permanent
from bigiron.host import Host

SECRET = ("asic_serial", "product_serial", "fru_id", "xgmi_hive_id")
UNREAD = ("xcp_stats.", "common_header.", "current_vclk", "current_dclk", "current_socclk", "jpeg")
"""Fields that no collector reads and that are most of a GPU's metrics."""


class Recorder:
    """A library that writes down what another one answers."""

    def __init__(self, library: Library, *, as_is: bool) -> None:
        self._library, self._as_is = library, as_is
        self.system: dict[str, Any] = {}
        self.gpus: list[dict[str, Any]] = [{} for _ in range(library.count())]

    def count(self) -> int:
        """As the library."""
        return self._library.count()

    def call(self, function: str, *arguments: Argument) -> object:
        """As the library."""
        into, rest = self.system, arguments
        if arguments and isinstance(arguments[0], int):
            into, rest = self.gpus[arguments[0]], arguments[1:]
        try:
            answer = self._library.call(function, *arguments)
        except Refused as refused:
            into[key(function, rest)] = {"error": refused.status}
            raise
        told = plain(answer)
        if not self._as_is:
            told = changed(told, uuid=function.endswith("_uuid"))
        into[key(function, rest)] = told
        return answer

    def close(self) -> None:
        """As the library."""
        self._library.close()


def plain(value: Any) -> Any:
    """A value as JSON has it: members of enumerations by name, bytes as text."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bytes):
        return value.rstrip(b"\0").decode("ascii", "replace")
    if isinstance(value, dict):
        kept = {str(name): plain(one) for name, one in value.items()}
        return {name: one for name, one in kept.items() if not name.startswith(UNREAD)}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value if isinstance(value, int | float | str | None) else str(value)


def changed(value: Any, *, uuid: bool = False) -> Any:
    """The same with other serial numbers; the parts of a module keep one in common."""
    if isinstance(value, dict):
        return {
            name: _other(one) if name in SECRET else changed(one) for name, one in value.items()
        }
    return _other(value) if uuid else value


def _other(value: Any) -> Any:
    if isinstance(value, int):
        return int(hashlib.sha256(str(value).encode()).hexdigest()[:15], 16)
    if not isinstance(value, str) or value in ("", "N/A"):
        return value
    digits = iter(hashlib.sha256(value.encode()).hexdigest() * 8)
    head, body = ("0x", value[2:]) if value.startswith("0x") else ("", value)
    kind = "0-9a-fA-F" if re.fullmatch(r"[0-9a-fA-F-]+", body) else "0-9"
    return head + re.sub(f"[{kind}]", lambda _: next(digits), body)


def main() -> int:
    """Write the file; says why where there is nothing to write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--as-is", action="store_true")
    given = parser.parse_args()
    try:
        library = amdsmi_real.opened()
    except Refused as refused:
        print(f"AMD SMI does not start: {refused}", file=sys.stderr)
        return 1
    if library is None:
        print("AMD SMI is not installed", file=sys.stderr)
        return 1
    recorder = Recorder(library, as_is=given.as_is)
    try:
        record(recorder)
    except (NoData, Permanent) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        recorder.close()
    at = given.folder / FILE.lstrip("/")
    at.parent.mkdir(parents=True, exist_ok=True)
    told = {"system": recorder.system, "every": {}, "gpus": recorder.gpus}
    at.write_text(json.dumps(told, indent=1) + "\n")
    print(f"{at}: {len(recorder.gpus)} GPUs")
    return 0


def record(recorder: Recorder, host: Host | None = None) -> None:
    """One look of each collector. Raises NoData, Permanent."""
    host = Host() if host is None else host
    host.handles["amdsmi"] = recorder
    for collector in (amdsmi, amdsmi_facts):
        for _ in collector(host):
            pass


if __name__ == "__main__":
    sys.exit(main())
