"""hotmap does what the original prometheus-config-reloader did with the same command lines."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.agent.reloader_cases import CASES, RECORDED, run

_HOTMAP = (sys.executable, "-m", "hotmap", "prometheus-config-reloader")

_recorded = json.loads(RECORDED.read_text())


def test_each_case_is_recorded() -> None:
    """A new case needs a run of the original program."""
    assert _recorded.keys() == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_result_is_that_of_the_original_program(tmp_path: Path, name: str) -> None:
    """Output and its mode, calls in their order, names and types of metrics, success."""
    assert run(_HOTMAP, CASES[name], tmp_path) == _recorded[name]
