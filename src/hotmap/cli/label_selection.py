"""Workloads by their labels, as the API server selects them with the caller's own rights.

The controller keeps no labels.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import msgspec

from hotmap.cli.shared_options import ClusterOptions
from hotmap.core.errors import ApiError, BadRequest, SettingsError, Unreachable
from hotmap.core.model.objects import ObjectMeta
from hotmap.kube.client import Client, Limits
from hotmap.kube.resources import BY_KIND

__all__ = ["select_by_label"]

_LIMITS = Limits(connect=5.0, attempt=20.0, attempts=2)


class _Object(msgspec.Struct):
    metadata: ObjectMeta


async def select_by_label(
    cluster: ClusterOptions, kinds: Collection[str], namespace: str | None, selector: str
) -> set[tuple[str, str, str]]:
    """Return kind, namespace and name of the workloads of these kinds whose labels match.

    Raises:
        SettingsError: the kubeconfig cannot be used, the selector is invalid, or they cannot be
            listed, so that their status is unknown.
    """
    async with Client(cluster.load(), user_agent="hotmap-cli", limits=_LIMITS) as client:

        async def listed(kind: str) -> set[tuple[str, str, str]]:
            found, token = set(), ""
            while True:
                page = await client.list_page(
                    BY_KIND[kind],
                    namespace,
                    type=_Object,
                    label_selector=selector,
                    continue_token=token,
                )
                found |= {(kind, o.metadata.namespace, o.metadata.name) for o in page.items}
                token = page.continue_token
                if not token:
                    return found

        try:
            # Without workloads the selector is checked all the same.
            parts = await asyncio.gather(*map(listed, sorted(kinds) or ["Deployment"]))
        except BadRequest as error:
            raise SettingsError(f'--selector: invalid selector "{selector}": {error}') from error
        except (ApiError, Unreachable) as error:
            raise SettingsError(f"--selector: cannot list workloads: {error}") from error
    return {name for part in parts for name in part if name[0] in kinds}
