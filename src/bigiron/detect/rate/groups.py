"""Which units are alike: one SKU and model, and for memory one maker of it."""

import numpy as np
from numpy.typing import NDArray

from bigiron.detect import Block, Key
from bigiron.detect.hygiene import Rows
from bigiron.detect.rate.streams import Stream

Floats = NDArray[np.float64]

MAKERS = ("memory_vendor", "hbm_vendor", "vram_vendor")
"""Facts that name who made a GPU's memory."""

SOME_REPLAYS = 1.0
"""Only of links with at least so many replays a minute is the width looked up."""


def of_units(
    known: tuple[str, ...], rows: Rows, streams: list[Stream], block: Block
) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """The names of all groups, and which each unit is in, by stream (n, m)."""
    names = {name: i for i, name in enumerate(known)}
    makes = np.zeros(len(rows.units), np.int32)
    makers = np.zeros(len(rows.units), np.int32)
    memory = any(stream.memory for stream in streams)
    for row, key in enumerate(rows.keys):
        node, part = block.fleet.nodes.get(key[0]), block.fleet.devices.get(key)
        make = f"{rows.kind}|{node.sku if node else ''}|{part.model if part else ''}"
        makes[row] = names.setdefault(make, len(names))
        if memory:
            made = f"{make}|{_maker(block, key)}"
            makers[row] = names.setdefault(made, len(names))
    columns = [makers if stream.memory else makes for stream in streams]
    return tuple(names), np.stack(columns, axis=1)


def _maker(block: Block, key: Key) -> str:
    facts = block.facts.get(key, {})
    return next((str(facts[name].value) for name in MAKERS if name in facts), "")


def links(rows: Rows, block: Block) -> Floats:
    """PCIe generation and lanes of each GPU that replays (n, 2), NaN where not known or needed."""
    found = np.full((len(rows.units), 2), np.nan)
    names = ("pcie_link_gen", "pcie_link_width")
    for at, name in enumerate(names):
        shown = rows.values.get(f"gpu_{name}")
        if shown is not None:
            found[:, at] = shown
    grown = rows.increments.get("gpu_pcie_replays_total")
    if grown is None:
        return found
    with np.errstate(invalid="ignore", divide="ignore"):
        some = grown / rows.spans["gpu_pcie_replays_total"] * 60.0 > SOME_REPLAYS
    for row in np.flatnonzero(some & np.isnan(found).any(axis=1)).tolist():
        facts = block.facts.get(rows.keys[row], {})
        for at, name in enumerate(names):
            fact = facts.get(name)
            number = fact.value if fact is not None else None
            if np.isnan(found[row, at]) and isinstance(number, int | float):
                found[row, at] = float(number)
    return found
