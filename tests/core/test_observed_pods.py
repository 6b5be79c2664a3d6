"""What is observed of a pod: when it started, readiness, and why it waits."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.core.pod_stages import ENV_CONTENT, NOW, WEB
from tests.support.objects import deployment, pod, timestamp

from hotmap.core.model.objects import Pod, PodCondition
from hotmap.core.status.observed_pods import observe_pods
from hotmap.core.status.pods import pod_proofs
from hotmap.core.status.stage import Confidence, Stage
from hotmap.core.target import Target


def test_pod_waiting_in_init_is_unknown() -> None:
    """Its init container has read the source, its main container has not started."""
    init = "initContainers: [{name: setup, envFrom: [{configMapRef: {name: app}}]}]\n"
    consumer = deployment(f"{init}containers: [{{name: web}}]")
    running = {"running": {"startedAt": timestamp(1012)}}
    body = {
        "metadata": {"name": "web-1", "creationTimestamp": timestamp(1010)},
        "status": {
            "phase": "Pending",
            "startTime": timestamp(1010),
            "initContainerStatuses": [{"name": "setup", "state": running}],
            "containerStatuses": [{"name": "web", "state": {"waiting": {}}}],
        },
    }
    pods = observe_pods(consumer, [msgspec.convert(body, Pod)])
    assert pods[0].start.at is not None
    (proof,) = pod_proofs(ENV_CONTENT, pods, now=NOW)
    assert proof.loaded == Stage(Confidence.UNKNOWN, "not ready")


def test_pod_with_failing_readiness_gate_is_not_ready() -> None:
    """All containers are ready, the pod's own condition is not."""
    ready = pod(started=1010)
    gate = PodCondition(type="Ready", status="False")
    gated = msgspec.structs.replace(
        ready, status=msgspec.structs.replace(ready.status, conditions=[gate])
    )
    assert observe_pods(WEB, [ready])[0].ready
    assert not observe_pods(WEB, [gated])[0].ready


def test_observed_pod_is_mounted_at_its_own_start() -> None:
    """Not at the start of its container, and not before it was bound to a node."""
    slow = pod(created=1000, scheduled=1005, containers={"web": 1040.0})
    acknowledged = msgspec.structs.replace(
        slow, status=msgspec.structs.replace(slow.status, start_time=timestamp(1006))
    )
    (observed,) = observe_pods(WEB, [acknowledged])
    assert (observed.mounted_at, observed.ready) == (1005.0, True)


def test_observed_pod_has_readiness_template_and_nudge() -> None:
    """Readiness, the first reason for not running, its template, and what it was told."""
    running = {"running": {"startedAt": timestamp(1010)}}
    body = {
        "metadata": {
            "name": "db-2",
            "labels": {"controller-revision-hash": "db-85db44f89d"},
            "annotations": {"hotmap.dev/target": "3/live/frozen"},
        },
        "status": {
            "phase": "Running",
            "startTime": timestamp(1005),
            "containerStatuses": [
                {"name": "web", "ready": True, "state": running},
                {"name": "log", "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
            ],
        },
    }
    (observed,) = observe_pods(WEB, [msgspec.convert(body, Pod)])
    assert (observed.start.name, observed.ready, observed.waiting_reason) == (
        "db-2",
        False,
        "CrashLoopBackOff",
    )
    assert (observed.template, observed.nudged) == ("db-85db44f89d", Target(3, "live", "frozen"))


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing", ""])
def test_starting_container_has_no_waiting_reason(reason: str) -> None:
    """A container that is being created is not one that cannot run."""
    waiting = {"name": "web", "state": {"waiting": {"reason": reason}}}
    body = {"metadata": {"name": "web-1"}, "status": {"containerStatuses": [waiting]}}
    (observed,) = observe_pods(WEB, [msgspec.convert(body, Pod)])
    assert (observed.waiting_reason, observed.ready) == ("", False)


@pytest.mark.parametrize(
    ("init", "main", "waiting_reason"),
    [
        pytest.param({}, {"terminated": {"reason": "Error"}}, "Error", id="crashed"),
        pytest.param({}, {"terminated": {"reason": "Completed"}}, "Completed", id="ended"),
        pytest.param({"terminated": {"reason": "Completed"}}, {}, "", id="init has completed"),
        pytest.param({"terminated": {"reason": "Error"}}, {}, "Error", id="init failed"),
        pytest.param(
            {"waiting": {"reason": "CrashLoopBackOff"}},
            {"waiting": {"reason": "PodInitializing"}},
            "CrashLoopBackOff",
            id="init crashes",
        ),
    ],
)
def test_waiting_reason_is_that_of_the_first_container_not_running(
    init: Any, main: Any, waiting_reason: str
) -> None:
    """In Kubernetes' own word, as containers are shown between two starts."""
    body = {
        "metadata": {"name": "web-1"},
        "status": {
            "initContainerStatuses": [{"name": "setup", "state": init}],
            "containerStatuses": [{"name": "web", "state": main}],
        },
    }
    (observed,) = observe_pods(WEB, [msgspec.convert(body, Pod)])
    assert observed.waiting_reason == waiting_reason


@pytest.mark.parametrize("reason", ["Unschedulable", "SchedulingGated"])
def test_pod_without_a_node_waits_for_the_reason_of_the_scheduler(reason: str) -> None:
    """It has no statuses of containers, and no kubelet that says anything."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason}
    body = {"metadata": {"name": "web-1"}, "status": {"conditions": [condition]}}
    (observed,) = observe_pods(WEB, [msgspec.convert(body, Pod)])
    assert (observed.waiting_reason, observed.is_down) == (reason, True)


def test_restarted_container_that_uses_a_source_is_observed() -> None:
    restarted = pod(started=1000, created=990)
    (status,) = restarted.status.container_statuses or []
    again = msgspec.structs.replace(status, restart_count=1)
    states = msgspec.structs.replace(restarted.status, container_statuses=[again])
    for found, expected in (
        (restarted, False),
        (msgspec.structs.replace(restarted, status=states), True),
    ):
        (observed,) = observe_pods(WEB, [found])
        assert observed.start.restarted is expected
