"""Detects configured namespaces that do not exist: listing one only gives an empty list.

One that exists has a ConfigMap at least (kube-root-ca.crt), so only empty ones are checked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from hotmap.core.errors import Forbidden, HotmapError, NotFound
from hotmap.core.model.objects import Namespace
from hotmap.kube.client import Client
from hotmap.kube.resources import NAMESPACES

__all__ = ["MissingNamespaces"]

#: Seconds between two checks. A namespace that appears is served at once, by its watches; only the
#: report may be this old.
_AGAIN = 15.0

_log = logging.getLogger(__name__)


class MissingNamespaces:
    """Checks namespaces until each was seen once.

    `known` is set once the stores distinguish an empty namespace from an unlisted one.
    If the request is forbidden, the namespace counts as existing.
    """

    def __init__(
        self,
        client: Client,
        wanted: Iterable[str],
        *,
        known: asyncio.Event,
        is_empty: Callable[[str], bool],
    ) -> None:
        self._client = client
        self._unseen = list(wanted)
        self._known = known
        self._is_empty = is_empty
        #: Namespaces that do not exist, as far as known.
        self.absent: frozenset[str] = frozenset()

    async def run(self) -> None:
        """Check until all were seen."""
        await self._known.wait()
        while self._unseen:
            for name in tuple(self._unseen):
                await self._check(name)
            if self._unseen:
                await asyncio.sleep(_AGAIN)

    async def _check(self, name: str) -> None:
        try:
            if self._is_empty(name):
                await self._client.get(NAMESPACES, None, name, type=Namespace)
        except NotFound:
            if name not in self.absent:
                _log.warning("namespace %s does not exist; it is served once it does", name)
            self.absent |= {name}
            return
        except Forbidden:
            pass
        except HotmapError:
            return  # unknown; the watches report the error
        self._unseen.remove(name)
        if name in self.absent:
            _log.info("namespace %s exists now", name)
            self.absent -= {name}
