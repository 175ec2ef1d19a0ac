"""One port under two names: a log's ``ib7`` and its counters' ``mlx5_7``.

Where a PCI address or a fact ties them the hub has given both one name already. Where nothing
does, what a log and a counter tell of one node within a minute happened to one port.
"""

from collections.abc import Iterator, Mapping, Sequence

WITHIN_S = 75.0
"""A counter is read within a minute after it moved, and a scrape takes its time."""

EARLY_S = 5.0
"""Clocks of a node and of who scrapes it differ by less."""


def pairs(
    logged: Mapping[str, Sequence[float]], counted: Mapping[str, Sequence[float]]
) -> dict[str, str]:
    """The counters' name -> the log's, one to one, the closest first.

    Two names are one port if for each time (epoch seconds) at which its counter was seen to
    have moved there is a line shortly before.
    """
    close = sorted(
        (gap, name, other)
        for name, times in counted.items()
        for other, lines in logged.items()
        if times and (gap := _gap(times, lines)) is not None
    )
    found: dict[str, str] = {}
    for _, name, other in close:
        if name not in found and other not in found.values():
            found[name] = other
    return found


def _gap(times: Sequence[float], lines: Sequence[float]) -> float | None:
    """The mean time, in seconds, from a line to what is counted; None if one has no line."""
    gaps = [min(_after(time, lines), default=None) for time in times]
    known = [gap for gap in gaps if gap is not None]
    return sum(known) / len(known) if len(known) == len(times) else None


def _after(time: float, lines: Sequence[float]) -> Iterator[float]:
    yield from (time - line for line in lines if -EARLY_S <= time - line <= WITHIN_S)
