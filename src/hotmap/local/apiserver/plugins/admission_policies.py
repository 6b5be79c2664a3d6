"""ValidatingAdmissionPolicies: rules in CEL that writes have to keep.

apiserver/pkg/admission/plugin/policy/validating. Audit annotations and the action Audit are read
and do nothing, as there is no audit log; the authorizer is not a variable.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from hotmap.core.errors import ApiError, NotFound, api_error
from hotmap.local.apiserver.admission_match import (
    Operation,
    StoredObjects,
    is_selected,
    matches_rules,
    namespace_of,
    review_request,
)
from hotmap.local.apiserver.expressions import (
    ExpressionError,
    evaluate_expression,
    first_false,
    variables_of,
)
from hotmap.local.apiserver.routes import ResourcePath
from hotmap.local.apiserver.status import forbidden
from hotmap.local.json_object import JsonObject
from hotmap.local.selectors import matches_label_selector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotmap.local.apiserver.plugins import AdmissionRequest
    from hotmap.local.apiserver.reader import ObjectReader
    from hotmap.local.scheme import Kind
    from hotmap.local.store import Store

__all__ = ["AdmissionPolicies"]


_GROUP = "admissionregistration.k8s.io"
_KINDS = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}


class _Denial(NamedTuple):
    """What a policy has against a write."""

    policy: JsonObject
    binding: JsonObject | None
    message: str
    reason: str = ""

    @property
    def names(self) -> str:
        """The policy and its binding, as messages name them."""
        text = f"ValidatingAdmissionPolicy '{self.policy['metadata']['name']}'"
        if self.binding is None:
            return text
        return f"{text} with binding '{self.binding['metadata']['name']}'"


class AdmissionPolicies:
    """The policies of a store and their bindings."""

    def __init__(self, store: Store, reader: ObjectReader) -> None:
        self._store = store
        self._reader = reader
        kinds = [reader.scheme.resource(f"{plural}.{_GROUP}") for plural in _KINDS]
        self._stored = StoredObjects(store, kinds)

    def admit(self, request: AdmissionRequest) -> None:
        """Change nothing."""

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse a write that a policy is against.

        Raises:
            ApiError: 422, or what the policy says.
        """
        obj = None if request.deleted else request.obj
        verb = "DELETE" if request.deleted else "CREATE" if request.old is None else "UPDATE"
        name = request.obj["metadata"].get("name", "")
        path = ResourcePath(request.kind, request.namespace or None, name, request.subresource)
        operation = Operation.of_write(
            verb, path, request.user, dry_run=request.dry_run, obj=obj, old=request.old
        )
        self.check(operation, request.warnings)

    def check(self, operation: Operation, warnings: list[str] | None) -> None:
        """Refuse what a policy denies; its warnings are added to `warnings`.

        Raises:
            ApiError: 422, or what the policy says.
        """
        policies, bindings = self._stored.current()
        if not policies or not bindings or operation.path.kind.group == _GROUP:
            return
        for denial, actions in self._denials(operation, policies, bindings):
            if "Warn" in actions and warnings is not None:
                text = f"Validation failed for {denial.names}: {denial.message}"
                warnings.append(text)
            if "Deny" in actions:
                raise _error(operation, denial)

    def _denials(
        self, operation: Operation, policies: list[JsonObject], bindings: list[JsonObject]
    ) -> Iterator[tuple[_Denial, list[str]]]:
        namespace = namespace_of(operation, self._reader)
        request = review_request(operation, str(uuid.uuid4()))
        variables = variables_of(operation, request, namespace)
        for policy in policies:
            spec = policy["spec"]
            if not self._is_about(spec.get("matchConstraints") or {}, operation):
                continue
            for binding in bindings:
                bound = binding["spec"]
                if bound.get("policyName") != policy["metadata"]["name"]:
                    continue
                resources = bound.get("matchResources")
                if resources and not self._is_about(resources, operation, bound=True):
                    continue
                for denial in self._evaluate(policy, binding, operation, variables):
                    yield denial, bound.get("validationActions") or ["Deny"]

    def _is_about(
        self, resources: JsonObject, operation: Operation, *, bound: bool = False
    ) -> bool:
        rules = resources.get("resourceRules")
        if not (bound and not rules) and not matches_rules(rules, operation):
            return False
        if matches_rules(resources.get("excludeResourceRules"), operation):
            return False
        return is_selected(resources, operation, self._reader)

    def _evaluate(
        self,
        policy: JsonObject,
        binding: JsonObject,
        operation: Operation,
        variables: JsonObject,
    ) -> Iterator[_Denial]:
        spec = policy["spec"]
        ignores = spec.get("failurePolicy", "Fail") == "Ignore"
        try:
            parameters = self._parameters(spec, binding["spec"], operation)
        except ExpressionError as error:
            if not ignores:
                yield _Denial(policy, binding, str(error))
            return
        for parameter in parameters:
            seen = {**variables, "params": parameter}
            try:
                if first_false(spec.get("matchConditions"), seen) is not None:
                    continue
            except ExpressionError as error:
                if not ignores:
                    yield _Denial(policy, binding, str(error))
                continue
            yield from _broken_rules(policy, binding, _with_variables(spec, seen))

    def _parameters(
        self, spec: JsonObject, bound: JsonObject, operation: Operation
    ) -> list[JsonObject | None]:
        """Return the parameters that a policy is evaluated with, one after the other.

        Raises:
            ExpressionError: there are none, and the binding forbids that.
        """
        wanted, reference = spec.get("paramKind"), bound.get("paramRef")
        if not wanted or not reference:
            return [None]
        group, _, _ = str(wanted.get("apiVersion", "")).rpartition("/")
        kind = self._reader.scheme.find_kind(group, wanted.get("kind", ""))
        if kind is None:
            raise ExpressionError(
                f"failed to configure policy: failed to find resource referenced by paramKind: "
                f"'{wanted.get('apiVersion', '')}, Kind={wanted.get('kind', '')}'"
            )
        found = list(self._referenced(kind, reference, operation))
        if not found and reference.get("parameterNotFoundAction") != "Allow":
            raise ExpressionError(
                "failed to configure binding: no params found for policy binding with `Deny` "
                "parameterNotFoundAction"
            )
        return list(found)

    def _referenced(
        self, kind: Kind, reference: JsonObject, operation: Operation
    ) -> Iterator[JsonObject]:
        namespace = reference.get("namespace") or operation.path.namespace
        if not kind.namespaced:
            namespace = None
        name = reference.get("name")
        if name:
            try:
                entry = self._reader.entry(kind, namespace, name)
            except NotFound:
                return
            yield msgspec.json.decode(entry.value or b"")
            return
        for found in self._store.range(kind.prefix(namespace)).entries:
            obj = msgspec.json.decode(found.value or b"")
            labels = obj["metadata"].get("labels") or {}
            if matches_label_selector(reference.get("selector") or {}, labels):
                yield obj


def _with_variables(spec: JsonObject, seen: JsonObject) -> JsonObject:
    """Add the variables of a policy, each of which may use those before it.

    One that has no value is left out, so that what uses it has none, either.
    """
    values: JsonObject = {}
    for variable in spec.get("variables") or ():
        try:
            value = evaluate_expression(variable["expression"], {**seen, "variables": values})
        except ExpressionError:
            continue
        values = {**values, variable["name"]: value}
    return {**seen, "variables": values}


def _broken_rules(policy: JsonObject, binding: JsonObject, seen: JsonObject) -> Iterator[_Denial]:
    spec = policy["spec"]
    for rule in spec.get("validations") or ():
        text = rule["expression"].strip()
        try:
            holds = evaluate_expression(rule["expression"], seen)
        except ExpressionError as error:
            if spec.get("failurePolicy", "Fail") != "Ignore":
                message = f"expression '{text}' resulted in error: {error}"
                yield _Denial(policy, binding, message, rule.get("reason", ""))
            continue
        if holds is not True:
            yield _Denial(policy, binding, _message(rule, seen), rule.get("reason", ""))


def _message(rule: JsonObject, seen: JsonObject) -> str:
    expression = rule.get("messageExpression")
    if expression:
        try:
            text = evaluate_expression(expression, seen)
        except ExpressionError:
            text = ""
        if isinstance(text, str) and text.strip() and "\n" not in text:
            return text.strip()
    message = str(rule.get("message") or "").strip()
    return message or f"failed expression: {rule['expression'].strip()}"


def _error(operation: Operation, denial: _Denial) -> ApiError:
    message = f"{denial.names} denied request: {denial.message}"
    name = operation.name
    made = forbidden(operation.path.kind, name, message, causes=[{"message": message}])
    reason = denial.reason or "Invalid"
    return api_error(
        _CODES.get(reason, 422), made.message, reason=reason, details=dict(made.details)
    )
