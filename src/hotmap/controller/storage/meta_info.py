"""Writes Reloader's meta-info ConfigMap, which tools for Reloader read, at each begin of a term."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from hotmap.controller.settings import MetaInfo
from hotmap.core.errors import AlreadyExists, ApiError, Conflict, NotFound, NotLeading, Unreachable
from hotmap.core.reloader.meta_info import LABELS, META_INFO
from hotmap.kube.client import Client
from hotmap.kube.resources import CONFIGMAPS
from hotmap.kube.retry import Backoff

__all__ = ["write_meta_info"]

#: Attempts while other clients write it, too, or the API server is not there.
_ATTEMPTS = 5

_log = logging.getLogger(__name__)


async def write_meta_info(
    client: Client, wanted: MetaInfo, *, check_leading: Callable[[], None]
) -> None:
    """Create or update the ConfigMap; one with this content already is left alone.

    Labels and annotations of others are kept. A failure is one warning: nothing depends on it.
    `check_leading` raises NotLeading once another replica may lead, which ends this.
    """
    backoff = Backoff(0.1, 5.0)
    error: Exception | None = None
    for _ in range(_ATTEMPTS):
        try:
            await _write(client, wanted, check_leading)
        except NotLeading:
            return
        except (AlreadyExists, Conflict, Unreachable) as failure:
            error = failure
            await asyncio.sleep(backoff.next())
        except ApiError as refusal:
            error = refusal
            break
        else:
            return
    _log.warning("ConfigMap %s/%s is not written: %s", wanted.namespace, META_INFO, error)


async def _write(client: Client, wanted: MetaInfo, check_leading: Callable[[], None]) -> None:
    """Write once.

    Raises:
        AlreadyExists, Conflict: another client wrote it since it was read.
        NotLeading: as `check_leading` raises it.
        ApiError, Unreachable: as the client raises them.
    """
    try:
        found: dict[str, Any] | None = await client.get(
            CONFIGMAPS, wanted.namespace, META_INFO, type=dict
        )
    except NotFound:
        found = None
    check_leading()
    if found is None:
        body = _object({"name": META_INFO}, wanted.data)
        await client.create(CONFIGMAPS, wanted.namespace, body, type=dict, idempotent=True)
        return
    body = _object(found["metadata"], wanted.data)
    if body["metadata"] != found["metadata"] or found.get("data") != wanted.data:
        await client.replace(CONFIGMAPS, wanted.namespace, META_INFO, body, type=dict)


def _object(metadata: Mapping[str, Any], data: Mapping[str, str]) -> dict[str, Any]:
    labels = {**(metadata.get("labels") or {}), **LABELS}
    return {
        "apiVersion": CONFIGMAPS.api_version,
        "kind": CONFIGMAPS.kind,
        "metadata": {**metadata, "labels": labels},
        "data": dict(data),
    }
