"""Deep nesting is refused in one sentence, whatever brings it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.local.apiserver.api import (
    CONFIGMAPS,
    DEPLOYMENTS,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    configmap,
    deployment,
)

from hotmap.core.errors import BadRequest
from hotmap.local.apiserver.negotiation import decode_body
from hotmap.local.apiserver.nesting import MAX_DEPTH, is_too_deep

if TYPE_CHECKING:
    from tests.local.apiserver.api import Api

TEXT = f"exceeded max depth of {MAX_DEPTH}"
APPLY = "application/apply-patch+yaml"


def nested(levels: int, name: str = "a") -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = {name: value}
    return value


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 900])
@pytest.mark.parametrize("kind", [MERGE, STRATEGIC, APPLY, JSON_PATCH])
async def test_deep_patch_is_refused(api: Api, kind: str, levels: int) -> None:
    """In every dialect, and the object stays as it was."""
    await api.post(DEPLOYMENTS, deployment("a"))
    patch: Any = {"kind": "Deployment", "apiVersion": "apps/v1", "spec": nested(levels - 1)}
    if kind == JSON_PATCH:
        patch = [{"op": "add", "path": "/spec/x", "value": nested(levels - 2)}]
    reply = await api.patch(f"{DEPLOYMENTS}/a", patch, kind, fieldManager="m")
    assert reply.status == 400
    assert TEXT in reply.message


@pytest.mark.parametrize("kind", ["application/json", "application/yaml"])
async def test_deep_object_is_refused(api: Api, kind: str) -> None:
    body = json.dumps(configmap("a") | {"x": nested(MAX_DEPTH)}).encode()
    reply = await api.request("POST", CONFIGMAPS, body, content_type=kind)
    assert reply.status == 400
    assert TEXT in reply.message


@pytest.mark.parametrize("levels", [MAX_DEPTH, 900])
def test_deep_protobuf_is_refused(levels: int) -> None:
    """Only the schema of a CustomResourceDefinition can be deep there."""
    schema = b""
    for _ in range(levels):
        # The tag of JSONSchemaProps.not, field 28.
        schema = b"\xe2\x01" + _size(schema) + schema
    for number in (1, 4, 7, 2):
        schema = bytes((number << 3 | 2,)) + _size(schema) + schema
    type_meta = b"\x0a\x17apiextensions.k8s.io/v1\x12\x18CustomResourceDefinition"
    unknown = b"\x0a" + _size(type_meta) + type_meta + b"\x12" + _size(schema) + schema
    with pytest.raises(BadRequest, match=TEXT):
        decode_body(b"k8s\0" + unknown, "application/vnd.kubernetes.protobuf")


def _size(data: bytes) -> bytes:
    size, written = len(data), bytearray()
    while size > 127:
        written.append(size & 127 | 128)
        size >>= 7
    return bytes((*written, size))


async def test_json_patch_cannot_deepen_step_by_step(api: Api) -> None:
    """Each operation is flat, what they make together is not."""
    await api.post(CONFIGMAPS, configmap("a"))
    steps = [
        {"op": "add", "path": "/x" * number, "value": {}} for number in range(1, MAX_DEPTH + 3)
    ]
    reply = await api.patch(f"{CONFIGMAPS}/a", steps, JSON_PATCH)
    assert reply.status == 400
    assert TEXT in reply.message


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC, APPLY])
async def test_deepest_patch_is_answered(api: Api, kind: str) -> None:
    """What is not refused does not exhaust the stack, either."""
    await api.post(DEPLOYMENTS, deployment("a"))
    for field in ("x", "template", "selector"):
        for name in ("a", "spec", "metadata"):
            spec = {field: nested(MAX_DEPTH - 2, name)}
            patch = {"kind": "Deployment", "apiVersion": "apps/v1", "spec": spec}
            reply = await api.patch(f"{DEPLOYMENTS}/a", patch, kind, fieldManager="m")
            assert reply.status in (200, 400, 422) or "typed patch object" in reply.message


def test_depth_counts_what_is_around_a_value() -> None:
    assert not is_too_deep(nested(MAX_DEPTH))
    assert is_too_deep(nested(MAX_DEPTH + 1))
