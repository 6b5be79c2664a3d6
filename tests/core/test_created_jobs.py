"""What a Job is made of: a run of a CronJob now, and a Job once more."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from tests.support.objects import ENV_AND_FILES, KEY, config_map, cron_job, sources

from hotmap.core.decide.assessment import Assessment, Finding, Verdict
from hotmap.core.decide.source_snapshot import take_snapshots
from hotmap.core.patch.jobs import job_again, job_of_cron_job, run_name

A = {"LEVEL": "info", "app.yaml": "a: 1"}

Object = dict[str, Any]


def name_for(data: dict[str, str], *, changed_at: float | None = 100.0, cron: str = "web") -> str:
    """Name the run of a CronJob whose one source changed then and holds some data."""
    who = cron_job(ENV_AND_FILES)
    key = who.key._replace(name=cron)
    snapshots = take_snapshots(
        who.uses, sources(config_map("app", data, changed_at=changed_at)), KEY
    )
    findings = tuple(Finding(current, Verdict.FROZEN, "changed") for current in snapshots)
    assessment = Assessment(Verdict.FROZEN, "", findings)
    return run_name(msgspec.structs.replace(who, key=key), assessment.content())


def test_same_change_has_the_same_name() -> None:
    """So that two replicas, or one that crashed, make one Job."""
    assert name_for(A) == name_for(dict(A))
    assert name_for(A).startswith("web-")


@pytest.mark.parametrize(
    ("data", "changed_at"),
    [
        pytest.param(A | {"LEVEL": "debug"}, 100.0, id="frozen content"),
        pytest.param(A | {"app.yaml": "a: 2"}, 100.0, id="live content"),
        pytest.param(A, 200.0, id="the content came back later"),
    ],
)
def test_another_change_has_another_name(data: dict[str, str], changed_at: float) -> None:
    """A run that was made for something else does not count as made."""
    assert name_for(data, changed_at=changed_at) != name_for(A)


def test_long_name_is_cut_to_label_length() -> None:
    """The longest that a CronJob can have is 52 characters, a label's value 63."""
    assert len(name_for(A, cron="c" * 52)) == 63
    assert len(name_for(A, cron="c" * 60)) == 63


def test_run_equals_kubectl_create_job_from() -> None:
    """Labels, annotations and spec of its template, its name as owner, and the mark."""
    cron: Object = {
        "metadata": {"name": "report", "namespace": "shop", "uid": "u1", "labels": {"no": "no"}},
        "spec": {
            "schedule": "@daily",
            "jobTemplate": {
                "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
                "spec": {"backoffLimit": 2, "template": {"spec": {"containers": []}}},
            },
        },
    }
    assert job_of_cron_job(cron, "report-1") == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "report-1",
            "namespace": "shop",
            "labels": {"a": "b"},
            "annotations": {"c": "d", "cronjob.kubernetes.io/instantiate": "manual"},
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "CronJob",
                    "name": "report",
                    "uid": "u1",
                    "controller": True,
                }
            ],
        },
        "spec": {"backoffLimit": 2, "template": {"spec": {"containers": []}}},
    }


GENERATED = {
    "batch.kubernetes.io/controller-uid": "u1",
    "batch.kubernetes.io/job-name": "load",
    "controller-uid": "u1",
    "job-name": "load",
}


def a_job() -> Object:
    """A Job as an API server has it."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "load",
            "generateName": "load-",
            "namespace": "shop",
            "uid": "u1",
            "resourceVersion": "7",
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "deletionTimestamp": "2026-01-02T00:00:00Z",
            "deletionGracePeriodSeconds": 0,
            "managedFields": [{}],
            "labels": {"app": "load", **GENERATED},
            "annotations": {"said": "by a person"},
            "ownerReferences": [{"kind": "Dataset", "name": "x", "uid": "u2"}],
            "finalizers": ["foregroundDeletion", "example.com/mine"],
        },
        "spec": {
            "parallelism": 2,
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u1"}},
            "template": {
                "metadata": {"labels": {"app": "load", **GENERATED}},
                "spec": {"containers": [{"name": "main"}], "restartPolicy": "Never"},
            },
        },
        "status": {"succeeded": 1},
    }


def test_recreated_job_equals_its_manifest() -> None:
    """What the server and controllers wrote is gone; what people wrote is kept."""
    assert job_again(a_job()) == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "load",
            "namespace": "shop",
            "labels": {"app": "load"},
            "annotations": {"said": "by a person"},
            "ownerReferences": [{"kind": "Dataset", "name": "x", "uid": "u2"}],
            "finalizers": ["example.com/mine"],
        },
        "spec": {
            "parallelism": 2,
            "template": {
                "metadata": {"labels": {"app": "load"}},
                "spec": {"containers": [{"name": "main"}], "restartPolicy": "Never"},
            },
        },
    }


def test_selector_that_a_person_chose_is_kept() -> None:
    """With `manualSelector` the server writes neither selector nor labels."""
    job = a_job()
    job["spec"]["manualSelector"] = True
    again = job_again(job)
    assert again["spec"]["selector"] == job["spec"]["selector"]
    assert again["spec"]["template"] == job["spec"]["template"]


def test_input_manifest_is_not_modified() -> None:
    """Both are values of their own."""
    job = a_job()
    before = copy.deepcopy(job)
    job_again(job)["spec"]["template"]["spec"]["containers"].clear()
    assert job == before
