"""JSON types of the fields that the server reads: what Go's decoder refuses is refused here.

A table in the manner of Go's struct definitions. Fields that it does not name pass unchecked,
for nothing here looks at them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.core.errors import BadRequest

if TYPE_CHECKING:
    from hotmap.local.scheme import Kind

JsonObject = dict[str, Any]

_KEY_SELECTOR = {"name": "string", "key": "string", "optional": "bool"}
_PROJECTION = {"name": "string", "items": "[]v1.KeyToPath", "optional": "bool"}
_WORKLOAD = {
    "replicas": "int32",
    "selector": "v1.LabelSelector",
    "template": "v1.PodTemplateSpec",
    "minReadySeconds": "int32",
    "revisionHistoryLimit": "int32",
}
_STRUCTS: dict[str, dict[str, str]] = {
    "v1.ObjectMeta": {
        "name": "string",
        "generateName": "string",
        "namespace": "string",
        "uid": "types.UID",
        "resourceVersion": "string",
        "labels": "map[string]string",
        "annotations": "map[string]string",
        "finalizers": "[]string",
        "ownerReferences": "[]v1.OwnerReference",
        "managedFields": "[]v1.ManagedFieldsEntry",
    },
    "v1.ManagedFieldsEntry": {
        "manager": "string",
        "operation": "v1.ManagedFieldsOperationType",
        "apiVersion": "string",
        "time": "v1.Time",
        "fieldsType": "string",
        "fieldsV1": "object",
        "subresource": "string",
    },
    "v1.OwnerReference": {
        "apiVersion": "string",
        "kind": "string",
        "name": "string",
        "uid": "types.UID",
        "controller": "bool",
        "blockOwnerDeletion": "bool",
    },
    "v1.LabelSelector": {
        "matchLabels": "map[string]string",
        "matchExpressions": "[]v1.LabelSelectorRequirement",
    },
    "v1.LabelSelectorRequirement": {"key": "string", "operator": "string", "values": "[]string"},
    "v1.PodTemplateSpec": {"metadata": "v1.ObjectMeta", "spec": "v1.PodSpec"},
    "v1.PodSpec": {
        "containers": "[]v1.Container",
        "initContainers": "[]v1.Container",
        "volumes": "[]v1.Volume",
        "imagePullSecrets": "[]v1.LocalObjectReference",
        "restartPolicy": "string",
        "terminationGracePeriodSeconds": "int64",
        "dnsPolicy": "string",
        "nodeName": "string",
        "nodeSelector": "map[string]string",
        "serviceAccountName": "string",
        "automountServiceAccountToken": "bool",
        "schedulerName": "string",
        "hostNetwork": "bool",
        "hostname": "string",
        "subdomain": "string",
        "enableServiceLinks": "bool",
        "securityContext": "v1.PodSecurityContext",
        "shareProcessNamespace": "bool",
        "tolerations": "[]v1.Toleration",
        "activeDeadlineSeconds": "int64",
    },
    "v1.Toleration": {"key": "string", "operator": "string", "value": "string"},
    "v1.PodSecurityContext": {
        "fsGroup": "int64",
        "runAsUser": "int64",
        "runAsGroup": "int64",
        "supplementalGroups": "[]int64",
    },
    "v1.LocalObjectReference": {"name": "string"},
    "v1.Container": {
        "name": "string",
        "image": "string",
        "imagePullPolicy": "string",
        "command": "[]string",
        "args": "[]string",
        "workingDir": "string",
        "env": "[]v1.EnvVar",
        "envFrom": "[]v1.EnvFromSource",
        "ports": "[]v1.ContainerPort",
        "volumeMounts": "[]v1.VolumeMount",
        "restartPolicy": "string",
        "resources": "v1.ResourceRequirements",
        "livenessProbe": "v1.Probe",
        "readinessProbe": "v1.Probe",
        "startupProbe": "v1.Probe",
        "stdin": "bool",
        "tty": "bool",
    },
    "v1.ResourceRequirements": {"limits": "object", "requests": "object"},
    "v1.Probe": {
        "httpGet": "v1.HTTPGetAction",
        "initialDelaySeconds": "int32",
        "timeoutSeconds": "int32",
        "periodSeconds": "int32",
        "successThreshold": "int32",
        "failureThreshold": "int32",
    },
    "v1.HTTPGetAction": {"path": "string", "scheme": "string", "host": "string"},
    "v1.ContainerPort": {
        "name": "string",
        "containerPort": "int32",
        "hostPort": "int32",
        "protocol": "string",
    },
    "v1.EnvVar": {"name": "string", "value": "string", "valueFrom": "v1.EnvVarSource"},
    "v1.EnvVarSource": {
        "fieldRef": "v1.ObjectFieldSelector",
        "resourceFieldRef": "v1.ResourceFieldSelector",
        "configMapKeyRef": "v1.ConfigMapKeySelector",
        "secretKeyRef": "v1.SecretKeySelector",
    },
    "v1.ObjectFieldSelector": {"apiVersion": "string", "fieldPath": "string"},
    "v1.ResourceFieldSelector": {"containerName": "string", "resource": "string"},
    "v1.ConfigMapKeySelector": _KEY_SELECTOR,
    "v1.SecretKeySelector": _KEY_SELECTOR,
    "v1.EnvFromSource": {
        "prefix": "string",
        "configMapRef": "v1.ConfigMapEnvSource",
        "secretRef": "v1.SecretEnvSource",
    },
    "v1.ConfigMapEnvSource": {"name": "string", "optional": "bool"},
    "v1.SecretEnvSource": {"name": "string", "optional": "bool"},
    "v1.VolumeMount": {
        "name": "string",
        "mountPath": "string",
        "subPath": "string",
        "subPathExpr": "string",
        "readOnly": "bool",
    },
    "v1.Volume": {
        "name": "string",
        "configMap": "v1.ConfigMapVolumeSource",
        "secret": "v1.SecretVolumeSource",
        "emptyDir": "v1.EmptyDirVolumeSource",
        "hostPath": "v1.HostPathVolumeSource",
        "projected": "v1.ProjectedVolumeSource",
        "downwardAPI": "v1.DownwardAPIVolumeSource",
    },
    "v1.ConfigMapVolumeSource": {**_PROJECTION, "defaultMode": "int32"},
    "v1.SecretVolumeSource": {
        "secretName": "string",
        "items": "[]v1.KeyToPath",
        "optional": "bool",
        "defaultMode": "int32",
    },
    "v1.EmptyDirVolumeSource": {"medium": "string"},
    "v1.HostPathVolumeSource": {"path": "string", "type": "string"},
    "v1.KeyToPath": {"key": "string", "path": "string", "mode": "int32"},
    "v1.ProjectedVolumeSource": {"sources": "[]v1.VolumeProjection", "defaultMode": "int32"},
    "v1.VolumeProjection": {
        "configMap": "v1.ConfigMapProjection",
        "secret": "v1.SecretProjection",
        "downwardAPI": "v1.DownwardAPIProjection",
        "serviceAccountToken": "v1.ServiceAccountTokenProjection",
    },
    "v1.ConfigMapProjection": _PROJECTION,
    "v1.SecretProjection": _PROJECTION,
    "v1.DownwardAPIProjection": {"items": "[]v1.DownwardAPIVolumeFile"},
    "v1.ServiceAccountTokenProjection": {
        "path": "string",
        "audience": "string",
        "expirationSeconds": "int64",
    },
    "v1.DownwardAPIVolumeSource": {
        "items": "[]v1.DownwardAPIVolumeFile",
        "defaultMode": "int32",
    },
    "v1.DownwardAPIVolumeFile": {
        "path": "string",
        "fieldRef": "v1.ObjectFieldSelector",
        "resourceFieldRef": "v1.ResourceFieldSelector",
        "mode": "int32",
    },
    "v1.DeploymentSpec": {
        **_WORKLOAD,
        "strategy": "v1.DeploymentStrategy",
        "progressDeadlineSeconds": "int32",
        "paused": "bool",
    },
    "v1.DeploymentStrategy": {"type": "string", "rollingUpdate": "v1.RollingUpdateDeployment"},
    "v1.RollingUpdateDeployment": {
        "maxSurge": "intstr.IntOrString",
        "maxUnavailable": "intstr.IntOrString",
    },
    "v1.WorkloadSpec": _WORKLOAD,
    "v1.StatefulSetSpec": {**_WORKLOAD, "updateStrategy": "object"},
    "v1.DaemonSetSpec": {**_WORKLOAD, "updateStrategy": "object"},
    "v1.JobSpec": {
        "template": "v1.PodTemplateSpec",
        "selector": "v1.LabelSelector",
        "parallelism": "int32",
        "completions": "int32",
        "backoffLimit": "int32",
    },
    "v1.CronJobSpec": {"schedule": "string", "jobTemplate": "v1.JobTemplateSpec"},
    "v1.JobTemplateSpec": {"metadata": "v1.ObjectMeta", "spec": "v1.JobSpec"},
    "v1.ServiceSpec": {"selector": "map[string]string", "ports": "[]v1.ServicePort"},
    "v1.ServicePort": {"name": "string", "port": "int32", "protocol": "string"},
    "v1.NamespaceSpec": {"finalizers": "[]string"},
    "v1.NodeSpec": {"unschedulable": "bool", "podCIDR": "string"},
    "v1.ObjectReference": {"kind": "string", "namespace": "string", "name": "string"},
    "v1.LeaseSpec": {"holderIdentity": "string", "leaseDurationSeconds": "int32"},
}  # fmt: skip
_TEXTS = ("string", "types.UID", "v1.ManagedFieldsOperationType", "v1.Time")
_INTEGERS = {"int32": 1 << 31, "int64": 1 << 63}


def check_shape(kind: Kind, obj: JsonObject) -> None:
    """Check the JSON types of an object's metadata, status, and what its strategy names.

    Empty maps of strings are dropped, in place: Go does not write them.

    Raises:
        BadRequest: a field has another type than Kubernetes gives it.
    """
    fields = {"metadata": "v1.ObjectMeta", **dict(kind.strategy.types)}
    if kind.subresource("status") is not None:
        fields["status"] = "object"
    _check_fields(kind, obj, fields, kind.kind, "")


def decode_error(kind: Kind, owner: str, field: str, value: object, wanted: str) -> BadRequest:
    """Make the 400 of a field with a wrong JSON type; the value itself is never shown."""
    return BadRequest(
        f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
        f"json: cannot unmarshal {_json_type(value)} into Go struct field "
        f"{owner}.{field} of type {wanted}"
    )


def without_nulls(value: Any) -> Any:
    """Give a value as Go stores it: nulls and empty lists leave no trace."""
    if isinstance(value, dict):
        return {
            name: without_nulls(inner)
            for name, inner in value.items()
            if inner is not None and inner != []
        }
    if isinstance(value, list):
        return [without_nulls(inner) for inner in value]
    return value


def _check_fields(
    kind: Kind, obj: JsonObject, fields: dict[str, str], owner: str, path: str
) -> None:
    for field, wanted in fields.items():
        if field not in obj:
            continue
        _check(kind, obj[field], wanted, owner, f"{path}{field}")
        if wanted == "map[string]string" and not obj[field]:
            del obj[field]


def _check(kind: Kind, value: Any, wanted: str, owner: str, path: str) -> None:
    if not _has_type(value, wanted):
        raise decode_error(kind, owner, path, value, wanted)
    if wanted.startswith("[]"):
        for element in value:
            _check(kind, element, wanted[2:], owner, path)
    elif wanted == "map[string]string":
        for inner in value.values():
            _check(kind, inner, "string", owner, path)
    elif wanted in _STRUCTS:
        _check_fields(kind, value, _STRUCTS[wanted], wanted.removeprefix("v1."), f"{path}.")


def _has_type(value: Any, wanted: str) -> bool:
    if wanted in _TEXTS:
        return isinstance(value, str)
    if wanted == "bool":
        return isinstance(value, bool)
    if wanted in _INTEGERS:
        limit = _INTEGERS[wanted]
        return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
    if wanted == "intstr.IntOrString":
        return isinstance(value, (int, str)) and not isinstance(value, bool)
    if wanted.startswith("[]"):
        return isinstance(value, list)
    return isinstance(value, dict)


def _json_type(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"
