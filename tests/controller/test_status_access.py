"""Who may read the status of which namespaces, by the reviews of the API server."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.controller.world import World

from hotmap.controller.report.status import StatusPage, StatusRequest
from hotmap.controller.report.status_access import StatusAccess, User
from hotmap.controller.run import Controller
from hotmap.controller.watch.consistent_reads import ConsistentReader
from hotmap.core.errors import Forbidden
from hotmap.kube.client import Client
from hotmap.kube.config import ClusterConfig, Credentials


class Reviewer:
    """The two review APIs: tokens are user names, and rights are (user, namespace)."""

    def __init__(self) -> None:
        self.rights: set[tuple[str, str]] = set()
        self.asked: Counter[str] = Counter()
        self.bodies: list[dict[str, Any]] = []

    async def token(self, request: web.Request) -> web.Response:
        token = (await request.json())["spec"]["token"]
        self.asked["token"] += 1
        if token.startswith("bad"):
            return web.json_response({"status": {"authenticated": False}}, status=201)
        user = {"username": token, "groups": ["dev"], "extra": {"scopes": ["x"]}}
        return web.json_response({"status": {"authenticated": True, "user": user}}, status=201)

    async def access(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        self.asked["access"] += 1
        spec = body["spec"]
        allowed = (spec["user"], spec["resourceAttributes"]["namespace"]) in self.rights
        return web.json_response({"status": {"allowed": allowed}}, status=201)


@pytest.fixture
async def reviewer() -> AsyncIterator[tuple[Reviewer, Client]]:
    reviewer = Reviewer()
    app = web.Application()
    app.router.add_post("/apis/authentication.k8s.io/v1/tokenreviews", reviewer.token)
    app.router.add_post("/apis/authorization.k8s.io/v1/subjectaccessreviews", reviewer.access)
    server = TestServer(app)
    await server.start_server()
    url = str(server.make_url("")).rstrip("/")
    async with Client(ClusterConfig(url, "a test", Credentials())) as client:
        yield reviewer, client
    await server.close()


async def test_user_reads_the_namespaces_that_he_may(reviewer: tuple[Reviewer, Client]) -> None:
    """Asked with all that the API server knows of him; kept for ten seconds."""
    reviews, client = reviewer
    reviews.rights = {("jane", "shop")}
    now = 0.0
    access = StatusAccess(client, clock=lambda: now)
    for _ in range(3):
        jane = await access.authenticate("Bearer jane")
        assert await access.readable(jane, "shop", ()) == frozenset({"shop"})
    assert jane == User("jane", "", ("dev",), (("scopes", ("x",)),))
    assert reviews.asked == {"token": 1, "access": 1}
    assert reviews.bodies[0]["spec"] == {
        "user": "jane",
        "uid": "",
        "groups": ["dev"],
        "extra": {"scopes": ["x"]},
        "resourceAttributes": {
            "verb": "get",
            "group": "hotmap.dev",
            "resource": "workloads",
            "namespace": "shop",
        },
    }
    reviews.rights.clear()
    now = 10.1
    with pytest.raises(Forbidden) as caught:
        await access.readable(await access.authenticate("Bearer jane"), "shop", ())
    assert str(caught.value) == (
        "jane may not get workloads.hotmap.dev in namespace shop; the ClusterRole view, bound "
        "there, permits it"
    )
    assert reviews.asked == {"token": 2, "access": 2}


async def test_query_without_a_namespace_shows_what_may_be_read(
    reviewer: tuple[Reviewer, Client],
) -> None:
    """Everything for who may read all namespaces, with one review; else one by one."""
    reviews, client = reviewer
    reviews.rights = {("jane", "shop"), ("admin", "")}
    access = StatusAccess(client)
    namespaces = ["shop", "ops", "shop"]
    assert await access.readable(User("admin"), "", namespaces) is None
    assert await access.readable(User("jane"), "", namespaces) == frozenset({"shop"})
    with pytest.raises(Forbidden, match=r"joe may not get .* in any namespace"):
        await access.readable(User("joe"), "", namespaces)
    before = reviews.asked["access"]
    with pytest.raises(Forbidden):
        await access.readable(User("joe"), "", [f"ns-{n}" for n in range(1000)])
    assert reviews.asked["access"] - before == 200


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer  ", "Basic eA==", "jane"])
async def test_header_without_a_token_is_refused(
    reviewer: tuple[Reviewer, Client], header: str
) -> None:
    """No review is sent for it."""
    reviews, client = reviewer
    with pytest.raises(Forbidden, match=r"^no token: send one as 'Hotmap-Authorization: Bearer"):
        await StatusAccess(client).authenticate(header)
    assert not reviews.asked


async def test_invalid_token_is_refused_and_remembered(
    reviewer: tuple[Reviewer, Client],
) -> None:
    """Guessing costs the API server one review each, and a huge one none."""
    reviews, client = reviewer
    access = StatusAccess(client)
    for _ in range(5):
        with pytest.raises(Forbidden, match="does not accept the token") as caught:
            await access.authenticate("Bearer bad-geheim")
        assert "geheim" not in str(caught.value)
    assert reviews.asked["token"] == 1
    with pytest.raises(Forbidden):
        await access.authenticate("Bearer " + "x" * 20000)
    assert reviews.asked["token"] == 1


async def test_kept_answers_are_bounded(reviewer: tuple[Reviewer, Client]) -> None:
    """However many tokens are tried."""
    _, client = reviewer
    access = StatusAccess(client)
    for n in range(4200):
        access._users.put(str(n).encode(), None)
    assert len(access._users._values) == 4096


async def test_status_for_users_shows_their_namespaces(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over HTTP, in the overview and by name; everything else is refused in words."""

    async def authenticate(self: StatusAccess, header: str) -> User:
        if header != "Bearer t":
            raise Forbidden("the API server does not accept the token")
        return User("jane")

    async def may_read(self: StatusAccess, user: User, namespace: str) -> bool:
        return namespace == "shop"

    monkeypatch.setattr(StatusAccess, "authenticate", authenticate)
    monkeypatch.setattr(StatusAccess, "may_read", may_read)
    await world.namespace("shop")
    for namespace in ("default", "shop"):
        await world.config_map(namespace=namespace, LEVEL="info")
        await world.workload(namespace=namespace)
    async with world.controller(status_listen=("127.0.0.1", 0)) as controller:
        await world.quiet(controller)
        url = f"http://127.0.0.1:{controller.status_port}"

        async def get(query: str, token: str = "t") -> tuple[int, Any]:
            headers = {"Hotmap-Authorization": f"Bearer {token}"}
            async with (
                aiohttp.ClientSession() as http,
                http.get(f"{url}/v1/status{query}", headers=headers) as answer,
            ):
                return answer.status, json.loads(await answer.text())

        status, everything = await get("")
        assert status == 200
        assert [workload["namespace"] for workload in everything["workloads"]] == ["shop"]
        assert sum(everything["counts"].values()) == 1
        assert everything["sources"] == 1
        assert (await get("?namespace=shop"))[1]["workloads"] == everything["workloads"]
        assert (await get("?workload=shop/web"))[1]["workloads"][0]["name"] == "web"
        for query in ("?namespace=default", "?workload=Deployment/default/web"):
            status, refusal = await get(query)
            assert (status, refusal["kind"], refusal["reason"]) == (403, "Status", "Forbidden")
        assert "jane may not get workloads.hotmap.dev in " in refusal["message"]
        assert (await get("", token="other"))[0] == 403
        assert (await get("?limit=x"))[0] == 400
        async with aiohttp.ClientSession() as http, http.get(f"{url}/metrics") as answer:
            assert answer.status == 404


async def get_as(controller: Controller, user: str, query: str) -> int:
    url = f"http://127.0.0.1:{controller.status_port}/v1/status{query}"
    headers = {"Hotmap-Authorization": user}
    async with aiohttp.ClientSession() as http, http.get(url, headers=headers) as answer:
        return answer.status


@pytest.fixture
def users_by_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every user read the one namespace that has the user's name."""

    async def authenticate(self: StatusAccess, header: str) -> User:
        return User(header)

    async def may_read(self: StatusAccess, user: User, namespace: str) -> bool:
        return namespace == user.name

    monkeypatch.setattr(StatusAccess, "authenticate", authenticate)
    monkeypatch.setattr(StatusAccess, "may_read", may_read)


@pytest.mark.usefixtures("users_by_namespace")
@pytest.mark.parametrize("query", ["", "?namespace={user}"])
async def test_overviews_of_one_user_leave_slots_to_others(
    world: World, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    """Of thousands of workloads it takes seconds: one of the same namespaces is made at a time."""
    made: list[frozenset[str] | None] = []

    async def take_long(page: StatusPage, request: StatusRequest) -> dict[str, Any]:
        made.append(request.readable)
        if request.shows("many"):
            await asyncio.Event().wait()
        return {"workloads": []}

    await follow_in(world, "many", "shop")
    async with world.controller(status_listen=("127.0.0.1", 0)) as controller:
        await world.quiet(controller)
        monkeypatch.setattr(StatusPage, "_overview", take_long)
        waiting = [
            asyncio.create_task(get_as(controller, "many", query.format(user="many")))
            for _ in range(10)
        ]
        await asyncio.sleep(1)
        assert await get_as(controller, "shop", query.format(user="shop")) == 200
        assert made == [frozenset({"many"}), frozenset({"shop"})]
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


@pytest.mark.usefixtures("users_by_namespace")
async def test_consistent_reads_for_one_user_leave_slots_to_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where neither names a namespace."""

    async def take_long(reader: ConsistentReader, namespace: str) -> None:
        if namespace == "many":
            await asyncio.Event().wait()

    await follow_in(world, "many", "shop")
    async with world.controller(status_listen=("127.0.0.1", 0)) as controller:
        await world.quiet(controller)
        monkeypatch.setattr(ConsistentReader, "read_namespace", take_long)
        query = "?consistent=true"
        waiting = [asyncio.create_task(get_as(controller, "many", query)) for _ in range(10)]
        await asyncio.sleep(1)
        assert await get_as(controller, "shop", query) == 200
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def follow_in(world: World, *namespaces: str) -> None:
    for namespace in namespaces:
        await world.namespace(namespace)
        await world.config_map(namespace=namespace, LEVEL="info")
        await world.workload(namespace=namespace)
