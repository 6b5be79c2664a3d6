"""Writes a rollout into a pod template: with hotmap's annotation or as Reloader does.

The patch has no other fields, so an apply by the owner keeps it and no replica count is changed; it
has the uid and the resourceVersion that the decision was based on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from math import floor
from typing import Any, NamedTuple

from hotmap.core.model.consumer import FIELD_MANAGER, REVISION, Consumer
from hotmap.core.reloader import patch as reloader_patch
from hotmap.core.reloader.annotations import Writing
from hotmap.core.reloader.patch import Stamp, stamp_patch, variable_operations

__all__ = ["TemplatePatch", "end_pause_patch", "pause_in", "restart_time", "template_patch"]

_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_OPERATIONS = "application/json-patch+json"


class TemplatePatch(NamedTuple):
    """A patch of a consumer, ready to be sent."""

    body: dict[str, Any] | list[dict[str, Any]]
    content_type: str
    field_manager: str
    #: The revision in the template after the patch.
    revision: str


def template_patch(
    consumer: Consumer,
    revision: str,
    *,
    writing: Writing,
    stamps: Sequence[Stamp],
    distinct: bool,
    now: float,
) -> TemplatePatch:
    """Build the patch that makes a consumer's controller replace its pods.

    `revision` is that of the current content; "" returns to the template from before the first
    rollout, which had none. `stamps` are the sources that changed, `distinct`
    means that this content was applied before and that its pods may have other content. `now` is
    POSIX seconds, for Reloader's annotation only.

    If Reloader's mark would change nothing, the revision is written too: Reloader then does
    nothing, and its users keep pods with the old content. A custom resource (Rollout) takes no
    strategic merge patch, and a plain one would replace the other variables of a container; so its
    variables are written by position, which the resourceVersion makes certain.
    """
    if (
        writing is Writing.ENV_VARS
        and consumer.key.kind == "Rollout"
        and (operations := _rollout_operations(consumer, revision, stamps, distinct=distinct))
    ):
        return TemplatePatch(
            operations,
            _OPERATIONS,
            reloader_patch.FIELD_MANAGER,
            revision if distinct else consumer.revision,
        )
    precondition = {"uid": consumer.uid, "resourceVersion": consumer.resource_version}
    stamped: dict[str, Any] = {}
    if writing is Writing.ANNOTATIONS or (
        writing is Writing.ENV_VARS and consumer.key.kind != "Rollout"
    ):
        assert consumer.traces is not None, "the strategy is read at decode"
        stamped = stamp_patch(
            consumer.traces, stamps, writing, namespace=consumer.key.namespace, now=now
        )
    template: dict[str, Any] = stamped["spec"]["template"] if stamped else {}
    carried = consumer.revision
    if distinct or not template:
        carried = revision
        annotations = template.setdefault("metadata", {}).setdefault("annotations", {})
        annotations[REVISION] = revision or None
    return TemplatePatch(
        {"metadata": precondition, "spec": {"template": template}},
        _STRATEGIC if stamped and consumer.key.kind != "Rollout" else _MERGE,
        reloader_patch.FIELD_MANAGER if stamped else FIELD_MANAGER,
        carried,
    )


def _rollout_operations(
    consumer: Consumer, revision: str, stamps: Sequence[Stamp], *, distinct: bool
) -> list[dict[str, Any]]:
    """Build the JSON patch that marks a Rollout with variables; [] if none changes."""
    assert consumer.traces is not None, "the strategy is read at decode"
    operations = variable_operations(consumer.traces, stamps)
    if not operations:
        return []
    if distinct:
        path, value = "/spec/template/metadata/annotations", {REVISION: revision}
        operations.append(
            {"op": "add", "path": f"{path}/{REVISION.replace('/', '~1')}", "value": revision}
            if consumer.traces.annotated
            else {"op": "add", "path": path, "value": value}
        )
    return [
        {"op": "test", "path": "/metadata/uid", "value": consumer.uid},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": consumer.resource_version},
        *operations,
    ]


def pause_in(patch: TemplatePatch, annotation: str, *, now: float) -> TemplatePatch:
    """Pause the Deployment in the patch that changes its template.

    Both are one write, so no controller can end between them, and no pod is replaced. `now` is
    POSIX seconds of the API server; the annotation has whole ones, as Reloader writes it.
    """
    assert isinstance(patch.body, dict), "only Deployments are paused, by merge patches"
    at = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = {**patch.body["metadata"], "annotations": {annotation: at}}
    spec = {**patch.body["spec"], "paused": True}
    return patch._replace(body={**patch.body, "metadata": metadata, "spec": spec})


def end_pause_patch(consumer: Consumer, annotation: str, *, resumes: bool) -> dict[str, Any]:
    """Build the merge patch that removes the annotation of a pause, and resumes the Deployment."""
    precondition = {"uid": consumer.uid, "resourceVersion": consumer.resource_version}
    body: dict[str, Any] = {"metadata": {**precondition, "annotations": {annotation: None}}}
    return {**body, "spec": {"paused": False}} if resumes else body


def restart_time(changed_at: Iterable[float | None], *, now: float) -> int:
    """Choose an Argo Rollout's restartAt: the first whole second after the changes and `now`.

    Pods that were made before it are replaced, and Argo compares whole seconds, so a pod created in
    the second of the change is replaced, too. POSIX seconds.
    """
    return floor(max([now, *(at for at in changed_at if at is not None)])) + 1
