"""MIG: the instances of a partitioned GPU, and how much memory each uses.

A part is named as exporters' readers name it: ``gpu0:gi7``. Temperature, power, errors and
clocks are the GPU's own and are read once.
"""

from collections.abc import Iterator, Mapping, Set
from typing import Any

from bigiron.collect.nvml_gpu import Gpu
from bigiron.collect.nvml_library import Handle, Refused, number
from bigiron.model import Device, Fact, Sample

MOST = 16
"""A GPU has at most 7 today."""

MEMORY = tuple((f"gpu_memory_{what}_bytes", what) for what in ("total", "used", "free"))


def enabled(gpu: Gpu) -> bool:
    """Whether it is partitioned now."""
    mode = gpu.ask("nvmlDeviceGetMigMode")
    return isinstance(mode, list) and bool(mode) and mode[0] == 1


def samples(gpu: Gpu, leave: Set[str] = frozenset()) -> Iterator[Sample]:
    """Memory of each instance."""
    wanted = [(metric, what) for metric, what in MEMORY if metric not in leave]
    if not wanted or not enabled(gpu):
        return
    for part, handle in _instances(gpu):
        told = _ask(gpu, "nvmlDeviceGetMemoryInfo", handle)
        for metric, what in wanted:
            value = number(told.get(what)) if isinstance(told, Mapping) else None
            if value is not None:
                yield Sample("", part, metric, float(value))


def facts(gpu: Gpu) -> Iterator[Device | Fact]:
    """The instances as devices, and what they are: ``1g.10gb`` seven times."""
    if not enabled(gpu):
        return
    profiles: list[str] = []
    for part, handle in _instances(gpu):
        uuid = _ask(gpu, "nvmlDeviceGetUUID", handle)
        name = _ask(gpu, "nvmlDeviceGetName", handle)
        model = name if isinstance(name, str) else gpu.model
        told = uuid if isinstance(uuid, str) else ""
        yield Device("", part, "gpu_instance", told, "", model, "NVIDIA")
        profiles.append(model.rpartition(" MIG ")[2] if " MIG " in model else _profile(gpu, handle))
    yield Fact("", "mig_instances", len(profiles), gpu.device)
    known = sorted(profile for profile in profiles if profile)
    if known:
        text = ", ".join(f"{known.count(one)} x {one}" for one in dict.fromkeys(known))
        yield Fact("", "mig_profiles", text, gpu.device)


def _profile(gpu: Gpu, handle: Handle) -> str:
    told = _ask(gpu, "nvmlDeviceGetAttributes", handle)
    if not isinstance(told, Mapping):
        return ""
    slices, mib = number(told.get("gpuInstanceSliceCount")), number(told.get("memorySizeMB"))
    if slices is None or mib is None:
        return ""
    return f"{slices:.0f}g.{round(mib / 1024):.0f}gb"


def _instances(gpu: Gpu) -> Iterator[tuple[str, Handle]]:
    """Of each GPU instance the first of its compute instances."""
    most = gpu.number("nvmlDeviceGetMaxMigDeviceCount") or 0
    told: set[str] = set()
    for index in range(int(min(most, MOST))):
        handle = _ask(gpu, "nvmlDeviceGetMigDeviceHandleByIndex", gpu.handle, index)
        if handle is None:
            continue
        instance = _ask(gpu, "nvmlDeviceGetGpuInstanceId", handle)
        if isinstance(instance, int) and (part := f"{gpu.device}:gi{instance}") not in told:
            told.add(part)
            yield part, handle


def _ask(gpu: Gpu, function: str, *arguments: Any) -> Any:
    """Instances come and go: what one refuses says nothing of the GPU."""
    try:
        return gpu.library.call(function, *arguments)
    except Refused:
        return None
