"""What clients ask before anything else."""

from __future__ import annotations

from tests.conformance.cases.call import Call


def subjects() -> dict[str, list[Call]]:
    """Return the subjects of this module."""
    groups = (
        "/api/v1",
        "/apis/apps",
        "/apis/apps/v1",
        "/apis/batch/v1",
        "/apis/autoscaling",
        "/apis/autoscaling/v1",
        "/apis/autoscaling/v2",
        "/apis/rbac.authorization.k8s.io/v1",
        "/apis/policy/v1",
        "/apis/coordination.k8s.io/v1",
        "/apis/networking.k8s.io/v1",
        "/apis/events.k8s.io/v1",
        "/apis/discovery.k8s.io/v1",
        "/apis/apiextensions.k8s.io/v1",
        "/apis/admissionregistration.k8s.io/v1",
        "/apis/authentication.k8s.io/v1",
        "/apis/authorization.k8s.io/v1",
        "/apis/storage.k8s.io/v1",
        "/apis/scheduling.k8s.io/v1",
    )
    return {
        "discovery": [
            Call("versions", "GET", "/api"),
            *(Call(path, "GET", path) for path in groups),
            Call("missing group", "GET", "/apis/nothing"),
            Call("missing version", "GET", "/apis/apps/v9"),
            Call("livez", "GET", "/livez"),
            Call("readyz", "GET", "/readyz"),
            Call("healthz", "GET", "/healthz"),
        ]
    }
