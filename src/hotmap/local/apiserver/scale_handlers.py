"""Writes through the scale subresource, as requests.

`scale_writes` has what they change.
"""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from hotmap.local.apiserver import admission, managed_fields
from hotmap.local.apiserver.body_checks import (
    check_applied_type,
    check_scale,
    field_warnings,
    patched_field_warnings,
)
from hotmap.local.apiserver.configurations import check_configuration
from hotmap.local.apiserver.metadata import check_name
from hotmap.local.apiserver.requests import decode_request, json_body, object_answer
from hotmap.local.apiserver.scale import SCALES, scale_of
from hotmap.local.apiserver.scale_writes import apply_scale, update_scale
from hotmap.local.apiserver.sent_objects import patched_object, read_object
from hotmap.local.meta import timestamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotmap.local.apiserver.negotiation import Patch
    from hotmap.local.apiserver.options import WriteOptions
    from hotmap.local.apiserver.registry import Registry
    from hotmap.local.apiserver.requests import Answer, Request
    from hotmap.local.apiserver.routes import ResourcePath
    from hotmap.local.json_object import JsonObject

__all__ = ["patch_scale", "replace_scale"]


async def replace_scale(
    registry: Registry, path: ResourcePath, request: Request, options: WriteOptions
) -> Answer:
    """Answer a PUT of a Scale."""
    sent = (await decode_request(request, "Scale")).value
    check_scale(sent)
    request.warn(*field_warnings(SCALES, sent, options, json_body(request)))
    scale = read_object(SCALES, path.namespace, msgspec.json.encode(sent))
    check_name(scale["metadata"], path.name)
    admission.decode(SCALES, scale)
    writer = _scale_writer(registry, options)
    change = partial(update_scale, path.kind, edit=lambda _: scale, writer=writer)
    return await _write_scale(registry, path, request, change, options)


async def patch_scale(
    registry: Registry, path: ResourcePath, request: Request, patch: Patch, options: WriteOptions
) -> Answer:
    """Answer a PATCH of a Scale, which may be an apply."""
    kind, writer = path.kind, _scale_writer(registry, options)
    of_scale = path._replace(kind=SCALES)
    if patch.kind == "apply":
        assert isinstance(patch.value, dict)
        check_applied_type(SCALES, patch.value)
        check_configuration(of_scale, patch.value)
        writer = writer._replace(operation="Apply")
        change = partial(apply_scale, kind, config=patch.value, writer=writer, force=options.force)
        return await _write_scale(registry, path, request, change, options)
    live = scale_of(kind, registry.reader.get(path))
    request.warn(
        *patched_field_warnings(SCALES, lambda: deepcopy(live), patch, request.body, options)
    )

    def edit(scale: JsonObject) -> JsonObject:
        return patched_object(of_scale, patch.kind, scale, patch.value)

    change = partial(update_scale, kind, edit=edit, writer=writer)
    return await _write_scale(registry, path, request, change, options)


async def _write_scale(
    registry: Registry,
    path: ResourcePath,
    request: Request,
    change: Callable[[JsonObject], JsonObject],
    options: WriteOptions,
) -> Answer:
    path = path._replace(subresource="")
    workload = await registry.admitted.modify(path, change, options._replace(through="scale"))
    return object_answer(registry, SCALES, scale_of(path.kind, workload), request)


def _scale_writer(registry: Registry, options: WriteOptions) -> managed_fields.Writer:
    now = timestamp(registry.now())
    return managed_fields.Writer(options.manager, SCALES.api_version, "scale", now)
