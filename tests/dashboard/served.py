"""A dashboard of a controller that answers as it is told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from tests.dashboard.documents import document, workload

from hotmap.core.errors import Unreachable
from hotmap.core.status.status_document import StatusDocument, WorkloadSummary
from hotmap.dashboard.polls import Polls
from hotmap.dashboard.server import DashboardServer, Scope


class Served:
    """A server with a controller that has some workloads."""

    def __init__(self, server: str = "") -> None:
        self.workloads: list[WorkloadSummary] = [workload("web", "waiting", "app", behind=1)]
        self.queries: list[Mapping[str, str]] = []
        self.problem = ""
        self.server = DashboardServer(Polls(self.fetch), Scope("shop", ("--context", "c"), server))
        self.port = 0

    async def fetch(self, query: Mapping[str, str]) -> StatusDocument:
        self.queries.append(query)
        if self.problem:
            raise Unreachable(self.problem)
        name = query.get("workload")
        found = [w for w in self.workloads if name in (None, f"{w.kind}/{w.namespace}/{w.name}")]
        return document(found, server="https://api.example")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{self.server.token}/"


@asynccontextmanager
async def serving(server: str = "") -> AsyncIterator[Served]:
    """Serve a dashboard on a free port; `server`: that of its kubeconfig."""
    served = Served(server)
    served.port = await served.server.listen("127.0.0.1", 0)
    try:
        yield served
    finally:
        await served.server.close()
