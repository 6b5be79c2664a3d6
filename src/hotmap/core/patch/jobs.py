"""The Jobs that hotmap makes: a run of a CronJob now, and a Job once more.

Both are made of the object as the API server has it, in plain maps: what is not known here (a
newer field, somebody's annotation) is kept.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from hotmap.core.model.consumer import Consumer

__all__ = ["job_again", "job_of_cron_job", "run_name"]

#: The mark of a run that no schedule started (kubernetes: kubectl/pkg/cmd/create/create_job.go).
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
    """Name the Job that a CronJob starts since its sources changed.

    `content` tells the present content and when it changed. Whoever decides the same gives the
    same name: a second replica, or a controller that crashed between the create and the record.
    That the name is taken then means that it is done. The time of the change tells a return to
    earlier content from the first time that it was there.
    """
    mark = hashlib.sha256("\n".join((consumer.uid, *content)).encode()).hexdigest()[:10]
    return f"{consumer.key.name[:_NAME_LENGTH]}-{mark}"


def job_of_cron_job(cron_job: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Make a Job from a CronJob's template, as `kubectl create job --from=cronjob/…` does.

    The CronJob is its controller, so that its history limits count it, without blockOwnerDeletion,
    which needs a further right.
    """
    template, owner = cron_job["spec"]["jobTemplate"], cron_job["metadata"]
    said = template.get("metadata") or {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": owner["namespace"],
            "labels": dict(said.get("labels") or {}),
            "annotations": {**(said.get("annotations") or {}), _INSTANTIATE: "manual"},
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
        "spec": copy.deepcopy(dict(template["spec"])),
    }


def job_again(job: Mapping[str, Any]) -> dict[str, Any]:
    """Make the manifest of a Job anew: everything but what the server and controllers wrote.

    A selector that a person chose (`manualSelector`) stays, and so do all other labels, owners
    and annotations.
    """
    again = copy.deepcopy(dict(job))
    again.pop("status", None)
    metadata, spec = again["metadata"], again["spec"]
    for field in _IDENTITY:
        metadata.pop(field, None)
    finalizers = [one for one in metadata.pop("finalizers", ()) if one not in _DELETION]
    if finalizers:
        metadata["finalizers"] = finalizers
    if not spec.get("manualSelector"):
        spec.pop("selector", None)
        for labelled in (metadata, spec["template"].get("metadata") or {}):
            for label in _GENERATED_LABELS:
                (labelled.get("labels") or {}).pop(label, None)
    return again
