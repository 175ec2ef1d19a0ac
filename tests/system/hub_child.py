"""Runs hubs that are killed: one process forks a hub again and again and sends it SIGKILL.

Forked, not started: what a start imports is loaded once, so that two hundred kills fit in a test.
Each hub opens the ledger, the lock and its sources anew, as a started one does.
Usage: hub_child.py FOLDER LOG KILLS SEED. Prints one JSON line of what it saw.
"""

import json
import logging
import os
import random
import signal
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from bigiron.hub.lock import Lock
from bigiron.hub.loop import Hub
from bigiron.hub.runner import Pace, run, utc_now
from bigiron.ingest import Source
from bigiron.model import Batch, Event, Sample
from bigiron.store.ledger import Ledger

LONGEST_S = 0.35
READ_BYTES = 4096


class Tail:
    """Follows a log; its cursor is a byte offset and a line number."""

    every_s = 0.01

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._path = path

    def poll(self, cursor: str) -> tuple[Batch, str]:
        offset, line = map(int, (cursor or "0 0").split())
        with self._path.open("rb") as file:
            file.seek(offset)
            data = file.read(READ_BYTES)
        data = data[: data.rfind(b"\n") + 1]
        events = []
        for text in data.decode().splitlines():
            line += 1
            stamp, node, device, code, message = text.split(" ", 4)
            if code != "-":
                at = datetime.fromisoformat(stamp)
                events.append(Event(node, code, message, device, at, source=self.name, line=line))
        return Batch(utc_now(), self.name, events=tuple(events)), f"{offset + len(data)} {line}"


class Counter:
    """Says how often it has been asked, as an event and with healthy samples beside."""

    name = "counter"
    every_s = 0.005

    def poll(self, cursor: str) -> tuple[Batch, str]:
        number = int(cursor or 0) + 1
        now = utc_now()
        event = Event("head", "ib.link_up", f"number {number}", source=self.name, line=number)
        samples = tuple(
            Sample(f"n{n:04d}", "gpu0", "gpu_temp_celsius", 50.0, now) for n in range(50)
        )
        return Batch(now, self.name, events=(event,), samples=samples), str(number)


def hub(folder: Path, log: Path, stop: threading.Event) -> None:
    sources: list[Source] = [Tail(log), Counter()]
    with Lock(folder), Ledger(folder) as ledger:
        run(Hub(ledger, utc_now()), sources, Pace(0.02), stop)


def forked(folder: Path, log: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        hub(folder, log, threading.Event())
    except BaseException:
        logging.exception("the hub ended by itself")
    os._exit(1)


def warm(log: Path) -> None:
    """Load what a first turn loads, in a folder that is thrown away."""
    with tempfile.TemporaryDirectory() as folder, Ledger(Path(folder)) as ledger:
        event = Event("n1", "xid.79", "warm", "gpu0", datetime.now(UTC), source="w", line=1)
        one = Hub(ledger, utc_now())
        ledger.unseen(Batch(utc_now(), events=(event,)))
        one.close(utc_now())
    log.touch()


def main() -> None:
    folder, log = Path(sys.argv[1]), Path(sys.argv[2])
    kills, seed = int(sys.argv[3]), int(sys.argv[4])
    chance = random.Random(seed)
    warm(log)
    print("ready", flush=True)
    ends: dict[int, int] = {}
    for _ in range(kills):
        pid = forked(folder, log)
        time.sleep(chance.uniform(0.0, LONGEST_S))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        ended = os.waitstatus_to_exitcode(status)
        ends[ended] = ends.get(ended, 0) + 1
    print(json.dumps(ends), flush=True)
    sys.stdin.readline()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    print("last", flush=True)
    hub(folder, log, stop)
    print("stopped", flush=True)


if __name__ == "__main__":
    main()
