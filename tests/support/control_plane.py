"""A real API server in the test's own process, with seams for other writers and for failures.

No workload controllers and no kubelet run: a test that needs what they do writes it through the
registry, so that it alone decides when.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from hotmap.core.errors import api_error
from hotmap.kube.config import TLS, BearerToken, ClusterConfig
from hotmap.local.access import UserInfo
from hotmap.local.apiserver.admitted_requests import AdmittedRequests
from hotmap.local.apiserver.bootstrap import create_system_namespaces
from hotmap.local.apiserver.metrics import Requested
from hotmap.local.apiserver.options import DeleteOptions, WatchOptions, WriteOptions
from hotmap.local.apiserver.reader import ObjectReader
from hotmap.local.apiserver.registry import Registry
from hotmap.local.apiserver.routes import ResourcePath, parse_path, verb_of
from hotmap.local.apiserver.server import APIServer
from hotmap.local.apiserver.watches import RegistryWatch
from hotmap.local.client import PatchKind
from hotmap.local.pki import ServerPKI
from hotmap.local.scheme import Scheme
from hotmap.local.store import MVCCStore
from hotmap.local.tokens import Tokens, new_token

__all__ = ["ControlPlane", "Failure", "GuardedRegistry", "control_plane"]

#: Who asks for a patch of what: (resource, namespace, name, patch).
Guard = Callable[[str, str | None, str, Any], Awaitable[None]]


class _WithholdingReader(ObjectReader):
    """A reader that refuses to watch what is `withheld`."""

    def __init__(self, store: MVCCStore, scheme: Scheme, withheld: Collection[str]) -> None:
        super().__init__(store, scheme)
        self._withheld = withheld

    def watch(self, path: ResourcePath, options: WatchOptions) -> RegistryWatch:
        resource = self.scheme.name(path.kind)
        place = resource if path.namespace is None else f"{path.namespace}/{resource}"
        if place in self._withheld:
            raise api_error(403, f'{resource} is forbidden: User "test" cannot watch it')
        return super().watch(path, options)


class _GuardedRequests(AdmittedRequests):
    """Requests before which the guards of a registry are called."""

    def __init__(self, registry: GuardedRegistry) -> None:
        super().__init__(registry.store, registry.reader, registry.writer, registry.deleter)
        self._registry = registry

    async def create(
        self, path: ResourcePath, obj: dict[str, Any], options: WriteOptions
    ) -> dict[str, Any]:
        name = obj.get("metadata", {}).get("name", "")
        await self._ask(self._registry.create_guards, path._replace(name=name), obj)
        return await super().create(path, obj, options)

    async def patch(
        self, path: ResourcePath, kind: PatchKind, patch: object, options: WriteOptions
    ) -> dict[str, Any]:
        await self._ask(self._registry.guards, path, patch)
        return await super().patch(path, kind, patch, options)

    async def delete(self, path: ResourcePath, options: DeleteOptions) -> dict[str, Any]:
        await self._ask(self._registry.delete_guards, path, None)
        return await super().delete(path, options)

    async def _ask(self, guards: list[Guard], path: ResourcePath, sent: object) -> None:
        resource = self._registry.scheme.name(path.kind)
        for guard in tuple(guards):
            await guard(resource, path.namespace, path.name, sent)


class GuardedRegistry(Registry):
    """A registry that calls guards before it applies a patch, as an admission webhook is called.

    A guard may write something else first, or raise an ApiError to refuse. Those of a creation
    see the object instead of a patch, those of a deletion None. What is `withheld` may not be
    watched in all namespaces at once, as without a ClusterRole.
    """

    def __init__(self, store: MVCCStore) -> None:
        super().__init__(store, clock=lambda: time.time() + self.ahead)
        #: Seconds by which the server's clock is ahead, for objects that were made at other times.
        self.ahead = 0.0
        self.guards: list[Guard] = []
        self.create_guards: list[Guard] = []
        self.delete_guards: list[Guard] = []
        #: Plurals.
        self.withheld: set[str] = set()
        self.reader = _WithholdingReader(store, self.scheme, self.withheld)
        self.admitted = _GuardedRequests(self)


class Failure:
    """How requests of one sort fare, before anything is done with them.

    As behind a server's filters (kubernetes: apiserver/pkg/server/filters): an error is answered,
    or the answer comes late.
    """

    def __init__(
        self, verb: str, resource: str, *, code: int, times: int, name: str, agent: str
    ) -> None:
        self._sort = verb, resource, name, agent
        self.code = code
        #: How many more requests it meets, and how many it has met.
        self.left = times
        self.met = 0
        self.delay = 0.0

    def meets(self, verb: str, resource: str, name: str, agent: str) -> bool:
        """Return whether a request is of that sort; it counts then."""
        wanted, of, begins, by = self._sort
        fits = wanted in ("*", verb) and of in ("*", resource)
        if not fits or not (name.startswith(begins) and agent.startswith(by)) or self.left <= 0:
            return False
        self.left -= 1
        self.met += 1
        return True

    async def meet(self) -> None:
        """Be late, then answer the error if there is one."""
        await asyncio.sleep(self.delay)
        if self.code:
            reason = {429: "TooManyRequests", 500: "InternalError"}.get(self.code, "")
            retry_after = 1 if self.code == 429 else None
            raise api_error(self.code, "not now", reason=reason, retry_after=retry_after)


class _FailingServer(APIServer):
    """An API server whose filters fail what they are told to."""

    def __init__(self, *arguments: Any, failures: list[Failure], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._failures = failures

    async def _respond(
        self,
        request: web.BaseRequest,
        user: UserInfo,
        warnings: list[str],
        asked: list[Requested],
    ) -> web.StreamResponse:
        path = parse_path(self._registry.scheme, request.path)
        if path is not None:
            verb = verb_of(request.method, path, request.query)
            agent = request.headers.get("User-Agent", "")
            for failure in tuple(self._failures):
                if failure.meets(verb, path.kind.resource, path.name or "", agent):
                    await failure.meet()
        return await super()._respond(request, user, warnings, asked)


class ControlPlane:
    """A store, its registry, and an API server that can be stopped and started; TLS with a pki."""

    def __init__(self, pki: ServerPKI | None = None) -> None:
        self.failures: list[Failure] = []
        self.registry = GuardedRegistry(MVCCStore())
        self._pki = pki
        self._tokens = Tokens()
        self._token = new_token()
        self._tokens.add(self._token, "test")
        self._server: APIServer | None = None
        self.port = 0

    async def start(self) -> None:
        """Listen: on a free port at first, on the same one afterwards."""
        self._server = _FailingServer(
            self.registry,
            tls=self._pki.server_context() if self._pki else None,
            tokens=self._tokens,
            failures=self.failures,
        )
        self.port = await self._server.start(port=self.port)

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop()
            self._server = None

    def fail(
        self,
        verb: str,
        resource: str,
        *,
        code: int = 0,
        times: int = 1 << 30,
        name: str = "",
        agent: str = "",
    ) -> Failure:
        """Fail the next requests of a sort: "*" is any; names and clients by how they begin.

        Code 0 is not a failure: set the `delay` of what is returned, in seconds.
        """
        failure = Failure(verb, resource, code=code, times=times, name=name, agent=agent)
        self.failures.append(failure)
        return failure

    def config(self) -> ClusterConfig:
        """How to reach the server."""
        return ClusterConfig(
            server=f"{'https' if self._pki else 'http'}://127.0.0.1:{self.port}",
            origin="the test's control plane",
            credentials=BearerToken(self._token),
            tls=TLS(ca=self._pki.ca_certificate.read_bytes()) if self._pki else TLS(),
        )


@asynccontextmanager
async def control_plane(pki: ServerPKI | None = None) -> AsyncIterator[ControlPlane]:
    """Run a control plane for the length of a block."""
    plane = ControlPlane(pki)
    await create_system_namespaces(plane.registry)
    await plane.start()
    try:
        yield plane
    finally:
        await plane.stop()
