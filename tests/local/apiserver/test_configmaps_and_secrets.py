"""ConfigMaps and Secrets: decoding and validation, with Kubernetes' messages."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest
from tests.local.apiserver.api import CONFIGMAPS, MERGE, SECRETS, configmap

from hotmap.core.errors import Invalid

if TYPE_CHECKING:
    from tests.local.apiserver.api import Api

    from hotmap.local.apiserver.registry import Registry

MEBIBYTE = 1 << 20
KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
    "'[-._a-zA-Z0-9]+')"
)
NAME_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def named(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x"}, **fields}


# Every text was read from kube-apiserver 1.36.
INVALID_CONFIGMAPS = [
    (
        {"metadata": {"name": "Bad_Name"}},
        f'metadata.name: Invalid value: "Bad_Name": {NAME_RULE}',
    ),
    ({"metadata": {}}, "metadata.name: Required value: name or generateName is required"),
    (
        {"metadata": {"name": "x", "generateName": "In-"}},
        f'metadata.generateName: Invalid value: "In-": {NAME_RULE}',
    ),
    (
        {"metadata": {"name": "x", "generateName": "g" * 254}},
        f'metadata.generateName: Invalid value: "{"g" * 254}": must be no more than 253 characters',
    ),
    (named(data={"a b": ""}), f'data[a b]: Invalid value: "a b": {KEY_RULE}'),
    (named(data={"": ""}), f'data[]: Invalid value: "": {KEY_RULE}'),
    (named(data={".": ""}), "data[.]: Invalid value: \".\": must not be '.'"),
    (named(data={"..": ""}), "data[..]: Invalid value: \"..\": must not be '..'"),
    (named(data={"..a": ""}), "data[..a]: Invalid value: \"..a\": must not start with '..'"),
    (
        named(binaryData={"k" * 254: ""}),
        f'binaryData[{"k" * 254}]: Invalid value: "{"k" * 254}": '
        "must be no more than 253 characters",
    ),
    (
        named(data={"dup": "1"}, binaryData={"dup": "eA=="}),
        'data[dup]: Invalid value: "dup": duplicate of key present in binaryData',
    ),
    (
        named(data={"a": "x" * MEBIBYTE}, binaryData={"b": encoded("y")}),
        "[]: Too long: may not be more than 1048576 bytes",
    ),
    (
        {"metadata": {"name": "x", "annotations": {"a": "v" * (256 << 10)}}},
        "metadata.annotations: Too long: may not be more than 262144 bytes",
    ),
    (
        {"metadata": {"name": "x", "labels": {"/a": "v"}}},
        'metadata.labels: Invalid value: "/a": prefix part must be non-empty',
    ),
]


@pytest.mark.parametrize(("obj", "error"), INVALID_CONFIGMAPS)
async def test_invalid_configmap_is_refused(api: Api, obj: dict[str, Any], error: str) -> None:
    """422 with field, value and rule."""
    reply = await api.post(CONFIGMAPS, obj)
    name = obj["metadata"].get("name", "")
    assert reply.status == 422
    assert reply.message == f'ConfigMap "{name}" is invalid: {error}'
    assert reply.body["details"]["kind"] == "ConfigMap"
    assert reply.body["details"]["causes"][0]["field"] == error.partition(": ")[0]


async def test_validation_errors_are_listed_together(registry: Registry) -> None:
    """One answer names all of them."""
    with pytest.raises(Invalid, match=r"is invalid: \[data\[a b\]: .*, data\[\.\.\]: .*\]$"):
        await registry.create(
            "configmaps", "default", named(data={"a b": "", "..": ""}), manager="t"
        )


async def test_size_limit_is_inclusive_and_counts_values(api: Api) -> None:
    """Exactly a mebibyte of values is accepted; keys and base64 do not count."""
    half = "x" * (MEBIBYTE // 2)
    obj = named(data={"a": half}, binaryData={"b" * 200: encoded(half)})
    assert (await api.post(CONFIGMAPS, obj)).status == 201


UNDECODABLE = [
    (
        CONFIGMAPS,
        named(data={"a": 1}),
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
    ),
    (
        CONFIGMAPS,
        named(data="x"),
        "json: cannot unmarshal string into Go struct field ConfigMap.data of type "
        "map[string]string",
    ),
    (
        CONFIGMAPS,
        {"metadata": {"name": "x", "labels": {"a": 1}}},
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type "
        "string",
    ),
    (
        CONFIGMAPS,
        {"metadata": []},
        "json: cannot unmarshal array into Go struct field ConfigMap.metadata of type "
        "v1.ObjectMeta",
    ),
    (CONFIGMAPS, named(binaryData={"a": "e"}), "illegal base64 data at input byte 0"),
    (SECRETS, named(data={"a": "x!"}), "illegal base64 data at input byte 1"),
    (SECRETS, named(data={"a": "eA"}), "illegal base64 data at input byte 0"),
]


@pytest.mark.parametrize(("path", "obj", "error"), UNDECODABLE)
async def test_wrong_json_types_are_refused(
    api: Api, path: str, obj: dict[str, Any], error: str
) -> None:
    """400 with the text of Go's decoder, never with the value."""
    reply = await api.post(path, obj)
    kind = "Secret" if path == SECRETS else "ConfigMap"
    assert reply.status == 400
    assert reply.message == (f'{kind} in version "v1" cannot be handled as a {kind}: {error}')


async def test_null_values_are_read_as_empty(api: Api) -> None:
    """Go's maps have no nulls; empty maps leave no trace."""
    reply = await api.post(CONFIGMAPS, named(data={"a": None}, binaryData={}))
    assert reply.body["data"] == {"a": ""}
    assert "binaryData" not in reply.body


async def test_immutable_object_cannot_be_changed(api: Api) -> None:
    """Neither data nor the mark may change; metadata may, and it may be deleted."""
    await api.post(CONFIGMAPS, named(data={"a": "1"}, immutable=True))
    path = f"{CONFIGMAPS}/x"
    change = {"immutable": None, "data": {"a": "2"}, "binaryData": {"b": "eA=="}}
    reply = await api.patch(path, change)
    text = "Forbidden: field is immutable when `immutable` is set"
    assert reply.message == (
        f'ConfigMap "x" is invalid: [immutable: {text}, data: {text}, binaryData: {text}]'
    )
    assert (await api.patch(path, {"metadata": {"labels": {"a": "b"}}})).status == 200
    assert (await api.request("DELETE", path)).status == 200


async def test_string_data_is_moved_to_data(api: Api) -> None:
    """stringData wins over data, is stored encoded and never comes back."""
    obj = named(stringData={"a": "new", "b": "ü"}, data={"a": encoded("old")})
    made = (await api.post(SECRETS, obj)).body
    assert made["data"] == {"a": encoded("new"), "b": encoded("ü")}
    assert made["type"] == "Opaque"
    assert "stringData" not in made
    patched = await api.patch(f"{SECRETS}/x", {"stringData": {"a": "newer"}})
    assert patched.body["data"] == {"a": encoded("newer"), "b": encoded("ü")}


INVALID_SECRETS = [
    (
        named(stringData={"a": "x" * (MEBIBYTE + 1)}),
        "data: Too long: may not be more than 1048576 bytes",
    ),
    (
        named(type="kubernetes.io/tls"),
        "[data[tls.crt]: Required value, data[tls.key]: Required value]",
    ),
    (
        named(type="kubernetes.io/basic-auth"),
        "[data[username]: Required value, data[password]: Required value]",
    ),
    (named(type="kubernetes.io/ssh-auth"), "data[ssh-privatekey]: Required value"),
    (
        named(type="kubernetes.io/service-account-token"),
        "metadata.annotations[kubernetes.io/service-account.name]: Required value",
    ),
]


@pytest.mark.parametrize(("obj", "error"), INVALID_SECRETS)
async def test_invalid_secret_is_refused(api: Api, obj: dict[str, Any], error: str) -> None:
    """Types promise keys."""
    reply = await api.post(SECRETS, obj)
    assert (reply.status, reply.message) == (422, f'Secret "x" is invalid: {error}')


async def test_secret_type_is_immutable(api: Api) -> None:
    """A patch of the type is refused."""
    await api.post(SECRETS, named(stringData={"a": "1"}))
    reply = await api.patch(f"{SECRETS}/x", {"type": "other"})
    assert (
        reply.message == 'Secret "x" is invalid: type: Invalid value: "other": field is immutable'
    )


async def test_messages_do_not_contain_secret_values(api: Api) -> None:
    """Whatever is wrong with a Secret, its values stay out of the answer."""
    value = "hunter2"
    wrong = [
        named(data={"a": value}),
        named(stringData={"a b": value}),
        named(stringData={".dockerconfigjson": value}, type="kubernetes.io/dockerconfigjson"),
        named(stringData={"a": [value]}),
        named(stringData={"a": value}, type=5),
    ]
    for obj in wrong:
        reply = await api.post(SECRETS, obj)
        assert reply.status in (400, 422)
        assert value not in reply.message
        assert encoded(value) not in reply.message


async def test_patch_with_wrong_uid_is_invalid(api: Api) -> None:
    """What a merge patch with uid and resourceVersion may meet."""
    made = (await api.post(CONFIGMAPS, configmap("a", k="v"))).body["metadata"]
    path = f"{CONFIGMAPS}/a"
    stale = {"resourceVersion": made["resourceVersion"]}
    await api.patch(path, {"data": {"k": "w"}})
    assert (await api.patch(path, {"metadata": {**stale, "uid": made["uid"]}})).status == 409
    wrong = await api.patch(path, {"metadata": {"uid": "other"}}, MERGE)
    assert (wrong.status, wrong.message) == (
        422,
        'ConfigMap "a" is invalid: metadata.uid: Invalid value: "other": field is immutable',
    )
    missing = await api.patch(f"{CONFIGMAPS}/b", {"metadata": {"uid": made["uid"]}})
    assert missing.status == 404
