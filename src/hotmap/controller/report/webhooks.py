"""Notifies other programs over HTTP of changes and rollouts.

* a change webhook gets one POST for each source that changed and was quiet for the settle time, or
  that differs from what was last applied to the consumers that follow it
* an alert gets one POST of text for each consumer that was rolled out

Both are sent in the background with time-outs and are retried, so that a slow or absent receiver
delays nothing. Data keys are named, values never; of a URL only the host is ever shown, since its
path is often the receiver's password.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from aiohttp import ClientError, ClientSession, ClientTimeout

from hotmap import __version__
from hotmap.controller.settings import AlertSettings, WebhookSettings
from hotmap.core.decide.snapshot import SourceSnapshot
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.source import Source, changed_keys
from hotmap.kube.retry import Backoff
from hotmap.kube.supervisor import SupervisedTasks, Supervisor
from hotmap.kube.workqueue import QueueShutDown, WorkQueue

__all__ = ["Webhooks"]

#: Seconds for one attempt, connecting included.
_TIMEOUT = 10.0

#: Alerts that wait for a receiver; the oldest is dropped beyond that.
_MAX_ALERTS = 1000

#: Attempts for one alert: with pauses of 1 to 30 s about a minute, after which it is no news.
_ATTEMPTS = 5

#: Seconds to send what is queued at shutdown.
_GRACE = 2.0

_log = logging.getLogger(__name__)


class _Change(NamedTuple):
    """The changes of a source since it was last sent."""

    what: str
    data_keys: frozenset[str]
    #: Found by comparison with the record; it was not watched.
    missed: bool = False


class Webhooks:
    """Sends until it is closed; nothing here blocks or fails its caller."""

    def __init__(
        self, settings: WebhookSettings, *, followers: Callable[[ObjectKey], Sequence[Consumer]]
    ) -> None:
        self._settings = settings
        self._followers = followers
        self._changes: dict[ObjectKey, _Change] = {}
        #: The sources with a watch event in this term, which the comparison need not report.
        self._seen: set[ObjectKey] = set()
        self._queue: WorkQueue[ObjectKey] = WorkQueue()
        self._alerts: deque[str] = deque()
        self._alert_queued = asyncio.Event()
        #: The number of items not sent yet, and whether there are none.
        self._pending = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks: SupervisedTasks | None = None

    def start(self, supervisor: Supervisor) -> None:
        """Start sending."""
        self._tasks = supervisor.tasks()
        if self._settings.change_url:
            self._tasks.start("send change webhooks", self._send_changes, may_return=True)
        if self._settings.alert is not None:
            self._tasks.start("send alerts", partial(self._send_alerts, self._settings.alert))

    def begin_term(self) -> None:
        """Forget the sources seen in an earlier term: other leaders have acted since."""
        self._seen.clear()

    async def aclose(self) -> None:
        """Send what is queued for at most _GRACE seconds, then stop."""
        if self._tasks:
            # Not asyncio.timeout: see LeaderElector._release, we may be cancelled here, too.
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), _GRACE)
        self._queue.shutdown()
        if self._tasks is not None:
            await self._tasks.stop()

    # -- queue --------------------------------------------------------------------------

    def source_changed(self, key: ObjectKey, old: Source | None, new: Source | None) -> None:
        """Queue a change of a source's data; a store calls this."""
        if not self._settings.change_url:
            return
        what = "created" if old is None else "deleted" if new is None else "updated"
        wanted = {"created": self._settings.on_create, "deleted": self._settings.on_delete}
        data_keys = changed_keys(old, new)
        if not wanted.get(what, bool(data_keys)):
            return
        self._seen.add(key)
        self._add_change(key, _Change(what, data_keys))
        self._send_settled(key)

    def source_found_changed(self, current: SourceSnapshot) -> None:
        """Queue a source that differs from the record, unless a watch event was seen already.

        So a change while no controller was running is sent too, if a consumer follows the source.
        The changed data keys are unknown then.
        """
        key = current.source
        if not self._settings.change_url or key in self._seen:
            return
        self._seen.add(key)
        self._add_change(
            key, _Change("updated" if current.exists else "deleted", frozenset(), True)
        )
        self._send_settled(key)

    def _send_settled(self, key: ObjectKey) -> None:
        self._queue.add_settled(
            key, settle=self._settings.settle, settle_max=self._settings.settle_max
        )

    def rolled(self, consumer: Consumer, sources: Sequence[ObjectKey], reason: str) -> None:
        """Queue an alert: a consumer was rolled out because some sources changed."""
        if self._settings.alert is None:
            return
        if len(self._alerts) == _MAX_ALERTS:
            _log.warning("alert webhook too slow; dropping its oldest alert")
            self._alerts.popleft()
            self._count_pending(-1)
        self._alerts.append(_alert_text(self._settings.alert, consumer, sources, reason))
        self._count_pending(1)
        self._alert_queued.set()

    def _add_change(self, key: ObjectKey, change: _Change) -> None:
        """Merge a change into the pending change of a source."""
        before = self._changes.get(key)
        if before is None:
            self._count_pending(1)
        known, missed = (before.data_keys, before.missed) if before else (frozenset(), False)
        self._changes[key] = _Change(change.what, known | change.data_keys, missed or change.missed)

    def _count_pending(self, count: int) -> None:
        self._pending += count
        if self._pending:
            self._idle.clear()
        else:
            self._idle.set()

    # -- sending -------------------------------------------------------------------------------

    async def _send_changes(self) -> None:
        async with _session() as session:
            while True:
                try:
                    key = await self._queue.get()
                except QueueShutDown:
                    return
                change = self._changes.pop(key)
                body = msgspec.json.encode(self._document(key, change))
                refusal = await _post(
                    session, self._settings.change_url, body, "application/json", proxy=""
                )
                if refusal:
                    # Changes since then were added again; both are sent together.
                    later = self._changes.get(key, change)
                    self._add_change(key, change._replace(what=later.what))
                    pause = self._queue.retry(key)
                    _log.warning(
                        "change webhook failed: %s; retrying in %.1fs",
                        refusal,
                        pause,
                        extra={"source": str(key)},
                    )
                else:
                    self._queue.forget(key)
                self._count_pending(-1)
                self._queue.done(key)

    def _document(self, key: ObjectKey, change: _Change) -> dict[str, Any]:
        """Describe a change; Reloader sends only `webhook`."""
        return {
            "webhook": "update successful",
            "change": change.what,
            "kind": key.kind,
            "namespace": key.namespace,
            "name": key.name,
            "dataKeys": sorted(change.data_keys),
            "missed": change.missed,
            "workloads": [
                {
                    "kind": follower.key.kind,
                    "namespace": follower.key.namespace,
                    "name": follower.key.name,
                }
                for follower in self._followers(key)
            ],
        }

    async def _send_alerts(self, settings: AlertSettings) -> None:
        async with _session() as session:
            while True:
                await self._alert_queued.wait()
                self._alert_queued.clear()
                while self._alerts:
                    await _send_alert(session, settings, self._alerts.popleft())
                    self._count_pending(-1)


async def _send_alert(session: ClientSession, settings: AlertSettings, text: str) -> None:
    backoff = Backoff(1.0, 30.0)
    for attempt in range(1, _ATTEMPTS + 1):
        refusal = await _post(
            session, settings.url, text.encode(), "text/plain", proxy=settings.proxy
        )
        if not refusal:
            return
        if attempt < _ATTEMPTS:
            await asyncio.sleep(backoff.next())
    _log.warning("alert not sent after %d attempts: %s", _ATTEMPTS, refusal)


def _session() -> ClientSession:
    return ClientSession(
        timeout=ClientTimeout(total=_TIMEOUT), headers={"User-Agent": f"hotmap/{__version__}"}
    )


async def _post(
    session: ClientSession, url: str, body: bytes, content_type: str, *, proxy: str
) -> str:
    """Send once; returns why it failed, or "". A redirect is a failure, as for Reloader."""
    host = urlsplit(url).hostname
    try:
        async with session.post(
            url,
            data=body,
            headers={"Content-Type": content_type},
            proxy=proxy or None,
            allow_redirects=False,
        ) as answer:
            return "" if answer.status < 300 else f"{host} answered {answer.status}"
    except TimeoutError:
        return f"{host} did not answer within {_TIMEOUT:g}s"
    except (ClientError, OSError, ValueError) as error:
        # The messages of these contain the whole URL.
        return f"cannot reach {host} ({type(error).__name__})"


_TYPES = {"ConfigMap": "CONFIGMAP", "Secret": "SECRET"}


def _alert_text(
    settings: AlertSettings, consumer: Consumer, sources: Sequence[ObjectKey], reason: str
) -> str:
    """Word an alert as Reloader does (internal/pkg/handler/upgrade.go), and add the reason."""
    kind, namespace, name = consumer.key
    changed = " and ".join(f"{source.name} of type {_TYPES[source.kind]}" for source in sources)
    prefix = f"{settings.info} : " if settings.info else ""
    return (
        f"{prefix}Reloader detected changes in {changed} in namespace {namespace}. "
        f"Hence reloaded {name} of type {kind} in namespace {namespace}. {reason}"
    )
