"""When the status is fetched, and what is known while it cannot be."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from tests.dashboard.documents import document, workload

from hotmap.core.errors import Unreachable
from hotmap.core.status.status_document import StatusDocument
from hotmap.dashboard.polls import Polls

SHOP = {"namespace": "shop"}


class Controller:
    """Answers after some seconds, or with an error."""

    def __init__(self) -> None:
        self.queries: list[Mapping[str, str]] = []
        self.takes = 0.0
        self.problem = ""

    async def fetch(self, query: Mapping[str, str]) -> StatusDocument:
        self.queries.append(query)
        await asyncio.sleep(self.takes)
        if self.problem:
            raise Unreachable(self.problem)
        return document([workload(f"w-{len(self.queries)}")])


@pytest.fixture
def controller() -> Controller:
    return Controller()


@pytest.fixture
def polls(controller: Controller) -> Polls:
    return Polls(controller.fetch)


async def test_pages_share_one_request(controller: Controller, polls: Polls) -> None:
    """At the same time, and within two seconds; a query of its own is another document."""
    controller.takes = 0.5
    known = await asyncio.gather(*(polls.get(SHOP) for _ in range(5)))
    assert {each.document.workloads[0].name for each in known if each.document} == {"w-1"}
    await asyncio.sleep(1.0)
    await polls.get(SHOP)
    assert len(controller.queries) == 1
    await polls.get({"workload": "shop/web"})
    assert len(controller.queries) == 2
    await asyncio.sleep(1.5)
    await polls.get(SHOP)
    assert controller.queries[2:] == [SHOP]


async def test_nothing_is_fetched_while_no_page_asks(controller: Controller, polls: Polls) -> None:
    await polls.get(SHOP)
    await asyncio.sleep(3600)
    assert len(controller.queries) == 1


async def test_slow_answers_are_requested_less_often(controller: Controller, polls: Polls) -> None:
    """A third of the time at most goes into them."""
    controller.takes = 3.0
    for _ in range(60):
        await polls.get(SHOP)
        await asyncio.sleep(1.0)
    assert 6 <= len(controller.queries) <= 10


async def test_error_keeps_the_document_and_says_why(controller: Controller, polls: Polls) -> None:
    """Until the next answer."""
    assert (await polls.get(SHOP)).problem == ""
    controller.problem = "no route"
    await asyncio.sleep(2.5)
    known = await polls.get(SHOP)
    assert known.problem == "no route"
    assert known.document is not None
    assert known.age == pytest.approx(2.5, abs=0.2)
    await asyncio.sleep(1.0)
    assert (await polls.get(SHOP)).problem == "no route"
    controller.problem = ""
    await asyncio.sleep(1.5)
    known = await polls.get(SHOP)
    assert known.problem == ""
    assert known.age == pytest.approx(0.0, abs=0.2)


async def test_first_error_has_no_document(controller: Controller, polls: Polls) -> None:
    controller.problem = "no route"
    assert (await polls.get(SHOP))[::2] == (None, "no route")


async def test_silent_controller_is_a_problem(controller: Controller, polls: Polls) -> None:
    """While the request is still in progress, with which later ones do not interfere."""
    await polls.get(SHOP)
    controller.takes = 60.0
    await asyncio.sleep(2.5)
    known = await polls.get(SHOP)
    assert known.problem == "the controller has not answered for 6 s"
    assert (await polls.get(SHOP)).problem == "the controller has not answered for 12 s"
    assert len(controller.queries) == 2
    await polls.close()


async def test_lost_page_does_not_end_the_request_of_others(
    controller: Controller, polls: Polls
) -> None:
    controller.takes = 1.0
    lost = asyncio.create_task(polls.get(SHOP))
    other = asyncio.create_task(polls.get(SHOP))
    await asyncio.sleep(0.5)
    lost.cancel()
    assert (await other).document is not None
    assert len(controller.queries) == 1


async def test_number_of_kept_documents_is_bounded(controller: Controller, polls: Polls) -> None:
    """Of workloads that were selected; the last ones are kept."""
    for number in range(100):
        await polls.get({"workload": f"shop/w-{number}"})
    await polls.get({"workload": "shop/w-99"})
    assert len(controller.queries) == 100
    await polls.get({"workload": "shop/w-0"})
    assert len(controller.queries) == 101
