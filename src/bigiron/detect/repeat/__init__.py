"""Repeat offenders: parts and nodes that fail again after each repair, within days or weeks.

One fault is repaired by a reset or a restart; the same again, and again, is not. The rules with
their windows and sources are data (``rows``). What is counted are incidents, not lines: a burst
is one, what follows from a cause is its evidence, a program's own error is none, nor is what
came while the node was out of service, or to many nodes at once.
"""

from typing import TYPE_CHECKING

from bigiron.detect import StatefulDetector, fold

if TYPE_CHECKING:
    from bigiron.detect.repeat.past import State


@fold()
def repeat() -> "StatefulDetector[State]":
    """Parts and nodes that fail again and again: a reset does not cure them."""
    from bigiron.detect.repeat.fold import Repeat

    return Repeat()
