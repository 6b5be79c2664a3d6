"""The real kubectl prints of the local API server what it prints of Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.conformance.conftest import run_cluster
from tests.conformance.known_line_differences import DIFFERENCES
from tests.conformance.kubectl_recording import numbered, read_outputs, run_subject, write_files
from tests.conformance.lines import SUBJECTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.conftest import Kubectl

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def fresh_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """A cluster without a node, of which these lines are the only user."""
    yield from run_cluster(tmp_path_factory.mktemp("lines"), "plane")


@pytest.mark.parametrize("subject", SUBJECTS)
def test_kubectl_prints_what_was_recorded(fresh_plane: Kubectl, subject: str) -> None:
    expected = read_outputs(subject)
    assert [name for name, _ in numbered(subject)] == list(expected), "record again"
    write_files(fresh_plane)
    wrong = []
    for name, output in run_subject(fresh_plane, subject, expected):
        known = f"{subject}: {name}" in DIFFERENCES
        if output != expected[name] and not known:
            wrong.append(f"kubectl {name}\n{output}\ninstead of\n{expected[name]}")
    assert not wrong, "\n\n".join(wrong)


def test_enough_lines_are_recorded() -> None:
    assert sum(map(len, SUBJECTS.values())) >= 1810
