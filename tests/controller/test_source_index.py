"""The index finds the consumers of a source, and no others, from compact keys."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.objects import NAMESPACE, deployment, rollout

from hotmap.controller.watch.changes import ChangeListener
from hotmap.controller.watch.index import Index
from hotmap.core.model.consumer import Consumer, rolled_by
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


OTHER = APP._replace(name="other")

POD_SPECS = (
    "",
    ENV,
    ENV.replace("app", "other"),
    f"{ENV}volumes: [{{name: unmounted, configMap: {{name: other}}}}]",
    # Too large to be kept, so that its uses are found at once.
    f"{ENV}  command: [{'x' * 3000}]",
)

ANNOTATIONS: tuple[dict[str, str], ...] = (
    {},
    {"hotmap.dev/follow": "auto"},
    {"hotmap.dev/follow": "cm/app"},
    {"configmap.reloader.stakater.com/reload": "other"},
)

OWNED = [
    {"apiVersion": "apps/v1", "kind": "Deployment", "name": "o", "uid": "o", "controller": True}
]


def search(consumers: Iterable[Consumer], source: ObjectKey) -> tuple[set[ObjectKey], ...]:
    """Find those that use a source, and those that follow it, without an index."""
    rollouts = {each.argo.template_in: each for each in consumers if each.argo}
    users, followers = set(), set()
    for consumer in consumers:
        uses = not consumer.owned and source in consumer.uses.sources()
        seen = rolled_by(consumer, rollouts[consumer.key]) if consumer.key in rollouts else consumer
        if uses:
            users.add(consumer.key)
        if read_policy(seen).follows(source, referenced=uses, offered=True):
            followers.add(consumer.key)
    return users, followers


WORKLOADS = [
    *(deployment(spec, annotations=said) for spec, said in product(POD_SPECS, ANNOTATIONS)),
    *(deployment(spec, owners=OWNED) for spec in POD_SPECS),
    *(deployment(spec, name="api", annotations=ANNOTATIONS[1]) for spec in POD_SPECS),
    *(rollout(spec, annotations=ANNOTATIONS[1]) for spec in POD_SPECS),
    *(
        rollout(annotations=said, template_in=template_in)
        for said, template_in in product(ANNOTATIONS, (None, ("Deployment", "web")))
    ),
]

STEPS = st.tuples(
    st.sampled_from(("put", "put", "remove", "find uses")), st.sampled_from(WORKLOADS)
)


@given(st.lists(STEPS), st.lists(STEPS, min_size=5))
def test_index_finds_whom_a_search_finds(
    before: list[tuple[str, Consumer]], after: list[tuple[str, Consumer]]
) -> None:
    """Whatever has changed before the first lookup and since, and wherever uses were found."""
    index = Index(defaults=Defaults())
    ChangeListener(index)
    there: dict[ObjectKey, Consumer] = {}
    for number, (step, workload) in enumerate([*before, *after]):
        key, store = workload.key, index.consumers[workload.key.kind]
        if step == "put":
            there[key] = replace(workload, generation=number)
            store.put(key, deepcopy(there[key]))  # in which uses are found at other times
        elif step == "remove":
            there.pop(key, None)
            store.remove(key)
        elif found := store.get(key):
            found.uses.sources()
        if number < len(before):
            continue
        for source in (APP, OTHER):
            users, followers = search(there.values(), source)
            assert {each.key for each in index.users_of(source)} == users
            assert {each.key for each in index.followers_of(source)} == followers
            assert index.is_followed(source) == bool(followers)
            assert index.candidates_for(source) >= users | followers
