"""Commands import what they need, so that help and status are shown at once."""

from __future__ import annotations

import subprocess
import sys


def _imported(module: str) -> set[str]:
    """Import a module in a process of its own; returns the names of all modules there."""
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_help_imports_no_large_package() -> None:
    """Of the packages from elsewhere, the command line itself needs click only."""
    large = {"asyncio", "aiohttp", "msgspec", "prometheus_client", "rich", "ssl", "yaml"}
    assert not large & _imported("hotmap.cli.main")


def test_status_imports_no_part_of_the_controller_that_decides() -> None:
    """It asks a controller; the rules by which that decides are not needed."""
    imported = _imported("hotmap.cli.status")
    parts = ("hotmap.core.decide", "hotmap.core.policy", "hotmap.local", "prometheus_client")
    assert not [name for name in imported if name.startswith(parts)]
