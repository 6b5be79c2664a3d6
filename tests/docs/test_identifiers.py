"""Files, modules and identifiers that documentation and docstrings name exist."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, docstrings, pages, tracked_files

_BACKTICKED = re.compile(r"`([^`\s]+)`")
_PYTHON_FILE = re.compile(r"[\w./-]+\.py")
_DOCS_FILE = re.compile(r"\b(?:docs|deploy)/[\w./-]+\.md\b")
_DOTTED = re.compile(r"hotmap(\.\w+)+")
_ROOMS = "agent|cli|controller|core|kube|local|volume"
_SLASHED = re.compile(rf"(?:src/hotmap/|hotmap/)?(?:{_ROOMS})(?:/[a-z_]+)+")

#: Design notes that are no part of the project.
_FOREIGN = re.compile(r"\b(?:DESIGN|STYLE)(?:\.md)? §")


def is_module(name: str) -> bool:
    """Return whether a path such as `kube/watch` is a module, a package or a folder."""
    base = "src/hotmap/" + name.removeprefix("src/").removeprefix("hotmap/")
    return any(file == f"{base}.py" or file.startswith(f"{base}/") for file in tracked_files())


def is_identifier(dotted: str) -> bool:
    """Return whether a dotted name is a module of ours or something in it."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.util.find_spec(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        if found is not None:
            value: object = importlib.import_module(".".join(parts[:length]))
            for name in parts[length:]:
                if not hasattr(value, name):
                    return False
                value = getattr(value, name)
            return True
    return False


def dead_references(text: str) -> list[str]:
    """Find what a text names and the tree does not have."""
    # Paths of other projects, such as kubernetes: pkg/kubelet/…, are not backticked Python files.
    dead = [name for name in _DOCS_FILE.findall(text) if name not in tracked_files()]
    dead += _FOREIGN.findall(text)
    for word in _BACKTICKED.findall(text):
        if _PYTHON_FILE.fullmatch(word):
            there = any(f"/{file}".endswith(f"/{word.lstrip('./')}") for file in tracked_files())
        elif _DOTTED.fullmatch(word):
            there = word.endswith(".dev") or is_identifier(word)
        elif _SLASHED.fullmatch(word):
            there = is_module(word)
        else:
            continue
        dead += [] if there else [word]
    return dead


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_page_names_what_exists(page: Path) -> None:
    """Files, modules and dotted names in backticks."""
    text = page.read_text()
    assert dead_references(re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)) == []


def test_sources_name_existing_pages() -> None:
    """Comments too: pages exist, and no design notes are cited that are no part of the project."""
    dead = set()
    for name in tracked_files():
        if name.startswith(("src/", "tests/", "benchmarks/")) and name.endswith(".py"):
            text = (ROOT / name).read_text()
            found = [page for page in _DOCS_FILE.findall(text) if page not in tracked_files()]
            dead |= {(name, one) for one in [*found, *_FOREIGN.findall(text)]}
    assert dead == set()


def test_docstrings_name_what_exists() -> None:
    """The same in every docstring of the program."""
    dead = {(name, one) for name, text in docstrings() for one in dead_references(text)}
    assert dead == set()
