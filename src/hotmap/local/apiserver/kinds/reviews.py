"""Kinds that are questions: they are answered and not stored.

pkg/registry/authorization, pkg/registry/authentication.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.core.errors import BadRequest
from hotmap.local.access import Attributes, UserInfo
from hotmap.local.field_errors import FieldError, invalid_value, required
from hotmap.local.json_object import JsonObject
from hotmap.local.scheme import Kind, Names
from hotmap.local.service_tokens import ISSUER
from hotmap.local.strategy import Strategy

if TYPE_CHECKING:
    from hotmap.local.access import Reviewer

_EXACTLY_ONE = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


class _AccessQuestion(Strategy):
    """Messages of these name no kind."""

    names_kind = False


class SelfAccessReviewStrategy(_AccessQuestion):
    """SelfSubjectAccessReview: may I?"""

    def validate(self, obj: JsonObject) -> list[FieldError]:
        return _attribute_errors(obj.get("spec") or {})

    def review(self, obj: JsonObject, reviewer: Reviewer) -> JsonObject | None:
        return _decided(obj, reviewer, reviewer.user)


class AccessReviewStrategy(_AccessQuestion):
    """SubjectAccessReview and LocalSubjectAccessReview: the access of another user."""

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = _attribute_errors(spec)
        if not spec.get("user") and not spec.get("groups"):
            text = "at least one of user or group must be specified"
            errors.append(invalid_value("spec.user", spec.get("user", ""), text))
        return errors

    def review(self, obj: JsonObject, reviewer: Reviewer) -> JsonObject | None:
        spec = obj["spec"]
        namespace = obj["metadata"].get("namespace")
        asked = (spec.get("resourceAttributes") or {}).get("namespace")
        if obj["kind"].startswith("Local") and asked != namespace:
            raise BadRequest(f"spec.resourceAttributes.namespace must match namespace: {namespace}")
        extra = tuple((key, tuple(values)) for key, values in (spec.get("extra") or {}).items())
        groups = tuple(spec.get("groups") or ())
        user = UserInfo(spec.get("user", ""), groups, spec.get("uid", ""), extra)
        return _decided(obj, reviewer, user)


class RulesReviewStrategy(Strategy):
    """SelfSubjectRulesReview: what may I?"""

    def validate(self, obj: JsonObject) -> list[FieldError]:
        if not (obj.get("spec") or {}).get("namespace"):
            return [required("spec.namespace", "no namespace on request")]
        return []

    def review(self, obj: JsonObject, reviewer: Reviewer) -> JsonObject | None:
        namespace = obj["spec"]["namespace"]
        resources, paths = reviewer.authorizer.rules_for(reviewer.user, namespace)
        status = {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}
        metadata = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
        # Upstream's answer does not repeat the question.
        return {**obj, "metadata": metadata, "spec": {}, "status": status}


class SelfSubjectReviewStrategy(Strategy):
    """SelfSubjectReview: who am I?"""

    has_creation_time = True

    def review(self, obj: JsonObject, reviewer: Reviewer) -> JsonObject | None:
        return {**obj, "status": {"userInfo": reviewer.user.document()}}


class TokenReviewStrategy(Strategy):
    """TokenReview: whose is this token?"""

    def validate(self, obj: JsonObject) -> list[FieldError]:
        if not (obj.get("spec") or {}).get("token"):
            return [required("spec.token", "token is required for TokenReview in authentication")]
        return []

    def review(self, obj: JsonObject, reviewer: Reviewer) -> JsonObject | None:
        spec = obj["spec"]
        wanted = tuple(spec.get("audiences") or ())
        user = reviewer.tokens.user_of(spec["token"], wanted)
        if user is None:
            status: JsonObject = {"user": {}, "error": "invalid bearer token"}
            return {**obj, "status": status}
        status = {"authenticated": True, "user": user.document()}
        status["audiences"] = list(wanted or (ISSUER,))
        return {**obj, "status": status}


def _attribute_errors(spec: JsonObject) -> list[FieldError]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        shown = {"Path": path.get("path", ""), "Verb": path.get("verb", "")}
        why = "cannot be specified in combination with resourceAttributes"
        return [invalid_value("spec.nonResourceAttributes", shown, why)]
    if resource is None and path is None:
        return [invalid_value("spec.resourceAttributes", None, _EXACTLY_ONE)]
    return []


def _decided(obj: JsonObject, reviewer: Reviewer, user: UserInfo) -> JsonObject:
    spec = obj["spec"]
    asked = spec.get("resourceAttributes")
    if asked is not None:
        fields = ("group", "resource", "subresource", "namespace", "name")
        named = {field: asked.get(field, "") for field in fields}
        attributes = Attributes(user, asked.get("verb", ""), **named)
    else:
        asked = spec["nonResourceAttributes"]
        attributes = Attributes(user, asked.get("verb", ""), path=asked.get("path", ""))
    allowed, reason = reviewer.authorizer.authorize(attributes)
    status: JsonObject = {"allowed": allowed}
    if reason:
        status["reason"] = reason
    return {**obj, "status": status}


def _review(group: str, kind: str, strategy: Strategy) -> Kind:
    names = Names(f"{kind.lower()}s", kind)
    namespaced = kind.startswith("Local")
    return Kind(group, ("v1",), names, namespaced, strategy=strategy, verbs=("create",))


_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"

REVIEWS = (
    _review(_AUTHENTICATION, "SelfSubjectReview", SelfSubjectReviewStrategy()),
    _review(_AUTHENTICATION, "TokenReview", TokenReviewStrategy()),
    _review(_AUTHORIZATION, "LocalSubjectAccessReview", AccessReviewStrategy()),
    _review(_AUTHORIZATION, "SelfSubjectAccessReview", SelfAccessReviewStrategy()),
    _review(_AUTHORIZATION, "SubjectAccessReview", AccessReviewStrategy()),
    _review(_AUTHORIZATION, "SelfSubjectRulesReview", RulesReviewStrategy()),
)
