"""Pods (pkg/registry/core/pod/strategy.go and storage; updates: ValidatePodUpdate)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from hotmap.local.apiserver.affinity_validation import add_label_keys
from hotmap.local.apiserver.kinds.core.pod_columns import POD_COLUMNS
from hotmap.local.apiserver.kinds.core.pod_resize import resize_errors, resized_spec
from hotmap.local.apiserver.kinds.core.scheduling_gates import (
    gate_update_errors,
    gated_condition,
    gated_node_errors,
    with_gated_changes,
)
from hotmap.local.apiserver.pod_defaults import (
    add_tolerations,
    admit_pod,
    default_pod,
    quality_of_service,
)
from hotmap.local.apiserver.pod_scheduling_validation import (
    toleration_update_errors,
)
from hotmap.local.apiserver.pod_validation import image_errors, pod_spec_errors
from hotmap.local.apiserver.pod_warnings import pod_warnings
from hotmap.local.field_errors import (
    FieldError,
    forbidden_field,
    invalid_value,
)
from hotmap.local.group_version_kind import GroupVersionKind
from hotmap.local.json_object import JsonObject
from hotmap.local.scheme import PROXY_VERBS, STATUS, Kind, Names, Subresource
from hotmap.local.strategy import WRITTEN_METADATA, Strategy, field_labels

if TYPE_CHECKING:
    from collections.abc import Iterator

_EPHEMERAL, _RESIZE = "ephemeralcontainers", "resize"
_UPDATE_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
    "(allow it to be set to 1 if it was previously negative)"
)


class PodStrategy(Strategy):
    has_generation = True
    # Kinds that can be deleted gracefully always answer with the object.
    returns_deleted = True
    graceful = True
    selectable_fields = field_labels(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    )
    columns = POD_COLUMNS
    kept_metadata = MappingProxyType(
        {
            "status": ("ownerReferences",),
            _EPHEMERAL: WRITTEN_METADATA,
            _RESIZE: WRITTEN_METADATA,
        }
    )

    def prepare_create(self, obj: JsonObject) -> None:
        # A pod without a spec is refused by the validation, which needs one to look at.
        obj.setdefault("spec", {})
        admit_pod(obj)
        add_label_keys(obj["spec"], obj["metadata"].get("labels") or {})

    def initial_status(self, obj: JsonObject) -> JsonObject | None:
        status: JsonObject = {"phase": "Pending", "qosClass": quality_of_service(obj["spec"])}
        if obj["spec"].get("schedulingGates"):
            status["conditions"] = [gated_condition(obj["metadata"]["creationTimestamp"])]
        return status

    def default(self, obj: JsonObject) -> None:
        default_pod(obj)
        if obj["spec"]["terminationGracePeriodSeconds"] < 0:
            # apiserver: pkg/registry/core/pod/strategy.go, applyTerminationGracePeriod
            obj["spec"]["terminationGracePeriodSeconds"] = 1

    def validate(self, obj: JsonObject) -> list[FieldError]:
        errors = [*_spec_errors(obj["spec"]), *gated_node_errors(obj["spec"])]
        if obj["spec"].get("ephemeralContainers"):
            errors.append(forbidden_field("spec.ephemeralContainers", "cannot be set on create"))
        return errors

    def warnings(self, obj: JsonObject) -> list[str]:
        return pod_warnings(obj["spec"], "spec")

    def update_warnings(self, old: JsonObject, new: JsonObject) -> list[str]:
        # Updates of pods are not made by people.
        return []

    def prepare_update(self, old: JsonObject, new: JsonObject) -> None:
        add_tolerations(new.setdefault("spec", {}))

    def validate_update(self, old: JsonObject, new: JsonObject) -> list[FieldError]:
        return _spec_errors(new["spec"]) + _update_errors(old, new)

    def prepare_subresource(self, old: JsonObject, new: JsonObject, subresource: str) -> None:
        if subresource == _EPHEMERAL:
            added = new.get("spec", {}).get("ephemeralContainers")
            new["spec"] = {**old["spec"], "ephemeralContainers": added or []}
        elif subresource == _RESIZE:
            new["spec"] = resized_spec(old["spec"], new.get("spec") or {})
        elif subresource == "status" and "qosClass" in old.get("status", {}):
            # Old kubelets leave it out.
            new.setdefault("status", {}).setdefault("qosClass", old["status"]["qosClass"])

    def validate_subresource(
        self, old: JsonObject, new: JsonObject, subresource: str
    ) -> list[FieldError]:
        if subresource == _EPHEMERAL:
            return [*_spec_errors(new["spec"]), *_ephemeral_errors(old["spec"], new["spec"])]
        if subresource == _RESIZE:
            return [*_spec_errors(new["spec"]), *resize_errors(old["spec"], new["spec"])]
        return super().validate_subresource(old, new, subresource)

    def deletion_grace(self, obj: JsonObject, wanted: int | None) -> int:
        """A pod that no node runs has nothing to wait for (CheckGracefulDelete)."""
        spec, phase = obj["spec"], obj.get("status", {}).get("phase")
        if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
            return 0
        grace: int = spec["terminationGracePeriodSeconds"] if wanted is None else wanted
        # A negative period is read as the shortest one that is still graceful.
        return grace if grace >= 0 else 1


def assign_node(pod: JsonObject, node: str, now: str) -> None:
    """Put a pod on a node, in place (setPodHostAndAnnotations)."""
    pod["spec"]["nodeName"] = node
    status = pod.setdefault("status", {})
    others = [c for c in status.get("conditions", ()) if c["type"] != "PodScheduled"]
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    status["conditions"] = [*others, scheduled]


def _spec_errors(spec: JsonObject) -> list[FieldError]:
    return [*pod_spec_errors(spec, "spec"), *image_errors(spec, "spec")]


def _update_errors(old: JsonObject, new: JsonObject) -> list[FieldError]:
    before, after = old["spec"], new["spec"]
    resized = [
        forbidden_field(f"spec.{field}", "pod updates may not add or remove containers")
        for field in ("containers", "initContainers")
        if len(before.get(field) or ()) != len(after.get(field) or ())
    ]
    if resized:
        return resized
    errors = [
        *_deadline_errors(before, after),
        *gate_update_errors(before, after),
        *toleration_update_errors(before, after),
    ]
    if _frozen_part(with_gated_changes(before, after)) == _frozen_part(after):
        return errors
    return [*errors, forbidden_field("spec", _UPDATE_TEXT)]


def _ephemeral_errors(old: JsonObject, new: JsonObject) -> Iterator[FieldError]:
    """An ephemeral container stays as it is (ValidatePodEphemeralContainersUpdate)."""
    field = "spec.ephemeralContainers"
    present = {each.get("name"): each for each in new.get("ephemeralContainers") or ()}
    for container in old.get("ephemeralContainers") or ():
        name = container["name"]
        if present.get(name) != container:
            what = "changed" if name in present else "removed"
            why = f'existing ephemeral containers "{name}" may not be {what}'
            yield forbidden_field(field, why)


def _deadline_errors(before: JsonObject, after: JsonObject) -> list[FieldError]:
    """The deadline of a pod may be set, and come closer."""
    field = "activeDeadlineSeconds"
    old, new = before.get(field), after.get(field)
    if old is None or (new is not None and new <= old):
        return []
    why = "must be less than or equal to previous value"
    if new is None:
        why = "must not update from a positive integer to nil value"
    return [invalid_value(f"spec.{field}", new, why)]


def _frozen_part(spec: JsonObject) -> JsonObject:
    changeable = ("activeDeadlineSeconds", "tolerations")
    frozen = {field: value for field, value in spec.items() if field not in changeable}
    # A negative period may become the shortest one.
    period = "terminationGracePeriodSeconds"
    if period in frozen:
        frozen[period] = max(frozen[period], 1) if frozen[period] < 0 else frozen[period]
    for field in ("containers", "initContainers"):
        frozen[field] = [
            {name: value for name, value in container.items() if name != "image"}
            for container in spec.get(field, ())
        ]
    return frozen


PODS = Kind(
    "",
    ("v1",),
    Names("pods", "Pod", ("po",), ("all",), storage="pods"),
    subresources=(
        STATUS,
        Subresource("log", ("get",)),
        Subresource("attach", ("create", "get"), GroupVersionKind("", "v1", "PodAttachOptions")),
        Subresource("exec", ("create", "get"), GroupVersionKind("", "v1", "PodExecOptions")),
        Subresource(
            "portforward", ("create", "get"), GroupVersionKind("", "v1", "PodPortForwardOptions")
        ),
        Subresource("binding", ("create",), GroupVersionKind("", "v1", "Binding")),
        Subresource("eviction", ("create",), GroupVersionKind("policy", "v1", "Eviction")),
        Subresource(_EPHEMERAL, ("get", "patch", "update"), field="spec"),
        Subresource(_RESIZE, ("get", "patch", "update"), field="spec"),
        Subresource("proxy", PROXY_VERBS, GroupVersionKind("", "v1", "PodProxyOptions")),
    ),
    strategy=PodStrategy(),
)
