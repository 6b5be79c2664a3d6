"""The recorder: Kubernetes Events that never delay or fail the work they tell of."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from tests.support.clocks import Clock
from tests.support.fault_server import Behaviour, Exchange, FaultServer, broken, silence, status

from hotmap.core.model.objects import ObjectKey
from hotmap.kube import events as module
from hotmap.kube.client import Client, Limits
from hotmap.kube.config import BearerToken, ClusterConfig
from hotmap.kube.events import EventWriter
from hotmap.kube.recorder import BURST, Recorder

WEB = ObjectKey("Deployment", "shop", "web")

#: 2026-11-21T12:00:00Z
NOON = 1795262400.0


@pytest.fixture
def clock() -> Clock:
    return Clock(NOON)


@pytest.fixture
async def recorder(server: FaultServer, clock: Clock) -> AsyncIterator[Recorder]:
    config = ClusterConfig(server.url, "the test", BearerToken())
    limits = Limits(attempt=0.2, attempts=2, pause_first=0.01, pause_last=0.02)
    async with Client(config, limits=limits) as client:
        recorder = Recorder(EventWriter(client), component="hotmap", clock=clock)
        yield recorder
        await recorder.aclose()


def send_event(recorder: Recorder, message: str = "rolled", regarding: ObjectKey = WEB) -> None:
    recorder.event(
        regarding,
        api_version="apps/v1",
        uid="u",
        type="Normal",
        reason="RolledOut",
        message=message,
    )


def send_problem(recorder: Recorder, message: str = "cannot be read") -> bool:
    return recorder.event(
        WEB,
        api_version="apps/v1",
        uid="u",
        type="Warning",
        reason="InvalidAnnotation",
        message=message,
        once=True,
    )


def refused(body: dict[str, Any], code: int = 403) -> Behaviour:
    """Make a behaviour that answers with a failure Status."""

    async def answer(exchange: Exchange) -> None:
        await exchange.answer(code, body)

    return answer


def sent(server: FaultServer) -> list[tuple[str, dict[str, Any]]]:
    return [(request.method, json.loads(request.body)) for request in server.requests]


async def test_event_has_what_kubectl_shows(server: FaultServer, recorder: Recorder) -> None:
    """Type, reason, object, component, message and times, in the object's namespace."""
    send_event(recorder)
    assert server.requests == []
    await recorder.aclose()
    [request] = server.requests
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/shop/events")
    body = json.loads(request.body)
    assert body["metadata"].pop("name").startswith("web.")
    assert body == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "shop"},
        "involvedObject": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "namespace": "shop",
            "name": "web",
            "uid": "u",
        },
        "type": "Normal",
        "reason": "RolledOut",
        "message": "rolled",
        "source": {"component": "hotmap"},
        "reportingComponent": "hotmap",
        "firstTimestamp": "2026-11-21T12:00:00Z",
        "lastTimestamp": "2026-11-21T12:00:00Z",
        "count": 1,
    }


async def test_repetitions_within_ten_minutes_are_counted(
    server: FaultServer, recorder: Recorder, clock: Clock
) -> None:
    """The same words about the same object: one Event whose count grows; later, a new one."""
    send_event(recorder)
    await recorder.aclose()
    clock.now += 599
    send_event(recorder)
    send_event(recorder)
    await recorder.aclose()
    clock.now += 601
    send_event(recorder)
    await recorder.aclose()
    assert [method for method, _ in sent(server)] == ["POST", "PATCH", "POST"]
    name = sent(server)[0][1]["metadata"]["name"]
    assert server.requests[1].path == f"/api/v1/namespaces/shop/events/{name}"
    assert sent(server)[1][1] == {"count": 3, "lastTimestamp": "2026-11-21T12:09:59Z"}
    assert sent(server)[2][1]["count"] == 1
    assert recorder.statistics() == (2, 1, 0, 0)


async def test_expired_event_is_created_again(server: FaultServer, recorder: Recorder) -> None:
    """Events live for an hour; a count for one that is gone becomes a new Event."""

    async def gone(exchange: Exchange) -> None:
        await exchange.answer(404, status(404, "NotFound", 'events "x" not found'))

    send_event(recorder)
    await recorder.aclose()
    server.script("other", gone)
    send_event(recorder)
    await recorder.aclose()
    assert [method for method, _ in sent(server)] == ["POST", "PATCH", "POST"]
    assert sent(server)[2][1]["count"] == 2


async def test_lost_response_makes_no_second_event(server: FaultServer, recorder: Recorder) -> None:
    """The repeated create meets the name that the first attempt took, and that is success."""

    async def taken(exchange: Exchange) -> None:
        await exchange.answer(409, status(409, "AlreadyExists", 'events "x" already exists'))

    server.script("other", silence, taken)
    send_event(recorder)
    await recorder.aclose()
    assert len(server.requests) == 2
    assert recorder.statistics().created == 1


async def test_event_that_cannot_be_written_is_dropped(
    server: FaultServer, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    """The caller hears nothing of it, the log does, and the next Event is written."""
    server.script("other", broken, broken)
    send_event(recorder, "first")
    send_event(recorder, "second")
    await recorder.aclose()
    assert recorder.statistics() == (1, 0, 1, 0)
    assert "failed to write Event RolledOut for Deployment shop/web" in caplog.text
    assert sent(server)[-1][1]["message"] == "second"


async def test_namespace_that_refuses_events_is_logged_once(
    server: FaultServer, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    """As with a quota for Events: its owner cannot fill the log."""
    texts = [f'events "web.{number}" is forbidden: exceeded quota' for number in range(3)]
    server.script("other", *(refused(status(403, "Forbidden", text)) for text in texts))
    for number in range(3):
        send_event(recorder, f"rolled {number}")
    await recorder.aclose()
    assert recorder.statistics().dropped == 3
    assert [record.levelname for record in caplog.records] == ["WARNING"]


_CAUSE = {"reason": "NamespaceTerminating", "field": "metadata.namespace"}


@pytest.mark.parametrize(
    ("code", "refusal"),
    [
        (
            403,
            {
                **status(403, "Forbidden", "namespace shop is being terminated"),
                "details": {"causes": [_CAUSE]},
            },
        ),
        (404, status(404, "NotFound", 'namespaces "shop" not found')),
    ],
    ids=["terminating", "gone"],
)
async def test_deleted_namespace_is_not_a_failure(
    server: FaultServer,
    recorder: Recorder,
    caplog: pytest.LogCaptureFixture,
    code: int,
    refusal: dict[str, Any],
) -> None:
    """Its objects are deleted one after the other, and it takes no Events about that."""
    server.script("other", refused(refusal, code))
    send_event(recorder)
    await recorder.aclose()
    assert recorder.statistics().dropped == 1
    assert not caplog.records


async def test_nothing_is_written_in_a_namespace_that_is_skipped(server: FaultServer) -> None:
    """As in one in deletion, which would refuse it; repetitions are known all the same."""
    async with Client(ClusterConfig(server.url, "the test", BearerToken())) as client:
        recorder = Recorder(
            EventWriter(client), component="hotmap", skips=lambda namespace: namespace == "shop"
        )
        send_event(recorder)
        await recorder.aclose()
    assert sent(server) == []
    assert recorder.statistics().dropped == 0


async def test_events_of_one_object_are_rate_limited(recorder: Recorder, clock: Clock) -> None:
    """25 Events at once, then one per five minutes; other objects are not held back."""
    for number in range(30):
        send_event(recorder, f"message {number}")
    assert recorder.statistics().dropped == 5
    clock.now += 300
    send_event(recorder, "after five minutes")
    send_event(recorder, "too soon")
    send_event(recorder, "another", ObjectKey("Deployment", "shop", "other"))
    assert recorder.statistics().dropped == 6


async def test_cluster_scoped_object_has_its_events_in_default(
    server: FaultServer, recorder: Recorder
) -> None:
    """Where kubectl looks for them."""
    send_event(recorder, regarding=ObjectKey("Node", "", "n1"))
    await recorder.aclose()
    [request] = server.requests
    assert request.path == "/api/v1/namespaces/default/events"
    assert "namespace" not in json.loads(request.body)["involvedObject"]


async def test_long_name_and_message_are_cut(server: FaultServer, recorder: Recorder) -> None:
    """A name has 253 characters at most, a message 1024."""
    send_event(recorder, "x" * 2000, ObjectKey("Deployment", "shop", "n" * 253))
    await recorder.aclose()
    [(_, body)] = sent(server)
    assert len(body["metadata"]["name"]) <= 253
    assert len(body["message"]) == 1024


async def test_close_does_not_wait_for_a_silent_server(
    server: FaultServer, recorder: Recorder
) -> None:
    """What cannot be written by then is counted as dropped."""
    server.script("other", *[silence] * 10)
    for number in range(5):
        send_event(recorder, f"message {number}")
    async with asyncio.timeout(60):
        await recorder.aclose(within=0.05)
    assert recorder.statistics().pending == 0
    assert recorder.statistics().dropped == 5


async def test_pause_is_between_two_events_and_not_after_one(
    server: FaultServer, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One Event alone leaves nothing to wait for."""
    monkeypatch.setattr(module, "SPACING", 3600.0)
    send_event(recorder, "first")
    async with asyncio.timeout(60):
        await recorder.aclose(within=3600)
    assert recorder.statistics().created == 1
    send_event(recorder, "second")
    await asyncio.sleep(0.05)
    assert recorder.statistics().pending == 1
    await recorder.aclose(within=0.05)
    assert len(server.requests) == 1


async def test_one_namespace_cannot_use_up_the_events_of_the_others(
    server: FaultServer, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """300 Events of one tenant wait; that of another, which came later, is the second to go."""
    monkeypatch.setattr(module, "SPACING", 0.0)
    for number in range(300):
        send_event(recorder, regarding=ObjectKey("Deployment", "noisy", f"web-{number}"))
    send_event(recorder, regarding=ObjectKey("Deployment", "quiet", "web"))
    async with asyncio.timeout(60):
        while len(server.requests) < 51:  # noqa: ASYNC110  requests are polled
            await asyncio.sleep(0.01)
    namespaces = [request.path.split("/")[4] for request in server.requests]
    assert namespaces.index("quiet") == 1
    assert namespaces.count("noisy") <= module.NAMESPACE_BURST + 2
    assert recorder.statistics().pending >= 240
    await recorder.aclose()
    assert recorder.statistics()[0] == 301, "the end does not wait for the budget"


@pytest.mark.parametrize("hanging", [1, 20])
async def test_events_of_namespaces_whose_webhook_hangs_delay_no_others(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch, hanging: int
) -> None:
    """One of each waits for its response; those of others are written meanwhile."""
    monkeypatch.setattr(module, "SPACING", 0.0)
    answered = asyncio.Event()

    async def hang(exchange: Exchange) -> None:
        await answered.wait()

    server.script("other", *[hang] * hanging)
    async with Client(ClusterConfig(server.url, "the test", BearerToken())) as client:
        recorder = Recorder(EventWriter(client), component="hotmap")
        for number in range(3 * hanging):
            namespace = f"hanging-{number % hanging}"
            send_event(recorder, regarding=ObjectKey("Deployment", namespace, f"web-{number}"))
        for number in range(3):
            send_event(recorder, regarding=ObjectKey("Deployment", "quiet", f"web-{number}"))
        async with asyncio.timeout(60):
            while recorder.statistics().created < 3:  # noqa: ASYNC110  it is polled
                await asyncio.sleep(0.01)
        namespaces = [request.path.split("/")[4] for request in server.requests]
        waiting = [f"hanging-{number}" for number in range(hanging)]
        assert namespaces == [*waiting, *["quiet"] * 3]
        answered.set()
        await recorder.aclose(within=60)


async def test_events_that_wait_are_bounded_in_each_namespace(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest of that namespace gives way, and is counted."""
    monkeypatch.setattr(module, "NAMESPACE_PENDING", 10)
    for number in range(30):
        send_event(recorder, regarding=ObjectKey("Deployment", "noisy", f"web-{number}"))
    assert recorder.statistics().pending == 10
    assert recorder.statistics().dropped == 20


async def test_persisting_problem_is_reported_once(
    server: FaultServer, recorder: Recorder, clock: Clock
) -> None:
    """Neither as an Event nor as a count, until an hour later; the caller is told which it was."""
    problem = partial(send_problem, recorder)
    told = [problem(), problem()]
    clock.now += 1800
    told += [problem(), problem("another problem")]
    clock.now += 1801
    told += [problem(), problem()]
    assert told == [True, False, False, True, True, False]
    await recorder.aclose()
    assert [method for method, _ in sent(server)] == ["POST", "POST"]


async def test_problem_of_a_busy_object_is_reported_once(recorder: Recorder) -> None:
    """What else happened to it, however often, hides no problem."""
    for number in range(2 * BURST):
        send_event(recorder, f"rolled {number}")
    dropped = recorder.statistics().dropped
    assert [send_problem(recorder) for _ in range(3)] == [True, False, False]
    assert recorder.statistics().dropped == dropped


async def test_problems_of_one_object_are_rate_limited(recorder: Recorder, clock: Clock) -> None:
    """Each value of an annotation that changes in a loop is a new problem; few are logged."""
    told = [send_problem(recorder, f"invalid value {number}") for number in range(BURST + 5)]
    assert told == [True] * BURST + [False] * 5
    clock.now += 300
    last = f"invalid value {BURST + 4}"
    assert send_problem(recorder, last), "it stands, and was not reported yet"
    assert not send_problem(recorder, "another value")
    assert recorder.statistics().dropped == 6
