"""The only door to a machine: every file read and command run on a node goes through Host."""

import os
import selectors
import signal
import subprocess
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from bigiron.errors import NoData, Permanent, Temporary

T = TypeVar("T")

READ_LIMIT = 16 * 1024 * 1024
OUTPUT_LIMIT = 256 * 1024 * 1024
"""Of a command; a day's jobs of the largest clusters are a quarter of it."""
SAID_LIMIT = 64 * 1024


class Outcome(NamedTuple):
    """How a command ended (a negative status: by a signal) and what it wrote to its two outputs."""

    status: int
    output: str
    said: str = ""


@dataclass(frozen=True, slots=True)
class Host:
    """``root`` is "/" in life and a captured machine's folder in tests; ``path`` finds commands.

    ``env`` is handed to them besides PATH, LC_ALL and TZ, which are always set: a site's
    ``SLURM_CONF``, for one.
    """

    name: str = ""
    root: Path = Path("/")
    path: str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    env: Mapping[str, str] = field(default_factory=dict)
    output_bytes: int = OUTPUT_LIMIT
    handles: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def held(self, name: str, make: Callable[[], T]) -> T:
        """What ``make`` made when first asked under this name: a library that stays open.

        What ``make`` raises is raised, and it is asked again the next time.
        """
        if name not in self.handles:
            self.handles[name] = make()
        held: T = self.handles[name]
        return held

    def let_go(self, name: str) -> None:
        """Forget what is held under a name: the next ``held`` makes it anew."""
        self.handles.pop(name, None)

    def read(self, path: str) -> str:
        """A small file's text, stripped; bad bytes replaced. Raises NoData, Permanent."""
        return self.part(path, None, READ_LIMIT).decode("utf-8", "replace").strip()

    def glob(self, pattern: str) -> Iterator[str]:
        """The paths that match, sorted, as seen from the host's own root."""
        for found in sorted(self.root.glob(pattern.lstrip("/"))):
            yield "/" + str(found.relative_to(self.root))

    def names(self, path: str) -> list[str]:
        """What a folder holds, sorted. Raises NoData, Permanent."""
        try:
            return sorted(os.listdir(self._at(path)))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NoData(path) from error
        except OSError as error:
            raise Permanent(f"{path}: {error.strerror}") from error

    def real(self, path: str) -> str:
        """Where a path leads once all links are followed, as seen from the host's own root.

        Raises NoData: it leads nowhere, or out of the root.
        """
        root = os.path.realpath(self.root)
        try:
            found = os.path.realpath(self._at(path), strict=True)
        except OSError as error:
            raise NoData(path) from error
        if root != "/" and not found.startswith(f"{root}/"):
            raise NoData(path)
        return found if root == "/" else found[len(root) :]

    def part(self, path: str, start: int | None, count: int) -> bytes:
        """At most ``count`` bytes of a file from ``start`` on. Raises NoData, Permanent.

        Fewer, or none, where the file ends or the rest is not for this user to read (PCI
        configuration space past its first 64 bytes). Without a ``start`` it is read as a stream.
        """
        try:
            file = os.open(self._at(path), os.O_RDONLY | os.O_CLOEXEC)
            try:
                if start is not None:
                    return os.pread(file, count, start)
                return _stream(file, count)
            finally:
                os.close(file)
        except (FileNotFoundError, NotADirectoryError, ValueError) as error:
            raise NoData(path) from error  # a NUL byte is in no file's name
        except OSError as error:
            raise Permanent(f"{path}: {error.strerror}") from error

    def stat(self, path: str) -> os.stat_result:
        """What the machine knows of a file besides what it holds. Raises NoData, Permanent."""
        try:
            return os.stat(self._at(path))
        except (FileNotFoundError, NotADirectoryError, ValueError) as error:
            raise NoData(path) from error
        except OSError as error:
            raise Permanent(f"{path}: {error.strerror}") from error

    def open(self, path: str) -> int:
        """A file opened to be read as it grows, never waiting. Raises NoData, Permanent.

        Whoever opened it closes it.
        """
        try:
            return os.open(self._at(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NoData(path) from error
        except OSError as error:
            raise Permanent(f"{path}: {error.strerror}") from error

    def run(self, argv: Sequence[str], *, timeout_s: float, fine: Container[int] = (0,)) -> str:
        """A command's standard output. Raises NoData (not installed), Temporary, Permanent.

        Exit statuses in ``fine`` are no failure; for all else see ``outcome``.
        """
        status, output, said = self.outcome(argv, timeout_s=timeout_s)
        if status not in fine:
            raise Permanent(f"{' '.join(argv)}: exit {status}: {said.strip()[:500]}")
        return output

    def outcome(self, argv: Sequence[str], *, timeout_s: float) -> Outcome:
        """How a command ended. Raises NoData (not installed), Temporary, Permanent.

        One that takes too long, or says more than ``output_bytes``, is ended with all it started.
        A captured machine's answers are files named by the whole command, below
        ``bigiron/commands``, with ``#exit 2`` as a first line of one that ended so: nothing is run
        of the real one.
        """
        if self.captured:
            return self._answer(argv)
        process = self.start(argv)
        until = monotonic() + timeout_s
        with process:
            try:
                output, said = _talk(process, until, self.output_bytes)
                if len(output) > self.output_bytes:
                    raise Permanent(f"{argv[0]}: says more than {self.output_bytes:,} bytes")
                status = process.wait(max(0.1, until - monotonic()))
            except subprocess.TimeoutExpired as error:
                raise Temporary(f"{argv[0]}: no answer in {timeout_s:g} s") from error
            finally:
                _end(process)
        return Outcome(status, output.decode("utf-8", "replace"), said.decode("utf-8", "replace"))

    def start(self, argv: Sequence[str]) -> "subprocess.Popen[bytes]":
        """A command that goes on by itself. Raises NoData (not installed), Permanent.

        Whoever started it reads its outputs and ends it.
        """
        if self.captured:
            raise NoData(f"{argv[0]}: not installed")
        try:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**self.env, "PATH": self.path, "LC_ALL": "C", "TZ": "UTC"},
                start_new_session=True,
            )
        except (FileNotFoundError, PermissionError) as error:
            raise NoData(f"{argv[0]}: not installed") from error
        except OSError as error:
            raise Permanent(f"{argv[0]}: cannot be run: {error.strerror}") from error

    @property
    def captured(self) -> bool:
        """Whether this is not the machine that we run on, but one that was captured."""
        return self.root != Path("/")

    def _answer(self, argv: Sequence[str]) -> Outcome:
        try:
            said = self.part(f"bigiron/commands/{' '.join(argv)}", None, READ_LIMIT)
        except (NoData, Permanent) as error:
            raise NoData(f"{argv[0]}: not installed") from error
        status, output = _ended(said.decode("utf-8", "replace"))
        return Outcome(status, output)

    def _at(self, path: str) -> str:
        return f"{self.root}/{path}"


def _ended(said: str) -> tuple[int, str]:
    """A captured command's exit status and output."""
    first, _, rest = said.partition("\n")
    word, _, number = first.partition(" ")
    if word == "#exit" and number.strip().isdecimal() and len(number) < 6:
        return int(number), rest
    return 0, said


def _stream(file: int, most: int) -> bytes:
    """What a file holds, at most so many bytes. Few of the kernel's files are longer than one read:
    this is the hot path of an agent, and pathlib would cost it four times as much."""
    data = os.read(file, min(most, 65_536))
    if not data:
        return data
    parts = [data]
    left = most - len(data)
    while left > 0 and (data := os.read(file, min(left, 1024 * 1024))):
        parts.append(data)
        left -= len(data)
    return b"".join(parts)


def _talk(process: "subprocess.Popen[bytes]", until: float, most: int) -> tuple[bytes, bytes]:
    """What a process writes to its two outputs; of the first at most ``most`` and one more.

    Raises TimeoutExpired. A process it started may hold the outputs open for longer than it
    lives itself: once it has ended, what is there is all.
    """
    told = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as waiting:
        for pipe in told:
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                waiting.register(pipe, selectors.EVENT_READ)
        while waiting.get_map() and len(told[process.stdout]) <= most:
            if monotonic() > until:
                raise subprocess.TimeoutExpired(process.args, 0.0)
            ended = process.poll() is not None
            ready = waiting.select(0.0 if ended else min(0.1, max(0.0, until - monotonic())))
            for key, _ in ready:
                data = os.read(key.fd, 1024 * 1024)
                if data:
                    told[key.fileobj] += data  # type: ignore[index]
                else:
                    waiting.unregister(key.fileobj)
            del told[process.stderr][:-SAID_LIMIT]
            if ended and not ready:
                break
    return bytes(told[process.stdout][: most + 1]), bytes(told[process.stderr])


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a process that has not ended yet, with all it has started in its session."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
