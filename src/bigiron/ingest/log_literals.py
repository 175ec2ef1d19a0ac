"""Literals of which every match of a regular expression contains one, read off its text.

``[Bb]ad page (?:count|number) of [0-9]`` has two such sets: ``Bad page count of ``, ``bad page
count of `` and so on, four in all. What may be absent, large classes, look-arounds and back
references count for nothing. Of several sets the best is the one that ordinary log lines do not
contain; that is what makes a log quick to search.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

SHORTEST = 4
"""Shorter ones stand in too many lines to be of use."""
MOST = 16
"""More alternatives than this cost more to look for than they save."""

Literals = tuple[str, ...]

ORDINARY = (
    "amdgpu 0000:c1:00.0: amdgpu: VRAM: 196592M, GTT: 515712M; Fetched VBIOS, initialized device ",
    "nvidia-nvswitch2: open (major=510); nvidia-nvswitch: Probing device 0000:06:00.0",
    "nvidia-uvm: Loaded the UVM driver, major device number 508; nvidia-modeset: Loading NVIDIA",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module; nvidia: module license taints kernel",
    "nvme nvme0: 32/0/0 default/read/poll queues; nvme 0000:01:00.0: platform quirk, pci function",
    "mlx5_core 0000:41:00.0: firmware version: 28.39.1002; Rate limit: 127 rates are supported",
    "mlx5_core 0000:41:00.1 eth1: Link up; E-Switch: Total vports 10; mlx5_ib: Mellanox Connect-IB",
    "usb 1-1.4: new high-speed USB device number 5; device removed; New USB device found, idVendor",
    "systemd[1]: Started Session 42 of user root. Stopped target, Failed to start, service: failed",
    "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode; XFS (md0): Ending clean mount",
    "pci 0000:00:1c.0: BAR 8: assigned [mem 0x90000000-0x901fffff]; bridge window, reset, error",
    "eth0: link becomes ready; NIC Link is Up; entered forwarding state; lost, received, timeout ",
    "mce: CPU0: supports 32 MCE banks; EDAC MC: Ver: 3.0.0; EDAC MC0: Giving out device to module",
    "kauditd_printk_skb: 12 callbacks suppressed; clocksource: Switched to clocksource tsc; rcu: ",
    "perf: interrupt took too long, lowering kernel.perf_event_max_sample_rate; entering state",
    "thermal_sys: Registered thermal governor; threshold; power; Power; Fan; number of; memory ",
)
"""What goes by in any healthy machine's log, by its words."""


_ESCAPE_LENGTHS = {"x": 4, "u": 6, "U": 10}
_SPECIAL = frozenset("\\.^$*+?{}[]()|")


class _Part(NamedTuple):
    """One token: all it can be, if that is little; what it encloses, if it is a group.

    ``needed`` is False if it may be absent, ``more`` True if it may come several times.
    """

    exact: Literals
    inside: str
    needed: bool
    more: bool
    ahead: bool


class _Set(NamedTuple):
    """One of these is there; ``ahead`` if looked ahead for: what follows in the pattern may come
    before it in the text."""

    literals: Literals
    ahead: bool = False


class Gate(NamedTuple):
    """One of ``any_of`` stands in every match, after one of ``before`` and before one of ``after``.

    The last two are empty where ``any_of`` says enough by itself.
    """

    any_of: Literals
    before: Literals = ()
    after: Literals = ()


def required(pattern: str) -> Gate | None:
    """What says most about a match; None if nothing of at least SHORTEST characters does."""
    if "(?i" in pattern or "(?x" in pattern:
        return None
    several = len(list(_branches(pattern))) > 1
    sets = [_Set(_alternatives(pattern))] if several else _sets(pattern)
    sets = [
        one
        for one in sets
        if all(one.literals) and len(min(one.literals, key=len, default="")) >= SHORTEST
    ]
    if not sets:
        return None
    best = max(range(len(sets)), key=lambda i: worth(sets[i].literals))
    gate = sets[best].literals
    if worth(gate)[0] == 0:
        return Gate(gate)
    before = max((one.literals for one in sets[:best] if not one.ahead), key=worth, default=())
    after = (
        ()
        if sets[best].ahead
        else max((s.literals for s in sets[best + 1 :]), key=worth, default=())
    )
    if before and (not after or worth(before) > worth(after)):
        return Gate(gate, before=before)
    return Gate(gate, after=after)


def worth(literals: Literals) -> tuple[int, int, int]:
    """How much a set says: in how few ordinary lines it stands, how long and how few they are."""
    if not literals or not all(literals):
        return (-len(ORDINARY), 0, 0)
    ordinary = sum(any(map(line.__contains__, literals)) for line in ORDINARY)
    return (-ordinary, min(map(len, literals)), -len(literals))


def _alternatives(text: str) -> Literals:
    """The best set of each branch, together; () if a branch has none."""
    found = [_sequence(branch) for branch in _branches(text)]
    together = tuple(dict.fromkeys(literal for literals in found for literal in literals))
    return together if all(found) and len(together) <= MOST else ()


def _sequence(text: str) -> Literals:
    return max((one.literals for one in _sets(text)), key=worth, default=())


def _sets(text: str) -> list[_Set]:
    """The sets of which one literal each must be there, in the order of the text."""
    sets: list[_Set] = []
    run: Literals = ("",)
    for part in _parts(text):
        options = part.exact if part.needed else ("", *part.exact) if part.exact else ()
        if options and len(run) * len(options) <= MOST and (part.needed or not part.more):
            run = tuple(dict.fromkeys(map("".join, product(run, options))))
            if not part.more:
                continue
            sets.append(_Set(run))
            run = ("",)
            continue
        sets.append(_Set(run))
        run = options if options and not part.more else ("",)
        if part.inside and part.needed:
            sets.append(_Set(_alternatives(part.inside), part.ahead))
    return [*sets, _Set(run)]


def _exact(text: str) -> Literals:
    """Everything a sequence of choices can be; () if that is too much."""
    every: list[str] = []
    for branch in _branches(text):
        run: Literals = ("",)
        for part in _parts(branch):
            options = part.exact if part.needed else ("", *part.exact) if part.exact else ()
            if not options or part.more or len(run) * len(options) > MOST:
                return ()
            run = tuple(map("".join, product(run, options)))
        every += run
    return tuple(dict.fromkeys(every)) if len(every) <= MOST else ()


def _branches(text: str) -> Iterator[str]:
    start = pos = 0
    while pos < len(text):
        if text[pos] == "|":
            yield text[start:pos]
            start = pos + 1
        pos = _token_end(text, pos)
    yield text[start:]


def _parts(text: str) -> Iterator[_Part]:
    pos = 0
    while pos < len(text):
        end = _token_end(text, pos)
        after = _quantifier_end(text, end)
        sign = text[end : end + 1] if after > end else ""
        inside = _inside(text[pos:end]) if text[pos] == "(" else ""
        ahead = text.startswith("(?=", pos)
        exact: Literals = ()
        if text.startswith(("(?!", "(?<"), pos):
            exact = ("",)
        elif not ahead:
            exact = _exact(inside) if inside else _single(text[pos:end])
        needed = sign not in ("*", "?") and text[end : end + 2] != "{0"
        yield _Part(exact, inside, needed, sign in ("*", "+", "{"), ahead)
        pos = after


def _single(one: str) -> Literals:
    """What one token that is no group can be; () if much."""
    if one[0] == "\\":
        following = one[1:]
        if following in ("b", "B", "A", "Z"):
            return ("",)
        return ("\t",) if following == "t" else () if following[0].isalnum() else (following,)
    if one in ("^", "$"):
        return ("",)
    if one[0] == "[":
        members = one[1:-1]
        plain = members.isalnum() or (len(members) == 2 and set(members) <= set(" -:_"))
        return tuple(members) if plain and len(members) <= 3 else ()
    return () if one[0] in _SPECIAL else (one,)


def _inside(group: str) -> str:
    """What a group encloses; "" for what must not follow and for what goes before."""
    if not group.startswith("(?"):
        return group[1:-1]
    if group.startswith(("(?:", "(?=")):
        return group[3:-1]
    return group[group.find(">") + 1 : -1] if group.startswith("(?P<") else ""


def _token_end(text: str, pos: int) -> int:
    sign = text[pos]
    if sign == "\\":
        return min(pos + _ESCAPE_LENGTHS.get(text[pos + 1 : pos + 2], 2), len(text))
    if sign == "[":
        return _class_end(text, pos)
    if sign == "(":
        return _group_end(text, pos)
    return pos + 1


def _class_end(text: str, pos: int) -> int:
    pos += 2 if text[pos + 1 : pos + 2] != "^" else 3  # a "]" that comes first is itself
    while pos < len(text) and text[pos] != "]":
        pos += 2 if text[pos] == "\\" else 1
    return min(pos + 1, len(text))


def _group_end(text: str, pos: int) -> int:
    pos += 1
    while pos < len(text) and text[pos] != ")":
        pos = _token_end(text, pos)
    return min(pos + 1, len(text))


def _quantifier_end(text: str, pos: int) -> int:
    while pos < len(text) and text[pos] in "*+?{":
        pos = text.find("}", pos) + 1 or len(text) if text[pos] == "{" else pos + 1
    return pos
