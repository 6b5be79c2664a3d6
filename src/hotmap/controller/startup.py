"""Waits at startup for an API server that is not available yet.

In a pod only the kubelet would restart the controller, with a back-off of up to five minutes: so it
waits, logs that, and starts as soon as possible. On the command line it fails at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from hotmap.core.errors import ApiError, Throttled, Unauthorized, Unavailable, Unreachable
from hotmap.kube.client import Client
from hotmap.kube.log_throttle import LogThrottle
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.retry import Backoff

__all__ = ["StartupRetry", "wait_for_apiserver"]

T = TypeVar("T")

#: Seconds after which a silent server is named, and after which it counts as unreachable.
_LATE = 1.0
_RESPONSE_TIMEOUT = 10.0

#: The first and the longest pause between attempts, in seconds.
_PAUSES = 0.5, 15.0

_log = logging.getLogger(__name__)


class StartupRetry:
    """Retries without end while an API server is unreachable or unavailable."""

    def __init__(self) -> None:
        #: What is waited for, as text; "" for nothing.
        self.problem = ""

    async def retry_until_available(self, request: Callable[[], Awaitable[T]], *, what: str) -> T:
        """Retry a request until it succeeds; `what` describes it in the log.

        Raises:
            ApiError: an error that a retry cannot resolve, such as a missing permission.
        """
        backoff, throttle = Backoff(*_PAUSES), LogThrottle()
        try:
            while True:
                try:
                    return await request()
                except (Unreachable, Unavailable, Throttled, Unauthorized) as error:
                    pause = max(backoff.next(), getattr(error, "retry_after", None) or 0.0)
                    self.problem = f"{what}: {error}"
                    if throttle.should_log(type(error).__name__, str(error), now=loop_time()):
                        _log.warning("%s; retrying", self.problem)
                await asyncio.sleep(pause)
        finally:
            self.problem = ""


async def wait_for_apiserver(client: Client) -> None:
    """Wait until the API server responds; log it if that takes long.

    Raises:
        Unreachable: there is no response, or it is not from the expected server.
        SettingsError: there are no usable credentials.
    """
    await client.authorization()  # a user may have to log in first
    request = asyncio.create_task(_get_version(client))
    try:
        done, _ = await asyncio.wait((request,), timeout=_LATE)
        if not done:
            _log.warning("no response from %s yet; still waiting", client.server)
            await asyncio.wait((request,), timeout=_RESPONSE_TIMEOUT - _LATE)
    finally:
        request.cancel()
        await asyncio.wait((request,))
    if request.cancelled():
        raise Unreachable(
            f"{client.server} accepts connections, but did not respond within"
            f" {_RESPONSE_TIMEOUT:g}s"
        )
    request.result()


async def _get_version(client: Client) -> None:
    # Every user may read that (kubernetes: bootstrappolicy, system:public-info-viewer).
    with suppress(ApiError):
        await client.request("GET", "/version", attempts=1)
