"""The kinds that the local control plane serves, as one table.

What a kind is called, where it is stored and which general rules hold for it lives here. What
its fields mean (defaults, validation, printer columns) lives in the API server.
"""

from __future__ import annotations

from typing import NamedTuple

FieldPath = tuple[str, ...]


class Kind(NamedTuple):
    """One served kind (kubernetes: pkg/registry/**/strategy.go and storage.go).

    `storage_prefix` is the part of a key between `/registry/` and the namespace. `fields` are
    the field selectors beyond name and namespace, as label → path.
    """

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    storage_prefix: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    namespaced: bool = True
    has_status: bool = False
    has_scale: bool = False
    # Whether metadata.generation counts changes of the spec.
    has_generation: bool = False
    # Whether a PUT may leave out the resourceVersion (AllowUnconditionalUpdate).
    unconditional_update: bool = True
    # Whether a PUT may create (AllowCreateOnUpdate).
    create_on_update: bool = False
    fields: tuple[tuple[str, FieldPath], ...] = ()

    @property
    def api_version(self) -> str:
        """`v1` or `apps/v1`: what objects of this kind say."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """`configmaps` or `deployments.apps`: what messages say (schema.GroupResource)."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified(self) -> str:
        """`ConfigMap` or `Deployment.apps`: what Invalid says (schema.GroupKind)."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def key(self, namespace: str | None, name: str) -> str:
        """Give the storage key of one object."""
        return f"{self.prefix(namespace)}{name}"

    def prefix(self, namespace: str | None) -> str:
        """Give the storage prefix of a namespace's objects, or of all with None."""
        if namespace and self.namespaced:
            return f"/registry/{self.storage_prefix}/{namespace}/"
        return f"/registry/{self.storage_prefix}/"


def _paths(*labels: str) -> tuple[tuple[str, FieldPath], ...]:
    return tuple((label, tuple(label.split("."))) for label in labels)


KINDS = (
    Kind("", "v1", "configmaps", "configmap", "ConfigMap", "configmaps", ("cm",)),
    Kind("", "v1", "secrets", "secret", "Secret", "secrets", fields=_paths("type")),
    Kind(
        "", "v1", "namespaces", "namespace", "Namespace", "namespaces", ("ns",),
        namespaced=False, has_status=True, fields=_paths("status.phase"),
    ),
    Kind(
        "", "v1", "pods", "pod", "Pod", "pods", ("po",), ("all",),
        has_status=True, has_generation=True,
        fields=_paths(
            "spec.nodeName", "spec.restartPolicy", "spec.schedulerName",
            "spec.serviceAccountName", "spec.hostNetwork", "status.phase", "status.podIP",
            "status.nominatedNodeName",
        ),
    ),
    Kind(
        "", "v1", "services", "service", "Service", "services/specs", ("svc",), ("all",),
        has_status=True, create_on_update=True, fields=_paths("spec.clusterIP", "spec.type"),
    ),
    Kind(
        "", "v1", "endpoints", "endpoints", "Endpoints", "services/endpoints", ("ep",),
        create_on_update=True,
    ),
    Kind(
        "", "v1", "serviceaccounts", "serviceaccount", "ServiceAccount", "serviceaccounts",
        ("sa",), unconditional_update=False,
    ),
    Kind(
        "", "v1", "nodes", "node", "Node", "minions", ("no",),
        namespaced=False, has_status=True, fields=_paths("spec.unschedulable"),
    ),
    Kind(
        "", "v1", "events", "event", "Event", "events", ("ev",), create_on_update=True,
        fields=(
            *_paths(
                "involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
                "involvedObject.uid", "involvedObject.apiVersion",
                "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason", "type",
            ),
            ("reportingComponent", ("reportingComponent",)),
            ("source", ("source", "component")),
        ),
    ),
    Kind(
        "apps", "v1", "deployments", "deployment", "Deployment", "deployments", ("deploy",),
        ("all",), has_status=True, has_scale=True, has_generation=True,
    ),
    Kind(
        "apps", "v1", "replicasets", "replicaset", "ReplicaSet", "replicasets", ("rs",),
        ("all",), has_status=True, has_scale=True, has_generation=True,
        fields=_paths("status.replicas"),
    ),
    Kind(
        "apps", "v1", "statefulsets", "statefulset", "StatefulSet", "statefulsets", ("sts",),
        ("all",), has_status=True, has_scale=True, has_generation=True,
    ),
    Kind(
        "apps", "v1", "daemonsets", "daemonset", "DaemonSet", "daemonsets", ("ds",), ("all",),
        has_status=True, has_generation=True,
    ),
    Kind(
        "apps", "v1", "controllerrevisions", "controllerrevision", "ControllerRevision",
        "controllerrevisions", unconditional_update=False,
    ),
    Kind(
        "batch", "v1", "jobs", "job", "Job", "jobs", (), ("all",), has_status=True,
        has_generation=True, fields=(("status.successful", ("status", "succeeded")),),
    ),
    Kind(
        "batch", "v1", "cronjobs", "cronjob", "CronJob", "cronjobs", ("cj",), ("all",),
        has_status=True, has_generation=True,
    ),
    Kind(
        "coordination.k8s.io", "v1", "leases", "lease", "Lease", "leases",
        unconditional_update=False, create_on_update=True,
    ),
)  # fmt: skip

BY_PLURAL = {kind.plural: kind for kind in KINDS}
BY_RESOURCE = {(kind.group, kind.version, kind.plural): kind for kind in KINDS}
