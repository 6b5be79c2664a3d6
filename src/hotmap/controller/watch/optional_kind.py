"""Watches a kind that a cluster may or may not have, while it exists.

Discovery shows whether the kind exists, which needs no extra permission (kubernetes: the
ClusterRole system:discovery); a list that is refused would not distinguish a missing permission
from a missing kind. One small request every POLL seconds detects definitions that are installed or
removed meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import msgspec

from hotmap.core.errors import ApiError, NotFound, Unreachable
from hotmap.kube.client import Client
from hotmap.kube.reflector import Reflector
from hotmap.kube.resources import Resource
from hotmap.kube.store import Store
from hotmap.kube.supervisor import Supervisor

__all__ = ["POLL", "OptionalKind"]

#: Seconds between two discovery requests.
POLL = 30.0

#: How often in a row an existing kind has to be missing: one of several servers may lag.
_MISSING = 2

_log = logging.getLogger(__name__)


class _APIResource(msgspec.Struct):
    name: str = ""


class _APIResourceList(msgspec.Struct):
    resources: list[_APIResource] = []


class OptionalKind:
    """The reflectors of a kind while the API server has it, and an empty store while not."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        make: Callable[[], Sequence[Reflector[Any, Any]]],
        store: Store[Any],
        supervisor: Supervisor,
        poll: float = POLL,
    ) -> None:
        """`make` returns new reflectors that fill `store`; `poll` is in seconds."""
        self._client = client
        self._resource = resource
        self._make = make
        self._store = store
        self._poll = poll
        self._missing = 0
        self._problem = ""
        self._tasks = supervisor.tasks()
        #: Running; none while the kind does not exist.
        self.reflectors: Sequence[Reflector[Any, Any]] = ()
        #: Set once it is known whether the kind exists.
        self.answered = asyncio.Event()

    @property
    def plural(self) -> str:
        """The name of the resource."""
        return self._resource.plural

    async def run(self) -> NoReturn:
        """Watch the kind while it exists, until cancelled; the store is left unchanged then."""
        try:
            while True:
                await self._check()
                await asyncio.sleep(self._poll)
        finally:
            await self._stop()

    async def _check(self) -> None:
        try:
            exists = await self._exists()
        except (ApiError, Unreachable) as error:
            # Logged once; the watches continue.
            level = logging.DEBUG if str(error) == self._problem else logging.WARNING
            _log.log(level, "cannot determine whether %s exist: %s", self._resource.plural, error)
            self._problem = str(error)
            if isinstance(error, ApiError):
                # This does not mean that the kind is absent: only its objects are waited for.
                self.answered.set()
            return
        self._problem = ""
        if exists:
            self._missing = 0
            self._begin()
        elif self.reflectors:
            self._missing += 1
            if self._missing >= _MISSING:
                await self._end()
        self._answer_absent_at_first()

    async def _exists(self) -> bool:
        path = f"/apis/{self._resource.api_version}"
        try:
            body = await self._client.request("GET", path)
        except NotFound:
            return False
        found = self._client.decode(body, _APIResourceList, path)
        return any(resource.name == self._resource.plural for resource in found.resources)

    def _answer_absent_at_first(self) -> None:
        if not self.answered.is_set() and not self.reflectors:
            self._store.synced.set()
        self.answered.set()

    def _begin(self) -> None:
        if self.reflectors:
            return
        _log.info("%s.%s: watched", self._resource.plural, self._resource.group)
        self.reflectors = tuple(self._make())
        for reflector in self.reflectors:
            self._tasks.start(f"watch {self._resource.plural}", reflector.run)

    async def _end(self) -> None:
        _log.info("%s.%s are no longer served", self._resource.plural, self._resource.group)
        await self._stop()
        for key in list(self._store):
            self._store.remove(key)

    async def _stop(self) -> None:
        self.reflectors = ()
        await self._tasks.stop()
