"""What the scheduler's present word says of what it said before.

A scheduler tells how a node stands at every look, so its own complaint is over as soon as it is
no longer made: a node that is back in service is neither down nor drained, whatever the clock.
"""

from bigiron.detect import Window
from bigiron.model import Event

SERVING = frozenset({"idle", "alloc"})

SLURM_ENDS = frozenset(
    {
        "slurm.node_drain",
        "slurm.node_down",
        "slurm.not_responding",
        "slurm.gres_missing",
        "slurm.invalid_reg",
        "slurm.kill_task_failed",
        "slurm.prolog_failed",
        "slurm.epilog_failed",
        "slurm.health_check",
    }
)
"""Over once the node serves again: Slurm registered it anew, or a person resumed it. That it
restarted by itself (``slurm.reboot``) stays worth knowing."""

KUBERNETES_ENDS = frozenset({"k8s.not_ready", "k8s.unreachable", "k8s.cordoned"})
STANDING = frozenset({"condition", "taint", "label", "configured"})
"""Attributes of what a Node object tells at every look; an Event object has none of them."""

TROUBLES = "k8s_troubles"
"""The fact that lists what a Node object complains of now: ``code`` or ``code@device``."""


def over(window: Window, node: str, device: str, code: str, last: Event | None) -> str:
    """Why the scheduler's complaint is over; "" if it is not, or was another's.

    ``last`` is the newest event that told it, None where it is no longer remembered.
    """
    if code in SLURM_ENDS:
        state = window.states.get(node)
        slurms = state is not None and not any("=" in flag for flag in state.flags)
        if state is not None and slurms and state.state in SERVING:
            return "Slurm has it in service again"
    if code in KUBERNETES_ENDS or (last is not None and STANDING & last.attrs.keys()):
        fact = window.facts.get((node, ""), {}).get(TROUBLES)
        told = f"{code}@{device}" if device else code
        if code.startswith("k8s.") and fact is not None and told not in str(fact.value).split(","):
            return "Kubernetes says so no more"
    return ""
