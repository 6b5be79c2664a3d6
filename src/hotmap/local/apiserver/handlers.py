"""Requests for objects, answered from the registry; no transport in here.

A request comes in as values and an Answer goes out as values. What needs an open connection
(watches, logs, exec) lives in `watch_stream` and `connect`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from hotmap.core.errors import BadRequest
from hotmap.kube.loop_slices import SHORT_SLICE, share_loop
from hotmap.local.access import Reviewer
from hotmap.local.apiserver import admission, managed_fields
from hotmap.local.apiserver.body_checks import (
    check_applied_type,
    check_delete_options,
    check_type,
    field_warnings,
    patched_field_warnings,
    repetition_warnings,
)
from hotmap.local.apiserver.decode_errors import unsigned_error
from hotmap.local.apiserver.encoding import arrange_fields, decode
from hotmap.local.apiserver.eviction import evict
from hotmap.local.apiserver.large_objects import beside_loop
from hotmap.local.apiserver.lists import EncodedList, parse_resource_version
from hotmap.local.apiserver.negotiation import (
    Patch,
    check_metadata_form,
    decode_patch,
    negotiate_form,
    not_convertible,
    unsupported_patch,
)
from hotmap.local.apiserver.options import (
    DeleteOptions,
    WriteOptions,
    check_include,
    check_patch_options,
    delete_options,
    list_options,
)
from hotmap.local.apiserver.requests import (
    Answer,
    Request,
    decode_request,
    json_answer,
    json_body,
    object_answer,
    read_body,
    request_write_options,
)
from hotmap.local.apiserver.routes import not_allowed
from hotmap.local.apiserver.scale import SCALES, check_has_scale, scale_of
from hotmap.local.apiserver.scale_handlers import patch_scale, replace_scale
from hotmap.local.apiserver.status import (
    internal,
    invalid,
)
from hotmap.local.apiserver.tables import metadata_encoder, row_encoder, table
from hotmap.local.json_object import JsonObject
from hotmap.local.meta import timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hotmap.local.apiserver.registry import Registry
    from hotmap.local.apiserver.routes import ResourcePath, Verb
    from hotmap.local.scheme import Kind


async def answer(registry: Registry, verb: Verb, path: ResourcePath, request: Request) -> Answer:
    """Carry out every verb except watch.

    Raises:
        ApiError: what the registry refuses, or the request gets wrong.
    """
    match verb:
        case "get":
            return await _get(registry, path, request)
        case "list":
            return await _list(registry, path, request)
        case "create":
            return await _create(registry, path, request)
        case "update":
            return await _update(registry, path, request)
        case "patch":
            return await _patch(registry, path, request)
        case "delete":
            return await _delete(registry, path, request)
        case "deletecollection":
            return await _delete_collection(registry, path, request)
    raise not_allowed()


async def _get(registry: Registry, path: ResourcePath, request: Request) -> Answer:
    wanted = request.query.get("resourceVersion", "")
    if wanted not in ("", "0"):
        if why := unsigned_error(wanted):
            raise internal(f'resourceVersion: Invalid value: "{wanted}": {why}')
        registry.reader.check_not_too_large(parse_resource_version(wanted))
    obj = registry.reader.get(path)
    if path.subresource == "scale":
        check_has_scale(path.kind, obj)
        return object_answer(registry, SCALES, scale_of(path.kind, obj), request)
    return object_answer(registry, path.kind, obj, request)


async def _list(registry: Registry, path: ResourcePath, request: Request) -> Answer:
    form = negotiate_form(request.accept)
    check_metadata_form(form, path.kind, is_list=True)
    if form == "table":
        check_include(request.query)
    page = await registry.reader.find(path, list_options(request.query)).page_in_slices()
    kind, metadata = path.kind, _list_metadata(page)
    head: JsonObject = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version}
    head |= {"metadata": metadata, "items": []}
    show = _item_encoder(kind)
    if form == "metadata list":
        head |= {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
        show = metadata_encoder(kind)
    elif form == "table":
        include = request.query.get("includeObject", "Metadata")
        head = table(kind, [], now=0, include=include) | {"metadata": metadata}
        show = row_encoder(kind, registry.now(), include)
    elif kind.strategy.is_custom:
        head["metadata"] = {"continue": "", **metadata}
    return Answer(await _encode_list(head, map(show, page.items)))


async def _encode_list(head: JsonObject, items: Iterable[bytes]) -> bytearray:
    """Write a list in slices; the last field of `head` is an empty list, which gets the items."""
    body = bytearray(msgspec.json.encode(head).removesuffix(b"]}"))
    for item in items:
        body += item
        body += b","
        await share_loop(SHORT_SLICE)
    if body.endswith(b","):
        del body[-1:]
    body += b"]}"
    return body


def _item_encoder(kind: Kind) -> Callable[[bytes], bytes]:
    """Return what writes an object as an item of a list.

    Items do not repeat kind and apiVersion, as upstream's; those of custom resources do.
    """
    if kind.strategy.is_custom:
        return bytes
    prefix = len(b'{"kind":"","apiVersion":"",' + f"{kind.kind}{kind.api_version}".encode())
    return lambda item: b"{" + item[prefix:]


def _list_metadata(page: EncodedList) -> JsonObject:
    metadata: JsonObject = {"resourceVersion": page.resource_version}
    if page.continue_token:
        metadata["continue"] = page.continue_token
    if page.remaining is not None:
        metadata["remainingItemCount"] = page.remaining
    return metadata


async def _create(registry: Registry, path: ResourcePath, request: Request) -> Answer:
    if path.subresource == "binding" or path.kind.resource == "bindings":
        return await _bind(registry, path, request)
    if path.subresource == "eviction":
        return await _evict(registry, path, request)
    if path.subresource == "token":
        return await _request_token(path, request)
    options = request_write_options(request, "CreateOptions")
    obj = await _sent_object(registry, path, request, options)
    reviewed = _review(registry, path, request, obj, options)
    if reviewed is not None:
        return json_answer(reviewed)._replace(status=201)
    created = await registry.admitted.create(path, obj, options)
    return object_answer(registry, path.kind, created, request)._replace(status=201)


async def _sent_object(
    registry: Registry, path: ResourcePath, request: Request, options: WriteOptions
) -> JsonObject:
    """Read the object of a create or update, and warn of unknown and duplicate fields."""
    obj, repeated = await decode_request(request, path.kind.kind)
    check_type(registry.scheme, path.kind, obj, request.body)
    check = partial(
        field_warnings,
        path.kind,
        obj,
        options,
        json_body(request),
        also=[repeated] if repeated else (),
    )
    request.warn(*await beside_loop(len(request.body), check))
    return obj


def _review(
    registry: Registry, path: ResourcePath, request: Request, obj: JsonObject, options: WriteOptions
) -> JsonObject | None:
    """Answer an object of a kind that is a question; None for other kinds."""
    kind, access = path.kind, request.access
    if kind.verbs != ("create",) or access is None:
        return None
    if negotiate_form(request.accept) != "json":
        raise not_convertible()
    metadata = obj.get("metadata") or {}
    if path.namespace and isinstance(metadata, dict):
        metadata["namespace"] = path.namespace
    obj = arrange_fields(kind, obj, metadata)
    admission.decode(kind, obj)
    errors = kind.strategy.validate(obj)
    if errors:
        raise invalid(kind if kind.strategy.names_kind else _nameless(kind), "", errors)
    now = timestamp(registry.now())
    writer = managed_fields.Writer(options.manager, kind.api_version, "", now)
    managers = managed_fields.record_write(kind, None, obj, writer)
    if kind.strategy.has_creation_time:
        obj["metadata"]["creationTimestamp"] = now
    elif managers:
        obj["metadata"]["managedFields"] = managers
    reviewer = Reviewer(request.user, access.authorizer, access.authenticator)
    return kind.strategy.review(obj, reviewer)


def _nameless(kind: Kind) -> Kind:
    return kind._replace(names=kind.names._replace(plural="", kind=""))


async def _request_token(path: ResourcePath, request: Request) -> Answer:
    if request.access is None or request.access.account_tokens is None:
        raise not_allowed()
    obj = (await decode_request(request, "TokenRequest")).value
    answered = request.access.account_tokens.request(path.namespace or "", path.name, obj)
    manager = request_write_options(request, "CreateOptions").manager
    answered["metadata"]["managedFields"] = [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": answered["apiVersion"],
            "time": answered["metadata"]["creationTimestamp"],
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:expirationSeconds": {}}},
            "subresource": "token",
        }
    ]
    return json_answer(answered)._replace(status=201)


async def _bind(registry: Registry, path: ResourcePath, request: Request) -> Answer:
    binding = (await decode_request(request, "Binding")).value
    node = (binding.get("target") or {}).get("name")
    if not node:
        raise internal("target.name: Required value")
    metadata = binding.get("metadata") or {}
    # The older form names its pod in the body only.
    name = metadata.get("name", "")
    if path.name and name != path.name:
        raise BadRequest("name in URL does not match name in Binding object")
    await registry.bind(path.namespace or "", name, node, uid=metadata.get("uid", ""))
    return _created()


async def _evict(registry: Registry, path: ResourcePath, request: Request) -> Answer:
    eviction = (await decode_request(request, "Eviction")).value
    metadata = eviction.get("metadata") or {}
    if (metadata.get("namespace") or path.namespace) != path.namespace:
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if metadata.get("name") != path.name:
        raise BadRequest("name in URL does not match name in Eviction object")
    options = delete_options(request.query, eviction.get("deleteOptions") or {})
    await evict(registry, path, options._replace(user=request.user))
    return _created()


def _created() -> Answer:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return json_answer(status | {"code": 201})._replace(status=201)


async def _update(registry: Registry, path: ResourcePath, request: Request) -> Answer:
    options = request_write_options(request, "UpdateOptions")
    if path.subresource == "scale":
        return await replace_scale(registry, path, request, options)
    obj = await _sent_object(registry, path, request, options)
    creates = not path.subresource and not registry.reader.exists(path)
    updated = await registry.admitted.update(path, obj, options)
    answered = object_answer(registry, path.kind, updated, request)
    return answered._replace(status=201 if creates else 200)


async def _patch(registry: Registry, path: ResourcePath, request: Request) -> Answer:
    options = request_write_options(request, "PatchOptions")
    kind, patch, repeated = await _read_patch(registry, path, request)
    check_patch_options(request.query, is_apply=kind == "apply")
    if kind == "strategic" and not path.kind.strategy.typed and path.kind.version_strategies:
        raise unsupported_patch()
    if path.subresource == "scale":
        return await patch_scale(registry, path, request, Patch(kind, patch), options)
    status = 200
    if kind == "apply":
        assert isinstance(patch, dict)
        check_applied_type(path.kind, patch)
        request.warn(*repetition_warnings(repeated, options))
        if not path.subresource and not registry.reader.exists(path):
            status = 201
    else:
        await _check_patched_fields(registry, path, request, Patch(kind, patch), options)
    patched = await registry.admitted.patch(path, kind, patch, options)
    return object_answer(registry, path.kind, patched, request)._replace(status=status)


async def _read_patch(registry: Registry, path: ResourcePath, request: Request) -> Patch:
    """Decode a patch.

    Raises:
        BadRequest: it is malformed.
        NotFound: it is, and its object does not exist; upstream reads the object first.
    """
    try:
        return await read_body(decode_patch, request)
    except BadRequest:
        if "apply-patch" not in request.content_type:
            registry.reader.entry(path.kind, path.namespace, path.name)
        raise


async def _check_patched_fields(
    registry: Registry, path: ResourcePath, request: Request, patch: Patch, options: WriteOptions
) -> None:
    """Warn of fields that a patch has twice, and of those that its result should not have."""
    if options.field_validation == "Ignore":
        return
    entry = registry.reader.entry(path.kind, path.namespace, path.name)
    live = partial(decode, entry, path.kind)
    check = partial(patched_field_warnings, path.kind, live, patch, request.body, options)
    size = len(entry.value or b"") + len(request.body)
    request.warn(*await beside_loop(size, check))


def _delete_options(request: Request, body: JsonObject) -> DeleteOptions:
    """Read the options of a delete, from the query only where there is no body, as upstream."""
    query = {} if request.body else request.query
    return delete_options(query, body)._replace(user=request.user)


async def _delete(registry: Registry, path: ResourcePath, request: Request) -> Answer:
    body = (await decode_request(request)).value if request.body else {}
    check_delete_options(body)
    options = _delete_options(request, body)
    request.warn(path.kind.strategy.deletion_warning(options.propagation))
    deleted = await registry.admitted.delete(path, options)
    if deleted["kind"] == "Status":
        return json_answer(deleted)
    return object_answer(registry, path.kind, deleted, request)


async def _delete_collection(registry: Registry, path: ResourcePath, request: Request) -> Answer:
    body = (await decode_request(request)).value if request.body else {}
    options = _delete_options(request, body)
    request.warn(path.kind.strategy.deletion_warning(options.propagation))
    deleted = await registry.admitted.delete_collection(path, list_options(request.query), options)
    head = {"kind": f"{path.kind.kind}List", "apiVersion": path.kind.api_version}
    metadata = _list_metadata(deleted)
    items = [msgspec.json.decode(item) for item in deleted.items]
    if path.kind.strategy.is_custom:
        return json_answer({**head, "metadata": {"continue": "", **metadata}, "items": items})
    for item in items:
        del item["kind"], item["apiVersion"]
    return json_answer({**head, "metadata": metadata, "items": items})
