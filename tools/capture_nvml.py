"""Record what NVML answers on this machine, as ``bigiron/nvml.json`` of a captured host.

    python tools/capture_nvml.py tests/hosts/NAME [--as-it-is]

What the two collectors ask is what is recorded. Serial numbers and UUIDs are made up anew, the
same ones for the same ones, unless ``--as-it-is``. Only the machine that it runs on is asked, and
nothing is changed there.
"""

import argparse
import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from bigiron.collect.nvml import nvml, nvml_facts
from bigiron.collect.nvml_library import ALL, Code, Field, Library, Refused, opened
from bigiron.host import Host

_INDEXED = "nvmlDeviceGetHandleByIndex"
_PART = "nvmlDeviceGetMigDeviceHandleByIndex"


class Part:
    """A GPU's or an instance's handle, and what it answered."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.answers: dict[str, Any] = {}
        self.fields: dict[str, dict[int, Any]] = {}
        self.parts: dict[int, Part] = {}


class Recorder:
    """A library that writes down what another one answers."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self.system: dict[str, Any] = {}
        self.gpus: dict[int, Part] = {}

    def call(self, function: str, *arguments: Any) -> Any:
        """What the other library gives."""
        owner = arguments[0] if arguments and isinstance(arguments[0], Part) else None
        asked = arguments[1:] if owner is not None else arguments
        whole = arguments if owner is None else (owner.handle, *asked)
        if function in (_INDEXED, _PART):
            return self._handle(function, owner, int(asked[0]), whole)
        key = f"{function}({', '.join(map(str, asked))})" if asked else function
        answers = self.system if owner is None else owner.answers
        try:
            answers[key] = self._library.call(function, *whole)
        except Refused as refused:
            answers[key] = {"error": int(refused.code)}
            raise
        return answers[key]

    def fields(self, gpu: Part, wanted: Sequence[Field]) -> Sequence[tuple[int, float]]:
        """What the other library gives."""
        answers = self._library.fields(gpu.handle, wanted)
        for (field, scope), (code, value) in zip(wanted, answers, strict=True):
            if code == Code.SUCCESS:
                gpu.fields.setdefault(str(field), {})[scope] = value
            elif code != Code.NOT_SUPPORTED:
                gpu.fields.setdefault(str(field), {})[scope] = {"error": int(code)}
        return answers

    def close(self) -> None:
        """Close the other library."""
        self._library.close()

    def told(self) -> dict[str, Any]:
        """All that was answered; what all GPUs answered alike once."""
        gpus = [_plain(self.gpus[index]) for index in sorted(self.gpus)]
        every = {key: value for key, value in _alike(gpus) if key not in ("fields", "mig")}
        fields = dict(_alike([gpu.get("fields", {}) for gpu in gpus]))
        for gpu in gpus:
            _take(gpu, every)
            _take(gpu.get("fields", {}), fields)
        return {"system": self.system, "every": {**every, "fields": fields}, "gpus": gpus}

    def _handle(self, function: str, owner: Part | None, index: int, whole: Any) -> Part:
        known = self.gpus if owner is None else owner.parts
        part = known.setdefault(index, Part(None)) if owner is None else Part(None)
        try:
            part.handle = self._library.call(function, *whole)
        except Refused as refused:
            if owner is None:
                part.answers[_INDEXED] = {"error": int(refused.code)}
            raise
        return known.setdefault(index, part)


def _plain(part: Part) -> dict[str, Any]:
    told = dict(part.answers)
    fields: dict[str, Any] = {}
    for field, scopes in part.fields.items():
        if ALL in scopes:
            fields[f"{field}/all"] = scopes.pop(ALL)
        if scopes:
            row = [scopes.get(scope, {"error": 3}) for scope in range(max(scopes) + 1)]
            fields[field] = row if len(row) > 1 else row[0]
    if fields:
        told["fields"] = fields
    if part.parts:
        told["mig"] = [_plain(part.parts[index]) for index in sorted(part.parts)]
    return told


def _alike(gpus: Sequence[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    if len(gpus) < 2:
        return
    for key, value in gpus[0].items():
        if all(key in gpu and gpu[key] == value for gpu in gpus):
            yield key, value


def _take(gpu: dict[str, Any], shared: dict[str, Any]) -> None:
    for key in [key for key in gpu if key in shared]:
        del gpu[key]


def disguised(told: Any) -> Any:
    """The same with serial numbers and UUIDs made up: what names a machine's parts."""
    if isinstance(told, list):
        return [disguised(one) for one in told]
    if not isinstance(told, dict):
        return told
    return {key: _disguised(key, value) for key, value in told.items()}


def _disguised(key: str, value: Any) -> Any:
    if not isinstance(value, str) or not value.strip("0-"):
        return disguised(value)
    if key == "nvmlDeviceGetUUID":
        return f"{value.partition('-')[0]}-{uuid5(NAMESPACE_OID, value)}"
    if key == "clusterUuid":
        return uuid5(NAMESPACE_OID, value).hex
    if key in ("nvmlDeviceGetSerial", "chassisSerialNumber", "ibGuid", "rackGuid"):
        return f"{zlib.crc32(value.encode()):0{len(value)}d}"[: len(value)]
    return value


def record(host: Host) -> dict[str, Any]:
    """What NVML answers to all that the collectors ask."""
    recorder = Recorder(opened(host))
    for collector in (nvml, nvml_facts):
        host.handles["nvml"] = recorder  # a collector lets it go where a GPU is lost
        for _ in collector(host):
            pass
    return recorder.told()


def main() -> None:
    """Write the file and say where it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path, help="the captured host's folder")
    parser.add_argument("--as-it-is", action="store_true", help="keep serial numbers and UUIDs")
    asked = parser.parse_args()
    told = record(Host())
    at = asked.folder / "bigiron" / "nvml.json"
    at.parent.mkdir(parents=True, exist_ok=True)
    at.write_text(json.dumps(told if asked.as_it_is else disguised(told), indent=1) + "\n")
    print(f"{at}: {len(told['gpus'])} GPUs")


if __name__ == "__main__":
    main()
