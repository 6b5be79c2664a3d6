"""A real API server in the test's own process, and a seam to get between two of its writes.

No workload controllers and no kubelet run: a test that needs what they do writes it through the
registry, so that it alone decides when.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from hotmap.core.errors import api_error
from hotmap.kube.config import TLS, BearerToken, ClusterConfig
from hotmap.local.apiserver.bootstrap import create_system_namespaces
from hotmap.local.apiserver.registry import Registry, RegistryWatch
from hotmap.local.apiserver.server import APIServer
from hotmap.local.pki import ServerPKI
from hotmap.local.store import MVCCStore
from hotmap.local.tokens import Tokens, new_token

__all__ = ["ControlPlane", "GuardedRegistry", "control_plane"]

#: Who asks for a patch of what: (plural, namespace, name, patch).
Guard = Callable[[str, str | None, str, Any], Awaitable[None]]


class GuardedRegistry(Registry):
    """A registry that calls guards before it applies a patch, as an admission webhook is called.

    A guard may write something else first, or raise an ApiError to refuse. What is `withheld`
    may not be watched in all namespaces at once, as without a ClusterRole.
    """

    def __init__(self, store: MVCCStore) -> None:
        super().__init__(store, clock=lambda: time.time() + self.ahead)
        #: Seconds by which the server's clock is ahead, for objects that were made at other times.
        self.ahead = 0.0
        self.guards: list[Guard] = []
        #: Plurals.
        self.withheld: set[str] = set()

    def watch(self, plural: str, namespace: str | None = None, **options: Any) -> RegistryWatch:
        if namespace is None and plural in self.withheld:
            raise api_error(403, f'{plural} is forbidden: User "test" cannot watch it')
        return super().watch(plural, namespace, **options)

    async def patch(
        self, plural: str, namespace: str | None, name: str, patch: object, **options: Any
    ) -> dict[str, Any]:
        for guard in tuple(self.guards):
            await guard(plural, namespace, name, patch)
        return await super().patch(plural, namespace, name, patch, **options)


class ControlPlane:
    """A store, its registry, and an API server over TLS that can be stopped and started."""

    def __init__(self, pki: ServerPKI) -> None:
        self.registry = GuardedRegistry(MVCCStore())
        self._pki = pki
        self._tokens = Tokens()
        self._token = new_token()
        self._tokens.add(self._token, "test")
        self._server: APIServer | None = None
        self.port = 0

    async def start(self) -> None:
        """Listen: on a free port at first, on the same one afterwards."""
        self._server = APIServer(self.registry, tls=self._pki.server_context(), tokens=self._tokens)
        self.port = await self._server.start(port=self.port)

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop()
            self._server = None

    def config(self) -> ClusterConfig:
        """How to reach the server."""
        return ClusterConfig(
            server=f"https://127.0.0.1:{self.port}",
            origin="the test's control plane",
            credentials=BearerToken(self._token),
            tls=TLS(ca=self._pki.ca_certificate.read_bytes()),
        )


@asynccontextmanager
async def control_plane(pki: ServerPKI) -> AsyncIterator[ControlPlane]:
    """Run a control plane for the length of a block."""
    plane = ControlPlane(pki)
    await create_system_namespaces(plane.registry)
    await plane.start()
    try:
        yield plane
    finally:
        await plane.stop()
