"""A replay stopped in the middle, as a file: what it needs to go on with the same bytes."""

import zlib
from datetime import datetime
from pathlib import Path

import msgspec

from bigiron import __version__
from bigiron.detect.state import dec_hook, enc_hook
from bigiron.errors import ParseError, Permanent
from bigiron.hub import memory
from bigiron.hub.tally import Tally
from bigiron.hub.turn import Standing
from bigiron.ingest.recording import About

MAGIC = b"bigiron replay 1\n"
MOST_BYTES = 16 << 30


class Snapshot(msgspec.Struct, frozen=True):
    """Where a replay stopped. ``sizes`` are the bytes of each file it had written by then."""

    version: str
    recording: str
    start: datetime
    end: datetime
    step_s: float
    time: datetime
    memory: memory.Kept
    standing: Standing
    tally: Tally
    sizes: tuple[int, ...]

    def of(self, about: About) -> bool:
        """Whether it is of this recording."""
        mine = self.recording, self.start, self.end, self.step_s
        return mine == (about.name, about.start, about.end, about.step_s)


def save(path: Path, snapshot: Snapshot) -> None:
    """Write a snapshot, whole or not at all. Raises Permanent if it cannot be written."""
    data = msgspec.msgpack.encode(snapshot, enc_hook=enc_hook)
    new = path.with_name(f"{path.name}.new")
    try:
        new.write_bytes(MAGIC + zlib.compress(data, 1))
        new.replace(path)
    except OSError as error:
        raise Permanent(f"{path}: {error.strerror}") from error


def load(path: Path, about: About) -> Snapshot:
    """Read one. Raises Permanent if it cannot be read, ParseError if it is none of ``about``."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Permanent(f"{path}: {error.strerror}") from error
    if not data.startswith(MAGIC):
        raise ParseError(str(path), 0, "this is no snapshot of a replay")
    try:
        packed = zlib.decompressobj().decompress(data[len(MAGIC) :], MOST_BYTES)
        snapshot = msgspec.msgpack.decode(packed, type=Snapshot, dec_hook=dec_hook)
    except (zlib.error, msgspec.DecodeError, ValueError) as error:
        raise ParseError(str(path), 0, f"a damaged snapshot: {error}") from error
    if snapshot.version != __version__:
        told = f"it was made by bigiron {snapshot.version}, this is {__version__}"
        raise ParseError(str(path), 0, told)
    if not snapshot.of(about):
        raise ParseError(str(path), 0, f"it is of another recording, {snapshot.recording}")
    return snapshot
