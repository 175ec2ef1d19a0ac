"""File systems: whether they answer, how full they are, read-only where they should not be.

Local ones are asked in turn, each server's by a thread of its own (``mount_probe``): one dead
server costs the others nothing. What fstab(5) lists, what was mounted before and what
``BIGIRON_MOUNTS`` names (in the environment handed to commands; mount points with colons between
them) is expected to be mounted; ``BIGIRON_MOUNTS_IGNORE`` names what is not looked at.
"""

import errno
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import monotonic

from bigiron.collect import Seen, collector
from bigiron.collect.mount_probe import GROUP_LIMIT, Answer, Prober, ask_of, asked
from bigiron.collect.mount_table import Listed, Mount, fstab, mountinfo, mounts_of, that_matter
from bigiron.collect.standing import standing
from bigiron.errors import NoData, Permanent
from bigiron.host import Host
from bigiron.model import Event, Sample

ANSWER_S = 5.0
"""An NFS client retries after 60 s at first (timeo=600): five seconds mean that it waits."""
FULL = 0.99
"""Share used. Journals and job logs still grow; Kubernetes evicts from 90 % on."""
_PASSING = ("/var/lib/kubelet/", "/media/", "/run/", "/mnt/", "/tmp/")  # noqa: S108
_SERVER = {"nfs": "nfs.not_responding", "nfs4": "nfs.not_responding"}
_SERVER["lustre"] = "lustre.connection_lost"


@dataclass(slots=True)
class _State:
    """What earlier looks saw, and the threads that ask servers."""

    probers: dict[str, Prober] = field(default_factory=dict)
    seen: dict[str, Mount] = field(default_factory=dict)
    writable: set[str] = field(default_factory=set)
    hung: set[str] = field(default_factory=set)


@collector(every_s=60.0, timeout_s=30.0, apart=True)
def mounts(host: Host) -> Iterator[Seen]:
    """File systems: answering, full, out of inodes, read-only, missing."""
    table = _table(host)
    state = host.held("mounts", _State)
    chosen = that_matter(table, host.env.get("BIGIRON_MOUNTS_IGNORE", "").split(":"))
    answers = _ask(host, state, chosen)
    listed = {one.point: one for one in _fstab(host)}
    told: list[Event] = []
    for mount in chosen:
        yield from _samples(mount, answers[mount.point])
        yield from _back(state, mount, answers[mount.point])
        told += _faults(mount, answers[mount.point])
        told += _readonly(state, mount, listed.get(mount.point))
    told += _missing(host, state, table, listed)
    state.seen |= {mount.point: mount for mount in chosen}
    yield from standing(host, "mounts").news(told)


def _table(host: Host) -> list[Mount]:
    """The host's own where it may be read, else what this process sees."""
    for path, read in (
        ("/proc/1/mountinfo", mountinfo),
        ("/proc/self/mountinfo", mountinfo),
        ("/proc/self/mounts", mounts_of),
    ):
        try:
            found = read(host.read(path))
        except (NoData, Permanent):
            continue
        if found:
            return found
    raise NoData("no table of mounts")


def _fstab(host: Host) -> Iterator[Listed]:
    try:
        yield from fstab(host.read("/etc/fstab"))
    except (NoData, Permanent):
        return


def _ask(host: Host, state: _State, chosen: list[Mount]) -> dict[str, Answer]:
    """All answers: servers are asked first, and looked at again once the local ones are done."""
    ask = ask_of(host)
    groups: dict[str, list[str]] = {}
    for mount in chosen:
        if mount.network:
            groups.setdefault(mount.group, []).append(mount.point)
    for group, points in groups.items():
        if group not in state.probers and len(state.probers) < GROUP_LIMIT:
            state.probers[group] = Prober(ask, group)
        if group in state.probers:
            state.probers[group].start(points)
    until = monotonic() + ANSWER_S
    answers = {m.point: asked(ask, m.point) for m in chosen if not m.network}
    for group, points in groups.items():
        if group in state.probers:
            answers |= state.probers[group].answers(points, until)
    return {m.point: answers.get(m.point, Answer(None, errno.EBUSY, 0.0)) for m in chosen}


def _samples(mount: Mount, answer: Answer) -> Iterator[Sample]:
    point = mount.point
    if answer.error == errno.EBUSY:
        return  # it was not asked: another of its server hangs
    yield Sample("", point, "node_filesystem_answers", float(answer.room is not None))
    if answer.room is None:
        return
    yield Sample("", point, "node_filesystem_used_ratio", round(answer.room.used, 5))
    inodes = answer.room.files_used
    if inodes is not None:
        yield Sample("", point, "node_filesystem_inodes_used_ratio", round(inodes, 5))
    if not mount.network:
        readonly = mount.readonly or mount.asked
        yield Sample("", point, "node_filesystem_readonly", float(readonly))


def _back(state: _State, mount: Mount, answer: Answer) -> Iterator[Event]:
    """A server that answers again."""
    if answer.hung:
        state.hung.add(mount.point)
    elif answer.error != errno.EBUSY and mount.point in state.hung:
        state.hung.discard(mount.point)
        if mount.kind in ("nfs", "nfs4"):
            yield _event("nfs.ok", mount, f"{mount.point}: {mount.source} answers again")


def _faults(mount: Mount, answer: Answer) -> Iterator[Event]:
    point, room = mount.point, answer.room
    if answer.hung:
        code = _SERVER.get(mount.kind, "mount.not_responding")
        text = f"{point}: {mount.source} ({mount.kind}) has not answered for {ANSWER_S:g} s"
        yield _event(code, mount, text)
    elif answer.error == errno.ESTALE:
        yield _event("nfs.stale", mount, f"{point}: stale file handle ({mount.source})")
    elif answer.error in (errno.EIO, errno.ENOTCONN, errno.ESHUTDOWN, errno.EHOSTDOWN):
        name = errno.errorcode.get(answer.error, str(answer.error))
        yield _event("mount.failed", mount, f"{point}: {mount.source} fails with {name}")
    elif room is not None and not mount.network and room.size > 0:
        if room.used >= FULL:
            text = f"{point} is full: {room.free / 2**30:.2f} GiB of {room.size / 2**30:.0f} left"
            yield _event("mount.full", mount, text)
        inodes = room.files_used
        if inodes is not None and inodes >= FULL:
            text = f"{point} has no room for files: {room.files_free:,} of {room.files:,} left"
            yield _event("mount.inodes_full", mount, text)


def _readonly(state: _State, mount: Mount, listed: Listed | None) -> Iterator[Event]:
    """A file system that was written to before, or is to be, and that the kernel made read-only."""
    if mount.network or not (mount.kind.startswith("ext") or mount.kind in ("xfs", "btrfs", "zfs")):
        return
    if not mount.readonly:
        state.writable.add(mount.point)
    elif mount.point in state.writable or (listed is not None and not listed.readonly):
        text = f"{mount.point} ({mount.source}, {mount.kind}) is read-only"
        yield _event("kernel.readonly_fs", mount, text)


def _missing(
    host: Host, state: _State, table: list[Mount], listed: dict[str, Listed]
) -> Iterator[Event]:
    there = {mount.point for mount in table}
    named = [one for one in host.env.get("BIGIRON_MOUNTS", "").split(":") if one.startswith("/")]
    before = (point for point, mount in state.seen.items() if not _passing(mount))
    expected = dict.fromkeys(before, "it was mounted before")
    expected |= dict.fromkeys(listed, "fstab lists it")
    expected |= dict.fromkeys(named, "the configuration names it")
    for point, why in sorted(expected.items()):
        if point not in there:
            yield Event("", "mount.missing", f"{point} is not mounted; {why}", point)
    # unmounted by someone who meant it, it is told once
    state.seen = {point: mount for point, mount in state.seen.items() if point in there}


def _passing(mount: Mount) -> bool:
    """Mounts that come and go with their use, with pods, users and devices."""
    return mount.passing or mount.point.startswith(_PASSING)


def _event(code: str, mount: Mount, text: str) -> Event:
    attrs = {"source": mount.source[:200], "type": mount.kind}
    if mount.network:
        attrs["server"] = mount.group.partition(":")[2]
    return Event("", code, text, mount.point, source="statvfs", attrs=attrs)
