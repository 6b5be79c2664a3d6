"""The CustomResourceDefinition of Argo Rollouts, as far as the tests need it.

argo-rollouts: manifests/crds/rollout-crd.yaml
"""

from __future__ import annotations

from typing import Any

__all__ = ["ROLLOUTS"]

ROLLOUTS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "rollouts.argoproj.io"},
    "spec": {
        "group": "argoproj.io",
        "scope": "Namespaced",
        "names": {"kind": "Rollout", "plural": "rollouts", "singular": "rollout"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            part: {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                            for part in ("spec", "status")
                        },
                    }
                },
            }
        ],
    },
}
