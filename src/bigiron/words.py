"""The words in which people are told: actions, blame and health as an operator would say them."""

from bigiron.model import ActionKind, Blame, Finding, Health, Severity, When

DO = {
    ActionKind.CHECK: "test it",
    ActionKind.DRAIN: "drain it",
    ActionKind.DRAIN_NOW: "drain it and stop its job",
    ActionKind.RESET_GPU: "drain it and reset the GPU",
    ActionKind.REBOOT: "drain it and reboot",
    ActionKind.REPAIR: "drain it and have it repaired",
    ActionKind.RESUME: "return it to service",
}
SOON = {
    When.NOW: "now",
    When.JOB_END: "when the running job has ended",
    When.MAINTENANCE: "at the next maintenance",
}
FAULT_OF = {
    Blame.APPLICATION: "the application's, not the node's",
    Blame.SOFTWARE: "system software",
    Blame.DEVICE: "the device",
    Blame.LINK: "a link",
    Blame.SWITCH: "a switch",
    Blame.HOST: "the host",
    Blame.FACILITY: "power, cooling or the site",
    Blame.UNKNOWN: "not known: program or node",
}
SEVERITY_STYLE = {
    Severity.INFO: "dim",
    Severity.WARNING: "yellow",
    Severity.CRITICAL: "red",
    Severity.FATAL: "bold red",
}
HEALTH_STYLE = {
    Health.HEALTHY: "green",
    Health.UNKNOWN: "dim",
    Health.DEGRADED: "yellow",
    Health.UNHEALTHY: "bold red",
}


def advice(action: ActionKind, when: When) -> str:
    """What to do and how soon: "drain it and reset the GPU when the running job has ended"."""
    doing = DO.get(action)
    if doing is None:
        return "no action on the node"
    soon = SOON.get(when)
    return f"{doing} {soon}" if soon else doing


def whose(finding: Finding) -> str:
    """Whose fault it is; "" where that is not known and nobody would ask. Of a job they do."""
    if finding.blame is Blame.UNKNOWN and finding.subject.by != "job":
        return ""
    return FAULT_OF[finding.blame]


def chance(p: float) -> str:
    """A probability as people read it: ">99%", "49%", "3.1%"."""
    if p >= 0.99:
        return ">99%"
    return f"{100 * p:.0f}%" if p >= 0.0995 else f"{100 * p:.1f}%"
