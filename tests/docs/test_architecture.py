"""docs/architecture.md names files and functions that exist, and all modules of `core.decide`."""

from __future__ import annotations

import re

import pytest
from tests.docs.pages import ROOT
from tests.docs.test_identifiers import is_identifier

_PAGE = (ROOT / "docs" / "architecture.md").read_text()
_STEP = re.compile(r"^\| (\d+) \| `([\w/]+)\.py` \| `([\w.]+)` \|", re.MULTILINE)


@pytest.mark.parametrize(("number", "file", "function"), _STEP.findall(_PAGE))
def test_steps_start_at_existing_functions(number: str, file: str, function: str) -> None:
    """A reader finds the function in the file of the step."""
    assert is_identifier(f"hotmap.{file.replace('/', '.')}.{function}"), number


def test_steps_are_numbered_without_a_gap() -> None:
    """The text says how many: of the controller, the agent, a local write and a local pod."""
    numbers = [int(number) for number, _, _ in _STEP.findall(_PAGE)]
    assert numbers == [*range(1, 13), *range(1, 9), *range(1, 8), *range(1, 9)]


def test_each_module_of_decide_is_described() -> None:
    """Step 9 is the part that a reader cannot guess from names alone."""
    table = _PAGE[_PAGE.index("| `core/decide/` |") : _PAGE.index("## From a decision")]
    modules = {path.stem for path in (ROOT / "src/hotmap/core/decide").glob("[a-z]*.py")}
    assert modules - set(re.findall(r"`(\w+)`", table)) == {"decide"}
