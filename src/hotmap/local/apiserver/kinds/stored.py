"""Kinds that are stored, validated by their types and shown, and that nothing here acts on.

Names, scopes and subresources are those of Kubernetes' discovery document; the columns are a
selection of pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.columns import AGE, NAME, field_cell
from hotmap.local.apiserver.kinds.stored_defaults import (
    default_autoscaler,
    default_claim,
    default_endpoint_slice,
    default_network_policy,
    default_pod_template,
    default_replication_controller,
)
from hotmap.local.field_errors import FieldError, invalid_value, required, unsupported
from hotmap.local.names import qualified_name_errors
from hotmap.local.scheme import SCALE, STATUS, Kind, Names, Subresource
from hotmap.local.strategy import Column, Strategy

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotmap.local.strategy import Cell

JsonObject = dict[str, Any]


class StoredStrategy(Strategy):
    """Store as sent; count generations where the kind has them."""

    def __init__(
        self,
        *columns: Column,
        has_generation: bool = False,
        status: JsonObject | None = None,
        defaults: JsonObject | None = None,
        default: Callable[[JsonObject], None] | None = None,
    ) -> None:
        self.columns = (NAME, *columns, AGE) if columns else ()
        self._default = default
        self.has_generation = has_generation
        self._status = {} if status is None else status
        self._defaults = {} if defaults is None else defaults

    def initial_status(self, obj: JsonObject) -> JsonObject | None:
        return dict(self._status)

    def default(self, obj: JsonObject) -> None:
        for field, value in self._defaults.items():
            obj.setdefault(field, value)
        if self._default is not None:
            self._default(obj)


class RBACStrategy(StoredStrategy):
    """Names of RBAC objects are path segments (ValidateRBACName)."""

    def name_errors(self, name: str) -> list[str]:
        if name in (".", ".."):
            return [f"may not be '{name}'"]
        return [f"may not contain '{char}'" for char in "/%" if char in name]

    def default(self, obj: JsonObject) -> None:
        reference = obj.get("roleRef")
        if reference is not None and not reference.get("apiGroup"):
            reference["apiGroup"] = "rbac.authorization.k8s.io"
        for subject in obj.get("subjects") or ():
            is_account = subject.get("kind") == "ServiceAccount"
            if not is_account:
                subject.setdefault("apiGroup", "rbac.authorization.k8s.io")


class ReturningStrategy(StoredStrategy):
    """Answers a deletion with the object (ReturnDeletedObject)."""

    returns_deleted = True


class SliceStrategy(StoredStrategy):
    """EndpointSlices have no spec: each change of what they say counts."""

    def changes_generation(self, old: JsonObject, new: JsonObject) -> bool:
        return any(
            old.get(field) != new.get(field) for field in ("endpoints", "ports", "addressType")
        ) or (old["metadata"].get("labels") != new["metadata"].get("labels"))


class PriorityClassStrategy(StoredStrategy):
    def __init__(self, *columns: Column, **options: Any) -> None:
        super().__init__(*columns, **options)
        self.columns += (Column("PreemptionPolicy", field_cell("preemptionPolicy")),)

    def name_errors(self, name: str) -> list[str]:
        return super().name_errors(name) or qualified_name_errors(name)


def _joined(path: str, missing: str = "<none>") -> Callable[[JsonObject, float], Cell]:
    cell = field_cell(path)

    def join(obj: JsonObject, now: float) -> Cell:
        value: Any = cell(obj, now)
        return ",".join(map(str, value)) if isinstance(value, list) and value else missing

    return join


def _hosts(ingress: JsonObject, _: float) -> Cell:
    rules = ingress.get("spec", {}).get("rules") or ()
    return ",".join(rule["host"] for rule in rules if rule.get("host")) or "*"


def _quota_cell(*, limits: bool) -> Callable[[JsonObject, float], Cell]:
    """Show used and hard amounts of a quota: those of limits, or all others."""

    def cell(found: JsonObject, _: float) -> Cell:
        status = found.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        return ", ".join(
            f"{name}: {used.get(name, 0)}/{hard[name]}"
            for name in sorted(hard)
            if name.startswith("limits.") is limits
        )

    return cell


class LimitRangeStrategy(StoredStrategy):
    """Limits follow from each other (pkg/apis/core/v1/defaults.go, SetDefaults_LimitRangeItem)."""

    def default(self, obj: JsonObject) -> None:
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


def _webhooks_cell(configuration: JsonObject, _: float) -> Cell:
    return len(configuration.get("webhooks") or ())


class WebhooksStrategy(StoredStrategy):
    """Webhooks are called within ten seconds and must answer, unless they say otherwise."""

    def default(self, obj: JsonObject) -> None:
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

    def validate(self, obj: JsonObject) -> list[FieldError]:
        errors: list[FieldError] = []
        for index, webhook in enumerate(obj.get("webhooks") or ()):
            path = f"webhooks[{index}]"
            if not webhook.get("name"):
                errors.append(required(f"{path}.name"))
            if webhook.get("sideEffects") not in ("None", "NoneOnDryRun"):
                known = ("None", "NoneOnDryRun")
                errors.append(
                    unsupported(f"{path}.sideEffects", webhook.get("sideEffects", ""), known)
                )
            client = webhook.get("clientConfig") or {}
            if ("url" in client) is ("service" in client):
                errors.append(
                    required(f"{path}.clientConfig", "exactly one of url or service is required")
                )
            elif "url" in client and not str(client["url"]).startswith("https://"):
                text = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
                errors.append(invalid_value(f"{path}.clientConfig.url", client["url"], text))
        return errors


def _pod_selector(policy: JsonObject, _: float) -> Cell:
    labels = (policy.get("spec") or {}).get("podSelector", {}).get("matchLabels") or {}
    return ",".join(f"{label}={value}" for label, value in sorted(labels.items())) or "<none>"


def _ingress_address(ingress: JsonObject, _: float) -> Cell:
    points = (ingress.get("status") or {}).get("loadBalancer", {}).get("ingress") or ()
    return ",".join(point.get("ip") or point.get("hostname") or "" for point in points)


def _ingress_ports(ingress: JsonObject, _: float) -> Cell:
    return "80, 443" if (ingress.get("spec") or {}).get("tls") else "80"


def _at_most_three(found: list[str]) -> str:
    if not found:
        return "<unset>"
    shown = ",".join(found[:3])
    return shown if len(found) <= 3 else f"{shown} + {len(found) - 3} more..."


def _slice_ports(part: JsonObject, _: float) -> Cell:
    return _at_most_three([str(p["port"]) for p in part.get("ports") or () if p.get("port")])


def _slice_addresses(part: JsonObject, _: float) -> Cell:
    endpoints = part.get("endpoints") or ()
    return _at_most_three([ip for endpoint in endpoints for ip in endpoint.get("addresses") or ()])


def _role(binding: JsonObject, _: float) -> Cell:
    reference = binding.get("roleRef", {})
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def _stored(
    group_version: str,
    names: Names,
    strategy: Strategy | None = None,
    *subresources: Subresource,
    namespaced: bool = True,
) -> Kind:
    group, _, version = group_version.rpartition("/")
    storage = names._replace(storage=names.storage or names.plural)
    return Kind(group, (version,), storage, namespaced, subresources, strategy or StoredStrategy())


_NETWORKING = "networking.k8s.io/v1"
_RBAC = "rbac.authorization.k8s.io/v1"
_STORAGE = "storage.k8s.io/v1"

STORED = (
    _stored(
        "v1",
        Names("persistentvolumes", "PersistentVolume", ("pv",)),
        StoredStrategy(
            Column("Capacity", field_cell("spec.capacity.storage")),
            Column("Access Modes", _joined("spec.accessModes", "")),
            Column("Reclaim Policy", field_cell("spec.persistentVolumeReclaimPolicy")),
            Column("Status", field_cell("status.phase")),
            Column("StorageClass", field_cell("spec.storageClassName")),
            status={"phase": "Pending"},
        ),
        STATUS,
        namespaced=False,
    ),
    _stored(
        "v1",
        Names("persistentvolumeclaims", "PersistentVolumeClaim", ("pvc",)),
        ReturningStrategy(
            Column("Status", field_cell("status.phase")),
            Column("Volume", field_cell("spec.volumeName")),
            Column("Capacity", field_cell("status.capacity.storage")),
            Column("Access Modes", _joined("status.accessModes", "")),
            Column("StorageClass", field_cell("spec.storageClassName")),
            status={"phase": "Pending"},
            default=default_claim,
        ),
        STATUS,
    ),
    _stored(
        "v1",
        Names("podtemplates", "PodTemplate"),
        ReturningStrategy(has_generation=True, default=default_pod_template),
    ),
    _stored(
        "v1",
        Names(
            "replicationcontrollers",
            "ReplicationController",
            ("rc",),
            ("all",),
            storage="controllers",
        ),
        StoredStrategy(
            Column("Desired", field_cell("spec.replicas", 0), type="integer"),
            Column("Current", field_cell("status.replicas", 0), type="integer"),
            Column("Ready", field_cell("status.readyReplicas", 0), type="integer"),
            has_generation=True,
            status={"replicas": 0},
            default=default_replication_controller,
        ),
        STATUS,
        SCALE,
    ),
    _stored(
        "v1",
        Names("resourcequotas", "ResourceQuota", ("quota",)),
        ReturningStrategy(
            Column("Request", _quota_cell(limits=False)),
            Column("Limit", _quota_cell(limits=True)),
        ),
        STATUS,
    ),
    _stored("v1", Names("limitranges", "LimitRange", ("limits",)), LimitRangeStrategy()),
    *(
        _stored(
            "admissionregistration.k8s.io/v1",
            Names(f"{kind.lower()}s", kind),
            WebhooksStrategy(Column("Webhooks", _webhooks_cell), has_generation=True),
            namespaced=False,
        )
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    ),
    _stored(
        "autoscaling/v2",
        Names("horizontalpodautoscalers", "HorizontalPodAutoscaler", ("hpa",), ("all",)),
        StoredStrategy(
            Column("MinPods", field_cell("spec.minReplicas", "<unset>")),
            Column("MaxPods", field_cell("spec.maxReplicas", 0)),
            Column("Replicas", field_cell("status.currentReplicas", 0)),
            status={"desiredReplicas": 0, "currentMetrics": None},
            default=default_autoscaler,
        ),
        STATUS,
    ),
    _stored(
        "certificates.k8s.io/v1",
        Names("certificatesigningrequests", "CertificateSigningRequest", ("csr",)),
        None,
        STATUS,
        Subresource("approval", ("get", "patch", "update"), field="status"),
        namespaced=False,
    ),
    _stored(
        "discovery.k8s.io/v1",
        Names("endpointslices", "EndpointSlice"),
        SliceStrategy(
            Column("AddressType", field_cell("addressType")),
            Column("Ports", _slice_ports),
            Column("Endpoints", _slice_addresses),
            has_generation=True,
            default=default_endpoint_slice,
        ),
    ),
    _stored(
        _NETWORKING,
        Names("ingresses", "Ingress", ("ing",), storage="ingress"),
        StoredStrategy(
            Column("Class", field_cell("spec.ingressClassName", "<none>")),
            Column("Hosts", _hosts),
            Column("Address", _ingress_address),
            Column("Ports", _ingress_ports),
            has_generation=True,
            status={"loadBalancer": {}},
        ),
        STATUS,
    ),
    _stored(
        _NETWORKING,
        Names("ingressclasses", "IngressClass"),
        StoredStrategy(Column("Controller", field_cell("spec.controller")), has_generation=True),
        namespaced=False,
    ),
    _stored(
        _NETWORKING,
        Names("networkpolicies", "NetworkPolicy", ("netpol",)),
        StoredStrategy(
            Column("Pod-Selector", _pod_selector),
            has_generation=True,
            default=default_network_policy,
        ),
    ),
    _stored("node.k8s.io/v1", Names("runtimeclasses", "RuntimeClass"), namespaced=False),
    _stored(
        "policy/v1",
        Names("poddisruptionbudgets", "PodDisruptionBudget", ("pdb",)),
        StoredStrategy(
            Column("Min Available", field_cell("spec.minAvailable", "N/A")),
            Column("Max Unavailable", field_cell("spec.maxUnavailable", "N/A")),
            Column("Allowed Disruptions", field_cell("status.disruptionsAllowed", 0)),
            has_generation=True,
            status={
                "disruptionsAllowed": 0,
                "currentHealthy": 0,
                "desiredHealthy": 0,
                "expectedPods": 0,
            },
        ),
        STATUS,
    ),
    _stored(_RBAC, Names("roles", "Role"), RBACStrategy()),
    _stored(_RBAC, Names("rolebindings", "RoleBinding"), RBACStrategy(Column("Role", _role))),
    _stored(_RBAC, Names("clusterroles", "ClusterRole"), RBACStrategy(), namespaced=False),
    _stored(
        _RBAC,
        Names("clusterrolebindings", "ClusterRoleBinding"),
        RBACStrategy(Column("Role", _role)),
        namespaced=False,
    ),
    _stored(
        "scheduling.k8s.io/v1",
        Names("priorityclasses", "PriorityClass", ("pc",)),
        PriorityClassStrategy(
            Column("Value", field_cell("value", 0)),
            Column("Global-Default", lambda obj, _: str(bool(obj.get("globalDefault"))).lower()),
            has_generation=True,
            defaults={"preemptionPolicy": "PreemptLowerPriority"},
        ),
        namespaced=False,
    ),
    _stored(
        _STORAGE,
        Names("storageclasses", "StorageClass", ("sc",)),
        StoredStrategy(
            Column("Provisioner", field_cell("provisioner")),
            Column("ReclaimPolicy", field_cell("reclaimPolicy")),
            Column("VolumeBindingMode", field_cell("volumeBindingMode")),
            defaults={"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
        ),
        namespaced=False,
    ),
    _stored(_STORAGE, Names("csidrivers", "CSIDriver"), namespaced=False),
    _stored(_STORAGE, Names("csinodes", "CSINode"), namespaced=False),
    _stored(_STORAGE, Names("csistoragecapacities", "CSIStorageCapacity")),
    _stored(
        _STORAGE, Names("volumeattachments", "VolumeAttachment"), None, STATUS, namespaced=False
    ),
    _stored(
        _STORAGE,
        Names("volumeattributesclasses", "VolumeAttributesClass", ("vac",)),
        namespaced=False,
    ),
)
