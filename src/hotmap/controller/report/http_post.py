"""One POST to a receiver of webhooks or alerts.

The URL is the receiver's password, so errors name its host only. The response's body is not read.
"""

from __future__ import annotations

import asyncio
import time
from email.utils import parsedate_to_datetime
from typing import NamedTuple
from urllib.parse import urlsplit

from hotmap import __version__
from hotmap.core.text import parse_number
from hotmap.kube.http.errors import HttpError
from hotmap.kube.http.fetch import open_url

__all__ = ["Refusal", "post"]

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


async def post(
    url: str, body: bytes, content_type: str, *, proxy: str = "", timeout: float = _TIMEOUT
) -> Refusal | None:
    """Send once, within `timeout` seconds; returns None once it is accepted.

    A redirect is a refusal, as for Reloader. `proxy` is the URL of an HTTP proxy, or "".
    """
    host = urlsplit(url).hostname
    headers = (("User-Agent", f"hotmap/{__version__}"), ("Content-Type", content_type))
    try:
        async with (
            asyncio.timeout(timeout),
            open_url(
                *("POST", url), headers=headers, body=body, proxy=proxy, connect_timeout=timeout
            ) as answer,
        ):
            status, retry_after = answer.status, answer.headers.get("retry-after", "")
    except TimeoutError:
        return Refusal(f"{host} did not answer within {timeout:g}s")
    except (HttpError, ValueError) as error:
        # The text of a ValueError may contain the URL.
        problem = str(error) if isinstance(error, HttpError) else "its URL cannot be used"
        through = " through the proxy" if proxy else ""
        return Refusal(f"cannot reach {host}{through}: {problem}")
    if status < 300:
        return None
    what = f"{status}, a redirect, which is not followed" if status < 400 else str(status)
    return Refusal(
        f"{host} answered {what}",
        is_final=300 <= status < 500 and status not in _TEMPORARY,
        retry_after=_retry_after(retry_after),
    )


def _retry_after(text: str) -> float:
    """Read the header Retry-After: seconds, or a date; 0 where it is neither."""
    if (seconds := parse_number(text.strip())) is not None:
        return float(seconds)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError, OSError):
        return 0.0
