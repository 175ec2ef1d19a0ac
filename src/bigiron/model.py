"""The nouns. Imports nothing else of ours.

facts, samples, events, jobs -> findings -> verdicts -> actions: one way, no way back.
Every noun is a frozen msgspec Struct, so it serialises to JSON as it stands.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
else:
    Floats = Any
    """The base install has no numpy: an array is not checked."""

FactValue = str | int | float | bool


class Severity(StrEnum):
    """How bad a fault is; ``rank`` orders them."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"
    FATAL = "fatal"

    @property
    def rank(self) -> int:
        """0 (info) to 3 (fatal)."""
        return _SEVERITY_RANK[self]


_SEVERITY_RANK = {s: i for i, s in enumerate(Severity)}


class Health(StrEnum):
    """The present judgement of a node; ``rank`` orders them, worst last."""

    HEALTHY = "healthy"
    UNKNOWN = "unknown"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"

    @property
    def rank(self) -> int:
        """0 (healthy) to 3 (unhealthy)."""
        return _HEALTH_RANK[self]


_HEALTH_RANK = {h: i for i, h in enumerate(Health)}


class Blame(StrEnum):
    """Whose fault it is. ``application`` never counts against a node."""

    APPLICATION = "application"
    SOFTWARE = "software"
    DEVICE = "device"
    LINK = "link"
    SWITCH = "switch"
    HOST = "host"
    FACILITY = "facility"
    UNKNOWN = "unknown"


class ActionKind(StrEnum):
    """What can be done to a node. ``drain`` means no new work; ``drain_now`` stops the job."""

    NONE = "none"
    CHECK = "check"
    DRAIN = "drain"
    DRAIN_NOW = "drain_now"
    RESET_GPU = "reset_gpu"
    REBOOT = "reboot"
    REPAIR = "repair"
    RESUME = "resume"


class When(StrEnum):
    """How soon: at once, when the running job has ended, at the next visit, or never."""

    NOW = "now"
    JOB_END = "job_end"
    MAINTENANCE = "maintenance"
    NEVER = "never"


class Mode(StrEnum):
    """Whether an action is only written down or carried out."""

    SHADOW = "shadow"
    ENFORCED = "enforced"


class Change(StrEnum):
    """What happened to a finding."""

    OPEN = "open"
    UPDATE = "update"
    CLOSE = "close"


class CheckStatus(StrEnum):
    """Outcome of an active check. Only ``pass`` is a pass."""

    PASS = "pass"  # noqa: S105
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"
    ERROR = "error"


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


class Subject(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whom a finding is about: a device, a node, or a group (a rack, a leaf switch ...)."""

    node: str = ""
    device: str = ""
    by: str = ""
    group: str = ""
    members: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """``device``, ``node`` or ``group``."""
        if self.by:
            return "group"
        return "device" if self.device else "node"

    @property
    def key(self) -> str:
        """Identity: ``n017/gpu3``, ``n017`` or ``rack:r04``; a group's members may change."""
        if self.by:
            return f"{self.by}:{self.group}"
        return f"{self.node}/{self.device}" if self.device else self.node

    def __str__(self) -> str:
        return self.key.replace("/", " ").replace(":", " ", 1) if self.by else self.key


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a claim rests on, down to the raw line or sample.

    ``kind`` is event, sample, fact, check, job or state. ``peer`` and ``past`` are the peers' and
    the subject's own former value, in ``unit``.
    """

    kind: str
    text: str
    time: datetime | None = None
    source: str = ""
    line: int = 0
    metric: str = ""
    value: float | None = None
    peer: float | None = None
    past: float | None = None
    unit: str = ""


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A detector's claim about a subject, as it stands now. Same key, same claim.

    ``fault`` is a catalogue code (``xid.79``) or a class of formats.md section 5.
    ``since`` is when the evidence began; ``confidence`` lies in 0..1.
    """

    detector: str
    fault: str
    severity: Severity
    subject: Subject
    since: datetime | None
    because: tuple[str, ...]
    confidence: float = 1.0
    blame: Blame = Blame.UNKNOWN
    action: ActionKind = ActionKind.NONE
    when: When = When.NEVER
    evidence: tuple[Evidence, ...] = ()
    look: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Identity of the claim over time."""
        return f"{self.detector}|{self.fault}|{self.subject.key}"


class Recovery(msgspec.Struct, frozen=True, omit_defaults=True):
    """A detector saw that the claim with ``key`` no longer holds, and ``because`` of what."""

    key: str
    because: str


class FindingChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A finding opened, updated or closed. ``id`` is stable while it stands (``F000017``)."""

    time: datetime
    id: str
    change: Change
    finding: Finding
    because: str = ""


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """The present judgement of a node and the findings (ids) it rests on."""

    time: datetime
    node: str
    health: Health
    p_fail_24h: float
    findings: tuple[str, ...] = ()
    because: str = ""


class Action(msgspec.Struct, frozen=True, omit_defaults=True):
    """A requested change. ``key`` makes asking twice the same as asking once."""

    time: datetime
    node: str
    kind: ActionKind
    mode: Mode
    reason: str
    findings: tuple[str, ...] = ()
    when: When = When.NEVER
    key: str = ""
    held: str = ""
    """Why it was not requested after all (a budget, a breaker); empty if it was."""


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """A catalogue entry: what a code means and what is usually done about it.

    ``bucket`` is the vendor's published action; where ``action`` differs from it,
    ``action_why`` gives the reason. ``clears`` says what ends it: ``reboot``, ``reset``,
    ``quiet`` (``quiet_s`` without another), or ``person``. ``patterns`` are regular expressions
    over kernel log messages, ``needs`` literals one of which any match must contain.
    """

    code: str
    name: str
    meaning: str
    severity: Severity
    blame: Blame
    source: str
    date: str
    action: ActionKind = ActionKind.NONE
    when: When = When.NEVER
    action_why: str = ""
    bucket: str = ""
    mnemonic: str = ""
    look: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    clears: str = "quiet"
    quiet_s: float = 86_400.0
    device: str = ""
    """The kind of device it is about: gpu, nic, nvme, switch, dimm, cpu, psu, fan or empty."""
    patterns: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
