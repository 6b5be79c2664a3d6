"""CustomResourceDefinitions and their objects."""

from __future__ import annotations

from typing import Any

from tests.conformance.cases.call import JSON_PATCH, STRATEGIC, TABLE, Call, group

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def _definition(plural: str, schema: dict[str, Any], **version: Any) -> dict[str, Any]:
    kind = plural[:-1].capitalize()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.conformance.test"},
        "spec": {
            "group": "conformance.test",
            "names": {"plural": plural, "kind": kind},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    **version,
                }
            ],
        },
    }


_SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["color"],
            "properties": {
                "color": {"type": "string", "enum": ["red", "green"]},
                "size": {"type": "integer", "default": 3, "minimum": 1, "maximum": 10},
                "replicas": {"type": "integer"},
                "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "port": {"type": "integer"}},
                    },
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "quantity": {"x-kubernetes-int-or-string": True},
            },
        },
        "status": {
            "type": "object",
            "properties": {"replicas": {"type": "integer"}, "phase": {"type": "string"}},
        },
    },
}


def subjects() -> dict[str, list[Call]]:
    """Return the subjects of this module."""
    return {"custom-definitions": _wrong(), "custom-objects": _objects()}


def _wrong() -> list[Call]:
    def post(name: str, body: dict[str, Any]) -> Call:
        return Call(name, "POST", _DEFINITIONS, body)

    made = _definition("gadgets", {"type": "object"})
    spec = made["spec"]
    return [
        post("wrong name", {**made, "metadata": {"name": "other.conformance.test"}}),
        post("no schema", {**made, "spec": {**spec, "versions": [{"name": "v1", "served": True, "storage": True}]}}),
        post("no versions", {**made, "spec": {**spec, "versions": []}}),
        post("no storage", {**made, "spec": {**spec, "versions": [{**spec["versions"][0], "storage": False}]}}),
        post("wrong scope", {**made, "spec": {**spec, "scope": "Everywhere"}}),
        post("no type", _definition("gadgets", {"properties": {"a": {}}})),
        post("wrong type", _definition("gadgets", {"type": "object", "properties": {"a": {"type": "text"}}})),
        post("wrong pattern", _definition("gadgets", {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}})),
        post("array without items", _definition("gadgets", {"type": "object", "properties": {"a": {"type": "array"}}})),
        post("reference", _definition("gadgets", {"type": "object", "properties": {"a": {"$ref": "#/x"}}})),
        post("wrong default", _definition("gadgets", {"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}})),
        post("scale without paths", _definition("gadgets", {"type": "object"}, subresources={"scale": {}})),
        post("column", _definition("gadgets", {"type": "object"}, additionalPrinterColumns=[{"name": "A", "type": "text", "jsonPath": ".a"}])),
        post("version name", {**made, "spec": {**spec, "versions": [{**spec["versions"][0], "name": "V1"}]}}),
        post("short name", {**made, "spec": {**spec, "names": {**spec["names"], "shortNames": ["A"]}}}),
        post("not served kind", {**made, "spec": {**spec, "names": {"plural": "gadgets"}}}),
    ]  # fmt: skip


def _objects() -> list[Call]:
    widgets = group("custom-objects", "conformance.test/v1", "widgets")
    definition = _definition(
        "widgets",
        _SCHEMA,
        subresources={
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        additionalPrinterColumns=[
            {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1},
        ],
    )  # fmt: skip

    def widget(name: str, **spec: Any) -> dict[str, Any]:
        return {
            "apiVersion": "conformance.test/v1",
            "kind": "Widget",
            "metadata": {"name": name},
            "spec": {"color": "red", **spec},
        }

    return [
        Call("define", "POST", _DEFINITIONS, definition),
        Call("established", "GET", f"{_DEFINITIONS}/widgets.conformance.test", until='"InitialNamesAccepted"'),
        Call("group", "GET", "/apis/conformance.test"),
        Call("resources", "GET", "/apis/conformance.test/v1", until="widgets/scale"),
        Call("definition table", "GET", f"{_DEFINITIONS}/widgets.conformance.test", accept=TABLE),
        widgets.post("create", widget("a")),
        widgets.post("exists", widget("a")),
        widgets.post("pruned", widget("pruned", junk=1, free={"kept": True})),
        widgets.post("strict", widget("b", junk=1), fieldValidation="Strict"),
        widgets.post("warn", widget("warned", junk=1), fieldValidation="Warn"),
        widgets.post("required", {**widget("b"), "spec": {}}),
        widgets.post("enum", widget("b", color="blue")),
        widgets.post("type", widget("b", size="5")),
        widgets.post("range", widget("b", size=11)),
        widgets.post("low", widget("b", size=0)),
        widgets.post("many", widget("b", tags=["a", "b", "c"])),
        widgets.post("duplicate keys", widget("b", ports=[{"name": "a"}, {"name": "a"}])),
        widgets.post("two errors", widget("b", color="blue", size=11)),
        widgets.post("nested", widget("b", ports=[{"port": 1}])),
        widgets.post("quantity", widget("c", quantity="1Gi")),
        widgets.post("wrong quantity", widget("d", quantity=True)),
        widgets.post("wrong name", widget("A_B")),
        widgets.post("wrong kind", {**widget("b"), "kind": "Other"}),
        widgets.get("get", "a"),
        widgets.get("missing", "none"),
        widgets.list("table", TABLE),
        widgets.list("list", fieldSelector="metadata.name=a"),
        widgets.list("unknown field", fieldSelector="spec.color=red"),
        widgets.patch("merge", "a", {"spec": {"size": 5}}),
        widgets.patch("no change", "a", {"spec": {"size": 5}}),
        widgets.patch("merge to default", "a", {"spec": {"size": None}}),
        widgets.patch("strategic", "a", {}, STRATEGIC),
        widgets.patch("json", "a", [{"op": "add", "path": "/spec/tags", "value": ["x"]}], JSON_PATCH),
        widgets.patch("json out of range", "a", [{"op": "replace", "path": "/spec/size", "value": 20}], JSON_PATCH),
        widgets.patch("status by main", "a", {"status": {"phase": "x"}}),
        widgets.patch("status", "a/status", {"status": {"phase": "x", "replicas": 2}, "spec": {"size": 9}}),
        widgets.get("scale", "a/scale"),
        widgets.patch("patch scale", "a/scale", {"spec": {"replicas": 4}}),
        widgets.apply("apply", "a", widget("a", ports=[{"name": "p", "port": 1}]), force="true"),
        widgets.apply("apply by another", "a", widget("a", ports=[{"name": "q", "port": 2}]), "two"),
        widgets.apply("apply conflict", "a", widget("a", ports=[{"name": "p", "port": 3}]), "two"),
        widgets.apply("apply unknown", "a", widget("a", junk=1)),
        widgets.put("without version", "a", widget("a")),
        widgets.get("get again", "a"),
        widgets.put("replace", "a", {**widget("a"), "metadata": {"name": "a", "resourceVersion": "${get again:metadata.resourceVersion}"}}),
        widgets.delete("delete", "a"),
        widgets.delete("collection"),
        Call("remove definition", "DELETE", f"{_DEFINITIONS}/widgets.conformance.test"),
    ]  # fmt: skip
