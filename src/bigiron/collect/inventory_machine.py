"""A machine's own facts: kernel, system, board, processors, memory, IOMMU."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from bigiron.collect.dmi_memory import modules, plain
from bigiron.collect.pci_tree import Part, names, text
from bigiron.errors import NoData
from bigiron.host import Host
from bigiron.ingest import json_text
from bigiron.model import FactValue

Told = Iterator[tuple[str, str, FactValue]]
"""Device ("" is the node), name and value."""

CPU = "/sys/devices/system/cpu"
NUMA = "/sys/devices/system/node"
EDAC = "/sys/devices/system/edac/mc"
DMI = "/sys/class/dmi/id"
CPUINFO_BYTES = 8192
"""Its first processor; all of it are a page for each, and asking each for its frequency."""
SMT = {"on": "on", "off": "off", "forceoff": "off"}

_BOARD = {
    "system_vendor": "sys_vendor",
    "model": "product_name",
    "serial": "product_serial",
    "board": "board_name",
    "board_serial": "board_serial",
    "bios_vendor": "bios_vendor",
    "bios_version": "bios_version",
    "bios_date": "bios_date",
}
_PRETTY = re.compile(r'^PRETTY_NAME="?([^"\n]{1,120})', re.MULTILINE)
_CPU_NAME = re.compile(r"^(?:model name|cpu model|cpu)\s*:\s*(.{1,120})$", re.MULTILINE)
_CPU_PART = re.compile(r"^CPU (implementer|part)\s*:\s*(0x[0-9a-f]{1,6})$", re.MULTILINE)
_CORES = {"0xd0c": "Neoverse-N1", "0xd40": "Neoverse-V1", "0xd4f": "Neoverse-V2"}
"""Arm's part numbers (Arm, Technical Reference Manuals, MIDR_EL1)."""
_NODE = re.compile(r"^node\d{1,4}$")
_CHOSEN = re.compile(r"\[(\w{1,20})\]")


def kernel(host: Host) -> Told:
    """What runs it."""
    yield "", "kernel", text(host, "/proc/sys/kernel/osrelease")
    yield "", "kernel_cmdline", text(host, "/proc/cmdline")[:4096]
    release = _PRETTY.search(text(host, "/etc/os-release") or text(host, "/usr/lib/os-release"))
    if release:
        yield "", "os_version", release[1]


def board(host: Host) -> Told:
    """Who made it and its firmware. Serial numbers are root's alone; the BMC tells its own."""
    for name, file in _BOARD.items():
        yield "", name, plain(text(host, f"{DMI}/{file}"))


def processors(host: Host) -> Told:
    """Model, microcode, governor, threads a core, and which CPUs hang on which node."""
    try:
        info = host.part("/proc/cpuinfo", None, CPUINFO_BYTES).decode("utf-8", "replace")
    except NoData:
        info = ""
    yield "", "cpu_model", _cpu_model(info)
    microcode = text(host, f"{CPU}/cpu0/microcode/version")
    yield "", "cpu_microcode", microcode
    yield "", "cpu_count", _count(text(host, f"{CPU}/online"))
    for name, file in (("cpu_governor", "scaling_governor"), ("cpu_driver", "scaling_driver")):
        folders = [one for one in names(host, f"{CPU}/cpufreq") if one.startswith("policy")]
        told = Counter(text(host, f"{CPU}/cpufreq/{one}/{file}") for one in folders)
        yield "", name, _mostly(told)
    yield "", "smt", SMT.get(text(host, f"{CPU}/smt/control"), "")
    nodes = [one for one in names(host, NUMA) if _NODE.match(one)]
    # a node without CPUs is a GPU's memory (GB200) or an expander's
    cpus = [text(host, f"{NUMA}/{one}/cpulist") for one in sorted(nodes, key=_numbered)]
    yield "", "numa_nodes", len(nodes)
    yield "", "numa_layout", " | ".join(one for one in cpus if one)[:1000]


def _numbered(name: str) -> tuple[int, str]:
    return len(name), name


def _cpu_model(info: str) -> str:
    named = _CPU_NAME.search(info)
    if named:
        return " ".join(named[1].split())
    part = dict(_CPU_PART.findall(info))
    return _CORES.get(part.get("part", ""), " ".join(part.values()))


def _count(cpus: str) -> int:
    """224 of ``0-223``; 0 where it is not told."""
    total = 0
    for piece in cpus.split(",")[:4096]:
        first, _, last = piece.partition("-")
        if first.isdecimal() and (last or first).isdecimal() and len(piece) < 14:
            total += max(0, int(last or first) - int(first) + 1)
    return total


def _mostly(told: Counter[str]) -> str:
    """A word that all share, or each with its count: ``performance x190, powersave x2``."""
    told.pop("", None)
    if len(told) <= 1:
        return next(iter(told), "")
    return ", ".join(f"{word} x{count}" for word, count in told.most_common(4))


def memory(host: Host) -> Told:
    """How much, in which modules, and how its pages are."""
    total = re.search(r"^MemTotal:\s+(\d{1,15}) kB", text(host, "/proc/meminfo"), re.MULTILINE)
    if total:
        yield "", "memory_total_gb", round(int(total[1]) / 1048576, 1)
    yield from _modules(host)
    at = "/sys/kernel/mm/hugepages"
    pools = {one.removeprefix("hugepages-"): f"{at}/{one}/nr_hugepages" for one in names(host, at)}
    counts = {size: json_text.number(text(host, path)) for size, path in pools.items()}
    used = [f"{size}:{count:.0f}" for size, count in sorted(counts.items()) if count]
    yield "", "hugepages", " ".join(used) or ("0" if counts else "")
    for name, file in (("transparent_hugepages", "enabled"), ("thp_defrag", "defrag")):
        chosen = _CHOSEN.search(text(host, f"/sys/kernel/mm/transparent_hugepage/{file}"))
        if chosen:
            yield "", name, chosen[1]


def _modules(host: Host) -> Told:
    """By the firmware's tables where they may be read, else by what the memory controller found."""
    try:
        found = list(modules(host))
    except NoData:
        found = []
    sizes = Counter(one.megabytes for one in found)
    for one in found:
        device = f"dimm:{'_'.join(one.locator.split())}"
        if one.locator:
            yield device, "serial", one.serial
            yield device, "model", one.part
            yield device, "vendor", one.vendor
    if not sizes:
        for controller in names(host, EDAC):
            for place in names(host, f"{EDAC}/{controller}"):
                if place.startswith("dimm"):
                    size = json_text.number(text(host, f"{EDAC}/{controller}/{place}/size"))
                    sizes[int(size or 0)] += 1
    sizes.pop(0, None)
    yield "", "dimm_count", sizes.total()
    told = sorted(sizes.items(), reverse=True)
    yield "", "dimms", ", ".join(f"{count} x {size / 1024:g} GiB" for size, count in told)


def iommu(host: Host, parts: Iterable[Part]) -> Told:
    """``on`` where an IOMMU translates for GPUs and adapters, ``passthrough``, or ``off``.

    Types of groups as Documentation/ABI: sysfs-kernel-iommu_groups tells them.
    """
    groups = {one.group for one in parts if one.kind in ("gpu", "nic") and one.group}
    if not groups:
        some = names(host, "/sys/kernel/iommu_groups")
        if not parts or some:
            return
        yield "", "iommu", "off"
        return
    types = {text(host, f"/sys/kernel/iommu_groups/{group}/type") for group in groups} - {""}
    if types:
        yield "", "iommu", "passthrough" if types == {"identity"} else "on"
