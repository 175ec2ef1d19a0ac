"""Files, folders, archives and standard input as documents, within limits.

Nothing is ever written under a name that an archive gives. What cannot be read, or would pass a
limit, becomes a Note: skipped, counted and shown.
"""

import gzip
import lzma
import os
import stat
import tarfile
import tempfile
import zipfile
import zlib
from bz2 import BZ2File
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BufferedIOBase
from pathlib import Path
from typing import IO, BinaryIO, cast

from bigiron.ingest import Document
from bigiron.model import Note

CHUNK = 1 << 20
SPOOL_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What one inspection may cost. ``ratio`` bites past ``ratio_from_bytes`` of output."""

    depth: int = 8
    documents: int = 50_000
    member_bytes: int = 4 << 30
    total_bytes: int = 32 << 30
    ratio: int = 400
    ratio_from_bytes: int = 256 << 20


_DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile)


class _TooMuch(Exception):  # noqa: N818
    """A limit bit; the text says which."""


@dataclass(slots=True)
class Documents:
    """Yields documents of paths; ``notes`` grows as things are skipped."""

    limits: Limits = field(default_factory=Limits)
    stdin: Callable[[], BinaryIO] | None = None
    notes: list[Note] = field(default_factory=list)
    _seen: set[tuple[int, int]] = field(default_factory=set)
    _count: int = 0
    _bytes: int = 0

    def of(self, paths: list[str]) -> Iterator[Document]:
        """Every document under the paths, in a stable order; ``-`` is standard input."""
        try:
            for path in paths:
                yield from self._standard_input() if path == "-" else self._path(Path(path), path)
        except _TooMuch as error:
            self._note("everything after", str(error))

    def _note(self, source: str, what: str) -> None:
        self.notes.append(Note(source, what))

    def _standard_input(self) -> Iterator[Document]:
        if self.stdin is None:
            self._note("standard input", "not given")
            return
        yield from self._stream("standard input", self.stdin(), datetime.now(UTC), 0, 0)

    def _path(self, path: Path, name: str) -> Iterator[Document]:
        try:
            info = path.stat()
        except OSError as error:
            self._note(name, f"cannot be read: {error.strerror}")
            return
        if stat.S_ISDIR(info.st_mode):
            yield from self._folder(path, name, info)
        elif stat.S_ISREG(info.st_mode):
            yield from self._file(path, name, info)
        elif stat.S_ISFIFO(info.st_mode) and name.startswith(("/dev/fd/", "/proc/self/fd/")):
            with path.open("rb") as pipe:
                yield from self._stream(name, pipe, datetime.now(UTC), 0, 0)
        else:
            self._note(name, "not a regular file; pipe it in: COMMAND | bigiron inspect -")

    def _folder(self, path: Path, name: str, info: os.stat_result) -> Iterator[Document]:
        if (info.st_dev, info.st_ino) in self._seen:
            self._note(name, "a directory loop, not entered again")
            return
        self._seen.add((info.st_dev, info.st_ino))
        try:
            names = sorted(os.listdir(path))
        except OSError as error:
            self._note(name, f"cannot be listed: {error.strerror}")
            return
        for child in names:
            yield from self._path(path / child, f"{name.rstrip('/')}/{child}")

    def _file(self, path: Path, name: str, info: os.stat_result) -> Iterator[Document]:
        if (info.st_dev, info.st_ino) in self._seen:
            return
        self._seen.add((info.st_dev, info.st_ino))
        self._one_more()
        now = datetime.fromtimestamp(info.st_mtime, UTC)
        try:
            with path.open("rb") as file:
                kind = _kind(file.read(512))
                if kind:
                    file.seek(0)
                    yield from self._open_up(kind, name, file, now, 0, info.st_size)
                    return
        except OSError as error:
            self._note(name, f"cannot be read: {error.strerror}")
            return
        yield Document(name, now, lambda: path.open("rb"), "", info.st_size)

    def _stream(
        self, name: str, stream: IO[bytes], now: datetime, depth: int, packed: int
    ) -> Iterator[Document]:
        """A stream's document, or those inside it if it is an archive. ``packed`` 0: unknown."""
        self._one_more()
        with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES) as spool:
            size = self._copy(name, stream, cast(IO[bytes], spool), packed)
            spool.seek(0)
            kind = _kind(spool.read(512))
            spool.seek(0)
            if kind:
                yield from self._open_up(kind, name, cast(IO[bytes], spool), now, depth, size)
                return
            held = cast(BinaryIO, spool)
            yield Document(name, now, lambda: cast(BinaryIO, _Held(held)), "", size)

    def _copy(self, name: str, stream: IO[bytes], out: IO[bytes], packed: int) -> int:
        """Copies within the limits; what a cut-off or broken stream gave is kept and noted.

        A full read of a stream that is cut off raises and loses what it had; ``read1`` gives
        what there is first.
        """
        size = 0
        read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
        while True:
            try:
                chunk = read(CHUNK)
            except _DAMAGE as error:
                self._note(name, f"cut off or damaged after {size:,} bytes: {_say(error)}")
                return size
            if not chunk:
                return size
            size += len(chunk)
            self._bytes += len(chunk)
            if size > self.limits.member_bytes:
                self._note(name, f"longer than {self.limits.member_bytes:,} bytes: the rest is cut")
                return size
            if packed and size > max(self.limits.ratio_from_bytes, packed * self.limits.ratio):
                self._note(name, f"expands more than {self.limits.ratio} times: the rest is cut")
                return size
            if self._bytes > self.limits.total_bytes:
                raise _TooMuch(f"more than {self.limits.total_bytes:,} bytes in all")
            out.write(chunk)

    def _open_up(
        self, kind: str, name: str, file: IO[bytes], now: datetime, depth: int, size: int
    ) -> Iterator[Document]:
        if depth >= self.limits.depth:
            self._note(name, f"archives nested deeper than {self.limits.depth} are not opened")
            return
        if kind == "zip":
            yield from self._zip(name, file, now, depth)
        elif kind == "tar":
            yield from self._tar(name, file, now, depth, size)
        else:
            inner = cast(IO[bytes], _OPENERS[kind](file))
            yield from self._stream(_bare(name), inner, now, depth + 1, max(size, 1))

    def _tar(
        self, name: str, file: IO[bytes], now: datetime, depth: int, size: int
    ) -> Iterator[Document]:
        try:
            with tarfile.open(fileobj=file, mode="r:") as archive:
                for member in archive:
                    if not member.isreg():
                        continue
                    stream = archive.extractfile(member)
                    if stream is None:
                        continue
                    inside = f"{name}!{member.name.lstrip('/')}"
                    when = _time(member.mtime, now)
                    yield from self._stream(inside, stream, when, depth + 1, max(size, 1))
        except (tarfile.TarError, EOFError, OSError, ValueError) as error:
            self._note(name, f"archive cut off or damaged: {_say(error)}")

    def _zip(self, name: str, file: IO[bytes], now: datetime, depth: int) -> Iterator[Document]:
        try:
            with zipfile.ZipFile(file) as archive:
                for member in archive.infolist():
                    if member.is_dir():
                        continue
                    inside = f"{name}!{member.filename.lstrip('/')}"
                    try:
                        stream = archive.open(member)
                    except (RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:
                        self._note(inside, f"cannot be opened: {_say(error)}")
                        continue
                    with stream:
                        packed = max(member.compress_size, 1)
                        yield from self._stream(inside, stream, now, depth + 1, packed)
        except (zipfile.BadZipFile, EOFError, OSError, ValueError) as error:
            self._note(name, f"archive cut off or damaged: {_say(error)}")

    def _one_more(self) -> None:
        self._count += 1
        if self._count > self.limits.documents:
            raise _TooMuch(f"more than {self.limits.documents:,} files")


class _Held(BufferedIOBase):
    """A spool opened again from its start; closing it leaves the spool open."""

    def __init__(self, spool: BinaryIO) -> None:
        spool.seek(0)
        self._spool = spool

    def read(self, size: int | None = -1, /) -> bytes:
        return self._spool.read(-1 if size is None else size)

    def readline(self, size: int | None = -1, /) -> bytes:
        return self._spool.readline(-1 if size is None else size)

    def readinto(self, buffer: object, /) -> int:
        view = memoryview(cast(bytearray, buffer)).cast("B")
        data = self._spool.read(len(view))
        view[: len(data)] = data
        return len(data)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._spool.seek(offset, whence)

    def tell(self) -> int:
        return self._spool.tell()


_OPENERS: dict[str, Callable[[IO[bytes]], object]] = {
    "gzip": lambda file: gzip.GzipFile(fileobj=file, mode="rb"),
    "bzip2": lambda file: BZ2File(file, "rb"),
    "xz": lambda file: lzma.LZMAFile(file, "rb"),  # noqa: SIM115
}


def _kind(head: bytes) -> str:
    """What packs it, by its first bytes: gzip, bzip2, xz, zip, tar or "" for none."""
    if head[:2] == b"\x1f\x8b":
        return "gzip"
    if head[:3] == b"BZh":
        return "bzip2"
    if head[:6] == b"\xfd7zXZ\x00":
        return "xz"
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return "zip"
    return "tar" if head[257:262] == b"ustar" else ""


def _bare(name: str) -> str:
    """The name without its compression suffix: dmesg.log.gz -> dmesg.log, x.tgz -> x.tar."""
    for suffix, plain in ((".tgz", ".tar"), (".tbz2", ".tar"), (".txz", ".tar")):
        if name.endswith(suffix):
            return name.removesuffix(suffix) + plain
    for suffix in (".gz", ".bz2", ".xz"):
        name = name.removesuffix(suffix)
    return name


def _time(mtime: float, fallback: datetime) -> datetime:
    try:
        return datetime.fromtimestamp(mtime, UTC) if mtime else fallback
    except (OverflowError, ValueError, OSError):
        return fallback


def _say(error: BaseException) -> str:
    return str(error) or type(error).__name__
