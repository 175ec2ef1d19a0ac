"""On the node: from the machine to our nouns, passively. One file a source.

A collector is a function of a ``Host``, called again and again. It reads only through the host,
so a captured tree gives what the machine gave. It leaves ``node`` and ``time`` empty where the
machine does not tell them: the agent fills in its own. Devices are named as ``ingest`` names
them: ``gpu3``, ``mlx5_0``, ``nvme1``, else by PCI address.

**Absent hardware is silent, broken hardware is loud.** Raise NoData where the source is not
there; where it is there and does not answer, yield an Event of the fault that this is, or raise
Temporary or Permanent: the agent tells which collector failed and why. Never a zero for a value
that could not be read.

Texts that others write too (exporters' pages, kernel log lines, drives' reports) are read by
the parsers of ``ingest``, which stands below: a format is understood in one place.
"""

from collections.abc import Iterable

from bigiron.host import Host
from bigiron.model import CheckResult, Device, Event, Fact, Note, Sample
from bigiron.registry import Registry

Seen = Sample | Event | Fact | Device | CheckResult | Note
"""What a node can say of itself."""

collector: Registry[[Host], Iterable[Seen]] = Registry(__name__, "collector")
"""Collectors by name, with seconds between two calls and the longest one may take.

``apart``: it calls a driver, a baseboard controller or a mount, any of which may never return.
"""
