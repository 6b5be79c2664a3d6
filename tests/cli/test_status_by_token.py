"""The status for users with a token, on a plane whose API server decides by RBAC."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from tests.walkthroughs.local import running_plane

from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_kubeconfig

MANIFESTS = Path(__file__).parents[2] / "deploy" / "manifests" / "base.yaml"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


async def post(client: Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await client.request("POST", path, body=json.dumps(body).encode())
    made: dict[str, Any] = json.loads(answer)
    return made


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


async def get(port: int, query: str, token: str) -> tuple[int, dict[str, Any]]:
    headers = {"Hotmap-Authorization": f"Bearer {token}"}
    url = f"http://127.0.0.1:{port}/v1/status{query}"
    async with aiohttp.ClientSession() as http, http.get(url, headers=headers) as answer:
        return answer.status, json.loads(await answer.text())


async def test_viewer_of_a_namespace_reads_its_status(tmp_path: Path) -> None:
    """By the ClusterRole view, bound in one namespace, as the manifests extend it."""
    objects = list(yaml.safe_load_all(MANIFESTS.read_text()))
    (viewer,) = [item for item in objects if item["metadata"]["name"] == "hotmap-view"]
    port, log = free_port(), tmp_path / "controller.log"
    flags = ["--listen=127.0.0.1:0", f"--status-listen=127.0.0.1:{port}"]
    with (
        running_plane(tmp_path / "plane", "--authorization", "rbac") as plane,
        log.open("w") as written,
    ):
        config = load_kubeconfig(str(plane.kubeconfig))
        async with Client(config) as client:
            await post(client, f"{RBAC}/clusterroles", viewer)
            account = {"metadata": {"name": "jane"}}
            await post(client, "/api/v1/namespaces/default/serviceaccounts", account)
            binding = {
                "metadata": {"name": "jane"},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "view",
                },
                "subjects": [{"kind": "ServiceAccount", "name": "jane", "namespace": "default"}],
            }
            await post(client, f"{RBAC}/namespaces/default/rolebindings", binding)
            path = "/api/v1/namespaces/default/serviceaccounts/jane/token"
            token = (await post(client, path, {"spec": {}}))["status"]["token"]
        command = [sys.executable, "-m", "hotmap", "controller", "--kubeconfig"]
        with subprocess.Popen(  # noqa: ASYNC220
            [*command, str(plane.kubeconfig), *flags],
            stdin=subprocess.DEVNULL,
            stderr=written,
            env={"PATH": os.environ["PATH"]},
        ) as controller:
            try:
                while not re.search(r"status on port", log.read_text()):
                    assert controller.poll() is None, log.read_text()
                    time.sleep(0.05)  # noqa: ASYNC251
                assert (await get(port, "?namespace=default", token))[0] == 200
                status, refusal = await get(port, "?namespace=kube-system", token)
                assert status == 403
                assert refusal["message"] == (
                    "system:serviceaccount:default:jane may not get workloads.hotmap.dev in "
                    "namespace kube-system; the ClusterRole view, bound there, permits it"
                )
                assert (await get(port, "?namespace=default", token))[0] == 200
                status, refusal = await get(port, "?namespace=default", "guess")
                assert (status, refusal["message"]) == (
                    403,
                    "the API server does not accept the token",
                )
            finally:
                controller.terminate()
