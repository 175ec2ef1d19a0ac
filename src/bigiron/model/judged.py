"""What is made of it: findings, verdicts, actions, and the faults they are named after."""

from datetime import datetime

import msgspec

from bigiron.model.kinds import ActionKind, Blame, Change, Health, Mode, Severity, When


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


class Closing(msgspec.Struct, frozen=True, omit_defaults=True):
    """A person's word that a finding (its id) is over as of ``time``, and ``because`` of what.

    ``number`` is that of the request; 0, and no name in ``by``, where nobody asked for it but
    someone did what says as much.
    """

    time: datetime
    finding: str
    by: str
    because: str
    number: int = 0


class Contribution(msgspec.Struct, frozen=True):
    """What one piece of evidence adds to the log-odds that a node fails within 24 h and 7 d.

    ``what`` is a finding's id, or words for what is no finding.
    """

    what: str
    log_odds_24h: float
    log_odds_7d: float


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """The present judgement of a node and the findings (ids) it rests on.

    ``p_fail_24h`` and ``p_fail_7d`` are how likely a job that runs on it for so long fails of it;
    the ``contributions`` add up to their log-odds. ``held_until`` is set while the node counts as
    worse than its findings say, until it has been well for long enough.
    """

    time: datetime
    node: str
    health: Health
    p_fail_24h: float
    findings: tuple[str, ...] = ()
    because: str = ""
    p_fail_7d: float = 0.0
    held_until: datetime | None = None
    contributions: tuple[Contribution, ...] = ()


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
