"""Requests that the local API server answers otherwise than Kubernetes, each with its reason."""

from __future__ import annotations

#: Reason → subject → requests.
REASONS: dict[str, dict[str, tuple[str, ...]]] = {
    "Status and reason are equal; the sentence or its details are not.": {
        "bodies": (
            "empty",
            "no json",
            "text",
            "list",
            "number",
            "list of items",
            "broken yaml",
            "accept table of v2",
        ),
        "json-patches": (
            "wrong type",
            "object",
            "malformed",
        ),
        "merge-patches": (
            "malformed",
            "list",
            "null",
            "wrong type",
            "uid",
            "replicas as text",
            "fraction",
        ),
        "strategic-patches": (
            "malformed",
            "list",
            "wrong type",
        ),
        "validation": (
            "docker json",
            "long label",
            "finalizer",
        ),
        "workload-validation": (
            "expression",
            "operator",
            "strategy",
            "job policy",
        ),
        "selectors": ("operator alone",),
        "pages": ("wrong token",),
        "watches": ("wrong label",),
        "apply": (
            "wrong kind",
            "no kind",
            "wrong version",
            "unknown field",
            "malformed",
            "list",
        ),
        "apply-lists": (
            "no key",
            "unknown",
            "replicas conflict",
        ),
        "deletion": (
            "malformed",
            "add finalizer",
            "wrong namespace",
        ),
        "subresources": (
            "negative scale",
            "exec of pending",
            "exec without command",
            "bind again",
            "token for deployment",
        ),
        "custom-definitions": (
            "no schema",
            "no versions",
            "no storage",
            "wrong pattern",
            "reference",
            "scale without paths",
            "version name",
        ),
        "custom-objects": (
            "two errors",
            "unknown field",
        ),
        "access": (
            "own empty",
            "own both",
            "nobody",
            "local",
            "local elsewhere",
            "path",
            "list by name",
        ),
        "discovery": ("missing version",),
    },
    "The columns of this kind are a selection of upstream's.": {
        "job": ("table",),
        "cronjob": ("table",),
        "role": ("table",),
        "rolebinding": ("table",),
        "poddisruptionbudget": ("table",),
        "horizontalpodautoscaler": ("table",),
        "event": ("table",),
        "podtemplate": ("table",),
        "limitrange": ("table",),
        "replicationcontroller": ("table",),
    },
    "managedFields differ, such as those of an update through a subresource.": {
        "cronjob": (
            "create",
            "merge patch",
            "replace",
            "apply",
        ),
        "networkpolicy": (
            "create",
            "table",
            "merge patch",
            "replace",
            "apply",
        ),
        "event": (
            "create",
            "merge patch",
            "replace",
            "apply",
        ),
        "replicationcontroller": (
            "create",
            "merge patch",
            "replace",
            "apply",
        ),
        "apply": (
            "give up all",
            "no name",
            "labels",
            "finalizers",
            "no finalizers",
        ),
        "subresources": (
            "status",
            "put status",
            "patch status",
            "spec by status",
        ),
        "custom-objects": (
            "apply",
            "apply by another",
        ),
        "access": (
            "own",
            "own as jane",
            "other",
            "other path",
        ),
    },
    "A rule of upstream's validation or admission that is not built.": {
        "job": ("replace",),
        "poddisruptionbudget": ("replace",),
        "controllerrevision": (
            "merge patch",
            "apply",
        ),
        "bodies": ("accept several",),
        "merge-patches": ("wrong kind",),
        "validation": ("owner event",),
        "workload-validation": (
            "stateful policy",
            "daemon strategy",
            "job parallelism",
            "cron schedule",
            "cron name",
            "stateful service",
        ),
        "selectors": (
            "escape",
            "wrong include",
        ),
        "apply": ("uid of missing",),
        "apply-lists": (
            "duplicate",
            "null",
        ),
        "deletion": (
            "both options",
            "wrong kind",
            "right uid",
        ),
        "subresources": (
            "negative status",
            "evict against budget",
            "get token",
        ),
        "custom-definitions": ("wrong default",),
        "custom-objects": (
            "scale",
            "apply unknown",
            "without version",
        ),
        "access": (
            "empty rule",
            "mixed rule",
            "no role",
            "change role",
        ),
    },
    "Refused by both, with another status.": {
        "bodies": (
            "null",
            "unknown method",
        ),
        "strategic-patches": ("unknown directive",),
        "pages": ("get text",),
        "apply": ("wrong type",),
        "subresources": (
            "log negative",
            "binding without target",
        ),
        "custom-objects": ("wrong kind",),
        "access": ("impersonate group alone",),
    },
    "Follows from an earlier request of the subject that is on this list.": {
        "bodies": (
            "data as list",
            "time",
        ),
        "validation": (
            "negative generation",
            "managed fields",
        ),
        "pod-validation": (
            "host aliases",
            "sysctl",
            "toleration",
            "add toleration",
        ),
        "workload-validation": (
            "stateful strategy",
            "job selector",
            "job complete",
            "cron zone",
            "cron policy",
            "stateful",
            "daemon",
        ),
        "custom-definitions": (
            "column",
            "short name",
        ),
        "access": ("wrong subject",),
    },
    "A resource, subresource, form or option that is not built.": {
        "bodies": ("yaml answer",),
        "watches": ("old path",),
        "subresources": (
            "log of pending",
            "ephemeral",
            "ephemeral by get",
        ),
        "discovery": (
            "/apis/autoscaling/v1",
            "/apis/events.k8s.io/v1",
        ),
    },
    "Fields that upstream fills in, counts or leaves out differ.": {
        "daemonset": (
            "table",
            "metadata alone",
            "metadata list",
        ),
        "job": (
            "apply",
            "delete",
        ),
        "persistentvolumeclaim": (
            "create",
            "table",
            "merge patch",
        ),
        "poddisruptionbudget": ("apply",),
        "replicationcontroller": ("delete",),
        "pod-validation": ("remove tolerations",),
        "workload-validation": (
            "stateful image",
            "daemon generation",
        ),
        "watches": (
            "one object",
            "pods",
            "pending pods",
            "pod table",
        ),
        "apply-lists": (
            "atomic list",
            "volumes",
            "side away",
            "replicas given up",
            "status",
            "get",
        ),
        "deletion": (
            "negative grace",
            "terminate",
            "finalize",
        ),
        "subresources": (
            "scale table",
            "bound",
            "phase",
            "wrong phase",
            "token",
        ),
        "custom-objects": (
            "define",
            "established",
            "resources",
            "definition table",
            "list",
            "get again",
            "replace",
            "collection",
            "remove definition",
        ),
        "access": (
            "rules as jane",
            "who as jane",
            "wrong token",
        ),
        "discovery": (
            "/api/v1",
            "/apis/autoscaling",
            "/apis/networking.k8s.io/v1",
            "/apis/admissionregistration.k8s.io/v1",
        ),
    },
    "A Warning that is not built.": {
        "endpoints": ("unknown field",),
        "bodies": (
            "duplicate warned",
            "no token",
        ),
        "validation": ("tls complete",),
        "pod-validation": ("projected empty",),
        "access": (
            "list",
            "get",
            "create",
            "delete",
            "patch",
            "watch",
            "cluster scope",
            "all namespaces",
            "subresource",
            "other name",
            "escalate",
            "impersonate account",
        ),
    },
}

#: "SUBJECT: NAME" → why.
DIFFERENCES = {
    f"{subject}: {name}": reason
    for reason, subjects in REASONS.items()
    for subject, names in subjects.items()
    for name in names
}
