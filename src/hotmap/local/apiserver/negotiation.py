"""Which form a body has, and which form of answer a client wants.

In: JSON, YAML and protobuf. Out: JSON, a Table for those who print, or metadata alone (kubernetes:
apiserver/pkg/endpoints/handlers/negotiation).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from hotmap.core.errors import BadRequest, api_error
from hotmap.local.apiserver import protobuf

if TYPE_CHECKING:
    from hotmap.local.client import PatchKind

JsonObject = dict[str, Any]
Form = Literal["json", "table", "metadata", "discovery"]

JSON = "application/json"
OPENAPI_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_PATCH_KINDS: dict[str, PatchKind] = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}


#: Nodes that aliases may make of a short document (go-yaml: alias_ratio_range_low).
_ALIASED_NODES = 400_000
_NOT_IN_JSON = (":timestamp", ":value")


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
    for clause in map(_parse, accept.split(",")):
        form = _form(clause)
        if form is not None:
            return form
    raise api_error(
        406,
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
        "application/vnd.kubernetes.protobuf",
        reason="NotAcceptable",
    )


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
    if clause.media not in (JSON, "application/*", "*/*"):
        return None
    match clause.parameters.get("as"):
        case None:
            return "json"
        case "Table" if clause.parameters.get("v") == "v1":
            return "table"
        case "PartialObjectMetadata" | "PartialObjectMetadataList" if (
            clause.parameters.get("v") == "v1"
        ):
            return "metadata"
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


def decode_body(body: bytes, content_type: str) -> JsonObject:
    """Read an object that a client sent.

    Raises:
        BadRequest: it is not an object, or not well formed.
        ApiError: 415, the form is not known.
    """
    media = _parse(content_type).media
    if media == protobuf.MEDIA_TYPE:
        return protobuf.decode_object(body)
    if media in ("", JSON):
        decoded = decode_json(body)
    elif media in ("application/yaml", "application/x-yaml"):
        decoded = _decode_yaml(body)
    else:
        raise api_error(
            415,
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json, application/yaml, application/vnd.kubernetes.protobuf",
            reason="UnsupportedMediaType",
        )
    if not isinstance(decoded, dict):
        raise BadRequest("the body of the request must be an object")
    return decoded


def decode_patch(body: bytes, content_type: str) -> tuple[PatchKind, object]:
    """Read a patch and its dialect.

    Raises:
        BadRequest: it is not well formed.
        ApiError: 415, the dialect is not known.
    """
    kind = _PATCH_KINDS.get(_parse(content_type).media)
    if kind is None:
        raise api_error(415, "415: Unsupported Media Type", reason="UnsupportedMediaType")
    if kind != "apply":
        return kind, decode_json(body, what="patch")
    try:
        return kind, decode_json(body)
    except BadRequest:
        return kind, _decode_yaml(body)


def unsupported_patch() -> Exception:
    """Make the 415 for a strategic merge patch of a custom resource."""
    return api_error(
        415,
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        reason="UnsupportedMediaType",
    )


def decode_json(body: bytes, *, what: str = "the body of the request") -> object:
    """Read JSON.

    Raises:
        BadRequest: it is not well formed.
    """
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"error decoding {what}: {error}") from None
    except RecursionError:
        raise BadRequest(f"error decoding {what}: exceeded max depth") from None


def _decode_yaml(body: bytes) -> object:
    import yaml  # 20 ms that only those who send YAML pay

    class Loader(yaml.SafeLoader):
        """Reads times and `=` as text, as JSON has no other way to write them."""

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(_NOT_IN_JSON)]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    try:
        decoded = yaml.load(body, Loader)
    except (yaml.YAMLError, ValueError):
        raise BadRequest("error decoding the body of the request: it is not YAML") from None
    except RecursionError:
        raise BadRequest("error decoding the body of the request: exceeded max depth") from None
    if _has_more_nodes(decoded, max(len(body), _ALIASED_NODES)):
        text = "error decoding the body of the request: document contains excessive aliasing"
        raise BadRequest(text)
    return decoded


def _has_more_nodes(value: object, limit: int) -> bool:
    """Return whether a document is larger than that, with each alias written out."""
    count, nodes = 0, [value]
    while nodes:
        node = nodes.pop()
        count += 1
        if count > limit:
            return True
        if isinstance(node, dict):
            nodes.extend(node.values())
        elif isinstance(node, list):
            nodes.extend(node)
    return False
