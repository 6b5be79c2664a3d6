"""ReplicationControllers and PodTemplates (pkg/apis/core/validation)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.apiserver.kinds.workload import template_errors
from hotmap.local.field_errors import NOT_NEGATIVE, FieldError, invalid_value, required
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Iterator


def replication_controller_errors(obj: JsonObject) -> Iterator[FieldError]:
    """Check the counts and the selector of a ReplicationController."""
    spec = obj.get("spec") or {}
    if spec.get("minReadySeconds", 0) < 0:
        yield invalid_value("spec.minReadySeconds", spec["minReadySeconds"], NOT_NEGATIVE)
    selector = spec.get("selector") or {}
    if not selector:
        yield required("spec.selector")
    if spec.get("replicas", 0) < 0:
        yield invalid_value("spec.replicas", spec["replicas"], NOT_NEGATIVE)
    template = spec.get("template")
    if template is None:
        yield required("spec.template")
        return
    labels = template["metadata"].get("labels")
    if selector and not selector.items() <= (labels or {}).items():
        why = "`selector` does not match template `labels`"
        yield invalid_value("spec.template.metadata.labels", labels, why)
    yield from template_errors(template, "spec.template")


def pod_template_errors(obj: JsonObject) -> list[FieldError]:
    """Check a PodTemplate, which may have any restart policy (ValidatePodTemplate)."""
    return template_errors(obj["template"], "template", ("Always", "OnFailure", "Never"))
