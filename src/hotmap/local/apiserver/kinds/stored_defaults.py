"""What objects of the stored kinds leave out.

pkg/apis/<group>/<version>/defaults.go; each function changes an object in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.apiserver.pod_defaults import default_pod_spec
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Callable

_CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
# Other sources have to be given as a reference (EnforceDataSourceBackwardsCompatibility).
_DATA_SOURCES = (
    ("", "PersistentVolumeClaim"),
    ("snapshot.storage.k8s.io", "VolumeSnapshot"),
)
_PERCENT = {"type": "Percent", "value": 100, "periodSeconds": 15}
_SCALE_DOWN = {"selectPolicy": "Max", "policies": [_PERCENT]}
_SCALE_UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, _PERCENT],
}


def default_claim(obj: JsonObject) -> None:
    """Fill in a PersistentVolumeClaim."""
    spec = obj["spec"]
    spec.setdefault("volumeMode", "Filesystem")
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if reference is not None and reference.get("namespace"):
        # The feature gate CrossNamespaceVolumeDataSource is off.
        del spec["dataSourceRef"]
        reference = None
    if source is not None and reference is None:
        known = (source.get("apiGroup") or "", source["kind"])
        if known in _DATA_SOURCES:
            spec["dataSourceRef"] = dict(source)
        else:
            del spec["dataSource"]
    elif reference is not None and source is None:
        spec["dataSource"] = dict(reference)


def default_volume(obj: JsonObject) -> None:
    """Fill in a PersistentVolume."""
    spec = obj.setdefault("spec", {})
    if "hostPath" in spec:
        spec["hostPath"].setdefault("type", "")
    if "iscsi" in spec:
        spec["iscsi"].setdefault("iscsiInterface", "default")
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")


def default_driver(obj: JsonObject) -> None:
    """Fill in a CSIDriver."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("attachRequired", True)
    for field in ("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"):
        spec.setdefault(field, False)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]


def default_pod_template(obj: JsonObject) -> None:
    """Fill in a PodTemplate."""
    template = obj.setdefault("template", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


def default_replication_controller(obj: JsonObject) -> None:
    """Fill in a ReplicationController: labels and selector are those of its template."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    template = spec.get("template")
    if template is None:
        return
    labels = template.setdefault("metadata", {}).get("labels") or {}
    default_pod_spec(template.setdefault("spec", {}))
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)


def default_network_policy(obj: JsonObject) -> None:
    """Fill in a NetworkPolicy."""
    spec = obj.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
        for port in rule.get("ports") or ():
            port.setdefault("protocol", "TCP")


def default_autoscaler(obj: JsonObject) -> None:
    """Fill in a HorizontalPodAutoscaler."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        spec["metrics"] = [_CPU]
    behavior = spec.get("behavior")
    if behavior is not None:
        rules: JsonObject = {"scaleUp": _SCALE_UP, "scaleDown": _SCALE_DOWN}
        for direction, known in rules.items():
            behavior[direction] = {**known, **(behavior.get(direction) or {})}


def default_endpoint_slice(obj: JsonObject) -> None:
    """Fill in an EndpointSlice."""
    for port in obj.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")
    for endpoint in obj.get("endpoints") or ():
        endpoint.setdefault("conditions", {})


def default_endpoints(obj: JsonObject) -> None:
    """Fill in Endpoints."""
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")


def _default_resources(resources: JsonObject) -> None:
    resources.setdefault("matchPolicy", "Equivalent")
    resources.setdefault("namespaceSelector", {})
    resources.setdefault("objectSelector", {})
    for field in ("resourceRules", "excludeResourceRules"):
        for rule in resources.get(field) or ():
            rule.setdefault("scope", "*")


def default_admission_policy(obj: JsonObject) -> None:
    """Fill in a ValidatingAdmissionPolicy."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("failurePolicy", "Fail")
    if spec.get("matchConstraints") is not None:
        _default_resources(spec["matchConstraints"])


def default_policy_binding(obj: JsonObject) -> None:
    """Fill in a ValidatingAdmissionPolicyBinding."""
    spec = obj.setdefault("spec", {})
    if spec.get("matchResources") is not None:
        _default_resources(spec["matchResources"])


def default_binding(obj: JsonObject) -> None:
    """Fill in a RoleBinding or ClusterRoleBinding."""
    group = "rbac.authorization.k8s.io"
    reference = obj.get("roleRef")
    if reference is not None and not reference.get("apiGroup"):
        reference["apiGroup"] = group
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", group)


def default_limits(obj: JsonObject) -> None:
    """Fill in a LimitRange, whose limits follow from each other (SetDefaults_LimitRangeItem)."""
    for limits in (obj.get("spec") or {}).get("limits") or ():
        if limits.get("type") != "Container":
            continue
        defaults = limits.setdefault("default", {})
        for name, amount in (limits.get("max") or {}).items():
            defaults.setdefault(name, amount)
        requests = limits.setdefault("defaultRequest", {})
        for name, amount in {**(limits.get("min") or {}), **defaults}.items():
            requests.setdefault(name, amount)
        for field in ("default", "defaultRequest"):
            if not limits[field]:
                del limits[field]


def default_webhooks(obj: JsonObject) -> None:
    """Fill in a MutatingWebhookConfiguration or ValidatingWebhookConfiguration."""
    for webhook in obj.get("webhooks") or ():
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("matchPolicy", "Equivalent")
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        webhook.setdefault("timeoutSeconds", 10)
        if obj.get("kind") == "MutatingWebhookConfiguration":
            webhook.setdefault("reinvocationPolicy", "Never")
        for rule in webhook.get("rules") or ():
            rule.setdefault("scope", "*")
        service = (webhook.get("clientConfig") or {}).get("service")
        if service is not None:
            service.setdefault("port", 443)


def default_priority_class(obj: JsonObject) -> None:
    """Fill in a PriorityClass."""
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def default_storage_class(obj: JsonObject) -> None:
    """Fill in a StorageClass."""
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def default_ingress_class(obj: JsonObject) -> None:
    """Fill in an IngressClass."""
    parameters = obj["spec"].get("parameters")
    if parameters is not None:
        parameters.setdefault("scope", "Cluster")


#: By kind.
DEFAULTS: dict[str, Callable[[JsonObject], None]] = {
    "CSIDriver": default_driver,
    "ClusterRoleBinding": default_binding,
    "EndpointSlice": default_endpoint_slice,
    "IngressClass": default_ingress_class,
    "LimitRange": default_limits,
    "MutatingWebhookConfiguration": default_webhooks,
    "NetworkPolicy": default_network_policy,
    "PersistentVolume": default_volume,
    "PersistentVolumeClaim": default_claim,
    "PodTemplate": default_pod_template,
    "PriorityClass": default_priority_class,
    "ReplicationController": default_replication_controller,
    "RoleBinding": default_binding,
    "StorageClass": default_storage_class,
    "ValidatingAdmissionPolicy": default_admission_policy,
    "ValidatingAdmissionPolicyBinding": default_policy_binding,
    "ValidatingWebhookConfiguration": default_webhooks,
}
