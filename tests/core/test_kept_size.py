"""What is kept of an object is bounded, whatever its owner writes into it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.support.objects import KEY, config_map, deployment, secret, snapshot, sources

from hotmap.core.decide.decide import decide
from hotmap.core.decide.record import record_applied
from hotmap.core.model.annotations import known_annotations
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.consumer_conversion import consumer_from_rollout, consumer_from_workload
from hotmap.core.model.limits import MAX_DATA_KEYS, LimitExceeded
from hotmap.core.model.objects import Rollout, Workload
from hotmap.core.model.patterns import LONGEST_VALUE
from hotmap.core.model.source import Source
from hotmap.core.policy.annotations import read_policy


def test_source_with_many_data_keys_takes_little_more_than_their_names() -> None:
    """The most empty data keys, of 40 characters each: names and marks, and no object for each."""
    item = config_map("app", data={f"{number:040}": "" for number in range(MAX_DATA_KEYS)})
    tracemalloc.start()
    try:
        before = tracemalloc.take_snapshot()
        kept = [source for source in sources(item).values() if isinstance(source, Source)]
        after = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    grown = sum(change.size_diff for change in after.compare_to(before, "filename"))
    assert len(list(kept[0].marks[0])) == MAX_DATA_KEYS
    assert grown < 2 * MAX_DATA_KEYS * 41


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_source_with_more_data_keys_is_not_read(kind: str) -> None:
    """Each costs some microseconds, and 100,000 of them fit in one object."""
    data = {f"{number:x}": "" for number in range(MAX_DATA_KEYS + 1)}
    item = (
        config_map("app", data=data)
        if kind == "ConfigMap"
        else secret("app", dict.fromkeys(data, b""))
    )
    with pytest.raises(LimitExceeded, match=r"^5,001 data keys \(limit 5,000\)$"):
        sources(item)


def test_only_known_annotations_are_kept_and_each_is_shortened() -> None:
    """One character more than is read of each, which shows that it was cut; nothing of others."""
    items = ",".join(f"app-{number}" for number in range(40_000))
    found = known_annotations(
        {
            "hotmap.dev/follow": items,
            "hotmap.dev/settle": "5" * 250_000,
            "kubectl.kubernetes.io/last-applied-configuration": "x" * 250_000,
        }
    )
    assert found.keys() == {"hotmap.dev/follow", "hotmap.dev/settle"}
    assert {len(value) for value in found.values()} == {LONGEST_VALUE + 1}
    assert items.startswith(found["hotmap.dev/follow"])


def test_number_of_unknown_annotations_is_bounded() -> None:
    """Of names that look misspelled, a few are kept for a warning, without their values."""
    many = {f"hotmap.dev/a-{number}": "x" for number in range(1000)}
    found = known_annotations(many)
    assert len(found) == 8
    assert set(found.values()) == {""}


def test_reasons_name_the_first_few_of_many_sources() -> None:
    """The last decisions on each consumer are kept with their reasons, and are logged."""
    numbers = [f"{number:02}" for number in range(50)]
    names = ", ".join(f"{{configMapRef: {{name: app-{number}}}}}" for number in numbers)
    who = deployment(f"containers: [{{name: web, envFrom: [{names}]}}]")
    before = [config_map(f"app-{number}", {f"KEY_{number}": "1"}) for number in numbers]
    after = [
        config_map(f"app-{number}", {f"KEY_{number}": "2"}, version=2, changed_at=990)
        for number in numbers
    ]
    first = decide(snapshot(who, *before))
    record = record_applied(
        who, None, first.assessment.findings, key_id=KEY.id, generation=who.generation
    )
    edited = decide(snapshot(who, *after, record=record))
    deleted = decide(snapshot(who, record=record))
    for decision in (first, edited, deleted):
        assert all(f"app-0{number}" in decision.plan.reason for number in range(8))
        assert "app-08" not in decision.plan.reason
        assert " and 42 more" in decision.plan.reason
    assert len(edited.changed_sources()) == 50


#: Characters of one value that a tenant may write: nearly as large as an object may be.
_LARGE = 900_000


def _metadata(**fields: Any) -> dict[str, Any]:
    return {"name": "web", "namespace": "shop", "uid": "u", "generation": 1, **fields}


def _with_selector() -> Consumer:
    values = [f"value-{number:060}" for number in range(_LARGE // 66)]
    expression = {"key": "app", "operator": "In", "values": values}
    spec = {"selector": {"matchExpressions": [expression]}, "template": {}}
    item = msgspec.convert({"metadata": _metadata()}, Workload)
    return consumer_from_workload("Deployment", _with_spec(item, spec))


def _with_item_path() -> Consumer:
    items = [{"key": "a", "path": "p" * _LARGE}]
    mounts = [{"name": "v", "mountPath": "/v"}]
    pod = {
        "containers": [{"name": "main", "volumeMounts": mounts}],
        "volumes": [{"name": "v", "configMap": {"name": "app", "items": items}}],
    }
    metadata = _metadata(annotations={"hotmap.dev/agent": "port=9533;restart=none"})
    item = msgspec.convert({"metadata": metadata}, Workload)
    return consumer_from_workload("Deployment", _with_spec(item, {"template": {"spec": pod}}))


def _with_statuses() -> Consumer:
    status = {"updateRevision": "x" * _LARGE}
    item = msgspec.convert({"metadata": _metadata(), "status": status}, Workload)
    spec = {"template": {}, "updateStrategy": {"type": "y" * _LARGE}}
    return consumer_from_workload("StatefulSet", _with_spec(item, spec))


def _argo_rollout() -> Consumer:
    long = "x" * _LARGE
    status = {
        "observedGeneration": long,
        "workloadObservedGeneration": long,
        "currentPodHash": long,
        "stableRS": long,
    }
    spec = {"workloadRef": {"kind": long, "name": long}}
    body = {"metadata": _metadata(), "spec": spec, "status": status}
    return consumer_from_rollout(msgspec.convert(body, Rollout))


def _with_names() -> Consumer:
    pod = {
        "containers": [{"name": "c" * _LARGE}],
        "imagePullSecrets": [{"name": "s" * _LARGE}],
        "volumes": [{"name": "v" * _LARGE, "configMap": {"name": "m" * _LARGE}}],
    }
    item = msgspec.convert({"metadata": _metadata()}, Workload)
    return consumer_from_workload("Deployment", _with_spec(item, {"template": {"spec": pod}}))


def _with_spec(item: Workload, spec: dict[str, Any]) -> Workload:
    return msgspec.structs.replace(item, encoded_spec=msgspec.Raw(msgspec.json.encode(spec)))


@pytest.mark.parametrize(
    "make",
    [_with_selector, _with_item_path, _with_statuses, _argo_rollout, _with_names],
    ids=["selector", "item path", "status", "Argo Rollout", "names"],
)
def test_long_values_of_a_workload_are_not_kept(make: Callable[[], Consumer]) -> None:
    """What is kept of it has some KiB; where half of a value would mislead, nothing is."""
    tracemalloc.start()
    try:
        kept = make()
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 64 << 10
    assert kept.over_budget == "" or not (kept.selector or kept.config_volumes)


def test_workload_with_a_giant_selector_says_so() -> None:
    policy = read_policy(
        msgspec.structs.replace(_with_selector(), annotations={"hotmap.dev/follow": "auto"})
    )
    assert not policy.opted_in
    assert "characters in its label selector (limit 16,384)" in policy.over_budget
