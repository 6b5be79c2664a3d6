"""Whatever ends a watch, the store is equal to the server again after few requests.

In every test something is changed while the watch is dead; nothing of it may be lost, nothing
may be taken from half a line, and the server is asked no more often than the fault explains.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.faults.conftest import FAST
from tests.support.fault_server import (
    Behaviour,
    Exchange,
    FaultServer,
    Truth,
    bookmarks_only,
    broken,
    broken_event,
    ends_at_once,
    expired_event,
    expired_status,
    forbidden,
    half_line_then_close,
    half_line_then_end,
    no_last_bookmarks,
    reset_mid_line,
    reset_unanswered,
    silence,
    silent_after_bookmark,
    silent_stream,
    slow_bytes,
    throttled,
    too_large_event,
)
from tests.support.reflection import Reflect

from hotmap.core.model.objects import ConfigMap
from hotmap.kube.reflector_timing import silent_at
from hotmap.kube.resources import CONFIGMAPS


@pytest.fixture(autouse=True)
def a_server_that_lists(server: FaultServer) -> None:
    """Without a stream of initial objects the requests are a list and then watches."""
    server.can_stream = False


@pytest.mark.parametrize(
    "behaviour",
    [
        reset_mid_line,
        half_line_then_end,
        half_line_then_close,
        ends_at_once,
        broken,
        broken_event,
        silent_after_bookmark,
        throttled(1),
        bookmarks_only(0.05, 3),
        slow_bytes(0.01),
    ],
    ids=[
        "reset in the middle of a line",
        "half a line, then a proper end",
        "half a line, then the connection closes",
        "a proper end at once",
        "HTTP status 500",
        "500 as an event",
        "silence after a bookmark",
        "429 with Retry-After",
        "nothing but bookmarks",
        "a few bytes at a time",
    ],
)
async def test_watch_is_resumed_where_it_stopped(
    truth: Truth, server: FaultServer, reflect: Reflect, behaviour: Behaviour
) -> None:
    """No new list: each fault costs one more watch, from the last known resourceVersion."""
    server.script("watch", behaviour, behaviour)
    async with reflect() as reflection:
        await server.wait_for_requests("watch", 1)
        truth.delete("a")
        truth.put("c", "1")
        truth.put("b", "2")
        await server.wait_for_requests("watch", 3)
        await reflection.converged()
        truth.put("d", "1")
        await reflection.converged()
    assert reflection.deleted == ["a"]
    assert server.count("list") == 1
    assert server.count("watch") == 3


@pytest.mark.parametrize(
    "behaviour",
    [expired_event, expired_status, too_large_event, silent_stream, silence],
    ids=[
        "410 as an event",
        "410 as the HTTP status",
        "a position in the server's future",
        "a stream without a line",
        "no answer at all",
    ],
)
async def test_expired_position_leads_to_one_list(
    truth: Truth, server: FaultServer, reflect: Reflect, behaviour: Behaviour
) -> None:
    """What vanished in the gap is told to listeners as deleted, though no watch ever said so."""
    server.script("watch", behaviour)
    async with reflect() as reflection:
        await server.wait_for_requests("watch", 1)
        truth.delete("a")
        truth.put("c", "1")
        await reflection.converged()
        await server.wait_for_requests("watch", 2)
        assert reflection.deleted == ["a"]
        truth.put("d", "1")
        await reflection.converged()
    assert server.count("list") == 2
    assert server.count("watch") == 2


async def test_position_that_a_restored_server_has_not_reached_leads_to_one_list(
    truth: Truth, server: FaultServer, reflect: Reflect
) -> None:
    """The watch would show nothing of what was restored, nor of the changes before the position."""
    backup = truth.revision, dict(truth.objects), list(truth.history)
    async with reflect(timing=FAST._replace(silence=1e6)) as reflection:
        await server.wait_for_requests("watch", 1)
        truth.put("c", "1")
        truth.put("a", "2")
        await reflection.converged()
        server.script("watch", reset_unanswered)
        truth.revision, truth.objects, truth.history = backup
        server.cut()
        truth.put("b", "2")
        await reflection.converged()
        assert reflection.deleted == ["c"]
        truth.put("b", "3")
        await reflection.converged()
    assert (server.count("list"), server.count("check")) == (2, 1)


async def test_outage_without_a_restore_needs_no_list(
    truth: Truth, server: FaultServer, reflect: Reflect
) -> None:
    """One object is read after it, and none when the watch is resumed again."""
    async with reflect() as reflection:
        await server.wait_for_requests("watch", 1)
        # A request on a connection that was kept is sent twice.
        server.script("watch", reset_unanswered, reset_unanswered, ends_at_once, ends_at_once)
        server.cut()
        truth.put("c", "1")
        await server.wait_for_requests("watch", 6)
        await reflection.converged()
    assert (server.count("list"), server.count("check")) == (1, 1)


async def test_retry_after_is_honoured(server: FaultServer, reflect: Reflect) -> None:
    """After 429 the server is left alone for as long as it asks."""
    server.script("watch", throttled(1))
    async with reflect() as reflection:
        await server.wait_for_requests("watch", 2)
        await reflection.converged()
    first, second = (request for request in server.requests if request.script == "watch")
    assert second.at - first.at >= 1.0


@pytest.mark.parametrize(
    "behaviour", [ends_at_once, expired_event, expired_status, broken, reset_mid_line]
)
async def test_permanent_fault_is_retried_with_backoff(
    server: FaultServer, reflect: Reflect, behaviour: Behaviour
) -> None:
    """However fast a server fails, there is never more than one attempt per pause.

    An attempt costs a list and a watch at most, and no pause is shorter than the first one.
    """
    server.script("watch", *[behaviour] * 1000)
    async with reflect() as reflection:
        await reflection.converged()
        await server.wait_for_requests("watch", 6)
        await reflection.wait_for_statistics(lambda statistics: bool(statistics.last_error))
    watches = [request.at for request in server.requests if request.script == "watch"]
    assert len(watches) - 1 <= (watches[-1] - watches[0]) / 0.02
    assert server.count("list") <= server.count("watch") + 1


async def test_watch_is_resumed_when_the_server_answers_others(
    server: FaultServer, reflect: Reflect
) -> None:
    """After an outage the pauses are long; the first answer to any request ends them."""
    server.script("watch", *[reset_unanswered] * 8)
    timing = FAST._replace(pause_first=1, pause_last=3600, silence=1e6)
    async with reflect(timing=timing) as reflection:
        await server.wait_for_requests("watch", 8)
        server.truth.put("during", "the outage")
        await asyncio.sleep(0.1)
        await reflection.client.list_page(CONFIGMAPS, type=ConfigMap)
        async with asyncio.timeout(3.5):
            await server.wait_for_requests("watch", 9)
        await reflection.converged()


async def test_bookmarks_keep_a_quiet_watch_alive(server: FaultServer, reflect: Reflect) -> None:
    """Silence is the time since the last byte, not since the watch began."""
    async with reflect() as reflection:
        await reflection.wait_for_statistics(lambda statistics: statistics.bookmarks >= 8)
        assert reflection.statistics().errors == 0
    assert server.count("watch") == 1


async def test_missing_bookmarks_near_the_end_of_a_watch_are_not_silence(
    server: FaultServer, reflect: Reflect, caplog: pytest.LogCaptureFixture
) -> None:
    """What the request's own timeoutSeconds explains is not reported, and asks for no list."""
    server.script("watch", no_last_bookmarks, no_last_bookmarks)
    async with reflect(timing=FAST._replace(watch_shortest=1, watch_longest=1)) as reflection:
        await server.wait_for_requests("watch", 3)
        assert (reflection.statistics().errors, reflection.statistics().silences) == (0, 0)
    assert server.count("list") == 1
    assert "sent nothing" not in caplog.text


async def test_silent_watch_is_resumed_quietly_if_the_server_answers(
    truth: Truth, server: FaultServer, reflect: Reflect, caplog: pytest.LogCaptureFixture
) -> None:
    """One object is read to know that; what the watch held back comes with the next one."""
    server.script("watch", silent_after_bookmark)
    async with reflect() as reflection:
        await server.wait_for_requests("watch", 1)
        truth.put("c", "1")
        await server.wait_for_requests("check", 1)
        await reflection.converged()
        assert (reflection.statistics().errors, reflection.statistics().silences) == (0, 1)
    assert (server.count("list"), server.count("watch")) == (1, 2)
    assert "sent nothing" not in caplog.text


async def test_silent_watch_is_reported_if_the_server_does_not_answer(
    truth: Truth, server: FaultServer, reflect: Reflect, caplog: pytest.LogCaptureFixture
) -> None:
    """Then it is resumed all the same, where it stopped."""
    server.script("watch", silent_after_bookmark)
    server.script("check", silence)
    async with reflect() as reflection:
        await server.wait_for_requests("watch", 1)
        truth.put("c", "1")
        await reflection.converged()
        assert reflection.statistics().errors == 1
    assert (server.count("list"), server.count("watch")) == (1, 2)
    assert "sent nothing on a watch" in caplog.text


@pytest.mark.parametrize(
    ("last", "at"),
    [(0, 75), (187, 262), (188, 315), (201, 315), (290, 365)],
    ids=["early", "bookmarks due", "last full gap", "gap of 99 s", "right before the end"],
)
def test_silence_near_the_end_of_a_watch_is_measured_from_its_end(last: float, at: float) -> None:
    """A watch of 300 s with a limit of 75 s; gaps of 99 s before the end were seen."""
    assert silent_at(last, 300, 75) == at


async def test_bookmarks_move_the_position(
    truth: Truth, server: FaultServer, reflect: Reflect
) -> None:
    """After a quiet time the watch resumes from the last bookmark, not from the last object."""
    server.script("watch", bookmarks_only(0.0, 1))
    async with reflect() as reflection:
        await reflection.converged()
        truth.revision += 50
        await server.wait_for_requests("watch", 2)
    second = [request for request in server.requests if request.script == "watch"][1]
    assert second.params["resourceVersion"] == str(truth.revision)


async def test_line_of_one_mebibyte_is_decoded(
    truth: Truth, server: FaultServer, reflect: Reflect
) -> None:
    """The largest Secrets are 1 MiB; they come whole, by list and by watch."""
    truth.put("large", "x" * (1 << 20))
    async with reflect() as reflection:
        await reflection.converged()
        truth.put("large", "y" * (1 << 20))
        await reflection.converged()
    assert server.count("list") == 1
    assert server.count("watch") == 1


async def test_object_of_a_wrong_shape_does_not_stop_the_others(
    truth: Truth, server: FaultServer, reflect: Reflect
) -> None:
    """It is left out and counted, by list and by watch, until it is gone; the others arrive."""
    truth.objects["default", "a"]["data"] = {"value": 5}
    async with reflect() as reflection:
        await server.wait_for_requests("watch", 1)
        truth.put("c", "1")
        truth.revision += 1
        truth.history.append((truth.revision, "MODIFIED", truth.objects["default", "a"]))
        await reflection.wait_for_statistics(lambda statistics: statistics.events == 2)
        assert reflection.statistics().unreadable == 1
        truth.delete("a")
        await reflection.converged()
        await reflection.wait_for_statistics(lambda statistics: statistics.unreadable == 0)
    assert len(server.requests) == 3


def _nested(made: dict[str, Any], levels: int = 3000) -> bytes:
    """An object as JSON, whose managedFields nest more levels than a decoder can follow."""
    fields = b'{"f:a":' * levels + b"{}" + b"}" * levels
    text = json.dumps({**made, "metadata": {**made["metadata"], "managedFields": [{"x": 0}]}})
    return text.encode().replace(b'{"x": 0}', b'{"manager":"m","fieldsV1":%b}' % fields)


async def test_object_that_nests_deeply_does_not_stop_the_others(
    truth: Truth, server: FaultServer, reflect: Reflect
) -> None:
    """Its managedFields nest 3,000 levels: it is read, by list and by watch, as are later edits."""

    async def nested_page(exchange: Exchange) -> None:
        items = b",".join(_nested(made) for made in truth.objects.values())
        metadata = json.dumps({"resourceVersion": str(truth.revision)}).encode()
        await exchange.answer(200, b'{"metadata":%b,"items":[%b]}' % (metadata, items))

    async def nested_watch(exchange: Exchange) -> None:
        truth.put("a", "2")
        await exchange.begin_stream()
        line = b'{"type":"MODIFIED","object":%b}\n' % _nested(truth.objects["default", "a"])
        await exchange.chunk(line)
        await asyncio.Event().wait()

    server.can_stream = False
    server.script("list", nested_page)
    server.script("watch", nested_watch)
    async with reflect() as reflection:
        await server.wait_for_requests("watch", 1)
        await reflection.converged()
        server.cut()
        truth.put("b", "2")
        await reflection.converged()
        assert reflection.statistics().unreadable == 0
        assert reflection.content()["default", "a"] == "2"


async def test_permission_that_returns_is_not_a_refusal_any_more(
    truth: Truth, server: FaultServer, reflect: Reflect
) -> None:
    """The watch is resumed and nothing listed, so that no list shows it."""
    async with reflect() as reflection:
        await reflection.converged()
        truth.put("c", "1")
        await reflection.converged()
        lists, watches = server.count("list"), server.count("watch")
        server.script("watch", forbidden, forbidden)
        server.cut()
        await server.wait_for_requests("watch", watches + 2)
        assert reflection.statistics().refused
        truth.put("d", "1")
        await reflection.converged()
        assert not reflection.statistics().refused
        assert server.count("list") == lists
