"""Bodies in protobuf: decoded as Go's decoder and JSON encoder would give them."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.local.apiserver.api import CONFIGMAPS

from hotmap.core.errors import BadRequest
from hotmap.local.apiserver.api_types import api_types, type_of_kind
from hotmap.local.apiserver.kinds import built_in_scheme
from hotmap.local.apiserver.protobuf import MEDIA_TYPE, decode_object
from hotmap.local.apiserver.protobuf_encoder import encode_object
from hotmap.local.apiserver.storage_codec import StorageCodec

if TYPE_CHECKING:
    from tests.local.apiserver.api import Api

# k8s.io/api has an example of every kind in each encoding; it is there where Go fetched it.
_MODULES = Path(os.environ.get("GOMODCACHE", Path.home() / "go/pkg/mod"))
_EXAMPLES = _MODULES / f"k8s.io/api@{api_types().version.replace('v1.', 'v0.')}/testdata/HEAD"

# What kube-apiserver v1.36.3 wrote to etcd for objects that kubectl created.
RECORDS: dict[str, str] = json.loads((Path(__file__).parent / "data/records.json").read_text())


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(v) for name, v in value.items() if v is not None}
    return [_without_nulls(v) for v in value] if isinstance(value, list) else value


@pytest.mark.skipif(not _EXAMPLES.is_dir(), reason="needs the Go module k8s.io/api")
def test_protobuf_examples_decode_to_their_json() -> None:
    compared = 0
    for path in sorted(_EXAMPLES.glob("*.pb")):
        expected = json.loads(path.with_suffix(".json").read_text())
        known = type_of_kind(expected.get("apiVersion", ""), expected.get("kind", ""))
        if known is not None:
            decoded = _without_nulls(decode_object(path.read_bytes()))
            assert decoded == _without_nulls(expected), path.name
            compared += 1
    assert compared == 73


def _bytes(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2, len(value)]) + value


def _envelope(api_version: bytes, kind: bytes, raw: bytes) -> bytes:
    type_meta = _bytes(1, api_version) + _bytes(2, kind)
    return b"k8s\0" + _bytes(1, type_meta) + _bytes(2, raw) + _bytes(3, b"") + _bytes(4, b"")


# Go writes the empty fields of metadata and the false of immutable is a pointer's.
_METADATA = _bytes(1, b"a") + _bytes(2, b"") + _bytes(6, b"") + b"\x38\x00" + _bytes(8, b"")
_ENTRY = _bytes(1, b"k") + _bytes(2, b"v")
CONFIGMAP = _envelope(b"v1", b"ConfigMap", _bytes(1, _METADATA) + _bytes(2, _ENTRY) + b"\x20\x00")


def test_protobuf_leaves_out_zeros_that_are_not_pointers() -> None:
    assert decode_object(CONFIGMAP) == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "a"},
        "data": {"k": "v"},
        "immutable": False,
    }


@pytest.mark.parametrize("length", range(4, len(CONFIGMAP)))
def test_protobuf_that_is_cut_off_is_bad_request_or_less(length: int) -> None:
    """A cut between two fields leaves a message; any other cut is an error."""
    try:
        decoded = decode_object(CONFIGMAP[:length])
    except BadRequest:
        return
    assert decoded["kind"] == "ConfigMap"


def _sent(data: bytes) -> bytes:
    return _envelope(b"v1", b"ConfigMap", data)


UNRECOGNIZED = "the object provided is unrecognized (must be of type ConfigMap): "
UNFIT = 'in version "v1" cannot be handled as a ConfigMap: '


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", f"{UNRECOGNIZED}empty data (<empty>)"),
        (b"k8s\0", f"{UNRECOGNIZED}empty body (6b387300)"),
        (
            b"{}",
            f"{UNRECOGNIZED}provided data does not appear to be a protobuf message, expected "
            "prefix [107 56 115 0] ({})",
        ),
        (
            CONFIGMAP[:20],
            f"{UNRECOGNIZED}unexpected EOF (6b3873000a0f0a0276311209436f6e6669674d61)",
        ),
        (
            _envelope(b"v1", b"Nope", b""),
            f'Nope {UNFIT}no kind "Nope" is registered for version "v1" in scheme '
            '"pkg/runtime/scheme.go:111"',
        ),
        (_sent(b"\x12\x50"), f"ConfigMap {UNFIT}unexpected EOF"),
        (_sent(b"\x7e"), f"ConfigMap {UNFIT}proto: illegal wireType 6"),
        (
            _sent(_bytes(1, _bytes(8, b"\x08" + b"\xff" * 8 + b"\x7f"))),
            f"ConfigMap {UNFIT}seconds out of range: {(1 << 63) - 1}",
        ),
        (
            _sent(b"\x0a" + b"\xff" * 9 + b"\x7f"),
            f"ConfigMap {UNFIT}proto: negative length found during unmarshaling",
        ),
    ],
)
async def test_malformed_protobuf_is_refused_as_by_kubernetes(
    api: Api, body: bytes, message: str
) -> None:
    reply = await api.request("POST", CONFIGMAPS, body, content_type=MEDIA_TYPE)
    assert (reply.status, reply.message) == (400, message)


def test_protobuf_of_another_wire_type_is_refused() -> None:
    with pytest.raises(BadRequest, match="wrong wireType"):
        decode_object(_sent(b"\x08\x01"))


def test_protobuf_with_bytes_that_are_not_characters_is_read() -> None:
    """Go does not check them, and writes each as U+FFFD in JSON."""
    entry = _bytes(1, b"k") + _bytes(2, b"a\xff\xfeb\xe2\x82")
    decoded = decode_object(_sent(_bytes(1, _METADATA) + _bytes(2, entry)))
    assert decoded["data"] == {"k": "a\ufffd\ufffdb\ufffd\ufffd"}


async def test_protobuf_body_creates_object(api: Api) -> None:
    reply = await api.request("POST", CONFIGMAPS, CONFIGMAP, content_type=MEDIA_TYPE)
    assert reply.status == 201, reply.body
    assert reply.body["data"] == {"k": "v"}


@pytest.mark.skipif(not _EXAMPLES.is_dir(), reason="needs the Go module k8s.io/api")
def test_json_of_examples_encodes_to_their_protobuf() -> None:
    compared = 0
    for path in sorted(_EXAMPLES.glob("*.pb")):
        obj = json.loads(path.with_suffix(".json").read_text())
        if type_of_kind(obj.get("apiVersion", ""), obj.get("kind", "")) is not None:
            assert encode_object(obj) == path.read_bytes(), path.name
            compared += 1
    assert compared == 73


@pytest.mark.parametrize("key", RECORDS)
def test_record_of_kube_apiserver_is_written_again_byte_for_byte(key: str) -> None:
    codec = StorageCodec(built_in_scheme())
    record = base64.b64decode(RECORDS[key])
    value = codec.decode(key, record)
    assert value is not None
    assert codec.encode(key, value) == record


def test_custom_resource_is_stored_as_sorted_json() -> None:
    stored = b'{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"a"},"b":1}'
    written = b'{"apiVersion":"example.com/v1","b":1,"kind":"Widget","metadata":{"name":"a"}}\n'
    codec = StorageCodec(built_in_scheme())
    assert codec.encode("/registry/example.com/widgets/default/a", stored) == written
    assert codec.decode("/registry/example.com/widgets/default/a", written) == stored


def test_encrypted_record_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    codec = StorageCodec(built_in_scheme())
    for name in "ab":
        assert (
            codec.decode(f"/registry/secrets/default/{name}", b"k8s:enc:aescbc:v1:k:\x01") is None
        )
    assert caplog.text.count("keys under /registry/secrets are not served") == 1
