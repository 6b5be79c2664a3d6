"""Alerts of rollouts reach their receivers, through failures of these, and delay nothing."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from tests.controller.world import SETTLE, World, env
from tests.support.http_receiver import PASSWORD, Receiver, http_receiver
from tests.support.objects import deployment

from hotmap.controller.report.alerts import Alerts, AlertTiming
from hotmap.controller.run import Controller
from hotmap.controller.settings import AlertSettings, AlertSink, Settings, WebhookSettings
from hotmap.core.model.objects import ObjectKey
from hotmap.core.policy.policy import Defaults
from hotmap.kube.supervisor import Supervisor

APP = ObjectKey("ConfigMap", "default", "app")
TIMING = AlertTiming(timeout=0.3, first_pause=0.01, max_pause=0.05, grace=0.1)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with http_receiver() as receiver:
        yield receiver


@asynccontextmanager
async def sending(
    url: str, sink: AlertSink = AlertSink.RAW, *, timing: AlertTiming = TIMING, proxy: str = ""
) -> AsyncIterator[Alerts]:
    alerts = Alerts(AlertSettings(url, sink=sink, proxy=proxy), timing=timing)
    alerts.start(Supervisor())
    try:
        yield alerts
    finally:
        await alerts.aclose()


def roll(alerts: Alerts, count: int = 1, *, first: int = 0) -> None:
    for number in range(first, first + count):
        alerts.add(deployment(name=f"web-{number}").key, [APP], f"reason {number}")


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(100_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("timed out")


def numbers(receiver: Receiver) -> list[list[str]]:
    """Return which reasons are in each request."""
    return [[line.rpartition(" ")[2] for line in body.split("\n")] for body in receiver.bodies]


@pytest.mark.parametrize("sink", list(AlertSink))
async def test_alert_is_sent_once_accepted(
    receiver: Receiver, sink: AlertSink, caplog: pytest.LogCaptureFixture
) -> None:
    """After a failure it is sent again, the same bytes."""
    receiver.answers = [500, 503]
    async with sending(receiver.url, sink) as alerts:
        roll(alerts)
        await until(lambda: alerts.outcomes()["sent"] == 1)
    assert len(receiver.bodies) == 3
    assert len(set(receiver.bodies)) == 1
    assert receiver.content_types[0] == (
        "text/plain" if sink is AlertSink.RAW else "application/json"
    )
    assert alerts.outcomes() == {"sent": 1, "failed": 0, "dropped": 0}
    assert not caplog.records


@pytest.mark.parametrize("sink", list(AlertSink))
@pytest.mark.parametrize("trouble", ["hangs", "500", "redirect", "gone", "closed"])
async def test_failing_receiver_is_given_up(
    receiver: Receiver, sink: AlertSink, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    """After five attempts, or at once where repeating cannot help; the log has no URL."""
    url = receiver.url
    attempts, said = {
        "hangs": (5, "did not answer within 0.3s"),
        "500": (5, "answered 500"),
        "redirect": (1, "answered 302, a redirect, which is not followed"),
        "gone": (1, "answered 410"),
        "closed": (0, "cannot reach 127.0.0.1: connection refused"),
    }[trouble]
    if trouble == "hangs":
        receiver.hangs.set()
    elif trouble == "closed":
        url = f"http://127.0.0.1:9/hook/{PASSWORD}"
    else:
        receiver.answers = [{"500": 500, "redirect": 302, "gone": 410}[trouble]] * 5
    with caplog.at_level(logging.DEBUG):
        async with sending(url, sink) as alerts:
            roll(alerts)
            await until(lambda: alerts.outcomes()["failed"] == 1)
            receiver.hangs.clear()
    assert len(receiver.bodies) == attempts
    assert [record.getMessage() for record in caplog.records if record.name[:6] == "hotmap"] == [
        f"alert not sent: 127.0.0.1 {said}" if "reach" not in said else f"alert not sent: {said}"
    ]
    assert PASSWORD not in caplog.text


async def test_receiver_that_recovers_gets_later_alerts(receiver: Receiver) -> None:
    """What was given up is not sent again."""
    receiver.answers = [404]
    async with sending(receiver.url) as alerts:
        roll(alerts)
        await until(lambda: alerts.outcomes()["failed"] == 1)
        roll(alerts, first=1)
        await until(lambda: alerts.outcomes()["sent"] == 1)
    assert numbers(receiver) == [["0"], ["1"]]


async def test_receiver_may_ask_for_a_pause(receiver: Receiver) -> None:
    """`429` with Retry-After is not a final answer, and the pause is bounded."""
    receiver.answers = [429]
    receiver.headers = {"Retry-After": "86400"}
    async with sending(receiver.url) as alerts:
        roll(alerts)
        await until(lambda: alerts.outcomes()["sent"] == 1)
    assert len(receiver.bodies) == 2


async def test_failures_in_a_row_are_logged_once(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """A fan-out to a dead receiver is one line, not a thousand; all are counted."""
    receiver.answers = [404] * 30
    with caplog.at_level(logging.WARNING, "hotmap"):
        async with sending(receiver.url) as alerts:
            roll(alerts, 30)
            await until(lambda: alerts.outcomes()["failed"] == 30)
    assert [record.getMessage() for record in caplog.records] == [
        "alert not sent: 127.0.0.1 answered 404"
    ]


async def test_few_alerts_are_one_message_each(receiver: Receiver) -> None:
    """In their order."""
    async with sending(receiver.url) as alerts:
        roll(alerts, 5)
        await until(lambda: alerts.outcomes()["sent"] == 5)
    assert numbers(receiver) == [["0"], ["1"], ["2"], ["3"], ["4"]]


@pytest.mark.parametrize("sink", list(AlertSink))
async def test_burst_is_combined(receiver: Receiver, sink: AlertSink) -> None:
    """A fan-out of 200 workloads is a few messages, each of them in bounds; none is lost."""
    async with sending(receiver.url, sink) as alerts:
        roll(alerts, 200)
        await until(lambda: alerts.outcomes()["sent"] == 200)
    assert len(receiver.bodies) < 40
    assert max(map(len, receiver.bodies)) < 28_000
    found = "".join(receiver.bodies)
    assert all(f"reason {number}" in found for number in range(200))


async def test_alerts_beyond_the_bound_are_dropped(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """The oldest; the next message says how many, once it is accepted."""
    receiver.hangs.set()
    timing = TIMING._replace(timeout=30.0)
    with caplog.at_level(logging.WARNING, "hotmap"):
        async with sending(receiver.url, timing=timing) as alerts:
            roll(alerts)
            await until(lambda: len(receiver.bodies) == 1)
            roll(alerts, 1500, first=1)
            assert alerts.outcomes()["dropped"] == 500
            receiver.hangs.clear()
            await until(lambda: alerts.outcomes()["sent"] == 1001)
    assert [record.getMessage() for record in caplog.records] == [
        "alert receiver too slow; dropping the oldest alerts"
    ]
    said = [line for body in receiver.bodies for line in body.split("\n") if "earlier" in line]
    assert said == ["500 earlier alerts were not sent: the receiver is too slow."]
    assert numbers(receiver)[-1][-1] == "1500"


async def test_alerts_of_one_namespace_cost_no_other(receiver: Receiver) -> None:
    """However many there are of it, and however old that of the other is."""
    receiver.hangs.set()
    async with sending(receiver.url, timing=TIMING._replace(timeout=30.0)) as alerts:
        roll(alerts)
        await until(lambda: len(receiver.bodies) == 1)
        alerts.add(ObjectKey("Deployment", "other", "web"), [APP], "reason other")
        roll(alerts, 1500, first=1)
        receiver.hangs.clear()
        await until(lambda: alerts.outcomes()["sent"] == 1001)
    assert "other" in [number for each in numbers(receiver) for number in each]


async def test_chats_get_one_message_a_second(receiver: Receiver) -> None:
    """More are refused by Slack and Google Chat."""
    loop = asyncio.get_running_loop()
    async with sending(receiver.url, AlertSink.SLACK) as alerts:
        start = loop.time()
        roll(alerts)
        await until(lambda: alerts.outcomes()["sent"] == 1)
        roll(alerts, 2, first=1)
        await until(lambda: alerts.outcomes()["sent"] == 3)
        assert loop.time() - start >= 2.0


async def test_shutdown_does_not_wait_for_a_silent_receiver(receiver: Receiver) -> None:
    """What is queued is sent, as long as that takes little time."""
    receiver.hangs.set()
    loop = asyncio.get_running_loop()
    async with sending(receiver.url, timing=AlertTiming(grace=0.5)) as alerts:
        roll(alerts, 3)
        await until(lambda: len(receiver.bodies) == 1)
        start = loop.time()
    assert loop.time() - start < AlertTiming().timeout
    receiver.hangs.clear()
    async with sending(receiver.url) as alerts:
        roll(alerts, 3)
    assert alerts.outcomes()["sent"] == 3


async def test_alert_goes_through_the_proxy(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """The proxy gets the request; one that is gone is told from a receiver that is gone."""
    proxy = receiver.url.partition("/hook")[0].replace("http://", "http://user:planted@")
    async with sending("http://chat.invalid/hook/planted", proxy=proxy) as alerts:
        roll(alerts)
        await until(lambda: alerts.outcomes()["sent"] == 1)
    assert len(receiver.bodies) == 1
    with caplog.at_level(logging.DEBUG):
        gone = "http://user:planted@127.0.0.1:9"
        async with sending("http://chat.invalid/planted", proxy=gone) as alerts:
            roll(alerts)
            await until(lambda: alerts.outcomes()["failed"] == 1)
    assert "cannot reach chat.invalid through the proxy: connection refused" in caplog.text
    assert "planted" not in caplog.text


async def test_sinks_get_alerts_of_a_controller(world: World, receiver: Receiver) -> None:
    """One for a rollout; the Secret's value is not in it."""
    await world.secret("login", password="planted-old")
    await world.workload(spec=env("password", source="login", kind="secret"))
    settings = Settings(
        defaults=Defaults(settle=SETTLE, settle_max=1.0),
        webhooks=WebhookSettings(alert=AlertSettings(receiver.url, sink=AlertSink.GCHAT)),
        listen=("127.0.0.1", 0),
    )
    async with Controller(world.client, settings) as running:
        await world.quiet(running)
        await world.edit("login", kind="Secret", password="planted-new")
        await world.rollout()
        await world.quiet(running)
    (body,) = receiver.bodies
    assert "*login* of type *SECRET*" in json.loads(body)["text"]
    assert "planted" not in body
