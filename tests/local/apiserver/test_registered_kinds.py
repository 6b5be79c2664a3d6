"""Kinds that are registered while the server runs are served like built-in ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.field_errors import FieldError, required
from hotmap.local.scheme import SCALE, STATUS, Kind, Names
from hotmap.local.strategy import Column, Strategy, field_labels

if TYPE_CHECKING:
    from tests.local.apiserver.api import Api

    from hotmap.local.apiserver.registry import Registry

WIDGETS_PATH = "/apis/example.com/v1/namespaces/default/widgets"


class WidgetStrategy(Strategy):
    has_generation = True
    selectable_fields = field_labels("spec.color")
    columns = (Column("Color", lambda obj, _: str(obj["spec"]["color"])),)

    def default(self, obj: dict[str, Any]) -> None:
        obj["spec"].setdefault("replicas", 1)

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        return [] if obj["spec"].get("color") else [required("spec.color")]


WIDGETS = Kind(
    "example.com",
    ("v1",),
    Names("widgets", "Widget", ("wd",), ("all",)),
    subresources=(STATUS, SCALE),
    strategy=WidgetStrategy(),
)


def widget(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}} | {
        "spec": spec
    }


async def test_unregistered_kind_is_not_found(api: Api) -> None:
    assert (await api.get(WIDGETS_PATH)).status == 404
    assert (await api.get("/apis/example.com/v1")).status == 404


async def test_registered_kind_is_discovered(api: Api, registry: Registry) -> None:
    registry.scheme.register(WIDGETS)
    groups = (await api.get("/apis")).body["groups"]
    assert [group["name"] for group in groups][-1] == "example.com"
    found = (await api.get("/apis/example.com/v1")).body["resources"]
    assert [resource["name"] for resource in found] == [
        "widgets",
        "widgets/scale",
        "widgets/status",
    ]
    assert found[0]["kind"] == "Widget"
    assert found[0]["singularName"] == "widget"
    assert found[0]["shortNames"] == ["wd"]
    assert found[0]["categories"] == ["all"]
    aggregated = await api.request(
        "GET",
        "/apis",
        accept="application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    )
    assert aggregated.body["items"][-1]["metadata"]["name"] == "example.com"


async def test_registered_kind_follows_its_strategy(api: Api, registry: Registry) -> None:
    registry.scheme.register(WIDGETS)
    refused = await api.post(WIDGETS_PATH, widget("a", size=1))
    assert refused.status == 422
    assert refused.message == 'Widget.example.com "a" is invalid: spec.color: Required value'
    created = await api.post(WIDGETS_PATH, {**widget("a", color="red"), "status": {"x": 1}})
    assert created.status == 201
    assert created.body["apiVersion"] == "example.com/v1"
    assert created.body["spec"] == {"color": "red", "replicas": 1}
    assert created.body["status"] == {}
    assert created.body["metadata"]["generation"] == 1
    path = f"{WIDGETS_PATH}/a"
    status = await api.patch(f"{path}/status", {"status": {"ok": True}})
    assert (status.body["status"], status.body["metadata"]["generation"]) == ({"ok": True}, 1)
    changed = await api.patch(path, {"spec": {"size": 2}})
    assert (changed.body["status"], changed.body["metadata"]["generation"]) == ({"ok": True}, 2)
    scaled = await api.patch(f"{path}/scale", {"spec": {"replicas": 3}})
    assert scaled.body["spec"] == {"replicas": 3}
    deleted = await api.request("DELETE", path)
    assert deleted.body["details"]["kind"] == "widgets"
    assert (await api.get(path)).message == 'widgets.example.com "a" not found'


async def test_registered_kind_is_selected_by_field(api: Api, registry: Registry) -> None:
    registry.scheme.register(WIDGETS)
    for name, color in (("a", "red"), ("b", "blue")):
        await api.post(WIDGETS_PATH, widget(name, color=color))
    found = await api.get(WIDGETS_PATH, fieldSelector="spec.color=blue")
    assert [item["metadata"]["name"] for item in found.body["items"]] == ["b"]
    table = await api.request(
        "GET", WIDGETS_PATH, accept="application/json;as=Table;v=v1;g=meta.k8s.io"
    )
    assert [row["cells"] for row in table.body["rows"]] == [["red"], ["blue"]]


async def test_registered_kind_is_watched(api: Api, registry: Registry) -> None:
    registry.scheme.register(WIDGETS)
    async with api.watch(WIDGETS_PATH) as lines:
        await api.post(WIDGETS_PATH, widget("a", color="red"))
        assert await lines.seen(1) == [("ADDED", "a")]


async def test_kind_without_rules_is_stored_as_sent(api: Api, registry: Registry) -> None:
    registry.scheme.register(Kind("example.com", ("v1",), Names("gadgets", "Gadget")))
    path = "/apis/example.com/v1/namespaces/default/gadgets"
    body = {"metadata": {"name": "a"}, "spec": {"anything": [1, {"x": "y"}]}}
    assert (await api.post(path, body)).body["spec"] == body["spec"]
    replaced = await api.request("PUT", f"{path}/a", {**body, "spec": {"other": 1}})
    assert replaced.body["spec"] == {"other": 1}
    assert "generation" not in replaced.body["metadata"]
    table = await api.request("GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    names = [column["name"] for column in table.body["columnDefinitions"]]
    assert names == ["Name", "Created At"]


async def test_kinds_of_one_plural_have_objects_of_their_own(api: Api, registry: Registry) -> None:
    registry.scheme.register(Kind("example.com", ("v1",), Names("configmaps", "ConfigMap")))
    path = "/apis/example.com/v1/namespaces/default/configmaps"
    body = {"metadata": {"name": "a"}, "spec": {"x": 1}}
    created = await api.post(path, body)
    assert (created.status, created.body["apiVersion"]) == (201, "example.com/v1")
    core = "/api/v1/namespaces/default/configmaps/a"
    assert (await api.get(core)).status == 404
    deleted = await api.request("DELETE", f"{path}/a")
    assert deleted.body["details"]["group"] == "example.com"


async def test_verb_that_kind_does_not_have_is_refused(api: Api, registry: Registry) -> None:
    kind = Kind("example.com", ("v1",), Names("facts", "Fact"), verbs=("get", "list"))
    registry.scheme.register(kind)
    path = "/apis/example.com/v1/namespaces/default/facts"
    assert (await api.get(path)).status == 200
    assert (await api.post(path, {"metadata": {"name": "a"}})).status == 405
    assert (await api.request("DELETE", "/api/v1/namespaces")).status == 405


async def test_unregistered_kind_is_no_longer_served(api: Api, registry: Registry) -> None:
    registry.scheme.register(WIDGETS)
    await api.post(WIDGETS_PATH, widget("a", color="red"))
    registry.scheme.unregister("example.com", "widgets")
    assert (await api.get(f"{WIDGETS_PATH}/a")).status == 404
    assert "example.com" not in str((await api.get("/apis")).body)
