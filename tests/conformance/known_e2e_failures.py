"""Specs of upstream's e2e.test that fail on a local plane, each with its reason."""

from __future__ import annotations

_RULES = "[sig-api-machinery] CustomResourceValidationRules [Privileged:ClusterAdmin] MUST fail"
_DISCOVERY = "[sig-api-machinery] Discovery should locate the groupVersion and a resource within"

#: The spec's whole text → why it fails.
FAILURES: dict[str, str] = {
    f"{_RULES} create of a custom resource that exceeds the runtime cost limit for "
    "x-kubernetes-validations rule execution": "The cost of CEL rules is not bounded.",
    f"{_RULES} update of a custom resource that does not satisfy a x-kubernetes-validations "
    "transition rule": "Transition rules in CEL are not evaluated.",
    f"{_DISCOVERY} each APIGroup [Conformance]": "apiregistration.k8s.io is not served.",
}
