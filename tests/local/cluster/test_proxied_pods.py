"""kubectl reaches what runs in pods through the API server's proxy."""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from tests.local.cluster.clients import KubeconfigClient
from tests.support.requires import requires

from hotmap.local.cluster import LocalCluster

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.real_time

NAMESPACE = "/api/v1/namespaces/default"


def web(port: int) -> dict[str, Any]:
    container = {
        "name": "web",
        "image": "agnhost",
        "args": ["netexec", f"--http-port={port}"],
        "ports": [{"name": "http", "containerPort": port}],
        "readinessProbe": {"httpGet": {"path": "/hostname", "port": port}, "periodSeconds": 1},
    }
    return {
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }


SERVICE = {
    "metadata": {"name": "web"},
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]},
}


class Kubectl:
    """kubectl as a person uses it, with a home of its own."""

    def __init__(self, kubeconfig: Path, home: Path) -> None:
        requires("kubectl", available=shutil.which("kubectl") is not None, reason="not in PATH")
        self._environment = {**os.environ, "HOME": str(home), "KUBECONFIG": str(kubeconfig)}

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            "kubectl",
            *arguments,
            env=self._environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

    async def __call__(self, *arguments: str) -> str:
        process = await self.start(*arguments)
        output, _ = await process.communicate()
        return output.decode()


async def _is_ready(client: KubeconfigClient) -> bool:
    found = await client.request("GET", f"{NAMESPACE}/endpoints/web", check=False)
    return any(subset.get("addresses") for subset in found.get("subsets") or ())


async def test_kubectl_reaches_pods_and_services(tmp_path: Path) -> None:
    """By get --raw and by kubectl proxy; once the pod is gone, with the reason."""
    async with LocalCluster(tmp_path / "plane") as cluster:
        client = KubeconfigClient(cluster.kubeconfig)
        kubectl = Kubectl(cluster.kubeconfig, tmp_path)
        await client.post(f"{NAMESPACE}/pods", web(8080))
        await client.post(f"{NAMESPACE}/services", SERVICE)
        async with asyncio.timeout(60):
            while not await _is_ready(client):  # noqa: ASYNC110 - a watch would hide nothing
                await asyncio.sleep(0.05)
        for target in ("pods/web", "pods/http:web:8080", "services/web", "services/web:80"):
            path = f"{NAMESPACE}/{target}/proxy/hostname"
            assert await kubectl("get", "--raw", path) == "web", target
        path = f"{NAMESPACE}/pods/web/proxy/echo"
        sent = await kubectl("create", "--raw", path, "-f", os.devnull)
        assert "Unsupported method ('POST')" in sent

        proxying = await kubectl.start("proxy", "--port=0")
        assert proxying.stdout is not None
        address = (await proxying.stdout.readline()).decode().split()[-1]
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{address}{NAMESPACE}/services/web/proxy/echo?msg=hi") as response,
        ):
            assert (response.status, await response.text()) == (200, "hi")
        proxying.terminate()
        await proxying.wait()

        await client.request("DELETE", f"{NAMESPACE}/pods/web")
        async with asyncio.timeout(60):
            while await _is_ready(client):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.05)
        refused = await kubectl("get", "--raw", f"{NAMESPACE}/services/web/proxy/")
        assert refused.startswith("Error from server (ServiceUnavailable): no endpoints available")
