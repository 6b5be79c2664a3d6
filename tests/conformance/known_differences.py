"""Requests that the local API server answers otherwise than Kubernetes, each with its reason."""

from __future__ import annotations

#: Reason → subject → requests.
REASONS: dict[str, dict[str, tuple[str, ...]]] = {
    "Upstream compares the bytes of `data`, which every patch writes again, and so refuses all.": {
        "controllerrevision": ("merge patch", "apply"),
    },
    "The HTTP server refuses methods that it does not know before a request is made of it.": {
        "bodies": ("unknown method",),
    },
    "An invalid entry of managedFields is kept; upstream drops all that a client sent.": {
        "validation": ("managed fields",),
    },
    "managedFields differ in an entry that upstream has left out, or has without a time.": {
        "subresources": ("ephemeral", "ephemeral by get"),
    },
    "Errors are told in the order of the object's fields; upstream's is that of a Go map.": {
        "custom-objects": ("two errors",),
    },
    "Rules are told in another order, which upstream takes from its caches.": {
        "access": ("rules as jane",),
    },
    "Resources that are not served: mutating policies.": {
        "discovery": ("/apis/admissionregistration.k8s.io/v1",),
    },
}

#: "SUBJECT: NAME" → why.
DIFFERENCES = {
    f"{subject}: {name}": reason
    for reason, subjects in REASONS.items()
    for subject, names in subjects.items()
    for name in names
}
