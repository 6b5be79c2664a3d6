"""Specs of upstream's e2e.test that fail on a local plane, each with its reason."""

from __future__ import annotations

_RULES = "CEL rules of CustomResourceDefinitions are not evaluated."
#: The spec's whole text → why it fails.
FAILURES: dict[str, str] = {
    "[sig-api-machinery] CustomResourceValidationRules [Privileged:ClusterAdmin] MUST fail create of "
    "a custom resource that exceeds the runtime cost limit for x-kubernetes-validations rule "
    "execution": _RULES,
    "[sig-api-machinery] CustomResourceValidationRules [Privileged:ClusterAdmin] MUST fail update of "
    "a custom resource that does not satisfy a x-kubernetes-validations transition rule": _RULES,
    "[sig-api-machinery] Discovery should locate the groupVersion and a resource within each "
    "APIGroup [Conformance]": "The group apiregistration.k8s.io is not served.",
}
