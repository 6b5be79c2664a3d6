"""The index finds the consumers of a source, and no others, from compact keys."""

from __future__ import annotations

from tests.support.objects import NAMESPACE, deployment

from hotmap.controller.watch.index import Index
from hotmap.core.model.objects import ObjectKey
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
