"""File systems: full, read-only, missing, and a server that never answers."""

import errno
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.collected import NAMES, captured, events, golden, samples
from tests.unit.machine_copies import copied, put

from bigiron.collect import mounts as module
from bigiron.collect.mount_probe import Room
from bigiron.collect.mount_table import (
    Listed,
    Mount,
    fstab,
    mountinfo,
    mounts_of,
    plain,
    that_matter,
)
from bigiron.collect.mounts import mounts
from bigiron.errors import NoData
from bigiron.host import Host
from bigiron.model import Event

GIB = 1 << 30
WELL = Room(100 * GIB, 50 * GIB, 1000, 500)


class Server:
    """File systems that answer, fail, or hold whoever asks until they are let go."""

    def __init__(self, **rooms: Room) -> None:
        self.rooms = {f"/{name}".replace("/root", "/"): room for name, room in rooms.items()}
        self.errors: dict[str, int] = {}
        self.dead: set[str] = set()
        self.back = threading.Event()
        self.asked: list[str] = []

    def __call__(self, point: str) -> Room:
        self.asked.append(point)
        if point in self.dead:
            self.back.wait(30.0)
        if point in self.errors:
            raise OSError(self.errors[point], "error", point)
        return self.rooms.get(point, WELL)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.2)


def sick(tmp_path: Path, server: Server, name: str = "h100x8") -> Host:
    host = copied(name, tmp_path)
    host.handles["statvfs"] = server
    return host


def changed(host: Host, old: str, new: str) -> None:
    """Change the table of mounts."""
    path = "/proc/1/mountinfo"
    text = host.read(path)
    assert old in text
    put(host, path, text.replace(old, new))


def only(host: Host) -> Event:
    (event,) = [one for one in mounts(host) if isinstance(one, Event)]
    return event


@pytest.mark.parametrize("host", NAMES)
def test_what_it_says_of_captured_hosts(host: str) -> None:
    golden(mounts, "mounts", host)


def test_no_captured_host_has_a_fault_at_any_look() -> None:
    for host in map(captured, NAMES):
        assert [events(mounts(host)) for _ in range(3)] == [[], [], []]


def test_a_machine_that_tells_nothing_is_silent(tmp_path: Path) -> None:
    with pytest.raises(NoData):
        list(mounts(Host(root=tmp_path)))


@pytest.mark.usefixtures("quick")
def test_a_dead_server_is_told_and_the_others_are_looked_at(tmp_path: Path) -> None:
    server = Server()
    server.dead = {"/apps"}
    host = sick(tmp_path, server)
    start = time.monotonic()
    seen = list(mounts(host))
    assert time.monotonic() - start < 5.0
    assert events(seen) == [("nfs.not_responding", "/apps")]
    found = samples(seen)
    assert found["/apps", "node_filesystem_answers"] == 0.0
    assert ("/apps", "node_filesystem_used_ratio") not in found, "never a zero for what is unknown"
    assert ("/home/someone", "node_filesystem_answers") not in found, "of that server, not asked"
    assert all(found[point, "node_filesystem_answers"] == 1.0 for point in ("/", "/scratch"))
    server.back.set()


@pytest.mark.usefixtures("quick")
def test_a_server_that_hangs_is_asked_once_and_told_when_it_is_back(tmp_path: Path) -> None:
    server = Server()
    server.dead = {"/apps"}
    host = sick(tmp_path, server)
    threads = threading.active_count()
    for _ in range(5):
        list(mounts(host))
    assert server.asked.count("/apps") == 1, "no thread piles up behind another"
    assert threading.active_count() - threads <= 2
    server.dead.clear()
    server.back.set()
    time.sleep(0.2)
    assert ("nfs.ok", "/apps") in events(mounts(host))
    assert samples(mounts(host))["/apps", "node_filesystem_answers"] == 1.0


@pytest.mark.usefixtures("quick")
def test_a_dead_lustre_is_told_as_such(tmp_path: Path) -> None:
    server = Server()
    server.dead = {"/scratch"}
    assert events(mounts(sick(tmp_path, server))) == [("lustre.connection_lost", "/scratch")]
    server.back.set()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errno.ESTALE, "nfs.stale"),
        (errno.EIO, "mount.failed"),
        (errno.ENOTCONN, "mount.failed"),
        (errno.EACCES, ""),
    ],
)
def test_errors_are_told_for_what_they_are(error: int, code: str, tmp_path: Path) -> None:
    server = Server()
    server.errors = {"/apps": error}
    assert events(mounts(sick(tmp_path, server))) == ([(code, "/apps")] if code else [])


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    host = sick(tmp_path, Server(root=Room(1750 * GIB, GIB // 2, 1000, 500)))
    event = only(host)
    assert (event.code, event.device) == ("mount.full", "/")
    assert event.text == "/ is full: 0.50 GiB of 1750 left"
    assert events(mounts(host)) == [], "what stands is not told at each look"


def test_a_disk_without_inodes_is_told(tmp_path: Path) -> None:
    host = sick(tmp_path, Server(raid=Room(100 * GIB, 50 * GIB, 1_000_000, 0)))
    assert only(host).code == "mount.inodes_full"


def test_a_full_server_is_not_this_node_s_fault(tmp_path: Path) -> None:
    host = sick(tmp_path, Server(scratch=Room(100 * GIB, 0, 1000, 0)))
    assert events(mounts(host)) == []
    assert samples(mounts(host))["/scratch", "node_filesystem_used_ratio"] == 1.0


def test_a_root_that_the_kernel_made_read_only_is_told(tmp_path: Path) -> None:
    host = sick(tmp_path, Server())
    changed(host, "/dev/nvme0n1p2 rw,", "/dev/nvme0n1p2 ro,")
    event = only(host)
    assert (event.code, event.device) == ("kernel.readonly_fs", "/")
    assert samples(mounts(host))["/", "node_filesystem_readonly"] == 1.0


def test_a_root_that_only_this_service_sees_read_only_is_no_fault(tmp_path: Path) -> None:
    host = sick(tmp_path, Server())
    changed(host, " / rw,relatime shared:1 - ext4", " / ro,relatime shared:1 - ext4")
    assert events(mounts(host)) == []


def test_a_file_system_that_is_read_only_by_design_is_no_fault(tmp_path: Path) -> None:
    host = sick(tmp_path, Server())
    put(host, "/etc/fstab", "UUID=5a0c1f2e / ext4 ro 0 1\n")
    changed(host, "/dev/nvme0n1p2 rw,", "/dev/nvme0n1p2 ro,")
    assert events(mounts(host)) == []


def test_one_that_turns_read_only_is_told_without_any_fstab(tmp_path: Path) -> None:
    host = sick(tmp_path, Server())
    put(host, "/etc/fstab", "")
    assert events(mounts(host)) == []
    changed(host, "/dev/md0 rw,", "/dev/md0 ro,")
    assert events(mounts(host)) == [("kernel.readonly_fs", "/raid")]


def _without(host: Host, point: str) -> None:
    rows = host.read("/proc/1/mountinfo").splitlines()
    kept = [row for row in rows if f" / {point} " not in row]
    assert len(kept) == len(rows) - 1
    put(host, "/proc/1/mountinfo", "\n".join(kept))


def test_what_fstab_lists_and_is_not_there_is_told(tmp_path: Path) -> None:
    host = sick(tmp_path, Server())
    _without(host, "/raid")
    event = only(host)
    assert event.text == "/raid is not mounted; fstab lists it"


def test_what_was_there_and_is_no_more_is_told_once(tmp_path: Path) -> None:
    host = sick(tmp_path, Server())
    list(mounts(host))
    _without(host, "/scratch")
    assert only(host).text == "/scratch is not mounted; it was mounted before"
    host.handles.pop("standing:mounts")
    assert events(mounts(host)) == []


def test_what_is_mounted_on_use_may_go(tmp_path: Path) -> None:
    host = sick(tmp_path, Server())
    list(mounts(host))
    _without(host, "/home/someone")
    assert events(mounts(host)) == []


def test_the_configuration_names_what_must_be_there_and_what_is_not_looked_at(
    tmp_path: Path,
) -> None:
    root = copied("h100x8", tmp_path).root
    env = {"BIGIRON_MOUNTS": "/data:/raid:nonsense", "BIGIRON_MOUNTS_IGNORE": "/apps:/home"}
    host = Host(root=root, env=env)
    seen = list(mounts(host))
    assert events(seen) == [("mount.missing", "/data")]
    assert not any(device in ("/apps", "/home/someone") for device, _ in samples(seen))


def test_this_machine_s_own_file_systems_can_be_asked() -> None:
    seen = list(mounts(Host()))
    assert all(0.0 <= value <= 1.0 for value in samples(seen).values())


# --- the table


def test_octal_escapes_are_undone() -> None:
    assert plain(r"/with\040space\011and\134more") == "/with space\tand\\more"


def test_of_several_mounts_of_one_file_system_the_shortest_is_looked_at() -> None:
    text = (
        "20 1 9:0 / /raid rw - xfs /dev/md0 rw\n21 1 9:0 /docker /var/lib/docker rw - xfs /dev/md0"
        " rw\n22 1 9:0 /x /a rw - xfs /dev/md0 rw\n23 1 0:5 / /proc rw - proc proc rw\n"
        "24 1 0:60 / /n rw - nfs4 home:/export rw\n25 1 0:60 /a /longer rw - nfs4 home:/export rw"
    )
    assert [mount.point for mount in that_matter(mountinfo(text))] == ["/a", "/n"]


def test_mounts_of_one_server_are_one_group() -> None:
    def of(kind: str, source: str) -> str:
        return Mount("/x", kind, source, False, False, "0:1").group

    assert of("nfs4", "home:/a") == of("nfs4", "home:/b") == "nfs4:home"
    assert of("cifs", "//filer/share") == "cifs:filer"
    assert of("lustre", "10.0.0.1@o2ib:/s") == "lustre:10.0.0.1@o2ib"
    assert of("ext4", "/dev/sda1") == "local"


def test_the_older_table_is_read_too() -> None:
    (mount,) = mounts_of("/dev/sda1 /data ext4 ro,noatime 0 0\nrubbish\n")
    assert mount == Mount("/data", "ext4", "/dev/sda1", True, True, "/dev/sda1")


def test_fstab_s_lines() -> None:
    text = (
        "# comment\n/dev/sda1 / ext4 defaults 0 1\nhome:/e /home/ nfs ro,hard\n/s none swap sw\n"
        "x /auto nfs x-systemd.automount\ny /off nfs noauto\nshort line\n"
    )
    assert list(fstab(text)) == [Listed("/", "ext4", False), Listed("/home", "nfs", True)]


@given(st.text(max_size=500))
def test_no_text_breaks_the_tables(text: str) -> None:
    for table in (mountinfo(text), mounts_of(text)):
        that_matter(table)
        assert all(mount.group for mount in table)
    list(fstab(text))


_WORD = st.sampled_from(
    ["-", "/", "/a", "/a\\040b", "ext4", "nfs4", "h:/x", "rw", "ro", "9:0", "20", "autofs", ""]
)


@given(st.lists(st.lists(_WORD, max_size=12).map(" ".join), max_size=12).map("\n".join))
def test_no_row_breaks_the_tables(text: str) -> None:
    for mount in that_matter([*mountinfo(text), *mounts_of(text)], ["/a", ""]):
        assert mount.point != "/a"
    list(fstab(text))
