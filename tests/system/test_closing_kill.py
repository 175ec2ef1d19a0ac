"""People close findings while the hub is killed again and again: each word counts once."""

import json
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bigiron.errors import BigironError
from bigiron.model import Change, Closing
from bigiron.store.closings import ask
from bigiron.store.reading import Reading

KILLS = 40
SEED = 20260611
FAULTS = 60
CHILD = Path(__file__).with_name("hub_child.py")


class Person(threading.Thread):
    """Closes every finding as soon as it is seen, but the first."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.asked: dict[str, datetime] = {}
        self.stopping = threading.Event()
        self._folder = folder

    def run(self) -> None:
        while not self.stopping.wait(0.1):
            try:
                with Reading(self._folder) as reading:
                    open_ = [r.id for r in reading.findings() if r.finding.fault == "mce.fatal"]
                now = datetime.now(UTC)
                new = [i for i in open_ if i not in self.asked and i != "F000001"][:5]
                ask(self._folder, [Closing(now, id_, "alice", f"word on {id_}") for id_ in new])
                self.asked |= dict.fromkeys(new, now)
            except BigironError:
                continue  # the hub has just made the ledger, or holds it


def line(node: str, code: str, text: str) -> str:
    return f"{datetime.now(UTC).isoformat()} {node} cpu0 {code} {text}\n"


@pytest.mark.system
@pytest.mark.slow
def test_a_word_given_while_hubs_are_killed_is_kept_and_counts_once(tmp_path: Path) -> None:
    folder, log = tmp_path / "hub", tmp_path / "faults.log"
    log.write_text("".join(line(f"n{n:03d}", "mce.fatal", f"#{n}") for n in range(FAULTS)))
    person = Person(folder)
    with subprocess.Popen(
        [sys.executable, str(CHILD), str(folder), str(log), str(KILLS), str(SEED)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.readline() == "ready\n"
        person.start()
        ends = json.loads(child.stdout.readline())
        person.stopping.set()
        person.join()
        with log.open("a") as file:  # every node is looked at anew
            file.writelines(line(f"n{n:03d}", "kernel.oom", f"#{n}") for n in range(FAULTS))
        print("go", file=child.stdin, flush=True)
        assert child.stdout.readline() == "last\n"
        assert _caught_up(folder, log)
        child.send_signal(signal.SIGTERM)
        assert child.stdout.readline() == "stopped\n"
    assert ends == {str(-signal.SIGKILL): KILLS}
    assert len(person.asked) > FAULTS / 2, "the person came to speak between the kills"
    with Reading(folder) as reading:
        _account(reading, person)


def _caught_up(folder: Path, log: Path) -> bool:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with Reading(folder) as reading:
            read = reading.cursors().get(log.name, "").startswith(f"{log.stat().st_size} ")
            if read and not reading.asked():
                return True
        time.sleep(0.1)
    return False


def _account(reading: Reading, person: Person) -> None:
    every = [r for r in reading.findings(closed=True, limit=9999) if r.finding.fault == "mce.fatal"]
    assert len(every) == FAULTS, "no old line opened anything again"
    for row in every:
        closes = [c.because for c in reading.changes(row.id) if c.change is Change.CLOSE]
        said = [f"closed by alice: word on {row.id}"] if row.id in person.asked else []
        assert closes == said
        assert (row.closed is not None) is bool(said)
