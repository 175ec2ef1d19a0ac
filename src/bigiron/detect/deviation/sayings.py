"""The sentences of deviations, in physical units."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from bigiron.detect.deviation.streams import Stream


@dataclass(frozen=True, slots=True)
class Shown:
    """A stream's value, its peers' and its own past's, as an operator reads them.

    ``most_w`` is the power at which a thermal resistance is told as degrees.
    """

    value: float
    peer: float
    past: float
    most_w: float = 0.0


def saying(who: str, stream: Stream, shown: Shown, *, since: datetime) -> str:
    """One sentence: who deviates, by how much, from what, since when."""
    text = _SAYINGS[stream.name](who, shown)
    return f"{text[:1].upper()}{text[1:]}, since {since:%Y-%m-%d %H:%M}."


def unit_of(stream: Stream) -> str:
    """The unit of what is shown."""
    return _UNITS.get(stream.name, "ratio")


def _heat(what: str) -> Callable[[str, Shown], str]:
    def say(who: str, shown: Shown) -> str:
        hotter = (shown.value - shown.past) * shown.most_w
        verb = "run" if who.startswith("the ") else "runs"
        return (
            f"{who} {verb} {hotter:.0f} °C hotter{what} than before at the same power "
            f"({shown.value:.4f} K/W; {_peers(f'{shown.peer:.4f}')}, own past {shown.past:.4f})"
        )

    return say


def _peers(value: str) -> str:
    return f"peers {value}"


def _clock(state: str) -> Callable[[str, Shown], str]:
    def say(who: str, shown: Shown) -> str:
        verb = "run" if who.startswith("the ") else "runs"
        slower = 1 - shown.value / shown.past if shown.past else 0.0
        return (
            f"{who} {verb} {slower:.1%} slower {state}: {shown.value / 1e6:.0f} MHz "
            f"(peers {shown.peer / 1e6:.0f}, own past {shown.past / 1e6:.0f})"
        )

    return say


def _share(what: str) -> Callable[[str, Shown], str]:
    def say(who: str, shown: Shown) -> str:
        return (
            f"{who}: clocks lowered {what} {shown.value:.0%} of the time "
            f"(peers {shown.peer:.0%}, own past {shown.past:.0%})"
        )

    return say


def _plain(
    what: str, unit: str, scale: float = 1.0, digits: int = 0
) -> Callable[[str, Shown], str]:
    def say(who: str, shown: Shown) -> str:
        numbers = (shown.value, shown.peer, shown.past)
        value, peer, past = (f"{number * scale:.{digits}f}" for number in numbers)
        return f"{who}: {what} {value} {unit} (peers {peer}, own past {past})"

    return say


_SAYINGS: dict[str, Callable[[str, Shown], str]] = {
    "thermal_resistance": _heat(""),
    "memory_thermal_resistance": _heat(" in memory"),
    "clock_uncapped": _clock("at work with nothing that holds its clock"),
    "clock_at_power_cap": _clock("at its power cap"),
    "power_at_load": _plain("power at the same load", "W"),
    "thermal_throttling": _share("for heat"),
    "power_brake_throttling": _share("by the power brake"),
    "other_throttling": _share("by hardware"),
    "gpu_fan_speed": _plain("fan speed", "%", 100.0),
    "nvlink_bandwidth": _plain("NVLink traffic at the same work", "GB/s", 1e-9, 1),
    "pcie_bandwidth": _plain("PCIe traffic at the same work", "GB/s", 1e-9, 2),
    "rail_voltage": _plain("supply voltage at its load", "V", 1.0, 3),
    "fan_speed": _plain("fan speed", "rpm"),
    "pump_speed": _plain("pump speed", "rpm"),
    "scrape_latency": _plain("time to be scraped", "s", 1.0, 2),
}

_UNITS = {
    "thermal_resistance": "kelvin_per_watt",
    "memory_thermal_resistance": "kelvin_per_watt",
    "clock_uncapped": "hertz",
    "clock_at_power_cap": "hertz",
    "power_at_load": "watts",
    "nvlink_bandwidth": "bytes_per_second",
    "pcie_bandwidth": "bytes_per_second",
    "rail_voltage": "volts",
    "fan_speed": "rpm",
    "pump_speed": "rpm",
    "scrape_latency": "seconds",
}
