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
    """Who follows one of them does not follow the other."""
    index = Index(defaults=Defaults(follow="auto"))
    web = deployment(ENV)
    index.consumers["Deployment"].put(web.key, web)
    assert [consumer.key for consumer in index.followers_of(APP)] == [web.key]
    assert [consumer.key for consumer in index.users_of(APP)] == [web.key]
    other = Twin("ConfigMap", NAMESPACE, "other")
    assert index.followers_of(other) == index.users_of(other) == []


def test_former_users_are_not_found() -> None:
    """A template that names another source is found under that one alone."""
    index = Index(defaults=Defaults(follow="auto"))
    for text in (ENV, ENV.replace("app", "other")):
        web = deployment(text, generation=len(text))
        index.consumers["Deployment"].put(web.key, web)
    assert index.followers_of(APP) == index.users_of(APP) == []
    other = APP._replace(name="other")
    assert len(index.followers_of(other)) == len(index.users_of(other)) == 1
