"""Which page says what: health, readiness, metrics and the status document."""

from __future__ import annotations

from hotmap.agent.report import Calls, render_metrics

__all__ = ["Pages"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from hotmap.agent.observe import Observer

_TEXT = "text/plain; charset=utf-8"


class Pages:
    """Answers requests from what is known at that moment."""

    def __init__(
        self,
        metrics_path: str,
        calls: Calls,
        observer: Observer,
        *,
        status: Callable[[], dict[str, Any]],
        started: Callable[[], bool],
        ready: Callable[[], bool],
    ) -> None:
        """`started`: the first content passed its check; `ready`: it has been loaded."""
        self._metrics_path = metrics_path
        self._calls = calls
        self._observer = observer
        self._status = status
        self._started = started
        self._ready = ready

    def respond(self, path: str) -> tuple[int, str, bytes]:
        """Give status, content type and body for a path."""
        if path == self._metrics_path:
            page = render_metrics(self._status(), self._calls)
            return 200, "text/plain; version=0.0.4; charset=utf-8", page.encode()
        if path == "/status":
            import json  # a probe or a scrape does not ask for it

            return 200, "application/json", json.dumps(self._status()).encode() + b"\n"
        if path == "/healthz":
            age = f"{self._observer.since_last_pass:.1f}\n".encode()
            return (200 if self._observer.healthy else 503), _TEXT, age
        if path == "/startupz":
            return (200 if self._started() else 503), _TEXT, b""
        if path == "/readyz":
            state = str(self._status()["state"])
            return (200 if self._ready() else 503), _TEXT, f"{state}\n".encode()
        return 404, _TEXT, b"there are /status, /metrics, /healthz, /startupz and /readyz\n"
