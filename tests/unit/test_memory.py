from datetime import UTC, datetime, timedelta

from bigiron.hub.memory import Limits, Memory
from bigiron.hub.turn import Standing, turn
from bigiron.model import Batch, Device, Event, Fact, Job, Node, NodeState, Sample, Subject

T0 = datetime(2026, 8, 1, tzinfo=UTC)
BUS = "0000:5a:00.0"


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def sample(value: float, at: datetime, device: str = "gpu0") -> Sample:
    return Sample("m1", device, "gpu_temp_celsius", value, at)


def values(memory: Memory, device: str = "gpu0") -> list[float]:
    series = memory.window(T0).series.get("gpu_temp_celsius", {}).get(("m1", device))
    return list(series.values) if series is not None else []


def test_samples_out_of_order_or_seen_before_are_dropped() -> None:
    memory = Memory()
    for minute in (0, 1, 2, 1, 2, 3):
        memory.take(Batch(T0, samples=(sample(float(minute), T0 + minutes(minute)),)))
    assert values(memory) == [0.0, 1.0, 2.0, 3.0]


def test_a_series_never_grows_past_its_span_however_often_it_is_sampled() -> None:
    memory = Memory(Limits(series_s=600, gap_s=30))
    for second in range(0, 7200, 5):
        at = T0 + timedelta(seconds=second)
        memory.take(Batch(at, samples=(sample(float(second), at),)))
    held = values(memory)
    assert held[-1] == 7195.0
    assert len(held) <= 1.25 * 600 / 30 + 2


def test_an_event_on_an_address_becomes_the_devices_whenever_it_is_learned() -> None:
    before, after = Memory(), Memory()
    event = Event("m1", "xid.79", "gone", BUS, T0)
    device = Device("m1", "gpu4", "gpu", "GPU-77", "0000:5A:00.0")
    before.take(Batch(T0, devices=(device,)))
    before.take(Batch(T0, events=(event,)))
    after.take(Batch(T0, events=(event,)))
    after.take(Batch(T0, facts=(Fact("m1", "bus", BUS, "gpu4", T0),)))
    for memory in (before, after):
        assert [e.device for e in memory.events()] == ["gpu4"]


def test_an_adapters_event_is_told_under_its_device_not_its_network_name() -> None:
    memory = Memory()
    memory.take(Batch(T0, devices=(Device("m1", "nic2", "nic", bus=BUS),)))
    text = f"mlx5_core {BUS} ib7: Link down"
    memory.take(Batch(T0, events=(Event("m1", "ib.link_down", text, "ib7", T0),)))
    assert [e.device for e in memory.events()] == ["nic2"]


def test_a_switch_is_never_taken_for_the_gpu_at_its_address() -> None:
    memory = Memory()
    memory.take(Batch(T0, devices=(Device("m1", "gpu0", "gpu", bus=BUS),)))
    event = Event("m1", "sxid.20034", "fault", BUS, T0, attrs={"switch": "nvswitch1"})
    memory.take(Batch(T0, events=(event,)))
    assert [e.device for e in memory.events()] == ["nvswitch1"]


def test_history_does_not_pass_to_another_unit_of_the_same_name() -> None:
    memory = Memory()
    for uuid, value in (("GPU-a", 50.0), ("GPU-b", 60.0)):
        memory.take(Batch(T0, devices=(Device("m1", "gpu0", "gpu", uuid),)))
        at = T0 + minutes(value)
        memory.take(Batch(at, samples=(sample(value, at),)))
    assert values(memory) == [60.0]


def test_samples_by_uuid_are_the_devices() -> None:
    memory = Memory()
    memory.take(Batch(T0, devices=(Device("m1", "gpu0", "gpu", "GPU-a"),)))
    memory.take(Batch(T0, samples=(sample(55.0, T0, "GPU-a"),)))
    assert values(memory) == [55.0]


def test_the_same_line_twice_is_one_event() -> None:
    memory = Memory()
    line = Event("m1", "xid.79", "gone", "gpu0", T0, source="log", line=4)
    memory.take(Batch(T0, events=(line, line)))
    memory.take(Batch(T0, events=(line,)))
    assert len(memory.events()) == 1


def test_a_storm_keeps_its_first_lines_and_counts_the_rest() -> None:
    memory = Memory(Limits(events_per_key=8))
    for second in range(500):
        at = T0 + timedelta(seconds=second)
        memory.take(Batch(at, events=(Event("m1", "xid.74", f"line {second}", "gpu0", at),)))
    kept = memory.events()
    assert len(kept) == 8
    assert (kept[0].text, kept[-1].time) == ("line 0", T0 + timedelta(seconds=499))
    assert sum(e.count for e in kept) == 500


def test_old_events_and_jobs_are_let_go() -> None:
    memory = Memory(Limits(events_s=86_400, jobs_s=86_400))
    event = Event("m1", "xid.31", "app", "gpu0", T0)
    ended = Job("1", "FAILED", "ann", start=T0, end=T0, nodes=("m1",))
    running = Job("2", "RUNNING", "ann", start=T0, nodes=("m1",))
    memory.take(Batch(T0, events=(event,), jobs=(ended, running)))
    memory.take(Batch(T0 + timedelta(days=3)))
    assert memory.events() == []
    assert [j.id for j in memory.window(T0).jobs] == ["2"]


def test_an_older_state_never_overwrites_a_newer() -> None:
    memory = Memory()
    for state, minute in (("drain", 5), ("idle", 1)):
        at = T0 + minutes(minute)
        memory.take(Batch(at, states=(NodeState("m1", state, time=at),)))
    assert memory.window(T0).states["m1"].state == "drain"


def test_what_is_known_of_a_node_adds_up() -> None:
    memory = Memory()
    memory.take(Batch(T0, nodes=(Node("m1", sku="s", rack="r1"),)))
    memory.take(Batch(T0, nodes=(Node("m1", partition="batch"),)))
    assert memory.nodes["m1"] == Node("m1", sku="s", rack="r1", partition="batch")


def test_forgetting_a_node_leaves_nothing_of_it() -> None:
    memory = Memory()
    memory.take(
        Batch(
            T0,
            nodes=(Node("m1"), Node("m2")),
            samples=(sample(1.0, T0),),
            events=(Event("m1", "xid.79", "gone", "gpu0", T0),),
            facts=(Fact("m1", "driver_version", "1", time=T0),),
        )
    )
    memory.forget("m1")
    window = memory.window(T0)
    assert list(window.fleet.nodes) == ["m2"]
    assert (list(window.events), window.series["gpu_temp_celsius"], window.facts) == ([], {}, {})


def test_going_on_after_a_restart_changes_nothing() -> None:
    batches = [
        Batch(T0, events=(Event("m1", "xid.79", "gone", "gpu0", T0, line=1),)),
        Batch(T0 + minutes(1), samples=(sample(50.0, T0 + minutes(1)),)),
    ]
    memory = Memory()
    for batch in batches:
        memory.take(batch)
    standing, outcome = turn(memory, Standing(), T0 + minutes(1))
    assert len(outcome.changes) == 1
    again = Memory()
    again.restore(batches, serial=standing.serial)
    after, nothing = turn(again, standing, T0 + minutes(2))
    assert (nothing.changes, list(after.open)) == ((), list(standing.open))


def test_what_goes_on_knows_of_every_fact_that_was_known() -> None:
    nodes = [f"m{i}" for i in range(12)]
    memory = Memory()
    facts = tuple(Fact(n, "driver_version", "570.86.15", time=T0) for n in nodes)
    memory.take(Batch(T0, nodes=tuple(Node(n, sku="s") for n in nodes), facts=facts))
    odd = Fact("m3", "driver_version", "550.54.15", time=T0 + minutes(5))
    memory.take(Batch(T0 + minutes(5), facts=(odd,)))
    standing, outcome = turn(memory, Standing(), T0 + minutes(5))
    assert [c.finding.subject.node for c in outcome.changes] == ["m3"]
    again = Memory()
    again.go_on(memory.kept())
    told, known = memory.window(T0).facts_at, again.window(T0).facts_at
    assert told is not None
    assert known is not None
    assert set(known) == set(told)
    for at in (6, 12, 30):
        again.take(Batch(T0 + minutes(at)))
        standing, outcome = turn(again, standing, T0 + minutes(at))
        assert outcome.changes == ()


def test_a_node_is_observed_by_any_of_its_devices_and_a_device_by_itself() -> None:
    memory = Memory()
    memory.take(Batch(T0, samples=(sample(50.0, T0),)))
    window = memory.window(T0 + minutes(1))
    assert window.observed(Subject("m1", "gpu0"), ["gpu_temp_celsius"])
    assert window.observed(Subject("m1"), ["gpu_temp_celsius"])
    assert not window.observed(Subject("m1", "gpu1"), ["gpu_temp_celsius"])
    assert not memory.window(T0 + minutes(9)).observed(Subject("m1"), ["gpu_temp_celsius"])
