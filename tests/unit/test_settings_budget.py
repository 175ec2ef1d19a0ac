"""The false suspects that a site allows reach the detectors."""

import subprocess
import sys

import pytest

from bigiron.config import parse
from bigiron.errors import ConfigError

TURNS = """
from datetime import UTC, datetime
from bigiron.config import parse
from bigiron.detect import fold
from bigiron.hub.memory import Limits, Memory
from bigiron.hub.settings import settings
from bigiron.hub.turn import Standing, turn

@fold()
def listener():
    \"\"\"Says what it is told.\"\"\"
    return Listener()

class Listener:
    name, reads = "listener", ()
    def start(self, fleet):
        return {}
    def step(self, before, block):
        print(block.false_per_node_day)
        return before, []

for text in ("hub.false_suspects = 2.0", ""):
    now = datetime(2026, 5, 4, tzinfo=UTC)
    turn(Memory(Limits()), Standing(), now, settings(parse(text, "site.toml")))
"""


def test_what_a_site_allows_is_what_a_fold_is_told() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TURNS], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == ["0.002", "0.0005"], done.stderr


@pytest.mark.parametrize("value", ["0", "-1", "1000", '"few"'])
def test_an_impossible_number_is_refused_by_file_and_key(value: str) -> None:
    with pytest.raises(ConfigError, match=r"site\.toml: hub\.false_suspects"):
        parse(f"[hub]\nfalse_suspects = {value}\n", "site.toml")
