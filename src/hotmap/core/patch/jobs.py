"""The Jobs that hotmap creates: an immediate run of a CronJob, and a recreated Job.

Both are built from the object of the API server, as plain maps, so that unknown fields and
annotations are kept.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from hotmap.core.model.consumer import REVISION, Consumer

__all__ = ["job_again", "job_of_cron_job", "run_name"]

#: The annotation of a run that no schedule started (kubernetes:
#: kubectl/pkg/cmd/create/create_job.go).
_INSTANTIATE = "cronjob.kubernetes.io/instantiate"

#: Longest name of a CronJob, so that its Jobs' names are good labels (kubernetes:
#: pkg/apis/batch/validation, DNS1035LabelMaxLength - 11).
_NAME_LENGTH = 52

#: Written by the API server into a Job's selector and labels, under a new uid each time
#: (kubernetes: pkg/registry/batch/job/strategy.go generateSelector).
_GENERATED_LABELS = (
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "controller-uid",
    "job-name",
)

#: Fields of metadata that belong to one object and not to its manifest.
_IDENTITY = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "generateName",
)

#: Finalizers that a deletion adds.
_DELETION = ("foregroundDeletion", "orphan")


def run_name(consumer: Consumer, content: Sequence[str]) -> str:
    """Return the name of the Job that a CronJob starts after a change of its sources.

    `content` identifies the current content, and what distinguishes its return from its first use.
    Equal decisions give equal names, also of a second replica, or of a controller that crashed
    between the create and the record: an existing name then means that the Job was created.
    """
    mark = hashlib.sha256("\n".join((consumer.uid, *content)).encode()).hexdigest()[:10]
    return f"{consumer.key.name[:_NAME_LENGTH]}-{mark}"


def job_of_cron_job(cron_job: Mapping[str, Any], name: str, revision: str = "") -> dict[str, Any]:
    """Build a Job from a CronJob's template, as `kubectl create job --from=cronjob/…` does.

    The CronJob is its controller, so that its history limits count it, without blockOwnerDeletion,
    which needs another permission. Its pods get the `revision` for which it is made, if any.
    """
    template, owner = cron_job["spec"]["jobTemplate"], cron_job["metadata"]
    meta, spec = template.get("metadata") or {}, copy.deepcopy(dict(template["spec"]))
    if revision:
        pod_meta = spec["template"].get("metadata") or {}
        annotations = {**(pod_meta.get("annotations") or {}), REVISION: revision}
        spec["template"]["metadata"] = {**pod_meta, "annotations": annotations}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": owner["namespace"],
            "labels": dict(meta.get("labels") or {}),
            "annotations": {**(meta.get("annotations") or {}), _INSTANTIATE: "manual"},
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "CronJob",
                    "name": owner["name"],
                    "uid": owner["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": spec,
    }


def job_again(job: Mapping[str, Any]) -> dict[str, Any]:
    """Build the manifest of a Job again: everything but what the server and controllers wrote.

    A selector that a user chose (`manualSelector`) stays, and so do all other labels, owners
    and annotations.
    """
    again = copy.deepcopy(dict(job))
    again.pop("status", None)
    metadata, spec = again["metadata"], again["spec"]
    for field in _IDENTITY:
        metadata.pop(field, None)
    finalizers = [item for item in metadata.pop("finalizers", ()) if item not in _DELETION]
    if finalizers:
        metadata["finalizers"] = finalizers
    if not spec.get("manualSelector"):
        spec.pop("selector", None)
        for labelled in (metadata, spec["template"].get("metadata") or {}):
            for label in _GENERATED_LABELS:
                (labelled.get("labels") or {}).pop(label, None)
    return again
