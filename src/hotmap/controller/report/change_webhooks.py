"""Notifies another program over HTTP of changes of sources.

It gets one POST for each source that changed and was quiet for the settle time, or that differs
from what was last applied to the consumers that follow it. They are sent in the background with
time-outs and are retried, so that a slow or absent receiver delays nothing; one that refuses a
change for good is asked for a while, and what waits is bounded. Data keys are named, values never.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from hotmap.controller.report.http_post import Refusal, post
from hotmap.controller.settings import WebhookSettings
from hotmap.core.decide.source_snapshot import SourceSnapshot
from hotmap.core.duration import format_age
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.source import Source, changed_keys
from hotmap.kube.bounded_dict import put_latest
from hotmap.kube.log_throttle import LogThrottle
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.supervisor import SupervisedTasks, Supervisor
from hotmap.kube.workqueue import QueueShutDown, WorkQueue

__all__ = ["ChangeWebhooks"]

#: Sources that are known to have been sent in this term.
_SEEN = 100_000

#: Sources of one namespace that wait for the receiver; further ones are dropped.
_MAX_WAITING = 1000

#: Data keys that a change names; of more it names none, as if they were unknown.
_MAX_DATA_KEYS = 1000

#: Seconds for which a change is sent again to a receiver that refuses it for good, as one does that
#: is not deployed completely yet (404).
_PATIENCE = 600.0

#: Seconds to send what is queued at shutdown.
_GRACE = 2.0

_log = logging.getLogger(__name__)


class _Change(NamedTuple):
    """The changes of a source since it was last sent."""

    what: str
    data_keys: frozenset[str]
    #: Whether these are too many to be named.
    many: bool = False
    #: Found by comparison with the record; it was not watched.
    missed: bool = False
    #: Since when the receiver has refused it for good, on the loop's clock; None: it has not.
    refused_since: float | None = None


class ChangeWebhooks:
    """Sends until it is closed; nothing here blocks or fails its caller."""

    def __init__(
        self, settings: WebhookSettings, *, followers: Callable[[ObjectKey], Sequence[Consumer]]
    ) -> None:
        self._settings = settings
        self._followers = followers
        self._changes: dict[ObjectKey, _Change] = {}
        #: The sources with a watch event in this term, which the comparison need not report; the
        #: latest, since any tenant may create sources without end.
        self._seen: dict[ObjectKey, None] = {}
        self._queue: WorkQueue[ObjectKey] = WorkQueue(group=_namespace_of)
        #: The number of items not sent yet by namespace, and whether there are none.
        self._pending: Counter[str] = Counter()
        #: The source whose change is being sent.
        self._sending: ObjectKey | None = None
        self._throttle = LogThrottle()
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks: SupervisedTasks | None = None

    def start(self, supervisor: Supervisor) -> None:
        """Start sending."""
        self._tasks = supervisor.tasks()
        if self._settings.change_url:
            self._tasks.start("send change webhooks", self._send_changes, may_return=True)

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
        self._add_seen(key)
        self._queue_change(key, _Change(what, data_keys))

    def source_found_changed(self, current: SourceSnapshot) -> None:
        """Queue a source that differs from the record, unless a watch event was seen already.

        So a change while no controller was running is sent too, if a consumer follows the source.
        The changed data keys are unknown then.
        """
        key = current.source
        if not self._settings.change_url or key in self._seen:
            return
        self._add_seen(key)
        what = "updated" if current.exists else "deleted"
        self._queue_change(key, _Change(what, frozenset(), missed=True))

    def _add_seen(self, key: ObjectKey) -> None:
        put_latest(self._seen, key, None, most=_SEEN)

    def _queue_change(self, key: ObjectKey, change: _Change) -> None:
        is_new = key not in self._changes and key != self._sending
        if is_new and self._pending[key.namespace] >= _MAX_WAITING:
            text = f"change webhook: {_MAX_WAITING} sources of a namespace wait; dropping others"
            self._warn("dropped", text, key)
            return
        self._add_change(key, change)
        self._queue.add_settled(
            key, settle=self._settings.settle, settle_max=self._settings.settle_max
        )

    def _add_change(self, key: ObjectKey, change: _Change) -> None:
        """Merge a change into the pending change of a source."""
        before = self._changes.get(key)
        if before is None:
            self._count_pending(key, 1)
        self._changes[key] = _merge(before, change) if before else _bound(change)

    def _count_pending(self, key: ObjectKey, count: int) -> None:
        self._pending[key.namespace] += count
        if not self._pending[key.namespace]:
            del self._pending[key.namespace]
        if self._pending:
            self._idle.clear()
        else:
            self._idle.set()

    def _warn(self, kind: str, text: str, key: ObjectKey) -> None:
        if self._throttle.should_log(kind, text, now=loop_time()):
            _log.warning(text, extra={"source": str(key)})

    # -- sending -------------------------------------------------------------------------------

    async def _send_changes(self) -> None:
        while True:
            try:
                key = await self._queue.get()
            except QueueShutDown:
                return
            self._sending, change = key, self._changes.pop(key)
            body = msgspec.json.encode(self._document(key, change))
            url = self._settings.change_url
            refusal = await post(url, body, "application/json")
            if refusal:
                self._retry(key, change, refusal)
            else:
                self._queue.forget(key)
                self._throttle.end("failed")
            self._sending = None
            self._count_pending(key, -1)
            self._queue.done(key)

    def _retry(self, key: ObjectKey, change: _Change, refusal: Refusal) -> None:
        """Send a change again later, unless the receiver has refused it for too long.

        Changes since then were added again; both are sent together.
        """
        now = loop_time()
        since = change.refused_since if change.refused_since is not None else now
        if refusal.is_final and now - since >= _PATIENCE:
            self._queue.forget(key)
            _log.error(
                "change webhook given up: %s for %s",
                refusal.reason,
                format_age(now - since),
                extra={"source": str(key)},
            )
            return
        later = self._changes.get(key, change)
        self._add_change(key, change._replace(what=later.what))
        self._changes[key] = self._changes[key]._replace(
            refused_since=since if refusal.is_final else None
        )
        pause = self._queue.retry(key, least=refusal.retry_after)
        text = f"change webhook failed: {refusal.reason}"
        if self._throttle.should_log("failed", text, now=now):
            _log.warning("%s; retrying in %.1fs", text, pause, extra={"source": str(key)})

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


def _namespace_of(key: ObjectKey) -> str:
    return key.namespace


def _merge(before: _Change, change: _Change) -> _Change:
    return _bound(
        before._replace(
            what=change.what,
            data_keys=before.data_keys | change.data_keys,
            many=before.many or change.many,
            missed=before.missed or change.missed,
        )
    )


def _bound(change: _Change) -> _Change:
    """Name no data keys where they are too many: a tenant may choose new ones with each edit."""
    if change.many or len(change.data_keys) > _MAX_DATA_KEYS:
        return change._replace(data_keys=frozenset(), many=True)
    return change
