"""Specs of upstream's e2e.test that fail on a local plane, each with its reason."""

from __future__ import annotations

_RULES = "[sig-api-machinery] CustomResourceValidationRules [Privileged:ClusterAdmin] MUST fail"

#: The spec's whole text → why it fails.
FAILURES: dict[str, str] = {
    f"{_RULES} create of a custom resource that exceeds the runtime cost limit for "
    "x-kubernetes-validations rule execution": "The cost of CEL rules is not bounded.",
    f"{_RULES} update of a custom resource that does not satisfy a x-kubernetes-validations "
    "transition rule": "Transition rules in CEL are not evaluated.",
    "[sig-architecture] Conformance Tests should have at least two untainted nodes "
    "[Conformance]": "A plane has one node.",
    "[sig-api-machinery] ValidatingAdmissionPolicy [Privileged:ClusterAdmin] should type check "
    "validation expressions [Conformance]": "No controller checks the types of expressions.",
}
