"""Candidates for one Lease on a real API server, each behind a wire that can fail.

A watchman looks at all of them every few milliseconds and notes whenever two lead at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any

from tests.cluster.proxy import FaultProxy

from hotmap.core.errors import api_error
from hotmap.core.model.objects import ObjectKey
from hotmap.kube.client import Client
from hotmap.kube.config import BearerToken, ClusterConfig
from hotmap.kube.leaderelection import LeaderElector, LeaseTiming
from hotmap.local.apiserver.admitted_requests import AdmittedRequests
from hotmap.local.apiserver.bootstrap import create_system_namespaces
from hotmap.local.apiserver.options import WatchOptions, WriteOptions
from hotmap.local.apiserver.reader import ObjectReader
from hotmap.local.apiserver.registry import Registry
from hotmap.local.apiserver.routes import ResourcePath
from hotmap.local.apiserver.server import APIServer
from hotmap.local.apiserver.watches import RegistryWatch
from hotmap.local.scheme import Scheme
from hotmap.local.store import MVCCStore
from hotmap.local.tokens import Tokens

__all__ = ["NAME", "NAMESPACE", "Candidate", "Election", "election", "unchanged_for"]

NAMESPACE = "default"
NAME = "hotmap"

#: Seconds within which anything that a test waits for must have happened.
TIMEOUT = 60.0


class _WithholdingReader(ObjectReader):
    """A reader that asks before it gets or watches."""

    def __init__(self, store: MVCCStore, scheme: Scheme, check: Callable[[str, str], None]) -> None:
        super().__init__(store, scheme)
        self._check = check

    def get(self, path: ResourcePath) -> dict[str, Any]:
        self._check(path.kind.plural, "get")
        return super().get(path)

    def watch(self, path: ResourcePath, options: WatchOptions) -> RegistryWatch:
        self._check(path.kind.plural, "watch")
        return super().watch(path, options)


class _WithholdingRequests(AdmittedRequests):
    """Writes of Leases that are refused, or answered with failures, as their registry says."""

    def __init__(self, registry: WithholdingRegistry) -> None:
        super().__init__(registry.store, registry.reader, registry.writer, registry.deleter)
        self._registry = registry

    async def create(
        self, path: ResourcePath, obj: dict[str, Any], options: WriteOptions
    ) -> dict[str, Any]:
        self._registry.check(path.kind.plural, "create")
        return await super().create(path, obj, options)

    async def update(
        self, path: ResourcePath, obj: dict[str, Any], options: WriteOptions
    ) -> dict[str, Any]:
        self._registry.check(path.kind.plural, "update")
        failures = self._registry.update_failures
        if path.kind.plural == "leases" and failures:
            code, reason = failures.pop(0)
            raise api_error(code, f"a failure of the test: {reason}", reason=reason)
        return await super().update(path, obj, options)


class WithholdingRegistry(Registry):
    """A registry whose Leases may not be used in the ways that are `withheld`, as RBAC has it."""

    def __init__(self, store: MVCCStore) -> None:
        super().__init__(store)
        #: Verbs.
        self.withheld: set[str] = set()
        #: Answers to the next updates, instead of doing them: (status, reason).
        self.update_failures: list[tuple[int, str]] = []
        self.reader = _WithholdingReader(store, self.scheme, self.check)
        self.admitted = _WithholdingRequests(self)

    def check(self, resource: str, verb: str) -> None:
        """Refuse what is withheld."""
        if resource == "leases" and verb in self.withheld:
            text = f'leases.coordination.k8s.io is forbidden: User "test" cannot {verb} it'
            raise api_error(403, text, reason="Forbidden")


class Wire(FaultProxy):
    """A proxy that takes it when both ends of a connection go at once, as a dead server's do.

    Else the task's exception would be told of while it is collected, in the middle of whatever
    the interpreter does then.
    """

    async def _serve(self, *connection: Any) -> None:
        try:
            await super()._serve(*connection)
        except* OSError:
            pass


class Candidate:
    """One process that competes, as far as the API server can tell."""

    def __init__(self, elector: LeaderElector, wire: Wire) -> None:
        self.elector = elector
        self.wire = wire
        #: The calls of lead that run now.
        self.at_work = 0
        #: Set while lead runs.
        self.leads = asyncio.Event()
        #: Seconds that lead takes to clean up.
        self.cleaning = 0.0
        self.task: asyncio.Task[None] | None = None

    @property
    def identity(self) -> str:
        return self.elector.identity

    async def lead(self) -> None:
        assert self.at_work == 0, "lead runs twice"
        self.at_work += 1
        self.leads.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.leads.clear()
            await asyncio.sleep(self.cleaning)
            self.at_work -= 1

    def start(self, lead: Callable[[], Awaitable[None]] | None = None) -> None:
        self.task = asyncio.create_task(self.elector.run(lead or self.lead))

    async def stop(self) -> None:
        """End in an orderly way, with a release."""
        task, self.task = self.task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()

    async def vanish(self) -> None:
        """End without a word to the API server."""
        self.wire.cut()
        await self.stop()


class Election:
    """The API server, its candidates, and who led when."""

    def __init__(self, stack: AsyncExitStack, timing: LeaseTiming) -> None:
        self.store = MVCCStore()
        self.registry = WithholdingRegistry(self.store)
        self.candidates: list[Candidate] = []
        #: (monotonic seconds, identities that led from then on), whenever that changed.
        self.history: list[tuple[float, tuple[str, ...]]] = []
        self._stack = stack
        self._timing = timing
        tokens = Tokens()
        tokens.add("t", "admin")
        self._server = APIServer(self.registry, tls=None, tokens=tokens, bookmark_interval=0.1)
        self.port = 0

    async def start_server(self) -> None:
        self.port = await self._server.start(port=self.port)

    async def stop_server(self) -> None:
        await self._server.stop()

    async def candidate(self, identity: str, **settings: Any) -> Candidate:
        """Make a candidate; the caller starts it."""
        wire = self._stack.enter_context(Wire(self.port))
        config = ClusterConfig(f"http://127.0.0.1:{wire.port}", "the test", BearerToken("t"))
        client = await self._stack.enter_async_context(Client(config))
        elector = LeaderElector(
            client,
            ObjectKey("Lease", NAMESPACE, NAME),
            identity=identity,
            timing=settings.pop("timing", self._timing),
            **settings,
        )
        candidate = Candidate(elector, wire)
        self._stack.push_async_callback(candidate.stop)
        self.candidates.append(candidate)
        return candidate

    async def started(self, *identities: str, **settings: Any) -> list[Candidate]:
        """Make and start candidates; the first leads, and the others know it, on return."""
        made = []
        for identity in identities:
            made.append(await self.candidate(identity, **settings))
            made[-1].start()
            if len(made) == 1:
                await self.leader(made[0])
            # A standby that has not seen the Lease yet owes its holder nothing.
            elector = made[-1].elector
            await self.until(partial(_knows_a_holder, elector))
        return made

    async def leader(self, *among: Candidate) -> Candidate:
        """Wait until one candidate, or one of some, is at work."""
        async with asyncio.timeout(TIMEOUT):
            while True:
                for candidate in among or self.candidates:
                    if candidate.leads.is_set() and candidate.elector.is_leader:
                        self._note_leaders()  # it may be stopped before the next look
                        return candidate
                await asyncio.sleep(0.005)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(TIMEOUT):
            while not condition():  # noqa: ASYNC110  what is asked has no event
                await asyncio.sleep(0.005)

    async def attempts(self, candidate: Candidate, *, more: int) -> None:
        """Wait until a candidate has asked for the Lease more than so many times more."""
        before = candidate.elector.statistics().attempts
        await self.until(lambda: candidate.elector.statistics().attempts > before + more)

    async def fails(self, candidate: Candidate, *, after: int) -> None:
        """Wait until a candidate has failed more than so many times."""
        await self.until(lambda: candidate.elector.statistics().failures > after)

    async def known_to(self, *candidates: Candidate, holder: str) -> None:
        """Wait until candidates have seen who holds the Lease."""
        await self.until(
            lambda: all(candidate.elector.statistics().holder == holder for candidate in candidates)
        )

    def most_reads(self, seconds: float) -> int:
        """Return how often a candidate reads a Lease at most that it acquires after some time.

        A busy machine makes it read less often, so that this holds on any. Added are the reads
        at either end, and one after a conflict.
        """
        return int(seconds / self._timing.retry) + 3

    async def spec(self) -> dict[str, Any]:
        """What the Lease says."""
        spec: dict[str, Any] = (await self.lease())["spec"]
        return spec

    async def lease(self) -> dict[str, Any]:
        """The Lease, also where it may not be read."""
        path = ResourcePath(self.registry.scheme.resource("leases"), NAMESPACE, NAME)
        return ObjectReader(self.store, self.registry.scheme).get(path)

    async def put(self, spec: Any, **metadata: Any) -> None:
        """Create the Lease by another hand."""
        body = {"metadata": {"name": NAME, **metadata}, "spec": spec}
        await self.registry.create("leases", NAMESPACE, body, manager="test")

    async def edit(self, **fields: Any) -> None:
        """Change the Lease by another hand, whatever anybody holds."""

        def change(lease: dict[str, Any]) -> dict[str, Any]:
            return {**lease, "spec": {**lease["spec"], **fields}}

        await self.registry.modify("leases", NAMESPACE, NAME, change, manager="test")

    async def annotate(self, annotations: dict[str, str]) -> None:
        """Change the annotations of the Lease by another hand."""

        def change(lease: dict[str, Any]) -> dict[str, Any]:
            return {**lease, "metadata": {**lease["metadata"], "annotations": annotations}}

        await self.registry.modify("leases", NAMESPACE, NAME, change, manager="test")

    def find_double_leaders(self) -> list[tuple[str, ...]]:
        """List every moment at which more than one led."""
        return [leaders for _, leaders in self.history if len(leaders) > 1]

    def successions(self) -> list[str]:
        """List who led, in order, without the times without a leader."""
        return [leaders[0] for _, leaders in self.history if leaders]

    async def record_leaders(self) -> None:
        while True:
            self._note_leaders()
            await asyncio.sleep(0.002)

    def _note_leaders(self) -> None:
        leaders = tuple(
            candidate.identity for candidate in self.candidates if candidate.elector.is_leader
        )
        if leaders != (self.history[-1][1] if self.history else ()):
            self.history.append((time.monotonic(), leaders))


def unchanged_for(before: dict[str, Any], after: dict[str, Any], *, ahead: float = 0.0) -> float:
    """Return the seconds between the last renewal of a Lease and its next holder's write.

    The former holder's clock may be `ahead`.
    """
    renewed = datetime.fromisoformat(before["renewTime"]).timestamp() - ahead
    return datetime.fromisoformat(after["acquireTime"]).timestamp() - renewed


def _knows_a_holder(elector: LeaderElector) -> bool:
    return elector.statistics().holder != ""


@asynccontextmanager
async def election(timing: LeaseTiming) -> AsyncIterator[Election]:
    """Run an API server for candidates, and demand that two never lead at a time."""
    async with AsyncExitStack() as stack:
        made = Election(stack, timing)
        await create_system_namespaces(made.registry)
        await made.start_server()
        stack.callback(made.store.close)
        stack.push_async_callback(made.stop_server)
        watchman = asyncio.create_task(made.record_leaders())
        try:
            yield made
        finally:
            for candidate in made.candidates:
                await candidate.stop()
            watchman.cancel()
            await asyncio.wait([watchman])
        assert made.find_double_leaders() == []
