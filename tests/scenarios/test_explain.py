from datetime import timedelta

from tests.scenarios.stage import Stage

from bigiron.model import Change, Health, Maintenance, NodeState, Severity

NODES = [f"c{i:02d}" for i in range(24)]


def fleet() -> Stage:
    return Stage(NODES, gpus=0)


def placed() -> Stage:
    """24 nodes in three racks of eight, each with a leaf switch of its own."""
    stage = fleet()
    for number, node in enumerate(NODES):
        stage.place(node, rack=f"r{number // 8}", leaf=f"leaf{number // 8}")
    return stage


def blamed(stage: Stage) -> set[str]:
    """Every node that a finding worse than info was ever opened about."""
    return {
        change.finding.subject.node
        for outcome in stage.outcomes
        for change in outcome.changes
        if not change.finding.subject.by and change.finding.severity is not Severity.INFO
    }


def test_links_of_one_leaf_that_go_down_together_are_one_finding_about_the_leaf() -> None:
    stage = placed()
    stage.run(10)
    for node in NODES[8:16]:
        stage.happens(node, "ib.link_down", "ib0")
    stage.run(5)
    assert blamed(stage) == set()
    groups = [f for f in stage.open.values() if f.subject.by]
    assert [(f.fault, f.subject.key) for f in groups] == [("leaf_bad", "leaf:leaf1")]
    assert all(stage.health(node) is Health.HEALTHY for node in NODES[8:16])
    assert stage.actions == []


def test_links_of_scattered_nodes_are_their_own() -> None:
    stage = placed()
    stage.run(10)
    for node in ("c01", "c12"):
        stage.happens(node, "ib.link_down", "ib0")
    stage.run(5)
    assert blamed(stage) == {"c01", "c12"}


def test_a_link_that_stays_down_when_its_leaf_is_well_is_told_after_all() -> None:
    stage = placed()
    stage.run(10)
    for node in NODES[8:16]:
        stage.happens(node, "ib.link_down", "ib0")
    stage.run(5)
    for node in NODES[9:16]:
        stage.happens(node, "ib.link_up", "ib0")
    stage.run(30)
    assert blamed(stage) == set()
    stage.run(150)
    assert blamed(stage) == {"c08"}


def test_a_gpu_that_breaks_while_its_leaf_is_bad_is_its_own_fault() -> None:
    stage = placed()
    stage.run(10)
    for node in NODES[8:16]:
        stage.happens(node, "ib.link_down", "ib0")
    stage.happens("c09", "xid.79", "gpu3")
    stage.run(5)
    assert "xid.79 c09/gpu3" in stage.open
    assert blamed(stage) == {"c09"}


def test_what_happens_in_a_nodes_own_planned_work_blames_nobody() -> None:
    stage = fleet()
    stage.run(10)
    state = NodeState("c03", "maint", "planned firmware", since=stage.now, time=stage.now)
    stage.take(states=(state,))
    stage.run(10)
    stage.happens("c03", "ib.link_down", "ib0")
    stage.happens("c03", "xid.79", "gpu3")
    stage.run(10)
    assert blamed(stage) == set()


def test_what_is_still_so_after_planned_work_and_its_grace_is_told() -> None:
    stage = fleet()
    stage.run(10)
    start = stage.now
    work = Maintenance(start, start + timedelta(minutes=30), ("c03",), "firmware")
    stage.take(maintenance=(work,))
    stage.run(5)
    stage.silent("c03")
    stage.run(40)
    assert blamed(stage) == set()
    stage.run(40)
    assert blamed(stage) == {"c03"}
    text = " ".join(stage.open["node.missing c03"].because)
    assert "it has not come back" in text


def test_a_fault_for_which_a_node_was_drained_stands() -> None:
    stage = fleet()
    stage.run(10)
    stage.happens("c03", "xid.79", "gpu3")
    stage.run()
    state = NodeState("c03", "drain", "NHC: GPU lost", since=stage.now, time=stage.now)
    stage.take(states=(state,))
    stage.run(20)
    assert "xid.79 c03/gpu3" in stage.open
    assert stage.changes(Change.CLOSE) == []
