"""The page in a real browser: what it shows, and what it must not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.dashboard.browser import Page, running_page
from tests.dashboard.documents import source, workload
from tests.dashboard.served import Served, serving

from hotmap.core.status.status_document import DecisionSummary, PodSummary, StageSummary

pytestmark = [pytest.mark.slow, pytest.mark.real_time]

MARKUP = '<img src=x onerror="document.title=1"><b>bold</b>'

#: Words and classes by which a state is shown as good.
GOOD = """[...document.querySelectorAll("#columns .good, #states .good")].length
    + (document.body.innerText.match(/current/g) ?? []).length"""


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Page]:
    async with running_page(tmp_path) as page:
        await page.resize(1280, 800)
        yield page
        assert page.problems == []


async def open_page(page: Page, served: Served, query: str = "") -> None:
    await page.open(served.url + query)
    await page.wait("document.querySelector('#workloads .card, #empty:not([hidden]) h2')")


async def test_texts_of_the_cluster_are_not_markup(page: Page, served: Served) -> None:
    """In each place where one is shown: rows, sources, panel, pods, decisions, error."""
    loaded = StageSummary(confidence="unknown", reason=MARKUP)
    decision = DecisionSummary(at=1.0, verdict="", reason=MARKUP, actions=[MARKUP], outcome=MARKUP)
    served.workloads = [
        workload(
            MARKUP.replace("/", ""),
            "held",
            source(MARKUP),
            reason=MARKUP,
            pods=[PodSummary(name=MARKUP, ready=False, loaded=loaded, state=MARKUP)],
            decisions=[decision],
        )
    ]
    name = f"Deployment/shop/{served.workloads[0].name}"
    await open_page(page, served, "?select=" + name.replace(" ", "%20").replace("<", "%3C"))
    await page.wait("document.querySelector('#panel time')")
    text = await page.run("document.body.innerText")
    assert text.count("onerror") >= 8
    served.problem = MARKUP
    await page.wait("!document.getElementById('problem').hidden")
    count = "document.querySelectorAll('img[src=x], b b').length"
    assert await page.run(count) == 0
    assert await page.run("document.title") == "? hotmap"


async def test_selection_shows_path_and_reason(page: Page, served: Served) -> None:
    """By a click or by the URL, which then has it; Escape ends it."""
    served.workloads = [
        workload("web", "waiting", "app", behind=1, reason="rollout in progress"),
        workload("api", "current", "app", source("login", "Secret")),
        workload("cron", "current", "other"),
    ]
    await open_page(page, served)
    shown = await page.run("document.getElementById('workloads').innerText")
    assert shown.index("deployment/web") < shown.index("deployment/api")
    assert await page.run("document.querySelectorAll('#lines path').length") == 4
    await page.run("document.getElementById('Deployment/shop/web').click()")
    await page.wait("document.querySelector('#panel .verdict')")
    assert await page.run("location.search") == "?select=Deployment/shop/web"
    panel = await page.run("document.getElementById('panel').innerText")
    assert "rollout in progress" in panel
    assert "hotmap status deployment/web -n shop --context c" in panel
    assert await page.run("document.querySelectorAll('#lines path.on').length") == 1
    dim = "[...document.querySelectorAll('.dim .card')].map((card) => card.id).sort().join()"
    assert await page.run(dim) == (
        "ConfigMap/shop/other,Deployment/shop/api,Deployment/shop/cron,Secret/shop/login"
    )
    await page.run("document.getElementById('ConfigMap/shop/app').click()")
    await page.wait("document.querySelectorAll('#lines path.on').length === 2")
    await page.open(served.url + "?select=ConfigMap/shop/app")
    await page.wait("document.querySelectorAll('#panel .link').length === 2")
    key = "{key: 'Escape', bubbles: true}"
    await page.run(f"document.dispatchEvent(new KeyboardEvent('keydown', {key}))")
    await page.wait("document.getElementById('panel').hidden && location.search === ''")


async def test_filter_and_states_are_in_the_url(page: Page, served: Served) -> None:
    """So that a view can be passed on."""
    served.workloads = [workload("web", "held", "app"), workload("api", "current", "app")]
    await open_page(page, served)
    await page.run("document.getElementById('state-held').click()")
    await page.wait("document.querySelectorAll('#workloads .card').length === 1")
    assert await page.run("location.search") == "?state=held"
    assert await page.run("document.querySelector('#states .good').textContent") == "1 current"
    await page.run(
        "document.getElementById('filter').value = 'api';"
        "document.getElementById('filter').dispatchEvent(new Event('input'))"
    )
    await page.wait("document.getElementById('empty').innerText.includes('No workload matches')")
    assert await page.run("location.search") == "?state=held&filter=api"


async def test_nothing_is_called_current_without_a_connection(page: Page, served: Served) -> None:
    """The controller is gone, and back; then the dashboard itself is gone."""
    served.workloads = [workload("web", "current", "app"), workload("api", "held", "app")]
    await open_page(page, served, "?select=Deployment/shop/web")
    await page.wait("document.querySelector('#panel .verdict')")
    assert await page.run(GOOD) > 3
    served.problem = "no controller answers at http://example"
    await page.wait("!document.getElementById('problem').hidden")
    assert await page.run(GOOD) == 0
    assert served.problem in await page.run("document.getElementById('problem').innerText")
    assert "last answer" in await page.run("document.getElementById('live').innerText")
    served.problem = ""
    await page.wait("document.getElementById('problem').hidden")
    await page.wait("document.querySelector('#panel .verdict')")
    assert await page.run(GOOD) > 3
    await served.server.close()
    await page.wait("!document.getElementById('problem').hidden")
    assert await page.run(GOOD) == 0
    assert "hotmap dashboard" in await page.run("document.getElementById('problem').innerText")
    assert all("net::ERR_" in problem for problem in page.problems)
    page.problems.clear()


async def test_hidden_page_requests_nothing(page: Page, served: Served) -> None:
    """And is updated at once when it is shown again."""
    await open_page(page, served)
    await page.run("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    await page.run("document.dispatchEvent(new Event('visibilitychange'))")
    before = len(served.queries)
    await page.run("new Promise((done) => setTimeout(done, 5000))", waits=True)
    assert len(served.queries) == before
    await page.run("delete document.hidden")
    await page.run("document.dispatchEvent(new Event('visibilitychange'))")
    await page.wait("document.getElementById('live').innerText === 'updated now'")
    assert len(served.queries) > before


@pytest.mark.parametrize("width", [1280, 760, 400])
async def test_thousands_of_workloads_are_readable(page: Page, served: Served, width: int) -> None:
    """Trouble first, the others as one row; nothing is wider than the window."""
    served.workloads = [
        *(workload(f"good-{number}-with-a-rather-long-name", "current", f"app-{number % 50}")
          for number in range(1973)),
        *(workload(f"busy-{number}", "waiting", f"app-{number}") for number in range(27)),
    ]  # fmt: skip
    await page.resize(width, 800)
    await open_page(page, served)
    assert await page.run("document.querySelectorAll('#workloads .card').length") == 28
    group = "document.querySelector('#workloads .group')"
    assert "1,973 workloads" in await page.run(f"{group}.innerText")
    assert await page.run("document.documentElement.scrollWidth - innerWidth") <= 0
    await page.run(f"{group}.click()")
    await page.wait("document.querySelectorAll('#workloads .card').length === 1001")
    assert await page.run("document.documentElement.scrollWidth - innerWidth") <= 0
    assert "state=current" in await page.run("location.search")


async def test_nothing_followed_says_how_to_begin(page: Page, served: Served) -> None:
    served.workloads = []
    await open_page(page, served)
    text = await page.run("document.getElementById('empty').innerText")
    assert "hotmap follows no workload here (namespace shop)" in text
    assert "kubectl annotate deployment NAME hotmap.dev/follow=auto --namespace shop" in text
    assert await page.run("document.getElementById('map').hidden")
    served.problem = "no controller answers"
    await page.wait("!document.getElementById('problem').hidden")
    assert await page.run("document.getElementById('empty').hidden")


async def test_keyboard_reaches_all(page: Page, served: Served) -> None:
    """What can be clicked is a button or a field, and keeps the focus when it is drawn again."""
    served.workloads = [workload("web", "waiting", "app"), workload("api", "current", "app")]
    await open_page(page, served)
    await page.run("document.getElementById('Deployment/shop/api').focus()")
    served.workloads = [workload("api", "held", "app"), workload("web", "waiting", "app")]
    await page.wait("document.querySelector('#workloads .bad')")
    assert await page.run("document.activeElement.id") == "Deployment/shop/api"
    tags = "[...new Set([...document.querySelectorAll('.card')].map((each) => each.tagName))]"
    assert await page.run(f"{tags}.join()") == "BUTTON"
