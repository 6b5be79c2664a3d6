"""Sends an alert for each workload that was rolled out.

Alerts are sent in the background, one after the other, with a time-out and some attempts; a slow or
absent receiver delays no rollout. While many wait, several are one message, and beyond a bound the
oldest of the namespace that has most are dropped and counted. `alert_messages` words and formats
them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from hotmap.controller.report.alert_messages import LONGEST_MESSAGE, Alert, format_alerts
from hotmap.controller.report.http_post import Refusal, post
from hotmap.controller.settings import AlertSettings, AlertSink
from hotmap.core.decide.decision import Decision
from hotmap.core.model.objects import ObjectKey
from hotmap.kube.log_throttle import LogThrottle
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.retry import Backoff
from hotmap.kube.supervisor import SupervisedTasks, Supervisor

__all__ = ["OUTCOMES", "AlertTiming", "Alerts"]

#: Alerts that wait for a receiver; beyond that one is dropped: the oldest of the namespace that has
#: most of them.
_MAX_WAITING = 1000

#: Up to this many waiting alerts are a message each; of more, so many are one message.
_MAX_SINGLE = 10
_MAX_COMBINED = 20

#: Attempts for one message: with pauses of 1 to 30 s about a minute, after which it is not news.
_ATTEMPTS = 5

#: What became of alerts, as the metric counts them.
OUTCOMES = ("sent", "failed", "dropped")

_log = logging.getLogger(__name__)


class AlertTiming(NamedTuple):
    """When alerts are sent; times in seconds."""

    #: for one attempt, connecting included
    timeout: float = 10.0
    #: between two attempts, at first and at most; a receiver may ask for as much
    first_pause: float = 1.0
    max_pause: float = 30.0
    #: between two messages to a chat: Slack and Google Chat accept one a second
    chat_spacing: float = 1.0
    #: to send what is queued at shutdown
    grace: float = 2.0


_TIMING = AlertTiming()


class Alerts:
    """Sends until it is closed; nothing here blocks or fails its caller."""

    def __init__(self, settings: AlertSettings | None, *, timing: AlertTiming = _TIMING) -> None:
        self._settings = settings
        self._timing = timing
        self._waiting: deque[Alert] = deque()
        self._queued = asyncio.Event()
        #: Set while nothing waits and nothing is being sent.
        self._idle = asyncio.Event()
        self._idle.set()
        self._dropped = 0
        self._outcomes: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))
        self._throttle = LogThrottle()
        self._tasks: SupervisedTasks | None = None

    def start(self, supervisor: Supervisor) -> None:
        """Start sending."""
        if self._settings is not None:
            self._tasks = supervisor.tasks()
            self._tasks.start("send alerts", partial(self._run, self._settings))

    async def aclose(self) -> None:
        """Send what is queued as long as the timing allows, then stop."""
        if self._tasks is None:
            return
        # Not asyncio.timeout: see LeaderElector._release, we may be cancelled here, too.
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), self._timing.grace)
        await self._tasks.stop()

    def outcomes(self) -> Mapping[str, int]:
        """Count alerts since the start, by what became of them."""
        return self._outcomes

    def rolled_out(self, decision: Decision) -> None:
        """Queue an alert: a consumer was rolled out because some sources changed."""
        consumer = decision.snapshot.consumer
        self.add(consumer.key, decision.changed_sources(), decision.plan.reason)

    def add(self, consumer: ObjectKey, sources: Sequence[ObjectKey], reason: str) -> None:
        """Queue an alert, in place of an earlier one if too many wait."""
        if self._settings is None:
            return
        if len(self._waiting) == _MAX_WAITING:
            self._drop_one()
            self._dropped += 1
            self._outcomes["dropped"] += 1
            self._warn("dropped", "alert receiver too slow; dropping the oldest alerts")
        self._waiting.append(Alert(consumer, tuple(sources), reason))
        self._idle.clear()
        self._queued.set()

    def _drop_one(self) -> None:
        """Drop the oldest alert of the namespace with most of them: it costs no other's."""
        namespaces = [alert.workload.namespace for alert in self._waiting]
        ((most, _),) = Counter(namespaces).most_common(1)
        del self._waiting[namespaces.index(most)]

    async def _run(self, settings: AlertSettings) -> None:
        spacing = 0.0 if settings.sink is AlertSink.RAW else self._timing.chat_spacing
        next_at = loop_time()
        while True:
            if not self._waiting:
                self._idle.set()
                self._queued.clear()
                await self._queued.wait()
            await asyncio.sleep(next_at - loop_time())
            dropped, self._dropped = self._dropped, 0
            alerts = self._take(settings)
            refusal = await self._send(settings, alerts, dropped)
            self._outcomes["failed" if refusal else "sent"] += len(alerts)
            if refusal:
                self._dropped += dropped
                self._warn("failed", f"alert not sent: {refusal.reason}")
            else:
                self._throttle.end("failed")
            next_at = loop_time() + spacing

    def _take(self, settings: AlertSettings) -> list[Alert]:
        """Take the alerts of the next message: one, or several if many wait."""
        alerts = [self._waiting.popleft()]
        if len(self._waiting) < _MAX_SINGLE:
            return alerts
        length = _length(alerts[0], settings)
        while self._waiting and len(alerts) < _MAX_COMBINED:
            length += _length(self._waiting[0], settings)
            if length > LONGEST_MESSAGE:
                break
            alerts.append(self._waiting.popleft())
        return alerts

    async def _send(
        self, settings: AlertSettings, alerts: Sequence[Alert], dropped: int
    ) -> Refusal | None:
        """Send one message; returns why it was given up, or None."""
        body, content_type = format_alerts(
            settings.sink, alerts, info=settings.info, dropped=dropped
        )
        timing = self._timing
        backoff = Backoff(timing.first_pause, timing.max_pause)
        for left in range(_ATTEMPTS - 1, -1, -1):
            refusal = await post(
                settings.url, body, content_type, proxy=settings.proxy, timeout=timing.timeout
            )
            if refusal is None or refusal.is_final or not left:
                break
            await asyncio.sleep(max(backoff.next(), min(refusal.retry_after, timing.max_pause)))
        return refusal

    def _warn(self, kind: str, text: str) -> None:
        if self._throttle.should_log(kind, text, now=loop_time()):
            _log.warning(text)


def _length(alert: Alert, settings: AlertSettings) -> int:
    """Count the characters of an alert's line."""
    return len(format_alerts(AlertSink.RAW, [alert], info=settings.info).body) + 1
