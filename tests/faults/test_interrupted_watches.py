"""What an interrupted watch missed is never taken for something that happened just now.

A list in its place has only the last state of each object: the same data under another version was
maybe other data for a while. A watch that is resumed delivers everything, but late.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from tests.faults.conftest import FAST
from tests.support.fault_server import (
    Behaviour,
    FaultServer,
    Truth,
    expired_event,
    reset_mid_line,
    silent_after_bookmark,
)
from tests.support.objects import KEY

from hotmap.controller.watch.changes import ChangeListener
from hotmap.controller.watch.index import Index
from hotmap.core.model.objects import ConfigMap, ObjectKey
from hotmap.core.model.source import source_from_config_map
from hotmap.core.model.state import ObservedChange
from hotmap.core.policy.policy import Defaults
from hotmap.kube.client import Client, Limits
from hotmap.kube.config import TLS, BearerToken, ClusterConfig
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.reflector import CAUGHT_UP_AFTER, Reflector
from hotmap.kube.resources import CONFIGMAPS, Selection
from hotmap.kube.store_writer import StoreWriter

A = ObjectKey("ConfigMap", "default", "a")

#: Long enough that a pause of CAUGHT_UP_AFTER fits into one watch.
TIMING = FAST._replace(silence=5.0)


class Watching:
    """An index whose ConfigMaps are watched, by a watch that has delivered everything."""

    def __init__(self, index: Index, server: FaultServer) -> None:
        self._index, self._server = index, server
        self._changed = asyncio.Event()
        index.sources["ConfigMap"].subscribe(lambda key, old, new: self._changed.set())

    async def version(self, wanted: int) -> None:
        """Wait until the ConfigMap `a` is known in a version."""
        async with asyncio.timeout(60):
            store = self._index.sources["ConfigMap"]
            while (there := store.get(A)) is None or there.resource_version != str(wanted):
                self._changed.clear()
                await self._changed.wait()

    def interrupt(self, behaviour: Behaviour) -> float:
        """Cut the watch, and let the next one end as `behaviour` says; return when it was cut."""
        self._server.script("watch", behaviour)
        self._server.cut()
        return loop_time()

    def changes(self) -> Sequence[ObservedChange]:
        """Return what has been recorded of `a` since the first list."""
        return self._index.history.changes(A)


@asynccontextmanager
async def watching(server: FaultServer, *, can_stream: bool = False) -> AsyncIterator[Watching]:
    """Watch ConfigMaps; returns when the watch is known to have delivered everything."""
    server.can_stream = can_stream
    index = Index(defaults=Defaults(), clock=loop_time)
    ChangeListener(index, clock=loop_time)
    config = ClusterConfig(server.url, "the test", BearerToken(), TLS())
    async with Client(config, limits=Limits(connect=1, attempt=0.5)) as client:
        reflector = Reflector(
            client,
            Selection(CONFIGMAPS),
            type=ConfigMap,
            writer=StoreWriter(
                index.sources["ConfigMap"], lambda item: source_from_config_map(item, [KEY])
            ),
            timing=TIMING,
        )
        watched = Watching(index, server)
        task = asyncio.create_task(reflector.run())
        try:
            await watched.version(101)
            await asyncio.sleep(CAUGHT_UP_AFTER + 1)
            yield watched
        finally:
            task.cancel()
            await asyncio.wait([task])


def edit_and_revert(truth: Truth) -> None:
    truth.put("a", "2")
    truth.put("a", "1")


@pytest.mark.parametrize("can_stream", [False, True], ids=["list", "stream"])
async def test_edit_and_revert_before_a_list_leaves_a_window(
    truth: Truth, server: FaultServer, can_stream: bool
) -> None:
    """The position expired: the list shows the same data, and another version."""
    async with watching(server, can_stream=can_stream) as watched:
        cut_at = watched.interrupt(expired_event)
        edit_and_revert(truth)
        await watched.version(truth.revision)
        [seen] = watched.changes()
        assert seen.same
        assert seen.since is not None
        assert seen.since <= cut_at <= seen.at
        assert seen.resource_version == str(truth.revision)


@pytest.mark.parametrize("behaviour", [reset_mid_line, silent_after_bookmark])
async def test_resumed_watch_delivers_late_changes_as_such(
    truth: Truth, server: FaultServer, behaviour: Behaviour
) -> None:
    """They happened at any time since the watch had last made progress."""
    async with watching(server) as watched:
        cut_at = watched.interrupt(behaviour)
        edit_and_revert(truth)
        await watched.version(truth.revision)
        edit, revert = watched.changes()
        assert edit.since is not None
        assert edit.since <= cut_at <= edit.at
        assert not edit.same
        assert revert.at >= edit.at


async def test_recreation_before_a_list_is_a_deletion_and_a_creation(
    truth: Truth, server: FaultServer
) -> None:
    """Another uid with the same data: it was absent for a while, and may have had other content."""
    async with watching(server) as watched:
        watched.interrupt(expired_event)
        truth.delete("a")
        truth.put("a", "1")
        truth.objects["default", "a"]["metadata"]["uid"] = "another"
        await watched.version(truth.revision)
        written, deleted, created = watched.changes()
        assert written.same
        assert deleted.resource_version == ""
        assert deleted.since is not None
        assert created.keys == {"value"}


async def test_live_change_happened_when_it_was_seen(truth: Truth, server: FaultServer) -> None:
    """A watch that has delivered everything tells of changes as they happen."""
    async with watching(server) as watched:
        truth.put("a", "2")
        await watched.version(truth.revision)
        [seen] = watched.changes()
        assert seen.since is None


async def test_write_of_other_fields_while_watched_leaves_no_window(
    truth: Truth, server: FaultServer
) -> None:
    """A label under a resumed watch: each version was seen."""
    async with watching(server) as watched:
        watched.interrupt(reset_mid_line)
        truth.put("a", "1")
        await watched.version(truth.revision)
        assert watched.changes() == ()
