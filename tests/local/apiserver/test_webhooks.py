"""Admission webhooks: asked before a write, over HTTPS, with Kubernetes' answers."""

from __future__ import annotations

import base64
import re
import socket
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from aiohttp import web
from tests.local.apiserver.api import deployment

from hotmap.core.errors import ApiError, Invalid
from hotmap.local.access import user_named
from hotmap.local.apiserver.bootstrap import create_system_namespaces
from hotmap.local.apiserver.handlers import answer as answer_request
from hotmap.local.apiserver.options import WriteOptions
from hotmap.local.apiserver.registry import Registry
from hotmap.local.apiserver.requests import Request
from hotmap.local.apiserver.routes import ResourcePath
from hotmap.local.apiserver.webhooks import Webhooks
from hotmap.local.pki import create_pki
from hotmap.local.store import MVCCStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

Response = dict[str, Any]


class WebhookServer:
    """Answers reviews by a function, and keeps them."""

    def __init__(self, authority: bytes) -> None:
        self.url = ""
        self.authority = base64.b64encode(authority).decode()
        self.requests: list[dict[str, Any]] = []
        self.respond: Callable[[dict[str, Any]], Response] = lambda _: {"allowed": True}
        #: Done once, while the question is open.
        self.meanwhile: Callable[[], Awaitable[object]] | None = None

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        review = msgspec.json.decode(await request.read())
        self.requests.append(review["request"])
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        response = {"uid": review["request"]["uid"], **self.respond(review["request"])}
        return web.Response(body=msgspec.json.encode({**review, "response": response}))

    def configuration(self, kind: str, **changes: Any) -> dict[str, Any]:
        rule = {
            "operations": ["*"], "apiGroups": [""], "apiVersions": ["*"],
            "resources": ["configmaps"],
        }  # fmt: skip
        webhook = {
            "name": "check.example.com",
            "clientConfig": {"url": self.url, "caBundle": self.authority},
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **changes,
        }
        return {"kind": kind, "metadata": {"name": "check"}, "webhooks": [webhook]}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[WebhookServer]:
    pki = create_pki(tmp_path)
    server = WebhookServer(pki.ca_certificate.read_bytes())
    runner = web.ServerRunner(web.Server(server.handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=pki.server_context()).start()
    server.url = f"https://localhost:{runner.addresses[0][1]}/"
    yield server
    await runner.cleanup()


@pytest.fixture
async def registry() -> Registry:
    registry = Registry(MVCCStore())
    registry.admitted.webhooks = Webhooks(registry.store, registry.reader)
    await create_system_namespaces(registry)
    return registry


async def validate_with(registry: Registry, server: WebhookServer, **changes: Any) -> None:
    obj = server.configuration("ValidatingWebhookConfiguration", **changes)
    await registry.create("validatingwebhookconfigurations", None, obj, manager="t")


async def mutate_with(registry: Registry, server: WebhookServer, **changes: Any) -> None:
    obj = server.configuration("MutatingWebhookConfiguration", **changes)
    await registry.create("mutatingwebhookconfigurations", None, obj, manager="t")


async def create(registry: Registry, name: str = "a", **options: Any) -> dict[str, Any]:
    obj = {"metadata": {"name": name, "labels": {"n": name}}, "data": {"k": "v"}}
    return await registry.create("configmaps", "default", obj, manager="t", **options)


def patching(*steps: dict[str, Any]) -> Callable[[dict[str, Any]], Response]:
    patch = base64.b64encode(msgspec.json.encode(list(steps))).decode()
    return lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": patch}


async def test_validating_webhook_sees_what_would_be_written(
    registry: Registry, server: WebhookServer
) -> None:
    await validate_with(registry, server)
    made = await create(registry, user=user_named("jane"))
    request = server.requests[0]
    assert (request["operation"], request["name"], request["namespace"]) == (
        "CREATE",
        "a",
        "default",
    )
    assert request["userInfo"]["username"] == "jane"
    assert request["object"]["data"] == {"k": "v"}
    assert request["oldObject"] is None
    patch = {"data": {"k": "w"}}
    await registry.patch("configmaps", "default", "a", patch, kind="merge", manager="t")
    assert server.requests[1]["operation"] == "UPDATE"
    assert server.requests[1]["oldObject"]["metadata"]["uid"] == made["metadata"]["uid"]
    await registry.delete("configmaps", "default", "a")
    assert [request["operation"] for request in server.requests] == ["CREATE", "UPDATE", "DELETE"]
    assert server.requests[2]["object"] is None


async def test_webhook_changes_an_object_that_is_written_unchanged(
    registry: Registry, server: WebhookServer
) -> None:
    """So an object from before the webhook gets its change; a controller sends no such write."""
    await create(registry)
    await mutate_with(registry, server)
    server.respond = patching({"op": "add", "path": "/data/added", "value": "x"})
    await registry.modify("configmaps", "default", "a", lambda obj: obj, manager="t")
    assert not server.requests
    patch = {"data": {"k": "v"}}
    changed = await registry.patch("configmaps", "default", "a", patch, kind="merge", manager="t")
    assert changed["data"] == {"k": "v", "added": "x"}


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (None, 403, 'admission webhook "check.example.com" denied the request without explanation'),
        ({"message": "no"}, 403, 'admission webhook "check.example.com" denied the request: no'),
        (
            {"message": "no", "code": 422, "reason": "Invalid"},
            422,
            'admission webhook "check.example.com" denied the request: no',
        ),
    ],
)
async def test_denied_write_does_not_happen(
    registry: Registry, server: WebhookServer, status: Any, code: int, message: str
) -> None:
    await validate_with(registry, server)
    server.respond = lambda _: {"allowed": False, **({"status": status} if status else {})}
    with pytest.raises(ApiError) as denied:
        await create(registry)
    assert (denied.value.code, str(denied.value)) == (code, message)
    assert not (await registry.list("configmaps", "default")).items


async def test_mutating_webhook_changes_object(registry: Registry, server: WebhookServer) -> None:
    await mutate_with(registry, server)
    server.respond = patching({"op": "add", "path": "/data/added", "value": "x"})
    made = await create(registry)
    assert made["data"] == {"k": "v", "added": "x"}
    assert (await registry.get("configmaps", "default", "a")) == made
    server.respond = patching({"op": "replace", "path": "/data/added", "value": "y"})
    patch = {"data": {"k": "w"}}
    changed = await registry.patch("configmaps", "default", "a", patch, kind="merge", manager="t")
    assert changed["data"] == {"k": "w", "added": "y"}


async def test_webhook_changes_a_scale(registry: Registry, server: WebhookServer) -> None:
    """What is written through the scale subresource is a Scale to webhooks, too."""
    rules = [
        {
            "apiGroups": ["apps"],
            "apiVersions": ["v1"],
            "operations": ["UPDATE"],
            "resources": ["deployments/scale"],
        }
    ]
    await mutate_with(registry, server, rules=rules)
    server.respond = patching({"op": "replace", "path": "/spec/replicas", "value": 3})
    await registry.create("deployments", "default", deployment("web"), manager="t")
    kind = registry.scheme.resource("deployments")
    path = ResourcePath(kind, "default", "web", "scale")
    request = Request(
        {"fieldManager": "scaler"},
        content_type="application/merge-patch+json",
        body=b'{"spec": {"replicas": 7}}',
    )
    answered = await answer_request(registry, "patch", path, request)
    assert msgspec.json.decode(answered.body)["spec"] == {"replicas": 3}
    (asked,) = server.requests
    assert (asked["resource"]["resource"], asked["subResource"]) == ("deployments", "scale")
    assert asked["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert asked["object"]["spec"] == {"replicas": 7}
    written = await registry.get("deployments", "default", "web")
    assert [entry["manager"] for entry in written["metadata"]["managedFields"]] == ["scaler", "t"]


async def test_mutated_object_must_still_be_valid(
    registry: Registry, server: WebhookServer
) -> None:
    await mutate_with(registry, server)
    server.respond = patching({"op": "add", "path": "/data/..", "value": "x"})
    with pytest.raises(ApiError, match=r"must not be '\.\.'") as refused:
        await create(registry)
    assert refused.value.code == 422


async def test_generated_name_is_the_one_that_webhooks_saw(
    registry: Registry, server: WebhookServer
) -> None:
    await validate_with(registry, server)
    obj = {"metadata": {"generateName": "a-"}}
    made = await registry.create("configmaps", "default", obj, manager="t")
    assert server.requests[0]["name"] == made["metadata"]["name"]


async def test_unreachable_webhook_follows_its_policy(
    registry: Registry, server: WebhookServer
) -> None:
    gone = {"url": "https://127.0.0.1:1/", "caBundle": server.authority}
    await validate_with(registry, server, clientConfig=gone)
    with pytest.raises(ApiError, match=r"failed calling webhook .check\.example\.com") as failed:
        await create(registry)
    assert failed.value.code == 500
    ignoring = [{"op": "add", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]
    await registry.patch(
        "validatingwebhookconfigurations", None, "check", ignoring, kind="json", manager="t"
    )
    await create(registry)


async def test_slow_webhook_is_identified_by_its_address(
    registry: Registry, server: WebhookServer
) -> None:
    """With the time that it was given, as upstream asks it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/slow"
        client = {"url": url, "caBundle": server.authority}
        await validate_with(registry, server, clientConfig=client, timeoutSeconds=1)
        expected = re.escape(f'Post "{url}?timeout=1s": context deadline exceeded')
        with pytest.raises(ApiError, match=expected):
            await create(registry)


async def test_condition_that_does_not_compile_is_invalid(
    registry: Registry, server: WebhookServer
) -> None:
    pytest.importorskip("cel")
    condition = {"name": "bad", "expression": "... [] bad expression"}
    expected = r"webhooks\[0\]\.matchConditions\[0\]\.expression.*compilation failed"
    with pytest.raises(Invalid, match=expected):
        await validate_with(registry, server, matchConditions=[condition])


async def test_selectors_choose_objects_and_namespaces(
    registry: Registry, server: WebhookServer
) -> None:
    labels = {"matchLabels": {"n": "b"}}
    await validate_with(registry, server, objectSelector=labels)
    await create(registry, "a")
    await create(registry, "b")
    assert [request["name"] for request in server.requests] == ["b"]
    elsewhere = {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}
    obj = server.configuration("ValidatingWebhookConfiguration", namespaceSelector=elsewhere)
    await registry.update("validatingwebhookconfigurations", None, "check", obj, manager="t")
    await create(registry, "c")
    assert len(server.requests) == 1


async def test_change_during_question_is_not_overwritten(
    registry: Registry, server: WebhookServer
) -> None:
    await create(registry)
    await validate_with(registry, server)
    path = ResourcePath(registry.scheme.resource("configmaps"), "default", "a")
    change = {"data": {"other": "x"}}
    server.meanwhile = lambda: registry.writer.patch(path, "merge", change, WriteOptions("o"))
    patch = {"data": {"k": "w"}}
    made = await registry.patch("configmaps", "default", "a", patch, kind="merge", manager="t")
    assert made["data"] == {"k": "w", "other": "x"}
    assert len(server.requests) == 2


async def test_malformed_answers_are_failures(registry: Registry, server: WebhookServer) -> None:
    await mutate_with(registry, server)
    for answer in (
        {"uid": "other", "allowed": True},
        {"allowed": True, "patch": "x"},
        {"allowed": True, "patch": base64.b64encode(b"{}").decode()},
        {"allowed": True, "patch": base64.b64encode(b'[{"op":"x"}]').decode()},
    ):
        server.respond = lambda _, answer=answer: answer  # type: ignore[misc]
        with pytest.raises(ApiError) as failed:
            await create(registry)
        assert failed.value.code == 500


_CONNECT = {
    "operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"],
    "resources": ["pods/exec", "pods/attach"],
}  # fmt: skip


async def connect(registry: Registry, subresource: str, **options: Any) -> dict[str, Any]:
    path = ResourcePath(registry.scheme.resource("pods"), "default", "p", subresource)
    sent = {"kind": f"Pod{subresource.title()}Options", "apiVersion": "v1", **options}
    return await registry.admitted.admit_connection(path, sent, user_named("jane"))


async def test_webhook_sees_connection_to_pod(registry: Registry, server: WebhookServer) -> None:
    """The object has the options, and the pod need not exist."""
    await validate_with(registry, server, rules=[_CONNECT])
    options = await connect(registry, "exec", command=["ls"], stdout=True)
    (request,) = server.requests
    assert request["object"] == options
    shown = [request[field] for field in ("operation", "namespace", "name", "subResource")]
    assert shown == ["CONNECT", "default", "p", "exec"]
    assert request["kind"] == {"group": "", "version": "v1", "kind": "PodExecOptions"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert request["oldObject"] is request["options"] is None
    assert request["userInfo"]["username"] == "jane"
    # No rule is about these.
    await connect(registry, "portforward", ports=[80])
    assert len(server.requests) == 1


async def test_webhook_denies_connection_to_pod(registry: Registry, server: WebhookServer) -> None:
    await validate_with(registry, server, rules=[_CONNECT])
    server.respond = lambda _: {"allowed": False, "status": {"message": "not this pod"}}
    with pytest.raises(ApiError, match=r'"check.example.com" denied the request: not this pod'):
        await connect(registry, "attach", container="main")


async def test_mutating_webhook_changes_options_of_connection(
    registry: Registry, server: WebhookServer
) -> None:
    await mutate_with(registry, server, rules=[_CONNECT])
    server.respond = patching({"op": "replace", "path": "/command", "value": ["id"]})
    assert (await connect(registry, "exec", command=["ls"]))["command"] == ["id"]


async def test_object_selector_selects_no_connection(
    registry: Registry, server: WebhookServer
) -> None:
    """Options have no labels, not even none."""
    selector = {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}
    await validate_with(registry, server, rules=[_CONNECT], objectSelector=selector)
    await connect(registry, "attach")
    assert server.requests == []
