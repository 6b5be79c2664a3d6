"""One POST to a receiver of webhooks or alerts.

The URL is the receiver's password, so errors name its host only. The response's body is not read.
"""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from typing import NamedTuple
from urllib.parse import urlsplit

from hotmap import __version__
from hotmap.core.text import parse_number
from hotmap.kube.http_library import aiohttp, system_trust

__all__ = ["Refusal", "open_session", "post"]

#: Seconds for one attempt, connecting included.
_TIMEOUT = 10.0

#: Statuses of 400 to 499 after which the same request may succeed later.
_TEMPORARY = frozenset((408, 425, 429))


class Refusal(NamedTuple):
    """Why a request was not accepted."""

    reason: str
    #: Whether the same request cannot succeed later.
    is_final: bool = False
    #: Seconds that the receiver asks to wait; 0 where it does not.
    retry_after: float = 0.0


def open_session(timeout: float = _TIMEOUT) -> aiohttp.ClientSession:
    """Open a session for one receiver; `timeout` in seconds bounds each attempt."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=system_trust()),
        timeout=aiohttp.ClientTimeout(total=timeout),
        headers={"User-Agent": f"hotmap/{__version__}"},
    )


async def post(
    session: aiohttp.ClientSession, url: str, body: bytes, content_type: str, *, proxy: str = ""
) -> Refusal | None:
    """Send once; returns None once it is accepted. A redirect is a refusal, as for Reloader.

    `proxy` is the URL of an HTTP proxy, or "".
    """
    host = urlsplit(url).hostname
    try:
        async with session.post(
            url,
            data=body,
            headers={"Content-Type": content_type},
            proxy=proxy or None,
            allow_redirects=False,
        ) as answer:
            status = answer.status
            if status < 300:
                return None
            what = f"{status}, a redirect, which is not followed" if status < 400 else str(status)
            return Refusal(
                f"{host} answered {what}",
                is_final=300 <= status < 500 and status not in _TEMPORARY,
                retry_after=_retry_after(answer.headers.get("Retry-After", "")),
            )
    except TimeoutError:
        return Refusal(f"{host} did not answer within {session.timeout.total:g}s")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        # The messages of these contain the whole URL.
        through = " through the proxy" if proxy else ""
        return Refusal(f"cannot reach {host}{through} ({type(error).__name__})")


def _retry_after(text: str) -> float:
    """Read the header Retry-After: seconds, or a date; 0 where it is neither."""
    if (seconds := parse_number(text.strip())) is not None:
        return float(seconds)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError, OSError):
        return 0.0
