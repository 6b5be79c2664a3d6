"""Kinds that are stored, validated by their types and shown, and that nothing here acts on.

Names, scopes and subresources are those of Kubernetes' discovery document.
"""

from __future__ import annotations

from hotmap.local.apiserver.kinds.certificate_request import CertificateRequestStrategy
from hotmap.local.apiserver.kinds.stored_columns import COLUMNS
from hotmap.local.apiserver.kinds.stored_defaults import DEFAULTS
from hotmap.local.apiserver.kinds.stored_strategies import (
    BudgetStrategy,
    DriverStrategy,
    PodTemplateStrategy,
    RBACStrategy,
    ReplicationControllerStrategy,
    ReturningStrategy,
    SliceStrategy,
    StoredStrategy,
    UntypedStrategy,
    UpsertedStrategy,
    WebhooksStrategy,
)
from hotmap.local.apiserver.kinds.validation import RULES
from hotmap.local.scheme import SCALE, STATUS, Kind, Names, Subresource

_EXTENSIONS = ("api-extensions",)


def _stored(
    group_version: str,
    names: Names,
    strategy: StoredStrategy | None = None,
    *subresources: Subresource,
    namespaced: bool = True,
) -> Kind:
    group, _, version = group_version.rpartition("/")
    storage = names._replace(storage=names.storage or names.plural)
    strategy = strategy or StoredStrategy()
    strategy.columns = COLUMNS.get(names.kind, ())
    strategy.fill_in = DEFAULTS.get(names.kind)
    strategy.rules = RULES.get(names.kind)
    return Kind(group, (version,), storage, namespaced, subresources, strategy)


_ADMISSION = "admissionregistration.k8s.io/v1"
_FLOW_CONTROL = "flowcontrol.apiserver.k8s.io/v1"
_NETWORKING = "networking.k8s.io/v1"
_RBAC = "rbac.authorization.k8s.io/v1"
_RESOURCE = "resource.k8s.io/v1"
_STORAGE = "storage.k8s.io/v1"
_PENDING = {"phase": "Pending"}

STORED = (
    _stored(
        "v1",
        Names("persistentvolumes", "PersistentVolume", ("pv",)),
        StoredStrategy(status=_PENDING),
        STATUS,
        namespaced=False,
    ),
    _stored(
        "v1",
        Names("persistentvolumeclaims", "PersistentVolumeClaim", ("pvc",)),
        ReturningStrategy(status=_PENDING),
        STATUS,
    ),
    _stored("v1", Names("podtemplates", "PodTemplate"), PodTemplateStrategy(has_generation=True)),
    _stored(
        "v1",
        Names(
            "replicationcontrollers",
            "ReplicationController",
            ("rc",),
            ("all",),
            storage="controllers",
        ),
        ReplicationControllerStrategy(
            has_generation=True, status={"replicas": 0}, selectable=("status.replicas",)
        ),
        STATUS,
        SCALE,
    ),
    _stored(
        "v1",
        Names("resourcequotas", "ResourceQuota", ("quota",)),
        ReturningStrategy(),
        STATUS,
    ),
    _stored("v1", Names("limitranges", "LimitRange", ("limits",)), UpsertedStrategy()),
    *(
        _stored(
            _ADMISSION,
            Names(f"{kind.lower()}s", kind, categories=_EXTENSIONS),
            WebhooksStrategy(has_generation=True),
            namespaced=False,
        )
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    ),
    # Without the objects that upstream makes for the groups that it serves itself.
    Kind(
        "apiregistration.k8s.io",
        ("v1",),
        Names("apiservices", "APIService", (), _EXTENSIONS),
        False,
        (STATUS,),
        UntypedStrategy(),
    ),
    _stored(
        _ADMISSION,
        Names("validatingadmissionpolicies", "ValidatingAdmissionPolicy", categories=_EXTENSIONS),
        StoredStrategy(has_generation=True),
        STATUS,
        namespaced=False,
    ),
    _stored(
        _ADMISSION,
        Names(
            "validatingadmissionpolicybindings",
            "ValidatingAdmissionPolicyBinding",
            categories=_EXTENSIONS,
        ),
        StoredStrategy(has_generation=True),
        namespaced=False,
    ),
    _stored(
        "certificates.k8s.io/v1",
        Names("certificatesigningrequests", "CertificateSigningRequest", ("csr",)),
        CertificateRequestStrategy(),
        STATUS,
        Subresource("approval", ("get", "patch", "update"), field="status"),
        namespaced=False,
    ),
    _stored(
        "discovery.k8s.io/v1",
        Names("endpointslices", "EndpointSlice"),
        SliceStrategy(has_generation=True),
    ),
    *(
        _stored(
            _FLOW_CONTROL,
            Names(plural, kind),
            StoredStrategy(has_generation=True),
            STATUS,
            namespaced=False,
        )
        for plural, kind in (
            ("flowschemas", "FlowSchema"),
            ("prioritylevelconfigurations", "PriorityLevelConfiguration"),
        )
    ),
    _stored(
        _NETWORKING,
        Names("ingresses", "Ingress", ("ing",), storage="ingress"),
        StoredStrategy(has_generation=True, status={"loadBalancer": {}}),
        STATUS,
    ),
    _stored(
        _NETWORKING,
        Names("ingressclasses", "IngressClass"),
        StoredStrategy(has_generation=True),
        namespaced=False,
    ),
    _stored(_NETWORKING, Names("ipaddresses", "IPAddress", ("ip",)), namespaced=False),
    _stored(
        _NETWORKING,
        Names("networkpolicies", "NetworkPolicy", ("netpol",)),
        StoredStrategy(has_generation=True),
    ),
    _stored(_NETWORKING, Names("servicecidrs", "ServiceCIDR"), None, STATUS, namespaced=False),
    _stored(
        "node.k8s.io/v1",
        Names("runtimeclasses", "RuntimeClass"),
        UpsertedStrategy(),
        namespaced=False,
    ),
    _stored(
        "policy/v1",
        Names("poddisruptionbudgets", "PodDisruptionBudget", ("pdb",)),
        BudgetStrategy(
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
    _stored(_RBAC, Names("rolebindings", "RoleBinding"), RBACStrategy()),
    _stored(_RBAC, Names("clusterroles", "ClusterRole"), RBACStrategy(), namespaced=False),
    _stored(
        _RBAC,
        Names("clusterrolebindings", "ClusterRoleBinding"),
        RBACStrategy(),
        namespaced=False,
    ),
    _stored(
        _RESOURCE,
        Names("deviceclasses", "DeviceClass"),
        StoredStrategy(has_generation=True),
        namespaced=False,
    ),
    _stored(_RESOURCE, Names("resourceclaims", "ResourceClaim"), None, STATUS),
    _stored(_RESOURCE, Names("resourceclaimtemplates", "ResourceClaimTemplate")),
    _stored(
        _RESOURCE,
        Names("resourceslices", "ResourceSlice"),
        StoredStrategy(has_generation=True),
        namespaced=False,
    ),
    _stored(
        "scheduling.k8s.io/v1",
        Names("priorityclasses", "PriorityClass", ("pc",)),
        StoredStrategy(has_generation=True),
        namespaced=False,
    ),
    _stored(
        _STORAGE,
        Names("storageclasses", "StorageClass", ("sc",)),
        ReturningStrategy(),
        namespaced=False,
    ),
    _stored(
        _STORAGE,
        Names("csidrivers", "CSIDriver"),
        DriverStrategy(),
        namespaced=False,
    ),
    _stored(_STORAGE, Names("csinodes", "CSINode"), ReturningStrategy(), namespaced=False),
    _stored(_STORAGE, Names("csistoragecapacities", "CSIStorageCapacity")),
    _stored(
        _STORAGE,
        Names("volumeattachments", "VolumeAttachment"),
        ReturningStrategy(),
        STATUS,
        namespaced=False,
    ),
    _stored(
        _STORAGE,
        Names("volumeattributesclasses", "VolumeAttributesClass", ("vac",)),
        ReturningStrategy(),
        namespaced=False,
    ),
)
