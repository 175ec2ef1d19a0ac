"""Kubernetes Event objects about nodes, by their reason.

Reasons are words, not codes: the kubelet's, the node controller's and node-problem-detector's
defaults are known here, any other warning about a node is kept as ``k8s.npd_condition``.
Sources: pkg/kubelet/events/event.go and pkg/controller/nodelifecycle of Kubernetes;
node-problem-detector's config/kernel-monitor.json.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bigiron.ingest.kubernetes_node import gpu_in, is_about_gpu, mapping, quantity, time_of, xid_in
from bigiron.model import Event

_CODES = {
    "NodeNotReady": "k8s.not_ready",
    "NodeNotSchedulable": "k8s.cordoned",
    "Rebooted": "kernel.reboot",
    "SystemOOM": "kernel.oom",
    "OOMKilling": "kernel.oom",
    "TaskHung": "kernel.hung_task",
    "KernelOops": "kernel.oops",
    "FilesystemIsReadOnly": "kernel.readonly_fs",
    "Ext4Error": "kernel.ext4_error",
    "NodeHasInsufficientMemory": "k8s.pressure",
    "NodeHasDiskPressure": "k8s.pressure",
    "NodeHasInsufficientPID": "k8s.pressure",
    "EvictionThresholdMet": "k8s.pressure",
    "FreeDiskSpaceFailed": "k8s.pressure",
    "NetworkUnavailable": "k8s.network_unavailable",
}
_OF_NO_USE = frozenset(
    {"InvalidDiskCapacity", "FailedNodeAllocatableEnforcement", "DNSConfigForming"}
)


def seen_at(data: Mapping[str, Any]) -> datetime | None:
    """When it last happened: of a series, the last one; events.k8s.io leaves the old fields out."""
    series = mapping(data.get("series"))
    meta = mapping(data.get("metadata"))
    for value in (
        series.get("lastObservedTime"),
        data.get("lastTimestamp"),
        data.get("deprecatedLastTimestamp"),
        data.get("eventTime"),
        data.get("firstTimestamp"),
        meta.get("creationTimestamp"),
    ):
        found = time_of(value)
        if found is not None:
            return found
    return None


def event_of(data: Mapping[str, Any], source: str) -> Event | None:
    """The fault an Event object about a node stands for; None if it is no fault of a node's."""
    about = mapping(data.get("involvedObject")) or mapping(data.get("regarding"))
    name, reason = str(about.get("name") or ""), str(data.get("reason") or "")
    if about.get("kind") != "Node" or not name:
        return None
    code = _CODES.get(reason, "")
    text = str(data.get("message") or data.get("note") or reason)
    if not code:
        if data.get("type") != "Warning" or reason in _OF_NO_USE:
            return None
        code = "k8s.gpu_unhealthy" if is_about_gpu(reason, text) else "k8s.npd_condition"
    component = mapping(data.get("source")).get("component") or data.get("reportingComponent") or ""
    xid = xid_in(f"{reason} {text}")
    return Event(
        node=name,
        code=code,
        text=text,
        device=gpu_in(text) if code == "k8s.gpu_unhealthy" else "",
        time=seen_at(data),
        source=source,
        attrs={
            "reason": reason,
            **({"component": str(component)} if component else {}),
            **({"xid": xid} if xid else {}),
        },
        count=max(
            1, quantity(mapping(data.get("series")).get("count")), quantity(data.get("count"))
        ),
    )
