"""Notifies another program over HTTP of changes of sources.

It gets one POST for each source that changed and was quiet for the settle time, or that differs
from what was last applied to the consumers that follow it. They are sent in the background with
time-outs and are retried, so that a slow or absent receiver delays nothing. Data keys are named,
values never.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from hotmap.controller.report.http_post import post
from hotmap.controller.settings import WebhookSettings
from hotmap.core.decide.source_snapshot import SourceSnapshot
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.source import Source, changed_keys
from hotmap.kube.supervisor import SupervisedTasks, Supervisor
from hotmap.kube.workqueue import QueueShutDown, WorkQueue

__all__ = ["Webhooks"]

#: Sources that are known to have been sent in this term.
_SEEN = 100_000

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
        #: The sources with a watch event in this term, which the comparison need not report; the
        #: latest, since anybody may create sources without end.
        self._seen: dict[ObjectKey, None] = {}
        self._queue: WorkQueue[ObjectKey] = WorkQueue()
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
        self._add_seen(key)
        self._add_change(
            key, _Change("updated" if current.exists else "deleted", frozenset(), True)
        )
        self._send_settled(key)

    def _add_seen(self, key: ObjectKey) -> None:
        self._seen.pop(key, None)
        self._seen[key] = None
        if len(self._seen) > _SEEN:
            del self._seen[next(iter(self._seen))]

    def _send_settled(self, key: ObjectKey) -> None:
        self._queue.add_settled(
            key, settle=self._settings.settle, settle_max=self._settings.settle_max
        )

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
        while True:
            try:
                key = await self._queue.get()
            except QueueShutDown:
                return
            change = self._changes.pop(key)
            body = msgspec.json.encode(self._document(key, change))
            url = self._settings.change_url
            refusal = await post(url, body, "application/json")
            if refusal:
                # Changes since then were added again; both are sent together.
                later = self._changes.get(key, change)
                self._add_change(key, change._replace(what=later.what))
                pause = self._queue.retry(key)
                _log.warning(
                    "change webhook failed: %s; retrying in %.1fs",
                    refusal.reason,
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
