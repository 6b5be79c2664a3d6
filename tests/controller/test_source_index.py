"""The index finds the consumers of a source, and no others, from compact keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.support.objects import NAMESPACE, deployment

from hotmap.controller.watch import policies
from hotmap.controller.watch.index import Index
from hotmap.core.model.consumer import REVISION, Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.policy.annotations import read_policy
from hotmap.core.policy.policy import Defaults

ENV = """
containers:
- name: web
  envFrom: [{configMapRef: {name: app}}]
"""
APP = ObjectKey("ConfigMap", NAMESPACE, "app")


class Twin(ObjectKey):
    """Another source that happens to have the hash of APP."""

    def __hash__(self) -> int:
        return hash(APP)


def test_sources_with_equal_hash_are_distinct() -> None:
    """Who uses one of them does not use the other."""
    index = Index(defaults=Defaults())
    web = deployment(ENV)
    index.consumers["Deployment"].put(web.key, web)
    assert [consumer.key for consumer in index.users_of(APP)] == [web.key]
    assert index.users_of(Twin("ConfigMap", NAMESPACE, "other")) == []


def test_former_users_are_not_found() -> None:
    """A template that names another source is found under that one alone."""
    index = Index(defaults=Defaults())
    for text in (ENV, ENV.replace("app", "other")):
        web = deployment(text, generation=len(text))
        index.consumers["Deployment"].put(web.key, web)
    assert index.users_of(APP) == []
    assert len(index.users_of(APP._replace(name="other"))) == 1


#: Each reads a policy anew, but for those of `_STATUS`.
_READ = {
    "annotations": {"hotmap.dev/follow": "auto"},
    "template_annotations": {"hotmap.dev/follow": "auto"},
    "over_budget": "too many mounts",
    "owned": True,
    "paused": True,
    "paused_by_other": True,
}
_STATUS = {"rolling": True, "generation": 7, "behind": 3, "pods": 5, "resource_version": "12"}


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Consumer]:
    """The consumers whose policies were read."""
    found: list[Consumer] = []
    read: Callable[..., Any] = read_policy

    def note(consumer: Consumer, **rest: Any) -> Any:
        found.append(consumer)
        return read(consumer, **rest)

    monkeypatch.setattr(policies, "read_policy", note)
    return found


@pytest.mark.parametrize("field", [*_READ, *_STATUS])
def test_policy_is_read_again_after_a_change_of_its_input_only(
    field: str, reads: list[Consumer]
) -> None:
    """Most changes of a workload are in its status."""
    index = Index(defaults=Defaults())
    web = deployment(ENV)
    index.consumers["Deployment"].put(web.key, web)
    index.policies.of(web)
    after = msgspec.structs.replace(web, **{field: {**_READ, **_STATUS}[field]})
    index.consumers["Deployment"].put(web.key, after)
    index.policies.of(after)
    assert (after in reads[1:]) == (field in _READ)


def test_policy_is_not_read_again_after_a_rollout(reads: list[Consumer]) -> None:
    """The new revision in the template says nothing of a policy, but for its first."""
    index = Index(defaults=Defaults())
    web = deployment(ENV)
    for revision in ("", "k.first", "k.second"):
        marks = {REVISION: revision} if revision else {}
        web = msgspec.structs.replace(web, template_annotations=marks)
        index.consumers["Deployment"].put(web.key, web)
        index.policies.of(web)
    assert [consumer.template_annotations for consumer in reads] == [{}, {REVISION: "k.first"}]


class _Reads:
    """A consumer that notes which of its fields are read."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.fields: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.fields.add(name)
        return getattr(self._consumer, name)


def test_policy_has_no_other_input() -> None:
    """What the policy of a paused, followed workload is read from is compared, and its key."""
    marks = {"deployment.reloader.stakater.com/paused-at": "2026-11-21T20:00:00Z"}
    web = deployment(ENV, annotations={"hotmap.dev/follow": "auto", **marks})
    web = msgspec.structs.replace(web, paused=True)
    read, compared = _Reads(web), _Reads(web)
    read_policy(read, defaults=Defaults())  # type: ignore[arg-type]
    policies._inputs(compared)  # type: ignore[arg-type]
    assert len(read.fields) > 5
    assert read.fields <= compared.fields | {"key"}
