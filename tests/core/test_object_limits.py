"""A large or hostile pod template costs little time and memory, and only itself."""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.support.calls import count_calls
from tests.support.objects import KEY, config_map

from hotmap.core.decide.source_snapshot import take_snapshots
from hotmap.core.model import limits
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.consumer_conversion import consumer_from_workload
from hotmap.core.model.objects import ManagedFields, ObjectKey, Pod, Workload
from hotmap.core.model.source import Source, source_from_config_map
from hotmap.core.model.template_uses import find_uses
from hotmap.core.policy.annotations import read_policy
from hotmap.core.reloader.annotations import DialectSettings, Writing

#: Calls of functions, the interpreter's own among them, and MiB that a template may cost. 300,000
#: calls are about 30 ms, of the 50 that nothing on the event loop may take; on a busy machine they
#: are as many.
CALLS = 300_000
MEBIBYTES = 5.0


def web(spec: dict[str, Any], annotations: dict[str, str] | None = None) -> Workload:
    """Make a Deployment from a pod spec, through the same decode as from an API server."""
    body = {
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "uid": "u",
            "generation": 1,
            "annotations": annotations or {"hotmap.dev/follow": "auto"},
        },
        "spec": {"template": {"spec": spec}},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=Workload)


def measured(item: Workload, note: Callable[[str, object], None]) -> Consumer:
    """Reduce a workload; note what it costs, and bound what does not depend on the machine."""
    settings = DialectSettings(writing=Writing.ENV_VARS)
    start = time.process_time()
    consumer_from_workload("Deployment", item, settings)
    seconds = time.process_time() - start
    calls = count_calls(lambda: consumer_from_workload("Deployment", item, settings))
    tracemalloc.start()
    try:
        spec = item.spec  # decoded once more below, which the bound is not about
        decoded = tracemalloc.get_traced_memory()[0]
        consumer = consumer_from_workload("Deployment", item, settings)
        mebibytes = (tracemalloc.get_traced_memory()[1] - 2 * decoded) / 2**20
        del spec
    finally:
        tracemalloc.stop()
    note("costs", f"{seconds * 1e3:.1f} ms, {calls:,} calls, {mebibytes:.2f} MiB")
    assert calls < CALLS
    assert mebibytes < MEBIBYTES
    return consumer


def chain(length: int) -> dict[str, Any]:
    """A pod spec in which each variable reads the one before it."""
    first = {"name": "V0", "valueFrom": {"secretKeyRef": {"name": "db", "key": "k"}}}
    others = [{"name": f"V{i}", "value": f"$(V{i - 1})"} for i in range(1, length)]
    return {"containers": [{"name": "web", "env": [first, *others]}]}


def imports(variables: int, sources: int, prefixes: int = 1) -> dict[str, Any]:
    """A pod spec with variables that hide data keys of many envFrom."""
    env = [{"name": f"P{i % prefixes}V{i}", "value": "x"} for i in range(variables)]
    env_from = [
        {"prefix": f"P{i % prefixes}" if prefixes > 1 else "", "configMapRef": {"name": f"m{i}"}}
        for i in range(sources)
    ]
    return {"containers": [{"name": "web", "env": env, "envFrom": env_from}]}


def mounts(count: int, sources: int, *, sub_paths: bool = False) -> dict[str, Any]:
    """A pod spec that mounts one projected volume many times."""
    where = [
        {"name": "v", "mountPath": f"/m{i}", **({"subPath": f"d{i}"} if sub_paths else {})}
        for i in range(count)
    ]
    parts = [{"configMap": {"name": f"m{i}"}} for i in range(sources)]
    return {
        "containers": [{"name": "web", "volumeMounts": where}],
        "volumes": [{"name": "v", "projected": {"sources": parts}}],
    }


def sub_paths_of_items(count: int, sources: int) -> dict[str, Any]:
    """A pod spec that mounts a volume of items once, and parts of it that do not exist."""
    spec = mounts(count, sources, sub_paths=True)
    spec["containers"][0]["volumeMounts"].append({"name": "v", "mountPath": "/all"})
    for part in spec["volumes"][0]["projected"]["sources"]:
        part["configMap"]["items"] = [{"key": "k", "path": "k"}]
    return spec


@pytest.mark.parametrize(
    ("spec", "bound"),
    [
        pytest.param(chain(6_000), "6,000 environment variables", id="a chain of 6,000 variables"),
        pytest.param(
            imports(3_000, 6_000), "9,000 environment variables", id="3,000 env, 6,000 envFrom"
        ),
        pytest.param(
            mounts(1_000, 2_000),
            "too many uses of ConfigMaps and Secrets",
            id="1,000 mounts, 2,000 projections",
        ),
        pytest.param(
            mounts(1_000, 2_000, sub_paths=True), "too many", id="with a subPath for each mount"
        ),
        pytest.param(
            imports(2_400, 2_400, prefixes=2_000), "too many combinations", id="many prefixes"
        ),
        pytest.param(
            imports(2_000, 999),
            "too many characters in names of data keys",
            id="the same hidden names in many uses",
        ),
        pytest.param(
            {"containers": [{"name": f"c{i}"} for i in range(60_000)]},
            "60,000 containers",
            id="containers",
        ),
        pytest.param(
            {"containers": [{"name": "web", "args": ["$(A)" * 300_000]}]}, "", id="no environment"
        ),
        pytest.param(
            {"containers": [{"name": "web", "args": ["$(A)" * 300_000], "envFrom": [{}]}]},
            "",
            id="envFrom without a source",
        ),
        pytest.param(
            {
                "containers": [
                    {
                        "name": "web",
                        "args": ["$(A)" * 300_000],
                        "envFrom": [{"secretRef": {"name": "db"}}],
                    }
                ]
            },
            "too many combinations",
            id="300,000 expansions",
        ),
        pytest.param(
            {"imagePullSecrets": [{"name": f"r{i}"} for i in range(50_000)]},
            "50,000 imagePullSecrets",
            id="pull secrets",
        ),
        pytest.param(
            {
                "volumes": [
                    {"name": "v", "configMap": {"name": "m", "items": [{"key": "k"}] * 40_000}}
                ]
            },
            "40,000 projected sources and items",
            id="items",
        ),
    ],
)
def test_hostile_template_has_no_uses(
    spec: dict[str, Any], bound: str, record_property: Callable[[str, object], None]
) -> None:
    """Beyond a bound it has no uses and says which bound that is."""
    consumer = measured(web(spec), record_property)
    assert consumer.over_budget.startswith(bound)
    assert not consumer.uses
    assert (consumer.traces is None) is bool(bound)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(chain(limits.MAX_VARIABLES), id="the longest chain"),
        pytest.param(imports(19, limits.MAX_USES), id="the most envFrom"),
        pytest.param(mounts(limits.MAX_MOUNTS, limits.MAX_USES), id="the most mounts"),
        pytest.param(sub_paths_of_items(10, 900), id="nearly the most steps"),
    ],
)
def test_largest_template_is_read_quickly(
    spec: dict[str, Any], record_property: Callable[[str, object], None]
) -> None:
    """At the bounds, too, time and memory stay small, and the uses are all there."""
    consumer = measured(web(spec), record_property)
    assert consumer.over_budget == ""
    assert consumer.uses


@pytest.mark.parametrize("end", ["", "{"], ids=["as one of a variable", "as none"])
def test_long_field_name_is_searched_in_little_memory(
    end: str, record_property: Callable[[str, object], None]
) -> None:
    """An object of the largest size that etcd takes, by a manager that says it is Reloader."""
    variable = 'k:{"name":"STAKATER_A"}'
    fields: dict[str, Any] = {"f:template": {variable: {"f:" + 1_400_000 * "a" + end: {}}}}
    raw = msgspec.Raw(msgspec.json.encode({"f:spec": fields}))
    entry = ManagedFields("Reloader", "2026-01-01T00:00:00Z", fields_v1=raw)
    item = web({"containers": []})
    metadata = msgspec.structs.replace(item.metadata, managed_fields=[entry])
    item = msgspec.structs.replace(item, metadata=metadata)
    measured(item, record_property)


def test_listed_pod_does_not_keep_the_response_in_memory() -> None:
    """Of a page of 8 MiB most may be other pods, or what none of its pods is decoded to."""
    fields = {"manager": "kubelet", "subresource": "status", "fieldsV1": {"f:status": {}}}
    response = msgspec.json.encode([{"metadata": {"managedFields": [fields]}}])
    references = sys.getrefcount(response)
    (pod,) = msgspec.json.decode(response, type=list[Pod])
    assert [each.manager for each in pod.metadata.managed_fields or ()] == ["kubelet"]
    assert sys.getrefcount(response) == references


def test_equal_uses_are_counted_once() -> None:
    """A volume that is mounted at 100 places of a container is one use, and its path says so."""
    (use,) = find_uses(web(mounts(100, 1)).spec.template, "shop")
    assert use.path == "volumes[v] at containers[web]:/m0 (and 99 more)"
    twice = {"name": "web", "env": [], "envFrom": [{"secretRef": {"name": "db"}}] * 3}
    (use,) = find_uses(web({"containers": [twice]}).spec.template, "shop")
    assert use.path == "containers[web].envFrom[0] (and 2 more)"


def beside_variable(spec: dict[str, Any]) -> dict[str, Any]:
    """A pod spec with a variable that hides one data key of each envFrom."""
    (container,) = spec["containers"]
    return {"containers": [{**container, "env": [{"name": "k1", "value": "x"}]}]}


def keys_of_one_source(count: int) -> dict[str, Any]:
    """A pod spec with variables that each read a data key of the same source."""
    refs = [{"configMapKeyRef": {"name": "m0", "key": f"k{number}"}} for number in range(count)]
    env = [{"name": f"V{number}", "valueFrom": ref} for number, ref in enumerate(refs)]
    return {"containers": [{"name": "web", "env": env}]}


def large_sources(count: int) -> dict[ObjectKey, Source]:
    """ConfigMaps with as many data keys as are read, the same in each."""
    data = {f"k{number}": "v" for number in range(limits.MAX_DATA_KEYS)}
    source = source_from_config_map(config_map("m0", data), [KEY])
    return {
        (key := source.key._replace(name=f"m{number}")): msgspec.structs.replace(source, key=key)
        for number in range(count)
    }


@pytest.mark.parametrize(
    ("spec", "sources"),
    [
        pytest.param(imports(0, 2), 2, id="two envFrom"),
        pytest.param(imports(0, 40), 40, id="40 envFrom"),
        pytest.param(imports(0, 10, prefixes=10), 10, id="envFrom with prefixes"),
        pytest.param(beside_variable(imports(0, 40)), 40, id="envFrom beside a variable"),
        pytest.param(keys_of_one_source(limits.MAX_USES), 1, id="the most env"),
        pytest.param(mounts(10, 40), 40, id="volumes"),
    ],
)
def test_snapshot_of_large_sources_is_taken_quickly(
    spec: dict[str, Any], sources: int, record_property: Callable[[str, object], None]
) -> None:
    """It is taken for each consumer of an edited source, between two events of others."""
    uses = tuple(consumer_from_workload("Deployment", web(spec)).uses)
    found = large_sources(sources)
    assert {use.source for use in uses} == found.keys()
    calls = count_calls(lambda: take_snapshots(uses, found, KEY))
    record_property("costs", f"{calls:,} calls")
    assert calls < CALLS


def test_value_names_first_places_that_it_reaches() -> None:
    """Through a chain of variables, with a word for the others."""
    (use,) = find_uses(web(chain(100)).spec.template, "shop")
    assert use.path == (
        "containers[web].env[V0], through $(…) in env[V10], env[V11], env[V12], env[V13] and more"
    )


def test_workload_that_is_too_large_is_not_opted_in() -> None:
    """Its policy says why, for one Event; a workload that opted out is left alone."""
    message = "not tracked: it has 6,000 environment variables (limit 5,000)"
    policy = read_policy(consumer_from_workload("Deployment", web(chain(6_000))))
    assert (policy.opted_in, policy.origin) == (False, message)
    assert limits.too_large_message(policy.over_budget) == message
    off = web(chain(6_000), {"hotmap.dev/follow": "off"})
    policy = read_policy(consumer_from_workload("Deployment", off))
    assert (policy.opted_in, policy.over_budget) == (False, "")


def test_shrunk_object_is_tracked_again() -> None:
    """The bound is looked at again with each change of the spec, and not before."""
    large = consumer_from_workload("Deployment", web(chain(6_000)))
    small = web(chain(2))
    again = consumer_from_workload("Deployment", small, known=large)
    assert again.over_budget
    changed = msgspec.structs.replace(
        small, metadata=msgspec.structs.replace(small.metadata, generation=2)
    )
    again = consumer_from_workload("Deployment", changed, known=large)
    assert again.over_budget == ""
    assert again.uses
