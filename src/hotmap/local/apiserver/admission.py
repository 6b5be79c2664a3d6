"""What happens to an object between a request and the store.

The order is upstream's (apiserver/pkg/registry/rest/create.go and update.go): decode, let the
kind's strategy prepare, default, validate. This module says who decides for which kind; the
rules themselves live in `sources`, `pods`, `workloads` and `metadata`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.field_validation import drop_unknown_fields
from hotmap.local.apiserver.metadata import metadata_errors
from hotmap.local.apiserver.pods import (
    default_pod,
    pod_spec_errors,
    pod_update_errors,
    quality_of_service,
)
from hotmap.local.apiserver.shapes import check_shape, without_nulls
from hotmap.local.apiserver.sources import (
    configmap_errors,
    decode_source,
    secret_errors,
    source_update_errors,
)
from hotmap.local.apiserver.workloads import (
    WORKLOADS,
    default_workload,
    workload_errors,
    workload_update_errors,
)
from hotmap.local.field_errors import FieldError, invalid_value

if TYPE_CHECKING:
    from hotmap.local.scheme import Kind

JsonObject = dict[str, Any]

# Which part of an object an update through a subresource replaces.
_SUBRESOURCE_PARTS = {"status": "status", "finalize": "spec"}


def decode(kind: Kind, obj: JsonObject) -> None:
    """Bring a sent object into its stored form, in place.

    Raises:
        BadRequest: a field has another JSON type than its own.
    """
    if kind.plural in ("configmaps", "secrets"):
        decode_source(kind, obj)
    for field in [name for name in obj if name not in ("data", "binaryData")]:
        if obj[field] is None:
            del obj[field]
        else:
            obj[field] = without_nulls(obj[field])
    drop_unknown_fields(kind, obj)
    check_shape(kind, obj)


def prepare_create(kind: Kind, obj: JsonObject) -> None:
    """Set what a client may not choose at a create, in place."""
    if kind.has_generation:
        obj["metadata"]["generation"] = 1
    if kind.plural == "namespaces":
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}
    elif kind.plural == "pods":
        # A pod that says nothing may still leave out its spec; validation tells.
        spec = obj.setdefault("spec", {})
        obj["status"] = {"phase": "Pending", "qosClass": quality_of_service(spec)}
    elif kind.plural == "services":
        obj["status"] = {"loadBalancer": {}}
    elif kind.has_status and kind.plural != "nodes":
        obj["status"] = {}


def default(kind: Kind, obj: JsonObject) -> None:
    """Fill in the fields that the client left out, in place."""
    if kind.plural == "pods":
        default_pod(obj)
    elif kind.plural in WORKLOADS:
        default_workload(kind.plural, obj)
    elif kind.plural == "namespaces":
        # kubernetes: pkg/apis/core/v1/defaults.go, SetDefaults_Namespace
        metadata = obj["metadata"]
        own = {"kubernetes.io/metadata.name": metadata.get("name", "")}
        metadata["labels"] = {**metadata.get("labels", {}), **own}
    elif kind.plural == "services":
        _default_service(obj.setdefault("spec", {}))


def _default_service(spec: JsonObject) -> None:
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if "port" in port:
            port.setdefault("targetPort", port["port"])


def validate_create(kind: Kind, obj: JsonObject) -> list[FieldError]:
    """Find everything wrong with a new object; its metadata comes first."""
    return metadata_errors(kind, obj["metadata"]) + _content_errors(kind, obj)


def _content_errors(kind: Kind, obj: JsonObject) -> list[FieldError]:
    if kind.plural == "configmaps":
        return configmap_errors(obj)
    if kind.plural == "secrets":
        return secret_errors(obj)
    if kind.plural == "pods":
        return pod_spec_errors(obj["spec"], "spec")
    if kind.plural in WORKLOADS:
        return workload_errors(kind.plural, obj)
    if kind.plural == "events":
        return _event_errors(obj)
    return []


def _event_errors(event: JsonObject) -> list[FieldError]:
    """An Event lies where its object lies; those of the cluster lie in `default`."""
    involved = (event.get("involvedObject") or {}).get("namespace", "")
    if (involved or "default") == event["metadata"]["namespace"]:
        return []
    why = "does not match event.namespace"
    return [invalid_value("involvedObject.namespace", involved, why)]


def prepare_update(kind: Kind, old: JsonObject, new: JsonObject, subresource: str) -> None:
    """Carry over what this kind of update may not touch, in place."""
    if subresource:
        kept = (_SUBRESOURCE_PARTS[subresource], "metadata", "kind", "apiVersion")
        for field in [name for name in new if name not in kept]:
            del new[field]
        new.update({field: value for field, value in old.items() if field not in kept})
    elif kind.has_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
        if kind.plural == "namespaces":
            new["spec"] = old["spec"]


def validate_update(
    kind: Kind, old: JsonObject, new: JsonObject, subresource: str
) -> list[FieldError]:
    """Find everything wrong with a change."""
    errors = metadata_errors(kind, new["metadata"])
    if subresource:
        return errors
    if kind.plural in ("configmaps", "secrets"):
        errors += source_update_errors(old, new)
    elif kind.plural == "pods":
        errors += pod_update_errors(old, new)
    elif kind.plural in WORKLOADS:
        errors += _content_errors(kind, new)
        return errors + workload_update_errors(kind.plural, old, new)
    return errors + _content_errors(kind, new)


def counts_generation(kind: Kind, old: JsonObject, new: JsonObject, subresource: str) -> bool:
    """Whether an update counts up metadata.generation.

    A Deployment counts changes of its annotations too (pkg/registry/apps/deployment/strategy.go).
    """
    if not kind.has_generation or subresource:
        return False
    if old.get("spec") != new.get("spec"):
        return True
    return kind.plural == "deployments" and (
        old["metadata"].get("annotations") != new["metadata"].get("annotations")
    )


def deletion_grace(kind: Kind, obj: JsonObject, wanted: int | None) -> int:
    """Give the seconds that a deletion waits; only pods know any.

    A pod that no node runs has nothing to wait for (pkg/registry/core/pod/strategy.go,
    CheckGracefulDelete).
    """
    if kind.plural != "pods":
        return 0
    spec = obj["spec"]
    if not spec.get("nodeName") or obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    grace: int = spec["terminationGracePeriodSeconds"] if wanted is None else wanted
    # A negative period is read as the shortest one that is still graceful.
    return grace if grace >= 0 else 1


def bind_pod(pod: JsonObject, node: str, now: str) -> None:
    """Put a pod on a node, in place (pkg/registry/core/pod/storage: setPodHostAndAnnotations)."""
    pod["spec"]["nodeName"] = node
    status = pod.setdefault("status", {})
    others = [c for c in status.get("conditions", ()) if c["type"] != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}
    status["conditions"] = [*others, scheduled]
