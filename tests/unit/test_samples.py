from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bigiron.errors import Temporary
from bigiron.model import Batch, Note, Sample
from bigiron.store import samples as module
from bigiron.store.archive import Archive, read
from bigiron.store.samples import Samples
from bigiron.store.segments import Keep, counting, path_of

T0 = datetime(2026, 3, 4, 5, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)


def batch(at: datetime, value: float = 1.0, nodes: int = 3) -> Batch:
    return Batch(
        at,
        "scrape",
        samples=tuple(
            Sample(f"n{n}", "gpu0", metric, value + n, at)
            for metric in ("gpu_temp_celsius", "gpu_power_watts")
            for n in range(nodes)
        ),
    )


def write(folder: Path, *times: datetime, keep: Keep | None = None) -> Archive:
    """Each time's samples in a segment of its own."""
    store, archive = Samples(folder), Archive(folder, keep)
    for at in times:
        store.add(batch(at))
        store.flush()
        archive.convert()
    return archive


def segments_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.parquet"))


def values(folder: Path, metric: str = "gpu_temp_celsius") -> list[float]:
    frame, _ = read(folder, [metric], T0 - 100 * HOUR, T0 + 100 * HOUR)
    return frame["value"].to_list()


def test_what_is_written_is_read_by_metric_node_and_time(tmp_path: Path) -> None:
    write(tmp_path, T0, T0 + timedelta(minutes=1), T0 + HOUR)
    frame, notes = read(tmp_path, ["gpu_temp_celsius"], T0, T0 + HOUR, ["n1"])
    assert notes == []
    assert frame.columns == ["time", "node", "device", "metric", "value"]
    assert frame["time"].to_list() == [T0, T0 + timedelta(minutes=1)]
    assert frame["value"].to_list() == [2.0, 2.0]
    assert set(frame["node"]) == {"n1"}


def test_nothing_is_read_where_nothing_is(tmp_path: Path) -> None:
    frame, notes = read(tmp_path / "none", ["gpu_temp_celsius"], T0, T0 + HOUR)
    assert (frame.height, notes) == (0, [])


def test_a_sample_without_time_has_its_batchs(tmp_path: Path) -> None:
    store = Samples(tmp_path)
    store.add(Batch(T0, samples=(Sample("n1", "", "node_load1", 2.0),)))
    assert store.flush() == 1
    frame, _ = read(tmp_path, ["node_load1"], T0, T0 + HOUR)
    assert frame["time"].to_list() == [T0]


def test_one_flush_across_an_hour_makes_one_segment_each(tmp_path: Path) -> None:
    store = Samples(tmp_path)
    store.add(batch(T0))
    store.add(batch(T0 + HOUR))
    assert store.flush() == 12
    before = values(tmp_path)
    Archive(tmp_path).convert()
    assert [p.name[:2] for p in segments_of(tmp_path)] == ["05", "06"]
    assert values(tmp_path) == before
    assert not list(tmp_path.rglob("*.part"))
    assert not list(tmp_path.rglob("*.spool"))


def test_flush_is_due_after_its_time_and_when_the_buffer_is_large(tmp_path: Path) -> None:
    store = Samples(tmp_path, Keep(flush_s=1e9))
    assert not store.due()
    store.add(batch(T0))
    assert not store.due()
    eager = Samples(tmp_path, Keep(flush_s=0.0))
    assert not eager.due(), "nothing to write"
    eager.add(batch(T0))
    assert eager.due()
    store.add(batch(T0, nodes=module.FLUSH_ROWS // 2))
    assert store.due()


def test_a_buffer_that_cannot_be_written_is_bounded_and_what_is_dropped_is_counted(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "samples"
    folder.write_text("a file where the folder should be")
    store = Samples(folder)
    store.add(batch(T0))
    with pytest.raises(Temporary, match=str(folder)):
        store.flush()
    assert store.buffered == 6, "kept, to be tried again"
    store.add(batch(T0, nodes=module.ROWS_MAX // 2))
    assert store.buffered <= module.ROWS_MAX
    (note,) = store.notes()
    assert note.count + store.buffered == module.ROWS_MAX + 6
    assert store.notes() == []


def test_samples_kept_over_a_failed_flush_are_written_once(tmp_path: Path) -> None:
    folder = tmp_path / "samples"
    folder.write_text("in the way")
    store = Samples(folder)
    store.add(batch(T0))
    with pytest.raises(Temporary):
        store.flush()
    folder.unlink()
    assert store.flush() == 6
    assert store.flush() == 0
    assert values(folder) == [1.0, 2.0, 3.0]


def test_samples_are_read_before_and_after_they_are_archived(tmp_path: Path) -> None:
    store = Samples(tmp_path)
    for minute in range(20):
        store.add(batch(T0 + timedelta(minutes=minute)))
        store.flush()
    before = values(tmp_path)
    assert len(before) == 60
    store.archive(T0 + timedelta(minutes=20))
    assert store.notes() == []
    assert not list(tmp_path.rglob("*.spool"))
    assert values(tmp_path) == before


def test_a_crash_between_segment_and_spool_doubles_nothing(tmp_path: Path) -> None:
    store = Samples(tmp_path)
    store.add(batch(T0))
    store.add(batch(T0 + HOUR))
    store.flush()
    (spooled,) = tmp_path.glob("*.spool")
    data = spooled.read_bytes()
    before = values(tmp_path)
    Archive(tmp_path).convert()
    segments_of(tmp_path)[1].unlink()
    spooled.write_bytes(data)
    assert values(tmp_path) == before, "the first hour from its segment, the second from the spool"
    Archive(tmp_path).convert()
    assert values(tmp_path) == before


def test_stamps_rise_over_a_restart_whatever_the_clock_says(tmp_path: Path) -> None:
    write(tmp_path, T0)
    ahead = path_of(tmp_path, T0.replace(minute=0), 2 * 10**18, 2 * 10**18)
    segments_of(tmp_path)[0].rename(ahead)
    store = Samples(tmp_path)
    store.add(batch(T0 + timedelta(minutes=1)))
    store.flush()
    assert len(values(tmp_path)) == 6


def test_a_damaged_spool_is_passed_over_then_set_aside_and_named(tmp_path: Path) -> None:
    store = Samples(tmp_path)
    store.add(batch(T0))
    store.flush()
    (spooled,) = tmp_path.glob("*.spool")
    spooled.write_bytes(spooled.read_bytes()[:-3])
    frame, (note,) = read(tmp_path, ["gpu_temp_celsius"], T0, T0 + HOUR)
    assert (frame.height, note.source) == (0, str(spooled))
    store.archive(T0)
    assert [n.source for n in store.notes()] == [str(spooled)]
    assert spooled.with_suffix(".damaged").exists()


def test_what_keeps_the_archive_from_working_is_noted_and_the_spools_stay(tmp_path: Path) -> None:
    store = Samples(tmp_path)
    store.add(batch(T0))
    store.flush()
    (tmp_path / f"{T0:%Y-%m-%d}").write_text("in the way")
    store.archive(T0)
    (note,) = store.notes()
    assert "not archived" in note.what
    assert len(list(tmp_path.glob("*.spool"))) == 1


@pytest.mark.parametrize("keep_bytes", [0, 10, 1000])
def test_a_damaged_segment_is_passed_over_and_named(tmp_path: Path, keep_bytes: int) -> None:
    write(tmp_path, T0, T0 + timedelta(minutes=1))
    broken = segments_of(tmp_path)[0]
    broken.write_bytes(broken.read_bytes()[:keep_bytes])
    frame, (note,) = read(tmp_path, ["gpu_temp_celsius"], T0, T0 + HOUR)
    assert frame.height == 3
    assert note.source == str(broken)
    assert "passed over" in note.what


def test_old_segments_are_removed(tmp_path: Path) -> None:
    store = write(tmp_path, T0, T0 + 48 * HOUR, keep=Keep(days=1.0))
    store.tend(T0 + 49 * HOUR)
    assert [p.parent.name for p in segments_of(tmp_path)] == ["2026-03-06"]
    assert not (tmp_path / "2026-03-04").exists()
    assert store.notes() == []


def test_the_oldest_go_when_there_are_too_many_bytes_and_that_is_counted(tmp_path: Path) -> None:
    store = write(tmp_path, T0, T0 + HOUR, T0 + 2 * HOUR)
    size = segments_of(tmp_path)[0].stat().st_size
    store.keep = Keep(bytes=size * 2 + size // 2)
    store.tend(T0 + 2 * HOUR)
    assert [p.name[:2] for p in segments_of(tmp_path)] == ["06", "07"]
    (note,) = store.notes()
    assert isinstance(note, Note)
    assert "keep_bytes" in note.what


def test_small_segments_of_past_hours_are_merged_and_hold_the_same(tmp_path: Path) -> None:
    store = write(tmp_path, *(T0 + timedelta(minutes=m) for m in range(5)), T0 + 5 * HOUR)
    before = values(tmp_path)
    store.tend(T0 + 5 * HOUR)
    assert len(segments_of(tmp_path)) == 2
    assert values(tmp_path) == before
    write(tmp_path, T0 + timedelta(minutes=9))
    store.tend(T0 + 5 * HOUR)
    assert len(segments_of(tmp_path)) == 2
    assert len(values(tmp_path)) == len(before) + 3


def test_a_crash_between_merge_and_removal_doubles_nothing(tmp_path: Path) -> None:
    store = write(tmp_path, T0, T0 + timedelta(minutes=1))
    parts = {p: p.read_bytes() for p in segments_of(tmp_path)}
    before = values(tmp_path)
    store.tend(T0 + 9 * HOUR)
    for path, data in parts.items():
        path.write_bytes(data)
    (tmp_path / "2026-03-04" / "05-1.part").write_bytes(b"unfinished")
    assert values(tmp_path) == before
    store.tend(T0 + 9 * HOUR)
    assert len(segments_of(tmp_path)) == 1
    assert not list(tmp_path.glob("*/*.part"))


def test_a_damaged_segment_is_left_out_of_a_merge(tmp_path: Path) -> None:
    store = write(tmp_path, *(T0 + timedelta(minutes=m) for m in range(3)))
    broken = segments_of(tmp_path)[1]
    broken.write_bytes(b"PAR1")
    store.tend(T0 + 9 * HOUR)
    frame, _ = read(tmp_path, ["gpu_temp_celsius"], T0, T0 + HOUR)
    assert frame.height == 6
    assert [n.source for n in store.notes()] == [str(broken)]
    assert broken.with_suffix(".damaged").exists()
    store.tend(datetime.now(UTC) + 24 * 40 * HOUR)
    assert not broken.with_suffix(".damaged").exists()


def test_files_of_other_names_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path, T0)
    (tmp_path / "2026-03-04" / "mine.parquet").write_text("x")
    assert len(counting(tmp_path)[0]) == 1
    hour = T0.replace(minute=0)
    assert path_of(tmp_path, hour, 5, 9).name == "05-5-9.parquet"
