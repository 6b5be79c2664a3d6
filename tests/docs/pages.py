"""The documentation pages and the tracked files of the project."""

from __future__ import annotations

import ast
import functools
import subprocess
from collections.abc import Iterator
from pathlib import Path

__all__ = ["ROOT", "docstrings", "pages", "tracked_files"]

ROOT = Path(__file__).parents[2]


@functools.cache
def tracked_files() -> frozenset[str]:
    """List the files of the working tree that git tracks or would track."""
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return frozenset(name for name in done.stdout.splitlines() if (ROOT / name).exists())


def pages() -> list[Path]:
    """List every Markdown file."""
    return [ROOT / name for name in sorted(tracked_files()) if name.endswith(".md")]


def docstrings() -> Iterator[tuple[str, str]]:
    """Yield every docstring of the program with the file that has it."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for name in sorted(tracked_files()):
        if name.startswith("src/") and name.endswith(".py"):
            for node in ast.walk(ast.parse((ROOT / name).read_text())):
                if isinstance(node, kinds) and (text := ast.get_docstring(node)):
                    yield name, text
