"""Leads when it can: acquires the Lease, and runs one term after the other while it is held.

A single replica needs no Lease. A standby fills its stores too, so that it can begin at once; what
it has is listed again first, since its watches may lag behind what the last leader saw. A term also
ends when the fingerprint keys are replaced, and the next one begins with the new keys.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from hotmap.controller.other_leader import OtherLeaderWarning
from hotmap.controller.report.status import LeaderView
from hotmap.controller.settings import Settings
from hotmap.controller.term import LeaderTerm
from hotmap.controller.watch.reflectors import Reflectors
from hotmap.core.errors import NotLeading
from hotmap.core.fingerprint import FingerprintKey
from hotmap.core.model.objects import ObjectKey
from hotmap.kube.client import Client
from hotmap.kube.leaderelection import LeaderElector
from hotmap.kube.resources import LEASES
from hotmap.kube.supervisor import Supervisor

__all__ = ["LEASE", "Leadership"]

#: The Lease that replicas compete for, in the controller's namespace.
LEASE = "hotmap-controller"

#: Seconds for the first attempt to acquire the Lease; after that the stores are filled anyway.
_FIRST_TRY = 1.0

_log = logging.getLogger(__name__)


class Leadership:
    """Whether this replica leads, and the term that runs meanwhile."""

    def __init__(self, client: Client, settings: Settings, supervisor: Supervisor) -> None:
        self._lease = ObjectKey(LEASES.kind, settings.namespace, LEASE)
        self._other_leader = (
            OtherLeaderWarning(client, self._lease) if settings.warns_of_leader else None
        )
        self._elector = (
            LeaderElector(
                client,
                self._lease,
                identity=settings.identity,
                timing=settings.lease,
                supervisor=supervisor,
            )
            if settings.identity
            else None
        )
        self._background = supervisor.tasks()
        self._task: asyncio.Task[None] | None = None
        self._keys: tuple[FingerprintKey, ...] = ()
        #: Set when a new term with other keys has to begin.
        self._keys_changed = asyncio.Event()
        #: Set once the Lease was acquired, or none was needed.
        self._elected = asyncio.Event()
        #: Set while a term has begun; a standby's is not.
        self._acting = asyncio.Event()
        #: The term that has begun and not ended.
        self.term: LeaderTerm | None = None

    @property
    def is_acting(self) -> bool:
        """Whether a term has begun and not ended."""
        return self._acting.is_set()

    @property
    def keys(self) -> tuple[FingerprintKey, ...]:
        """The fingerprint keys of the next term, newest first."""
        return self._keys

    def may_write(self) -> bool:
        """Return whether no other replica may lead at this moment."""
        return self._elector is None or self._elector.is_leader

    def check_leading(self) -> None:
        """Refuse to write once another replica may lead; called right before each write.

        Raises:
            NotLeading: the Lease is lost.
        """
        if not self.may_write():
            raise NotLeading("the Lease is not held any more; the next leader does it")

    def leader_view(self) -> LeaderView | None:
        """Return what the leader knows; None where another replica may lead already."""
        term = self.term
        if term is None or term.is_ending or not self.may_write():
            return None
        return term.leader_view

    def lease_problem(self) -> str:
        """Return why the Lease was not read or renewed the last time; "" if it was."""
        error = self._elector.statistics().last_error if self._elector else ""
        return error and f"Lease {self._lease.namespace}/{self._lease.name}: {error}"

    def use_keys(self, keys: tuple[FingerprintKey, ...]) -> None:
        """Begin another term with these keys, or the first one."""
        self._keys = keys
        self._keys_changed.set()

    # -- while it runs -------------------------------------------------------------------------

    async def start(
        self,
        reflectors: Reflectors,
        make_term: Callable[[tuple[FingerprintKey, ...]], LeaderTerm],
    ) -> None:
        """Compete for the Lease from now on, and run the terms that `make_term` makes.

        Returns once this replica leads, or has tried to.
        """

        async def lead() -> None:
            await self._lead(reflectors, make_term)

        if self._elector is not None:
            self._task = asyncio.create_task(self._elector.run(lead))
            # A leader need not list twice.
            with suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_TRY):
                    await self._elected.wait()
            return
        if self._other_leader is not None:
            self._background.start("check for another leader", self._other_leader.run)
        self._task = asyncio.create_task(lead())
        await self._elected.wait()

    async def wait_until_acting_or_warm(self, reflectors: Reflectors) -> None:
        """Wait for the begin of the first term, or for complete stores of a standby.

        Raises:
            HotmapError: the first term cannot begin, and a retry cannot help.
        """
        assert self._task is not None, "it was started"
        acting = asyncio.create_task(self._acting.wait())
        warm = asyncio.create_task(self._become_warm(reflectors))
        try:
            await asyncio.wait((self._task, acting, warm), return_when=asyncio.FIRST_COMPLETED)
        finally:
            acting.cancel()
            warm.cancel()
        if self._task.done():
            await self._task

    async def run(self) -> None:
        """Wait without end, unless a term ends by an error.

        Raises:
            HotmapError: a retry cannot help: the permission to read the records is gone.
        """
        if self._task is not None:
            await asyncio.wait((self._task,))
            self._task.result()

    async def stop(self) -> None:
        """End the term, then release the Lease."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(self._task, return_exceptions=True)
        await self._background.stop()

    async def _become_warm(self, reflectors: Reflectors) -> None:
        """Return when the stores of a standby are complete; never for a leader."""
        await reflectors.complete()
        if self.may_write():
            await asyncio.Event().wait()
        lease = self._elector.statistics() if self._elector else None
        if lease and lease.holder:
            _log.info("standby; %s is the leader", lease.holder)
        else:
            _log.info("standby; waiting for the Lease")

    async def _lead(
        self,
        reflectors: Reflectors,
        make_term: Callable[[tuple[FingerprintKey, ...]], LeaderTerm],
    ) -> None:
        """Run terms until cancelled, at the end or when the Lease is lost."""
        was_warm = reflectors.started.is_set()
        self._elected.set()
        await reflectors.started.wait()
        await (reflectors.renew() if was_warm else reflectors.complete())
        while True:
            while reflectors.keys_in_stores != self._keys:  # perhaps replaced during the lists
                await reflectors.renew()
            self._keys_changed.clear()
            try:
                async with make_term(self._keys) as term:
                    self.term = term
                    self._acting.set()
                    await self._keys_changed.wait()
            finally:
                self._acting.clear()
                self.term = None
