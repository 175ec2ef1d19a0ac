"""The words of the field that come in a fixed set: severities, health, blame, actions."""

from enum import StrEnum


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
