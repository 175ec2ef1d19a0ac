"""Whom a hung job waits for, from the flight recorder facts of its ranks.

The first collective that some ranks never started names the missing ranks (the method of
arXiv 2410.21680, "Revisiting Reliability in Large-Scale Machine Learning Research Clusters").
With several process groups that alone accuses too many: most missing ranks are themselves held up
in another group. So every rank points at those it waits for, and only a rank that others wait for
and that waits for nobody is to blame.

If nobody is missing anywhere, all ranks entered and none left: the network, or a GPU that stands
still within the collective, is suspected. If the missing ranks only wait for one another, they run
their collectives in different orders, which is the program's fault.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from bigiron.model import Blame, Fact


class Cause(StrEnum):
    """What kind of hang the dumps show."""

    NONE = "none"
    MISSING = "missing"
    STUCK_INSIDE = "stuck_inside"
    CIRCLE = "circle"


class Suspect(msgspec.Struct, frozen=True):
    """A rank to blame and why. ``waited_by`` wait for it directly."""

    rank: int
    node: str
    because: str
    waited_by: tuple[int, ...]


class Hang(msgspec.Struct, frozen=True):
    """What the dumps of one job show together.

    ``ranks`` is how many dumps there were, ``absent`` the ranks that are members of a group and
    left no dump: they may have died.
    """

    cause: Cause
    blame: Blame
    because: str
    suspects: tuple[Suspect, ...] = ()
    ranks: int = 0
    absent: tuple[int, ...] = ()


@dataclass(slots=True)
class _Group:
    members: tuple[int, ...] = ()
    desc: str = ""
    enqueued: int | None = None
    completed: int | None = None
    pending: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Rank:
    node: str = ""
    groups: dict[str, _Group] = field(default_factory=lambda: defaultdict(_Group))

    def started(self, group: str, seq: int) -> bool:
        """Whether this rank ever put that collective in line."""
        of = self.groups.get(group)
        if of is None:
            return False
        last = max([of.enqueued or -1, of.completed or -1, *of.pending])
        return last >= seq


@dataclass(frozen=True, slots=True)
class _Wait:
    """Collective ``seq`` of ``group``, which ``missing`` never started and ``waiting`` did."""

    group: str
    desc: str
    seq: int
    operation: str
    waiting: tuple[int, ...]
    missing: tuple[int, ...]


def blame(facts: Iterable[Fact]) -> Hang:
    """The ranks to blame. Facts other than the flight recorder's are ignored."""
    ranks = _ranks(facts)
    everyone = {m for rank in ranks.values() for g in rank.groups.values() for m in g.members}
    absent = tuple(sorted(everyone - set(ranks)))
    waits = _waits(ranks)
    missing = {m for wait in waits for m in wait.missing}
    held_up = {rank for wait in waits if wait.missing for rank in wait.waiting}
    guilty = sorted(missing - held_up)
    if guilty:
        because = f"{len(held_up)} ranks wait for {_list(guilty)}, which wait for nobody"
        # A rank that never came may have crashed, hung in its own code, or sit on a bad host.
        cause, whose = Cause.MISSING, Blame.UNKNOWN
    elif missing:
        because = (
            f"{_list(sorted(missing))} wait for one another: their order of collectives differs"
        )
        cause, whose = Cause.CIRCLE, Blame.APPLICATION
    elif waits:
        closest = min(waits, key=lambda wait: (len(wait.waiting), wait.group))
        because = f"all of {_list(closest.waiting)} entered {_name(closest)} and none left it"
        cause, whose = Cause.STUCK_INSIDE, Blame.LINK
    else:
        because, cause, whose = "no collective is pending", Cause.NONE, Blame.UNKNOWN
    named = guilty or sorted(missing)
    suspects = tuple(_suspect(rank, ranks, waits) for rank in named)
    return Hang(cause, whose, because, suspects, len(ranks), absent)


def _ranks(facts: Iterable[Fact]) -> dict[int, _Rank]:
    of_device: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        if fact.name.startswith("fr_"):
            of_device[fact.device].append(fact)
    ranks: dict[int, _Rank] = {}
    for told in of_device.values():
        number = next((f for f in told if f.name == "fr_rank" and isinstance(f.value, int)), None)
        if number is None:
            continue
        rank = ranks.setdefault(int(number.value), _Rank(number.node))
        for fact in told:
            _learn(rank, fact)
    return ranks


def _learn(rank: _Rank, fact: Fact) -> None:
    name, _, key = fact.name.removeprefix("fr_pg_").rpartition("_")
    if not fact.name.startswith("fr_pg_") or not name:
        return
    group = rank.groups[name]
    match key, fact.value:
        case "ranks", str(said):
            group.members = tuple(int(n) for n in said.split(",") if n.isdigit())
        case "desc", said:
            group.desc = str(said)
        case "enqueued", int(last):
            group.enqueued = last
        case "completed", int(last):
            group.completed = last
        case "pending", str(said):
            for entry in said.split(","):
                seq, _, operation = entry.partition(":")
                if seq.isdigit():
                    group.pending[int(seq)] = operation


def _waits(ranks: Mapping[int, _Rank]) -> list[_Wait]:
    """For each group the oldest pending collective some member never started.

    If every member started all that is pending, the oldest pending one, with nobody missing.
    """
    pending: dict[str, dict[int, str]] = defaultdict(dict)
    about: dict[str, _Group] = {}
    for rank in ranks.values():
        for name, group in rank.groups.items():
            if group.members:
                about.setdefault(name, group)
            for seq, operation in group.pending.items():
                pending[name].setdefault(seq, operation)
    waits = []
    for name, collectives in pending.items():
        found = [_wait(ranks, name, about, seq, op) for seq, op in sorted(collectives.items())]
        waits.append(next((wait for wait in found if wait.missing), found[0]))
    return waits


def _wait(
    ranks: Mapping[int, _Rank], name: str, about: Mapping[str, _Group], seq: int, operation: str
) -> _Wait:
    group = about.get(name, _Group())
    waiting = [
        n for n, rank in ranks.items() if name in rank.groups and seq in rank.groups[name].pending
    ]
    missing = [m for m in group.members if m not in ranks or not ranks[m].started(name, seq)]
    return _Wait(
        name, group.desc or name, seq, operation, tuple(sorted(waiting)), tuple(sorted(missing))
    )


def _suspect(rank: int, ranks: Mapping[int, _Rank], waits: Iterable[_Wait]) -> Suspect:
    """Reason by the smallest group that waits for it: the closest to the fault."""
    mine = [wait for wait in waits if rank in wait.missing]
    closest = min(mine, key=lambda wait: (len(wait.waiting) + len(wait.missing), wait.group))
    waited_by = sorted({waiter for wait in mine for waiter in wait.waiting})
    what = "left no dump and" if rank not in ranks else "is alive and"
    because = (
        f"rank {rank} {what} never started {_name(closest)}, "
        f"where {_list(closest.waiting)} wait for it"
    )
    node = ranks[rank].node if rank in ranks else ""
    return Suspect(rank, node, because, tuple(waited_by))


def _name(wait: _Wait) -> str:
    return f"{wait.operation or 'collective'} #{wait.seq} of {wait.desc}"


def _list(ranks: Iterable[int]) -> str:
    numbers = [str(rank) for rank in ranks]
    return ", ".join(numbers[:16]) + (f" and {len(numbers) - 16} more" if len(numbers) > 16 else "")
