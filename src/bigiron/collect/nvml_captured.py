"""A captured NVML: what each function and field of a machine answered (``bigiron/nvml.json``).

    {"system": {"nvmlSystemGetDriverVersion": "570.172.08"},
     "every": {"nvmlDeviceGetClockInfo(1)": 1980, "nvmlDeviceGetFanSpeed": {"error": 3},
               "fields": {"230": 0, "165": [1, 1, 1], "138/all": 81234}},
     "gpus": [{"nvmlDeviceGetUUID": "GPU-...", "mig": [{"nvmlDeviceGetUUID": "MIG-..."}]}]}

A key is a function with its arguments besides the handle. ``every`` holds what all GPUs answered
alike; a GPU's own answers go before it. Fields are by number; a list is by scope, ``/all`` of all
scopes. ``{"error": 15}`` is an error number of NVML. What is not there is a function not found
or a field not supported; a GPU with ``"*": {"error": 15}`` answers so to all that is not its own.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bigiron.collect.nvml_library import ALL, Code, Field, Handle, Refused
from bigiron.errors import Permanent

Answers = Mapping[str, Any]

_BY_INDEX = "nvmlDeviceGetHandleByIndex"


class Captured:
    """One captured machine."""

    def __init__(self, told: Answers) -> None:
        self._system = _mapping(told.get("system"))
        _plain(self._system.get("nvmlInit", 0))
        every = _mapping(told.get("every"))
        self._gpus = [_merged(every, _mapping(gpu)) for gpu in _list(told.get("gpus"))]

    @classmethod
    def of(cls, text: str) -> "Captured":
        """From a file's text. Raises Permanent, and Refused where NVML did not start."""
        try:
            told = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Permanent(f"bigiron/nvml.json: not JSON: {error}") from error
        return cls(_mapping(told))

    def call(self, function: str, *arguments: Any) -> Any:
        """What was captured under the function's name and arguments. Raises Refused."""
        if function == "nvmlDeviceGetCount" and function not in self._system:
            return len(self._gpus)
        if function == _BY_INDEX:
            return self._gpu(arguments[0])
        owner: Answers = self._system
        if arguments and isinstance(arguments[0], dict):
            owner, *rest = arguments
            arguments = tuple(rest)
            if function == "nvmlDeviceGetMigDeviceHandleByIndex":
                return _instance(owner, arguments[0])
        key = f"{function}({', '.join(map(str, arguments))})" if arguments else function
        if key in owner:
            return _plain(owner[key])
        _plain(owner.get("*", 0))
        raise Refused(Code.FUNCTION_NOT_FOUND)

    def fields(self, gpu: Handle, wanted: Sequence[Field]) -> list[tuple[int, float]]:
        """What was captured of each field."""
        _plain(gpu.get("*", 0))
        told = gpu.get("fields")
        return [_field(_mapping(told), field, scope) for field, scope in wanted]

    def close(self) -> None:
        """Nothing is open."""

    def _gpu(self, index: int) -> Answers:
        if not 0 <= index < len(self._gpus):
            raise Refused(Code.INVALID_ARGUMENT)
        gpu = self._gpus[index]
        _plain(gpu.get(_BY_INDEX, 0))
        return gpu


def _instance(gpu: Answers, index: int) -> Answers:
    instances = _list(gpu.get("mig"))
    if not 0 <= index < len(instances):
        raise Refused(Code.NOT_FOUND)
    return _mapping(instances[index])


def _field(told: Answers, field: int, scope: int) -> tuple[int, float]:
    value = told.get(f"{field}/all") if scope == ALL else told.get(str(field))
    if isinstance(value, list):
        value = value[scope] if scope < len(value) else None
    elif scope not in (0, ALL):
        value = None
    if isinstance(value, dict):
        code = value.get("error")
        return (code if isinstance(code, int) else Code.UNKNOWN), 0.0
    if type(value) is not int and type(value) is not float:
        return Code.NOT_SUPPORTED, 0.0
    return Code.SUCCESS, value


def _merged(every: Answers, own: Answers) -> dict[str, Any]:
    if "*" in own:
        every = {}
    merged = {**every, **own}
    merged["fields"] = {**_mapping(every.get("fields")), **_mapping(own.get("fields"))}
    return merged


def _plain(value: Any) -> Any:
    if isinstance(value, dict) and "error" in value:
        code = value["error"]
        raise Refused(code if isinstance(code, int) else Code.UNKNOWN)
    return value


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
