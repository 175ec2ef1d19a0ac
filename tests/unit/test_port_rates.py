"""Rates of ports in any text: a number or none, and never a traceback."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigiron.ingest.ib_port import rate_gbps


@pytest.mark.parametrize(
    ("said", "rate"),
    [
        ("400 Gb/sec (4X NDR)", 400.0),
        ("2.5 Gb/sec (1X SDR)", 2.5),
        ("200", 200.0),
        (".5", 0.5),
        ("1.2.3", 1.2),
        (".", None),
        ("...", None),
        ("", None),
        ("Gb/sec", None),
    ],
)
def test_the_number_it_begins_with(said: str, rate: float | None) -> None:
    assert rate_gbps(said) == rate


@given(st.text(alphabet="0123456789. GbX/", max_size=40))
def test_any_text_has_a_rate_or_none(said: str) -> None:
    rate = rate_gbps(said)
    assert rate is None or 0 <= rate < 1e10
