"""Schemas, columns and versions of custom resources, without a server."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.local.apiserver.widgets import OBJECT, definition

from hotmap.local.apiserver.custom.jsonpath import find, is_valid_path
from hotmap.local.apiserver.custom.kind import CustomStrategy, custom_kind
from hotmap.local.apiserver.custom.schema import add_defaults, drop_nulls, prune, unknown_fields
from hotmap.local.apiserver.custom.validation import schema_errors
from hotmap.local.apiserver.registry import Registry
from hotmap.local.apiserver.storage_codec import StorageCodec
from hotmap.local.apiserver.yaml_reader import YamlError, read_yaml
from hotmap.local.group_version_kind import version_order
from hotmap.local.names import label_1035_errors
from hotmap.local.store import MVCCStore

#: The version of widgets that is served beside the first one.
BETA = "example.com/v1beta1 Widget"


def test_prune_removes_what_is_not_specified() -> None:
    value = {
        "metadata": {"name": "a", "x": 1},
        "spec": {
            "junk": 1,
            "items": [{"k": "a", "junk": 1}],
            "labels": {"a": "b"},
            "any": {"deep": {"er": None}},
        },
        "junk": 1,
    }
    assert unknown_fields(value, OBJECT) == ["spec.junk", "spec.items[0].junk", "junk"]
    prune(value, OBJECT, is_root=True)
    assert value == {
        "metadata": {"name": "a", "x": 1},
        "spec": {"items": [{"k": "a"}], "labels": {"a": "b"}, "any": {"deep": {"er": None}}},
    }


def test_defaults_reach_into_lists_and_replace_nulls() -> None:
    value: dict[str, Any] = {"spec": {"size": None, "items": [{"k": "a"}, {"v": "y"}]}}
    add_defaults(value, OBJECT)
    expected = {"size": 3, "items": [{"k": "a", "v": "x"}, {"v": "y"}]}
    assert value == {"spec": expected}


def test_default_that_is_null_is_none() -> None:
    value: dict[str, Any] = {}
    schema = {"properties": {"a": {"type": "string", "nullable": True, "default": None}}}
    add_defaults(value, schema)
    assert value == {}


def test_nulls_that_may_not_be_are_dropped() -> None:
    schema = {
        "properties": {
            "text": {"type": "string"},
            "either": {"type": "string", "nullable": True},
            "list": {"type": "array", "items": {"properties": {"a": {"type": "string"}}}},
            "map": {"additionalProperties": {"type": "string"}},
            "any": {"x-kubernetes-preserve-unknown-fields": True},
            "default": {"type": "string", "default": "d"},
        }
    }
    value = {
        "text": None,
        "default": None,
        "either": None,
        "list": [{"a": None}, None],
        "map": {"k": None, "l": "v"},
        "any": {"deep": None},
    }
    drop_nulls(value, schema)
    assert value == {
        "either": None,
        "list": [{}, None],
        "map": {"l": "v"},
        "any": {"deep": None},
        "default": None,
    }


def _wrong_type(found: str, wanted: str) -> str:
    return f'Invalid value: "{found}": f in body must be of type {wanted}: "{found}"'


def _fraction(found: str, wanted: str, shown: str) -> list[str]:
    checked = f'Invalid value: "": Checked value must be of type integer {shown} in f'
    return [_wrong_type(found, wanted), checked]


@pytest.mark.parametrize(
    ("value", "schema", "errors"),
    [
        (5, {"type": "integer"}, []),
        (5.0, {"type": "integer"}, []),
        (True, {"type": "integer"}, [_wrong_type("boolean", "integer")]),
        (1.5, {"type": "integer"}, _fraction("number", "integer", "(default format)")),
        (
            1.5,
            {"type": "integer", "format": "int32"},
            _fraction("float64", "int32", "with format int32"),
        ),
        (
            {"a": 1},
            {"required": ["b"], "properties": {"a": {"maximum": 0}}},
            ["Invalid value: 1: f.a in body should be less than or equal to 0", "Required value"],
        ),
        (None, {"type": "string"}, [_wrong_type("null", "string")]),
        (None, {"type": "string", "nullable": True}, []),
        (11, {"maximum": 10}, ["Invalid value: 11: f in body should be less than or equal to 10"]),
        (
            10,
            {"maximum": 10, "exclusiveMaximum": True},
            ["Invalid value: 10: f in body should be less than 10"],
        ),
        (0, {"maximum": 1.5}, []),
        (-1, {"maximum": 1.5, "exclusiveMaximum": True}, []),
        (2, {"minimum": 1.5}, []),
        (2, {"maximum": 1.5}, ["Invalid value: 2: f in body should be less than or equal to 1"]),
        (
            1.6,
            {"maximum": 1.5},
            ["Invalid value: 1.6: f in body should be less than or equal to 1.5"],
        ),
        (0, {"minimum": 1}, ["Invalid value: 0: f in body should be greater than or equal to 1"]),
        (7, {"multipleOf": 5}, ["Invalid value: 7: f in body should be a multiple of 5"]),
        ("b", {"enum": ["a", "c"]}, ['Unsupported value: "b": supported values: "a", "c"']),
        ("ab", {"pattern": "^a$"}, ["Invalid value: \"ab\": f in body should match '^a$'"]),
        ("abc", {"maxLength": 2}, ["Too long: may not be more than 2 bytes"]),
        ("a", {"minLength": 2}, ['Invalid value: "a": f in body should be at least 2 chars long']),
        ([1], {"minItems": 2}, ["Invalid value: 1: f in body should have at least 2 items"]),
        ([1, 2], {"maxItems": 1}, ["Too many: 2: must have at most 1 items"]),
        (
            "x",
            {"format": "date-time"},
            ['Invalid value: "x": f in body must be of type date-time: "x"'],
        ),
        ("2026-01-01T00:00:00Z", {"format": "date-time"}, []),
        ("fe80::1", {"format": "ipv6"}, []),
        (1, {"x-kubernetes-int-or-string": True}, []),
        ("1", {"x-kubernetes-int-or-string": True}, []),
        ({"apiVersion": "v1", "kind": "Pod"}, {"x-kubernetes-embedded-resource": True}, []),
        ({"kind": "Pod"}, {"x-kubernetes-embedded-resource": True}, ["Required value"]),
        (
            {"apiVersion": "", "kind": ""},
            {"x-kubernetes-embedded-resource": True},
            ['Invalid value: "": must not be empty', 'Invalid value: "": must not be empty'],
        ),
        (
            {"apiVersion": "a/b/c", "kind": "aB"},
            {"x-kubernetes-embedded-resource": True},
            ['Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c'],
        ),
        (
            {"apiVersion": "v1", "kind": 5},
            {"x-kubernetes-embedded-resource": True},
            ["Invalid value: 5: must be a string"],
        ),
        (
            {"apiVersion": "v1", "kind": "b a"},
            {"x-kubernetes-embedded-resource": True},
            [
                'Invalid value: "b a": may have mixed case, but should otherwise match: '
                f"{label_1035_errors('b a')[0]}"
            ],
        ),
        (["a", "a"], {"x-kubernetes-list-type": "set"}, ['Duplicate value: "a"']),
        (
            {"a": 1},
            {"not": {"required": ["a"]}},
            ['Invalid value: "": "f" must not validate the schema (not)'],
        ),
    ],
)
def test_schema_errors_are_those_of_kubernetes(value: Any, schema: Any, errors: list[str]) -> None:
    assert [error.text for error in schema_errors(value, schema, "f")] == errors


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b", [1]),
        (".a['b']", [1]),
        (".list[1].x", [2]),
        (".list[-1].x", [2]),
        (".list[*].x", [1, 2]),
        ('.list[?(@.k=="q")].x', [2]),
        (r".a.dot\.ted", ["d"]),
        (".missing.b", []),
    ],
)
def test_json_path_finds_values(path: str, found: list[Any]) -> None:
    obj = {"a": {"b": 1, "dot.ted": "d"}, "list": [{"k": "p", "x": 1}, {"k": "q", "x": 2}]}
    assert find(path, obj) == found
    assert is_valid_path(path)
    assert not is_valid_path(path + "[")


def test_versions_are_ordered_by_stability() -> None:
    ordered = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "foo1", "foo10"]
    assert sorted(set(ordered), key=version_order) == ordered


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ({}, "example.com/v1 Widget is deprecated"),
        ({"name": "v1alpha1"}, f"example.com/v1alpha1 Widget is deprecated; use {BETA}"),
        ({"deprecationWarning": "move on"}, "move on"),
        ({"deprecated": False}, ""),
    ],
)  # fmt: skip
def test_deprecated_versions_are_warned_of(version: dict[str, Any], text: str) -> None:
    kind = custom_kind(definition(**{"deprecated": True, **version}))
    first, second = version.get("name", "v1"), "v1beta1"
    assert kind.at(first).strategy.deprecation == text
    assert kind.at(second).strategy.deprecation == ""


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("integer", [None, 1, None]),
        ("number", [None, 1.5, None]),
        ("boolean", [True, None, None]),
        ("date", [None, None, "<unknown>"]),
        ("string", ["true", "1.5", "x"]),
    ],
)
def test_columns_show_only_values_of_their_type(kind: str, shown: list[Any]) -> None:
    columns = [{"name": "a", "type": kind, "jsonPath": ".spec.a"}]
    _, column = CustomStrategy({"additionalPrinterColumns": columns}).columns
    assert [column.cell({"spec": {"a": value}}, 0) for value in (True, 1.5, "x")] == shown


def test_column_shows_the_first_of_several_values() -> None:
    columns = [{"name": "a", "type": "string", "jsonPath": ".spec.a[*].k"}]
    _, column = CustomStrategy({"additionalPrinterColumns": columns}).columns
    assert column.cell({"spec": {"a": [{"k": "x"}, {"k": "y"}]}}, 0) == "x"


def test_definition_of_etcd_is_read() -> None:
    stored = (
        b'{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1",'
        b'"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","version":"v1",'
        b'"names":{"plural":"widgets","kind":"Widget"},"scope":"Namespaced",'
        b'"validation":{"openAPIV3Schema":{"type":"object"}},"additionalPrinterColumns":'
        b'[{"name":"A","type":"string","JSONPath":".a"}],'
        b'"versions":[{"name":"v1","served":true,"storage":true}],"preserveUnknownFields":false}}'
    )
    registry = Registry(MVCCStore())
    value = StorageCodec(registry.scheme).decode("/registry/x", stored)
    found = yaml.safe_load(value or b"")
    assert found["apiVersion"] == "apiextensions.k8s.io/v1"
    assert found["spec"]["versions"] == [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object"}},
            "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".a"}],
        }
    ]


@pytest.mark.parametrize(("title", "count"), [("b", 1), ("bbbbbb", 1), ("bbb", 1), ("aaa", 0)])
def test_text_of_wrong_length_is_not_held_against_its_pattern(title: str, count: int) -> None:
    schema = {"type": "string", "pattern": "^a+$", "minLength": 2, "maxLength": 5}
    assert len(schema_errors(title, schema, "title")) == count


def test_repeated_keys_of_aliases_are_found_once() -> None:
    """A document that grows by its aliases is not written out."""
    bomb = b"a0: &a0 {k: 1, k: 2}\n"
    bomb += b"".join(b"a%d: &a%d [*a%d, *a%d]\n" % (n, n, n - 1, n - 1) for n in range(1, 60))
    with pytest.raises(YamlError, match="excessive aliasing"):
        read_yaml(bomb)
    small = b"a: &a {k: 1, k: 2}\nb: [*a, *a]\n"
    assert read_yaml(small).strict_error.count("already set in map") == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("four", ".spec.n: Invalid value: 0: .spec.n accessor error: four is of the type string"),
        (-1, ".spec.n: Invalid value: -1: should be a non-negative integer"),
        (1 << 31, ".spec.n: Invalid value: 2147483648: should be less than or equal to 2147483647"),
        (3, ""),
    ],
)
def test_number_of_a_scale_is_one(value: object, text: str) -> None:
    """What a Scale would show is checked with its object."""
    scale = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
    version = {"name": "v1", "schema": {}, "subresources": {"scale": scale}}
    errors = CustomStrategy(version).validate({"metadata": {}, "spec": {"n": value}})
    assert text in "".join(map(str, errors))
    assert bool(errors) == bool(text)
