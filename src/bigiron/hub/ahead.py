"""A second process that reads a recording and steps the folds, ahead of the one that judges.

Both take the same batches into a memory of their own, so what is judged is the same as in one
process, byte for byte; only the folds' claims and the batches pass between them.
"""

import multiprocessing
import pickle
import traceback
from collections.abc import Generator, Mapping
from datetime import datetime
from multiprocessing.queues import Queue
from pathlib import Path
from queue import Empty, Full
from typing import Any, NamedTuple

import msgspec

from bigiron import faults
from bigiron.detect import Key
from bigiron.detect.state import dec_hook, enc_hook
from bigiron.errors import BigironError, ParseError, Permanent
from bigiron.hub import memory as remembering
from bigiron.hub.folding import Folded, Found, fold_step
from bigiron.hub.memory import Limits, Memory
from bigiron.hub.turn import Settings, fold_reads
from bigiron.ingest.recording import Recording
from bigiron.model import Batch, Note, Readings

AHEAD = 48
"""Steps that may wait to be judged: reading the next stretch of a recording takes a moment."""

WAIT_S = 2.0


class Course(NamedTuple):
    """What to read and fold, and with what: ``after`` a step's time, ``until`` another."""

    folder: Path
    stretch_rows: int
    limits: Limits
    settings: Settings
    fault_files: tuple[Path, ...] = ()
    after: datetime | None = None
    until: datetime | None = None


class Start(NamedTuple):
    """What the memory held and the folds remembered where a replay goes on, packed."""

    memory: bytes
    folds: bytes


class End(NamedTuple):
    """The last word: what was left out of the recording, and the folds' states, packed."""

    notes: list[Note]
    folds: bytes


def ahead(course: Course, start: Start | None) -> Generator[tuple[Batch, Folded] | End, None, None]:
    """Each step as the other process has read and folded it; at last an End.

    Raises what the other process raised, and Permanent if it ended without a word.
    """
    context = multiprocessing.get_context("spawn")
    queue: Queue[bytes] = context.Queue(AHEAD)
    process = context.Process(target=_run, args=(queue, course, start), daemon=True)
    process.start()
    try:
        keys: list[tuple[Key, ...]] = []
        while True:
            told = pickle.loads(_next(queue, process))  # noqa: S301  (our own process's)
            if isinstance(told, _Step):
                keys += told.keys
                yield told.whole(keys), Folded(told.found)
            elif isinstance(told, End):
                yield told
                return
            else:
                raise _error(*told)
    finally:
        process.terminate()
        process.join()
        queue.close()


def _next(queue: "Queue[bytes]", process: Any) -> bytes:
    while True:
        try:
            return queue.get(timeout=WAIT_S)
        except Empty:
            if not process.is_alive():
                break
    try:
        return queue.get(timeout=WAIT_S)
    except Empty:
        ended = f"the process that reads the recording ended ({process.exitcode})"
        raise Permanent(ended) from None


def _error(kind: str, words: tuple[Any, ...]) -> Exception:
    if kind == "ParseError":
        return ParseError(*words)
    return Permanent(*words) if kind == "Permanent" else RuntimeError(*words)


class _Column(NamedTuple):
    """A reading without its keys, which go over once; one time for all where they share it."""

    metric: str
    keys: int
    values: Any
    times: Any


class _Step(NamedTuple):
    batch: Batch
    columns: list[_Column]
    keys: list[tuple[Key, ...]]
    found: Found

    def whole(self, keys: list[tuple[Key, ...]]) -> Batch:
        """The batch as it was read; ``keys`` are all that went over so far."""
        import numpy as np

        columns = []
        for one in self.columns:
            of = keys[one.keys]
            times = np.full(len(of), one.times) if isinstance(one.times, float) else one.times
            columns.append(Readings(one.metric, of, one.values, times))
        return msgspec.structs.replace(self.batch, columns=tuple(columns))


class _Sender:
    """Sends steps; ends this process if the one that judges is gone."""

    def __init__(self, queue: "Queue[bytes]") -> None:
        self._queue = queue
        self._keys: dict[int, tuple[int, tuple[Key, ...]]] = {}

    def step(self, batch: Batch, found: Found) -> None:
        """One step; readings' keys go with it the first time."""
        new: list[tuple[Key, ...]] = []
        columns = []
        for told in batch.columns:
            known = self._keys.get(id(told.keys))
            if known is None:
                known = self._keys[id(told.keys)] = len(self._keys), told.keys
                new.append(told.keys)
            first = float(told.times[0])
            times = first if bool((told.times == first).all()) else told.times
            columns.append(_Column(told.metric, known[0], told.values, times))
        self.send(_Step(msgspec.structs.replace(batch, columns=()), columns, new, found))

    def send(self, told: object) -> None:
        """Anything."""
        data = pickle.dumps(told, pickle.HIGHEST_PROTOCOL)
        while True:
            try:
                self._queue.put(data, timeout=WAIT_S)
            except Full:
                parent = multiprocessing.parent_process()
                if parent is None or not parent.is_alive():
                    self._queue.cancel_join_thread()
                    raise SystemExit(1) from None
            else:
                return


def _run(queue: "Queue[bytes]", course: Course, start: Start | None) -> None:
    """What the other process does."""
    sender = _Sender(queue)
    try:
        sender.send(_fold(sender, course, start))
    except ParseError as error:
        sender.send(("ParseError", (error.source, error.line, error.problem)))
    except BigironError as error:
        sender.send(("Permanent", (str(error),)))
    except Exception:  # noqa: BLE001  (it is raised again where it is seen)
        sender.send(("RuntimeError", (traceback.format_exc(),)))


def _fold(sender: _Sender, course: Course, start: Start | None) -> End:
    if course.fault_files:
        faults.use(course.fault_files)
    recording = Recording(course.folder, stretch_rows=course.stretch_rows)
    # Folds see the newest samples alone: the one that judges keeps the series.
    limits = msgspec.structs.replace(course.limits, history=False)
    memory, states = Memory(limits, fold_reads()), {}
    if start is not None:
        kept = msgspec.msgpack.decode(start.memory, type=remembering.Kept, dec_hook=dec_hook)
        memory.go_on(kept)
        states = msgspec.msgpack.decode(start.folds)
    settings = course.settings
    for batch in recording.batches(after=course.after):
        if course.until is not None and batch.time > course.until:
            break
        since = memory.serial
        memory.take(batch)
        folded = fold_step(
            *(memory, states, since, batch.time),
            step_s=settings.step_s,
            false_per_node_day=settings.false_per_node_day,
            off=settings.off,
        )
        states = {**states, **folded.states}
        sender.step(batch, folded.found)
    return End(recording.notes, packed(states))


def packed(value: object) -> bytes:
    """Anything of ours, arrays among it, for the other process."""
    return msgspec.msgpack.encode(value, enc_hook=enc_hook)


def unpacked(folds: bytes) -> Mapping[str, Any]:
    """The folds' states as plain values; each fold makes its own of them."""
    states: dict[str, Any] = msgspec.msgpack.decode(folds)
    return states
