"""Keeps people from granting rights that they do not have (pkg/registry/rbac/*/policybased)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.apiserver.rbac import GROUP, check_escalation

if TYPE_CHECKING:
    from hotmap.local.access import Authorizer
    from hotmap.local.apiserver.plugins import AdmissionRequest


class EscalationPlugin:
    """Checks roles and bindings against what their writer may do."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def admit(self, request: AdmissionRequest) -> None:
        pass

    def validate(self, request: AdmissionRequest) -> None:
        kind, old = request.kind, request.old
        if kind.group != GROUP:
            return
        if old is not None and "rules" in old and old["rules"] == request.obj.get("rules"):
            return
        check_escalation(self._authorizer, kind, request.namespace, request.obj, request.user)
