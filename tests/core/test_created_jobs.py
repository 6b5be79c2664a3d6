"""What a Job is made of: a run of a CronJob now, and a Job once more."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from tests.support.objects import ENV_AND_FILES, config_map, cron_job, snapshot

from hotmap.core.decide.decide import decide
from hotmap.core.decide.decision import Decision
from hotmap.core.decide.record import Outcome, first_record, next_record
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.state import Record
from hotmap.core.patch.jobs import job_again, job_of_cron_job, run_name
from hotmap.core.policy.policy import OnChange, Policy

A = {"LEVEL": "info", "app.yaml": "a: 1"}
B = A | {"LEVEL": "debug"}

Object = dict[str, Any]


def adopted(who: Consumer, *, version: int = 1) -> Record:
    """Record that a CronJob was first seen when its source had that version of A."""
    record = first_record(decide(snapshot(who, config_map("app", A, version=version))))
    assert record is not None
    return record


def decided(
    data: dict[str, str], record: Record | None = None, *, changed_at: float | None = 100.0
) -> Decision:
    """Decide on a CronJob whose one source changed then and has some data now."""
    who = cron_job(ENV_AND_FILES, annotations={"hotmap.dev/on-change": "run-now"})
    policy = Policy(opted_in=True, on_change=OnChange.RUN_NOW)
    source = config_map("app", data, version=7, changed_at=changed_at)
    return decide(snapshot(who, source, record=record or adopted(who), policy=policy))


def name_for(data: dict[str, str], *, cron: str) -> str:
    """Name a Job of a CronJob for some content of its source."""
    who = cron_job(ENV_AND_FILES)
    return run_name(msgspec.structs.replace(who, key=who.key._replace(name=cron)), [str(data)])


def ran(decision: Decision, at: float) -> Record:
    """Record the run that a decision started."""
    record = next_record(decision, Outcome(1, "", at))
    assert record is not None
    return record


def test_repeated_decision_names_the_same_job() -> None:
    """A controller that repeats it after a crash may know another time of the change."""
    names = {decided(B, changed_at=at).run_name for at in (100.0, 100.4, 160.0, None)}
    assert len(names) == 1
    assert names.pop().startswith("web-")


@pytest.mark.parametrize("changed", [{"LEVEL": "trace"}, {"app.yaml": "a: 2"}])
def test_other_content_has_another_name(changed: dict[str, str]) -> None:
    """A run that was made for something else does not count as made."""
    assert decided(B | changed).run_name != decided(B).run_name


def test_content_that_returns_has_another_name() -> None:
    """Each run has its own, though the earlier Jobs still exist."""
    names, record = set(), None
    for turn in range(6):
        decision = decided(A if turn % 2 else B, record)
        names.add(decision.run_name)
        record = ran(decision, 100.0 * turn)
    assert len(names) == 6


def test_run_after_records_were_lost_has_another_name() -> None:
    """The CronJob is adopted with another version of its source then."""
    who = cron_job(ENV_AND_FILES)
    first = decided(B, adopted(who, version=1)).run_name
    assert decided(B, adopted(who, version=3)).run_name != first


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


@pytest.mark.parametrize("metadata", [None, {"labels": {"a": "b"}, "annotations": {"c": "d"}}])
def test_pods_of_a_run_have_the_revision_that_it_is_made_for(metadata: Object | None) -> None:
    """A pod that starts within the second of a change is known to have it by that."""
    template = {"spec": {"containers": []}, **({"metadata": metadata} if metadata else {})}
    cron: Object = {
        "metadata": {"name": "report", "namespace": "shop", "uid": "u1"},
        "spec": {"jobTemplate": {"spec": {"template": template}}},
    }
    before = copy.deepcopy(cron)
    made = job_of_cron_job(cron, "report-1", "key.content")
    annotations = (metadata or {}).get("annotations", {})
    assert made["spec"]["template"] == {
        "spec": {"containers": []},
        "metadata": {
            **(metadata or {}),
            "annotations": {**annotations, "hotmap.dev/revision": "key.content"},
        },
    }
    assert cron == before


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
