"""How the index joins an Argo Rollout and the Deployment whose template it uses.

The stores are filled by hand; test_workload_kinds_real_control_plane.py has the same with an API
server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from tests.support.objects import ENV, deployment, rollout

from hotmap.controller.watch.changes import ChangeListener, Enqueue
from hotmap.controller.watch.index import Index
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.policy.policy import Defaults

FOLLOW = {"hotmap.dev/follow": "auto"}
LISTED = {"hotmap.dev/follow": "configmap/app"}
APP = ObjectKey("ConfigMap", "shop", "app")
WEB = ObjectKey("Deployment", "shop", "web")
BORROWS = ("Deployment", "web")


class Joined:
    """An index, and the keys that it asks to be looked at once they are settled."""

    def __init__(self) -> None:
        self.index = Index(defaults=Defaults())
        self.reconciles: list[ObjectKey] = []
        ChangeListener(self.index).set_queues(
            Enqueue(refresh=lambda key: None, reconcile=lambda key, *_: self.reconciles.append(key))
        )

    def put(self, consumer: Consumer, name: str = "web") -> None:
        key = consumer.key._replace(name=name)
        self.reconciles.clear()
        self.index.consumers[key.kind].put(key, msgspec.structs.replace(consumer, key=key))

    def remove(self, name: str) -> None:
        self.reconciles.clear()
        self.index.consumers["Rollout"].remove(ObjectKey("Rollout", "shop", name))

    def web(self) -> Consumer:
        found = self.index.consumer(WEB)
        assert found is not None
        return found


def lent(annotations: Mapping[str, str] | None = None, **options: Any) -> Consumer:
    return deployment(ENV, replicas=0, annotations=annotations, **options)


def borrows(**options: Any) -> Consumer:
    return rollout(template_in=BORROWS, **options)


@pytest.fixture
def joined() -> Joined:
    return Joined()


def test_deployment_is_the_consumer(joined: Joined) -> None:
    """A change of its sources asks for it, once, whichever of the two says that it follows."""
    joined.put(lent())
    joined.put(borrows(annotations=FOLLOW), "front")
    assert [item.key for item in joined.index.followers_of(APP)] == [WEB]
    assert [consumer.key for consumer in joined.index.all_consumers()] == [WEB]
    assert joined.web().replicas == 1


@pytest.mark.parametrize("annotations", [LISTED, {"configmap.reloader.stakater.com/reload": "app"}])
def test_sources_that_the_rollout_lists_are_followed_by_the_deployment(
    joined: Joined, annotations: dict[str, str]
) -> None:
    """The Rollout is not written: Argo refuses one that has a template beside workloadRef."""
    joined.put(deployment("", replicas=0))
    joined.put(borrows(annotations=annotations), "front")
    assert [item.key for item in joined.index.followers_of(APP)] == [WEB]
    assert joined.index.policies.of(joined.web()).opted_in
    (front,) = joined.index.consumers["Rollout"].values()
    assert not joined.index.policies.of(front).opted_in


def test_rollout_with_the_template_of_a_replica_set_is_not_written(joined: Joined) -> None:
    """That object is not watched, which the annotation's problem says."""
    joined.put(rollout(template_in=("ReplicaSet", "web"), annotations=LISTED), "front")
    (front,) = joined.index.consumers["Rollout"].values()
    policy = joined.index.policies.of(front)
    assert (policy.opted_in, len(policy.problems)) == (False, 1)
    assert joined.index.followers_of(APP) == []


def test_rollout_and_deployment_appear_in_any_order(joined: Joined) -> None:
    """The Deployment is queued when the second of them is observed."""
    joined.put(borrows(annotations=FOLLOW), "front")
    assert joined.reconciles == []
    joined.put(lent())
    assert joined.reconciles == [WEB]
    other = Joined()
    other.put(lent())
    assert other.reconciles == []
    other.put(borrows(annotations=FOLLOW), "front")
    assert other.reconciles == [WEB]


def test_rollout_annotations_are_read_again(joined: Joined) -> None:
    """Opting out asks for a last look, and opting in for a first one."""
    joined.put(lent())
    joined.put(borrows(annotations=FOLLOW), "front")
    assert joined.index.policies.of(joined.web()).opted_in
    joined.put(borrows(), "front")
    assert joined.reconciles == [WEB]
    assert not joined.index.policies.of(joined.web()).opted_in


def test_progress_is_read_from_the_deployment(joined: Joined) -> None:
    """Its status alone asks for nothing but when a rollout begins or ends."""
    joined.put(lent(FOLLOW))
    joined.put(borrows(promoted=False), "front")
    assert joined.web().rolling
    joined.put(msgspec.structs.replace(borrows(promoted=False), resource_version="2"), "front")
    assert joined.reconciles == []
    joined.put(borrows(), "front")
    assert joined.reconciles == [WEB]
    assert not joined.web().rolling


def test_deployment_without_rollout_is_followed_again(joined: Joined) -> None:
    """Scaled to zero, it has no pods then."""
    joined.put(lent(FOLLOW))
    joined.put(borrows(), "front")
    assert joined.web().replicas == 1
    joined.remove("front")
    assert joined.reconciles == [WEB]
    assert joined.web().replicas == 0


def test_rollout_switches_to_another_template(joined: Joined) -> None:
    """Both Deployments are looked at again."""
    joined.put(lent(FOLLOW))
    joined.put(lent(FOLLOW), "next")
    joined.put(borrows(), "front")
    joined.put(rollout(template_in=("Deployment", "next"), generation=2), "front")
    assert sorted(key.name for key in joined.reconciles) == ["next", "web"]
    assert joined.web().replicas == 0


def test_one_of_two_rollouts_is_deleted(joined: Joined) -> None:
    """The other one still uses the template."""
    joined.put(lent(FOLLOW))
    joined.put(borrows(), "front")
    joined.put(borrows(), "other")
    joined.remove("front")
    assert joined.web().replicas == 1
