from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from bigiron.decide.judge import judge
from bigiron.decide.policy import TAKES_OUT, Policy, Scene, plan
from bigiron.model import (
    Action,
    ActionKind,
    Blame,
    Finding,
    Health,
    Job,
    Mode,
    NodeState,
    Severity,
    Subject,
    When,
)

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def finding(
    node: str,
    severity: Severity = Severity.CRITICAL,
    action: ActionKind = ActionKind.DRAIN,
    *,
    fault: str = "xid.79",
    when: When = When.JOB_END,
    blame: Blame = Blame.DEVICE,
    confidence: float = 1.0,
    by: str = "",
) -> Finding:
    subject = Subject(by=by, group="g", members=(node,)) if by else Subject(node, "gpu1")
    return Finding(
        "d", fault, severity, subject, NOW, ("it broke",), confidence, blame, action, when
    )


def scene(
    findings: dict[str, Finding],
    nodes: int = 100,
    states: dict[str, NodeState] | None = None,
    jobs: tuple[Job, ...] = (),
    flagged: dict[str, datetime] | None = None,
) -> Scene:
    names = {f"n{i}" for i in range(nodes)}
    verdicts = {
        n: judge(n, {k: f for k, f in findings.items() if f.subject.node == n}, NOW) for n in names
    }
    apart = {n: NOW - timedelta(days=1, hours=i) for i, n in enumerate(sorted(names))}
    return Scene(NOW, names, verdicts, findings, states or {}, jobs, flagged or apart)


def test_an_action_is_asked_for_once() -> None:
    look = scene({"F1": finding("n1")})
    standing, new = plan(look, {}, Policy())
    assert [(a.node, a.kind, a.mode) for a in new] == [("n1", ActionKind.DRAIN, Mode.SHADOW)]
    again, none = plan(look, standing, Policy())
    assert none == ()
    assert again == standing


def test_the_soonest_and_strongest_action_of_a_node_is_the_one() -> None:
    look = scene(
        {
            "F1": finding("n1", Severity.WARNING, ActionKind.CHECK, fault="a"),
            "F2": finding("n1", Severity.FATAL, ActionKind.REBOOT, fault="b", when=When.NOW),
            "F3": finding("n1", Severity.CRITICAL, ActionKind.REPAIR, fault="c"),
        }
    )
    (action,) = plan(look, {}, Policy())[1]
    assert (action.kind, action.when) == (ActionKind.REBOOT, When.NOW)


def test_nodes_out_for_any_reason_use_up_the_budget() -> None:
    states = {f"n{i}": NodeState(f"n{i}", "drain", "an operator's") for i in range(50, 55)}
    look = scene({"F1": finding("n1")}, states=states)
    (action,) = plan(look, {}, Policy(max_out_count=5))[1]
    assert action.held == "budget: 5 nodes are out or asked for, 5 may be"


def test_a_budget_of_nothing_lets_nothing_out() -> None:
    look = scene({"F1": finding("n1")})
    for policy in (Policy(max_out_count=0), Policy(max_out_share=0.0)):
        (action,) = plan(look, {}, policy)[1]
        assert action.held == "budget: 0 nodes are out or asked for, 0 may be"


def test_a_share_leaves_a_small_fleet_one_node() -> None:
    look = scene({"F1": finding("n1"), "F2": finding("n2")}, nodes=8)
    held = [action.held for action in plan(look, {}, Policy(max_out_share=0.01))[1]]
    assert held == ["", "budget: 1 nodes are out or asked for, 1 may be"]


def test_a_held_action_is_asked_for_when_there_is_room_again() -> None:
    states = {f"n{i}": NodeState(f"n{i}", "down") for i in range(50, 55)}
    findings = {"F1": finding("n1")}
    standing, _ = plan(scene(findings, states=states), {}, Policy())
    still, nothing = plan(scene(findings, states=states), standing, Policy())
    assert nothing == ()
    _, new = plan(scene(findings), still, Policy())
    assert [(a.node, a.held) for a in new] == [("n1", "")]


def test_a_node_that_is_out_already_needs_no_room() -> None:
    states = {f"n{i}": NodeState(f"n{i}", "drain") for i in range(1, 6)}
    (action,) = plan(scene({"F1": finding("n1")}, states=states), {}, Policy())[1]
    assert action.held == ""


def test_checks_need_no_room() -> None:
    states = {f"n{i}": NodeState(f"n{i}", "down") for i in range(50, 60)}
    look = scene({"F1": finding("n1", Severity.WARNING, ActionKind.CHECK)}, states=states)
    assert plan(look, {}, Policy())[1][0].held == ""


def test_too_many_at_once_hold_everything() -> None:
    findings = {f"F{i}": finding(f"n{i}") for i in range(40)}
    look = scene(findings, flagged={f"n{i}": NOW for i in range(40)})
    _, new = plan(look, {}, Policy())
    assert {a.held for a in new} == {"breaker: 40 of 100 nodes were flagged within 300 s"}


def test_the_breaker_holds_until_enough_are_well_again_however_long_that_takes() -> None:
    at = NOW - timedelta(days=2)
    findings = {f"F{i}": finding(f"n{i}") for i in range(40)}
    flagged = {f"n{i}": at + timedelta(seconds=6 * i) for i in range(40)}
    _, new = plan(scene(findings, flagged=flagged), {}, Policy())
    assert {a.held for a in new} == {"breaker: 40 of 100 nodes were flagged within 300 s"}
    left = dict(list(flagged.items())[:20])
    _, new = plan(scene({f: findings[f] for f in list(findings)[:20]}, flagged=left), {}, Policy())
    assert [a.held for a in new].count("") == 5


def test_nodes_that_were_flagged_one_by_one_over_days_trip_nothing() -> None:
    findings = {f"F{i}": finding(f"n{i}") for i in range(40)}
    flagged = {f"n{i}": NOW - timedelta(hours=i) for i in range(40)}
    _, new = plan(scene(findings, flagged=flagged), {}, Policy())
    assert [a.held for a in new].count("") == 5


def test_flags_on_most_nodes_of_one_job_hold_everything() -> None:
    running = Job("77", "RUNNING", "ann", nodes=tuple(f"n{i}" for i in range(5)))
    findings = {f"F{i}": finding(f"n{i}") for i in range(3)}
    look = scene(findings, jobs=(running,), flagged={f"n{i}": NOW for i in range(3)})
    _, new = plan(look, {}, Policy())
    assert {a.held for a in new} == {"breaker: 3 of the 5 nodes of job 77 were flagged"}


def test_a_programs_fault_a_groups_and_a_doubtful_one_ask_for_nothing() -> None:
    look = scene(
        {
            "F1": finding("n1", blame=Blame.APPLICATION),
            "F2": finding("n2", by="rack"),
            "F3": finding("n3", confidence=0.4),
        }
    )
    assert plan(look, {}, Policy())[1] == ()


def test_verdicts() -> None:
    def health(**given: Finding) -> Health:
        return judge("n1", given, NOW).health

    assert health() is Health.HEALTHY
    assert health(F1=finding("n1", Severity.INFO)) is Health.HEALTHY
    assert health(F1=finding("n1", Severity.WARNING)) is Health.DEGRADED
    assert health(F1=finding("n1", Severity.FATAL)) is Health.UNHEALTHY
    assert health(F1=finding("n1", Severity.FATAL, confidence=0.3)) is Health.DEGRADED
    assert health(F1=finding("n1", fault="node.missing")) is Health.UNKNOWN
    assert judge("n1", {}, NOW, seen=False).health is Health.UNKNOWN


@given(
    bad=st.lists(st.integers(0, 39), unique=True, max_size=40),
    out=st.lists(st.integers(0, 39), unique=True, max_size=12),
    rounds=st.integers(1, 4),
    count=st.integers(1, 12),
    share=st.floats(0.01, 0.5),
)
def test_the_budget_is_never_exceeded(
    bad: list[int], out: list[int], rounds: int, count: int, share: float
) -> None:
    policy = Policy(max_out_count=count, max_out_share=share)
    states = {f"n{i}": NodeState(f"n{i}", "drain") for i in out}
    standing: dict[str, Action] = {}
    for upto in range(1, rounds + 1):
        some = bad[: len(bad) * upto // rounds]
        look = scene({f"F{i}": finding(f"n{i}") for i in some}, nodes=40, states=states)
        standing, _ = plan(look, standing, policy)
        asked = {a.node for a in standing.values() if not a.held and a.kind in TAKES_OUT}
        room = max(1, min(count, int(share * 40)))
        assert len(asked | set(states)) <= max(room, len(states))
