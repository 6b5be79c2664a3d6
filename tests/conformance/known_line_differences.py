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
        "volumes": (
            'patch pvc plain -p {"spec":{"accessModes":["ReadWriteMany"]}}',
            'patch pvc unfit -p {"spec":{"resources":{"requests":{"storage":"99Gi"}}}}',
            'patch pv lines-small -p {"spec":{"hostPath":{"path":"/other"}}}',
        ),
        "corners": (
            "set env pod/quiet A=1",
            "set resources pod quiet --limits=cpu=1",
            "debug quiet --image=busybox -c side --profile=general #2",
        ),
    },
    "A patch to another kind is decoded as that kind first.": {
        "corners": (
            'patch cm patched --type=json -p [{"op":"replace","path":"/kind","value":"Secret"}]',
        ),
    },
    "The object that a message shows has no managedFields of a Scale.": {
        "commands": ("scale deploy trio --replicas=2147483648",),
    },
    "The garbage collector here is done before the next command.": {
        "workloads": ("delete all -l app=web",),
    },
    "The administrator of the test bed has another name.": {"generators": ("auth whoami",)},
    "The fields of metadata come in another order in the JSON of a request without Go's types.": {
        "generators": ("get --raw /api/v1/namespaces/NS/configmaps/lc?pretty=1",),
    },
    "Resources that are not served here: mutating policies.": {
        "discovery": ("api-resources --api-group=admissionregistration.k8s.io -o name",),
    },
    "The order of components differs from run to run.": {
        "output": ("get componentstatuses -o name",),
    },
}

#: "SUBJECT: LINE" → why.
DIFFERENCES = {
    f"{subject}: {line}": reason
    for reason, subjects in REASONS.items()
    for subject, lines in subjects.items()
    for line in lines
}
