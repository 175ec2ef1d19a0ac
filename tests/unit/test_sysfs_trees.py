"""The captured hosts are what their makers make, small, and whole by themselves."""

import os
from pathlib import Path

import pytest
from tests.hosts.make_sysfs import make
from tests.unit.collected import HOSTS, NAMES


def contents(root: Path) -> dict[str, bytes | str]:
    """Every file's bytes and every link's target, by path."""
    found: dict[str, bytes | str] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            at = Path(folder) / name
            if at.is_symlink():
                found[str(at.relative_to(root))] = str(at.readlink())
            elif at.is_file():
                found[str(at.relative_to(root))] = at.read_bytes()
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_captured_host_is_as_it_is_made(name: str, tmp_path: Path) -> None:
    made = contents(make(tmp_path, name))
    kept = contents(HOSTS / name)
    different = [path for path, content in made.items() if kept.get(path) != content]
    assert different == [], "run: python -m tests.hosts.make_sysfs"


@pytest.mark.parametrize("name", NAMES)
def test_a_captured_host_is_small_and_its_links_lead_nowhere_else(name: str) -> None:
    found = contents(HOSTS / name)
    assert sum(len(one) for one in found.values() if isinstance(one, bytes)) < 300_000
    root = (HOSTS / name).resolve()
    for path, target in found.items():
        if isinstance(target, str):
            assert (root / path).resolve(strict=True).is_relative_to(root), path
