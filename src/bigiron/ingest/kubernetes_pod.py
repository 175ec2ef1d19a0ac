"""Pods that hold GPUs, as jobs: what runs on which nodes, and how it ended.

Pods of one training run belong together, as one of them failing stops the others. Their operators
mark them with a label (Kubernetes Job, JobSet, Kubeflow's training operator, Volcano, Ray,
LeaderWorkerSet); a pod without one is a job of its own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bigiron.ingest.kubernetes_node import GPU_RESOURCES, listing, mapping, quantity, time_of
from bigiron.model import Job

GROUP_LABELS = (
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "pytorch-job-name",
    "volcano.sh/job-name",
    "leaderworkerset.sigs.k8s.io/name",
    "ray.io/cluster",
    "batch.kubernetes.io/job-name",
    "job-name",
)
QUEUE_LABELS = ("kueue.x-k8s.io/queue-name", "volcano.sh/queue-name")

_STATES = {
    "Pending": "PENDING",
    "Running": "RUNNING",
    "Succeeded": "COMPLETED",
    "Failed": "FAILED",
    "Unknown": "NODE_FAIL",
}
_WORST_FIRST = ("NODE_FAIL", "RUNNING", "PENDING", "FAILED", "PREEMPTED", "COMPLETED")
_NODE_REASONS = frozenset({"NodeLost", "NodeShutdown", "Terminated", "NodeAffinity"})
_PREEMPTED = frozenset({"Preempting", "Preempted"})


@dataclass(slots=True)
class _Group:
    """The pods of one job seen so far."""

    name: str
    namespace: str
    queue: str = ""
    states: set[str] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    gpus: int = 0
    restarts: int = 0
    submit: datetime | None = None
    start: datetime | None = None
    end: datetime | None = None
    exit_code: int = 0
    signal: int = 0
    reason: str = ""


class PodJobs:
    """Collects pods, then gives the jobs; pods without a GPU are only counted."""

    def __init__(self) -> None:
        self.without_gpu = 0
        self._groups: dict[tuple[str, str], _Group] = {}

    def add(self, pod: Mapping[str, Any]) -> None:
        """Take one Pod object."""
        gpus = _gpus_of(mapping(pod.get("spec")))
        if not gpus:
            self.without_gpu += 1
            return
        meta, status = mapping(pod.get("metadata")), mapping(pod.get("status"))
        labels = mapping(meta.get("labels"))
        namespace, own = str(meta.get("namespace") or ""), str(meta.get("name") or "")
        name = next((str(labels[key]) for key in GROUP_LABELS if labels.get(key)), own)
        group = self._groups.setdefault((namespace, name), _Group(name, namespace))
        group.queue = next((str(labels[k]) for k in QUEUE_LABELS if labels.get(k)), group.queue)
        group.gpus += gpus
        node = mapping(pod.get("spec")).get("nodeName")
        if node:
            group.nodes.add(str(node))
        group.submit = _earlier(group.submit, time_of(meta.get("creationTimestamp")))
        group.start = _earlier(group.start, time_of(status.get("startTime")))
        _take_outcome(group, status)

    def busy(self) -> frozenset[str]:
        """The nodes on which a pod with a GPU is placed and not over."""
        live = {"RUNNING", "PENDING"}
        return frozenset(n for g in self._groups.values() if g.states & live for n in g.nodes)

    def jobs(self) -> Iterable[Job]:
        """Each job once, by namespace and name."""
        for (namespace, name), group in sorted(self._groups.items()):
            state = next((s for s in _WORST_FIRST if s in group.states), "PENDING")
            over = not group.states & {"RUNNING", "PENDING"}
            yield Job(
                id=f"{namespace}/{name}",
                state=state,
                user=namespace,
                name=name,
                partition=group.queue,
                submit=group.submit,
                start=group.start,
                end=group.end if over else None,
                exit_code=group.exit_code,
                signal=group.signal,
                nodes=tuple(sorted(group.nodes)),
                gpus=group.gpus,
                restarts=group.restarts,
                reason=group.reason,
            )


def _gpus_of(spec: Mapping[str, Any]) -> int:
    """Devices a pod holds: its containers' together, or an init container's if that is more."""
    together = sum(_limit_of(container) for container in listing(spec.get("containers")))
    first = max((_limit_of(c) for c in listing(spec.get("initContainers"))), default=0)
    return max(together, first)


def _limit_of(container: object) -> int:
    resources = mapping(mapping(container).get("resources"))
    limits = mapping(resources.get("limits")) or mapping(resources.get("requests"))
    return sum(
        quantity(value)
        for name, value in limits.items()
        if name in GPU_RESOURCES or str(name).startswith("nvidia.com/mig-")
    )


def _take_outcome(group: _Group, status: Mapping[str, Any]) -> None:
    state = _STATES.get(str(status.get("phase")), "PENDING")
    reason = str(status.get("reason") or "")
    if state == "FAILED" and reason in _NODE_REASONS:
        state = "NODE_FAIL"
    elif state == "FAILED" and reason in _PREEMPTED:
        state = "PREEMPTED"
    group.states.add(state)
    group.reason = group.reason or reason
    for container in listing(status.get("containerStatuses")):
        told = mapping(container)
        group.restarts += quantity(told.get("restartCount"))
        ended = mapping(mapping(told.get("state")).get("terminated"))
        if not ended:
            continue
        group.end = _later(group.end, time_of(ended.get("finishedAt")))
        group.exit_code = group.exit_code or quantity(ended.get("exitCode"))
        group.signal = group.signal or quantity(ended.get("signal"))
        if ended.get("reason") not in (None, "", "Completed", "Error"):
            group.reason = group.reason or str(ended["reason"])


def _earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((t for t in (one, other) if t is not None), default=None)


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((t for t in (one, other) if t is not None), default=None)
