"""Who gets an answer from the dashboard's server, and what is in it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from tests.dashboard.documents import source, workload
from tests.dashboard.served import Served, serving
from yarl import URL

from hotmap.dashboard.polls import Polls
from hotmap.dashboard.server import DashboardServer, Scope, read_view

MARKUP = '<img src=x onerror="alert(1)"></script>'


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def get_map(http: aiohttp.ClientSession, served: Served, query: str = "") -> Any:
    async with http.get(f"{served.url}map?{query}") as response:
        assert response.status == 200
        return await response.json()


async def test_page_has_all_that_it_names(served: Served, http: aiohttp.ClientSession) -> None:
    """The files are in the package; nothing comes from elsewhere, and nothing is inline."""
    async with http.get(served.url) as response:
        assert response.headers["Content-Type"] == "text/html; charset=utf-8"
        page = await response.text()
    named = set(re.findall(r'(?:src|href)="([^"]+)"', page))
    assert named == {"icon.svg", "page.css", "page.js"}
    for name in named:
        async with http.get(served.url + name) as response:
            assert response.status == 200
            text = await response.text()
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", text)
    assert not re.search(r"<style|style=|<script>|\son\w+=", page)


async def test_answers_forbid_what_the_page_does_not_need(
    served: Served, http: aiohttp.ClientSession
) -> None:
    """No other origin, no frame, no cache, no cookie, no permission for pages of others."""
    for name in ("", "map", "page.js"):
        async with http.get(served.url + name) as response:
            headers = response.headers
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; ")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        assert not {"Set-Cookie", "Access-Control-Allow-Origin"} & set(headers)


@pytest.mark.parametrize(
    "host",
    ["attacker.example", "attacker.example:80", "localhost.attacker.example", "127.0.0.1.nip.io",
     "", "127.0.0.1@attacker.example", "[::1].attacker.example"],
)  # fmt: skip
async def test_names_of_other_sites_are_refused(
    served: Served, http: aiohttp.ClientSession, host: str
) -> None:
    """A site whose name resolves to this machine sends its own name as Host."""
    for path in ("", "map", "page.js"):
        async with http.get(served.url + path, headers={"Host": host}) as response:
            assert response.status == 403
    assert served.queries == []


@pytest.mark.parametrize("host", ["localhost:1234", "LOCALHOST", "[::1]:80", "10.1.2.3:8001"])
async def test_addresses_are_accepted_with_any_port(
    served: Served, http: aiohttp.ClientSession, host: str
) -> None:
    """A forwarded port differs from the one that is listened on."""
    async with http.get(served.url, headers={"Host": host}) as response:
        assert response.status == 200


async def test_nothing_is_shown_without_the_token(
    served: Served, http: aiohttp.ClientSession
) -> None:
    """Other users of the machine can connect, too."""
    root = f"http://127.0.0.1:{served.port}"
    for path in ("/", "/map", "/page.js", "/x/map", f"/{served.server.token[:-1]}/map",
                 f"/{served.server.token}x/", f"/{served.server.token}/../map",
                 f"//{served.server.token}/map"):  # fmt: skip
        async with http.get(root + path) as response:
            assert response.status == 404, path
    assert served.queries == []
    assert len(served.server.token) >= 20
    assert DashboardServer(Polls(served.fetch), Scope("")).token != served.server.token


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_only_reading_is_allowed(
    served: Served, http: aiohttp.ClientSession, method: str
) -> None:
    async with http.request(method, f"{served.url}map") as response:
        assert response.status == 405
    assert served.queries == []


@pytest.mark.parametrize(
    "path", ["page.html", "../server.py", "%2e%2e/server.py", "static/page.js"]
)
async def test_only_listed_files_are_served(
    served: Served, http: aiohttp.ClientSession, path: str
) -> None:
    async with http.get(URL(served.url + path, encoded=True)) as response:
        assert response.status == 404


async def test_map_is_that_of_the_scope(served: Served, http: aiohttp.ClientSession) -> None:
    answer = await get_map(http, served)
    assert served.queries == [{"sources": "true", "limit": "5000", "namespace": "shop"}]
    assert (answer["scope"], answer["server"]) == ("namespace shop", "https://api.example")
    assert [item["id"] for item in answer["map"]["workloads"]] == ["Deployment/shop/web"]
    assert (answer["problem"], answer["panel"]) == ("", None)
    assert Scope("").query == {"sources": "true", "limit": "5000"}


async def test_cluster_is_named_as_in_the_kubeconfig(http: aiohttp.ClientSession) -> None:
    """A controller in a Pod knows its API server by an address that many clusters share."""
    async with serving(server="https://prod.example:6443") as served:
        answer = await get_map(http, served)
        assert answer["server"] == "https://prod.example:6443"
        served.problem = "no controller answers"
        await asyncio.sleep(3.0)
        assert (await get_map(http, served))["server"] == "https://prod.example:6443"


async def test_selection_is_described(served: Served, http: aiohttp.ClientSession) -> None:
    """A workload by a request that compares it with the API server; a source without one."""
    answer = await get_map(http, served, "select=Deployment/shop/web")
    assert answer["panel"]["title"] == "deployment/web"
    assert answer["panel"]["commands"][0] == "hotmap status deployment/web -n shop --context c"
    assert served.queries[1:] == [{"workload": "Deployment/shop/web", "consistent": "true"}]
    answer = await get_map(http, served, "select=ConfigMap/shop/app")
    assert answer["panel"]["title"] == "configmap/app"
    assert len(served.queries) == 2
    answer = await get_map(http, served, "select=Deployment/shop/nosuch")
    assert "hotmap follows no such workload" in answer["panel"]["reason"]


async def test_error_hides_states_and_ends_by_itself(
    served: Served, http: aiohttp.ClientSession
) -> None:
    """One sentence; nothing of the panel."""
    await get_map(http, served)
    served.problem = "no controller answers"
    await asyncio.sleep(3.0)
    answer = await get_map(http, served, "select=Deployment/shop/web")
    assert answer["problem"] == "no controller answers"
    assert [item["state"] for item in answer["map"]["workloads"]] == ["unknown"]
    assert answer["panel"] is None


async def test_names_are_data(served: Served, http: aiohttp.ClientSession) -> None:
    """An answer is JSON that no browser takes for a page."""
    served.workloads = [workload("web", "held", source(MARKUP), reason=MARKUP)]
    async with http.get(f"{served.url}map") as response:
        assert response.headers["Content-Type"] == "application/json"
        answer = await response.json()
    assert answer["map"]["workloads"][0]["reason"] == MARKUP
    answer = await get_map(http, served, f"select={quote(MARKUP)}")
    assert answer["panel"]["title"] == MARKUP


def test_parameters_that_cannot_be_read_are_left_out() -> None:
    """A URL can be edited by hand, and has bounds."""
    view = read_view({"rows": "x", "state": "held,,nosuch", "filter": "a" * 5000})
    assert (view.rows, view.states, len(view.filter)) == (40, frozenset({"held", "nosuch"}), 200)
    assert read_view({"rows": "99999"}).rows == 1000
    assert read_view({"rows": "0"}).rows == 40
