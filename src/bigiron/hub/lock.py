"""One hub a folder."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from bigiron.errors import Permanent

FILE = "hub.lock"


class Lock:
    """Holds the folder while the process lives; the kernel lets go of it even after a SIGKILL."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise Permanent(f"{self.path}: cannot be made: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            pid = os.read(self._file, 32).decode("ascii", "replace").strip()
            os.close(self._file)
            raise Permanent(
                f"{folder}: another hub (pid {pid or 'unknown'}) works in this folder; "
                "stop it, or give this one another --folder"
            ) from error
        try:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            os.close(self._file)
            raise Permanent(f"{self.path}: cannot be written: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._file)


def holder(folder: Path) -> int | None:
    """The pid of the hub that works in a folder, 0 if it is not told; None if none does."""
    try:
        file = os.open(folder / FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.read(file, 32).strip()
        return int(pid) if pid.isdigit() else 0
    finally:
        os.close(file)
    return None
