"""Definitions are refused for the schemas that Kubernetes refuses, in its words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.local.apiserver.widgets import definition, registry

from hotmap.core.errors import Invalid

if TYPE_CHECKING:
    from hotmap.local.apiserver.registry import Registry

__all__ = ["registry"]

JsonObject = dict[str, Any]

TEXT = {"type": "string"}
ITEM = {"type": "object", "properties": {"a": TEXT}}


def listed(kind: str, items: JsonObject, *keys: str) -> JsonObject:
    found: JsonObject = {"type": "array", "x-kubernetes-list-type": kind, "items": items}
    return {**found, "x-kubernetes-list-map-keys": list(keys)} if keys else found


def within(**more: Any) -> JsonObject:
    """Return an object with one field, and what is said of it besides."""
    return {**ITEM, **more}


async def create(registry: Registry, schema: JsonObject, **spec: Any) -> JsonObject:
    obj = definition(schema={"openAPIV3Schema": schema})
    obj["spec"].update(spec)
    return await registry.create("customresourcedefinitions", None, obj, manager="t")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (
            listed("map", ITEM, "a"),
            ".items.properties[a].default: Required value: this property is in "
            "x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ),
        (listed("map", {**ITEM, "required": ["a"]}, "a"), ""),
        (listed("map", {"type": "object", "properties": {"a": {**TEXT, "default": "x"}}}, "a"), ""),
        (
            listed("map", ITEM, "b"),
            '.x-kubernetes-list-map-keys: Invalid value: ["b"]: entries must all be names of item '
            "properties",
        ),
        (
            listed("map", TEXT, "a"),
            '.items.type: Invalid value: "string": must be object if parent array\'s '
            "x-kubernetes-list-type is map",
        ),
        (
            listed("list", TEXT),
            '.x-kubernetes-list-type: Unsupported value: "list": supported values: "atomic", '
            '"set", "map"',
        ),
        (
            listed("set", ITEM),
            ".items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list "
            "with x-kubernetes-list-type=set",
        ),
        (listed("set", {**ITEM, "x-kubernetes-map-type": "atomic"}), ""),
        (
            listed("set", {**TEXT, "nullable": True}),
            ".items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set",
        ),
        (
            {**TEXT, "x-kubernetes-map-type": "atomic"},
            '.type: Invalid value: "string": must be object if x-kubernetes-map-type is specified',
        ),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True},
            ".properties: Required value: must not be empty if x-kubernetes-embedded-resource is "
            "true without x-kubernetes-preserve-unknown-fields",
        ),
        (
            {"type": "array", "items": TEXT, "uniqueItems": True},
            ".uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime "
            "complexity becomes quadratic",
        ),
        (within(patternProperties={}), ".patternProperties: Forbidden: patternProperties is not"),
        (within(anyOf=[{"required": ["a"]}]), ""),
        (
            within(anyOf=[{"properties": {"a": TEXT}}]),
            ".anyOf[0].properties[a].type: Forbidden: must be empty to be structural",
        ),
        (
            within(allOf=[{"default": {}}]),
            ".allOf[0].default: Forbidden: must be undefined to be structural",
        ),
        (
            {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, TEXT]},
            "",
        ),
        (
            {"x-kubernetes-int-or-string": True, "anyOf": [TEXT, {"type": "integer"}]},
            ".anyOf[0].type: Forbidden: must be empty to be structural",
        ),
    ],
)
async def test_schema_is_structural(registry: Registry, schema: JsonObject, message: str) -> None:
    root = {"type": "object", "properties": {"f": schema}}
    if not message:
        await create(registry, root)
        return
    with pytest.raises(Invalid) as refused:
        await create(registry, root)
    assert f"openAPIV3Schema.properties[f]{message}" in str(refused.value)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"metadata": {"type": "object", "properties": {"name": TEXT}}}, ""),
        (
            {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}},
            "openAPIV3Schema.properties[metadata]: Forbidden: must not specify anything other "
            "than name and generateName, but metadata is implicitly specified",
        ),
        ({"kind": {"type": "integer"}}, '[kind].type: Invalid value: "integer": must be string'),
    ],
)
async def test_schema_says_little_of_metadata(
    registry: Registry, properties: JsonObject, message: str
) -> None:
    root = {"type": "object", "properties": properties}
    if not message:
        await create(registry, root)
        return
    with pytest.raises(Invalid) as refused:
        await create(registry, root)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"preserveUnknownFields": True},
            "spec.preserveUnknownFields: Invalid value: true",
        ),
        (
            {"conversion": {"strategy": "Webhook"}},
            "spec.conversion.webhookClientConfig: Required value: required when strategy is set to "
            "Webhook",
        ),
        (
            {"conversion": {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}}},
            "spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy "
            "is not set to Webhook",
        ),
    ],
)
async def test_conversion_fits_its_strategy(
    registry: Registry, spec: JsonObject, message: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await create(registry, ITEM, **spec)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ({"deprecationWarning": "old"}, "can only be set for deprecated versions"),
        ({"deprecated": True, "deprecationWarning": ""}, "must not be an empty string"),
        ({"deprecated": True, "deprecationWarning": "a\nb"}, "non-printable character found at"),
    ],
)
async def test_deprecation_warning_is_one_of_a_deprecated_version(
    registry: Registry, version: JsonObject, why: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await registry.create("customresourcedefinitions", None, definition(**version), manager="t")
    assert "spec.versions[0].deprecationWarning: Invalid value" in str(refused.value)
    assert why in str(refused.value)
