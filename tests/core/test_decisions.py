"""Snapshots as files give the decisions that stand beside them under the same name."""

from __future__ import annotations

import json

import pytest
from tests.core.decisions import FOLDER, names, read_case, replay

from hotmap.core.decide.document import read_snapshot, snapshot_document


@pytest.mark.parametrize("name", sorted(names("input")))
def test_snapshot_gives_the_expected_decision(name: str) -> None:
    """Equal snapshots give equal decisions."""
    expected = json.loads((FOLDER / "output" / f"{name}.json").read_text())
    assert replay(read_case(name)) == expected


@pytest.mark.parametrize("name", sorted(names("input")))
def test_snapshot_is_read_as_it_was_written(name: str) -> None:
    """Nothing is lost on the way to a file and back."""
    document = read_case(name)["snapshot"]
    assert json.loads(json.dumps(snapshot_document(read_snapshot(document)))) == document


def test_every_case_has_an_input_and_an_output() -> None:
    """A case is the same name in both folders."""
    assert names("input") == names("output")
    assert len(names("input")) >= 40
