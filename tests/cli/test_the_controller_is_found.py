"""Where the controller is looked for, and what is said when it cannot be asked.

The API server is played: it lists the controller's pods and stands between them and us, as the
proxy of a real one does. That one is met in tests/deploy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from hotmap.cli.asking import CannotTell, Where, reach

LABELS = "app.kubernetes.io/name=hotmap,app.kubernetes.io/component=controller"


def answer(**fields: Any) -> dict[str, Any]:
    """What a controller says that leads and follows nothing."""
    document = {
        "kind": "ControllerStatus",
        "ready": True,
        "role": "leader",
        "counts": {},
        "behind": 0,
        "consumers": [],
    }
    return {**document, **fields}


class Server:
    """An API server with some pods of the controller."""

    def __init__(self) -> None:
        #: By pod: what it answers, or a status with which it cannot be asked.
        self.pods: dict[str, dict[str, Any] | int] = {}
        self.port = 9533
        #: Namespaces whose pods may be listed; "" is all at once.
        self.allowed = {"", "hotmap", "ops"}
        self.asked: list[str] = []
        self._server: TestServer | None = None

    async def start(self, directory: Path) -> Where:
        app = web.Application()
        app.router.add_get("/api/v1/pods", self._list)
        app.router.add_get("/api/v1/namespaces/{namespace}/pods", self._list)
        app.router.add_get(
            "/api/v1/namespaces/hotmap/pods/{pod}/proxy/v1/status", self._through_proxy
        )
        self._server = TestServer(app)
        await self._server.start_server()
        content = {
            "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": str(self._server.make_url(""))}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "namespace": "shop"}}],
        }
        path = directory / "kubeconfig"
        path.write_text(yaml.safe_dump(content))
        return Where(kubeconfig=str(path))

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.close()

    async def _list(self, request: web.Request) -> web.Response:
        namespace = request.match_info.get("namespace", "")
        assert request.query["labelSelector"] == LABELS
        if namespace not in self.allowed:
            status = {"kind": "Status", "code": 403, "message": "pods is forbidden"}
            return web.json_response(status, status=403)
        ports = [{"name": "metrics", "containerPort": self.port}]
        items = [
            {
                "metadata": {"namespace": "hotmap", "name": name},
                "spec": {"containers": [{"ports": ports}]},
                "status": {"phase": "Running"},
            }
            for name in self.pods
            if namespace in ("", "hotmap")
        ]
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})

    async def _through_proxy(self, request: web.Request) -> web.Response:
        self.asked.append(request.match_info["pod"])
        name, _, port = request.match_info["pod"].partition(":")
        assert int(port) == self.port
        said = self.pods[name]
        if isinstance(said, int):
            return web.json_response({"kind": "Status", "message": "no route"}, status=said)
        return web.json_response(said)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    yield server
    await server.stop()


async def ask(where: Where) -> dict[str, Any]:
    async with reach(where) as asked:
        return await asked.status({})


async def refused(where: Where) -> str:
    with pytest.raises(CannotTell) as caught:
        await ask(where)
    return str(caught.value)


async def test_the_replica_that_leads_is_asked(server: Server, tmp_path: Path) -> None:
    """Of several pods the one that says so; a standby knows nothing, and one may be ill."""
    server.pods = {
        "hotmap-a": answer(ready=False, role="standby"),
        "hotmap-b": 503,
        "hotmap-c": answer(sources=7),
    }
    document = await ask(await server.start(tmp_path))
    assert document["sources"] == 7


async def test_the_port_is_the_pods_own(server: Server, tmp_path: Path) -> None:
    """With Reloader's defaults it is another one; the pod says which is called metrics."""
    server.pods, server.port = {"hotmap-a": answer()}, 9090
    await ask(await server.start(tmp_path))
    assert set(server.asked) == {"hotmap-a:9090"}


async def test_the_namespace_of_the_context_is_meant(server: Server, tmp_path: Path) -> None:
    """As kubectl takes it where none is named."""
    server.pods = {"hotmap-a": answer()}
    async with reach(await server.start(tmp_path)) as asked:
        assert asked.namespace == "shop"


async def test_pages_become_one_document(server: Server, tmp_path: Path) -> None:
    """However many workloads there are."""
    pages = iter(
        [answer(), answer(consumers=["a", "b"], **{"continue": "b"}), answer(consumers=["c"])]
    )

    class Pages(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            return next(pages)

    server.pods = Pages({"hotmap-a": None})
    document = await ask(await server.start(tmp_path))
    assert document["consumers"] == ["a", "b", "c"]
    assert "continue" not in document


async def test_without_the_right_to_see_all_namespaces(server: Server, tmp_path: Path) -> None:
    """The usual namespace is tried."""
    server.pods, server.allowed = {"hotmap-a": answer()}, {"hotmap"}
    assert (await ask(await server.start(tmp_path)))["ready"]


async def test_only_standbys(server: Server, tmp_path: Path) -> None:
    """Nobody leads at this moment: the next question may find who does."""
    standby = answer(ready=False, role="standby")
    server.pods = {"hotmap-a": standby, "hotmap-b": standby}
    said = await refused(await server.start(tmp_path))
    assert said.startswith("all 2 controllers that answered stand by; ")
    assert said.endswith("try again")


@pytest.mark.parametrize("status", [403, 404, 502, 503])
async def test_a_pod_that_cannot_be_asked(server: Server, tmp_path: Path, status: int) -> None:
    """No right to the proxy, or a policy in between: the way around is a command."""
    server.pods = {"hotmap-a": status}
    said = await refused(await server.start(tmp_path))
    assert "Pod hotmap/hotmap-a cannot be asked through the API server: no route" in said
    assert "'kubectl --namespace=hotmap port-forward pod/hotmap-a 9533'" in said
    assert said.endswith("--url http://127.0.0.1:9533")


async def test_no_right_to_look_for_it(server: Server, tmp_path: Path) -> None:
    """The flags that make it unnecessary are named."""
    server.pods, server.allowed = {"hotmap-a": answer()}, set()
    said = await refused(await server.start(tmp_path))
    assert "pods is forbidden" in said
    assert "--controller-namespace" in said
    assert "--url" in said


async def test_no_pod_of_the_controller(server: Server, tmp_path: Path) -> None:
    """Where it was looked for is said; another namespace may be named."""
    where = await server.start(tmp_path)
    said = await refused(where._replace(controller_namespace="ops"))
    assert "was found: it runs no pod with the labels" in said


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("hello", "no JSON object"),
        ('["a"]', "no JSON object"),
        ('{"kind": "Other"}', "no controller of hotmap"),
        ('{"kind": "ControllerStatus", "ready": false}', "stands by, or still starts"),
    ],
)
async def test_what_answers_at_an_address(body: str, words: str) -> None:
    """Something else, or who does not lead: what it is, and no table of nothing."""

    async def said(request: web.Request) -> web.Response:
        return web.Response(text=body)

    app = web.Application()
    app.router.add_get("/v1/status", said)
    server = TestServer(app)
    await server.start_server()
    try:
        assert words in await refused(Where(url=str(server.make_url("/"))))
    finally:
        await server.close()
