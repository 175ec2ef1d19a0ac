"""Real programs that system tests start: skipped with a reason, or failed where they must be."""

import os
import shutil

import pytest


def need(program: str, package: str = "") -> str:
    """The program's path. Where BIGIRON_REQUIRE_SERVERS is set its absence fails the test."""
    found = shutil.which(program)
    if found is not None:
        return found
    reason = f"{program} is not installed (Debian package {package or program})"
    if os.environ.get("BIGIRON_REQUIRE_SERVERS"):
        pytest.fail(reason)
    pytest.skip(reason)
