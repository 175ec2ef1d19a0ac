"""One InfiniBand or RoCE port: its samples, and the faults its own state shows."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from bigiron.ingest import Document
from bigiron.model import Event, Fact, Observation, Sample

_RATE = re.compile(r"(\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})")
_PHYSICAL = {
    "sleep": 1,
    "polling": 2,
    "disabled": 3,
    "portconfigurationtraining": 4,
    "linkup": 5,
    "linkerrorrecovery": 6,
    "phytest": 7,
}
"""PortPhysicalState of the InfiniBand specification, as sysfs numbers it."""


def rate_gbps(said: str) -> float | None:
    """200 of "200 Gb/sec (4X HDR)" or "200"; None if there is no number."""
    match = _RATE.match(said.strip())
    return float(match[1]) if match else None


def word(said: str) -> str:
    """``active`` of "4: ACTIVE", "PORT_ACTIVE (4)" or "Active"."""
    name = re.sub(r"^\d+:\s*|\s*\(\d+\)$|^PORT_", "", said.strip())
    plain = re.sub(r"[\W_]", "", name).casefold()
    return {"init": "initializing", "initialize": "initializing"}.get(plain, plain)


def port_observations(
    document: Document, state: Mapping[str, str], rate: float | None
) -> Iterator[Observation]:
    """Samples of state, physical state and rate, and the rate as a fact."""
    name = state["name"]
    logical, physical = word(state["state"]), word(state["physical"])
    if logical:
        active = float(logical == "active")
        yield Sample(document.node, name, "ib_state", active, document.now)
    if physical in _PHYSICAL:
        number = float(_PHYSICAL[physical])
        yield Sample(document.node, name, "ib_physical_state", number, document.now)
    if rate is not None:
        yield Sample(document.node, name, "ib_rate_bits_per_second", rate * 1e9, document.now)
        yield Fact(document.node, "link_rate_gbps", rate, name, document.now)


def port_events(document: Document, ports: Sequence[Mapping[str, str]]) -> Iterator[Event]:
    """Ports that are down beside active ones of their type, and ports stuck on the way up."""
    active = Counter(p["kind"] for p in ports if word(p["state"]) == "active")
    for port in ports:
        logical, physical = word(port["state"]), word(port["physical"])
        shown = f"state {port['state'] or '?'}, physical state {port['physical'] or '?'}"
        if logical in {"initializing", "armed"}:
            why = "stuck on the way up: no subnet manager has configured it"
        elif logical == "down" and active[port["kind"]] * 2 > _alike(ports, port["kind"]):
            why = f"down, while {active[port['kind']]} ports of its type are active"
        else:
            continue
        yield Event(
            document.node,
            "nic.down",
            f"{port['name']} is {why} ({shown})",
            port["name"],
            document.now,
            source=document.name,
            attrs={"state": logical, "physical_state": physical},
        )


def _alike(ports: Sequence[Mapping[str, str]], kind: str) -> int:
    return sum(port["kind"] == kind for port in ports)
