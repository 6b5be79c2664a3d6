"""YAML is read as sigs.k8s.io/yaml reads it, at a bounded cost."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.local.apiserver.api import CONFIGMAPS

from hotmap.local.apiserver import negotiation
from hotmap.local.apiserver.nesting import MAX_DEPTH
from hotmap.local.apiserver.yaml_reader import YamlDocument, YamlError, read_yaml

if TYPE_CHECKING:
    from tests.local.apiserver.api import Api

YAML = "application/yaml"
APPLY = "application/apply-patch+yaml"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1, 010, 0x1f, 0o17, 0b11, 1_000, -5, +5]", [1, 8, 31, 15, 3, 1000, -5, 5]),
        ("[1.5, 1e3, .5, 08]", [1.5, 1000, 0.5, 8]),
        ("[yes, n, ~, null, '', 'yes', on]", [True, False, None, None, "", "yes", True]),
        ("[2020-01-01, =, 12:30, 1.2.3]", ["2020-01-01", "=", "12:30", "1.2.3"]),
        ("{1: a, true: b, 2.5: c}", {"1": "a", "true": "b", "2.5": "c"}),
        ("[!!str 1, !!float 1, !!binary aGk=, !own x]", ["1", 1, "hi", "x"]),
        ("[&a {x: 1, z: 2}, {<<: *a, z: 3}]", [{"x": 1, "z": 2}, {"x": 1, "z": 3}]),
        ("a: {<<: [{x: 1}, {x: 2, z: 2}]}", {"a": {"x": 1, "z": 2}}),
        ("a: 1\n---\nb: 2", {"a": 1}),
        ("", None),
    ],
)
def test_values_are_those_of_go(text: str, value: Any) -> None:
    assert read_yaml(text.encode()).value == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 100_000, f"yaml: exceeded max depth of {MAX_DEPTH}"),
        ("a: &a [*a]", "yaml: anchor 'a' value contains itself"),
        ("a: *b", "yaml: unknown anchor 'b' referenced"),
        ("a: !!int x", "yaml: cannot decode !!str `x` as a !!int"),
        ("{a: .inf}", "json: unsupported value: +Inf"),
        ("? [a]\n: b", "yaml: invalid map key"),
        ("{<<: 1}", "yaml: map merge requires map or sequence of maps as the value"),
        ("!!binary '?'", "yaml: !!binary value contains invalid base64 data"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, why: str) -> None:
    with pytest.raises(YamlError) as error:
        read_yaml(text.encode())
    assert str(error.value) == why


def test_depth_that_aliases_make_is_bounded() -> None:
    chain = "".join(f"- &a{n} [*a{n - 1}]\n" for n in range(1, MAX_DEPTH + 1))
    with pytest.raises(YamlError, match="exceeded max depth"):
        read_yaml(f"- &a0 []\n{chain}".encode())


async def test_repeated_keys_of_a_yaml_object_are_refused(api: Api) -> None:
    """Upstream's strict reader names the line of the second value (YAMLToJSONStrict)."""
    body = b"metadata: {name: a}\ndata:\n  a: b\n  a: c\n"
    reply = await api.request("POST", CONFIGMAPS, body, content_type=YAML, fieldValidation="Strict")
    assert reply.status == 400
    assert reply.message.endswith(
        'strict decoding error: yaml: unmarshal errors:\n  line 4: key "a" already set in map'
    )


async def test_repeated_keys_of_a_yaml_object_are_warned_of(api: Api) -> None:
    """One warning for each line (endpoints/handlers: parseYAMLWarnings)."""
    body = b"metadata: {name: a}\ndata:\n  a: b\n  a: c\n"
    made = await api.request("POST", CONFIGMAPS, body, content_type=YAML)
    assert (made.status, made.body["data"]) == (201, {"a": "c"})
    assert made.headers["Warning"] == r'299 - "line 4: key \"a\" already set in map"'
    put = await api.request(
        "PUT", f"{CONFIGMAPS}/a", body, content_type=YAML, fieldValidation="Ignore"
    )
    assert (put.status, "Warning" in put.headers) == (200, False)


async def test_warning_that_no_header_can_have_is_left_out(api: Api) -> None:
    """The warning of repeated keys has lines; upstream drops it as well."""
    body = b"{kind: ConfigMap, apiVersion: v1, metadata: {name: a}, data: {a: b, a: c}}"
    reply = await api.patch(f"{CONFIGMAPS}/a", body, APPLY, fieldManager="m")
    assert reply.status == 201
    assert "Warning" not in reply.headers


async def test_large_bodies_are_read_beside_other_requests(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop goes on while a thread reads; small bodies take no thread."""
    threads: set[str] = set()

    def read(text: bytes) -> YamlDocument:
        threads.add(threading.current_thread().name)
        return read_yaml(text)

    monkeypatch.setattr(negotiation, "read_yaml", read)
    for size in (10, 100_000):
        text = f"metadata: {{name: c{size}}}\ndata: {{a: {'x' * size}}}".encode()
        assert (await api.request("POST", CONFIGMAPS, text, content_type=YAML)).status == 201
    assert len(threads) == 2
