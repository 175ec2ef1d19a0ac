"""The fold: what each kind of shared part shows at a step, and the groups claimed for it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite

import msgspec
import numpy as np
from numpy.typing import NDArray

from bigiron.detect import Block, Fleet
from bigiron.detect.claims import INFO, Asks, claim
from bigiron.detect.deviation.streams import inlet_of
from bigiron.detect.hygiene import Clean
from bigiron.detect.planned import Calendar
from bigiron.detect.shared_cause import heat, ports, supply
from bigiron.detect.shared_cause.families import LEVELS, named
from bigiron.detect.shared_cause.heat import Warm
from bigiron.detect.shared_cause.places import levels
from bigiron.detect.shared_cause.scan import CHANCE, Hit, scan
from bigiron.detect.shared_cause.state import Flags, Standing, State, aligned
from bigiron.model import (
    ActionKind,
    Blame,
    Evidence,
    Finding,
    Recovery,
    Severity,
    Subject,
    When,
)

NAME = "shared_cause"
SEEN = frozenset({"nfs.not_responding", "nfs.timeout", "lustre.error", "lustre.evicted"})
DOWN = frozenset({"ib.link_down", "ib.cable_unplugged"})

AGAIN_S = 1800.0
"""A cause that has not shown for so long is over."""

UNSEEN_S = 6 * 3600.0
"""A cause of which nothing is seen is not over; but after so long it explains nothing more."""

SEEN_SHARE = 0.5
"""Of so many of its nodes something must be seen that would show a cause, for it to be over."""

STALLED_S = 900.0
STALLED_LEAST, STALLED_SHARE = 3, 0.05
HEAT_WAVE_C = 3.0

GROUP = Asks(
    Severity.WARNING, ActionKind.NONE, When.NEVER, Blame.FACILITY, "no node of it is to blame"
)
_SERVER = re.compile(r"server (\S+)")


class SharedCause:
    """Finds the loop, the leaf, the supply, the file server behind what many nodes show."""

    name: str = NAME
    reads: tuple[str, ...] = ()

    def start(self, fleet: Fleet) -> State:
        """Nothing is known."""
        del fleet
        return State()

    def step(self, state: State, block: Block) -> tuple[State, list[Finding | Recovery]]:
        """The state after a block and the groups that are bad now."""
        stalled = _stalls(state.stalled, block)
        if block.clean is None:
            return msgspec.structs.replace(state, stalled=stalled), []
        look = _Look(aligned(state, block.clean.nodes), block, block.clean)
        look.heat()
        look.ports()
        look.supply()
        look.storage(stalled)
        return look.ended(stalled)


def _stalls(before: Mapping[str, float], block: Block) -> dict[str, float]:
    """When each node lately told that its file server does not answer."""
    now_s = block.time.timestamp()
    after = {node: at for node, at in before.items() if now_s - at <= STALLED_S}
    for event in block.events:
        if event.code in SEEN and event.time is not None:
            after[event.node] = max(after.get(event.node, 0.0), event.time.timestamp())
    return {node: at for node, at in after.items() if now_s - at <= STALLED_S}


class _Look:
    """One step."""

    def __init__(self, state: State, block: Block, clean: Clean) -> None:
        self.state, self.block, self.clean = state, block, clean
        self.now_s = clean.time_s
        self.nodes = clean.nodes
        self.index = {name: row for row, name in enumerate(clean.nodes)}
        self.warming = dict(state.warming)
        self.standing = dict(state.standing)
        self.found: list[Finding | Recovery] = []
        self.after_heat, self.after_ports, self.after_power = state.heat, state.ports, state.power
        self.elapsed_s = self.now_s - state.time_s if state.time_s else clean.step_s
        calendar = Calendar(block.time, block.maintenance, block.states)
        own = Calendar(block.time, (), block.states)
        self.away = np.array([calendar.at_work(n) is not None for n in self.nodes], np.bool_)
        self.out = np.array([own.at_work(n) is not None for n in self.nodes], np.bool_)
        self._dark()

    # --- what is looked at

    def heat(self) -> None:
        """Cooling loops, or racks where no loops are known."""
        inlet = inlet_of(self.clean.rows.values(), len(self.nodes))
        hot = self._rows_of("cooling_excursion") | self._rows_of("shared_cause.thermal")
        followed = heat.follow_heat(self.state.heat, inlet, hot, self.now_s)
        places = self._levels("thermal")
        by = next(iter(places), "")
        groups = self._numbered(places.get(by, {}))
        self.after_heat, warmth = heat.warm(followed, groups, hot, self.now_s)
        self._warm(warmth, places)
        self._unseen("thermal", np.isfinite(inlet))
        for hit, rise in heat.hits(warmth, self.index, places):
            began = self.warming.get(f"{hit.by}:{hit.group}", self.now_s)
            text = f"The air of {len(hit.marked)} nodes is {rise:.1f} °C above what all share."
            self._stand("thermal", hit, began, text)
        for name, rise in heat.jumping_groups(warmth, self.index, places.get(by, {})).items():
            members = tuple(sorted(places[by][name] & self.index.keys()))
            text = f"The air of its {len(members)} nodes rose by {rise:.1f} °C within hours."
            hit = Hit(by, name, members, members, CHANCE, 0.0)
            self._stand("thermal", hit, self.now_s - heat.SMOOTH_S, text)
        if warmth.everywhere > HEAT_WAVE_C:
            text = f"The air of all nodes is {warmth.everywhere:.1f} °C above its usual."
            self._note("heat_wave", "site", "all", self.nodes, text)

    def _warm(self, warmth: Warm, places: Mapping[str, Mapping[str, frozenset[str]]]) -> None:
        """Since when each group has been above half the limit; a hot one stays so that long."""
        for by, groups in places.items():
            warm = heat.hot_groups(warmth, self.index, groups, 0.5)
            for name in groups:
                if name in warm:
                    self.warming.setdefault(f"{by}:{name}", self.now_s)
                else:
                    self.warming.pop(f"{by}:{name}", None)
        for key, held in list(self.standing.items()):
            thermal = named("thermal", held.by) == held.fault
            if thermal and f"{held.by}:{held.group}" in self.warming:
                self.standing[key] = msgspec.structs.replace(held, last_s=self.now_s)

    def ports(self) -> None:
        """Leaf switches."""
        rows = self.clean.rows.get("nic")
        odd = np.zeros(len(self.nodes), np.bool_)
        heard = np.zeros(len(self.nodes), np.bool_)
        if rows is not None:
            self.after_ports, errs = ports.follow_ports(self.state.ports, rows, self.elapsed_s)
            odd[rows.node[errs]] = True
            heard[rows.node[rows.present]] = True
        self._unseen("link", heard)
        down = {e.node for e in self.block.events if e.code in DOWN} & self.index.keys()
        for node in down:
            odd[self.index[node]] = heard[self.index[node]] = True
        for hit in self._scan("link", odd & ~self.away, heard & ~self.away):
            text = (
                f"Ports of {len(hit.marked)} of its {len(hit.members)} nodes err within the hour."
            )
            self._stand("link", hit, self.now_s, text)

    def supply(self) -> None:
        """Power distribution units."""
        meant = supply.Meant(self.out, self.away)
        followed = supply.follow_supply(self.state.power, self.clean, meant, self.elapsed_s)
        self.after_power, dips, gone = followed
        at_s = self.now_s - self.elapsed_s
        for hit in self._scan("power", dips | gone, ~self.out):
            count, of = len(hit.marked), len(hit.members)
            family = "power" if dips[[self.index[n] for n in hit.marked]].any() else "loss"
            what = "dip" if family == "power" else "are gone or boot"
            text = f"{count} of its {of} nodes {what} at the same moment."
            self._stand(family, hit, at_s, text)

    def storage(self, stalled: Mapping[str, float]) -> None:
        """File servers."""
        least = max(STALLED_LEAST, STALLED_SHARE * len(self.nodes))
        if len(stalled) < least:
            return
        servers: dict[str, int] = {}
        for event in self.block.events:
            if event.code in SEEN and (told := _SERVER.search(event.text)):
                servers[told[1]] = servers.get(told[1], 0) + 1
        known = [s.group for s in self.standing.values() if s.fault == "storage_outage"]
        server = max(servers, key=lambda s: (servers[s], s), default="")
        group = known[0] if known else server or "file server"
        text = f"{len(stalled)} nodes wait for it."
        self._note("storage_outage", "storage", group, sorted(stalled), text)

    # --- what is not seen

    def _dark(self) -> None:
        """What stood before a gap goes on through it: nothing was seen at all."""
        late_s = self.elapsed_s - self.clean.step_s
        if late_s > (supply.GAP_STEPS - 1) * self.clean.step_s:
            for key, held in self.standing.items():
                self.standing[key] = _longer(held, late_s)

    def _unseen(self, family: str, seen: Flags) -> None:
        """A group of whose nodes hardly any could show it now goes on as it was."""
        for key, held in self.standing.items():
            if held.fault != named(family, held.by):
                continue
            rows = [self.index[m] for m in held.members if m in self.index]
            told = np.count_nonzero(seen[rows]) if rows else 0
            if told < SEEN_SHARE * len(rows):
                self.standing[key] = _longer(held, self.elapsed_s)

    # --- groups

    def _levels(self, family: str) -> dict[str, dict[str, frozenset[str]]]:
        return levels(self.block.fleet.nodes, LEVELS[family])

    def _numbered(self, groups: Mapping[str, frozenset[str]]) -> NDArray[np.int64]:
        """Each node's group as a number, -1 for none."""
        numbered = np.full(len(self.nodes), -1, np.int64)
        for number, name in enumerate(sorted(groups)):
            for node in groups[name]:
                if node in self.index:
                    numbered[self.index[node]] = number
        return numbered

    def _rows_of(self, fault: str) -> Flags:
        """The nodes (n,) of the groups that stand for a fault."""
        rows = np.zeros(len(self.nodes), np.bool_)
        for held in self.standing.values():
            if held.fault == fault:
                rows[[self.index[m] for m in held.members if m in self.index]] = True
        return rows

    def _scan(self, family: str, marked: Flags, judged: Flags) -> list[Hit]:
        if np.count_nonzero(marked) < 3:
            return []
        names = {self.nodes[row] for row in np.flatnonzero(marked).tolist()}
        eligible = {self.nodes[row] for row in np.flatnonzero(judged).tolist()}
        return scan(names, eligible, self._levels(family))

    def _stand(self, family: str, hit: Hit, since_s: float, text: str) -> None:
        fault = named(family, hit.by)
        key = f"{fault}|{hit.by}:{hit.group}"
        known = self.standing.get(key)
        if known is not None:
            since_s = min(since_s, known.since_s)
            marked = tuple(sorted({*known.marked, *hit.marked}))
            hit = hit._replace(marked=marked, chance=min(hit.chance, known.chance))
            hit = hit._replace(members=tuple(sorted({*known.members, *hit.members})))
        members = hit.members, hit.marked
        self.standing[key] = Standing(
            fault, hit.by, hit.group, *members, since_s, self.now_s, hit.chance, text
        )

    def _note(self, fault: str, by: str, group: str, members: Sequence[str], text: str) -> None:
        """What is told and blames nobody."""
        key = f"{fault}|{by}:{group}"
        known = self.standing.get(key)
        since_s = known.since_s if known is not None else self.now_s
        everyone = tuple(sorted({*(known.members if known is not None else ()), *members}))
        of = everyone, everyone, since_s, self.now_s
        self.standing[key] = Standing(fault, by, group, *of, 0.0, text)

    def ended(self, stalled: dict[str, float]) -> tuple[State, list[Finding | Recovery]]:
        """The state after this step, what stands and what is over."""
        for key, held in list(self.standing.items()):
            if self.now_s - held.last_s > AGAIN_S:
                del self.standing[key]
                over = f"{NAME}|{held.fault}|{held.by}:{held.group}"
                dark = held.unseen_s > UNSEEN_S
                why = "nothing is seen of it" if dark else "it has not shown for half an hour"
                self.found.append(Recovery(over, why))
            else:
                self.found.append(_finding(held))
        after = State(
            self.nodes,
            self.after_heat,
            self.after_ports,
            self.after_power,
            self.warming,
            stalled,
            self.standing,
            self.now_s,
        )
        return after, self.found


def _longer(held: Standing, seconds: float) -> Standing:
    """A group that goes on as it was over a time in which nothing was seen of it."""
    unseen_s = held.unseen_s + seconds
    last_s = held.last_s + (seconds if unseen_s <= UNSEEN_S else 0.0)
    return msgspec.structs.replace(held, last_s=last_s, unseen_s=unseen_s)


def _finding(held: Standing) -> Finding:
    since = datetime.fromtimestamp(held.since_s, UTC)
    shared = f"What {held.by} {held.group} shares is at fault, no node of it."
    quiet = held.fault in ("heat_wave", "storage_outage")
    chance = ""
    if not quiet and isfinite(held.chance):
        times = 1 / max(held.chance, 1e-9)
        chance = f"By chance so many would be together less than once in {times:,.0f}."
    return claim(
        NAME,
        held.fault,
        Subject(by=held.by, group=held.group, members=held.members),
        (f"{held.by} {held.group}: {_small(held.text)}", chance, "" if quiet else shared),
        since=since,
        evidence=(Evidence("sample", _of(held.marked), since),),
        confidence=round(1.0 - min(0.5, held.chance), 3),
        asks=INFO if quiet else None,
        otherwise=GROUP,
    )


def _small(text: str) -> str:
    return text[:1].lower() + text[1:]


def _of(nodes: Iterable[str]) -> str:
    shown = list(nodes)
    return ", ".join(shown[:20]) + (f" and {len(shown) - 20} more" if len(shown) > 20 else "")
