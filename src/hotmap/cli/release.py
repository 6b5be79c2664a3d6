"""`hotmap release`: release a workload that is held after too many rollouts.

Writes one annotation with the caller's own rights; kubectl or any other tool may write it, too.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime

import msgspec

from hotmap.cli.shared_options import ClusterOptions
from hotmap.cli.workload_names import WORKLOAD_KINDS, WorkloadName, parse_workload_name
from hotmap.core.errors import Forbidden, NotFound, SettingsError
from hotmap.core.model.annotations import RELEASE
from hotmap.core.model.objects import ObjectMeta
from hotmap.kube.client import Client, Limits
from hotmap.kube.resources import BY_KIND, Resource

__all__ = ["run_release"]

_LIMITS = Limits(connect=5.0, attempt=20.0, attempts=2)


class _Object(msgspec.Struct):
    metadata: ObjectMeta


def run_release(name: str, namespace: str, cluster: ClusterOptions) -> int:
    """Annotate one workload, so that its earlier rollouts no longer count.

    Raises:
        SettingsError: the name is invalid or ambiguous, or no such workload exists.
        ApiError, Unreachable: the workload cannot be read or annotated.
    """
    asyncio.run(_release(name, namespace, cluster))
    return 0


async def _release(text: str, namespace: str, cluster: ClusterOptions) -> None:
    async with Client(cluster.load(), user_agent="hotmap-cli", limits=_LIMITS) as client:
        name = parse_workload_name(text, namespace or client.namespace)
        resource = await _find(client, name, text)
        at = datetime.fromtimestamp(client.server_time(), UTC).isoformat(timespec="milliseconds")
        await client.patch(
            resource,
            name.namespace,
            name.name,
            {"metadata": {"annotations": {RELEASE: at.replace("+00:00", "Z")}}},
            type=_Object,
            idempotent=True,
        )
    group = f".{resource.group}" if resource.group else ""
    found = f"{resource.kind.lower()}{group}/{name.name}"
    sys.stdout.write(f"{found} released: rollouts until now no longer count\n")


async def _find(client: Client, name: WorkloadName, text: str) -> Resource:
    """Find the resource of a workload; one that is named without its kind is looked for.

    Kinds that the user may not read are left out. They may not even be installed: an API server
    checks the permission before it looks for the kind.
    """
    kinds = [name.kind] if name.kind else WORKLOAD_KINDS
    found, absent = [], []
    refusal: Forbidden | None = None
    for kind in kinds:
        try:
            await client.get(BY_KIND[kind], name.namespace, name.name, type=_Object)
        except NotFound:
            absent.append(kind)
        except Forbidden as error:
            refusal = refusal or error
        else:
            found.append(BY_KIND[kind])
    if len(found) == 1:
        return found[0]
    if found:
        kind = " and ".join(resource.kind for resource in found)
        raise SettingsError(
            f'"{text}" is ambiguous: {kind} {name.namespace}/{name.name}; name the kind'
        )
    if refusal and not absent:
        raise refusal
    among = f" among the kinds that you may read: {', '.join(absent)}" if refusal else ""
    raise SettingsError(
        f'"{text}": there is no {name.kind or "workload"} {name.namespace}/{name.name}{among}'
    )
