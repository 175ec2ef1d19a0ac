"""PyTorch's NCCL flight recorder: one rank's dump, as pickle or as JSON.

Each dump lists the rank's process groups with their members, the last collective of each group it
enqueued and completed, and the recorded collectives with their state. One dump shows whom a rank
waits with, not for whom: that takes all ranks' dumps (``bigiron.analyze.hang``). So a dump yields
facts of a device named ``rank9``, and their names carry the group:

    fr_rank                     this rank
    fr_pg_GROUP_ranks           members, "0,1,2"
    fr_pg_GROUP_desc            what the job calls it
    fr_pg_GROUP_enqueued        sequence number of the last collective this rank put in line
    fr_pg_GROUP_completed       and of the last that was completed
    fr_pg_GROUP_pending         those recorded and not completed, "88684:nccl:all_reduce,..."

Source: torch.distributed's flight recorder, dump version 2.x. ``pg_status`` is keyed by a number
local to the rank; a recorded collective ties it to its group, and for groups without one the
numbers are taken in order, as both count the groups in the order in which they were made.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, json_text, plain_pickle, reader
from bigiron.model import Fact, FactValue, Note, Observation

_LIMIT = 64 * 1024 * 1024
_PENDING_LIMIT = 64
_RANK = re.compile(r"(\d+)(?:\.\w+)?$")
_NUMBERS = re.compile(r"\d+")
_DONE = "completed"


class FlightRecorder:
    """Facts of one rank."""

    def sniff(self, head: Head) -> float:
        """Certain by the dump's own keys, in a pickle or in JSON."""
        if head.data[:1] == b"\x80" and b"pg_config" in head.data and b"entries" in head.data:
            return 0.95
        keyed = json_text.has_keys(head, "pg_config", "version")
        return 0.95 if keyed else 0.9 if json_text.has_keys(head, "pg_status", "entries") else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """Groups in the order in which they were made."""
        if document.size > _LIMIT:
            raise ParseError(document.name, 0, f"more than {_LIMIT} bytes")
        if document.head()[:1] == b"\x80":
            dump = json_text.mapping(plain_pickle.load(document.bytes(_LIMIT), document.name))
        else:
            dump = json_text.mapping(json_text.load(document, _LIMIT))
        if "pg_config" not in dump and "pg_status" not in dump:
            raise ParseError(document.name, 0, "neither pg_config nor pg_status in this dump")
        yield from _observations(document, dump)


@reader()
def flight_recorder() -> Reader:
    """PyTorch NCCL flight recorder dump of one rank."""
    return FlightRecorder()


def _observations(document: Document, dump: Mapping[str, object]) -> Iterator[Observation]:
    config = json_text.mapping(dump.get("pg_config"))
    members = {str(group): _ranks(told) for group, told in config.items()}
    rank = _own_rank(document, members)
    device = f"rank{rank}"

    def fact(name: str, value: FactValue) -> Fact:
        return Fact(document.node, name, value, device, document.now)

    yield fact("fr_rank", rank)
    for name in ("version", "nccl_version"):
        said = json_text.text(dump.get(name))
        if said:
            yield fact(f"fr_{name}", said)
    pending, local, skipped = _pending(dump)
    status = json_text.mapping(dump.get("pg_status"))
    for group, number in _numbered(members, status, local).items():
        told = json_text.mapping(config.get(group))
        yield fact(f"fr_pg_{group}_ranks", ",".join(map(str, members.get(group, ()))))
        desc = json_text.text(told.get("desc"))
        if desc:
            yield fact(f"fr_pg_{group}_desc", desc)
        for key in ("enqueued", "completed"):
            last = json_text.number(
                json_text.mapping(status.get(number)).get(f"last_{key}_collective")
            )
            if last is not None:
                yield fact(f"fr_pg_{group}_{key}", int(last))
        if pending.get(group):
            yield fact(f"fr_pg_{group}_pending", ",".join(pending[group][:_PENDING_LIMIT]))
    if skipped:
        yield Note(document.name, "flight recorder: point-to-point or odd entries", skipped)


def _ranks(told: object) -> tuple[int, ...]:
    """Members of a group; they are written as the text of a list, or as a list."""
    ranks = json_text.mapping(told).get("ranks")
    said = ranks if isinstance(ranks, str) else " ".join(map(str, json_text.sequence(ranks)))
    return tuple(int(number) for number in _NUMBERS.findall(said[:1_000_000]) if len(number) < 10)


def _own_rank(document: Document, members: Mapping[str, tuple[int, ...]]) -> int:
    """The one rank that is in every group of its dump; else the number the file's name ends in."""
    groups = [set(ranks) for ranks in members.values() if ranks]
    common = set.intersection(*groups) if groups else set()
    named = _RANK.search(PurePath(document.name).name)
    if len(common) == 1:
        return common.pop()
    if named and len(named[1]) < 10:
        return int(named[1])
    raise ParseError(document.name, 0, "which rank dumped this is in neither groups nor file name")


def _pending(
    dump: Mapping[str, object],
) -> tuple[dict[str, list[str]], dict[str, str], int]:
    """Collectives not completed by group, the local number of each group, entries passed over."""
    pending: dict[str, list[str]] = {}
    local: dict[str, str] = {}
    skipped = 0
    for entry in json_text.objects(dump.get("entries")):
        group = entry.get("process_group")
        name = str(group[0]) if isinstance(group, list | tuple) and group else ""
        seq = json_text.number(entry.get("collective_seq_id"))
        if not name or seq is None or entry.get("is_p2p") is True:
            skipped += 1
            continue
        local[name] = str(entry.get("pg_id"))
        if entry.get("state") != _DONE and entry.get("retired") is not True:
            operation = re.sub(r"[^\w:]", "_", json_text.text(entry.get("profiling_name")))[:80]
            pending.setdefault(name, []).append(f"{int(seq)}:{operation}")
    return pending, local, skipped


def _numbered(
    members: Mapping[str, tuple[int, ...]], status: Mapping[str, object], local: Mapping[str, str]
) -> dict[str, str]:
    """The local number of every group: as recorded, or by order if both lists are equally long."""
    by_order: dict[str, str] = {}
    if len(members) == len(status):
        by_order = dict(zip(sorted(members, key=_order), sorted(status, key=_order), strict=True))
    # If the order contradicts what was recorded it is wrong for the others too.
    if any(by_order.get(group, number) != number for group, number in local.items()):
        by_order = {}
    return {group: local.get(group) or by_order.get(group, "") for group in {**members, **local}}


def _order(key: object) -> tuple[int, str]:
    said = str(key)
    return (int(said) if said.isdigit() and len(said) < 10 else 1 << 40, said)
