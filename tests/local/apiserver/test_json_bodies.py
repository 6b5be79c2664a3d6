"""JSON that Go's decoders take or refuse, and others do not."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest
from tests.local.apiserver.api import CONFIGMAPS, JSON_PATCH, SECRETS

if TYPE_CHECKING:
    from tests.local.apiserver.api import Api

DEEP = b"[" * 20_000


@pytest.mark.parametrize("sent", [b"a\xff", rb"a\ud800", rb"a\uDC00"])
async def test_what_is_not_a_character_is_replaced(api: Api, sent: bytes) -> None:
    body = b'{"metadata":{"name":"odd"},"data":{"k":"%s","other":"\\u00e9\\ud83d\\ude00"}}' % sent
    made = await api.request("POST", CONFIGMAPS, body)
    assert (made.status, made.body["data"]) == (201, {"k": "a\ufffd", "other": "é😀"})


@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 5_000])
async def test_number_without_a_float_is_named(api: Api, number: str) -> None:
    body = b'{"metadata":{"name":"odd","generation":%s}}' % number.encode()
    reply = await api.request("POST", CONFIGMAPS, body)
    assert reply.status == 400
    assert f"json: cannot unmarshal number {number} into Go value of type float64" in reply.message


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (b"[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (b"NaN", "invalid character 'N' looking for beginning of value"),
        (DEEP + b"]" * len(DEEP), "exceeded max depth of 200"),
        (b'{"a":"\xff"}', ""),
        (b"null", ""),
    ],
)
async def test_configuration_of_docker_is_a_map(api: Api, config: bytes, why: str) -> None:
    reply = await api.post(
        SECRETS,
        {
            "metadata": {"name": "docker"},
            "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": base64.b64encode(config).decode()},
        },
    )
    assert reply.status == (422 if why else 201)
    assert not why or reply.message.endswith(f'"<secret contents redacted>": {why}')


async def test_deeply_nested_continue_token_is_bad_request(api: Api) -> None:
    token = base64.urlsafe_b64encode(DEEP).rstrip(b"=").decode()
    reply = await api.get(CONFIGMAPS, **{"continue": token})
    assert (reply.status, reply.body["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("path", "pointer", "go_field"),
    [
        (CONFIGMAPS, "/metadata/name", "ObjectMeta.metadata.name of type string"),
        (CONFIGMAPS, "/metadata/namespace", "ObjectMeta.metadata.namespace of type string"),
        (SECRETS, "/type", "Secret.type of type v1.SecretType"),
    ],
)
async def test_empty_map_is_not_a_missing_text(
    api: Api, path: str, pointer: str, go_field: str
) -> None:
    text = f"json: cannot unmarshal object into Go struct field {go_field}"
    await api.post(path, {"metadata": {"name": "a"}})
    patch = [{"op": "add", "path": pointer, "value": {}}]
    patched = await api.patch(f"{path}/a", patch, JSON_PATCH)
    assert (patched.status, text in patched.message) == (422, True)
    sent = (await api.get(f"{path}/a")).body
    *parents, last = pointer.strip("/").split("/")
    (sent[parents[0]] if parents else sent)[last] = {}
    replaced = await api.request("PUT", f"{path}/a", sent)
    assert (replaced.status, text in replaced.message) == (400, True)
