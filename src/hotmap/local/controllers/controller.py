"""The base of all controllers: caches, a queue with workers, and Events.

kubernetes: cmd/kube-controller-manager/app, ControllerContext; controller-runtime, Controller. What
a controller watches and what its sync does is its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from hotmap.local.client import Client
from hotmap.local.controllers.loop import KeyedLoop
from hotmap.local.controllers.ownership import Ownership, is_selected
from hotmap.local.informer import Informers, by_namespace
from hotmap.local.meta import Object, ObjectName, controller_of, name_of
from hotmap.local.recorder import Recorder

__all__ = ["Controller", "ControllerContext", "OwnerController"]

K = TypeVar("K", bound=tuple[str, ...])


class ControllerContext(NamedTuple):
    """What all controllers share; *clock* gives POSIX seconds and is the API server's clock."""

    client: Client
    informers: Informers
    clock: Callable[[], float] = time.time


class Controller(Generic[K]):
    """Bring objects closer to their specification, one key at a time.

    *name* is for the log, *component* for Events. A controller subscribes to informers in its
    constructor and adds keys to `_loop`; the caches are filled before `run`.
    """

    def __init__(self, context: ControllerContext, name: str, *, component: str = "") -> None:
        self._client = context.client
        self._informers = context.informers
        self._clock = context.clock
        self._recorder = Recorder(context.client, component or name, clock=context.clock)
        self._loop: KeyedLoop[K] = KeyedLoop(name, self.sync)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._recorder.run())
            tasks.create_task(self._loop.run())

    async def sync(self, key: K) -> None:
        """Bring one object up to date; called again after a failure."""
        raise NotImplementedError

    def _add_changed(self: Controller[ObjectName], old: Object | None, new: Object | None) -> None:
        """Add an object that was created or changed: a listener of an informer."""
        if new is not None:
            self._loop.add(name_of(new))


class OwnerController(Controller[ObjectName]):
    """A controller whose objects own others that their selector finds.

    Keys are those of the owners. An owner is added when it changes, when something it owns
    changes, and when it selects an object without a controller. An adopted object gets `finalizer`.
    `is_member` says of a selected object whether an owner may have it.
    """

    def __init__(
        self,
        context: ControllerContext,
        name: str,
        *,
        owners: str,
        dependents: str,
        finalizer: str = "",
        is_member: Callable[[Object, Object], bool] = lambda owner, dependent: True,
    ) -> None:
        super().__init__(context, name, component=f"{name}-controller")
        self._owners = self._informers[owners]
        self._owners_in_namespace = self._owners.index(by_namespace)
        self._dependents = self._informers[dependents]
        scheme = self._client.scheme
        self._ownership = Ownership(
            self._client,
            self._dependents,
            owner=scheme.resource(owners),
            dependent=scheme.resource(dependents),
            finalizer=finalizer,
            is_member=is_member,
        )
        self._owners.subscribe(self._add_changed)
        self._dependents.subscribe(self._on_dependent)

    def _on_dependent(self, old: Object | None, new: Object | None) -> None:
        self._add_owners(self._ownership, old, new)

    def _add_owners(self, ownership: Ownership, old: Object | None, new: Object | None) -> None:
        """Add the owners of an object that changed, and those that select it if it has none."""
        for dependent in (old, new):
            owner = ownership.owner_name(dependent)
            if dependent is not None and owner is not None:
                self._loop.add((dependent["metadata"]["namespace"], owner))
        if new is not None and controller_of(new) is None:
            for candidate in self._owners_in_namespace.get(new["metadata"]["namespace"]):
                if is_selected(candidate, new):
                    self._loop.add(name_of(candidate))
