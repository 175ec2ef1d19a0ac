"""What a hub that starts knows again from the ledger: memory and standing as they were."""

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from bigiron.decide.judge import Past
from bigiron.detect.closing import Out
from bigiron.detect.settle import Open, Pending
from bigiron.detect.state import enc_hook
from bigiron.hub.memory import Limits, Memory
from bigiron.hub.names import Names
from bigiron.hub.turn import Standing, fold_reads
from bigiron.model import Action, Batch
from bigiron.store.ledger import Ledger
from bigiron.store.rows import JOINED

STANDING = "standing"
CLOSED = "closed"
FOLD = "fold:"
DAY_S = 86_400.0

log = logging.getLogger(__name__)
T = TypeVar("T")


class Remainder(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a standing that the ledger's own tables do not hold."""

    pending: dict[str, Pending] = {}
    clear_since: dict[str, datetime] = {}
    flagged: dict[str, datetime] = {}
    ran: dict[str, datetime] = {}
    out: dict[str, Out] = {}
    past: dict[str, Past] = {}


def restore(ledger: Ledger, limits: Limits, now: datetime) -> tuple[Memory, Standing]:
    """Memory and standing from the ledger. A time after ``now`` (the clock was set) is dropped."""
    memory = Memory(limits, fold_reads())
    memory.restore([ledger.recall(now, limits.events_s / DAY_S)], serial=1)
    later = ledger.events_not_folded()
    if later:
        memory.take(Batch(now, "ledger", events=tuple(later)))
    stored = ledger.detector_state()
    rest = _read(stored, STANDING, Remainder) or Remainder()
    findings = {change.id: change for change in ledger.open_findings()}
    nodes = sorted({change.finding.subject.node for change in findings.values()})
    standing = Standing(
        open={
            id_: Open(c.finding, c.time, _not_after(now, rest.clear_since).get(id_))
            for id_, c in findings.items()
        },
        pending={key: p for key, p in rest.pending.items() if p.last <= now},
        next_id=ledger.last_finding() + 1,
        verdicts=ledger.verdicts(),
        actions=_standing(ledger.actions_of(nodes)),
        flagged={node: min(now, at) for node, at in rest.flagged.items()},
        ran=_not_after(now, rest.ran),
        folds=_folds(stored),
        closed={key: min(now, at) for key, at in _closed(stored).items()},
        out={
            node: msgspec.structs.replace(out, last=min(now, out.last))
            for node, out in rest.out.items()
        },
        past={node: past.not_after(now) for node, past in rest.past.items()},
        serial=1,
    )
    return memory, standing


def restored_names(ledger: Ledger, memory: Memory) -> Names:
    """Which names are of which node, as the ledger has it."""
    return Names(memory.nodes, _read(ledger.detector_state(), JOINED, dict[str, str]) or {})


def remainder(standing: Standing) -> bytes:
    """The JSON of what ``restore`` needs besides the ledger's tables and the folds."""
    return msgspec.json.encode(
        Remainder(
            standing.pending,
            {
                id_: held.clear_since
                for id_, held in standing.open.items()
                if held.clear_since is not None
            },
            standing.flagged,
            standing.ran,
            standing.out,
            standing.past,
        )
    )


def folds(standing: Standing) -> dict[str, bytes]:
    """The stateful detectors' states under the names they are kept by."""
    return {
        FOLD + name: msgspec.json.encode(state, enc_hook=enc_hook)
        for name, state in standing.folds.items()
    }


def _closed(stored: Mapping[str, bytes]) -> dict[str, datetime]:
    return _read(stored, CLOSED, dict[str, datetime]) or {}


def _folds(stored: Mapping[str, bytes]) -> dict[str, Any]:
    names = [name for name in stored if name.startswith(FOLD)]
    found = {name.removeprefix(FOLD): _read(stored, name, dict[str, Any]) for name in names}
    return {name: state for name, state in found.items() if state is not None}


def _read(stored: Mapping[str, bytes], name: str, kind: type[T]) -> T | None:
    """What is kept under a name; None if nothing is, or what is there cannot be read.

    It is told and begun anew: what stands is in tables of its own, and a hub must start.
    """
    if name not in stored:
        return None
    try:
        return msgspec.json.decode(stored[name], type=kind)
    except msgspec.DecodeError as error:
        log.warning("the ledger's %r cannot be read (%s); it starts anew", name, error)
        return None


def _standing(actions: list[Action]) -> dict[str, Action]:
    """The newest word on each action; one that was asked for stays so."""
    newest: dict[str, Action] = {}
    for action in actions:
        if not action.held or action.key not in newest:
            newest[action.key] = action
    return newest


def _not_after(now: datetime, times: Mapping[str, datetime]) -> dict[str, datetime]:
    return {name: time for name, time in times.items() if time <= now}
