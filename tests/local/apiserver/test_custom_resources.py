"""Custom resources: definitions become kinds, whose objects are served as those of any other."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.local.apiserver.widgets import FREE, create, definition, establish, registry
from tests.support.requires import requires

from hotmap.core.errors import ApiError, BadRequest, Conflict, Invalid, NotFound
from hotmap.local.apiserver.custom_resources import CustomResources
from hotmap.local.apiserver.discovery import document
from hotmap.local.apiserver.handlers import answer
from hotmap.local.apiserver.negotiation import decode_body
from hotmap.local.apiserver.openapi import OpenAPI
from hotmap.local.apiserver.registry import Registry
from hotmap.local.apiserver.requests import Request
from hotmap.local.apiserver.routes import parse_path

__all__ = ["registry"]

#: CustomResourceDefinitions that others publish: Go modules, and folders in them.
_PUBLISHED = {
    "github.com/cert-manager/cert-manager@v1.18.2": "deploy/crds",
    "github.com/argoproj/argo-rollouts@v1.8.3": "manifests/crds",
    "sigs.k8s.io/secrets-store-csi-driver@v1.4.8": "config/crd/bases",
    "github.com/prometheus-operator/prometheus-operator@v0.84.0": "example/prometheus-operator-crd",
}


async def test_null_that_may_not_be_counts_as_absent(registry: Registry) -> None:
    """As Go writes an empty pointer; where the field is required, it is missing."""
    await establish(registry, definition())
    made = await create(registry, {"size": 1, "labels": None, "items": None})
    assert made["spec"] == {"size": 1}


@pytest.mark.parametrize("labels", [None, {}])
async def test_null_that_may_not_be_is_refused_where_it_is_applied(
    registry: Registry, labels: object
) -> None:
    """An empty map is null in what was applied, where the manager had entries in it before."""
    await establish(registry, definition())

    async def apply(spec: object) -> dict[str, Any]:
        obj = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {"name": "a"},
            "spec": spec,
        }
        return await registry.patch(
            "widgets.example.com", "default", "a", obj, kind="apply", manager="t"
        )

    await apply({"size": None, "labels": {"a": "b"}})
    with pytest.raises(Invalid, match=r'spec\.labels in body must be of type object: "null"'):
        await apply({"size": None, "labels": labels})
    assert (await apply({"size": None}))["spec"] == {"size": 3}


async def test_definition_is_established_and_kind_is_served(registry: Registry) -> None:
    await establish(registry, definition())
    made = await create(registry, {"junk": 1, "any": {"n": None, "l": []}})
    assert made["spec"] == {"any": {"n": None, "l": []}, "size": 3}
    assert made["metadata"]["generation"] == 1
    with pytest.raises(Invalid, match=r"spec\.size in body must be of type integer"):
        await create(registry, {"size": "x"}, "b")
    updated = await registry.patch(
        "widgets.example.com", "default", "a", {"spec": {"size": 4}}, kind="merge", manager="t"
    )
    assert updated["metadata"]["generation"] == 2


async def test_versions_differ_in_their_api_version_alone(registry: Registry) -> None:
    await establish(registry, definition())
    await create(registry, {"size": 4})
    other = "widgets.v1beta1.example.com"
    found = await registry.get(other, "default", "a")
    assert found["apiVersion"] == "example.com/v1beta1"
    with registry.watch(other, "default") as watch:
        event = await anext(aiter(watch))
    assert event.object["apiVersion"] == "example.com/v1beta1"
    await registry.patch(other, "default", "a", {"spec": {"x": 1}}, kind="merge", manager="t")
    entry = registry.store.get("/registry/example.com/widgets/default/a")
    assert entry is not None
    assert b'"apiVersion":"example.com/v1",' in (entry.value or b"")
    listed = await registry.list(other, "default")
    assert [item["apiVersion"] for item in listed.items] == ["example.com/v1beta1"]


async def test_preferred_version_is_the_most_stable_one(registry: Registry) -> None:
    """Whichever is stored; objects and managedFields are in the version of the request."""
    made = definition(name="v1beta1")
    made["spec"]["versions"][1]["name"] = "v1"
    await establish(registry, made)
    group = document(registry.scheme, "/apis/example.com", aggregated=False)
    assert group is not None
    assert [each["version"] for each in group["versions"]] == ["v1", "v1beta1"]
    assert group["preferredVersion"]["version"] == "v1"
    for version in ("v1", "v1beta1"):
        obj = {"metadata": {"name": version}, "spec": {}}
        resource = f"widgets.{version}.example.com"
        made = await registry.create(resource, "default", obj, manager="t")
        (entry,) = made["metadata"]["managedFields"]
        assert made["apiVersion"] == entry["apiVersion"] == f"example.com/{version}"
        path = parse_path(registry.scheme, f"/apis/example.com/{version}/widgets")
        assert path is not None
        assert registry.scheme.resource(registry.scheme.name(path.kind)) == path.kind
        stored = registry.store.get(f"/registry/example.com/widgets/default/{version}")
        assert stored is not None
        assert b'"apiVersion":"example.com/v1beta1",' in (stored.value or b"")
    preferred = await registry.get("widgets.example.com", "default", "v1beta1")
    assert preferred["apiVersion"] == "example.com/v1"


async def test_version_in_which_objects_may_be_stored_cannot_be_removed(
    registry: Registry,
) -> None:
    await establish(registry, definition())
    versions = definition()["spec"]["versions"]
    moved = [{**versions[0], "storage": False}, {**versions[1], "storage": True}]

    async def change(**fields: Any) -> None:
        await registry.patch(
            "customresourcedefinitions", None, "widgets.example.com", fields,
            kind="merge", manager="t", subresource="status" if "status" in fields else "",
        )  # fmt: skip

    await change(spec={"versions": moved})
    why = r'status\.storedVersions\[0\]: Invalid value: "v1": missing from spec\.versions; v1 was'
    with pytest.raises(Invalid, match=why):
        await change(spec={"versions": moved[1:]})
    # As after a migration.
    await change(status={"storedVersions": ["v1beta1"]})
    await change(spec={"versions": moved[1:]})


async def test_status_is_written_through_its_subresource_only(registry: Registry) -> None:
    schema = {
        "type": "object",
        "properties": {"status": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    }
    await establish(registry, definition(schema={"openAPIV3Schema": schema}))
    obj = {"metadata": {"name": "a"}, "status": {"n": 1}}
    made = await registry.create("widgets.example.com", "default", obj, manager="t")
    assert "status" not in made

    async def patch(status: Any) -> dict[str, Any]:
        return await registry.patch(
            "widgets.example.com", "default", "a", {"status": status},
            kind="merge", subresource="status", manager="t",
        )  # fmt: skip

    assert (await patch({"n": 2}))["status"] == {"n": 2}
    with pytest.raises(Invalid, match=r"status\.n in body must be of type integer"):
        await patch({"n": "x"})


async def test_definition_takes_its_objects_with_it(registry: Registry) -> None:
    await establish(registry, definition())
    await create(registry, {})
    await registry.delete("customresourcedefinitions", None, "widgets.example.com")
    for _ in range(200):
        try:
            await registry.get("customresourcedefinitions", None, "widgets.example.com")
        except NotFound:
            break
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    assert not registry.store.range("/registry/example.com/").entries
    with pytest.raises(KeyError):
        registry.scheme.resource("widgets.example.com")


async def test_taken_names_are_reported(registry: Registry) -> None:
    await establish(registry, definition())
    second = definition()
    second["metadata"]["name"] = "gadgets.example.com"
    second["spec"]["names"] = {"plural": "gadgets", "kind": "Widget"}
    await registry.create("customresourcedefinitions", None, second, manager="t")
    while True:
        made = await registry.get("customresourcedefinitions", None, "gadgets.example.com")
        conditions = made["status"]["conditions"]
        if conditions:
            break
        await asyncio.sleep(0.01)
    assert [(c["type"], c["status"]) for c in conditions] == [
        ("NamesAccepted", "False"),
        ("Established", "False"),
    ]
    assert conditions[0]["message"] == '"Widget" is already in use'


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"group": ""}, "spec.group: Required value"),
        ({"names": None}, "spec.names.plural: Required value"),
        ({"names": {"plural": "a"}}, "spec.names.kind: Required value"),
        ({"scope": "Galaxy"}, 'spec.scope: Unsupported value: "Galaxy"'),
        ({"versions": []}, "spec.versions: Invalid value: []: must have exactly one version"),
        ({"versions": [{"name": "v1"}]}, "must have exactly one version marked as storage version"),
        (
            {"versions": [{"name": "v1", "storage": True, "schema": {}}]},
            "spec.versions[0].schema.openAPIV3Schema: Required value",
        ),
    ],
)
async def test_malformed_definition_is_refused(
    registry: Registry, change: dict[str, Any], message: str
) -> None:
    obj = definition()
    obj["spec"].update(change)
    with pytest.raises(Invalid) as refused:
        await registry.create("customresourcedefinitions", None, obj, manager="t")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "change",
    [
        {"names": {"plural": 1}},
        {"versions": ["v1"]},
        {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": []}}]},
        {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"properties": []}}}]},
    ],
)
async def test_definition_of_wrong_types_is_bad_request(
    registry: Registry, change: dict[str, Any]
) -> None:
    obj = definition()
    obj["spec"].update(change)
    with pytest.raises(BadRequest, match="cannot be handled as a CustomResourceDefinition"):
        await registry.create("customresourcedefinitions", None, obj, manager="t")


async def test_objects_outlive_restart_of_registry(registry: Registry) -> None:
    await establish(registry, definition())
    made = await create(registry, {"size": 4})
    again = Registry(registry.store)
    await CustomResources(again).load()
    assert await again.get("widgets.example.com", "default", "a") == made


SCALED = {
    "schema": {"openAPIV3Schema": FREE},
    "subresources": {
        "scale": {"specReplicasPath": ".spec.size.n", "statusReplicasPath": ".status.n"}
    },
}


@pytest.mark.parametrize("subresource", ["", "/scale"])
async def test_strategic_merge_patch_is_refused(registry: Registry, subresource: str) -> None:
    await establish(registry, definition(**SCALED))
    await create(registry, {})
    resource = "/apis/example.com/v1/namespaces/default/widgets/a"
    path = parse_path(registry.scheme, resource + subresource)
    assert path is not None
    request = Request({}, content_type="application/strategic-merge-patch+json", body=b"{}")
    with pytest.raises(ApiError) as refused:
        await answer(registry, "patch", path, request)
    assert refused.value.code == 415


@pytest.mark.parametrize(
    ("spec", "place"),
    [(None, ".spec"), ({"size": None}, ".spec.size"), ({"size": 5}, ".spec.size")],
)
async def test_scale_without_a_place_for_replicas_is_refused(
    registry: Registry, spec: Any, place: str
) -> None:
    """The 500 has Kubernetes' text."""
    await establish(registry, definition(**SCALED))
    await create(registry, spec)
    path = parse_path(registry.scheme, "/apis/example.com/v1/namespaces/default/widgets/a/scale")
    assert path is not None
    body = b'{"spec":{"replicas":2}}'
    request = Request({}, content_type="application/merge-patch+json", body=body)
    with pytest.raises(ApiError) as refused:
        await answer(registry, "patch", path, request)
    assert refused.value.code == 500
    why = f"value cannot be set because {place} is not a map[string]interface{{}}"
    assert refused.value.message == why


async def test_truth_is_not_a_number(registry: Registry) -> None:
    """Python has 1 == True."""
    await establish(registry, definition())
    await create(registry, {"any": {"on": 1}})
    patch = {"spec": {"any": {"on": True}}}
    await registry.patch("widgets.example.com", "default", "a", patch, kind="merge", manager="u")
    changed = await registry.get("widgets.example.com", "default", "a")
    assert changed["spec"]["any"]["on"] is True
    assert changed["metadata"]["generation"] == 2
    owners = [entry["manager"] for entry in changed["metadata"]["managedFields"]]
    assert owners == ["t", "u"]


@pytest.mark.parametrize(
    ("first", "then", "before", "after"),
    [
        ({"n": {"q": 1}, "o": 1}, {"n": "x"}, {".", "f:o"}, {"f:n": {}}),
        ({"n": [1], "o": 1}, {"n": {"q": 1}}, {".", "f:o"}, {"f:n": {".": {}, "f:q": {}}}),
        ({"n": 1, "o": 1}, {"n": {"q": 1}}, {".", "f:o"}, {"f:n": {".": {}, "f:q": {}}}),
    ],
)
async def test_part_that_changes_its_type_has_one_owner(
    registry: Registry,
    first: dict[str, Any],
    then: dict[str, Any],
    before: set[str],
    after: dict[str, Any],
) -> None:
    await establish(registry, definition())
    await create(registry, {"any": first})
    patch = {"spec": {"any": then}}
    changed = await registry.patch(
        "widgets.example.com", "default", "a", patch, kind="merge", manager="u"
    )
    owned = {
        entry["manager"]: entry["fieldsV1"]["f:spec"]["f:any"]
        for entry in changed["metadata"]["managedFields"]
    }
    assert set(owned["t"]) == before
    assert owned["u"] == after


async def test_unknown_fields_are_warned_of(registry: Registry) -> None:
    await establish(registry, definition())
    path = parse_path(registry.scheme, "/apis/example.com/v1/namespaces/default/widgets")
    assert path is not None
    body = b'{"metadata":{"name":"a"},"spec":{"junk":1}}'
    warnings: list[str] = []
    await answer(registry, "create", path, Request({}, body=body, warnings=warnings))
    assert warnings == ['unknown field "spec.junk"']
    with pytest.raises(BadRequest, match=r'strict decoding error: unknown field "spec\.junk"'):
        await answer(registry, "create", path, Request({"fieldValidation": "Strict"}, body=body))


async def test_unknown_fields_of_definitions_are_warned_of_and_not_stored(
    registry: Registry,
) -> None:
    made = definition(junk=1, additionalPrinterColumns=[])
    made["spec"]["names"]["shortname"] = ["w"]
    # Strict decoding does not look into what upstream reads by an own UnmarshalJSON.
    lists = {"type": "array", "items": {"type": "string", "foo": 1}}
    properties = {"a": {"type": "string", "maxLenght": 4}, "l": lists}
    schema = {"type": "object", "properties": properties}
    made["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    path = parse_path(registry.scheme, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    assert path is not None
    declared = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    body = json.dumps({**declared, **made, "specs": {}}).encode()
    warnings: list[str] = []
    await answer(registry, "create", path, Request({}, body=body, warnings=warnings))
    at = "spec.versions[0].schema.openAPIV3Schema.properties.a.maxLenght"
    unknown = ["specs", "spec.names.shortname", "spec.versions[0].junk", at]
    assert sorted(warnings) == sorted(f'unknown field "{field}"' for field in unknown)
    with pytest.raises(BadRequest, match=r'strict decoding error: unknown field "specs"'):
        await answer(registry, "create", path, Request({"fieldValidation": "Strict"}, body=body))
    apply = Request({"fieldManager": "m"}, content_type="application/apply-patch+yaml", body=body)
    with pytest.raises(ApiError, match=r"\.spec\.names\.shortname: field not declared in schema"):
        await answer(registry, "patch", path._replace(name="widgets.example.com"), apply)
    stored = await registry.get("customresourcedefinitions", None, "widgets.example.com")
    assert not any(word in json.dumps(stored) for word in ("shortname", "junk", "Lenght", "foo"))


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ({"spec": {"junk": 1}}, r'strict decoding error: unknown field "spec\.junk"'),
        ({"metadata": {"labels": {"a": 1}}}, "json: cannot unmarshal number into Go struct"),
    ],
)
async def test_patch_that_does_not_fit_shows_its_result(
    registry: Registry, patch: object, why: str
) -> None:
    await establish(registry, definition())
    await create(registry, {"size": 1})
    path = parse_path(registry.scheme, "/apis/example.com/v1/namespaces/default/widgets/a")
    assert path is not None
    merge = "application/merge-patch+json"
    body = json.dumps(patch).encode()
    request = Request({"fieldValidation": "Strict"}, content_type=merge, body=body)
    with pytest.raises(Invalid, match=why) as refused:
        await answer(registry, "patch", path, request)
    start = (
        ' "" is invalid: patch: Invalid value: "{\\"apiVersion\\":\\"example.com/v1\\",\\"kind\\"'
    )
    assert refused.value.message.startswith(start)


async def test_floats_without_a_fraction_are_written_as_integers(registry: Registry) -> None:
    await establish(registry, definition())
    spec = {"size": 4.0, "any": {"a": [1.0, {"b": 1e3}], "c": 0.5, "d": 1e30}}
    shown = {"size": 4, "any": {"a": [1, {"b": 1000}], "c": 0.5, "d": 1e30}}
    made = await create(registry, spec)
    assert json.dumps(made["spec"]) == json.dumps(shown)
    patch = {"spec": {"size": 5.0}}
    await registry.patch("widgets.example.com", "default", "a", patch, kind="merge", manager="t")
    read = await registry.get("widgets.example.com", "default", "a")
    assert json.dumps(read["spec"]) == json.dumps({**shown, "size": 5})


async def test_subresource_that_is_not_served_names_the_object(registry: Registry) -> None:
    await establish(registry, definition(subresources={}))
    with pytest.raises(NotFound, match=r'^widgets\.example\.com "a" not found$'):
        parse_path(registry.scheme, "/apis/example.com/v1/namespaces/default/widgets/a/status")


LISTS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {
                "type": "object",
                "required": ["port"],
                "properties": {
                    "port": {"type": "integer"},
                    "protocol": {"type": "string", "default": "TCP"},
                    "name": {"type": "string"},
                },
            },
        },
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "words": {"type": "array", "items": {"type": "string"}},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", **FREE},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


async def test_apply_follows_list_types_of_schema(registry: Registry) -> None:
    """Lists are maps or sets where the schema says so; each applier owns what it sends."""
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": LISTS}}}
    await establish(registry, definition(schema=schema))

    async def apply(manager: str, **spec: Any) -> Any:
        config = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {"name": "a"},
            "spec": spec,
        }
        return await registry.patch(
            "widgets.example.com", "default", "a", config, kind="apply", manager=manager
        )

    await apply("m1", ports=[{"port": 80, "name": "web"}], tags=["a"], labels={"x": "1"})
    shared = await apply("m2", ports=[{"port": 81}], tags=["b"], labels={"y": "2"})
    assert [port["port"] for port in shared["spec"]["ports"]] == [80, 81]
    assert sorted(shared["spec"]["tags"]) == ["a", "b"]
    assert shared["spec"]["labels"] == {"x": "1", "y": "2"}
    owned = {entry["manager"]: entry["fieldsV1"] for entry in shared["metadata"]["managedFields"]}
    assert owned["m1"] == {
        "f:spec": {
            "f:labels": {"f:x": {}},
            "f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:name": {}, "f:port": {}}},
            "f:tags": {'v:"a"': {}},
        }
    }
    with pytest.raises(
        Conflict, match=r'conflict with "m1": .spec.ports\[port=80,protocol="TCP"\]'
    ):
        await apply("m2", ports=[{"port": 80, "name": "other"}])
    left = await apply("m1", words=["x"], whole={"a": 1})
    assert left["spec"]["ports"] == [{"port": 81, "protocol": "TCP"}]
    assert (left["spec"]["tags"], left["spec"]["labels"]) == (["b"], {"y": "2"})
    with pytest.raises(Conflict, match=r"\.spec\.whole"):
        await apply("m2", whole={"b": 2})
    with pytest.raises(Conflict, match=r"\.spec\.words"):
        await apply("m2", words=["y"])


async def test_schema_is_published(registry: Registry) -> None:
    openapi = OpenAPI(registry.scheme)
    assert openapi.hash("apis/example.com/v1") is None
    await establish(registry, definition())
    document = openapi.document("apis/example.com/v1")
    assert b'"com.example.v1.Widget":{' in document
    assert b'"additionalProperties":{"type":"string"}' in document
    assert b"strategic-merge-patch" not in document


def go_module(module: str) -> Path:
    """Return the folder of a Go module, which is downloaded the first time."""
    go = shutil.which("go") or ""
    requires("go-modules", available=bool(go), reason="there is no Go")
    command = [go, "mod", "download", "-json", module]
    done = subprocess.run(command, capture_output=True, cwd="/", check=False)
    found = json.loads(done.stdout or b"{}")
    problem = found.get("Error") or done.stderr.decode()
    requires("go-modules", available="Dir" in found, reason=f"{module}: {problem}")
    return Path(found["Dir"])


@pytest.mark.slow
@pytest.mark.parametrize("module", _PUBLISHED, ids=lambda module: module.split("/")[1])
async def test_published_definitions_load(registry: Registry, module: str) -> None:
    loaded = 0
    for path in sorted((go_module(module) / _PUBLISHED[module]).glob("*.yaml")):
        # Those of a chart have actions of its template language in them.
        plain = re.sub(r"^\{\{.*\}\}$", "", path.read_text(), flags=re.MULTILINE)
        for text in re.sub(r"\{\{.*?\}\}", "x", plain).split("\n---\n"):
            obj = decode_body(text.encode(), "application/yaml").value if "kind:" in text else {}
            if obj.get("kind") == "CustomResourceDefinition":
                await establish(registry, obj)
                loaded += 1
    assert loaded >= 2


async def test_defaults_fill_in_stored_objects_on_read(registry: Registry) -> None:
    """A default that comes later shows in objects from before, however they are read."""
    bare: dict[str, Any] = {"type": "object", "properties": {"size": {"type": "integer"}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": bare}}}
    await establish(registry, definition(schema=schema))
    assert (await create(registry, {}))["spec"] == {}
    name = "widgets.example.com"

    def add_default(found: dict[str, Any]) -> dict[str, Any]:
        spec = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        spec["properties"]["size"]["default"] = 3
        return found

    await registry.modify("customresourcedefinitions", None, name, add_default, manager="t")
    while True:
        found = await registry.get(name, "default", "a")
        if found["spec"] == {"size": 3}:
            break
        await asyncio.sleep(0.01)
    assert [obj["spec"] for obj in (await registry.list(name)).items] == [{"size": 3}]
    with registry.watch(name, "default") as watch:
        assert (await anext(watch)).object["spec"] == {"size": 3}


async def test_condition_without_type_leaves_definition_served(registry: Registry) -> None:
    """Whoever may write the status cannot stop the server by it."""
    await establish(registry, definition())
    name = "widgets.example.com"

    def spoil(found: dict[str, Any]) -> dict[str, Any]:
        found["status"]["conditions"] = [{"message": "patched"}]
        return found

    await registry.modify(
        "customresourcedefinitions", None, name, spoil, subresource="status", manager="t"
    )
    while True:
        found = await registry.get("customresourcedefinitions", None, name)
        kinds = [condition.get("type") for condition in found["status"]["conditions"]]
        if "Established" in kinds:
            break
        await asyncio.sleep(0.01)
    assert {"message": "patched"} in found["status"]["conditions"]
    assert await create(registry, {"size": 1})


async def test_custom_resource_may_have_any_finalizer(registry: Registry) -> None:
    """The list of standard names is for built-in kinds."""
    await establish(registry, definition())
    obj = {"metadata": {"name": "a", "finalizers": ["keep"]}, "spec": {}}
    made = await registry.create("widgets.example.com", "default", obj, manager="t")
    assert made["metadata"]["finalizers"] == ["keep"]


async def test_repeated_key_of_an_apply_is_reported(registry: Registry) -> None:
    """In YAML and in JSON; strictly it is refused."""
    await establish(registry, definition())
    path = parse_path(registry.scheme, "/apis/example.com/v1/namespaces/default/widgets/a")
    assert path is not None
    text = (
        "error converting YAML to JSON: yaml: unmarshal errors:\n"
        '  line 6: key "size" already set in map'
    )
    body = b"apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec:\n"
    body += b"  size: 1\n  size: 2\n"
    warnings: list[str] = []
    kind = "application/apply-patch+yaml"
    request = Request({"fieldManager": "m"}, content_type=kind, body=body, warnings=warnings)
    await answer(registry, "patch", path, request)
    assert warnings == [text]
    strict = request._replace(query={"fieldManager": "m", "fieldValidation": "Strict"})
    with pytest.raises(BadRequest, match="error strict decoding YAML: error converting"):
        await answer(registry, "patch", path, strict)
