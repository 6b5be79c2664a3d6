"""The index finds the consumers of a source, and no others, from compact keys."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.objects import NAMESPACE, deployment

from hotmap.controller.watch.changes import ChangeListener
from hotmap.controller.watch.index import Index
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.policy.annotations import read_policy
from hotmap.core.policy.policy import Defaults, Policy

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


def make_index() -> Index:
    """An index that follows its stores, with every workload opted in."""
    index = Index(defaults=Defaults(follow="auto"))
    ChangeListener(index)
    return index


def test_sources_with_equal_hash_are_distinct() -> None:
    """Who follows one of them does not follow the other."""
    index = make_index()
    web = deployment(ENV)
    index.consumers["Deployment"].put(web.key, web)
    assert [consumer.key for consumer in index.followers_of(APP)] == [web.key]
    assert [consumer.key for consumer in index.users_of(APP)] == [web.key]
    other = Twin("ConfigMap", NAMESPACE, "other")
    assert index.followers_of(other) == index.users_of(other) == []


def test_former_users_are_not_found() -> None:
    """A template that names another source is found under that one alone."""
    index = make_index()
    for text in (ENV, ENV.replace("app", "other")):
        web = deployment(text, generation=len(text))
        index.consumers["Deployment"].put(web.key, web)
    assert index.followers_of(APP) == index.users_of(APP) == []
    other = APP._replace(name="other")
    assert len(index.followers_of(other)) == len(index.users_of(other)) == 1


def test_unmounted_volume_makes_no_follower() -> None:
    """The index files a workload under all sources that it names; who uses one is compared."""
    index = make_index()
    other = APP._replace(name="other")
    web = deployment(f"{ENV}volumes: [{{name: unmounted, configMap: {{name: other}}}}]")
    store = index.consumers["Deployment"]
    store.put(web.key, web)
    assert index.followers_of(other) == index.users_of(other) == []
    assert [consumer.key for consumer in index.followers_of(APP)] == [web.key]
    named_nothing = deployment("", name="api")
    store.put(named_nothing.key, named_nothing)
    store.put(web.key, deployment(ENV, generation=2))
    store.remove(web.key)
    assert store.keys_by_index("sources", other.namespace, hash(other)) == []
    assert store.keys_by_index("sources", APP.namespace, hash(APP)) == []


@pytest.mark.internal_errors
async def test_policy_that_cannot_be_read_affects_its_own_workload(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A leader reads the policies of all workloads before it begins."""
    index = make_index()
    web, api = deployment(ENV, name="web"), deployment(ENV, name="api")
    for item in (web, api):
        index.consumers["Deployment"].put(item.key, item)

    def read(consumer: Consumer, **options: Any) -> Policy:
        if consumer.key == web.key:
            raise ZeroDivisionError
        return read_policy(consumer, **options)

    monkeypatch.setattr("hotmap.controller.watch.policies.read_policy", read)
    await index.read_policies()
    assert [consumer.key for consumer in index.all_consumers()] == [api.key]
    assert index.policies.of(web).origin.startswith("its annotations cannot be read")
    assert "internal error in reading the annotations of Deployment shop/web" in caplog.text
