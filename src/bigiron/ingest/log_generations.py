"""The files that one log has been written to: the live one and those it was rotated into."""

import hashlib
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from bigiron.errors import Permanent

PRINT_BYTES = 1024
"""How much of a file's beginning tells it from another one; log lines carry their time."""

_ROTATED = re.compile(r"[.-](\d{1,14})(?:[.-]\d{1,6})?$")
"""kern.log.1 (logrotate), kern.log-20260301 (dateext), kern.log-20260301-1772323200."""


class Generation(NamedTuple):
    """A file, who it is (device and inode) and how large it was when looked at."""

    path: Path
    device: int
    inode: int
    size: int
    changed_ns: int


def generations(live: Path) -> list[Generation]:
    """Oldest first, the live file last if it is there. Raises Permanent if none can be seen.

    Compressed ones are left out: logrotate compresses what was rotated a day before.
    """
    try:
        names = [path for path in live.parent.iterdir() if _is_rotated(path, live)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Permanent(f"{live.parent}: {error.strerror}") from error
    rotated = [found for path in names if (found := _look(path)) is not None]
    rotated.sort(key=lambda found: (found.changed_ns, found.path.name))
    now = _look(live)
    return [*rotated, now] if now is not None else rotated


def _is_rotated(path: Path, live: Path) -> bool:
    suffix = path.name.removeprefix(live.name)
    return path.name != live.name and suffix != path.name and bool(_ROTATED.fullmatch(suffix))


def _look(path: Path) -> Generation | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Permanent(f"{path}: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        what = "a folder" if stat.S_ISDIR(found.st_mode) else "no regular file"
        raise Permanent(f"{path}: {what}, not a log file")
    return Generation(path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def fingerprint(file: BinaryIO, length: int) -> str:
    """A digest of the file's first ``length`` bytes; "" for none."""
    if not length:
        return ""
    file.seek(0)
    return hashlib.blake2b(file.read(length), digest_size=12).hexdigest()


class Place(NamedTuple):
    """Where reading stopped: in which file and how far."""

    device: int
    inode: int
    offset: int
    print_bytes: int
    print_digest: str


def find(place: Place, among: Sequence[Generation]) -> int | None:
    """Which generation the place is in; None if it is gone.

    The file itself wherever it was renamed to; if it was emptied and written anew
    (copytruncate), the copy that begins with the same bytes.
    """
    itself = [
        i for i, one in enumerate(among) if (one.device, one.inode) == (place.device, place.inode)
    ]
    others = [i for i in range(len(among)) if i not in itself] if place.print_bytes else []
    for index in [*itself, *reversed(others)]:
        if among[index].size >= place.offset and _same_start(place, among[index]):
            return index
    return None


def _same_start(place: Place, one: Generation) -> bool:
    try:
        with one.path.open("rb") as file:
            return fingerprint(file, place.print_bytes) == place.print_digest
    except FileNotFoundError:
        return False
    except OSError as error:
        raise Permanent(f"{one.path}: {error.strerror}") from error
