"""Files, folders and archives within limits: what is skipped is told, nothing hangs."""

import gzip
import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from bigiron.hub.documents import Documents, Limits


def _tar(members: dict[str, bytes], mode: str = "w:gz") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            info.mtime = 1_790_000_000
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def _read(documents: Documents, *paths: Path) -> dict[str, bytes]:
    return {d.name.rpartition("/")[2]: d.bytes() for d in documents.of([str(p) for p in paths])}


def test_archives_in_archives_are_opened_and_named(tmp_path: Path) -> None:
    inner = _tar({"var/log/kern.log": b"inner\n"})
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("host1/bundle.tgz", inner)
        archive.writestr("host1/dmesg.gz", gzip.compress(b"zipped\n"))
    (tmp_path / "support.zip").write_bytes(packed.getvalue())
    documents = Documents()
    found = {d.name: d.bytes() for d in documents.of([str(tmp_path / "support.zip")])}
    base = f"{tmp_path}/support.zip!host1"
    assert found == {
        f"{base}/bundle.tar!var/log/kern.log": b"inner\n",
        f"{base}/dmesg": b"zipped\n",
    }
    assert documents.notes == []


def test_a_document_can_be_read_more_than_once(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"one\ntwo\n"))
    for document in Documents().of([str(tmp_path / "a.gz")]):
        assert document.head() == b"one\ntwo\n"
        assert list(document.lines()) == ["one", "two"]
        assert document.text() == "one\ntwo\n"


def test_the_names_in_an_archive_write_nothing(tmp_path: Path) -> None:
    (tmp_path / "evil.tar").write_bytes(_tar({"../../escape": b"x", "/etc/evil": b"y"}, "w"))
    before = sorted(os.listdir(tmp_path.parent))
    assert list(_read(Documents(), tmp_path / "evil.tar").values()) == [b"x", b"y"]
    assert sorted(os.listdir(tmp_path.parent)) == before
    assert not Path("/etc/evil").exists()


@pytest.mark.parametrize("keep", [10, 30, 200, 4000])
def test_a_cut_off_archive_gives_what_it_has_and_says_so(tmp_path: Path, keep: int) -> None:
    whole = gzip.compress(os.urandom(6000))
    (tmp_path / "cut.gz").write_bytes(whole[:keep])
    documents = Documents()
    assert all(len(data) < 6000 for data in _read(documents, tmp_path / "cut.gz").values())
    assert len(documents.notes) == 1
    assert "cut" in documents.notes[0].source
    assert "cut off or damaged" in documents.notes[0].what


def test_a_broken_tar_and_zip_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(_tar({"a": b"x" * 4000}, "w")[:2000])
    (tmp_path / "b.zip").write_bytes(b"PK\x03\x04 this is not a zip file")
    documents = Documents()
    _read(documents, tmp_path)
    assert {Path(n.source.split("!")[0]).name for n in documents.notes} == {"a.tar", "b.zip"}


def test_a_bomb_is_cut_by_its_ratio(tmp_path: Path) -> None:
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"\0" * 9_000_000))
    documents = Documents(limits=Limits(ratio=50, ratio_from_bytes=1_000_000))
    (data,) = _read(documents, tmp_path / "bomb.gz").values()
    assert len(data) <= 1_048_576
    assert "expands more than 50 times" in documents.notes[0].what


def test_nesting_size_and_count_have_limits(tmp_path: Path) -> None:
    data = b"deep\n"
    for _ in range(6):
        data = gzip.compress(data)
    (tmp_path / "deep.gz").write_bytes(data)
    documents = Documents(limits=Limits(depth=3))
    assert _read(documents, tmp_path / "deep.gz") == {}
    assert "nested deeper than 3" in documents.notes[0].what

    (tmp_path / "many.tar").write_bytes(_tar({f"f{i}": b"x" for i in range(50)}, "w"))
    documents = Documents(limits=Limits(documents=10))
    assert len(_read(documents, tmp_path / "many.tar")) < 10
    assert "more than 10 files" in documents.notes[-1].what

    documents = Documents(limits=Limits(total_bytes=20))
    _read(documents, tmp_path / "many.tar")
    assert "more than 20 bytes in all" in documents.notes[-1].what


def test_a_directory_loop_ends(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "kern.log").write_bytes(b"x\n")
    (tmp_path / "logs" / "again").symlink_to(tmp_path)
    (tmp_path / "logs" / "dangling").symlink_to(tmp_path / "nothing")
    documents = Documents()
    assert _read(documents, tmp_path) == {"kern.log": b"x\n"}
    said = {Path(n.source).name: n.what for n in documents.notes}
    assert "directory loop" in said["again"]
    assert "No such file" in said["dangling"]


def test_pipes_and_devices_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    documents = Documents()
    assert _read(documents, tmp_path / "pipe", Path("/dev/null")) == {}
    assert ["not a regular file" in n.what for n in documents.notes] == [True, True]


def test_standard_input_may_be_packed(tmp_path: Path) -> None:
    documents = Documents(stdin=lambda: io.BytesIO(gzip.compress(b"piped\n")))
    assert [d.bytes() for d in documents.of(["-"])] == [b"piped\n"]
    assert tmp_path.exists()
