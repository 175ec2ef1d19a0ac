"""What ``nvidia-smi -q`` and ``-q -x`` share: a head about the node, then one part a GPU."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bigiron.ingest import Document
from bigiron.ingest.nvidia_gpu import Reading, device_name, observe
from bigiron.ingest.nvidia_values import absent, clean, taken_at
from bigiron.model import Fact, FactValue, Observation


@dataclass(slots=True)
class Log:
    """One run of the tool; ``complete`` is False where the output breaks off."""

    head: dict[str, str] = field(default_factory=dict)
    gpus: list[Reading] = field(default_factory=list)
    complete: bool = True


def observe_log(document: Document, log: Log) -> Iterator[Observation]:
    """The node's facts, then every GPU in order."""
    time = taken_at(log.head.get("timestamp", ""), document)
    facts: list[tuple[str, FactValue]] = [
        (name, clean(log.head[source]))
        for source, name in (("driver_version", "driver_version"), ("cuda_version", "cuda_version"))
        if not absent(log.head.get(source, ""))
    ]
    attached = clean(log.head.get("attached_gpus", ""))
    if attached.isdecimal() and len(attached) < 6:
        facts.append(("gpu_count", int(attached)))
    for name, value in facts:
        yield Fact(document.node, name, value, time=time)
    for reading, name in zip(log.gpus, _names(log), strict=True):
        reading.time = time
        yield from observe(document, reading, name)


def _names(log: Log) -> Sequence[str]:
    """``gpu0``, ``gpu1`` ... in the order of the output, which is the order of indexes.

    Unless fewer GPUs are shown than are attached (``-i 3``): then each is named by its own minor
    number or PCI address.
    """
    attached = clean(log.head.get("attached_gpus", ""))
    some = log.complete and attached.isdecimal() and int(attached[:6]) > len(log.gpus)
    return [device_name(gpu, None if some else at) for at, gpu in enumerate(log.gpus)]
