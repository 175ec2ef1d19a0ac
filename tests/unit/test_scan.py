from math import comb
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigiron.detect.shared_cause.families import family, named
from bigiron.detect.shared_cause.scan import grouped, likelihood_ratio, scan, upper_tail


def test_three_of_an_18_node_rack_when_20_of_2048_are_odd_is_rare() -> None:
    assert upper_tail(2048, 20, 18, 3) == pytest.approx(6e-4, rel=0.2)


@given(st.integers(2, 40), st.data())
def test_the_tail_is_that_of_counting(total: int, data: st.DataObject) -> None:
    odd = data.draw(st.integers(0, total))
    size = data.draw(st.integers(1, total))
    held = data.draw(st.integers(0, size))
    ways = sum(
        comb(odd, k) * comb(total - odd, size - k)
        for k in range(held, min(size, odd) + 1)
        if size - k <= total - odd
    )
    assert upper_tail(total, odd, size, held) == pytest.approx(ways / comb(total, size), abs=1e-9)


def test_evenly_spread_is_no_group() -> None:
    assert likelihood_ratio(100, 20, 10, 2) == 0.0
    assert likelihood_ratio(100, 20, 10, 9) > 5


NODES = [f"n{i:02d}" for i in range(48)]
RACKS = grouped((n, f"r{i // 8}") for i, n in enumerate(NODES))
LEAVES = grouped((n, f"l{i // 16}") for i, n in enumerate(NODES))
LEVELS = {"leaf": LEAVES, "rack": RACKS}


def test_the_level_that_holds_them_all_is_named() -> None:
    (hit,) = scan(set(NODES[16:32]), set(NODES), LEVELS)
    assert (hit.by, hit.group, len(hit.marked)) == ("leaf", "l1", 16)


def test_the_smaller_group_is_named_where_only_it_is_odd() -> None:
    (hit,) = scan(set(NODES[8:16]), set(NODES), LEVELS)
    assert (hit.by, hit.group) == ("rack", "r1")


def test_two_groups_are_two_causes() -> None:
    hits = scan({*NODES[0:8], *NODES[40:48]}, set(NODES), LEVELS)
    assert {(h.by, h.group) for h in hits} == {("rack", "r0"), ("rack", "r5")}


def test_what_is_odd_everywhere_has_no_group() -> None:
    assert scan(set(NODES), set(NODES), LEVELS) == []


def test_scattered_or_few_are_nobodys() -> None:
    assert scan(set(NODES[::8]), set(NODES), LEVELS) == []
    assert scan({"n00", "n01"}, set(NODES), LEVELS) == []


def test_most_groups_at_once_are_as_many_causes_and_all_of_them_are_none() -> None:
    groups = {f"r{g}": frozenset(f"n{g}{i}" for i in range(8)) for g in range(3)}
    everyone = frozenset().union(*groups.values())
    found = scan(groups["r0"] | groups["r1"], everyone, {"rack": groups})
    assert {hit.group for hit in found} == {"r0", "r1"}
    assert scan(everyone, everyone, {"rack": groups}) == []


@pytest.mark.parametrize("share", [0.1, 0.4, 0.6, 0.8])
def test_what_is_odd_by_chance_sits_together_hardly_ever(share: float) -> None:
    dice = Random(20260504)
    groups = {f"r{g}": frozenset(f"n{g}-{i}" for i in range(8)) for g in range(12)}
    nodes = sorted(frozenset().union(*groups.values()))
    tries = [{node for node in nodes if dice.random() < share} for _ in range(300)]
    assert sum(bool(scan(odd, set(nodes), {"rack": groups})) for odd in tries) <= 2


def test_equal_groups_go_to_the_level_named_first() -> None:
    same = {"pdu": RACKS, "rack": RACKS}
    (hit,) = scan(set(NODES[0:8]), set(NODES), same)
    assert hit.by == "pdu"


@pytest.mark.parametrize(
    ("fault", "of"),
    [
        ("ib.link_down", "link"),
        ("xid.79", "gpu"),
        ("kernel.hung_task", "storage"),
        ("clock.hw_power_brake", "power"),
        ("config.drift.kernel", ""),
        ("hbm_remap", ""),
    ],
)
def test_families(fault: str, of: str) -> None:
    assert family(fault) == of


def test_a_family_on_a_level_has_a_name() -> None:
    assert named("link", "leaf") == "leaf_bad"
    assert named("link", "rack") == "shared_cause.link"
