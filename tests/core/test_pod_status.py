"""How far the desired content has got in each pod, and how that is known."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.objects import (
    ENV,
    ENV_AND_FILES,
    FILES,
    config_map,
    deployment,
    pod,
    snapshot,
    timestamp,
)

from hotmap.core.decide.evidence import PodStart
from hotmap.core.model.objects import Pod
from hotmap.core.model.state import Window
from hotmap.core.patch.nudge import Target
from hotmap.core.policy.policy import Policy
from hotmap.core.status.pods import (
    Confidence,
    Desired,
    ObservedPod,
    Stage,
    desired_of,
    observe_pods,
    prove,
    template_vouches,
)

#: When the sources last changed, and some moment soon after.
CHANGED, NOW = 1000.0, 1030.0

WEB = deployment(ENV)


def desired(
    spec: str = ENV, *, live_rolls: bool = False, changed_at: float | None = CHANGED
) -> Desired:
    """What the pods of a consumer with this pod spec are to hold."""
    consumer = deployment(spec)
    source = config_map(data={"LEVEL": "info", "app.yaml": "a: 1"}, changed_at=changed_at)
    policy = Policy(opted_in=True, rereads=not live_rolls)
    return desired_of(snapshot(consumer, source, policy=policy))


ENV_WISH, FILES_WISH, BOTH_WISH = desired(), desired(FILES), desired(ENV_AND_FILES)
FILES_AT_START = desired(FILES, live_rolls=True)


def seen(
    at: float | None, *, revision: str = "", told: Target | None = None, trouble: str = ""
) -> ObservedPod:
    return ObservedPod(PodStart("web-1", at, revision), True, trouble, "", told)


def only(
    wish: Desired, one: ObservedPod, *, now: float = NOW, **facts: Any
) -> tuple[Stage | None, Stage]:
    """The projected and the loaded stage of one pod."""
    (proof,) = prove(wish, [one], now=now, **facts)
    return proof.projected, proof.loaded


@pytest.mark.parametrize(
    ("wish", "at", "known"),
    [
        pytest.param(ENV_WISH, 1002, Confidence.PROVEN, id="the margin after the change"),
        pytest.param(ENV_WISH, 1001, Confidence.PROBABLY, id="inside the margin"),
        pytest.param(ENV_WISH, 1000, Confidence.PROBABLY, id="in the second of the change"),
        pytest.param(ENV_WISH, 999, Confidence.UNKNOWN, id="before the change"),
        pytest.param(ENV_WISH, None, Confidence.UNKNOWN, id="not started yet"),
        pytest.param(
            FILES_AT_START, 1002, Confidence.PROVEN, id="files that nobody re-reads, after"
        ),
        pytest.param(
            FILES_AT_START, 999, Confidence.UNKNOWN, id="files that nobody re-reads, before"
        ),
        pytest.param(desired(""), 1, Confidence.PROVEN, id="no source is read at all"),
        pytest.param(
            desired(changed_at=None), 1002, Confidence.UNKNOWN, id="nobody noted a change"
        ),
    ],
)
def test_start_time_shows_loaded_content(
    wish: Desired, at: float | None, known: Confidence
) -> None:
    """Proven, or probably, by time alone; what a template was asked for plays no part yet."""
    _, loaded = only(wish, seen(at))
    assert loaded.known is known


@pytest.mark.parametrize(
    ("revision", "vouched", "known"),
    [
        pytest.param(ENV_WISH.template, False, Confidence.INFERRED, id="its template names it"),
        pytest.param(
            f"{ENV_WISH.template}.2", False, Confidence.INFERRED, id="… under its own name"
        ),
        pytest.param("kid.other", False, Confidence.UNKNOWN, id="its template names other content"),
        pytest.param("", False, Confidence.UNKNOWN, id="its template names nothing"),
        pytest.param("", True, Confidence.INFERRED, id="all pods are of the template asked for"),
    ],
)
def test_template_revision_proves_its_pods(revision: str, vouched: bool, known: Confidence) -> None:
    """Where clocks do not: a pod that seems older than the change was made for its content."""
    _, loaded = only(ENV_WISH, seen(990, revision=revision), vouched=vouched)
    assert loaded.known is known


@pytest.mark.parametrize(
    ("fields", "vouched"),
    [
        pytest.param({"written_at": 1000}, True, id="written in the second of the change"),
        pytest.param({"written_at": 1005}, True, id="written after the change"),
        pytest.param({"written_at": 999}, False, id="written before the change"),
        pytest.param({"written_at": None}, False, id="written by nobody of us"),
        pytest.param({"written_at": 1005, "rolling": True}, False, id="older pods are left"),
    ],
)
def test_template_revision_proves_all_pods(fields: dict[str, Any], vouched: bool) -> None:
    """Our write came after the change, and its own controller has no other pod left."""
    web = deployment(ENV, revision="kid.any", **fields)
    source = config_map(data={"LEVEL": "info"}, changed_at=CHANGED)
    assert template_vouches(snapshot(web, source)) is vouched


def test_start_time_outranks_template() -> None:
    """What is proven stays proven, whatever the template was asked for."""
    _, loaded = only(ENV_WISH, seen(1010, revision="kid.other"))
    assert loaded.known is Confidence.PROVEN


def test_pod_that_started_in_between_is_not_inferred() -> None:
    """An edit and its revert, with a pod that started in between: its template proves nothing."""
    there = pod(started=995, revision=ENV_WISH.template)
    pods = observe_pods(WEB, [there])
    (proof,) = prove(ENV_WISH, pods, now=NOW, windows=[Window(990.0, 999.0)])
    assert proof.loaded.known is Confidence.UNKNOWN
    assert "another one" in proof.loaded.why


TOLD = FILES_WISH.target._replace(sequence=7)


@pytest.mark.parametrize(
    ("at", "told", "now", "known"),
    [
        pytest.param(1002, None, NOW, Confidence.PROVEN, id="mounted after the change"),
        pytest.param(1001, None, NOW, Confidence.PROBABLY, id="mounted inside the margin"),
        pytest.param(500, TOLD, NOW, Confidence.INFERRED, id="nudged after the change"),
        pytest.param(
            500, TOLD._replace(live="old"), NOW, Confidence.UNKNOWN, id="nudged before it"
        ),
        pytest.param(500, None, NOW, Confidence.UNKNOWN, id="the kubelet may not have synced yet"),
        pytest.param(500, None, 1092, Confidence.INFERRED, id="the kubelet's period is over"),
        pytest.param(None, TOLD, NOW, Confidence.UNKNOWN, id="not started"),
    ],
)
def test_files_follow_by_nudge_or_by_time(
    at: float | None, told: Target | None, now: float, known: Confidence
) -> None:
    """Projected; and loaded with it, by an application that re-reads its files."""
    projected, loaded = only(FILES_WISH, seen(at, told=told), now=now)
    assert projected is not None
    assert (projected.known, loaded.known) == (known, known)


def test_pod_without_mounts_has_nothing_projected() -> None:
    """Environment alone: there is no such stage."""
    projected, _ = only(ENV_WISH, seen(1010))
    assert projected is None


@pytest.mark.parametrize(
    ("at", "told", "projected", "loaded"),
    [
        pytest.param(500, TOLD, Confidence.UNKNOWN, Confidence.UNKNOWN, id="told of other content"),
        pytest.param(
            500, BOTH_WISH.target, Confidence.INFERRED, Confidence.UNKNOWN, id="files alone follow"
        ),
        pytest.param(
            1010, None, Confidence.PROVEN, Confidence.PROVEN, id="started after the change"
        ),
    ],
)
def test_weakest_part_decides(
    at: float, told: Target | None, projected: Confidence, loaded: Confidence
) -> None:
    """An environment does not follow a nudge, so such a pod has loaded a part alone."""
    stages = only(BOTH_WISH, seen(at, told=told))
    assert stages[0] is not None
    assert (stages[0].known, stages[1].known) == (projected, loaded)


@pytest.mark.parametrize(
    ("wish", "told", "follows"),
    [
        pytest.param(FILES_WISH, None, True, id="files alone are missing"),
        pytest.param(FILES_WISH, TOLD, False, id="nothing is missing"),
        pytest.param(BOTH_WISH, None, False, id="an environment is missing too"),
        pytest.param(ENV_WISH, None, False, id="an environment alone is missing"),
    ],
)
def test_files_follow_without_anybody(wish: Desired, told: Target | None, follows: bool) -> None:
    """A pod that only its files keep from the present content will have them by itself."""
    (proof,) = prove(wish, [seen(500, told=told)], now=NOW)
    assert proof.follows is follows


def test_reason_is_given() -> None:
    """How long before or after, and what keeps a pod from running."""
    assert only(ENV_WISH, seen(1065))[1].why == "it started 1 min 5 s after the last change"
    assert only(ENV_WISH, seen(1000 - 7200))[1].why == "it started 2 h before the last change"
    waits = seen(None, trouble="CrashLoopBackOff")
    assert only(ENV_WISH, waits)[1].why == "it does not run (CrashLoopBackOff)"


def test_pod_is_reduced_to_needed_fields() -> None:
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
    (one,) = observe_pods(WEB, [msgspec.convert(body, Pod)])
    assert (one.start.name, one.ready, one.trouble) == ("db-2", False, "CrashLoopBackOff")
    assert (one.template, one.told) == ("db-85db44f89d", Target(3, "live", "frozen"))


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing", ""])
def test_starting_pod_is_no_problem(reason: str) -> None:
    """A container that is being created is not one that cannot run."""
    waiting = {"name": "web", "state": {"waiting": {"reason": reason}}}
    body = {"metadata": {"name": "web-1"}, "status": {"containerStatuses": [waiting]}}
    (one,) = observe_pods(WEB, [msgspec.convert(body, Pod)])
    assert (one.trouble, one.ready) == ("", False)


@pytest.mark.parametrize(
    ("init", "main", "trouble"),
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
def test_pod_problem_is_named(init: Any, main: Any, trouble: str) -> None:
    """In Kubernetes' own word, as containers are shown between two starts."""
    body = {
        "metadata": {"name": "web-1"},
        "status": {
            "initContainerStatuses": [{"name": "setup", "state": init}],
            "containerStatuses": [{"name": "web", "state": main}],
        },
    }
    (one,) = observe_pods(WEB, [msgspec.convert(body, Pod)])
    assert one.trouble == trouble
