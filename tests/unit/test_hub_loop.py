import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from bigiron.errors import BigironError, NoData, Permanent, Temporary
from bigiron.hub.lock import Lock
from bigiron.hub.loop import Hub
from bigiron.hub.meters import percentile
from bigiron.hub.plausible import AHEAD, plausible
from bigiron.hub.poller import Arrival, Poller
from bigiron.hub.runner import Pace, run
from bigiron.hub.twice import Twice
from bigiron.model import Batch, Change, Event, FindingChange, Note, Sample
from bigiron.store.archive import read
from bigiron.store.ledger import Ledger
from bigiron.store.reading import Reading
from bigiron.store.samples import Samples
from bigiron.store.segments import Keep

T0 = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def off_the_bus(line: int, node: str = "n1", at: datetime = T0) -> Event:
    text = f"NVRM: Xid (PCI:0000:9b:00): 79, pid={line}, GPU has fallen off the bus."
    return Event(node, "xid.79", text, "gpu3", at, source="kern.log", line=line)


def arrival(*events: Event, cursor: str = "1", at: datetime = T0) -> Arrival:
    return Arrival("kern.log", Batch(at, "kern.log", events=events), cursor, 0.0)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path) as opened:
        yield opened


def open_ids(folder: Path) -> list[str]:
    with Reading(folder) as reading:
        return [row.id for row in reading.findings()]


def test_a_fault_line_is_a_finding_in_the_ledger_after_one_step(
    ledger: Ledger, tmp_path: Path
) -> None:
    told: list[FindingChange] = []
    hub = Hub(ledger, T0, tell=told.append)
    hub.step([arrival(off_the_bus(1))], T0)
    assert [(c.change, c.finding.fault) for c in told] == [(Change.OPEN, "xid.79")]
    assert open_ids(tmp_path) == ["F000001"]
    assert ledger.cursors() == {"kern.log": "1"}


def test_the_same_batch_twice_changes_nothing(ledger: Ledger, tmp_path: Path) -> None:
    told: list[FindingChange] = []
    hub = Hub(ledger, T0, tell=told.append)
    for second in range(3):
        hub.step([arrival(off_the_bus(1))], T0 + second * SECOND)
    assert len(told) == 1
    assert hub.meters.events_repeated == 2
    with Reading(tmp_path) as reading:
        assert reading.count("events") == 1


def test_a_hub_that_starts_anew_knows_what_stood_and_opens_nothing_twice(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        Hub(ledger, T0).step([arrival(off_the_bus(1))], T0)
    with Ledger(tmp_path) as ledger:
        told: list[FindingChange] = []
        hub = Hub(ledger, T0 + SECOND, tell=told.append)
        hub.step([], T0 + SECOND)
        hub.step([arrival(off_the_bus(1), off_the_bus(2, "n2"), cursor="2")], T0 + 2 * SECOND)
        assert [(c.id, c.change, c.finding.subject.node) for c in told] == [
            ("F000002", Change.OPEN, "n2")
        ]
        with Reading(tmp_path) as reading:
            assert {a.node for a in reading.actions()} == {"n1", "n2"}


def test_silence_closes_nothing_however_often_the_hub_restarts(tmp_path: Path) -> None:
    for hour in range(5):
        now = T0 + timedelta(hours=hour)
        with Ledger(tmp_path) as ledger:
            hub = Hub(ledger, now)
            if hour == 0:
                hub.step([arrival(off_the_bus(1))], now)
            hub.step([], now + SECOND)
            hub.close(now + 2 * SECOND)
    assert open_ids(tmp_path) == ["F000001"]


def test_a_locked_ledger_makes_the_same_turn_be_tried_again(tmp_path: Path) -> None:
    told: list[FindingChange] = []
    with Ledger(tmp_path) as ledger:
        hub = Hub(ledger, T0, tell=told.append)
        other = sqlite3.connect(ledger.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Temporary, match="locked"):
            hub.step([arrival(off_the_bus(1))], T0)
        assert told == []
        other.execute("ROLLBACK")
        other.close()
        hub.step([], T0 + SECOND)
        assert [c.change for c in told] == [Change.OPEN]
        assert ledger.cursors() == {"kern.log": "1"}
        assert hub.meters.failed_commits == 1


def test_a_small_step_back_of_the_clock_is_waited_for(ledger: Ledger, tmp_path: Path) -> None:
    told: list[FindingChange] = []
    hub = Hub(ledger, T0, tell=told.append)
    hub.step([], T0)
    hub.step([arrival(off_the_bus(1))], T0 - 2 * SECOND)
    assert told[0].time == T0
    with Reading(tmp_path) as reading:
        assert reading.notes() == []


def test_a_clock_set_back_is_noted_and_what_stood_still_stands(
    ledger: Ledger, tmp_path: Path
) -> None:
    hub = Hub(ledger, T0)
    hub.step([arrival(off_the_bus(1))], T0)
    back = T0 - timedelta(hours=3)
    hub.step([arrival(off_the_bus(2, "n2", back), cursor="2", at=back)], back)
    with Reading(tmp_path) as reading:
        assert ("hub", "the clock was set back", 1) in reading.notes()
        assert sorted(f.finding.subject.node for f in reading.findings()) == ["n1", "n2"]


def test_samples_of_the_future_are_left_out_and_events_redated_and_both_counted() -> None:
    far = T0 + AHEAD + SECOND
    batch = Batch(
        far,
        "scrape",
        samples=(Sample("n1", "gpu0", "m", 1.0, far), Sample("n1", "gpu0", "m", 2.0, T0 + SECOND)),
        events=(off_the_bus(1, at=far), off_the_bus(2, at=T0)),
    )
    believed = plausible(batch, T0)
    assert believed.time == T0
    assert [s.value for s in believed.samples] == [2.0]
    assert [e.time for e in believed.events] == [T0, T0]
    assert believed.events[0].attrs["given_time"] == far.isoformat()
    assert [n.count for n in believed.notes] == [1, 1]
    fine = Batch(T0, "scrape", samples=(Sample("n1", "", "m", 1.0),))
    assert plausible(fine, T0) is fine


def test_a_number_that_nothing_measures_is_left_out_and_counted() -> None:
    values = (1.0, float("nan"), float("inf"), -float("inf"), 1e300, 2.0**64)
    batch = Batch(T0, "scrape", samples=tuple(Sample("n1", "", "m", value) for value in values))
    left = plausible(batch, T0)
    assert [s.value for s in left.samples] == [1.0, 2.0**64]
    assert [n.count for n in left.notes] == [4]


def test_what_a_metric_cannot_be_is_left_out_by_name() -> None:
    """A wrong unit at the exporter: tenths of degrees, milliwatts, per cent, hertz for MHz."""
    given = {
        "gpu_temp_celsius": (560.0, 56.0),
        "gpu_power_watts": (610_000.0, 610.0),
        "gpu_utilization_ratio": (97.0, 0.97),
        "gpu_sm_clock_hertz": (1.755e15, 1.755e9),
        "gpu_memory_used_bytes": (7e22, 7e10),
    }
    samples = tuple(Sample("n1", "gpu0", m, v, T0) for m, values in given.items() for v in values)
    left = plausible(Batch(T0, "scrape", samples=samples), T0)
    assert {s.metric: s.value for s in left.samples} == {m: good for m, (_, good) in given.items()}
    assert [n.what.split()[0] for n in left.notes] == sorted(given)


@pytest.mark.parametrize("state", ["[7]", "{}", '{"x": 1}', "{garbage", ""])
def test_what_was_remembered_and_cannot_be_read_is_begun_anew(tmp_path: Path, state: str) -> None:
    """It is what a hub meets that was brought to another version, or whose ledger was touched."""
    with Ledger(tmp_path) as ledger:
        hub = Hub(ledger, T0)
        hub.step([arrival(off_the_bus(1))], T0)
        hub.close(T0)
    with sqlite3.connect(tmp_path / "ledger.sqlite") as file:
        file.execute("UPDATE detector_state SET state = ?", (state.encode(),))
    with Ledger(tmp_path) as ledger:
        later = T0 + SECOND
        hub = Hub(ledger, later)
        hub.step([arrival(off_the_bus(2, "n2"), cursor="2")], later)
        assert hub.meters.failed_turns == 0
        with Reading(tmp_path) as reading:
            assert sorted(f.finding.subject.node for f in reading.findings()) == ["n1", "n2"]


def test_what_names_no_node_is_left_out_and_counted() -> None:
    batch = Batch(
        T0,
        "scrape",
        samples=(Sample("", "mlx5_0", "m", 1.0), Sample("n1", "mlx5_0", "m", 2.0)),
        events=(off_the_bus(1, node=""), off_the_bus(2)),
    )
    left = plausible(batch, T0)
    assert [s.node for s in left.samples] == ["n1"]
    assert [e.node for e in left.events] == ["n1"]
    assert [(n.what, n.count) for n in left.notes] == [
        ("samples that name no node, left out", 1),
        ("events that name no node, left out", 1),
    ]


def test_a_line_told_by_two_sources_is_one_event_and_one_repeated_is_two() -> None:
    def line(source: str, number: int, node: str = "n1", at: datetime = T0) -> Event:
        return Event(node, "ib.link_down", "mlx5_0: Link down", "", at, source=source, line=number)

    def told(*events: Event) -> int:
        return len(twice.once(Batch(T0, "x", events=events))[0].events)

    twice = Twice()
    assert told(line("kern.log", 1), line("kern.log", 2)) == 2
    assert told(line("all.log", 77), line("all.log", 78)) == 0
    assert told(line("all.log", 79)) == 1
    assert told(line("kern.log", 3)) == 0
    assert told(line("all.log", 80, "n2"), line("all.log", 81, at=T0 + SECOND)) == 2
    assert told(Event("n1", "xid.79", "x", source="a"), Event("n1", "xid.79", "x", source="b")) == 2


def test_what_two_logs_tell_is_counted_once(ledger: Ledger, tmp_path: Path) -> None:
    hub = Hub(ledger, T0)
    other = msgspec.structs.replace(off_the_bus(1), source="collected.log", line=900)
    hub.step([arrival(off_the_bus(1)), Arrival("c", Batch(T0, "c", events=(other,)), "", 0.0)], T0)
    with Reading(tmp_path) as reading:
        assert reading.count("events") == 1
    assert hub.meters.events_repeated == 1


def test_an_event_redated_twice_is_still_one_event(ledger: Ledger, tmp_path: Path) -> None:
    hub = Hub(ledger, T0)
    far = T0 + timedelta(days=1)
    for second in range(2):
        hub.step([arrival(off_the_bus(1, at=far))], T0 + second * SECOND)
    hub.step([arrival(off_the_bus(1, at=far), at=far)], far)
    with Reading(tmp_path) as reading:
        assert reading.count("events") == 1


def test_samples_are_on_disk_when_the_hub_has_closed(ledger: Ledger, tmp_path: Path) -> None:
    samples = Samples(tmp_path / "samples", Keep(flush_s=3600))
    hub = Hub(ledger, T0, samples=samples)
    sample = Sample("n1", "gpu0", "gpu_temp_celsius", 40.0, T0)
    hub.step([Arrival("scrape", Batch(T0, "scrape", samples=(sample,)), "", 0.0)], T0)
    assert not (tmp_path / "samples").exists()
    hub.close(T0)
    frame, _ = read(tmp_path / "samples", ["gpu_temp_celsius"], T0, T0 + SECOND)
    assert frame["value"].to_list() == [40.0]


def test_samples_that_cannot_be_written_do_not_stop_the_hub(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "samples").write_text("in the way")
    hub = Hub(ledger, T0, samples=Samples(tmp_path / "samples", Keep(flush_s=0.0)))
    sample = Sample("n1", "gpu0", "gpu_temp_celsius", 40.0, T0)
    hub.step([Arrival("scrape", Batch(T0, "scrape", samples=(sample,)), "", 0.0)], T0)
    hub.step([arrival(off_the_bus(1))], T0 + SECOND)
    assert open_ids(tmp_path) == ["F000001"]
    with Reading(tmp_path) as reading:
        assert ("hub", "samples could not be written", 1) in reading.notes()


class Scripted:
    """A source that does what it is told, poll by poll, then repeats the last."""

    def __init__(self, name: str, *script: Callable[[str], tuple[Batch, str]]) -> None:
        self.name = name
        self.every_s = 0.01
        self.polls = 0
        self._script = script

    def poll(self, cursor: str) -> tuple[Batch, str]:
        step = self._script[min(self.polls, len(self._script) - 1)]
        self.polls += 1
        return step(cursor)


def nothing(cursor: str) -> tuple[Batch, str]:
    return Batch(T0), cursor


def fails(error: Exception) -> Callable[[str], tuple[Batch, str]]:
    def step(_: str) -> tuple[Batch, str]:
        raise error

    return step


def says(event: Event, cursor: str) -> Callable[[str], tuple[Batch, str]]:
    return lambda _: (Batch(T0, "kern.log", events=(event,)), cursor)


def hang(cursor: str) -> tuple[Batch, str]:
    time.sleep(0.6)
    return Batch(T0), cursor


def test_a_failing_source_costs_the_others_nothing(ledger: Ledger, tmp_path: Path) -> None:
    good = Scripted("kern.log", nothing, says(off_the_bus(1), "5"), nothing)
    bad = [
        Scripted("temporary", fails(Temporary("busy", retry_after_s=0.02))),
        Scripted("permanent", fails(Permanent("no such URL"))),
        Scripted("absent", fails(NoData("no Slurm here"))),
        Scripted("bug", fails(ZeroDivisionError("division by zero"))),
        Scripted("slow", hang),
    ]
    hub = Hub(ledger, T0)
    run(hub, [good, *bad], Pace(0.05, turns=10), threading.Event(), lambda: T0)
    assert open_ids(tmp_path) == ["F000001"]
    assert ledger.cursors() == {"kern.log": "5"}
    assert bad[0].polls > 3, "asked again after retry_after_s"
    assert [bad[1].polls, bad[2].polls, bad[3].polls] == [1, 1, 1], "asked again rarely"
    with Reading(tmp_path) as reading:
        meters = {(m.name, m.label): m for m, _ in reading.meters()}
    assert meters["source_errors_total", "permanent"].value == 1
    assert meters["source_lag_seconds", "permanent"].said == "no such URL"
    assert meters["source_lag_seconds", "bug"].said == "ZeroDivisionError: division by zero"
    assert meters["source_lag_seconds", "kern.log"].said == ""


def test_a_source_goes_on_from_the_committed_cursor(ledger: Ledger) -> None:
    hub = Hub(ledger, T0)
    hub.step([arrival(off_the_bus(1), cursor="77")], T0)
    asked: list[str] = []

    def listen(cursor: str) -> tuple[Batch, str]:
        asked.append(cursor)
        return Batch(T0), cursor

    run(hub, [Scripted("kern.log", listen)], Pace(0.01, once=True), threading.Event(), lambda: T0)
    assert set(asked) == {"77"}


def test_once_asks_every_source_and_ends(ledger: Ledger, tmp_path: Path) -> None:
    source = Scripted("kern.log", says(off_the_bus(1), "1"), nothing)
    run(Hub(ledger, T0), [source], Pace(once=True), threading.Event(), lambda: T0)
    assert open_ids(tmp_path) == ["F000001"]


def test_a_hub_told_to_stop_finishes_and_keeps_what_had_arrived(
    ledger: Ledger, tmp_path: Path
) -> None:
    stop = threading.Event()

    def last(cursor: str) -> tuple[Batch, str]:
        stop.set()
        return says(off_the_bus(1), "9")(cursor)

    source = Scripted("kern.log", nothing, nothing, last, nothing)
    run(Hub(ledger, T0), [source], Pace(0.05), stop, lambda: T0)
    assert ledger.cursors() == {"kern.log": "9"}
    assert open_ids(tmp_path) == ["F000001"]


def test_a_hub_that_cannot_write_makes_its_sources_wait() -> None:
    inbox: queue.Queue[Arrival] = queue.Queue(maxsize=2)
    stop = threading.Event()
    source = Scripted("s", lambda cursor: (Batch(T0), f"{int(cursor or 0) + 1}"))
    poller = Poller(source, "", inbox, stop)
    poller.start()
    time.sleep(0.3)
    assert source.polls == 3, "two wait in the inbox, one in hand"
    stop.set()
    poller.join(5)
    assert not poller.is_alive()
    assert [inbox.get_nowait().cursor for _ in range(2)] == ["1", "2"]


@pytest.mark.parametrize(
    ("name", "said", "told"),
    [
        ("http://p:9090", "http://p:9090/api/v1/query: no answer", None),
        ("log:/var/log/x", "/var/log/x: no such file", "log: /var/log/x: no such file"),
        ("slurm", "scontrol: not found", "slurm: scontrol: not found"),
    ],
)
def test_a_source_that_fails_is_told_with_its_address_once(
    name: str, said: str, told: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_: str) -> tuple[Batch, str]:
        raise Temporary(said)

    stop = threading.Event()
    poller = Poller(Scripted(name, fails), "", queue.Queue(), stop)
    poller.start()
    assert poller.heard.wait(5)
    stop.set()
    poller.join(5)
    assert [r.getMessage() for r in caplog.records] == [f"source {told or said}"]
    assert poller.pulse.said == said


def test_a_second_hub_is_refused_and_the_first_ones_pid_named(tmp_path: Path) -> None:
    with Lock(tmp_path), pytest.raises(Permanent, match=rf"another hub \(pid {os.getpid()}\)"):
        Lock(tmp_path)
    with Lock(tmp_path):
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BigironError, match=str(tmp_path / "file")):
        Lock(tmp_path / "file" / "folder")


def test_percentile_of_nothing_is_zero() -> None:
    assert percentile([], 0.99) == 0.0
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile(range(100), 0.99) == 99


def test_a_batch_of_notes_only_is_counted(ledger: Ledger, tmp_path: Path) -> None:
    hub = Hub(ledger, T0)
    batch = Batch(T0, "s", notes=(Note("s", "odd", 2),))
    hub.step([Arrival("s", batch, "", 0.0)], T0)
    hub.step([Arrival("s", batch, "", 0.0)], T0)
    with Reading(tmp_path) as reading:
        assert ("s", "odd", 4) in reading.notes()


def flapping(step: int) -> Event:
    """A link that goes down and comes up again, every 20 s."""
    code = "ib.link_up" if step % 2 else "ib.link_down"
    at = T0 + 20 * step * SECOND
    return Event(
        "n1", code, f"mlx5_0: Port: 1 {step}", "mlx5_0", at, source="kern.log", line=step + 1
    )


def claims(folder: Path, lives: list[int]) -> list[tuple[str, str, str]]:
    """What stands after hubs that each take some steps and are then dropped without a word."""
    step = 0
    for life in lives:
        with Ledger(folder) as ledger:
            hub = Hub(ledger, T0 + 20 * step * SECOND)
            for _ in range(life):
                event = flapping(step)
                assert event.time is not None
                hub.step([arrival(event, cursor=str(step), at=event.time)], event.time)
                step += 1
    with Reading(folder) as reading:
        return sorted(
            (f.finding.detector, f.finding.fault, f.finding.severity) for f in reading.findings()
        )


@pytest.mark.parametrize("lives", [[1] * 16, [3, 5, 1, 7], [15, 1]])
def test_what_a_stateful_detector_has_seen_outlives_the_hub(
    tmp_path: Path, lives: list[int]
) -> None:
    whole = claims(tmp_path / "whole", [16])
    assert ("flap", "ib.flap") in {(detector, fault) for detector, fault, _ in whole}
    assert claims(tmp_path / "parts", lives) == whole
