"""Errors of host memory: the kernel's EDAC counters by memory module, and machine checks.

Files of Documentation/ABI/testing/sysfs-devices-edac; counts start at boot. What a controller could
not put down to a module is told as the controller's own. The counters of the modules are
read when a controller's sum has moved, and every few minutes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from bigiron.collect import Seen, collector
from bigiron.errors import NoData, Permanent
from bigiron.host import Host
from bigiron.model import Event, Sample

ALL_EVERY = 5
MODULE_LIMIT = 512
_ROOT = "/sys/devices/system/edac/mc"
_COUNTS = (
    ("ce", "node_edac_correctable_total"),
    ("ue", "node_edac_uncorrectable_total"),
)
_UNKNOWN = frozenset({"", "not specified", "unknown", "undefined", "any memory"})


@dataclass(frozen=True, slots=True)
class _Module:
    """One memory module (or a row of a controller, of older drivers) and where it counts."""

    name: str
    files: tuple[str, str]


@dataclass(slots=True)
class _State:
    """Modules found, and what was last read of them."""

    calls: int = 0
    controllers: dict[str, tuple[_Module, ...]] = field(default_factory=dict)
    sums: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)
    counts: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)


@collector(every_s=60.0, timeout_s=20.0)
def edac(host: Host) -> Iterator[Seen]:
    """Host memory errors by module, and machine checks."""
    state = host.held("edac", _State)
    everything = state.calls % ALL_EVERY == 0
    state.calls += 1
    if everything:
        state.controllers = dict(_controllers(host))
        checks = machine_checks(_text(host, "/proc/interrupts"))
        if checks is not None:
            yield Sample("", "", "node_machine_checks_total", float(checks))
    if not state.controllers:
        raise NoData("no EDAC driver")
    for name, modules in state.controllers.items():
        sums = _count(host, f"{_ROOT}/{name}/ce_count"), _count(host, f"{_ROOT}/{name}/ue_count")
        moved = state.sums.get(name) != sums
        state.sums[name] = sums
        if everything or moved:
            yield from _modules(host, state, modules)


def machine_checks(text: str) -> int | None:
    """Machine check exceptions of all CPUs: the row ``MCE`` of ``/proc/interrupts``."""
    at = text.find(" MCE:")
    if at < 0:
        return None
    row = text[at + 5 :].partition("\n")[0].split()
    counts = []
    for word in row:
        if not (word.isascii() and word.isdecimal()):
            break
        counts.append(int(word[:18]))
    return sum(counts)


def _controllers(host: Host) -> Iterator[tuple[str, tuple[_Module, ...]]]:
    for path in host.glob(f"{_ROOT}/mc[0-9]*"):
        name = path.rpartition("/")[2]
        modules = tuple(_found(host, path, name))[:MODULE_LIMIT]
        yield name, modules


def _found(host: Host, path: str, name: str) -> Iterator[_Module]:
    """Modules by dimm*/rank*; rows and channels where a driver has only those."""
    found = False
    for kind in ("dimm", "rank"):
        for at in host.glob(f"{path}/{kind}[0-9]*"):
            found = True
            place = f"{name}:{at.rpartition('/')[2]}"
            label = _text(host, f"{at}/dimm_label")
            files = f"{at}/dimm_ce_count", f"{at}/dimm_ue_count"
            yield _Module(module_name(label, place), files)
    for at in () if found else host.glob(f"{path}/csrow[0-9]*"):
        place = f"{name}:{at.rpartition('/')[2]}"
        yield _Module(place, (f"{at}/ce_count", f"{at}/ue_count"))
    nowhere = f"{path}/ce_noinfo_count", f"{path}/ue_noinfo_count"
    yield _Module(name, nowhere)


def module_name(label: str, place: str) -> str:
    """``dimm:CPU0_DIMM_A1`` by the label printed on the board; ``mc0:dimm3`` without one."""
    label = "_".join(label.split())[:80]
    known = label.casefold().replace("_", " ") not in _UNKNOWN
    return f"dimm:{label}" if known else place


def _modules(host: Host, state: _State, modules: tuple[_Module, ...]) -> Iterator[Seen]:
    for module in modules:
        before = state.counts.get(module.name)
        counts = _count(host, module.files[0]), _count(host, module.files[1])
        state.counts[module.name] = counts
        for (_, metric), count in zip(_COUNTS, counts, strict=True):
            if count is not None:
                yield Sample("", module.name, metric, float(count))
        lost = counts[1] or 0
        more = lost - ((before[1] or 0) if before is not None else lost)
        if more > 0:
            text = f"{module.name}: {more} uncorrectable error{'s' * (more > 1)} of host memory"
            attrs = {"dimm": module.name.removeprefix("dimm:"), "since_boot": str(lost)}
            yield Event(
                *("", "edac.uncorrectable", text, module.name),
                source=_ROOT,
                attrs=attrs,
                count=more,
            )


def _count(host: Host, path: str) -> int | None:
    text = _text(host, path)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None


def _text(host: Host, path: str) -> str:
    try:
        return host.read(path)
    except (NoData, Permanent):
        return ""
