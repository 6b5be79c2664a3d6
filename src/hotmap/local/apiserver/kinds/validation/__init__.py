"""What may be wrong with objects of the stored kinds.

pkg/apis/<group>/validation/validation.go; each function takes an object whose defaults are filled
in. Functions named `…_update_errors` take the old object before the new one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from hotmap.local.apiserver.claim_validation import claim_errors, claim_update_errors
from hotmap.local.apiserver.kinds.validation import classes, endpoints, ingresses, rbac, storage
from hotmap.local.apiserver.kinds.validation.admission_policies import (
    admission_policy_errors,
    policy_binding_errors,
)
from hotmap.local.apiserver.kinds.validation.autoscaling import autoscaler_errors
from hotmap.local.apiserver.kinds.validation.budgets import budget_errors
from hotmap.local.apiserver.kinds.validation.limits import limits_errors
from hotmap.local.apiserver.kinds.validation.network_policies import network_policy_errors
from hotmap.local.apiserver.kinds.validation.quotas import quota_errors, quota_update_errors
from hotmap.local.apiserver.kinds.validation.replication import (
    pod_template_errors,
    replication_controller_errors,
)
from hotmap.local.apiserver.kinds.validation.volumes import volume_errors, volume_update_errors
from hotmap.local.apiserver.kinds.validation.webhooks import webhooks_errors
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hotmap.local.field_errors import FieldError


class Rules(NamedTuple):
    """The checks of every write, and those of updates and of new objects alone."""

    check: Callable[[JsonObject], Iterable[FieldError]]
    check_update: Callable[[JsonObject, JsonObject], Iterable[FieldError]] = lambda _old, _new: ()
    check_create: Callable[[JsonObject], Iterable[FieldError]] = lambda _: ()


def _binding_rules(*, namespaced: bool) -> Rules:
    return Rules(partial(rbac.binding_errors, namespaced=namespaced), rbac.binding_update_errors)


#: By kind; of other kinds only the types of the fields are checked.
RULES = {
    "CSIDriver": Rules(storage.driver_errors, storage.driver_update_errors),
    "ClusterRole": Rules(rbac.cluster_role_errors),
    "ClusterRoleBinding": _binding_rules(namespaced=False),
    "EndpointSlice": Rules(endpoints.endpoint_slice_errors, endpoints.endpoint_slice_update_errors),
    "HorizontalPodAutoscaler": Rules(autoscaler_errors),
    "Ingress": Rules(ingresses.ingress_errors, check_create=ingresses.ingress_annotation_errors),
    "IngressClass": Rules(ingresses.ingress_class_errors, ingresses.ingress_class_update_errors),
    "LimitRange": Rules(limits_errors),
    "MutatingWebhookConfiguration": Rules(webhooks_errors),
    "NetworkPolicy": Rules(network_policy_errors),
    "PersistentVolume": Rules(volume_errors, volume_update_errors),
    "PersistentVolumeClaim": Rules(claim_errors, claim_update_errors),
    "PodDisruptionBudget": Rules(budget_errors),
    "PodTemplate": Rules(pod_template_errors),
    "PriorityClass": Rules(classes.priority_class_errors, classes.priority_class_update_errors),
    "ReplicationController": Rules(replication_controller_errors),
    "ResourceQuota": Rules(quota_errors, quota_update_errors),
    "Role": Rules(partial(rbac.role_errors, namespaced=True)),
    "RoleBinding": _binding_rules(namespaced=True),
    "RuntimeClass": Rules(classes.runtime_class_errors, classes.runtime_class_update_errors),
    "StorageClass": Rules(storage.storage_class_errors, storage.storage_class_update_errors),
    "ValidatingAdmissionPolicy": Rules(admission_policy_errors),
    "ValidatingAdmissionPolicyBinding": Rules(policy_binding_errors),
    "ValidatingWebhookConfiguration": Rules(webhooks_errors),
    "VolumeAttributesClass": Rules(
        storage.attributes_class_errors, storage.attributes_class_update_errors
    ),
}
