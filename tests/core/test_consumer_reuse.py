"""A workload that changes mostly changes its status: what its template says is kept."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.objects import deployment, workload

from hotmap.core.model.consumer import Consumer
from hotmap.core.model.consumer_conversion import consumer_from_workload
from hotmap.core.model.objects import Workload

ENV = """
containers:
- name: web
  env:
  - name: LEVEL
    valueFrom: {configMapKeyRef: {name: %s, key: level}}
"""


def known() -> Consumer:
    return deployment(ENV % "app", generation=4)


def used(consumer: Consumer) -> set[str]:
    return {source.name for source in consumer.uses.sources()}


def test_same_generation_reuses_uses() -> None:
    """Nothing but the generation says so: the template is not looked at."""
    item = workload(
        ENV % "other", generation=4, rolling=True, annotations={"hotmap.dev/follow": "1"}
    )
    again = consumer_from_workload("Deployment", item, known=known())
    assert used(again) == {"app"}
    assert again.rolling
    assert again.annotations == {"hotmap.dev/follow": "1"}


def _with(item: Workload, **metadata: Any) -> Workload:
    changed = msgspec.structs.replace(item.metadata, **metadata)
    return msgspec.structs.replace(item, metadata=changed)


@pytest.mark.parametrize(
    "item",
    [
        workload(ENV % "other", generation=5),
        _with(workload(ENV % "other", generation=4), uid="uid-of-another"),
        workload(ENV % "other", generation=3),
    ],
    ids=["edited", "made again", "an older one"],
)
def test_changed_generation_is_decoded_again(item: Workload) -> None:
    """Another generation, or another object of the name, may use anything."""
    assert used(consumer_from_workload("Deployment", item, known=known())) == {"other"}


def test_objects_without_generation_are_decoded() -> None:
    """A server that does not count says nothing by 0."""
    before = deployment(ENV % "app", generation=0)
    item = workload(ENV % "other", generation=0)
    assert used(consumer_from_workload("Deployment", item, known=before)) == {"other"}


@pytest.mark.parametrize("generation", [3, 4, 5])
def test_reuse_changes_nothing_else(generation: int) -> None:
    """Made with or without what was known, a consumer of the same template is the same."""
    item = workload(ENV % "app", generation=generation, rolling=True, revision="k.x", replicas=3)
    alone = consumer_from_workload("Deployment", item)
    assert consumer_from_workload("Deployment", item, known=known()) == alone
