"""Review kinds: answered and not stored (pkg/registry/authorization).

Every token is an administrator's, so each access review is allowed.
"""

from __future__ import annotations

from typing import Any

from hotmap.local.scheme import Kind, Names
from hotmap.local.strategy import Strategy

JsonObject = dict[str, Any]

_MASTERS = ("system:masters", "system:authenticated")


def groups_of(user: str) -> list[str]:
    """Name the groups of a user (serviceaccount.MakeGroupNames for accounts)."""
    if user.startswith("system:serviceaccount:"):
        namespace = user.split(":")[2]
        accounts = "system:serviceaccounts"
        return [accounts, f"{accounts}:{namespace}", "system:authenticated"]
    return list(_MASTERS)


class AccessReviewStrategy(Strategy):
    """SubjectAccessReview and its siblings."""

    def review(self, obj: JsonObject, user: str) -> JsonObject | None:
        return {**obj, "status": {"allowed": True}}


class RulesReviewStrategy(Strategy):
    def review(self, obj: JsonObject, user: str) -> JsonObject | None:
        rules = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
        urls = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
        status = {"resourceRules": rules, "nonResourceRules": urls, "incomplete": False}
        return {**obj, "status": status}


class SelfSubjectReviewStrategy(Strategy):
    def review(self, obj: JsonObject, user: str) -> JsonObject | None:
        return {**obj, "status": {"userInfo": {"username": user, "groups": groups_of(user)}}}


def _review(group: str, plural: str, kind: str, strategy: Strategy, *, namespaced: bool) -> Kind:
    names = Names(plural, kind)
    return Kind(group, ("v1",), names, namespaced, strategy=strategy, verbs=("create",))


_AUTHORIZATION = "authorization.k8s.io"

REVIEWS = (
    _review(
        "authentication.k8s.io",
        "selfsubjectreviews",
        "SelfSubjectReview",
        SelfSubjectReviewStrategy(),
        namespaced=False,
    ),
    *(
        _review(
            _AUTHORIZATION,
            f"{kind.lower()}s",
            kind,
            AccessReviewStrategy(),
            namespaced=kind.startswith("Local"),
        )
        for kind in (
            "LocalSubjectAccessReview",
            "SelfSubjectAccessReview",
            "SubjectAccessReview",
        )
    ),
    _review(
        _AUTHORIZATION,
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
        RulesReviewStrategy(),
        namespaced=False,
    ),
)
