"""The folder of text files that a site's scripts write: fresh, stale, bad."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.collected import NAMES, captured, golden, samples

from bigiron.collect import Seen
from bigiron.collect.textfile import MOST_BYTES, MOST_FILES, STALE_S, WHERE, textfile
from bigiron.errors import NoData
from bigiron.host import Host
from bigiron.model import Event, Note

LOAD = "node_load1 {}\n"
T0 = 1_800_000_000.0


class Folder:
    """A folder of text files of a machine, and its clock."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now = T0
        self.host = Host()
        self.host.handles[WHERE] = (str(root),)
        self.host.handles["textfile:clock"] = lambda: self.now

    def write(self, name: str, text: str | bytes, age_s: float = 0.0) -> Path:
        file = self.root / name
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        os.utime(file, (self.now - age_s, self.now - age_s))
        return file

    def look(self) -> list[Seen]:
        return list(textfile(self.host))

    def said(self) -> list[str]:
        """What is wrong, by two looks."""
        both = [*self.look(), *self.look()]
        return [one.text for one in both if isinstance(one, Event)]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_what_it_says_of_a_captured_host() -> None:
    golden(textfile, "textfile", "h100x8")


@pytest.mark.parametrize("name", sorted({*NAMES} - {"h100x8"}))
def test_a_host_without_the_folder_has_no_data(name: str) -> None:
    with pytest.raises(NoData):
        list(textfile(captured(name)))


def test_every_look_tells_what_the_files_have(folder: Folder) -> None:
    folder.write("a.prom", LOAD.format(3))
    folder.write("b.txt", LOAD.format(9))
    assert samples(folder.look()) == samples(folder.look()) == {("", "node_load1"): 3.0}


def test_a_file_that_is_not_written_for_a_day_is_stale_and_told_no_more(folder: Folder) -> None:
    file = folder.write("a.prom", LOAD.format(3), age_s=STALE_S - 60)
    assert samples(folder.look())
    folder.now += 120
    seen = folder.look()
    assert samples(seen) == {}
    (event,) = [one for one in seen if isinstance(one, Event)]
    assert (event.code, event.text) == ("node.textfile_bad", f"{file}: not written for 26 hours")
    assert folder.said() == []


def test_a_file_that_is_written_every_minute_is_stale_sooner(folder: Folder) -> None:
    for _ in range(6):
        folder.write("a.prom", LOAD.format(3))
        assert samples(folder.look())
        folder.now += 60
    folder.now += 180
    assert samples(folder.look()), "a gap or two are nothing"
    folder.now += 120
    assert "a.prom: not written for 6 minutes" in folder.said()[0]


def test_a_bad_line_is_named_at_the_second_look_and_the_others_are_read(folder: Folder) -> None:
    file = folder.write("a.prom", "# HELP x y\nnode_load1 3\nwhat is this\n")
    seen = folder.look()
    assert samples(seen) == {("", "node_load1"): 3.0}
    assert not [one for one in seen if isinstance(one, Event)], "it may be half written"
    (event,) = [one for one in folder.look() if isinstance(one, Event)]
    assert event.text == f"{file}:3: this line cannot be read"
    folder.write("a.prom", LOAD.format(3))
    assert folder.said() == []


def test_what_is_no_file_is_told_and_hangs_nothing(folder: Folder) -> None:
    os.mkfifo(folder.root / "pipe.prom")
    folder.write("large.prom", b"#" * (MOST_BYTES + 1))
    (folder.root / "nowhere.prom").symlink_to("/nonexistent")
    os.utime(folder.root / "pipe.prom", (T0, T0))
    (said,) = folder.said()
    assert "pipe.prom: no regular file" in said
    assert "large.prom: larger than" in said
    assert "nowhere" not in said


def test_more_files_than_are_read_are_told(folder: Folder) -> None:
    for number in range(MOST_FILES + 3):
        folder.write(f"{number:03d}.prom", LOAD.format(number))
    (said,) = folder.said()
    assert said == f"{MOST_FILES + 3} files: only {MOST_FILES} are read"


def test_a_file_that_is_gone_is_forgotten(folder: Folder) -> None:
    folder.write("a.prom", "bad line here\n")
    folder.look()
    (folder.root / "a.prom").unlink()
    with pytest.raises(NoData):
        folder.look()
    folder.write("a.prom", "bad line here\n")
    assert not [one for one in folder.look() if isinstance(one, Event)]


def test_metrics_that_are_not_known_are_counted_once(folder: Folder) -> None:
    folder.write("a.prom", "site_thing 1\n")
    assert [one.count for one in folder.look() if isinstance(one, Note)] == [1]
    assert folder.look() == []


@given(st.binary(max_size=300))
def test_no_file_breaks_it(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = Folder(tmp_path_factory.mktemp("textfile"))
    folder.write("a.prom", data)
    folder.look()
    folder.look()
