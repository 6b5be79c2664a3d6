"""The API resources that hotmap uses, and their URL paths.

Only names and paths: the types of the objects are in `core.model.objects`.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

__all__ = [
    "BY_KIND",
    "CONFIGMAPS",
    "CRONJOBS",
    "DAEMONSETS",
    "DEPLOYMENTS",
    "EVENTS",
    "JOBS",
    "LEASES",
    "NAMESPACES",
    "PODS",
    "POD_DISRUPTION_BUDGETS",
    "PROVIDER_CLASSES",
    "PROVIDER_CLASS_POD_STATUSES",
    "REPLICASETS",
    "ROLLOUTS",
    "SECRETS",
    "STATEFULSETS",
    "Resource",
    "Selection",
]


class Resource(NamedTuple):
    """One resource of an API server; `group` is "" for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects: "v1", "apps/v1"."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, namespace: str | None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """Build the URL path of the collection, of one object, or of its subresource.

        `namespace` None means all namespaces, and is ignored by cluster-scoped resources
        (kubernetes: apiserver/pkg/endpoints/request/requestinfo.go). Every part is quoted.
        """
        root = "/apis/" + self.group if self.group else "/api"
        parts = [root, self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        parts += [quote(part, safe="") for part in (name, subresource) if part]
        return "/".join(parts)


class Selection(NamedTuple):
    """Some objects of one resource; `namespace` None means all."""

    resource: Resource
    namespace: str | None = None
    label_selector: str = ""
    field_selector: str = ""

    def __str__(self) -> str:
        plural = self.resource.plural
        return f"{plural} in {self.namespace}" if self.namespace else plural


CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")
EVENTS = Resource("", "v1", "events", "Event")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
STATEFULSETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
DAEMONSETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
REPLICASETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
JOBS = Resource("batch", "v1", "jobs", "Job")
CRONJOBS = Resource("batch", "v1", "cronjobs", "CronJob")
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
#: Argo Rollouts; absent on most clusters.
ROLLOUTS = Resource("argoproj.io", "v1alpha1", "rollouts", "Rollout")
#: The Secrets Store CSI driver; absent on most clusters.
_CSI = "secrets-store.csi.x-k8s.io", "v1"
PROVIDER_CLASSES = Resource(*_CSI, "secretproviderclasses", "SecretProviderClass")
PROVIDER_CLASS_POD_STATUSES = Resource(
    *_CSI, "secretproviderclasspodstatuses", "SecretProviderClassPodStatus"
)

#: Every resource above by the kind of its objects, as object keys name it.
BY_KIND: dict[str, Resource] = {
    resource.kind: resource
    for resource in (
        CONFIGMAPS,
        SECRETS,
        NAMESPACES,
        PODS,
        POD_DISRUPTION_BUDGETS,
        EVENTS,
        DEPLOYMENTS,
        STATEFULSETS,
        DAEMONSETS,
        REPLICASETS,
        JOBS,
        CRONJOBS,
        LEASES,
        ROLLOUTS,
        PROVIDER_CLASSES,
        PROVIDER_CLASS_POD_STATUSES,
    )
}
