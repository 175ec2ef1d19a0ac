"""What a host tells of its files: folders, where links lead, parts of files; never out of root."""

import os
from pathlib import Path

import pytest

from bigiron.errors import NoData, Permanent
from bigiron.host import Host


def test_a_folder_is_listed_in_order(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        (tmp_path / name).touch()
    assert Host(root=tmp_path).names("/") == ["a", "b", "c"]
    for path in ("/nowhere", "/a"):
        with pytest.raises(NoData):
            Host(root=tmp_path).names(path)


def test_links_are_followed_within_the_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "sys/devices/pci0").mkdir(parents=True)
    (root / "sys/bus").mkdir()
    (root / "sys/bus/dev").symlink_to("../devices/pci0")
    (root / "sys/bus/out").symlink_to("../../../outside")
    (root / "sys/bus/self").symlink_to("self")
    (tmp_path / "outside").mkdir()
    host = Host(root=root)
    assert host.real("/sys/bus/dev") == "/sys/devices/pci0"
    assert host.real("/sys/bus/dev/.") == "/sys/devices/pci0"
    for path in ("/sys/bus/out", "/sys/bus/self", "/sys/bus/none"):
        with pytest.raises(NoData):
            host.real(path)


def test_a_root_may_itself_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "tree/a").mkdir(parents=True)
    (tmp_path / "alias").symlink_to("tree")
    assert Host(root=tmp_path / "alias").real("/a") == "/a"


def test_a_part_of_a_file_is_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "config").write_bytes(bytes(range(64)))
    host = Host(root=tmp_path)
    assert host.part("/config", 4, 2) == b"\4\5"
    assert host.part("/config", 62, 8) == b"\x3e\x3f"
    assert host.part("/config", 256, 4) == b""
    with pytest.raises(NoData):
        host.part("/none", 0, 4)


def test_a_long_file_is_read_to_its_end_and_no_further_than_the_limit(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(b"x" * 200_000)
    host = Host(root=tmp_path)
    assert len(host.read("/long")) == 200_000
    assert len(host.part("/long", None, 150_000)) == 150_000
    with pytest.raises(NoData):
        host.read("/a\0b")


def test_a_file_opened_to_be_followed_never_waits(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "kmsg")
    file = Host(root=tmp_path).open("/kmsg")
    assert os.read(file, 10) == b""
    os.close(file)
    with pytest.raises(NoData):
        Host(root=tmp_path).open("/none")


def test_what_is_known_of_a_file_besides_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"xyz")
    assert Host(root=tmp_path).stat("/a").st_size == 3
    for path in ("/none", "/a/b", "/a\0b"):
        with pytest.raises(NoData):
            Host(root=tmp_path).stat(path)


def test_a_captured_host_answers_commands_from_files_with_their_exit_status(tmp_path: Path) -> None:
    commands = tmp_path / "bigiron/commands"
    commands.mkdir(parents=True)
    (commands / "tool -a").write_text("one\ntwo\n")
    (commands / "tool -b").write_text("#exit 3\nno\n")
    (commands / "tool -c").write_text("#exit soon\n")
    host = Host(root=tmp_path)
    assert host.outcome(["tool", "-a"], timeout_s=1) == (0, "one\ntwo\n", "")
    assert host.outcome(["tool", "-b"], timeout_s=1) == (3, "no\n", "")
    assert host.outcome(["tool", "-c"], timeout_s=1) == (0, "#exit soon\n", "")
    with pytest.raises(Permanent, match="exit 3"):
        host.run(["tool", "-b"], timeout_s=1)
    with pytest.raises(NoData):
        host.run(["true"], timeout_s=1)
