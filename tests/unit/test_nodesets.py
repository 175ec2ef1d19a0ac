"""Folding and unfolding node names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigiron.errors import ParseError
from bigiron.nodesets import UNFOLD_LIMIT, fold, unfold


@pytest.mark.parametrize(
    ("text", "first", "count"),
    [
        ("n[001-016,020]", "n001", 17),
        ("gpu7", "gpu7", 1),
        ("rack[1-2]n[01-03]", "rack1n01", 6),
        ("a1,b[2-3],c", "a1", 4),
        ("dgx-a[1-2]-ib", "dgx-a1-ib", 2),
        ("n[1-4/2]", "n1", 2),
    ],
)
def test_unfolds_what_slurm_writes(text: str, first: str, count: int) -> None:
    names = unfold(text)
    assert names[0] == first
    assert len(names) == count


@pytest.mark.parametrize("text", ["", "(null)", "None assigned", "N/A", "None", " "])
def test_no_node_is_empty(text: str) -> None:
    assert unfold(text) == ()


@pytest.mark.parametrize(
    "text",
    ["n[1-", "n1 n2", "@all", "n[5-1]", "n*", "n[1-3]!n2", "n[1-2],", f"n[1-{'9' * 5000}]"],
)
def test_a_malformed_list_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        unfold(text)


@pytest.mark.parametrize(
    "text", [f"n[1-{UNFOLD_LIMIT + 1}]", "n[0-999]x[0-999]", "n[1-99999999999]"]
)
def test_expansion_is_capped_before_it_costs_memory(text: str) -> None:
    with pytest.raises(ParseError, match=f"at most {UNFOLD_LIMIT}"):
        unfold(text)


def test_folds_as_operators_write() -> None:
    assert fold(["n3", "n1", "n2", "x7"]) == "n[1-3],x7"
    assert fold([]) == ""
    assert fold(["odd name", "n1"]) == "n1,odd name"


@given(
    st.sets(
        st.builds(
            "{}{:03d}{}".format,
            st.sampled_from(["n", "gpu-", "rack2-node"]),
            st.integers(0, 999),
            st.sampled_from(["", "-ib"]),
        ),
        max_size=60,
    )
)
def test_unfolding_a_fold_gives_the_same_names(names: set[str]) -> None:
    assert set(unfold(fold(names))) == names
