"""The baseboard controller (BMC): fans, inlet, rails, supplies, power cap, event log, firmware.

It is asked over Redfish where somebody gave us credentials, else over IPMI in band. Both run apart
from the rest: a controller may hang for minutes, and its driver with it. Nothing is ever written to
it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bigiron.collect import Seen, collector
from bigiron.collect.ipmi import Ipmi, ipmi
from bigiron.collect.redfish import redfish
from bigiron.collect.sel import Entry, events
from bigiron.collect.standing import Standing, standing
from bigiron.errors import NoData, Permanent, Temporary
from bigiron.host import Host
from bigiron.model import Event, Sample

FACTS_EVERY = 5
"""Calls between two looks at what changes slowly: 300 s."""
SILENT = 3
"""Looks in a row without an answer until it is told: a controller restarts in two minutes."""


@dataclass(slots=True)
class _State:
    """How many looks there were, and how many of the last had no answer."""

    calls: int = 0
    silent: int = 0
    refused: str = ""


@collector(every_s=60.0, timeout_s=55.0, apart=True)
def bmc(host: Host) -> Iterator[Seen]:
    """Fans, inlet, rails, power supplies, power cap, event log and firmware, from the BMC."""
    state = host.held("bmc", _State)
    facts = state.calls % FACTS_EVERY == 0
    state.calls += 1
    lasting = standing(host, "bmc")
    seen: list[Seen | Entry] = []
    try:
        seen += _ask(host, state, facts=facts)
    except Temporary as error:
        state.silent += 1
        yield from _told(seen, lasting)
        if state.silent < SILENT:
            raise
        text = f"the BMC does not answer: {error}"[:300]
        yield from lasting.news([Event("", "bmc.not_responding", text, source="bmc")])
        return
    state.silent = 0
    stand = [one for one in seen if isinstance(one, Event)]
    if state.refused:
        text = f"the BMC refuses our question: {state.refused}"
        stand.append(Event("", "bmc.refused", text, source="redfish"))
    yield from lasting.news(stand)
    yield from _told(seen, lasting)


def _ask(host: Host, state: _State, *, facts: bool) -> Iterator[Seen | Entry]:
    """Over Redfish; over IPMI where there is none, or it refuses us. Raises NoData, Temporary."""
    state.refused = ""
    try:
        service = redfish(host)
    except NoData:
        yield from _ipmi(ipmi(host), facts=facts)
        return
    try:
        yield from service.look(host, facts=facts)
    except Permanent as error:
        state.refused = str(error)[:300]
        try:
            other = ipmi(host)
        except NoData:
            return
        yield from _ipmi(other, facts=facts)


def _ipmi(asked: Ipmi, *, facts: bool) -> Iterator[Seen | Entry]:
    yield from asked.sensors()
    if facts:
        yield from asked.facts()
    yield from asked.log()


def _told(seen: list[Seen | Entry], lasting: Standing) -> Iterator[Seen]:
    """All but conditions that last: each sample once, entries as events."""
    entries = [one for one in seen if isinstance(one, Entry)]
    known: set[tuple[str, str]] = set()
    for one in seen:
        if isinstance(one, Entry | Event):
            continue
        if isinstance(one, Sample):
            if (one.metric, one.device) in known:
                continue
            known.add((one.metric, one.device))
        yield from lasting.fresh([one])
    yield from events(entries, "sel")
