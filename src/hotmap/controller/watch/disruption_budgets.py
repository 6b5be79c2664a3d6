"""Finds the PodDisruptionBudgets of pods that wait to restart; they are not watched."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from hotmap.controller.watch.pods import in_groups
from hotmap.core.decide.disruption_budget import MAX_BUDGETS, names_selected
from hotmap.core.errors import Forbidden, NotFound
from hotmap.core.model.objects import Pod, PodDisruptionBudget
from hotmap.kube.client import Client
from hotmap.kube.paging import list_items
from hotmap.kube.resources import POD_DISRUPTION_BUDGETS, Selection

__all__ = ["DisruptionBudgets"]

_log = logging.getLogger(__name__)


class DisruptionBudgets:
    """Lists budgets; a missing permission is logged once, and then there are none."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._refused = False

    async def find(
        self, namespace: str, pods: Sequence[Pod]
    ) -> list[tuple[PodDisruptionBudget, frozenset[str]]]:
        """Find the budgets that select any of a workload's pods: MAX_BUDGETS at most, and one more.

        They are in the order of their names, each with the names of the pods that it selects; the
        one more has the names of all pods.

        Raises:
            ResponseTooLarge: they have more bytes than a list may have.
            ApiError, Unreachable: as the client raises them, but for a missing permission.
        """
        found: list[tuple[PodDisruptionBudget, frozenset[str]]] = []
        for budget in sorted(await self._list(namespace), key=lambda each: each.metadata.name):
            selected = [
                name async for group in in_groups(pods) for name in names_selected(budget, group)
            ]
            if selected and len(found) == MAX_BUDGETS:
                found.append((budget, frozenset(pod.metadata.name for pod in pods)))
                break
            if selected:
                found.append((budget, frozenset(selected)))
        return found

    async def _list(self, namespace: str) -> Sequence[PodDisruptionBudget]:
        """List the budgets of a namespace.

        A consistent read: of two waves, the second one needs what the first one caused.

        Raises:
            ResponseTooLarge: they have more bytes than a list may have.
            ApiError, Unreachable: as the client raises them, but for a missing permission.
        """
        selection = Selection(POD_DISRUPTION_BUDGETS, namespace)
        items = list_items(self._client, selection, type=PodDisruptionBudget)
        try:
            return [item async for item in items]
        except (Forbidden, NotFound) as error:
            if not self._refused:
                _log.warning(
                    "cannot list PodDisruptionBudgets: pods restart in place by "
                    "maxUnavailable only: %s",
                    error,
                )
            self._refused = True
            return ()
