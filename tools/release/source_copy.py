"""A copy of the tree to build in: what an earlier build left behind must not be packaged."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

__all__ = ["copy_sources"]


def copy_sources(root: Path, folder: Path) -> Path:
    """Copy what a wheel and an sdist are made of into a folder; returns it.

    Files that git does not track are left out, as in a fresh clone.
    """
    wanted = ("src", "pyproject.toml", "README.md", "LICENSE")
    command = ["git", "-C", str(root), "ls-files", "-z", "--", *wanted]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, target)
    return folder
