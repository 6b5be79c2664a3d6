"""Fills in the rules of ClusterRoles that are made of others.

kubernetes: pkg/controller/clusterroleaggregation.
"""

from __future__ import annotations

import contextlib
from typing import Any

from hotmap.core.errors import NotFound
from hotmap.local.controllers.controller import Controller, ControllerContext
from hotmap.local.meta import Object, ObjectName, labels_of, name_of
from hotmap.local.selectors import matches_label_selector

__all__ = ["ClusterRoleAggregationController"]

_MANAGER = "clusterrole-aggregation-controller"


class ClusterRoleAggregationController(Controller[ObjectName]):
    """Return each aggregated ClusterRole the rules of those that its selectors find."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, "clusterrole-aggregation")
        self._roles = self._informers["clusterroles"]
        self._roles.subscribe(self._on_role)

    async def sync(self, key: ObjectName) -> None:
        """Bring the rules of one role up to date."""
        role = self._roles.objects.get(key)
        if role is None or not role.get("aggregationRule"):
            return
        rules: list[dict[str, Any]] = []
        for other in sorted(self._roles.objects.values(), key=lambda r: str(r["metadata"]["name"])):
            if other["metadata"]["name"] != key[1] and _is_selected(role, other):
                rules += [rule for rule in other.get("rules") or () if rule not in rules]
        if rules == (role.get("rules") or []):
            return
        with contextlib.suppress(NotFound):
            await self._client.modify(
                "clusterroles",
                None,
                key[1],
                lambda current: {**current, "rules": rules},
                manager=_MANAGER,
            )

    def _on_role(self, old: Object | None, new: Object | None) -> None:
        for role in self._roles.objects.values():
            if role.get("aggregationRule"):
                self._loop.add(name_of(role))


def _is_selected(role: Object, other: Object) -> bool:
    selectors = role["aggregationRule"].get("clusterRoleSelectors") or ()
    return any(matches_label_selector(selector, labels_of(other)) for selector in selectors)
