"""What the repeat offenders' fold remembers: bursts once, in any order, and never too much."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from bigiron.detect import Block, Fleet
from bigiron.detect.repeat.fold import Repeat
from bigiron.detect.repeat.past import MOST_NOTES, Note, State, gap_s, joined, pruned, wanted
from bigiron.model import Event, Finding, NodeState

T0 = datetime(2026, 5, 4, tzinfo=UTC)
FLEET = Fleet()

notes = st.builds(
    lambda t, code, device: Note(t, t, code, device),
    st.integers(0, 40_000).map(float),
    st.sampled_from(("xid.48", "xid.79", "xid.63", "kernel.panic")),
    st.sampled_from(("gpu0", "gpu1")),
)


def gathered(some: list[Note]) -> list[Note]:
    kept: list[Note] = []
    for note in some:
        kept = joined(kept, note)
    return kept


@given(st.lists(notes, max_size=30), st.randoms(use_true_random=False))
def test_bursts_are_the_same_in_whatever_order_their_lines_come(
    some: list[Note], shuffle: Random
) -> None:
    other = list(some)
    shuffle.shuffle(other)
    assert gathered(some) == gathered(other)


@given(st.lists(notes, max_size=30))
def test_bursts_of_one_code_on_one_part_lie_apart(some: list[Note]) -> None:
    kept = gathered(some)
    assert kept == sorted(kept)
    for one in kept:
        for other in kept:
            if one is not other and (one.code, one.device) == (other.code, other.device):
                apart = max(one.first_s, other.first_s) - min(one.last_s, other.last_s)
                assert apart > gap_s(one.code)


def test_a_storm_of_a_month_is_bounded_and_the_newest_stays() -> None:
    kept: tuple[Note, ...] = ()
    for nth in range(3000):
        at_s = 600.0 * nth
        kept = pruned(joined(kept, Note(at_s, at_s, "xid.48", f"gpu{nth % 8}")), at_s)
    assert len(kept) == MOST_NOTES
    assert kept[-1].last_s == 600.0 * 2999


def test_what_only_explains_is_forgotten_after_a_day_and_what_counts_after_a_month() -> None:
    told = [Note(0.0, 0.0, code) for code in ("pcie.aer_correctable", "xid.31", "xid.48")]
    assert [n.code for n in pruned(told, 2 * 86_400.0)] == ["xid.48"]
    assert pruned(told, 31 * 86_400.0) == ()


def test_what_an_earlier_boot_left_behind_is_not_remembered() -> None:
    assert not wanted(Event("a1", "kernel.panic", "x", attrs={"earlier_boot": "yes"}))
    assert not wanted(Event("a1", "sxid.12028", "x", attrs={"severity_word": "Non-fatal"}))
    assert not wanted(Event("a1", "slurm.node_down", "x"))
    assert wanted(Event("a1", "xid.48", "x"))


def test_a_restart_in_the_middle_changes_nothing() -> None:
    """The state as JSON after each step, and one event a step or all at once: the same claims."""
    times = [T0 + timedelta(hours=3 * n) for n in range(6)]
    states = {"a1": NodeState("a1", "alloc", since=T0, time=T0)}
    through: list[str] = []
    for restarts in (False, True):
        fold, state = Repeat(), State()
        found: Sequence[object] = ()
        for at in times:
            event = Event("a1", "xid.48", "line", "gpu3", at, source="k", line=1)
            state, found = fold.step(state, Block(at, fleet=FLEET, events=(event,), states=states))
            if restarts:
                state = msgspec.json.decode(msgspec.json.encode(state), type=State)
        (claimed,) = found
        assert isinstance(claimed, Finding)
        through.append(msgspec.json.encode(claimed).decode())
    assert through[0] == through[1]
