"""Which nodes changed so that their past must be learned anew."""

from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from bigiron.detect import Block
from bigiron.detect.deviation.state import State
from bigiron.detect.hygiene import Clean, Rows
from bigiron.detect.state import carried, follow

VERSIONS = ("driver_version", "vbios_version", "bios_version", "firmware_version", "power_limit_w")
"""Facts that alter how a part runs without altering the part."""

EVERY_S = 3600.0
AWAY = frozenset({"drain", "down"})

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Changes:
    """By node: that what it runs changed, and that it came back from a drain."""

    versions: Flags
    returned: Flags

    @property
    def of_nodes(self) -> tuple[Flags, Flags]:
        """Both, by node."""
        return self.versions, self.returned

    def of(self, rows: Rows) -> tuple[Flags, Flags]:
        """Both, by row of a kind of part."""
        return self.versions[rows.node], self.returned[rows.node]


def changes(after: State, before_s: float, clean: Clean, block: Block) -> Changes:
    """What changed since the step before; ``after`` is brought up to date."""
    index = follow(after.nodes, clean.nodes)
    old_versions = carried(after.versions, index, 0)
    old_away = carried(after.away, index, False)
    away = _away(clean, block)
    hourly = clean.time_s // EVERY_S > before_s // EVERY_S
    versions = _versions(clean, block) if hourly or index is not None else old_versions
    after.nodes, after.away, after.versions = clean.nodes, away, versions
    changed = (versions != old_versions) & (old_versions != 0) & (versions != 0)
    return Changes(changed, old_away & ~away)


def _away(clean: Clean, block: Block) -> Flags:
    """Which nodes are drained or down."""
    away = np.zeros(len(clean.nodes), bool)
    where = {name: i for i, name in enumerate(clean.nodes)}
    for name, told in block.states.items():
        if name in where and told.state in AWAY:
            away[where[name]] = True
    return away


def _versions(clean: Clean, block: Block) -> NDArray[np.int64]:
    """A checksum of what each node and its devices run; 0 if nothing is known of it."""
    told: dict[str, list[str]] = {}
    for (node, device), facts in block.facts.items():
        for name in VERSIONS:
            fact = facts.get(name)
            if fact is not None:
                told.setdefault(node, []).append(f"{device}:{name}={fact.value}")
    sums = np.zeros(len(clean.nodes), np.int64)
    for i, name in enumerate(clean.nodes):
        if name in told:
            sums[i] = crc32("\n".join(sorted(told[name])).encode())
    return sums
