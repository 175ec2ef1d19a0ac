"""The NVLink fabric as a GPU sees it, its health mask taken apart (nvml.h, NVML_GPU_FABRIC_*)."""

from collections.abc import Iterator, Mapping
from typing import Any

from bigiron.collect.nvml_gpu import Gpu
from bigiron.collect.nvml_library import name, number
from bigiron.collect.nvml_samples import fabric, fabric_state
from bigiron.ingest.nvidia_fields import (
    FABRIC_FAILED,
    HEALTH_CONFIGURATION_SHIFT,
    HEALTH_CONFIGURATIONS,
)
from bigiron.model import Event, Fact

_STATES = {1: "Not Started", 2: "In Progress", 3: "Completed"}
_SUMMARIES = {1: "Healthy", 2: "Unhealthy", 3: "Limited Capacity"}
_TRUE = (
    (0, "bandwidth degraded"),
    (2, "route recovery in progress"),
    (4, "route unhealthy"),
    (6, "recovery from an access timeout"),
)
"""Two bits each: 1 says that it is so, 2 that it is not."""
_FALSE = ((12, "no partition assigned"), (14, "global fabric manager not connected"))
"""Two bits each: 2 says that it is not as it should be."""

_WRONG: dict[int, str] = {}
for _word, _number in HEALTH_CONFIGURATIONS.items():
    _WRONG.setdefault(_number, _word)


def wrong_configuration(mask: int) -> str:
    """What NVML calls incorrect about the configuration; "" if nothing is, or it is not told."""
    code = mask >> HEALTH_CONFIGURATION_SHIFT & 0xF
    return _WRONG.get(code, f"configuration error {code}") if code > 1 else ""


def ailments(mask: int) -> list[str]:
    """All that a health mask tells of in words, none if the fabric is well."""
    found = [word for shift, word in _TRUE if mask >> shift & 3 == 1]
    found += [word for shift, word in _FALSE if mask >> shift & 3 == 2]
    wrong = wrong_configuration(mask)
    return [*found, f"incorrect configuration: {wrong}"] if wrong else found


def fabric_facts(gpu: Gpu) -> Iterator[Fact]:
    """State, status, place in the fabric and health. Nothing of a GPU that is on none."""
    told = fabric(gpu)
    state = number(told.get("state"))
    if state is None or int(state) not in _STATES:
        return
    words: dict[str, str] = {"fabric_state": _STATES[int(state)]}
    status = number(told.get("status"))
    if status is not None:
        words["fabric_status"] = "Success" if status == 0 else name(int(status))
    words |= _member(told)
    summary = number(told.get("healthSummary"))
    if summary is not None and int(summary) in _SUMMARIES:
        words["fabric_health"] = _SUMMARIES[int(summary)]
    mask = number(told.get("healthMask"))
    if mask is not None and (found := ailments(int(mask))):
        words["fabric_health_faults"] = ", ".join(found)
    for fact, word in words.items():
        yield Fact("", fact, word, gpu.device)


def _member(told: Mapping[str, Any]) -> dict[str, str]:
    cluster, clique = told.get("clusterUuid"), number(told.get("cliqueId"))
    if not isinstance(cluster, str) or not cluster:
        return {}
    plain = cluster.replace("-", "").lower()
    if len(plain) == 32:
        cluster = "-".join((plain[:8], plain[8:12], plain[12:16], plain[16:20], plain[20:]))
    return {"fabric_cluster": cluster} | (
        {} if clique is None else {"fabric_clique": str(int(clique))}
    )


def fabric_events(gpu: Gpu) -> Iterator[Event]:
    """A fabric that the GPU cannot join, which no measured value tells by itself."""
    told = fabric(gpu)
    mask = number(told.get("healthMask"))
    wrong = wrong_configuration(int(mask)) if mask is not None else ""
    if fabric_state(told) == FABRIC_FAILED:
        status = name(int(number(told.get("status")) or 0))
        why = f"its NVLink fabric answers {status}"
    elif wrong:
        why = f"its NVLink fabric is configured wrong: {wrong}"
    else:
        return
    if mask is not None and (found := ailments(int(mask))):
        why += f" ({', '.join(found)})" if not wrong or len(found) > 1 else ""
    yield Event("", "gpu.fabric_unhealthy", f"{gpu.device}: {why}", gpu.device, source="nvml")
