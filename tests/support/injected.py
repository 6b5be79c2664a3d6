"""Manifests to which `hotmap inject` has added the agent."""

from __future__ import annotations

import subprocess
import sys

__all__ = ["injected"]


def injected(manifest: str, *arguments: str) -> str:
    """Run `hotmap inject` as a user does; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "hotmap", "inject", "--filename=-", *arguments],
        input=manifest,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
