"""Discovery of the controller, and the errors when it cannot be reached.

The API server is a fake: it lists the controller's pods and proxies requests to them. The proxy of
a real one is tested in tests/deploy.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from hotmap.cli.shared_options import ClusterOptions, ControllerAddress
from hotmap.cli.status_client import connect
from hotmap.cli.status_response import StatusUnavailable

LABELS = "app.kubernetes.io/name=hotmap,app.kubernetes.io/component=controller"


def answer(**fields: Any) -> dict[str, Any]:
    """The status of a leader without workloads."""
    document = {
        "kind": "ControllerStatus",
        "ready": True,
        "role": "leader",
        "counts": {},
        "behind": 0,
        "workloads": [],
        "time": 0.0,
    }
    return {**document, **fields}


#: Stands for a pod that is listed, and deleted when it is asked; the proxy has no such status.
GONE = 410


class Server:
    """A fake API server with pods of the controller."""

    def __init__(self) -> None:
        #: By pod: its answer, the status of the proxy's error, or GONE; None: it does not answer.
        self.pods: dict[str, dict[str, Any] | int | None] = {}
        #: The same, for the pages after the first.
        self.later: dict[str, dict[str, Any]] = {}
        self.port = 9533
        #: The namespace of the pods, and of those of others with the same labels.
        self.home = "hotmap"
        self.others: dict[str, str] = {}
        #: Namespaces whose pods may be listed; "" stands for all.
        self.allowed = {"", "hotmap", "ops"}
        self.asked: list[str] = []
        #: By namespace: the answers of the Service there, or the message of its refusal.
        self.services: dict[str, list[dict[str, Any] | str]] = {}
        #: The resource that the API server refuses; "" where the controller does.
        self.refusing = ""
        self.tokens: list[tuple[str, str | None]] = []
        #: The status and body with which the API server refuses lists; it serves them at 0.
        self.list_failure: tuple[int, str] = (0, "")
        #: Of all pods.
        self.pod_status: dict[str, Any] = {"phase": "Running"}
        #: The user of the kubeconfig.
        self.user: dict[str, Any] = {}
        #: The requests that are not answered end with the test.
        self._stopped = asyncio.Event()
        self._server: TestServer | None = None

    async def start(self, directory: Path) -> ClusterOptions:
        app = web.Application()
        app.router.add_get("/api/v1/pods", self._list)
        app.router.add_get("/api/v1/namespaces/{namespace}/pods", self._list)
        app.router.add_get(
            "/api/v1/namespaces/{namespace}/services/{service}/proxy/v1/status", self._service
        )
        app.router.add_get(
            "/api/v1/namespaces/{home}/pods/{pod}/proxy/v1/status", self._through_proxy
        )
        self._server = TestServer(app)
        await self._server.start_server()
        content = {
            "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": str(self._server.make_url(""))}}],
            "users": [{"name": "me", "user": self.user}],
            "contexts": [
                {"name": "it", "context": {"cluster": "it", "user": "me", "namespace": "shop"}}
            ],
        }
        path = directory / "kubeconfig"
        path.write_text(yaml.safe_dump(content))
        return ClusterOptions(kubeconfig=str(path))

    async def stop(self) -> None:
        self._stopped.set()
        if self._server is not None:
            await self._server.close()

    async def _list(self, request: web.Request) -> web.Response:
        namespace = request.match_info.get("namespace", "")
        assert request.query["labelSelector"] == LABELS
        code, body = self.list_failure
        if code:
            return web.Response(status=code, text=body)
        if namespace not in self.allowed:
            status = {"kind": "Status", "code": 403, "message": "pods is forbidden"}
            return web.json_response(status, status=403)
        ports = [{"name": "metrics", "containerPort": self.port}]
        items = [
            {
                "metadata": {"namespace": self.others.get(name, self.home), "name": name},
                "spec": {"containers": [{"ports": ports}]},
                "status": self.pod_status,
            }
            for name in self.pods
            if namespace in ("", self.home)
        ]
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})

    async def _service(self, request: web.Request) -> web.Response:
        namespace, service = request.match_info["namespace"], request.match_info["service"]
        self.tokens.append((f"{namespace}/{service}", request.headers.get("Hotmap-Authorization")))
        answers = self.services.get(namespace)
        if not answers:
            status = {"kind": "Status", "code": 404, "message": "services not found"}
            return web.json_response(status, status=404)
        message = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(message, str):
            details = {"details": {"kind": self.refusing}} if self.refusing else {}
            status = {"kind": "Status", "code": 403, "message": message, **details}
            return web.json_response(status, status=403)
        return web.json_response(message)

    async def _through_proxy(self, request: web.Request) -> web.Response:
        self.asked.append(request.match_info["pod"])
        name, _, port = request.match_info["pod"].partition(":")
        assert int(port) == self.port
        message = self.pods[name]
        if "continue" in request.query:
            message = self.later.get(name, message)
        if message is None:
            await self._stopped.wait()
        if message == GONE:
            text = f'pods "{name}" not found'
            status = {"kind": "Status", "message": text, "details": {"kind": "pods", "name": name}}
            return web.json_response(status, status=404)
        if isinstance(message, int):
            return web.json_response({"kind": "Status", "message": "no route"}, status=message)
        return web.json_response(message)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    yield server
    await server.stop()


async def ask(cluster: ClusterOptions, **address: str) -> dict[str, Any]:
    async with connect(cluster, ControllerAddress(**address)) as client:
        return await client.status({})


async def refused(cluster: ClusterOptions, **address: str) -> str:
    with pytest.raises(StatusUnavailable) as caught:
        await ask(cluster, **address)
    return str(caught.value)


@pytest.mark.parametrize(
    ("code", "body", "problem"),
    [
        (429, '{"kind": "Status", "message": "too many requests"}', "{url}: too many requests"),
        (503, '{"kind": "Status", "message": "shutting down"}', "{url}: shutting down"),
        (503, "busy", "{url} answered 503 Service Unavailable to GET /api/v1/pods"),
    ],
)
async def test_server_that_does_not_list_pods_now_is_named(
    code: int, body: str, problem: str, server: Server, tmp_path: Path
) -> None:
    """As one that cannot be reached or refuses the credentials is."""
    server.list_failure = code, body
    cluster = await server.start(tmp_path)
    expected = problem.format(url=cluster.load().server)
    assert await refused(cluster) == f"cannot list the controller's Pods: {expected}"


async def test_status_comes_from_the_leader(server: Server, tmp_path: Path) -> None:
    """Of several pods the leader; standbys and failing pods are skipped."""
    server.pods = {
        "hotmap-a": answer(ready=False, role="standby"),
        "hotmap-b": 503,
        "hotmap-c": answer(sources=7),
    }
    document = await ask(await server.start(tmp_path))
    assert document["sources"] == 7


async def test_leader_is_found_beside_a_pod_that_does_not_answer(
    server: Server, tmp_path: Path
) -> None:
    """All are asked at once: one whose node is gone stays Ready for a while, and only times out."""
    server.pods = {"hotmap-a": None, "hotmap-b": answer(sources=7)}
    async with asyncio.timeout(10):
        document = await ask(await server.start(tmp_path))
    assert document["sources"] == 7


async def test_port_is_the_pods_metrics_port(server: Server, tmp_path: Path) -> None:
    """With Reloader's defaults it is another one."""
    server.pods, server.port = {"hotmap-a": answer()}, 9090
    await ask(await server.start(tmp_path))
    assert set(server.asked) == {"hotmap-a:9090"}


async def test_namespace_defaults_to_the_contexts(server: Server, tmp_path: Path) -> None:
    """As in kubectl."""
    server.pods = {"hotmap-a": answer()}
    cluster = await server.start(tmp_path)
    async with connect(cluster, ControllerAddress()) as client:
        assert client.namespace == "shop"


async def test_status_joins_pages(server: Server, tmp_path: Path) -> None:
    """`continue` is followed to the end."""
    common = {"kind": "Job", "namespace": "shop", "state": "current", "reason": ""}
    a, b, c = ({**common, "name": name} for name in "abc")
    pages = iter([answer(), answer(workloads=[a, b], **{"continue": "b"}), answer(workloads=[c])])

    class Pages(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            return next(pages)

    server.pods = Pages({"hotmap-a": None})
    document = await ask(await server.start(tmp_path))
    assert document["workloads"] == [a, b, c]
    assert "continue" not in document


async def test_page_of_a_standby_is_not_taken_for_the_last_one(
    server: Server, tmp_path: Path
) -> None:
    """The leader may change between two pages; what it did not show may be anything."""
    cluster = await server.start(tmp_path)
    server.pods = {"one": answer(**{"continue": "more"})}

    async with connect(cluster, ControllerAddress()) as client:
        with pytest.raises(StatusUnavailable, match="standby"):
            server.later = {"one": answer(ready=False, role="standby")}
            await client.status({})


async def test_discovery_without_cluster_wide_permission_tries_the_default_namespace(
    server: Server, tmp_path: Path
) -> None:
    """The default namespace is tried."""
    server.pods, server.allowed = {"hotmap-a": answer()}, {"hotmap"}
    assert (await ask(await server.start(tmp_path)))["ready"]


async def test_discovery_of_standbys_only_suggests_to_try_again(
    server: Server, tmp_path: Path
) -> None:
    """There is no leader at this moment; the user is told to try again."""
    standby = answer(ready=False, role="standby")
    server.pods = {"hotmap-a": standby, "hotmap-b": standby}
    message = await refused(await server.start(tmp_path))
    assert message.startswith("all 2 controllers that answered are standbys; ")
    assert message.endswith("try again")


@pytest.mark.parametrize("status", [403, 404, 502, 503])
async def test_unreachable_pod_suggests_port_forward(
    server: Server, tmp_path: Path, status: int
) -> None:
    """No permission for the proxy, or a network policy: the message has the workaround."""
    server.pods = {"hotmap-a": status}
    message = await refused(await server.start(tmp_path))
    assert "cannot reach Pod hotmap/hotmap-a through the API server: no route" in message
    assert "'kubectl --namespace=hotmap port-forward pod/hotmap-a 9533'" in message
    assert message.endswith("--url http://127.0.0.1:9533")


async def test_deleted_pod_suggests_no_port_forward(server: Server, tmp_path: Path) -> None:
    """While the controller is updated, a Pod may be listed and gone when it is asked."""
    server.pods = {"hotmap-a": GONE}
    message = await refused(await server.start(tmp_path))
    assert message.endswith('through the API server: pods "hotmap-a" not found')


@pytest.mark.parametrize(
    ("phase", "state", "word"),
    [
        ("Pending", {"waiting": {"reason": "ImagePullBackOff"}}, "ImagePullBackOff"),
        ("Running", {"waiting": {"reason": "CrashLoopBackOff"}}, "CrashLoopBackOff"),
        ("Pending", None, "Pending"),
    ],
)
async def test_pod_that_does_not_run_is_named(
    server: Server, tmp_path: Path, phase: str, state: dict[str, Any] | None, word: str
) -> None:
    """As after an installation whose image cannot be pulled; not that there is no Pod."""
    server.pods = {"hotmap-a": 503}
    statuses = [{"name": "hotmap", "state": state}] if state else None
    server.pod_status = {"phase": phase, "containerStatuses": statuses}
    message = await refused(await server.start(tmp_path))
    assert message == (
        f"the controller's Pod hotmap/hotmap-a does not run ({word}); see "
        "'kubectl --namespace=hotmap describe pod hotmap-a'"
    )


async def test_forbidden_discovery_names_the_flags(server: Server, tmp_path: Path) -> None:
    """The flags that make it unnecessary are named."""
    server.pods, server.allowed = {"hotmap-a": answer()}, set()
    message = await refused(await server.start(tmp_path))
    assert "pods is forbidden" in message
    assert "--controller-namespace" in message
    assert "--url" in message


async def test_service_is_asked_with_the_token(server: Server, tmp_path: Path) -> None:
    """By who may not list pods, or not proxy to them; a standby behind it is passed over."""
    standby = answer(ready=False, role="standby")
    server.user, server.allowed = {"token": "t"}, set()
    server.services = {"hotmap": [standby, standby, answer(sources=7)]}
    assert (await ask(await server.start(tmp_path)))["sources"] == 7
    assert set(server.tokens) == {("hotmap/hotmap:status", "Bearer t")}


async def test_service_is_shown_a_renewed_token(server: Server, tmp_path: Path) -> None:
    """Tokens of cloud providers expire after minutes, and `--watch` goes on for hours."""
    plugin = tmp_path / "plugin"
    expired = '{"token": "t\'$(wc -l < $0.log)\'", "expirationTimestamp": "2020-01-01T00:00:00Z"}'
    version = "client.authentication.k8s.io/v1"
    credential = f'{{"apiVersion": "{version}", "kind": "ExecCredential", "status": {expired}}}'
    plugin.write_text(f"#!/bin/sh\necho >> $0.log\necho '{credential}'\n")
    plugin.chmod(0o755)
    execute = {"apiVersion": version, "command": str(plugin), "interactiveMode": "Never"}
    server.user, server.allowed = {"exec": execute}, set()
    server.services = {"hotmap": [answer()]}
    async with connect(await server.start(tmp_path), ControllerAddress()) as client:
        await client.status({})
        first = server.tokens[-1]
        await client.status({})
    assert server.tokens[-1][0] == first[0] == "hotmap/hotmap:status"
    assert server.tokens[-1][1] != first[1]


async def test_service_is_asked_where_pods_may_be_listed_only(
    server: Server, tmp_path: Path
) -> None:
    """The API server refuses its proxy to pods."""
    server.user, server.pods = {"token": "t"}, {"hotmap-a": 403}
    server.services = {"hotmap": [answer(sources=7)]}
    assert (await ask(await server.start(tmp_path)))["sources"] == 7


async def test_token_is_shown_to_no_other_namespace(server: Server, tmp_path: Path) -> None:
    """A tenant may have made a Service in the caller's namespace to collect tokens."""
    server.user, server.allowed = {"token": "t"}, set()
    server.services = {"shop": [answer()]}
    message = await refused(await server.start(tmp_path))
    assert "namespace hotmap has no Service hotmap" in message
    assert "--controller-namespace" in message
    assert [where for where, _ in server.tokens] == ["hotmap/hotmap:status"]


async def test_refusal_of_the_service_is_one_sentence(server: Server, tmp_path: Path) -> None:
    """It names the right and where it is missing."""
    text = "jane may not get workloads.hotmap.dev in namespace shop"
    server.user, server.allowed = {"token": "t"}, set()
    server.services = {"hotmap": [text]}
    assert await refused(await server.start(tmp_path)) == text


async def test_service_that_may_not_be_asked_is_a_guess(server: Server, tmp_path: Path) -> None:
    """In namespaced mode there is none: what stands in the way is the Pod that was found."""
    server.user, server.home, server.allowed = {"token": "t"}, "shop", {"shop"}
    server.pods, server.refusing = {"hotmap-a": 403}, "services"
    server.services = {"hotmap": ["services is forbidden"]}
    cluster = await server.start(tmp_path)
    assert "cannot reach Pod shop/hotmap-a through the API server" in await refused(cluster)
    assert await refused(cluster, controller_namespace="hotmap") == "services is forbidden"


@pytest.mark.parametrize("user", [{}, {"token": "t", "as": "jane"}])
async def test_user_without_a_token_is_told_what_is_missing(
    server: Server, tmp_path: Path, user: dict[str, Any]
) -> None:
    """A client certificate cannot be shown to a controller; nor is another user's token."""
    server.user, server.allowed = user, set()
    server.services = {"hotmap": [answer()]}
    assert "pods is forbidden" in await refused(await server.start(tmp_path))
    assert server.tokens == []


@pytest.mark.parametrize("home", ["hotmap", "shop"])
async def test_pod_of_another_namespace_is_not_believed(
    server: Server, tmp_path: Path, home: str
) -> None:
    """Who may make a Pod can give it a controller's labels, and let it say anything."""
    server.pods = {"fake": answer(sources=1), "hotmap-a": answer(sources=7)}
    server.home, server.others = home, {"fake": "tenant"}
    assert (await ask(await server.start(tmp_path)))["sources"] == 7


async def test_pods_of_several_unknown_namespaces_are_not_asked(
    server: Server, tmp_path: Path
) -> None:
    server.pods = {"a": answer(), "b": answer()}
    server.others = {"a": "one", "b": "two"}
    assert await refused(await server.start(tmp_path)) == (
        "Pods with the labels of a controller are in several namespaces (one, two); set"
        " --controller-namespace to the one of yours"
    )
    assert server.asked == []


async def test_controller_of_the_current_namespace_is_found(server: Server, tmp_path: Path) -> None:
    """One that serves a namespace alone, by a user who may do nothing elsewhere."""
    server.pods, server.allowed = {"hotmap-a": answer()}, {"shop"}
    server.home = "shop"
    assert (await ask(await server.start(tmp_path)))["ready"]


async def test_local_controller_is_found_at_either_port(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first may be another program, or a controller of another API server."""
    cluster = await server.start(tmp_path)

    def serve(document: object) -> TestServer:
        async def status(request: web.Request) -> web.Response:
            return web.json_response(document)

        app = web.Application()
        app.router.add_get("/v1/status", status)
        return TestServer(app)

    here = answer(server=cluster.load().server)
    others = (answer(server="https://other"), {"kind": "Other"})
    async with serve(here) as running, serve(others[0]) as first, serve(others[1]) as second:
        found, foreign, program = (
            str(each.make_url("")).rstrip("/") for each in (running, first, second)
        )
        for before in ("http://127.0.0.1:1", foreign, program):
            monkeypatch.setattr("hotmap.cli.controller_discovery._LOCAL_URLS", (before, found))
            assert (await ask(cluster))["ready"]
        monkeypatch.setattr("hotmap.cli.controller_discovery._LOCAL_URLS", (foreign, program))
        message = await refused(cluster)
        assert f"{foreign} serves https://other and {program} is not a hotmap controller" in message


async def test_missing_controller_names_its_labels(server: Server, tmp_path: Path) -> None:
    """The message says what was searched."""
    message = await refused(await server.start(tmp_path))
    assert "no Pod there has the labels app.kubernetes.io/name=hotmap," in message


async def test_namespace_without_controller_is_an_error(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller on this machine is not in the namespace that was named."""
    cluster = await server.start(tmp_path)

    async def status(request: web.Request) -> web.Response:
        return web.json_response(answer(server=cluster.load().server))

    app = web.Application()
    app.router.add_get("/v1/status", status)
    async with TestServer(app) as running:
        url = str(running.make_url("")).rstrip("/")
        monkeypatch.setattr("hotmap.cli.controller_discovery._LOCAL_URLS", (url,))
        assert (await ask(cluster))["ready"]
        message = await refused(cluster, controller_namespace="ops")
    assert "no Pod in namespace ops has the labels app.kubernetes.io/name=hotmap," in message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("hello", "not a JSON object"),
        ('["a"]', "not a JSON object"),
        ('{"kind": "Other"}', "not a hotmap controller"),
        ('{"kind": "ControllerStatus", "ready": false}', "a standby or still starting"),
        ('{"kind": "ControllerStatus", "ready": true}', "has another version: Object missing"),
        (json.dumps(answer(workloads=5)), "has another version: Expected `array`, got `int`"),
        (json.dumps(answer(workloads=[{}])), "has another version: Object missing"),
    ],
)
async def test_invalid_answer_is_an_error(body: str, words: str) -> None:
    """Another server, or a controller that is not the leader."""

    async def message(request: web.Request) -> web.Response:
        return web.Response(text=body)

    app = web.Application()
    app.router.add_get("/v1/status", message)
    server = TestServer(app)
    await server.start_server()
    try:
        assert words in await refused(ClusterOptions(), url=str(server.make_url("/")))
    finally:
        await server.close()
