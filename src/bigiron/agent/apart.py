"""Collectors in processes of their own: a driver, a controller or a mount may never answer.

A child that is past its deadline is killed and never waited for: one that hangs in the kernel
(state D) cannot be killed, and the others go on without it.
"""

import os
import selectors
import signal
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, sleep

READ_BYTES = 1024 * 1024
SAID_BYTES = 64 * 1024 * 1024
"""What one collector may say at one look."""
REAP_S = 0.5


@dataclass(slots=True)
class _Child:
    name: str
    pid: int
    until: float
    said: bytearray


def run_apart(
    work: dict[str, tuple[Callable[[], bytes], float]],
) -> dict[str, bytes | None]:
    """What each of ``work`` says, all at once, each within its seconds; None: it did not end.

    A child that ends without a word (killed, out of memory) has said b"". Must be called from a
    process with one thread.
    """
    answers: dict[str, bytes | None] = {}
    with selectors.DefaultSelector() as waiting:
        for name, (run, timeout_s) in work.items():
            pid, pipe = _start(run)
            os.set_blocking(pipe, False)
            child = _Child(name, pid, monotonic() + timeout_s, bytearray())
            waiting.register(pipe, selectors.EVENT_READ, child)
        while waiting.get_map():
            _turn(waiting, answers)
    return {name: answers[name] for name in work}


def _turn(waiting: selectors.BaseSelector, answers: dict[str, bytes | None]) -> None:
    """Take what is there; let go of those that have ended or whose time is up."""
    children = {key.fd: key.data for key in waiting.get_map().values()}
    first = min(child.until for child in children.values())
    ready = {key.fd for key, _ in waiting.select(max(0.0, first - monotonic()))}
    for pipe, child in children.items():
        data = os.read(pipe, READ_BYTES) if pipe in ready else None
        if data:
            child.said += data
        if data == b"":
            answers[child.name] = bytes(child.said)
        elif monotonic() > child.until or len(child.said) > SAID_BYTES:
            answers[child.name] = None
            os.kill(child.pid, signal.SIGKILL)
        else:
            continue
        waiting.unregister(pipe)
        os.close(pipe)
        _reap(child.pid)


def _reap(pid: int) -> None:
    """Wait for a child that has ended or was killed; not for one that the kernel holds."""
    until = monotonic() + REAP_S
    while os.waitpid(pid, os.WNOHANG) == (0, 0) and monotonic() < until:
        sleep(0.005)


def _start(run: Callable[[], bytes]) -> tuple[int, int]:
    """A child's process id and the pipe it answers through."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    status = 1
    try:
        os.close(reading)
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(run())
        status = 0
    finally:
        os._exit(status)
