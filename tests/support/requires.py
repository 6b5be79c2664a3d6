"""Says what a test needs: absent on a person's machine it is skipped, absent in CI it fails.

`HOTMAP_REQUIRE` is a comma-separated list of names that this machine is supposed to have.
"""

from __future__ import annotations

import os

import pytest


def requires(name: str, *, available: bool, reason: str) -> None:
    """Skip the running test when `name` is not available, or fail it where that is promised."""
    if available:
        return
    if name in os.environ.get("HOTMAP_REQUIRE", "").split(","):
        pytest.fail(f"HOTMAP_REQUIRE names {name}, but {reason}", pytrace=False)
    pytest.skip(f"needs {name}: {reason}")
