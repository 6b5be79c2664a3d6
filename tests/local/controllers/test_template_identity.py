"""When two pod templates are the same, and what tells their ReplicaSets apart."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.local.controllers.objects import pod_template, replica_set

from hotmap.local.controllers.template import (
    HASH_LABEL,
    equal_ignoring_hash,
    find_new_replica_set,
    pod_template_hash,
)


def _container(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", **fields}]}}


@pytest.mark.parametrize(
    ("template", "other", "same"),
    [
        (pod_template(), pod_template(), True),
        (pod_template("a"), pod_template("b"), False),
        (pod_template(labels={"app": "web", HASH_LABEL: "x"}), pod_template(), True),
        (pod_template(labels={"app": "web", "x": "y"}), pod_template(), False),
        (pod_template(creationTimestamp=None), pod_template(), True),
        (pod_template(annotations={}), pod_template(), True),
        (pod_template(annotations={"a": ""}), pod_template(), False),
        (_container(tty=False), _container(), True),
        (_container(env=[]), _container(), True),
        (_container(env=[{"name": "A", "value": "1"}]), _container(), False),
        (
            {"spec": {"automountServiceAccountToken": False}},
            {"spec": {}},
            False,
        ),
    ],
)
def test_templates_are_equal_apart_from_hash_label_and_empty_values(
    template: dict[str, Any], other: dict[str, Any], same: bool
) -> None:
    """The hash label, null and empty do not count; everything else does."""
    assert equal_ignoring_hash(template, other) is same
    assert (pod_template_hash(template, None) == pod_template_hash(other, None)) is same


@given(st.text(max_size=20), st.none() | st.integers(0, 9))
def test_template_hash_uses_kubernetes_alphabet(image: str, collisions: int | None) -> None:
    """At most ten characters, each one that a decimal digit can become."""
    label = pod_template_hash(pod_template(image), collisions)
    assert 0 < len(label) <= 10
    assert set(label) <= set("456789bcdf")


def test_template_hash_depends_on_collision_count() -> None:
    """Each count of collisions names the same template again; absent is not zero."""
    names = {pod_template_hash(pod_template(), count) for count in (None, 0, 1, 2)}
    assert len(names) == 4


def test_new_replica_set_is_oldest_equal_one() -> None:
    """Of several with the template the oldest is taken, and by name among equally old ones."""
    sets = [
        replica_set("c", 1, created="2026-01-01T00:00:02Z"),
        replica_set("b", 1, created="2026-01-01T00:00:01Z"),
        replica_set("a", 1, created="2026-01-01T00:00:01Z"),
        replica_set("z", 1, created="2026-01-01T00:00:00Z"),
    ]
    sets[-1]["spec"]["template"] = pod_template("other")
    found = find_new_replica_set(pod_template(), sets)
    assert found is not None
    assert found["metadata"]["name"] == "a"
    assert find_new_replica_set(pod_template("none of them"), sets) is None
