"""Counts the HTTP calls of each endpoint."""

from __future__ import annotations

__all__ = ["CallStatistics", "EndpointStatistics"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotmap.agent.settings.values import Url


class EndpointStatistics:
    """Calls of one endpoint."""

    def __init__(self) -> None:
        #: Whether the last call failed; seconds that the last successful one took.
        self.failing = False
        self.seconds = 0.0
        self.successes = 0
        #: Number of responses by status; of failures by reason, as configmap-reload names them.
        self.responses: dict[int, int] = {}
        self.failures: dict[str, int] = {}


class CallStatistics:
    """Calls of all endpoints, by their URL without credentials."""

    def __init__(self, urls: Iterable[Url]) -> None:
        self.endpoints = {str(url): EndpointStatistics() for url in urls}

    def record(self, url: Url, status: int, seconds: float, error: str) -> None:
        """Record one call; status 0 means that there was no response."""
        endpoint = self.endpoints[str(url)]
        endpoint.failing = bool(error)
        if status:
            endpoint.responses[status] = endpoint.responses.get(status, 0) + 1
        if error:
            reason = "client_response" if status else "client_request_do"
            endpoint.failures[reason] = endpoint.failures.get(reason, 0) + 1
        else:
            endpoint.seconds = seconds
            endpoint.successes += 1
