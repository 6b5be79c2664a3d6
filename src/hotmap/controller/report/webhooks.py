"""Tells other programs over HTTP what changed: instead of acting, or after it.

* a change webhook gets one POST for each source that changed and was quiet for the settle time, or
  that differs from what was last asked of those who follow it
* an alert gets one POST of text for each consumer that was rolled

Both are sent in the background with time-outs and are tried again, so that a slow or absent
receiver delays nobody. Data keys are named, values never; of a URL only the host is ever shown,
since its path is often the receiver's password.
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
_WAITING = 1000

#: Attempts for one alert: with pauses of 1 to 30 s about a minute, after which it is no news.
_ATTEMPTS = 5

#: Seconds that what waits gets at the end.
_GRACE = 2.0

_log = logging.getLogger(__name__)


class _Change(NamedTuple):
    """What was seen of a source since it was last told."""

    what: str
    data_keys: frozenset[str]
    #: Found by comparison with what was asked; nobody saw it happen.
    missed: bool = False


class Webhooks:
    """Sends until it is closed; nothing here blocks or fails its caller."""

    def __init__(
        self, settings: WebhookSettings, *, followers: Callable[[ObjectKey], Sequence[Consumer]]
    ) -> None:
        self._settings = settings
        self._followers = followers
        self._changes: dict[ObjectKey, _Change] = {}
        #: The sources that were heard of in this term: the comparison brings no news of them.
        self._heard: set[ObjectKey] = set()
        self._queue: WorkQueue[ObjectKey] = WorkQueue()
        self._alerts: deque[str] = deque()
        self._alerted = asyncio.Event()
        #: What is to be sent and not sent yet, and whether that is nothing.
        self._owed = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks: SupervisedTasks | None = None

    def start(self, supervisor: Supervisor) -> None:
        """Begin to send what is told from now on."""
        self._tasks = supervisor.tasks()
        if self._settings.change_url:
            self._tasks.start("send change webhooks", self._send_changes, may_return=True)
        if self._settings.alert is not None:
            self._tasks.start("send alerts", partial(self._send_alerts, self._settings.alert))

    def begin_term(self) -> None:
        """Forget what was heard of while we led before: others have acted since."""
        self._heard.clear()

    async def aclose(self) -> None:
        """Send what waits for at most _GRACE seconds, and end."""
        if self._tasks:
            # Not asyncio.timeout: see LeaderElector._release, we may be cancelled here, too.
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), _GRACE)
        self._queue.shutdown()
        if self._tasks is not None:
            await self._tasks.stop()

    # -- what is told --------------------------------------------------------------------------

    def source_changed(self, key: ObjectKey, old: Source | None, new: Source | None) -> None:
        """Tell of a change of a source's data; a store calls this."""
        if not self._settings.change_url:
            return
        what = "created" if old is None else "deleted" if new is None else "updated"
        wanted = {"created": self._settings.on_create, "deleted": self._settings.on_delete}
        data_keys = changed_keys(old, new)
        if not wanted.get(what, bool(data_keys)):
            return
        self._heard.add(key)
        self._file(key, _Change(what, data_keys))
        self._tell_soon(key)

    def source_found_changed(self, present: SourceSnapshot) -> None:
        """Tell of a source that differs from what was asked, unless it was heard of already.

        So a change while nobody was watching is told too, as far as a consumer follows the source.
        Which data keys changed is not known any more.
        """
        key = present.source
        if not self._settings.change_url or key in self._heard:
            return
        self._heard.add(key)
        self._file(key, _Change("updated" if present.exists else "deleted", frozenset(), True))
        self._tell_soon(key)

    def _tell_soon(self, key: ObjectKey) -> None:
        self._queue.add_settled(
            key, settle=self._settings.settle, settle_max=self._settings.settle_max
        )

    def rolled(self, consumer: Consumer, sources: Sequence[ObjectKey], reason: str) -> None:
        """Tell that a consumer was rolled since some sources changed, and why in words."""
        if self._settings.alert is None:
            return
        if len(self._alerts) == _WAITING:
            _log.warning("the alert webhook does not keep up; its oldest alert is dropped")
            self._alerts.popleft()
            self._owe(-1)
        self._alerts.append(_alert_text(self._settings.alert, consumer, sources, reason))
        self._owe(1)
        self._alerted.set()

    def _file(self, key: ObjectKey, change: _Change) -> None:
        """Add a change to what is to be told of a source."""
        before = self._changes.get(key)
        if before is None:
            self._owe(1)
        known, missed = (before.data_keys, before.missed) if before else (frozenset(), False)
        self._changes[key] = _Change(change.what, known | change.data_keys, missed or change.missed)

    def _owe(self, count: int) -> None:
        self._owed += count
        if self._owed:
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
                    # What changed meanwhile was filed anew; both are told together.
                    later = self._changes.get(key, change)
                    self._file(key, change._replace(what=later.what))
                    pause = self._queue.retry(key)
                    _log.warning("%s is told again in %.1f s: %s", key, pause, refusal)
                else:
                    self._queue.forget(key)
                self._owe(-1)
                self._queue.done(key)

    def _document(self, key: ObjectKey, change: _Change) -> dict[str, Any]:
        """Say what changed where; `webhook` is all that Reloader sends."""
        return {
            "webhook": "update successful",
            "change": change.what,
            "kind": key.kind,
            "namespace": key.namespace,
            "name": key.name,
            "dataKeys": sorted(change.data_keys),
            "missed": change.missed,
            "consumers": [
                {"kind": one.key.kind, "namespace": one.key.namespace, "name": one.key.name}
                for one in self._followers(key)
            ],
        }

    async def _send_alerts(self, settings: AlertSettings) -> None:
        async with _session() as session:
            while True:
                await self._alerted.wait()
                self._alerted.clear()
                while self._alerts:
                    await _send_alert(session, settings, self._alerts.popleft())
                    self._owe(-1)


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
    _log.warning("an alert is given up after %d attempts: %s", _ATTEMPTS, refusal)


def _session() -> ClientSession:
    return ClientSession(
        timeout=ClientTimeout(total=_TIMEOUT), headers={"User-Agent": f"hotmap/{__version__}"}
    )


async def _post(
    session: ClientSession, url: str, body: bytes, content_type: str, *, proxy: str
) -> str:
    """Send once; returns why it was not taken, or "". A redirect is a refusal, as for Reloader."""
    host = urlsplit(url).hostname
    try:
        async with session.post(
            url,
            data=body,
            headers={"Content-Type": content_type},
            proxy=proxy or None,
            allow_redirects=False,
        ) as answer:
            return "" if answer.status < 300 else f"{host} answers {answer.status}"
    except TimeoutError:
        return f"{host} does not answer within {_TIMEOUT:g} s"
    except (ClientError, OSError, ValueError) as error:
        # The texts of these name the whole URL.
        return f"{host} cannot be reached ({type(error).__name__})"


_TYPES = {"ConfigMap": "CONFIGMAP", "Secret": "SECRET"}


def _alert_text(
    settings: AlertSettings, consumer: Consumer, sources: Sequence[ObjectKey], reason: str
) -> str:
    """Word an alert as Reloader does (internal/pkg/handler/upgrade.go), and add the reason."""
    kind, namespace, name = consumer.key
    changed = " and ".join(f"{one.name} of type {_TYPES[one.kind]}" for one in sources)
    prefix = f"{settings.info} : " if settings.info else ""
    return (
        f"{prefix}Reloader detected changes in {changed} in namespace {namespace}. "
        f"Hence reloaded {name} of type {kind} in namespace {namespace}. {reason}"
    )
