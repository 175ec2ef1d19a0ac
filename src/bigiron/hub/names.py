"""One node under several names: ``n001`` to Slurm, ``n001.cluster.local:9400`` to Prometheus.

Host names are joined on their first label, whatever their case, as long as that is unambiguous:
where two domains share it (``n001.a.example`` and ``n001.b.example``), all are kept apart. The
addresses and host names that a scheduler gives of its nodes are theirs, too, unless it gives one
to several. Names first met together become one under the scheduler's name, else the shortest;
what was known before keeps its name. Two nodes that have been told apart are never joined later.
"""

import ipaddress
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from bigiron.model import (
    Batch,
    CheckResult,
    Device,
    Event,
    Fact,
    Job,
    Maintenance,
    NodeState,
    Note,
    Readings,
    Sample,
)

HUB = "hub"
ALSO = frozenset({"address", "hostname"})
"""Facts by which a scheduler tells under what other names its nodes go."""

_HOST = re.compile(r"([\w-]*[A-Za-z_-][\w-]*)((?:\.[\w-]+)*)\.?", re.ASCII)
_NOBODY = re.compile(r"localhost|127\.[\d.]*|::1|0\.0\.0\.0|::", re.IGNORECASE)

OfNode = TypeVar("OfNode", Device, Sample, Event, Fact, NodeState, CheckResult)
OfNodes = TypeVar("OfNodes", Job, Maintenance)


class Names:
    """Which node a name is of. ``nodes`` are known already; ``joined``: other name -> node."""

    def __init__(self, nodes: Iterable[str] = (), joined: Mapping[str, str] | None = None) -> None:
        self._of: dict[str, str] = {name: name for name in nodes}
        self._of |= joined or {}
        self._alike: dict[str, list[str]] = {}
        for name in self._of:
            self._alike.setdefault(_short(name), []).append(name)
        self._given: dict[str, dict[str, str]] = {}
        self._keys: dict[int, tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]] = {}
        self.changed = False
        """Whether ``joined`` has changed since this was last set to False."""

    @property
    def joined(self) -> dict[str, str]:
        """Every other name that was met and the node it is of."""
        return {name: node for name, node in self._of.items() if name != node}

    def learn(self, batches: Sequence[Batch]) -> list[Note]:
        """Take in every name that some batches use, before any of them is renamed."""
        scheduled = dict.fromkeys(state.node for batch in batches for state in batch.states)
        for batch in batches:
            for fact in batch.facts:
                if fact.name in ALSO and not fact.device and fact.node in scheduled:
                    self._given.setdefault(fact.node, {})[fact.name] = str(fact.value)
        apart = self._meet(scheduled)
        self._take_given(scheduled)
        apart += self._meet(name for batch in batches for name in _names(batch))
        if not apart:
            return []
        return [Note(HUB, "host names that differ only by their domain, kept apart", apart)]

    def renamed(self, batch: Batch) -> Batch:
        """The batch with every node under its one name; the same object if all are so."""
        to = {name: node for name in _names(batch) if (node := self._of.get(name, name)) != name}
        if not to:
            return batch
        return msgspec.structs.replace(
            batch,
            nodes=tuple(
                msgspec.structs.replace(n, name=to[n.name]) if n.name in to else n
                for n in batch.nodes
            ),
            devices=_each(batch.devices, to),
            samples=_each(batch.samples, to),
            events=_each(batch.events, to),
            facts=_each(batch.facts, to),
            states=_each(batch.states, to),
            checks=_each(batch.checks, to),
            jobs=_lists(batch.jobs, to),
            maintenance=_lists(batch.maintenance, to),
            columns=tuple(self._readings(readings, to) for readings in batch.columns),
        )

    def _meet(self, names: Iterable[str]) -> int:
        """Give each name not met before its node; how many of them had to be kept apart."""
        new: dict[str, list[str]] = {}
        for name in dict.fromkeys(names):
            if name not in self._of:
                new.setdefault(_short(name), []).append(name)
        return sum(self._settle(short, some) for short, some in new.items())

    def _settle(self, short: str, new: list[str]) -> int:
        """The same for names that share their first label."""
        alike = self._alike.setdefault(short, [])
        nodes = {self._of[name] for name in alike}
        alike += new
        if not short or len(nodes) > 1 or not _one_domain(alike):
            self._of |= {name: name for name in new}
            return len(new) if short and len(alike) > 1 else 0
        node = min(nodes or new, key=lambda name: (len(name), name))
        self._of |= dict.fromkeys(new, node)
        self.changed = self.changed or any(name != node for name in new)
        return 0

    def _take_given(self, scheduled: Container[str]) -> None:
        """Join the addresses and host names that schedulers give of one node only."""
        givers: dict[str, set[str]] = {}
        for node, given in self._given.items():
            for other in given.values():
                givers.setdefault(other, set()).add(self._of.get(node, node))
        for other, of in givers.items():
            had = self._of.get(other)
            if had == other or other in scheduled or _NOBODY.fullmatch(other):
                continue  # what is a node of its own stays one
            node = next(iter(of)) if len(of) == 1 else other
            if node not in (had, other):
                self._of[other] = node
                self.changed = True

    def _readings(self, readings: Readings, to: Mapping[str, str]) -> Readings:
        had = self._keys.get(id(readings.keys))
        if had is None or had[0] is not readings.keys:
            keys = tuple((to.get(node, node), device) for node, device in readings.keys)
            if len(self._keys) > 1000:
                self._keys.clear()
            had = self._keys[id(readings.keys)] = readings.keys, keys
        return msgspec.structs.replace(readings, keys=had[1])


def _names(batch: Batch) -> dict[str, None]:
    """Every node a batch names, in order."""
    names: dict[str, None] = {node.name: None for node in batch.nodes}
    for of_node in (batch.states, batch.devices, batch.events, batch.facts, batch.checks):
        names |= dict.fromkeys(one.node for one in of_node)
    names |= dict.fromkeys(sample.node for sample in batch.samples)
    for of_nodes in (batch.jobs, batch.maintenance):
        for many in of_nodes:
            names |= dict.fromkeys(many.nodes)
    for keys in {id(readings.keys): readings.keys for readings in batch.columns}.values():
        names |= dict.fromkeys(node for node, _ in keys)
    names.pop("", None)
    return names


def _short(name: str) -> str:
    """The first label of a host name in lower case; "" for an address and what is no host name."""
    match = _HOST.fullmatch(name)
    return match[1].lower() if match and not _is_address(name) else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _one_domain(names: Iterable[str]) -> bool:
    """Whether these domains go on one another: none, ``cluster``, ``cluster.local``."""
    domains = {name.lower().rstrip(".").partition(".")[2] for name in names}
    longest = max(domains, key=len).split(".")
    return all(not d or longest[: d.count(".") + 1] == d.split(".") for d in domains)


def _each(every: tuple[OfNode, ...], to: Mapping[str, str]) -> tuple[OfNode, ...]:
    return tuple(
        msgspec.structs.replace(one, node=to[one.node]) if one.node in to else one for one in every
    )


def _lists(every: tuple[OfNodes, ...], to: Mapping[str, str]) -> tuple[OfNodes, ...]:
    return tuple(
        msgspec.structs.replace(many, nodes=tuple(to.get(node, node) for node in many.nodes))
        if any(node in to for node in many.nodes)
        else many
        for many in every
    )
