"""The driver's own NVML through NVIDIA's Python binding (the ``agent`` extra).

Fields are read with one call into a structure that is made once: the binding fills it field by
field, which on a GPU of 18 links costs more than the driver does.
"""

import ctypes
import importlib
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bigiron.collect.nvml_library import Code, Field, Handle, Refused
from bigiron.errors import Permanent

_FIELD = struct.Struct("<IIqqIIQ")
"""nvml.h, nvmlFieldValue_t: field, scope, timestamp, latency, type of the value, return, value."""

_OF_TYPE: Mapping[int, Callable[[int], float]] = {
    0: lambda raw: float(struct.unpack("<d", raw.to_bytes(8, "little"))[0]),
    1: lambda raw: raw & 0xFFFF_FFFF,
    4: lambda raw: raw - (1 << 64) if raw >> 63 else raw,
    5: lambda raw: (raw & 0xFFFF_FFFF) - ((raw & 0x8000_0000) << 1),
    6: lambda raw: raw & 0xFFFF,
}
"""nvml.h, nvmlValueType_t; 2 and 3 are unsigned and 64 bits wide."""

_STRUCTS = {
    ("nvmlDeviceGetGpuFabricInfoV", 3): "c_nvmlGpuFabricInfo_v3_t",
    ("nvmlDeviceGetGpuFabricInfoV", 2): "c_nvmlGpuFabricInfo_v2_t",
    ("nvmlDeviceGetGpuFabricInfo", 1): "c_nvmlGpuFabricInfo_t",
    ("nvmlDeviceGetSramEccErrorStatus", 1): "c_nvmlEccSramErrorStatus_v1_t",
    ("nvmlDeviceGetPlatformInfo", 2): "c_nvmlPlatformInfo_v2_t",
    ("nvmlDeviceGetPlatformInfo", 1): "c_nvmlPlatformInfo_v1_t",
}
"""Functions that fill a structure which the caller brings, by its version."""

_COUNTED = frozenset(
    {
        f"nvmlDeviceGet{kind}RunningProcesses_v{v}"
        for kind in ("Compute", "Graphics")
        for v in (3, 2)
    }
    | {"nvmlDeviceGetRetiredPages"}
)
"""Lists of which only the length is wanted."""


class Real:
    """Raises Refused where NVML does not start, Permanent where its binding is not installed."""

    def __init__(self) -> None:
        try:
            self._nvml = importlib.import_module("pynvml")
        except ImportError as error:
            raise Permanent("nvidia-ml-py is not installed (bigiron[agent])") from error
        self._error: type[Exception] = self._nvml.NVMLError
        self._other: type[Exception] = getattr(self._nvml, "NVMLLibraryMismatchError", self._error)
        self._buffers: dict[tuple[Field, ...], tuple[Any, bytes]] = {}
        self._plain("nvmlInit")

    def call(self, function: str, *arguments: Any) -> Any:
        """What the binding's function of this name gives. Raises Refused."""
        if len(arguments) == 2 and (function, arguments[1]) in _STRUCTS:
            return self._struct(function, *arguments)
        if function == "nvmlDeviceGetMemoryInfo" and len(arguments) == 2:
            arguments = (arguments[0], self._nvml.nvmlMemory_v2)
        value = self._plain(function, *arguments)
        if function in _COUNTED:
            return len(value)
        return value if function.endswith("HandleByIndex") else _told(value)

    def fields(self, gpu: Handle, wanted: Sequence[Field]) -> list[tuple[int, float]]:
        """Return code and value of each field, in one call. Raises Refused."""
        buffer, asked = self._buffer(tuple(wanted))
        ctypes.memmove(buffer, asked, len(asked))
        try:
            function = self._nvml._nvmlGetFunctionPointer("nvmlDeviceGetFieldValues")
        except self._error as error:
            raise _refused(error) from error
        code = function(gpu, ctypes.c_int(len(wanted)), ctypes.byref(buffer))
        if code != Code.SUCCESS:
            raise Refused(code)
        answers: list[tuple[int, float]] = []
        for _, _, _, _, kind, returned, raw in _FIELD.iter_unpack(buffer):
            decode = _OF_TYPE.get(kind)
            answers.append((returned, raw if decode is None else decode(raw)))
        return answers

    def close(self) -> None:
        """Let the driver go."""
        try:
            self._nvml.nvmlShutdown()
        except self._error:
            return  # it was not running: that is what was wanted

    def _plain(self, function: str, *arguments: Any) -> Any:
        found = getattr(self._nvml, function, None)
        if found is None:
            raise Refused(Code.FUNCTION_NOT_FOUND)
        try:
            return found(*arguments)
        except self._error as error:
            raise _refused(error) from error
        except self._other as error:  # the binding's own word for a function not found
            raise Refused(Code.FUNCTION_NOT_FOUND) from error
        except UnicodeDecodeError as error:
            raise Refused(Code.NO_DATA) from error

    def _struct(self, function: str, gpu: Handle, version: int) -> Any:
        made = getattr(self._nvml, _STRUCTS[function, version], None)
        if made is None:
            raise Refused(Code.FUNCTION_NOT_FOUND)
        filled = made()
        self._plain(function, gpu, ctypes.byref(filled))
        return _told(filled)

    def _buffer(self, wanted: tuple[Field, ...]) -> tuple[Any, bytes]:
        """The structure for these fields, and what it holds before a call."""
        known = self._buffers.get(wanted)
        if known is None:
            if len(self._buffers) >= 64:
                self._buffers.clear()
            asked = b"".join(_FIELD.pack(field, scope, 0, 0, 0, 0, 0) for field, scope in wanted)
            known = self._buffers[wanted] = (ctypes.create_string_buffer(asked, len(asked)), asked)
        return known


def _refused(error: Exception) -> Refused:
    code = getattr(error, "value", Code.UNKNOWN)
    return Refused(code if isinstance(code, int) else Code.UNKNOWN)


def _told(value: Any) -> Any:
    """A structure as a mapping, a text as text, a row of bytes as its hex digits."""
    if isinstance(value, ctypes.Structure):
        return _fields_of(value)
    if isinstance(value, ctypes.Array) and value._type_ is ctypes.c_uint8:
        return bytes(value).hex()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list | tuple | ctypes.Array):
        return [_told(item) for item in value]
    return value.value if isinstance(value, ctypes._SimpleCData) else value


def _fields_of(value: ctypes.Structure) -> dict[str, Any]:
    """A single character is a small number to NVML, and the binding would make it a text."""
    raw, told = bytes(value), {}
    for name, kind, *_ in value._fields_:
        place = getattr(type(value), name)
        if kind is ctypes.c_char:
            told[name] = raw[place.offset]
        elif getattr(kind, "_type_", None) is ctypes.c_char:
            text = raw[place.offset : place.offset + place.size].partition(b"\0")[0]
            told[name] = text.decode("utf-8", "replace")
        else:
            told[name] = _told(getattr(value, name))
    return told
