"""A PCIe link as tools report it: speed per lane in GT/s and number of lanes."""

from collections.abc import Iterator

from bigiron.ingest import Document
from bigiron.model import Fact, Observation, Sample

GENERATION = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6, 128.0: 7}
"""Generation by signalling rate in GT/s (PCI Express Base Specification, one rate each)."""


def generation(gt_per_s: float | None) -> int:
    """The generation with this rate; 0 if there is none."""
    return GENERATION.get(round(gt_per_s, 1), 0) if gt_per_s else 0


def link_samples(
    document: Document,
    device: str,
    gt_per_s: float | None,
    width: float | None,
    *,
    maximum: tuple[float | None, float | None] = (None, None),
) -> Iterator[Observation]:
    """What a GPU's link is and could be, as samples, and as facts for a golden configuration."""
    found = (
        ("link_gen", float(generation(gt_per_s)) or None),
        ("link_width", width or None),
        ("link_gen_max", float(generation(maximum[0])) or None),
        ("link_width_max", maximum[1] or None),
    )
    for name, value in found:
        if value is not None:
            yield Sample(document.node, device, f"gpu_pcie_{name}", value, document.now)
            yield Fact(document.node, f"pcie_{name}", int(value), device, document.now)
