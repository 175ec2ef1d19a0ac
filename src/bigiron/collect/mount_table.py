"""Which file systems are mounted, and which of them matter.

``/proc/self/mountinfo`` (proc_pid_mountinfo(5)) tells a mount's own options from those of the
file system: a hardened service sees ``/`` read-only where the file system is not.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_NETWORK = """
nfs nfs4 cifs smb3 smbfs lustre beegfs gpfs ceph fuse.ceph glusterfs fuse.glusterfs wekafs panfs
pvfs2 orangefs afs 9p virtiofs fuse.juicefs fuse.s3fs fuse.sshfs fuse.gcsfuse fuse.mount-s3
fuse.rclone daos fuse.daos fuse.dfuse fuse.goofys
"""
_LOCAL = "ext2 ext3 ext4 xfs btrfs zfs f2fs vfat bcachefs jfs reiserfs"
NETWORK, LOCAL = frozenset(_NETWORK.split()), frozenset(_LOCAL.split())
MEMORY = ("/dev/shm", "/run", "/tmp")  # noqa: S108  (mount points that are looked at)
MOUNT_LIMIT = 10_000
LOOKED_AT_LIMIT = 200
_OCTAL = re.compile(r"\\([0-7]{3})")
_SKIPPED = re.compile(
    r"^/(?:var/lib/(?:docker|containers|containerd|kubelet/pods/[^/]+/(?:volume-subpaths|"
    r"volumes/kubernetes\.io~(?:projected|secret|configmap|empty-dir)))|run/containerd|snap|"
    r"boot/efi|efi)(?:/|$)"
)


class Mount(NamedTuple):
    """``readonly`` is of the file system itself, ``asked`` of this mount of it.

    ``passing``: it comes and goes with its use (autofs).
    """

    point: str
    kind: str
    source: str
    readonly: bool
    asked: bool
    number: str
    passing: bool = False

    @property
    def network(self) -> bool:
        """Whether a server stands behind it."""
        return self.kind in NETWORK or (self.kind == "fuse" and ":" in self.source)

    @property
    def group(self) -> str:
        """What hangs together: the server, or everything local of one kind."""
        if not self.network:
            return "local"
        server = self.source.removeprefix("//").partition(":")[0].partition("/")[0]
        return f"{self.kind}:{server or self.source}"[:200]


def mountinfo(text: str) -> list[Mount]:
    """The mounts of ``/proc/self/mountinfo``; of several on one point the last, which is seen."""
    found: dict[str, Mount] = {}
    automatic: list[str] = []
    for line in text.splitlines()[:MOUNT_LIMIT]:
        left, dash, right = line.partition(" - ")
        fields, rest = left.split(" "), right.split(" ")
        if not dash or len(fields) < 6 or len(rest) < 2:
            continue
        options = rest[2].split(",") if len(rest) > 2 else []
        point = plain(fields[4])
        one = Mount(
            *(point, rest[0], plain(rest[1])),
            *("ro" in options, "ro" in fields[5].split(","), fields[2]),
        )
        if one.kind == "autofs":
            automatic.append(point)
        found.pop(point, None)
        found[point] = one
    return [one._replace(passing=_below(one.point, automatic)) for one in found.values()]


def mounts_of(text: str) -> list[Mount]:
    """The same of ``/proc/self/mounts``, which does not tell the two kinds of read-only apart."""
    found: dict[str, Mount] = {}
    for line in text.splitlines()[:MOUNT_LIMIT]:
        fields = line.split(" ")
        if len(fields) < 4:
            continue
        readonly = "ro" in fields[3].split(",")
        point = plain(fields[1])
        found.pop(point, None)
        source = plain(fields[0])
        found[point] = Mount(point, fields[2], source, readonly, readonly, source)
    return list(found.values())


def plain(text: str) -> str:
    r"""``/with\040space`` as it is."""
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), text) if "\\" in text else text


def that_matter(all_: Iterable[Mount], ignored: Iterable[str] = ()) -> list[Mount]:
    """Local and network file systems and memory that programs share; each file system once.

    Of several mounts of one file system (bind mounts, a volume of each pod) the shortest
    path stands for all. ``ignored`` are mount points, with all below them.
    """
    skipped = [point.rstrip("/") for point in ignored if point]
    chosen: dict[tuple[str, str], Mount] = {}
    for mount in all_:
        if not (mount.network or mount.kind in LOCAL or _memory(mount)):
            continue
        if _SKIPPED.match(mount.point) and not mount.network:
            continue
        if _below(mount.point, skipped):
            continue
        key = mount.number, mount.source if mount.network else ""
        before = chosen.get(key)
        if before is None or len(mount.point) < len(before.point):
            chosen[key] = mount
    return sorted(chosen.values())[:LOOKED_AT_LIMIT]


def _below(point: str, of: Iterable[str]) -> bool:
    """Whether a point is one of these or below one."""
    return any(point == at or point.startswith(f"{at}/") for at in of)


def _memory(mount: Mount) -> bool:
    return mount.kind == "tmpfs" and mount.point in MEMORY


class Listed(NamedTuple):
    """A line of fstab(5)."""

    point: str
    kind: str
    readonly: bool


def fstab(text: str) -> Iterator[Listed]:
    """What is to be mounted at boot: not swap, not ``noauto``, not what systemd mounts on use."""
    for line in text.splitlines()[:MOUNT_LIMIT]:
        fields = line.split()
        if len(fields) < 3 or fields[0].startswith("#") or not fields[1].startswith("/"):
            continue
        options = fields[3].split(",") if len(fields) > 3 else []
        if fields[2] == "swap" or {"noauto", "x-systemd.automount", "bind", "rbind"} & {*options}:
            continue
        point = plain(fields[1]).rstrip("/") or "/"
        yield Listed(point, fields[2], "ro" in options)
