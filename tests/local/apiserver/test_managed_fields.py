"""managedFields say who wrote what, when, and through which subresource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.local.apiserver.api import (
    CONFIGMAPS,
    JSON_PATCH,
    MERGE,
    PODS,
    configmap,
    deployment,
    pod,
)

from hotmap.local.apiserver.api_types import Field
from hotmap.local.apiserver.field_sets import merge

if TYPE_CHECKING:
    from tests.local.apiserver.api import Api
    from tests.support.clocks import Clock

    from hotmap.local.apiserver.registry import Registry


def owners(obj: dict[str, Any]) -> dict[str, tuple[str, list[str]]]:
    """Manager → (time, data keys)."""
    return {
        entry["manager"]: (
            entry["time"][-9:],
            sorted(key[2:] for key in entry["fieldsV1"].get("f:data", {}) if key != "."),
        )
        for entry in obj["metadata"].get("managedFields", [])
    }


async def test_field_ownership_moves_with_value(registry: Registry, clock: Clock) -> None:
    """Who changes a data key owns it; the other's entry keeps its time and its other keys."""
    await registry.create("configmaps", "default", configmap("a", k="1", m="1"), manager="one")
    clock.now += 10
    patch = {"data": {"k": "2"}}
    obj = await registry.patch("configmaps", "default", "a", patch, kind="merge", manager="two")
    assert owners(obj) == {"one": ("22:13:20Z", ["m"]), "two": ("22:13:30Z", ["k"])}


async def test_removal_by_other_manager_leaves_no_entry(registry: Registry, clock: Clock) -> None:
    """Who only removes another's data key gets no entry, so no time tells of it."""
    await registry.create("configmaps", "default", configmap("a", k="1", m="1"), manager="one")
    clock.now += 10
    patch = {"data": {"k": None}}
    obj = await registry.patch("configmaps", "default", "a", patch, kind="merge", manager="two")
    assert owners(obj) == {"one": ("22:13:20Z", ["m"])}


async def test_removal_of_own_key_keeps_the_time(registry: Registry, clock: Clock) -> None:
    """A write that takes no field has no time of its own, whoever owned what it removes."""
    await registry.create("configmaps", "default", configmap("a", k="1", m="1"), manager="one")
    clock.now += 10
    patch = {"data": {"k": None}}
    obj = await registry.patch("configmaps", "default", "a", patch, kind="merge", manager="one")
    assert owners(obj) == {"one": ("22:13:20Z", ["m"])}


async def test_repeated_write_updates_time(registry: Registry, clock: Clock) -> None:
    """Its entry keeps what it owned and takes the new time, in whole seconds."""
    await registry.create("configmaps", "default", configmap("a", k="1"), manager="one")
    clock.now += 10.75
    patch = {"data": {"m": "1"}}
    obj = await registry.patch("configmaps", "default", "a", patch, kind="merge", manager="one")
    assert owners(obj) == {"one": ("22:13:30Z", ["k", "m"])}


async def test_status_has_own_managed_fields_entry(registry: Registry) -> None:
    """The subresource is named, and the same manager may have both entries."""
    await registry.create("deployments", "default", deployment("web"), manager="one")
    obj = await registry.patch(
        "deployments",
        "default",
        "web",
        {"status": {"replicas": 1}},
        kind="merge",
        subresource="status",
        manager="one",
    )
    entries = obj["metadata"]["managedFields"]
    assert [entry.get("subresource") for entry in entries] == [None, "status"]
    assert entries[1]["fieldsV1"] == {"f:status": {"f:replicas": {}}}
    assert all(
        (entry["operation"], entry["apiVersion"], entry["fieldsType"])
        == ("Update", "apps/v1", "FieldsV1")
        for entry in entries
    )


async def test_managed_fields_follow_structure(registry: Registry) -> None:
    """List items by their keys; `.` where a field that may be left out was added itself."""
    spec = {"containers": [{"name": "main", "image": "host", "env": [{"name": "A", "value": "1"}]}]}
    obj = await registry.create("deployments", "default", deployment("web", spec), manager="one")
    fields = obj["metadata"]["managedFields"][0]["fieldsV1"]
    assert "f:metadata" not in fields
    pod = fields["f:spec"]["f:template"]["f:spec"]
    container = pod["f:containers"]['k:{"name":"main"}']
    assert container["."] == {}
    assert container["f:env"] == {
        ".": {},
        'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}},
    }
    assert fields["f:spec"]["f:template"]["f:metadata"] == {"f:labels": {".": {}, "f:app": {}}}


async def test_value_that_the_server_carries_over_has_no_owner(api: Api) -> None:
    """An update without the cluster IP keeps it, and takes it from its owner."""
    path = "/api/v1/namespaces/default/services"
    ports = [{"port": 80}]
    await api.post(
        path, {"metadata": {"name": "web"}, "spec": {"clusterIP": "None", "ports": ports}}
    )
    patch = [{"op": "remove", "path": "/spec/clusterIP"}]
    obj = (await api.patch(f"{path}/web", patch, JSON_PATCH)).body
    assert obj["spec"]["clusterIP"] == "None"
    (entry,) = obj["metadata"]["managedFields"]
    assert "f:clusterIP" not in entry["fieldsV1"]["f:spec"]


async def test_malformed_managed_fields_are_left_out(registry: Registry) -> None:
    entry = {
        "manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:k": 1, "k:{": {}, "odd": {}}},
    }  # fmt: skip
    made = configmap("a", k="1")
    made["metadata"]["managedFields"] = [entry]
    obj = await registry.create("configmaps", "default", made, manager="one")
    patch = {"data": {"k": "2"}}
    obj = await registry.patch("configmaps", "default", "a", patch, kind="merge", manager="two")
    managers = [entry["manager"] for entry in obj["metadata"]["managedFields"]]
    assert "two" in managers


async def test_managed_fields_can_be_cleared(registry: Registry) -> None:
    """An empty list forgets everyone else; leaving it out forgets no one's fields."""
    await registry.create("configmaps", "default", configmap("a", k="1"), manager="one")
    patch: dict[str, Any] = {"metadata": {"managedFields": [{}]}}
    cleared = await registry.patch("configmaps", "default", "a", patch, kind="merge", manager="two")
    assert owners(cleared) == {}


@pytest.mark.parametrize("none", [[], [{}]])
async def test_managed_fields_are_cleared_by_patch(api: Api, none: list[Any]) -> None:
    await api.post(CONFIGMAPS, configmap("a", k="1"))
    patched = await api.patch(f"{CONFIGMAPS}/a", {"metadata": {"managedFields": none}})
    assert "managedFields" not in patched.body["metadata"]
    assert "managedFields" not in (await api.get(f"{CONFIGMAPS}/a")).body["metadata"]


async def test_user_agent_is_default_field_manager(api: Api) -> None:
    """Its part before the slash, unless fieldManager says otherwise."""
    made = await api.post(CONFIGMAPS, configmap("a", k="1"))
    assert list(owners(made.body)) == ["Python"]
    made = await api.post(CONFIGMAPS, configmap("b", k="1"), fieldManager="me")
    assert list(owners(made.body)) == ["me"]
    long = await api.post(CONFIGMAPS, configmap("c"), fieldManager="x" * 129)
    assert long.message == (
        'CreateOptions.meta.k8s.io "" is invalid: fieldManager: Too long: '
        "may not be more than 128 bytes"
    )


@pytest.mark.parametrize(
    ("live", "applied", "merged"),
    [
        ("a", "b", "ab"),
        ("abc", "ca", "bca"),
        ("xay", "az", "xayz"),
        ("abc", "abc", "abc"),
        ("abc", "cba", "cba"),
        ("", "ba", "ba"),
    ],
)
def test_merged_list_keeps_the_applied_order(live: str, applied: str, merged: str) -> None:
    """Items that only the live list has stay where they were before the applied ones."""
    field = Field("[]string", list_type="set")
    assert merge(field, list(live), list(applied)) == list(merged)


async def test_oldest_updates_become_one_entry(registry: Registry, clock: Clock) -> None:
    """Ten managers of updates are kept; what the others wrote belongs to ancient-changes."""
    await registry.create("configmaps", "default", configmap("a", k0="1"), manager="m0")
    for number in range(1, 13):
        clock.now += 10
        patch = {"data": {f"k{number}": "1"}}
        obj = await registry.patch(
            "configmaps", "default", "a", patch, kind="merge", manager=f"m{number}"
        )
    found = owners(obj)
    assert list(found) == ["ancient-changes", *(f"m{number}" for number in range(4, 13))]
    assert found["ancient-changes"] == ("22:13:50Z", ["k0", "k1", "k2", "k3"])


async def test_updates_of_one_second_become_one_entry(registry: Registry) -> None:
    """Also where the entry of earlier merges comes after others by its name."""
    await registry.create("configmaps", "default", configmap("a", k0="1"), manager="a0")
    for number in range(1, 14):
        patch = {"data": {f"k{number}": "1"}}
        obj = await registry.patch(
            "configmaps", "default", "a", patch, kind="merge", manager=f"a{number:x}"
        )
    managers = [entry["manager"] for entry in obj["metadata"]["managedFields"]]
    assert managers == [*(f"a{number:x}" for number in range(5, 14)), "ancient-changes"]
    assert owners(obj)["ancient-changes"][1] == ["k0", "k1", "k2", "k3", "k4"]


async def test_managed_fields_are_not_written_through_a_subresource(api: Api) -> None:
    """An empty list clears them in a write of the object, and does nothing in one of its status."""
    await api.post(PODS, pod("p"), fieldManager="one")
    change = {"metadata": {"managedFields": []}, "status": {"message": "m"}}
    changed = await api.patch(f"{PODS}/p/status", change, MERGE, fieldManager="two")
    entries = changed.body["metadata"]["managedFields"]
    assert [entry["manager"] for entry in entries] == ["one", "two"]
    cleared = await api.patch(f"{PODS}/p", {"metadata": {"managedFields": []}}, MERGE)
    assert "managedFields" not in cleared.body["metadata"]
