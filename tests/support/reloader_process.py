"""A Reloader of the simplest kind, to run beside hotmap as a process of its own.

It does what stakater/Reloader does with its default strategy and no more: when the data of a
ConfigMap changes, each Deployment of the namespace that reads it gets `STAKATER_<NAME>_CONFIGMAP`
by a strategic merge patch of field manager `Reloader`, at once, without looking at anything else
(internal/pkg/handler/upgrade.go). What was there at its start is not a change.

    python -m tests.support.reloader_process KUBECONFIG NAMESPACE
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hotmap.core.model.objects import ObjectKey
from hotmap.core.reloader.patch import digest_of, variable_name
from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_config
from hotmap.kube.resources import CONFIGMAPS, DEPLOYMENTS

__all__ = ["reloader"]

#: Seconds between two looks; Reloader has watches, which are as quick.
_PACE = 0.02

_BEGUN = "reloader has begun"

Object = dict[str, Any]


@asynccontextmanager
async def reloader(kubeconfig: Path, namespace: str) -> AsyncIterator[None]:
    """Run one for the length of a block, from when it has seen what is there."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__, str(kubeconfig), namespace),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    try:
        assert (await process.stdout.readline()).decode().strip() == _BEGUN
        yield
    finally:
        process.kill()
        await process.wait()


async def _run(client: Client, namespace: str) -> None:
    seen = await _digests(client, namespace)
    sys.stdout.write(f"{_BEGUN}\n")
    sys.stdout.flush()
    while True:
        await asyncio.sleep(_PACE)
        now = await _digests(client, namespace)
        for name in now.keys() & seen.keys():
            if now[name] != seen[name]:
                await _mark(client, namespace, name, now[name])
        seen = now


async def _digests(client: Client, namespace: str) -> dict[str, str]:
    page = await client.list_page(CONFIGMAPS, namespace, type=Object, resource_version="0")
    return {
        item["metadata"]["name"]: digest_of(
            (key.encode(), value.encode()) for key, value in (item.get("data") or {}).items()
        )
        for item in page.items
    }


async def _mark(client: Client, namespace: str, source: str, digest: str) -> None:
    page = await client.list_page(DEPLOYMENTS, namespace, type=Object)
    variable = {"name": variable_name(ObjectKey("ConfigMap", namespace, source)), "value": digest}
    for item in page.items:
        for container in item["spec"]["template"]["spec"]["containers"]:
            refs = [entry.get("valueFrom") or {} for entry in container.get("env") or ()]
            if source not in [ref.get("configMapKeyRef", {}).get("name") for ref in refs]:
                continue
            containers = [{"name": container["name"], "env": [variable]}]
            await client.patch(
                DEPLOYMENTS,
                namespace,
                item["metadata"]["name"],
                {"spec": {"template": {"spec": {"containers": containers}}}},
                type=Object,
                content_type="application/strategic-merge-patch+json",
                field_manager="Reloader",
            )


async def _main(kubeconfig: str, namespace: str) -> None:
    async with Client(load_config(kubeconfig)) as client:
        await _run(client, namespace)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
