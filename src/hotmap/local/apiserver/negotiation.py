"""Which form a body has, and which form of answer a client wants.

In: JSON, YAML and protobuf. Out: JSON, a Table for those who print, or metadata alone (kubernetes:
apiserver/pkg/endpoints/handlers/negotiation).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from hotmap.core.errors import BadRequest, api_error
from hotmap.local.apiserver import protobuf
from hotmap.local.apiserver.decode_errors import summarize, wrong_type
from hotmap.local.apiserver.field_validation import has_duplicates
from hotmap.local.apiserver.json_reader import TOO_DEEP, JsonError, read_json
from hotmap.local.apiserver.nesting import is_too_deep
from hotmap.local.apiserver.yaml_reader import YamlDocument, YamlError, read_yaml
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from hotmap.local.client import PatchKind
    from hotmap.local.scheme import Kind

Form = Literal["json", "table", "metadata", "metadata list", "discovery"]

JSON = "application/json"
YAML = "application/yaml"
OPENAPI_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_FORMS = f"{JSON}, {YAML}, {protobuf.MEDIA_TYPE}"
_ROUTED = (JSON, YAML, protobuf.MEDIA_TYPE, "*/*")
_META_GROUP, _META_VERSIONS = "meta.k8s.io", ("v1", "v1beta1")
_TEXT_TAG = "tag:yaml.org,2002:str"

_PATCH_KINDS: dict[str, PatchKind] = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}


_NO_KIND = "couldn't get version/kind; json parse error: "
_CONVERTING = "error converting YAML to JSON: "


class _Unreadable(Exception):
    """A body that is not of its form; the text says why, as Go does."""


class Decoded(NamedTuple):
    """An object that a client sent."""

    value: JsonObject
    #: What Go's strict reader says about keys that its YAML has twice; "" for none.
    repeated: str = ""


# Halves of surrogate pairs, which JSON has and readers of YAML refuse.
_NO_YAML = re.compile(rb"(?<!\\)(?:\\\\)*\\u[dD][89a-fA-F]")


class Patch(NamedTuple):
    """A patch, its dialect, and what `Decoded` has."""

    kind: PatchKind
    value: object
    repeated: str = ""


class _MediaRange(NamedTuple):
    media: str
    parameters: dict[str, str]


def negotiate_form(accept: str) -> Form:
    """Choose the first form of an Accept header that this server can give.

    Raises:
        ApiError: 406, there is none.
    """
    if not accept:
        return "json"
    clauses = [_parse(clause) for clause in accept.split(",")]
    if not any(clause.media in _ROUTED for clause in clauses):
        # The router of upstream does not know `application/*` (go-restful: matchesAccept).
        text = f"406: Not Acceptable\n\nAvailable representations: {_FORMS}"
        raise api_error(406, text, reason="NotAcceptable")
    for clause in clauses:
        form = _form(clause)
        if form is not None:
            return form
    raise not_convertible()


def not_convertible() -> Exception:
    """Make the 406 for a form that an object does not have."""
    text = f"only the following media types are accepted: {_FORMS}"
    return api_error(406, text, reason="NotAcceptable")


def check_metadata_form(form: Form, kind: Kind, *, is_list: bool) -> None:
    """Refuse to give a list as the metadata of one object, or the reverse.

    Raises:
        ApiError: 406.
    """
    if form not in ("metadata", "metadata list") or is_list == (form == "metadata list"):
        return
    go_type = f"*{kind.group.partition('.')[0] or 'core'}.{kind.kind}"
    text = (
        f"you requested PartialObjectMetadata, but the requested object is a list ({go_type}List)"
        if is_list
        else "you requested PartialObjectMetadataList, but the requested object is not a list "
        f"({go_type})"
    )
    raise api_error(406, text, reason="NotAcceptable")


def wants_yaml(accept: str) -> bool:
    """Return whether YAML is the first form of an Accept header that this server can give."""
    for clause in map(_parse, accept.split(",")):
        if clause.media == YAML:
            return True
        if _form(clause) is not None:
            return False
    return False


def in_meta_version(body: bytes | bytearray, accept: str) -> bytes | bytearray:
    """Give a Table or metadata alone the older version where a client asks for that."""
    for clause in map(_parse, accept.split(",")):
        form = _form(clause)
        if form is not None:
            if (
                form in ("table", "metadata", "metadata list")
                and clause.parameters.get("v") == "v1beta1"
            ):
                return body.replace(
                    b'"apiVersion":"meta.k8s.io/v1"', b'"apiVersion":"meta.k8s.io/v1beta1"'
                )
            break
    return body


def as_yaml(body: bytes | bytearray) -> bytes:
    """Write a JSON document as YAML, as sigs.k8s.io/yaml does."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Quotes with double quotes, and writes lines as lines."""

        def ignore_aliases(self, data: object) -> bool:
            return True

    def write_text(dumper: Any, text: str) -> Any:
        style = None
        if "\n" in text:
            style = "|"
        elif dumper.resolve(yaml.ScalarNode, text, (True, False)) != _TEXT_TAG:
            style = '"'
        return dumper.represent_scalar(_TEXT_TAG, text, style=style)

    Dumper.add_representer(str, write_text)
    document = msgspec.json.decode(body)
    text: str = yaml.dump(document, Dumper=Dumper, allow_unicode=True, width=1 << 20)
    return text.encode()


def openapi_v2_form(accept: str) -> str:
    """Choose the media type of the OpenAPI v2 document (kube-openapi: pkg/handler).

    Raises:
        ApiError: 406, there is none.
    """
    for clause in map(_parse, (accept or "*/*").split(",")):
        if clause.media in (JSON, "application/*", "*/*"):
            return JSON
        # Go's mime package cannot read the older spelling, so it is not answered.
        if clause.media.replace("@", ".") == OPENAPI_V2:
            return OPENAPI_V2
    raise api_error(
        406,
        f"only the following media types are accepted: {JSON}, {OPENAPI_V2}",
        reason="NotAcceptable",
    )


def _form(clause: _MediaRange) -> Form | None:
    if clause.media == YAML:
        return "json" if "as" not in clause.parameters else None
    if clause.media not in (JSON, "application/*", "*/*"):
        return None
    given = clause.parameters
    is_meta = given.get("g") == _META_GROUP and given.get("v") in _META_VERSIONS
    match given.get("as"):
        case None:
            return "json"
        case "Table" if is_meta:
            return "table"
        case "PartialObjectMetadata" if is_meta:
            return "metadata"
        case "PartialObjectMetadataList" if is_meta:
            return "metadata list"
        case "APIGroupDiscoveryList" if clause.parameters.get("v") == "v2":
            return "discovery"
    return None


def _parse(text: str) -> _MediaRange:
    media, *parameters = (part.strip() for part in text.split(";"))
    pairs = (parameter.partition("=")[::2] for parameter in parameters)
    return _MediaRange(media.lower(), dict(pairs))


def is_json(content_type: str) -> bool:
    """Return whether a body is JSON."""
    return _parse(content_type).media in ("", JSON)


def decode_body(body: bytes, content_type: str, wanted: str = "") -> Decoded:
    """Read an object that a client sent; `wanted` is the kind that it should have.

    Raises:
        BadRequest: it is not an object, or not well formed.
        ApiError: 415, the form is not known.
    """
    media = _parse(content_type).media
    if media == protobuf.MEDIA_TYPE:
        return Decoded(_read_protobuf(body, wanted))
    try:
        if media in ("", JSON):
            document = YamlDocument(_read_json(body))
        elif media in (YAML, "application/x-yaml"):
            document = _read_json_document(body) or read_yaml(body)
        else:
            raise api_error(
                415,
                "the body of the request was in an unknown format - accepted media types include: "
                "application/json, application/yaml, application/vnd.kubernetes.protobuf",
                reason="UnsupportedMediaType",
            )
        decoded = document.value
        if decoded is None:
            # Go decodes null into an object without anything in it.
            return Decoded({})
        if not isinstance(decoded, dict):
            raise _Unreadable(f"{_NO_KIND}{wrong_type(decoded)}")
    except (_Unreadable, YamlError) as error:
        text = str(error)
        if wanted:
            text = (
                f"the object provided is unrecognized (must be of type {wanted}): {text} "
                f"({summarize(body)})"
            )
        raise BadRequest(text) from None
    return Decoded(decoded, document.strict_error)


def decode_patch(body: bytes, content_type: str) -> Patch:
    """Read a patch and its dialect.

    Raises:
        BadRequest: it is not well formed.
        ApiError: 415, the dialect is not known.
    """
    kind = _PATCH_KINDS.get(_parse(content_type).media)
    if kind is None:
        raise api_error(415, "415: Unsupported Media Type", reason="UnsupportedMediaType")
    if kind == "apply":
        return _read_configuration(body)
    prefix = "" if kind == "strategic" else "error decoding patch: "
    try:
        patch = _read_json(body)
    except _Unreadable as error:
        raise BadRequest(f"{prefix}{str(error).removeprefix(_NO_KIND)}") from None
    if kind == "json" and not isinstance(patch, list):
        raise BadRequest(f"{prefix}{wrong_type(patch, '[]handlers.jsonPatchOp')}")
    if kind != "json" and patch is None:
        raise BadRequest("Invalid JSON Patch")
    if kind != "json" and not isinstance(patch, dict):
        raise BadRequest(f"{prefix}{wrong_type(patch, 'map[string]interface {}')}")
    return Patch(kind, patch)


def _read_configuration(body: bytes) -> Patch:
    """Read a configuration that shall be applied."""
    try:
        document = _read_json_document(body) or read_yaml(body)
    except YamlError as error:
        raise BadRequest(f"error decoding YAML: {_CONVERTING}{error}") from None
    decoded, repeated = document.value, document.strict_error
    if decoded is not None and not isinstance(decoded, dict):
        why = wrong_type(decoded, "map[string]interface {}")
        raise BadRequest(
            f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {why}"
        )
    return Patch("apply", decoded or {}, f"{_CONVERTING}{repeated}" if repeated else "")


def _read_json_document(body: bytes) -> YamlDocument | None:
    """Read YAML that is JSON, as most is, quickly; None where only a YAML reader can say more."""
    if not body.lstrip().startswith(b"{") or _NO_YAML.search(body):
        return None
    try:
        decoded = _read_json(body)
    except _Unreadable:
        return None
    return None if has_duplicates(body) else YamlDocument(decoded)


def unsupported_patch() -> Exception:
    """Make the 415 for a strategic merge patch of a custom resource."""
    return api_error(
        415,
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        reason="UnsupportedMediaType",
    )


def _read_protobuf(body: bytes, wanted: str) -> JsonObject:
    try:
        decoded = protobuf.decode_object(body, wanted)
    except RecursionError:
        raise BadRequest(TOO_DEEP) from None
    if is_too_deep(decoded):
        raise BadRequest(TOO_DEEP)
    return decoded


def _read_json(body: bytes) -> object:
    try:
        return read_json(body)
    except JsonError as error:
        raise _Unreadable(f"{_NO_KIND}{error}") from None
