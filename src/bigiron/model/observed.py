"""What is observed: nodes and parts, facts, samples, events, jobs, and a batch of them."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from bigiron.model.kinds import CheckStatus

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
else:
    Floats = Any
    """The base install has no numpy: an array is not checked."""

FactValue = str | int | float | bool


class Node(msgspec.Struct, frozen=True, omit_defaults=True):
    """A schedulable host with its SKU and its place. An empty string is "not known"."""

    name: str
    sku: str = ""
    role: str = ""
    rack: str = ""
    leaf: str = ""
    pdu: str = ""
    cooling: str = ""
    ring: str = ""
    partition: str = ""
    site: str = ""


class Device(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a node. ``id`` (GPU UUID, serial) survives an index change; ``name`` may not."""

    node: str
    name: str
    kind: str = ""
    id: str = ""
    bus: str = ""
    model: str = ""
    vendor: str = ""


class Fact(msgspec.Struct, frozen=True, omit_defaults=True):
    """A configuration value of a node (``device`` empty) or of one of its devices."""

    node: str
    name: str
    value: FactValue
    device: str = ""
    time: datetime | None = None


class Sample(msgspec.Struct, frozen=True, omit_defaults=True):
    """One measured number, under its canonical name (``signals``) and in that unit."""

    node: str
    device: str
    metric: str
    value: float
    time: datetime | None = None


class Readings(msgspec.Struct, frozen=True):
    """One sample each of one metric of many subjects, side by side: what large sources bring.

    ``keys`` are node and device; ``values`` and ``times`` (epoch seconds) are aligned to them.
    NaN is no sample. ``keys`` is the same object from batch to batch while the layout stays.
    Never serialised: what is kept of samples is kept elsewhere.
    """

    metric: str
    keys: tuple[tuple[str, str], ...]
    values: Floats
    times: Floats


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that happened, recognised as a catalogued fault ``code``.

    ``time`` is None where the source has no wall clock; ``uptime_s`` is then the kernel's own
    clock, and ``line`` (from 1) always orders events of one source.
    """

    node: str
    code: str
    text: str
    device: str = ""
    time: datetime | None = None
    uptime_s: float | None = None
    source: str = ""
    line: int = 0
    attrs: Mapping[str, str] = {}
    count: int = 1


class Job(msgspec.Struct, frozen=True, omit_defaults=True):
    """One attempt of a job as the scheduler recorded it; ``nodes`` is unfolded."""

    id: str
    state: str
    user: str = ""
    name: str = ""
    account: str = ""
    partition: str = ""
    submit: datetime | None = None
    start: datetime | None = None
    end: datetime | None = None
    exit_code: int = 0
    signal: int = 0
    nodes: tuple[str, ...] = ()
    gpus: int = 0
    restarts: int = 0
    reason: str = ""


class NodeState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The scheduler's word on a node.

    ``state`` is one of idle, alloc, drain, down, maint, resume, unknown; ``flags`` keeps the
    scheduler's own words (``IDLE``, ``DRAIN``, ``INVALID_REG`` ...).
    """

    node: str
    state: str
    reason: str = ""
    by: str = ""
    since: datetime | None = None
    time: datetime | None = None
    flags: tuple[str, ...] = ()


class Maintenance(msgspec.Struct, frozen=True, omit_defaults=True):
    """Planned work on some nodes between two times."""

    start: datetime
    end: datetime
    nodes: tuple[str, ...]
    kind: str = ""


class CheckResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an active check (a diagnostic, a benchmark) said about a device or node."""

    node: str
    check: str
    status: CheckStatus
    device: str = ""
    code: str = ""
    text: str = ""
    time: datetime | None = None
    source: str = ""
    values: Mapping[str, float] = {}


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something an input held that was not used: what, where, how often. Shown, never hidden."""

    source: str
    what: str
    count: int = 1


Observation = (
    Sample | Event | Fact | Job | NodeState | CheckResult | Node | Device | Maintenance | Note
)


class Batch(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one source had to say at one time: the hub's unit of input.

    A source brings ``samples`` or, where it has thousands, ``columns``: of one metric the older
    readings first.
    """

    time: datetime
    source: str = ""
    nodes: tuple[Node, ...] = ()
    devices: tuple[Device, ...] = ()
    samples: tuple[Sample, ...] = ()
    events: tuple[Event, ...] = ()
    facts: tuple[Fact, ...] = ()
    jobs: tuple[Job, ...] = ()
    states: tuple[NodeState, ...] = ()
    checks: tuple[CheckResult, ...] = ()
    maintenance: tuple[Maintenance, ...] = ()
    notes: tuple[Note, ...] = ()
    columns: tuple[Readings, ...] = ()
