"""What kubectl rollout history and undo read: revisions, their history, and what is kept."""

from __future__ import annotations

from typing import Any

import pytest
from tests.local.controllers.objects import Object, deployment, replica_set

from hotmap.local.controllers.revisions import (
    latest_revision,
    outdated_replica_sets,
    revision_annotations,
)

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"


@pytest.mark.parametrize(
    ("present", "revision", "expected"),
    [
        pytest.param({}, 1, {REVISION: "1"}, id="a first revision has no history"),
        pytest.param(
            {REVISION: "1"}, 3, {REVISION: "3", HISTORY: "1"}, id="an undo notes the earlier one"
        ),
        pytest.param(
            {REVISION: "3", HISTORY: "1"},
            5,
            {REVISION: "5", HISTORY: "1,3"},
            id="and appends the next",
        ),
        pytest.param({REVISION: "9"}, 10, {REVISION: "10", HISTORY: "9"}, id="numbers, not text"),
        pytest.param({REVISION: "7"}, 2, {REVISION: "7"}, id="a revision never falls"),
        pytest.param(
            {REVISION: "x"}, 2, {REVISION: "x"}, id="a value that is not a number is kept"
        ),
    ],
)
def test_revision_annotations_of_new_replica_set(
    present: dict[str, str], revision: int, expected: dict[str, str]
) -> None:
    """What the new ReplicaSet carries when its revision should be *revision*."""
    assert revision_annotations(deployment(), present, revision) == expected


def test_revision_history_annotation_is_bounded() -> None:
    """Endless undoing forgets the oldest revisions and keeps within 2,000 characters."""
    annotations: dict[str, str] = {}
    for revision in range(1, 1500):
        annotations = revision_annotations(deployment(), annotations, revision)
    history = annotations[HISTORY]
    assert len(history) <= 2000
    assert history.endswith(",1497,1498")
    assert not history.startswith(",")


def test_deployment_annotations_are_copied() -> None:
    """The Deployment's annotations are copied, but not those about itself; none is removed."""
    web = deployment()
    web["metadata"]["annotations"] = {
        "kubernetes.io/change-cause": "new image",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        REVISION: "12",
        "deployment.kubernetes.io/desired-replicas": "12",
    }
    assert revision_annotations(web, {"kept": "yes"}, 1) == {
        "kept": "yes",
        "kubernetes.io/change-cause": "new image",
        REVISION: "1",
    }


def _old(name: str, revision: str, replicas: int = 0, **status: Any) -> Object:
    return replica_set(name, replicas, annotations={REVISION: revision}, **status)


def test_latest_revision_is_the_highest_number() -> None:
    """The highest number counts; a value that is not a number is ignored."""
    assert latest_revision([_old("a", "9"), _old("b", "10"), _old("c", "x")]) == 10
    assert latest_revision([]) == 0


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(None, []), (4, []), (2, ["r2", "r9"]), (0, ["r2", "r9", "r10", "r11"])],
)
def test_outdated_replica_sets_exceed_history_limit(limit: int | None, expected: list[str]) -> None:
    """The lowest revision goes first; without a limit all stay."""
    old = [_old("r10", "10"), _old("r2", "2"), _old("r11", "11"), _old("r9", "9")]
    assert [rs["metadata"]["name"] for rs in outdated_replica_sets(old, limit)] == expected


@pytest.mark.parametrize(
    "busy",
    [
        _old("busy", "1", replicas=1),
        _old("busy", "1", reported=1),
        _old("busy", "1", observedGeneration=0),
    ],
)
def test_replica_set_with_pods_is_not_outdated(busy: Object) -> None:
    """Pods wished, pods left, or a spec not observed yet keep an old ReplicaSet."""
    assert outdated_replica_sets([busy], 0) == []
