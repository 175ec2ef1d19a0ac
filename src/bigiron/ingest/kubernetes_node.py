"""A Kubernetes Node object: its state, its facts, and what its conditions, taints and labels say.

Conditions speak in two ways. Those of the kubelet's pressure, of node-problem-detector and of
NVSentinel are True when something is wrong; Ready and names that end so (the EKS node monitoring
agent's AcceleratedHardwareReady) are True when all is well.
Sources: kubernetes.io "Node status"; node-problem-detector's README; EKS user guide "node health";
NVSentinel's integration guide; AMD device metrics exporter's README (labels).
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from bigiron.model import Event, Fact, FactValue, Node, NodeState, Observation

OURS = "bigiron"
"""Taints and annotations under a key that begins so are our own doing."""

GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
PLACES = ("rack", "leaf", "pdu", "cooling", "ring", "site", "role")

_GPU_WORDS = re.compile(
    r"gpu|nvidia|xid|nvlink|nvswitch|dcgm|accelerat|rocm|inforom|\becc\b|hbm|neuron", re.I
)
_XID = re.compile(
    r"\bXid \(PCI:[^)]*\): *(\d{1,3})"
    r"|\bxid[\s:=#_-]*(?:error|code)?[\s:=]*(\d{1,3})\b|XID(\d{1,3})",
    re.I,
)
_GPU_INDEX = re.compile(r"\bGPU[ :#]{0,2}(\d{1,2})\b(?! of| GPU| node)", re.I)
_POSITIVE = re.compile(r"(?:Ready|Healthy|Voter|Available|Initialized|Synced|OK)$")
_AMD_LABEL = re.compile(r"metricsexporter\.amd\.com\.gpu\.(\d+)\.state$")
_BAD_TAINT = re.compile(r"unhealthy|quarantin|faulty|broken|degraded|nvsentinel|amd-dcm", re.I)
_PRESSURE = frozenset({"MemoryPressure", "DiskPressure", "PIDPressure"})
_ADDRESSES = {"InternalIP": "address", "Hostname": "hostname"}
_DRIVER = ("cuda.driver.major", "cuda.driver.minor", "cuda.driver.rev")
_SENTINEL = "dgxc.nvidia.com/nvsentinel-state"


def mapping(value: object) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def listing(value: object) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def time_of(value: object) -> datetime | None:
    """RFC 3339, as text or as YAML has read it; None if it is neither."""
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if not isinstance(value, str) or not value:
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def quantity(value: object) -> int:
    """A count of devices; 0 if there is none or it is no whole number."""
    text = str(value)
    return int(text) if text.isdigit() else 0


def xid_in(text: str) -> str:
    """The Xid a condition's or event's text names, "" if none."""
    match = _XID.search(text)
    return next(filter(None, match.groups())) if match else ""


def gpu_in(text: str) -> str:
    """The device a text names by its index ("GPU 3 has fallen off the bus"), "" if none."""
    match = _GPU_INDEX.search(text)
    return f"gpu{int(match[1])}" if match else ""


def is_about_gpu(*texts: str) -> bool:
    """Whether a condition, taint or reason speaks of an accelerator."""
    return any(_GPU_WORDS.search(text) for text in texts)


class NodeObject:
    """One Node; ``places`` maps a field of our Node (rack, leaf ...) to the label that tells it."""

    def __init__(
        self, data: Mapping[str, Any], source: str, places: Mapping[str, str] | None = None
    ) -> None:
        meta = mapping(data.get("metadata"))
        self.name = str(meta.get("name") or "")
        self._labels = {str(k): str(v) for k, v in mapping(meta.get("labels")).items()}
        self._notes = mapping(meta.get("annotations"))
        self._spec = mapping(data.get("spec"))
        status = mapping(data.get("status"))
        # a node's status lists its container images, far more than all the rest: not kept
        kept = ("capacity", "allocatable", "nodeInfo", "addresses")
        self._status = {key: status.get(key) for key in kept}
        self._source = source
        self._places = places or {}
        self._conditions = [mapping(c) for c in listing(status.get("conditions"))]

    def observations(self, now: datetime, busy: bool | None = None) -> Iterator[Observation]:
        """Everything it tells at ``now``; ``busy`` is whether GPU pods run on it, if known."""
        where = {field: self._labels.get(label, "") for field, label in self._places.items()}
        yield Node(
            name=self.name, sku=self._sku(), **{k: v for k, v in where.items() if k in PLACES}
        )
        yield self._state(now, busy)
        for name, value in self._facts():
            yield Fact(self.name, name, value, time=now)
        told = [
            *self._of_conditions(),
            *self._of_spec(),
            *self._of_labels(),
            *self._of_resources(),
        ]
        yield from told
        troubles = {f"{e.code}@{e.device}" if e.device else e.code for e in told}
        yield Fact(self.name, "k8s_troubles", ",".join(sorted(troubles)), time=now)

    def _sku(self) -> str:
        labels = self._labels
        return labels.get("node.kubernetes.io/instance-type") or labels.get(
            "beta.kubernetes.io/instance-type", ""
        )

    def _state(self, now: datetime, busy: bool | None) -> NodeState:
        ready = next((c for c in self._conditions if c.get("type") == "Ready"), {})
        cordoned = self._spec.get("unschedulable") is True
        flags = [f"Ready={ready.get('status')}"] if ready else []
        if cordoned:
            flags.append("SchedulingDisabled")
        since, reason = time_of(ready.get("lastTransitionTime")), ""
        if ready and ready.get("status") != "True":
            state = "down"
            reason = str(ready.get("message") or ready.get("reason") or "")
        elif cordoned:
            state, reason, since = "drain", self._why_cordoned(), self._cordoned_at()
        else:
            state = "unknown" if busy is None or not ready else "alloc" if busy else "idle"
        return NodeState(self.name, state, reason, "", since, now, tuple(flags))

    def _why_cordoned(self) -> str:
        """The reason somebody noted, and the taints that are not Kubernetes' own."""
        noted = [
            str(value)
            for key, value in self._notes.items()
            if str(key).rpartition("/")[2] in ("reason", "cordon-reason", "drain-reason")
        ]
        taints = [
            f"{taint.get('key')}={taint.get('value') or ''}".rstrip("=")
            for taint in self._taints()
            if not _is_standard(taint) and not str(taint.get("key")).startswith(OURS)
        ]
        told = noted[:1] + ([f"taint {', '.join(taints)}"] if taints else [])
        return "; ".join(told)

    def _cordoned_at(self) -> datetime | None:
        key = "node.kubernetes.io/unschedulable"
        return next(
            (time_of(t.get("timeAdded")) for t in self._taints() if t.get("key") == key), None
        )

    def _taints(self) -> list[Mapping[str, Any]]:
        return [mapping(taint) for taint in listing(self._spec.get("taints"))]

    def _facts(self) -> Iterator[tuple[str, FactValue]]:
        info = mapping(self._status.get("nodeInfo"))
        for name, key in (
            ("kernel", "kernelVersion"),
            ("boot_id", "bootID"),
            ("os_image", "osImage"),
            ("kubelet_version", "kubeletVersion"),
            ("container_runtime", "containerRuntimeVersion"),
        ):
            if info.get(key):
                yield name, str(info[key])
        labels = self._labels
        driver = labels.get("nvidia.com/cuda.driver-version.full") or ".".join(
            labels[f"nvidia.com/{part}"] for part in _DRIVER if labels.get(f"nvidia.com/{part}")
        )
        driver = driver or labels.get("amd.com/gpu.driver-version", "")
        if driver:
            yield "driver_version", driver
        model = labels.get("nvidia.com/gpu.product") or labels.get("amd.com/gpu.product-name")
        if model:
            yield "gpu_model", model
        if labels.get("nvidia.com/gpu.count", "").isdigit():
            yield "gpu_count_discovered", int(labels["nvidia.com/gpu.count"])
        for address in map(mapping, listing(self._status.get("addresses"))):
            name = _ADDRESSES.get(str(address.get("type")), "")
            if name and address.get("address") not in (None, "", self.name):
                yield name, str(address["address"])
        for place in ("capacity", "allocatable"):
            counts = mapping(self._status.get(place))
            found = [quantity(counts[name]) for name in GPU_RESOURCES if name in counts]
            if found:
                yield f"gpu_count_{place}", sum(found)

    def _event(self, code: str, text: str, time: object, device: str = "", **attrs: str) -> Event:
        kept = {key: value for key, value in attrs.items() if value}
        if code == "k8s.gpu_unhealthy":
            device = device or gpu_in(text)
        return Event(self.name, code, text, device, time_of(time), source=self._source, attrs=kept)

    def _of_conditions(self) -> Iterator[Event]:
        for condition in self._conditions:
            kind, status = str(condition.get("type") or ""), str(condition.get("status") or "")
            if not kind or status not in ("True", "False", "Unknown"):
                continue
            code = _code_of(kind, status, str(condition.get("reason") or ""))
            if not code:
                continue
            reason, message = (str(condition.get(key) or "") for key in ("reason", "message"))
            yield self._event(
                code,
                f"{kind}: {message or reason}",
                condition.get("lastTransitionTime"),
                condition=kind,
                reason=reason,
                xid=xid_in(f"{kind} {reason} {message}"),
            )

    def _of_spec(self) -> Iterator[Event]:
        why = self._why_cordoned()
        if self._spec.get("unschedulable") is True:
            # Whoever cordoned it has judged it; a taint beside that only says what they found.
            if not why.startswith(f"{OURS}:"):
                yield self._event("k8s.cordoned", why, self._cordoned_at())
            return
        for taint in self._taints():
            key, value = str(taint.get("key") or ""), str(taint.get("value") or "")
            if (
                _is_standard(taint)
                or key.startswith(OURS)
                or not _BAD_TAINT.search(f"{key} {value}")
            ):
                continue
            gpu = is_about_gpu(key, value)
            yield self._event(
                "k8s.gpu_unhealthy" if gpu else "k8s.npd_condition",
                f"taint {key}={value}".rstrip("="),
                taint.get("timeAdded"),
                taint=key,
                xid=xid_in(value),
            )

    def _of_labels(self) -> Iterator[Event]:
        for key, value in self._labels.items():
            match = _AMD_LABEL.match(key)
            if match is not None and value.lower() == "unhealthy":
                text, device = f"label {key}={value}", f"gpu{match[1]}"
                yield self._event("k8s.gpu_unhealthy", text, None, device, label=key)
        state = self._labels.get(_SENTINEL, "")
        if state and state != "remediation-succeeded":
            text = f"label {_SENTINEL}={state}"
            yield self._event("k8s.gpu_unhealthy", text, None, label=_SENTINEL, reason=state)

    def _of_resources(self) -> Iterator[Event]:
        """A device plugin keeps an unhealthy GPU in the capacity and takes it from the allocatable.

        None allocatable at all usually means that the plugin is not running.
        """
        capacity = mapping(self._status.get("capacity"))
        allocatable = mapping(self._status.get("allocatable"))
        for name in GPU_RESOURCES:
            has, offers = quantity(capacity.get(name)), quantity(allocatable.get(name))
            if has > offers and name in allocatable:
                yield self._event(
                    "k8s.gpu_unhealthy",
                    f"{name}: {offers} of {has} allocatable",
                    None,
                    found=str(offers),
                    configured=str(has),
                    suspect="device_plugin" if offers == 0 else "hardware",
                )


def _is_standard(taint: Mapping[str, Any]) -> bool:
    """Taints Kubernetes sets by itself; the conditions say the same with more detail."""
    key = str(taint.get("key") or "")
    return key.startswith(("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"))


def _code_of(kind: str, status: str, reason: str) -> str:
    """The fault a condition stands for, "" if it is as it should be or cannot be told."""
    if kind == "Ready":
        return {"False": "k8s.not_ready", "Unknown": "k8s.unreachable"}.get(status, "")
    if status == "Unknown":
        return ""
    if kind in _PRESSURE:
        return "k8s.pressure" if status == "True" else ""
    if kind == "NetworkUnavailable":
        return "k8s.network_unavailable" if status == "True" else ""
    bad = "False" if _POSITIVE.search(kind) and not kind.endswith("Unhealthy") else "True"
    if status != bad:
        return ""
    return "k8s.gpu_unhealthy" if is_about_gpu(kind, reason) else "k8s.npd_condition"
