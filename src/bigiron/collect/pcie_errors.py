"""AER counters of PCI devices and ports, by kind, and what their growth means.

The kernel counts them in memory (Linux, Documentation/ABI: sysfs-bus-pci-devices-aer_stats):
reading touches no device. They start at zero when the device is found, so only growth is told.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bigiron.errors import NoData, Permanent
from bigiron.host import Host
from bigiron.model import Event, Sample

SEVERITIES = ("correctable", "nonfatal", "fatal")
STORM_PER_MINUTE = 100.0
"""Corrected errors a minute that are told by themselves: the level at which Azure's health agent
warns in its example. Fewer are for the rates: a part against its like."""

_LINE = re.compile(r"^(\w{1,64}) (\d{1,20})$", re.MULTILINE)


@dataclass(slots=True)
class Errors:
    """What was counted at the last look, by device and severity, and when that was."""

    at_s: float | None = None
    before: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)

    def look(
        self, host: Host, folders: Mapping[str, tuple[str, str]], now_s: float
    ) -> Iterator[Sample | Event]:
        """Totals as samples, growth as events. ``folders`` are name and folder by address."""
        span_s = now_s - self.at_s if self.at_s is not None else 0.0
        self.at_s = now_s
        known, self.before = self.before, {}
        for bus, (name, folder) in folders.items():
            for severity in SEVERITIES:
                counts = _counts(host, f"{folder}/aer_dev_{severity}")
                if counts is None:
                    break
                self.before[bus, severity] = counts
                total = float(sum(counts.values()))
                yield Sample("", name, f"pcie_aer_{severity}_total", total)
                old = known.get((bus, severity))
                if old is not None and (new := _grown(old, counts)):
                    yield from _told(name, bus, severity, new, span_s)


def _counts(host: Host, path: str) -> dict[str, int] | None:
    try:
        return counts(host.read(path))
    except (NoData, Permanent):
        return None


def counts(text: str) -> dict[str, int] | None:
    """Errors by kind, without their total; None if the text has none."""
    found = {kind: int(count) for kind, count in _LINE.findall(text)}
    return {k: n for k, n in found.items() if not k.startswith("TOTAL_")} if found else None


def _grown(old: Mapping[str, int], new: Mapping[str, int]) -> dict[str, int]:
    """What came on top, by kind; a smaller count began again from zero."""
    return {
        kind: count - old.get(kind, 0) if count >= old.get(kind, 0) else count
        for kind, count in new.items()
        if count and count != old.get(kind, 0)
    }


def _told(
    name: str, bus: str, severity: str, new: Mapping[str, int], span_s: float
) -> Iterator[Event]:
    total = sum(new.values())
    if severity == "correctable" and (span_s <= 0 or total * 60.0 / span_s < STORM_PER_MINUTE):
        return
    word = {"correctable": "corrected", "nonfatal": "non-fatal"}.get(severity, severity)
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in new.items())
    who = name if name == bus else f"{name} ({bus})"
    text = f"{who}: {total:,} {word} PCIe errors in {span_s:.0f} s: {kinds}"
    attrs = {"pci": bus, "errors": str(total)} | {k: str(n) for k, n in new.items()}
    yield Event("", f"pcie.aer_{severity}", text, name, source="pcie", attrs=attrs)
