"""The nouns. Imports nothing else of ours.

facts, samples, events, jobs -> findings -> verdicts -> actions: one way, no way back.
Every noun is a frozen msgspec Struct, so it serialises to JSON as it stands.
"""

from bigiron.model.judged import (
    Action,
    Closing,
    Contribution,
    Evidence,
    Fault,
    Finding,
    FindingChange,
    Recovery,
    Subject,
    Verdict,
)
from bigiron.model.kinds import ActionKind, Blame, Change, CheckStatus, Health, Mode, Severity, When
from bigiron.model.observed import (
    Batch,
    CheckResult,
    Device,
    Event,
    Fact,
    FactValue,
    Floats,
    Job,
    Maintenance,
    Node,
    NodeState,
    Note,
    Observation,
    Readings,
    Sample,
)

__all__ = [
    "Action",
    "ActionKind",
    "Batch",
    "Blame",
    "Change",
    "CheckResult",
    "CheckStatus",
    "Closing",
    "Contribution",
    "Device",
    "Event",
    "Evidence",
    "Fact",
    "FactValue",
    "Fault",
    "Finding",
    "FindingChange",
    "Floats",
    "Health",
    "Job",
    "Maintenance",
    "Mode",
    "Node",
    "NodeState",
    "Note",
    "Observation",
    "Readings",
    "Recovery",
    "Sample",
    "Severity",
    "Subject",
    "Verdict",
    "When",
]
