"""Whose sample is it: an exporter's name and labels -> canonical metric, node and device.

The node is the first of these labels that is there: ``Hostname`` (dcgm-exporter),
``hostname`` (AMD), ``node``, ``nodename``, ``kubernetes_node``, ``kubernetes_io_hostname``,
``node_name``, ``exported_instance``, ``instance``; of the last two the port is dropped, and
loopback names no node. A ``Hostname`` that is the name of an exporter's own pod is passed over.

A part of a device is written after a colon: ``gpu0:gi7`` (a MIG instance), ``gpu0:nvlink3``,
``gpu0:xid79`` (a count by code), ``gpu0:hw_thermal`` (a count by reason), ``gpu0:p1`` (an AMD
partition), ``mlx5_0:2`` (a second port). Exporters repeat a MIG GPU's temperature, power and codes
for each of its instances: those are the GPU's own and are read once.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from bigiron import signals
from bigiron.ingest import pci_address

_NODE_LABELS = (
    "node", "nodename", "kubernetes_node", "kubernetes_io_hostname", "node_name",
)  # fmt: skip
_GPU_INDEX = ("gpu", "gpu_id", "gpu_index", "minor_number", "index")
_GPU_BUS = ("pci_bus_id", "pci_bdf", "pcie_bus_id", "bdf")
_GPU_ID = ("uuid", "gpu_uuid", "serial_number")
_NVIDIA_NODE = re.compile(r"nvidia([0-9]{1,4})$")
_EXPORTER_POD = re.compile(r"exporter[a-z0-9-]*-[a-z0-9]{5}$")
_LANE = re.compile(r"_L([0-9]{1,2})(?:_TOTAL)?$")
_PORT = re.compile(r"^\[?([^\[\]]*?)\]?(?::[0-9]+)?$")
_LOOPBACK = ("localhost", "::1", "0.0.0.0")  # noqa: S104
_PER_INSTANCE = frozenset(
    name
    for name in signals.SIGNALS
    if (name.startswith("gpu_memory_") and name.endswith("_bytes"))
    or name.endswith(("_active_ratio", "_occupancy_ratio"))
)
_SENSORS = (
    "node_hwmon_temp_celsius",
    "node_inlet_temp_celsius",
    "node_rail_volts",
    "node_fan_rpm",
    "node_pump_rpm",
    "node_power_watts",
    "node_psu_power_watts",
)
_FAMILIES = (
    (("gpu_", "pcie_"), "gpu"),
    (("ib_", "roce_"), "port"),
    (("nvme_",), "disk"),
    (("node_network_",), "device"),
    (("node_edac_",), "controller"),
    (("node_filesystem_",), "mountpoint"),
    (("node_scrape_",), "job"),
    (_SENSORS, "sensor"),
)
_UNASKED = ("", -1, "")
_BEHIND = 1000
"""Added to the rank of what is repeated for each MIG instance: the GPU's own series goes first."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What an exporter's name means. ``part``: a part of the device that the name tells."""

    metric: str
    source: signals.Source
    rank: int
    blanks: bool
    family: str
    part: str = ""
    where: tuple[str, str] = ("", "")


Series = tuple[str, str, str]
"""One canonical series: metric, node, device."""


@lru_cache(maxsize=65_536)
def rule(name: str) -> Rule | None:
    """The meaning of an exporter's metric name; None if it is not catalogued."""
    part = ""
    found = _find(name)
    if found is None and (lane := _LANE.search(name)) and "NVLINK" in name:
        total = name[: lane.start()] + "_TOTAL"
        found, part = _find(total), f"nvlink{lane[1]}"
    elif found is None and name.endswith("_PER_LINK_TOTAL"):
        found = _find(name.removesuffix("_PER_LINK_TOTAL") + "_TOTAL")
    if found is None:
        return None
    metric, source = found
    blanks = name.startswith(("DCGM_", "dcgm_"))
    family = _family(metric, name)
    return Rule(metric, source, signals.rank(source.name), blanks, family, part, (family, part))


def _find(name: str) -> tuple[str, signals.Source] | None:
    # OpenMetrics adds _total to a counter's name whatever the exporter called it.
    for spelling in (name, name.removesuffix("_total")):
        source = signals.source(spelling)
        found = signals.find(spelling)
        if source is not None and found is not None:
            return found[0].name, source
    return None


def _family(metric: str, name: str) -> str:
    """How the device is named: by which of an exporter's labels."""
    if name in ("GPU_CLOCK", "gpu_clock", "amd_gpu_clock"):
        return "amd_clock"
    if metric in ("gpu_xid_count_total", "gpu_clock_events_total"):
        return metric
    if metric in _PER_INSTANCE:
        return "gpu_instance"
    return next((family for starts, family in _FAMILIES if metric.startswith(starts)), "node")


@dataclass(slots=True)
class Names:
    """What only other series of the same answer tell.

    ``hosts``: instance (``10.1.2.3:9100``) or its host -> node, from exporters that name the node;
    "" where several nodes sit behind one address. ``gpus``: (node, UUID) -> ``gpu3``, from
    exporters that give the index in a metric of its own.
    """

    hosts: dict[str, str] = field(default_factory=dict)
    gpus: dict[tuple[str, str], str] = field(default_factory=dict)

    def learn(self, name: str, labels: Mapping[str, str], value: float, node: str = "") -> None:
        """Take what a series tells about others; ``node`` is whose it is if labels do not tell."""
        instance = labels.get("instance", "")
        if instance and (named := _own_node(labels)):
            for address in {instance, host_of(instance)}:
                known = self.hosts.setdefault(address, named)
                if known != named:
                    self.hosts[address] = ""
        if name == "nvidia_smi_index" and (uuid := labels.get("uuid")) and 0 <= value < 4096:
            self.gpus[node_of(labels, self) or node, uuid.lower()] = f"gpu{int(value)}"


def host_of(address: str) -> str:
    """The host of ``host:port`` or ``[v6]:port``; "" for loopback."""
    if address.count(":") > 1 and not address.startswith("["):
        host = address
    else:
        match = _PORT.match(address)
        host = match[1] if match else address
    return "" if host in _LOOPBACK or host.startswith("127.") else host


def _own_node(labels: Mapping[str, str]) -> str:
    """The node that the exporter itself or a relabelling names; not a guess from an address."""
    for key in ("Hostname", "hostname"):
        named = labels.get(key, "")
        if named and not _is_pod(named, labels):
            return named
    for key in _NODE_LABELS:
        if named := labels.get(key, ""):
            return named
    return ""


def _is_pod(named: str, labels: Mapping[str, str]) -> bool:
    if "exported_pod" in labels and named == labels.get("pod"):
        return True
    return _EXPORTER_POD.search(named) is not None


def node_of(labels: Mapping[str, str], names: Names) -> str:
    """The node by the order of labels above; "" if they do not tell."""
    if named := _own_node(labels):
        return named
    for key in ("exported_instance", "instance"):
        if address := labels.get(key, ""):
            host = host_of(address)
            return names.hosts.get(address) or names.hosts.get(host) or host
    return ""


class Place:
    """The labels of one label block, and what they say once ``node`` is settled."""

    __slots__ = ("_devices", "labels", "lower", "names", "node", "seen")

    def __init__(self, labels: Mapping[str, str], names: Names, node: str) -> None:
        self.labels = labels
        self.lower = {key.lower(): value for key, value in labels.items()}
        self.names = names
        self.node = node
        self.seen = False
        self._devices: dict[tuple[str, str], tuple[str, int, str] | None] = {}

    def device(self, meaning: Rule) -> tuple[str, int, str] | None:
        """The device, what to add to the rule's rank, and the metric if the labels change it.

        None where the labels do not name a device.
        """
        found = self._devices.get(meaning.where, _UNASKED)
        if found is _UNASKED:
            found = self._devices[meaning.where] = self._device(meaning)
        return found

    def gpu(self) -> str:
        """``gpu3``; its PCI address or UUID where only those are told; "" if nothing is."""
        for key in _GPU_INDEX:
            text = self.lower.get(key, "")
            if text.isascii() and text.isdecimal() and len(text) <= 4:
                return f"gpu{int(text)}"
        if match := _NVIDIA_NODE.match(self.lower.get("device", "")):
            return f"gpu{int(match[1])}"
        uuid = self.uuid().lower()
        if known := self.names.gpus.get((self.node, uuid)):
            return known
        return self.bus() or uuid

    def uuid(self) -> str:
        """What identifies the GPU wherever it sits: its UUID, else its serial number."""
        for key in _GPU_ID:
            if value := self.lower.get(key, ""):
                return value
        return ""

    def bus(self) -> str:
        """The GPU's PCI address or ""."""
        for key in _GPU_BUS:
            if found := pci_address(self.lower.get(key, "")):
                return found
        return ""

    def _device(self, meaning: Rule) -> tuple[str, int, str] | None:
        if meaning.family.startswith(("gpu", "amd")):
            gpu = self.gpu()
            return self._part_of(gpu, meaning) if gpu else None
        if meaning.family == "port":
            device, port = self.lower.get("device", ""), self.lower.get("port", "1")
            return (device if port == "1" else f"{device}:{port}", 0, "") if device else None
        return self._of_host(meaning.family), 0, ""

    def _of_host(self, family: str) -> str:
        match family:
            case "sensor":
                return self._sensor()
            case "controller":
                return f"mc{self.lower.get('controller', '')}"
            case "disk":
                return self.lower.get("device", "").removeprefix("/dev/")
        return self.lower.get(family, "") if family != "node" else ""

    def _sensor(self) -> str:
        chip, sensor = self.lower.get("chip", ""), self.lower.get("sensor", "")
        return f"{chip}:{sensor}" if chip else self.lower.get("name", sensor)

    def _part_of(self, gpu: str, meaning: Rule) -> tuple[str, int, str] | None:
        lower = self.lower
        part = meaning.part
        if link := lower.get("nvlink", lower.get("link", "")):
            part = f"nvlink{link}"
        if meaning.family == "gpu_xid_count_total":
            part = f"xid{lower['xid']}" if lower.get("xid", "0") != "0" else ""
        elif meaning.family == "gpu_clock_events_total":
            part = lower.get("clock_event", "")
        elif meaning.family == "amd_clock" and not self._is_main_clock():
            return None
        instance = lower.get("gpu_i_id", "")
        if instance and meaning.family == "gpu_instance":
            return f"{gpu}:gi{instance}", 0, ""
        partition = lower.get("gpu_partition_id", "0")
        if partition not in ("", "0"):
            part = f"p{partition}"
        behind = _BEHIND if instance else self._clock_index(meaning)
        memory = meaning.family == "amd_clock" and "MEMORY" in lower.get("clock_type", "").upper()
        metric = "gpu_memory_clock_hertz" if memory else ""
        return (f"{gpu}:{part}" if part else gpu), behind, metric

    def _clock_index(self, meaning: Rule) -> int:
        text = self.lower.get("clock_index", "") if meaning.family == "amd_clock" else ""
        return int(text) if text.isascii() and text.isdecimal() and len(text) <= 4 else 0

    def _is_main_clock(self) -> bool:
        """AMD lists a clock for each engine and die; the first of each type stands for it."""
        kind = self.lower.get("clock_type", "").upper()
        return not kind or "SYSTEM" in kind or "MEMORY" in kind
