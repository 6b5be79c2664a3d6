"""Command lines whose output differs from that of Kubernetes, each with its reason."""

from __future__ import annotations

#: Reason → subject → lines.
REASONS: dict[str, dict[str, tuple[str, ...]]] = {
    "kubectl goes through a map, whose order differs from run to run.": {
        "objects": ("describe limits limits",),
    },
    "Values of two Go types are shown by names that only Go has.": {
        "workloads": (
            'patch job one -p {"spec":{"template":{"spec":{"restartPolicy":"OnFailure"}}}}',
        ),
    },
    "Go's difference of two specs, written by its internal types, is not told.": {
        "workloads": ('patch pod lone -p {"spec":{"hostNetwork":true}}',),
        "objects": ('patch pvc claim -p {"spec":{"storageClassName":"y"}}',),
        "manifests": ('patch pod good -p {"spec":{"terminationGracePeriodSeconds":5}}',),
    },
    "The garbage collector here is done before the next command.": {
        "workloads": ("delete all -l app=web",),
    },
    "Pages of metrics, flags and status are not served.": {"manifests": ("get --raw /",)},
    "The administrator of the test bed has another name.": {"generators": ("auth whoami",)},
    "The fields of metadata come in another order in the JSON of a request without Go's types.": {
        "generators": ("get --raw /api/v1/namespaces/NS/configmaps/lc?pretty=1",),
    },
    "Resources that are not served here: bindings, component statuses, mutating policies.": {
        "output": ("get componentstatuses -o name",),
        "discovery": (
            "api-resources --api-group= -o name --sort-by=name",
            "api-resources --api-group=admissionregistration.k8s.io -o name",
            "api-resources --namespaced=false --api-group= -o name",
        ),
    },
}

#: "SUBJECT: LINE" → why.
DIFFERENCES = {
    f"{subject}: {line}": reason
    for reason, subjects in REASONS.items()
    for subject, lines in subjects.items()
    for line in lines
}
