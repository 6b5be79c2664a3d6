"""A pod with gates is not bound, and may be changed until the last gate is removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.local.apiserver.api import JSON_PATCH, PODS, pod

if TYPE_CHECKING:
    from tests.local.apiserver.api import Api

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
GATES = [{"name": "example.com/quota"}, {"name": "example.com/data"}]
CONTAINERS = [{"name": "c", "image": "x"}]
BINDING = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "local"}}


def gated(**spec: Any) -> dict[str, Any]:
    return pod("p", containers=CONTAINERS, schedulingGates=GATES, **spec)


async def test_pod_with_gates_says_why_it_waits(api: Api) -> None:
    made = (await api.post(PODS, gated())).body
    (condition,) = made["status"]["conditions"]
    assert condition["lastTransitionTime"] == made["metadata"]["creationTimestamp"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert condition["reason"] == "SchedulingGated"
    assert condition["message"] == "Scheduling is blocked due to non-empty scheduling gates"
    listed = await api.request("GET", PODS, accept=TABLE)
    assert listed.body["rows"][0]["cells"][2] == "SchedulingGated"


async def test_pod_is_bound_when_its_last_gate_is_removed(api: Api) -> None:
    await api.post(PODS, gated())
    refused = await api.post(f"{PODS}/p/binding", BINDING)
    assert (refused.status, refused.message) == (
        409,
        'Operation cannot be fulfilled on pods/binding "p": pod p has non-empty '
        ".spec.schedulingGates",
    )
    first = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
    for left in (GATES[1:], []):
        changed = await api.patch(f"{PODS}/p", first, JSON_PATCH)
        assert changed.body["spec"].get("schedulingGates", []) == left
    assert (await api.post(f"{PODS}/p/binding", BINDING)).status == 201


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"nodeSelector": {"disk": "ssd", "zone": "a"}}, ""),
        (
            {"nodeSelector": {"disk": "hdd"}},
            'spec.nodeSelector: Invalid value: {"disk":"hdd"}: only additions to '
            "spec.nodeSelector are allowed (no mutations or deletions)",
        ),
        (
            {"schedulingGates": [{"name": "new"}]},
            "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new "
            "scheduling gate 'new'",
        ),
        ({"hostname": "a"}, "spec: Forbidden: pod updates may not change fields other than"),
    ],
)
async def test_pod_with_gates_may_ask_for_fewer_nodes(
    api: Api, change: dict[str, Any], text: str
) -> None:
    await api.post(PODS, gated(nodeSelector={"disk": "ssd"}))
    changed = await api.patch(f"{PODS}/p", {"spec": change})
    assert text in changed.body.get("message", "")
    assert changed.status == (422 if text else 200), changed.body


async def test_node_selector_without_gates_stays(api: Api) -> None:
    await api.post(PODS, pod("p", containers=CONTAINERS))
    assert (await api.patch(f"{PODS}/p", {"spec": {"nodeSelector": {"a": "b"}}})).status == 422


async def test_new_pod_has_no_node_and_gates(api: Api) -> None:
    refused = await api.post(PODS, gated(nodeName="local"))
    assert refused.message == (
        'Pod "p" is invalid: spec.nodeName: Forbidden: cannot be set until all schedulingGates '
        "have been cleared"
    )
