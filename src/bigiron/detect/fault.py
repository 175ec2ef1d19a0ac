"""Known faults: events to incidents. The first cause keeps the blame; what follows is evidence."""

from collections.abc import Iterable, Iterator

from bigiron.detect import Window
from bigiron.model import Finding, Recovery


def recoveries(standing: Iterable[Finding], window: Window) -> Iterator[Recovery]:
    """The standing incidents that a later reboot, reset or quiet time has ended."""
    del standing, window
    yield from ()
