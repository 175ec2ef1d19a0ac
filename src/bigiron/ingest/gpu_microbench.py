"""JSON of GPU micro-benchmarks: one GPU's memory, cache and arithmetic rates.

The shape: ``{"metrics": {"GPU Device": 0, "gfx_version": ..., "HBM BW": {"mean", "stdev"}}}``.
Rates are compared with the node's peers by whoever judges; here a rate of zero is an error.
"""

import re
from collections.abc import Iterator

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, json_text, reader
from bigiron.ingest.json_text import at
from bigiron.model import CheckResult, CheckStatus, Fact, Note, Observation


class GpuMicrobench:
    """One CheckResult a GPU with every mean and its deviation."""

    def sniff(self, head: Head) -> float:
        """Certain by the device key beside a mean."""
        return 0.9 if json_text.has_keys(head, "metrics", "GPU Device", "mean") else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """The GPU's facts, then its result."""
        whole = json_text.load(document)
        metrics = json_text.mapping(at(whole, "metrics"))
        index = json_text.number(metrics.get("GPU Device"))
        if index is None:
            raise ParseError(document.name, 0, "no GPU Device in these metrics")
        # Each process saw one GPU and called it 0: the KFD's id tells which one it was.
        guid = json_text.text(at(whole, "meta", "GUID"))
        gpu = f"kfd{guid}" if guid else f"gpu{int(index)}"
        node = json_text.text(at(whole, "meta", "hostname")) or document.node
        for key, name in (("gfx_version", "gfx_version"), ("CUs", "compute_units")):
            said = json_text.text(metrics.get(key))
            if said:
                yield Fact(node, name, said, gpu, document.now)
        values, zero, absent = _rates(metrics)
        health = json_text.mapping(at(whole, "health"))
        status, text = _verdict(values, zero, health)
        yield CheckResult(
            node,
            "gpu_microbench",
            status,
            gpu,
            text=f"{gpu}: {text}"[:500],
            time=document.now,
            source=document.name,
            values=values,
        )
        if absent:
            what = "gpu_microbench: formats this GPU has no units for"
            yield Note(document.name, what, absent)


@reader()
def gpu_microbench() -> Reader:
    """JSON of GPU micro-benchmarks (HBM, cache, FLOPs)."""
    return GpuMicrobench()


def _rates(metrics: json_text.JsonMap) -> tuple[dict[str, float], str, int]:
    """The means and deviations, what was measured as zero, and how many had no work to do."""
    values: dict[str, float] = {}
    zero, absent = "", 0
    for key, entry in metrics.items():
        mean = json_text.number(at(entry, "mean"))
        if mean is None:
            continue
        work = [json_text.number(at(entry, unit)) for unit in ("FLOP", "IOP", "traffic")]
        if mean == 0 and any(amount == 0 for amount in work):
            absent += 1
            continue
        name = re.sub(r"\W+", "_", key).strip("_").casefold()
        values[name] = mean
        deviation = json_text.number(at(entry, "stdev"))
        if deviation is not None:
            values[f"{name}_stdev"] = deviation
        zero = zero or (key if mean <= 0 else "")
    return values, zero, absent


def _verdict(
    values: dict[str, float], zero: str, health: json_text.JsonMap
) -> tuple[CheckStatus, str]:
    if zero or not values:
        return CheckStatus.ERROR, f"{zero} measured as zero" if zero else "nothing was measured"
    for key, status in (("Unhealthy", CheckStatus.FAIL), ("Outlier", CheckStatus.WARN)):
        if health.get(key) is True:
            names = ", ".join(map(str, json_text.sequence(health.get(f"{key} Metrics"))))
            return status, f"{key.casefold()} by the tool's own word: {names or '?'}"
    return CheckStatus.PASS, f"{len(values)} rates measured"
