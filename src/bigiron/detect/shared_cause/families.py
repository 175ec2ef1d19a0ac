"""Which faults may have one cause outside the node, and which level that cause would be at."""

from collections.abc import Mapping
from functools import cache

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "thermal": (
        "thermal_degradation",
        "fan_failure",
        "gpu.temp_high",
        "gpu.memory_temp_high",
        "gpu.hot",
        "clock.sw_thermal",
        "clock.hw_thermal",
        "clock.hw_slowdown",
        "thermal",
        "mce.thermal",
        "kernel.throttled",
    ),
    "speed": ("slow_clock", "straggler", "gpu.slow_clock", "clock.sw_power_cap", "gpu.power_low"),
    "power": ("power_brake", "power", "clock.hw_power_brake"),
    "link": ("ib_errors", "ib_link_down", "ib", "nic.down", "nic.rate", "roce"),
    "loss": (
        "node.missing",
        "node_crash",
        "slurm.node_down",
        "slurm.not_responding",
        "k8s.not_ready",
        "k8s.unreachable",
        "kernel.reboot",
    ),
    "watch": ("node.exporter_down", "driver_hang", "gpu.metrics_frozen"),
    "gpu": ("gpu_off_bus", "gsp_timeout", "xid", "gsp", "nvrm", "gpu.missing", "pcie", "fm"),
    "storage": ("nfs", "lustre", "kernel.hung_task", "kernel.readonly_fs"),
    "program": ("nccl", "kernel.segfault_nccl"),
}
"""Faults (and all codes under them) that one cause makes alike on many nodes."""

HARD = frozenset({"power", "loss", "gpu", "storage", "watch"})
"""What has one cause comes within a minute of one another; the others within an hour."""

LEVELS: Mapping[str, tuple[str, ...]] = {
    "thermal": ("cooling", "rack"),
    "speed": ("cooling", "pdu", "rack", "job"),
    "power": ("pdu", "rack"),
    "link": ("leaf", "rack"),
    "loss": ("pdu", "rack", "leaf", "job"),
    "watch": ("rack", "leaf", "job"),
    "gpu": ("pdu", "rack", "job"),
    "storage": ("job", "rack", "leaf", "partition"),
    "program": ("job", "leaf"),
}
"""Where the cause of a family sits, the likeliest first: of equal groups it is named."""

NAMED: Mapping[tuple[str, str], str] = {
    ("thermal", "cooling"): "cooling_excursion",
    ("link", "leaf"): "leaf_bad",
    ("power", "pdu"): "pdu_blip",
    ("loss", "pdu"): "pdu_blip",
}
"""What a family on a level is called; others are ``shared_cause.FAMILY``."""

EXPLAINS: Mapping[str, frozenset[str]] = {
    "cooling_excursion": frozenset({"thermal", "speed"}),
    "leaf_bad": frozenset({"link", "speed", "program"}),
    "pdu_blip": frozenset({"power", "speed", "loss", "watch"}),
    "storage_outage": frozenset({"storage"}),
    **{f"shared_cause.{family}": frozenset({family}) for family in FAMILIES},
    "shared_cause.loss": frozenset({"loss", "watch", "link"}),
    "shared_cause.power": frozenset({"power", "speed"}),
}
"""The families that a cause, once found, takes the blame for."""


@cache
def family(fault: str) -> str:
    """The family of a fault; "" if it is always a node's own."""
    best, name = "", ""
    for one, codes in FAMILIES.items():
        for code in codes:
            if (fault == code or fault.startswith(f"{code}.")) and len(code) > len(best):
                best, name = code, one
    return name


def named(family: str, by: str) -> str:
    """The fault that a family on a level is."""
    return NAMED.get((family, by), f"shared_cause.{family}")
