"""Which event is the consequence of which: rules, and what the catalogue says ``follows`` what."""

from functools import cache
from typing import NamedTuple

from bigiron.faults import catalogue
from bigiron.model import Fault

CHAIN_S = 300.0
"""Longest pause between a cause and what follows it, where no rule says otherwise."""

TOGETHER_S = 10.0
"""Reports of one event from several devices (both ends of a link) lie within this time."""

SLACK_S = 1.0
"""One source's own clock is no worse than this."""

SWAP_S = 5.0
"""What belongs together is told within this time in any order, so a cause may be written after
its effect (arXiv 2503.11901 coalesces within 5 s)."""

UNTIL_BOOT_S = float("inf")


class Rule(NamedTuple):
    """``follower`` events within ``within_s`` after ``cause`` are its consequence.

    ``where`` is ``device`` (the same one), ``other`` (another device of the node) or ``node``.
    """

    cause: str
    follower: str
    where: str
    within_s: float


# Sources: NVIDIA's XID catalogue and its workflows for 45, 48, 74 and 154; the chains measured on
# Delta (arXiv 2503.11901: PMU to MMU, GSP to dead GPU, NVLink to peers); kernel logs of fleets.
RULES = (
    # A GPU that is off the bus says nothing true any more, until the node boots.
    Rule("xid.79", "xid", "device", UNTIL_BOOT_S),
    Rule("xid.79", "nvrm", "device", UNTIL_BOOT_S),
    Rule("xid.79", "gsp", "device", UNTIL_BOOT_S),
    Rule("xid.79", "sxid", "node", CHAIN_S),
    Rule("xid.79", "xid.74", "other", 60.0),
    Rule("xid.79", "nvrm", "node", 60.0),
    # A GPU system processor that stopped answering takes the GPU with it.
    Rule("xid.119", "xid", "device", CHAIN_S),
    Rule("xid.120", "xid", "device", CHAIN_S),
    Rule("xid.119", "nvrm", "node", CHAIN_S),
    Rule("xid.120", "nvrm", "node", CHAIN_S),
    Rule("gsp", "xid", "device", CHAIN_S),
    Rule("xid.119", "gsp", "device", CHAIN_S),
    # One memory error: the error, its remapping, containment and the recovery asked for.
    Rule("xid.48", "xid.63", "device", CHAIN_S),
    Rule("xid.48", "xid.64", "device", CHAIN_S),
    Rule("xid.48", "xid.94", "device", CHAIN_S),
    Rule("xid.48", "xid.95", "device", CHAIN_S),
    Rule("xid.48", "xid.171", "device", CHAIN_S),
    Rule("xid.48", "xid.172", "device", CHAIN_S),
    Rule("xid.63", "xid.64", "device", 60.0),
    Rule("xid.94", "xid.63", "device", CHAIN_S),
    Rule("xid.94", "xid.95", "device", CHAIN_S),
    Rule("xid.95", "xid.63", "device", CHAIN_S),
    Rule("xid.95", "xid.64", "device", CHAIN_S),
    Rule("xid.140", "xid.48", "device", CHAIN_S),
    Rule("xid.48", "xid.140", "device", CHAIN_S),
    # What a faulty GPU does to the program on it.
    *(
        Rule(cause, follower, "device", 60.0)
        for cause in ("xid.48", "xid.94", "xid.95", "xid.62", "xid.74", "xid.122", "xid.140")
        for follower in ("xid.13", "xid.31", "xid.43")
    ),
    # Both ends of a link, and the switch between them, report one fault.
    Rule("xid.74", "xid.74", "other", TOGETHER_S),
    Rule("xid.74", "sxid", "node", 60.0),
    Rule("sxid", "xid.74", "node", 60.0),
    Rule("sxid", "sxid", "node", 60.0),
    *(
        Rule(f"xid.{one}", f"xid.{other}", "node", TOGETHER_S)
        for one in (*range(144, 151), 155)
        for other in (*range(144, 151), 155)
    ),
    Rule("xid.137", "xid.31", "device", 60.0),
    # 45 cleans up after something, 154 says what recovery is needed now: neither is a cause.
    Rule("xid", "xid.45", "node", CHAIN_S),
    Rule("xid", "xid.154", "device", CHAIN_S),
    Rule("xid", "recovery", "device", CHAIN_S),
    # A program that broke its context cannot be switched out either.
    Rule("xid.13", "xid.109", "device", CHAIN_S),
    Rule("xid.13", "xid.43", "device", CHAIN_S),
    Rule("xid.31", "xid.43", "device", CHAIN_S),
    Rule("xid.31", "xid.109", "device", CHAIN_S),
    Rule("xid.109", "xid.43", "device", CHAIN_S),
    # The bus under a GPU that then is gone: named by the GPU's own code (see ABSORBS).
    Rule("amdgpu.ras_uncorrectable", "amdgpu", "device", CHAIN_S),
    Rule("amdgpu.poison", "amdgpu", "device", CHAIN_S),
    Rule("amdgpu.ring_timeout", "amdgpu.gpu_reset", "device", CHAIN_S),
    Rule("amdgpu.ring_timeout", "amdgpu.reset_failed", "device", CHAIN_S),
    Rule("amdgpu.lost", "amdgpu", "device", UNTIL_BOOT_S),
    Rule("amdgpu.xgmi_error", "amdgpu.gpu_reset", "node", CHAIN_S),
    # Programs die of the hardware under them.
    *(
        Rule(cause, follower, "node", 600.0)
        for cause in ("xid.79", "xid.119", "xid.95", "xid.48", "xid.74", "ib.link_down")
        for follower in ("nccl", "kernel.segfault_nccl", "kernel.hung_task")
    ),
)

ABSORBS = (
    Rule("xid.79", "pcie", "node", 60.0),
    Rule("xid.79", "nvrm.fallen_off", "device", 60.0),
    Rule("xid.79", "nvrm.gpu_lost", "device", 60.0),
    Rule("amdgpu.lost", "pcie", "node", 60.0),
    # Remapping is bookkeeping: logged first or last, the error it answers is the cause.
    *(
        Rule(cause, sign, "device", 60.0)
        for cause in ("xid.48", "xid.94", "xid.95")
        for sign in ("xid.63", "xid.64")
    ),
)
"""Events *before* the named cause that are its first signs and better told under its name.

So is what a rule above calls its follower, up to SWAP_S before it."""


def where_of(cause: str, follower: str) -> str:
    """How a cause's and a follower's device stand to one another, in a rule's words."""
    if not cause or not follower:
        return "unsaid"
    return "device" if cause == follower else "other"


@cache
def explains(cause: str, follower: str, where: str) -> float | None:
    """For how many seconds after ``cause`` a ``follower`` is its consequence; None if never."""
    longest = ruled(RULES, cause, follower, where)
    if longest is None and _follows(cause, follower, where):
        longest = CHAIN_S
    return longest


def announces(sign: str, cause: str, where: str, gap_s: float) -> bool:
    """Whether a rule has it that what came first is the consequence of what came ``gap_s`` later.

    A rule outweighs what the catalogue says the other way.
    """
    if ruled(RULES, sign, cause, where) is not None:
        return False
    before_s = ruled(ABSORBS, cause, sign, where)
    if before_s is None:
        before_s = SWAP_S if ruled(RULES, cause, sign, where) is not None else None
    return before_s is not None and gap_s <= before_s


@cache
def ruled(rules: tuple[Rule, ...], cause: str, follower: str, where: str) -> float | None:
    """The longest time that a rule gives the two; None if none is about them."""
    return max(
        (
            rule.within_s
            for rule in rules
            if is_a(cause, rule.cause)
            and is_a(follower, rule.follower)
            and (where in ("unsaid", rule.where) or rule.where == "node")
        ),
        default=None,
    )


def _follows(cause: str, follower: str, where: str) -> bool:
    """Whether the catalogue says so; of two devices of one kind each has its own troubles."""
    entry = entry_of(follower)
    if not any(is_a(cause, code) for code in entry.follows):
        return False
    return where != "other" or entry.device != entry_of(cause).device


def is_a(code: str, general: str) -> bool:
    """Whether a code is another, or one of the codes below it."""
    return code == general or code.startswith(f"{general}.")


@cache
def entry_of(code: str) -> Fault:
    """The catalogue's entry, looked up once."""
    return catalogue().find(code)
