from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from bigiron.detect.settle import Rules
from bigiron.hub.loop import Hub
from bigiron.hub.names import Names
from bigiron.hub.plausible import plausible
from bigiron.hub.poller import Arrival
from bigiron.hub.scan import scan
from bigiron.hub.turn import Settings
from bigiron.model import (
    Batch,
    Event,
    Fact,
    Job,
    Maintenance,
    Node,
    NodeState,
    Readings,
    Sample,
)
from bigiron.store.ledger import Ledger
from bigiron.store.reading import Reading

T0 = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
FULL = "n001.cluster.example"


def seen(*names: str) -> Batch:
    """What a metrics server says of nodes under these names."""
    return Batch(
        T0, "prometheus", samples=tuple(Sample(n, "", "node_load1", 1.0, T0) for n in names)
    )


def scheduled(*names: str, **also: str) -> Batch:
    """What a scheduler says of its nodes; ``also``: their addresses."""
    facts = tuple(Fact(name, "address", address) for name, address in also.items())
    return Batch(T0, "slurm", states=tuple(NodeState(n, "idle") for n in names), facts=facts)


def joined(*batches: Batch, names: Names | None = None) -> list[str]:
    """The nodes of some batches, met together, after renaming."""
    names = names or Names()
    names.learn(batches)
    after = [names.renamed(batch) for batch in batches]
    told = {sample.node for batch in after for sample in batch.samples}
    told |= {state.node for batch in after for state in batch.states}
    return sorted(told)


def test_the_schedulers_name_stands_for_the_longer_ones_of_other_sources() -> None:
    assert joined(seen(FULL, "n002.cluster.example"), scheduled("n001", "n002")) == ["n001", "n002"]
    assert joined(seen("n001"), scheduled(FULL)) == [FULL]
    assert joined(seen(FULL), seen("N001"), seen("n001.cluster")) == ["N001"]
    assert joined(seen(f"{FULL}."), seen(FULL)) == [FULL]


def test_a_name_that_nothing_is_like_stays_as_it_is() -> None:
    assert joined(seen(FULL), seen("n002.cluster.example")) == [FULL, "n002.cluster.example"]


def test_what_was_known_first_keeps_its_name() -> None:
    names = Names()
    assert joined(seen(FULL), names=names) == [FULL]
    assert joined(scheduled("n001"), names=names) == [FULL]
    assert names.joined == {"n001": FULL}


def test_two_domains_are_kept_apart_and_said() -> None:
    names = Names()
    batches = [seen("n001.a.example", "n001.b.example"), scheduled("n001")]
    assert [note.count for note in names.learn(batches)] == [2]
    assert joined(*batches, names=names) == ["n001", "n001.a.example", "n001.b.example"]


def test_a_second_domain_that_comes_later_is_another_node() -> None:
    names = Names()
    assert joined(seen("n001.a.example"), scheduled("n001"), names=names) == ["n001"]
    assert joined(seen("n001.b.example"), names=names) == ["n001.b.example"]
    assert joined(seen("n001.a.example"), names=names) == ["n001"]


@pytest.mark.parametrize("name", ["10.1.2.3", "10.1.2.4", "fe80::1", "rack 1.node", "<b>.x", "1.x"])
def test_addresses_and_what_is_no_host_name_are_not_shortened(name: str) -> None:
    assert joined(seen(name), seen("10"), seen("rack"), seen("1")) == sorted(
        {name, "10", "rack", "1"}
    )


def test_a_schedulers_addresses_are_its_nodes() -> None:
    batches = [seen("10.1.2.3"), scheduled("n001", "n002", n001="10.1.2.3", n002="10.1.2.4")]
    assert joined(*batches) == ["n001", "n002"]


def test_an_address_of_several_nodes_or_of_loopback_is_nobodys() -> None:
    batches = [seen("10.1.2.3"), scheduled("n001", "n002", n001="10.1.2.3", n002="10.1.2.3")]
    assert joined(*batches) == ["10.1.2.3", "n001", "n002"]
    assert joined(seen("127.0.0.1"), scheduled("n001", n001="127.0.0.1")) == ["127.0.0.1", "n001"]


def test_an_address_that_moves_is_the_new_nodes() -> None:
    names = Names()
    joined(scheduled("n001", "n002", n001="10.1.2.3", n002="10.1.2.4"), names=names)
    joined(scheduled("n001", "n002", n001="10.1.2.4", n002="10.1.2.3"), names=names)
    assert joined(seen("10.1.2.3"), names=names) == ["n002"]


def test_everything_of_a_batch_is_renamed_and_nothing_else() -> None:
    names = Names()
    keys = ((FULL, "gpu0"), ("n002", "gpu0"))
    column = Readings("gpu_temp_celsius", keys, np.array([1.0, 2.0]), np.array([0.0, 0.0]))
    batch = Batch(
        T0,
        "x",
        nodes=(Node(FULL), Node("n002")),
        events=(Event(FULL, "xid.79", "x"),),
        facts=(Fact(FULL, "kernel", "6"),),
        jobs=(Job("1", "RUNNING", nodes=(FULL, "n002")),),
        maintenance=(Maintenance(T0, T0, (FULL,)),),
        columns=(column,),
    )
    names.learn([scheduled("n001"), batch])
    after = names.renamed(batch)
    assert [n.name for n in after.nodes] == ["n001", "n002"]
    assert after.events[0].node == after.facts[0].node == after.maintenance[0].nodes[0] == "n001"
    assert after.jobs[0].nodes == ("n001", "n002")
    assert after.columns[0].keys == (("n001", "gpu0"), ("n002", "gpu0"))
    assert names.renamed(batch).columns[0].keys is after.columns[0].keys
    other = seen("n002")
    assert names.renamed(other) is other


def arrival(batch: Batch) -> Arrival:
    return Arrival(batch.source, batch, "1", 0.0)


def off_the_bus(node: str) -> Batch:
    return Batch(T0, "kern.log", events=(Event(node, "xid.79", "NVRM: Xid: 79", "gpu3", T0),))


def test_a_hub_that_starts_anew_still_knows_who_is_who(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        hub = Hub(ledger, T0)
        hub.step([arrival(seen("n001.a.example")), arrival(scheduled("n001"))], T0)
    with Ledger(tmp_path) as ledger:
        hub = Hub(ledger, T0)
        later = T0 + timedelta(seconds=1)
        hub.step([arrival(seen("n001.b.example")), arrival(off_the_bus("n001.a.example"))], later)
        hub.close(later)
    with Reading(tmp_path) as reading:
        assert [row.finding.subject.node for row in reading.findings()] == ["n001"]
        assert reading.named("n001.a.example") == "n001"
        assert reading.named("n001.b.example") == "n001.b.example"
        assert reading.why(reading.named("n001.a.example")).node.node.name == "n001"


def test_a_node_known_by_its_long_name_is_found_by_its_short_one(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        Hub(ledger, T0).step([arrival(off_the_bus(FULL))], T0)
    with Reading(tmp_path) as reading:
        assert reading.named("n001") == FULL
        assert reading.named("n00") == "n00"


class Says:
    """A source that always says the same."""

    every_s = 1.0

    def __init__(self, batch: Batch) -> None:
        self.name = batch.source
        self._batch = batch

    def poll(self, cursor: str) -> tuple[Batch, str]:
        return self._batch, cursor


def test_one_look_joins_what_its_sources_say() -> None:
    settings = Settings(rules=Rules())
    found = scan(
        [Says(seen(FULL)), Says(scheduled("n001")), Says(off_the_bus("n001"))], [], T0, settings
    )
    assert [row.node for row in found.rows] == ["n001"]
    assert found.exit_code == 2


@pytest.mark.parametrize("name", ["", "n\n1", "\x1b[31mn1", "n" * 254])
def test_what_cannot_be_a_name_names_no_node(name: str) -> None:
    left = plausible(seen(name, "n1"), T0)
    assert [s.node for s in left.samples] == ["n1"]
    assert [(n.what, n.count) for n in left.notes] == [("samples that name no node, left out", 1)]
