"""The local API server answers as a real kube-apiserver did: status, headers, body."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.conformance.cases import SUBJECTS
from tests.conformance.known_differences import DIFFERENCES
from tests.conformance.recording import Answer, differences, read_answers, read_kubeconfig, replay

from hotmap.local.cluster import LocalCluster, PlaneSettings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Answer]]:
    """Return what the local API server answers to all requests, by subject and name."""
    return asyncio.run(_replay(tmp_path_factory.mktemp("plane") / "state"))


async def _replay(directory: Path) -> dict[str, dict[str, Answer]]:
    settings = PlaneSettings(rbac=True, controllers=())
    async with LocalCluster(directory, start_node=False, settings=settings) as plane:
        return await replay(read_kubeconfig(plane.kubeconfig), SUBJECTS)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_answers_equal_recorded_ones(answers: dict[str, dict[str, Answer]], subject: str) -> None:
    recorded = read_answers(subject)
    assert [call.name for call in SUBJECTS[subject]] == list(recorded), "record again"
    wrong = []
    for name, expected in recorded.items():
        found = list(differences(answers[subject][name]._asdict(), expected._asdict()))
        known = f"{subject}: {name}" in DIFFERENCES
        if found and not known:
            wrong.append("\n  ".join([f"{name}:", *found]))
        if known and not found:
            wrong.append(f"{name}: equal by now, take it off the list")
    assert not wrong, "\n".join(wrong)


def test_enough_answers_are_recorded() -> None:
    assert sum(len(read_answers(subject)) for subject in SUBJECTS) >= 400
