"""Lists the PodDisruptionBudgets of a namespace when pods wait to restart; they are not watched."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from hotmap.core.errors import Forbidden, NotFound
from hotmap.core.model.objects import PodDisruptionBudget
from hotmap.kube.client import Client
from hotmap.kube.resources import POD_DISRUPTION_BUDGETS

__all__ = ["DisruptionBudgets"]

_log = logging.getLogger(__name__)


class DisruptionBudgets:
    """Lists budgets; a missing permission is logged once, and then there are none."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._refused = False

    async def list(self, namespace: str) -> Sequence[PodDisruptionBudget]:
        """List the budgets of a namespace.

        A consistent read: of two waves, the second one needs what the first one caused.

        Raises:
            ApiError, Unreachable: as the client raises them, but for a missing permission.
        """
        found: list[PodDisruptionBudget] = []
        token = ""
        while True:
            try:
                page = await self._client.list_page(
                    POD_DISRUPTION_BUDGETS,
                    namespace,
                    type=PodDisruptionBudget,
                    continue_token=token,
                )
            except (Forbidden, NotFound) as error:
                if not self._refused:
                    _log.warning(
                        "cannot list PodDisruptionBudgets: pods restart in place by "
                        "maxUnavailable only: %s",
                        error,
                    )
                self._refused = True
                return ()
            found += page.items
            token = page.continue_token
            if not token:
                return found
