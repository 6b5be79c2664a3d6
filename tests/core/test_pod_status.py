"""How far the desired content has got in each pod, and how that is known."""

from __future__ import annotations

import pytest
from tests.core.pod_stages import (
    BOTH_CONTENT,
    CHANGED,
    ENV_CONTENT,
    FILES_AT_START,
    NOW,
    NUDGED,
    WEB,
    desired,
    observed_pod,
    stages_of,
    with_start_change,
)
from tests.support.objects import ENV, ENV_AND_FILES, config_map, pod, snapshot

from hotmap.core.decide.evidence import ContainerStart, PodStart, Span
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import Window
from hotmap.core.policy.policy import Policy
from hotmap.core.status.desired import DesiredContent, desired_content
from hotmap.core.status.observed_pods import ObservedPod, observe_pods
from hotmap.core.status.pods import pod_proofs
from hotmap.core.status.stage import Confidence, Stage
from hotmap.core.target import Target


@pytest.mark.parametrize(
    ("content", "at", "known"),
    [
        pytest.param(ENV_CONTENT, 1002, Confidence.PROVEN, id="the margin after the change"),
        pytest.param(ENV_CONTENT, 1001, Confidence.PROBABLE, id="inside the margin"),
        pytest.param(ENV_CONTENT, 1000, Confidence.PROBABLE, id="in the second of the change"),
        pytest.param(ENV_CONTENT, 999, Confidence.UNKNOWN, id="before the change"),
        pytest.param(ENV_CONTENT, None, Confidence.UNKNOWN, id="not started yet"),
        pytest.param(
            FILES_AT_START, 1002, Confidence.PROVEN, id="files that are not re-read, after"
        ),
        pytest.param(
            FILES_AT_START, 999, Confidence.UNKNOWN, id="files that are not re-read, before"
        ),
        pytest.param(desired(""), 1, Confidence.PROVEN, id="no source is read at all"),
        pytest.param(
            desired(changed_at=None), 1002, Confidence.UNKNOWN, id="last change time unknown"
        ),
    ],
)
def test_start_time_decides_what_was_loaded(
    content: DesiredContent, at: float | None, known: Confidence
) -> None:
    """Proven or probable by time alone; the template is not considered yet."""
    _, loaded = stages_of(content, observed_pod(at))
    assert loaded.confidence is known


def test_pod_started_while_content_differed_is_unknown() -> None:
    """An edit and its revert, with a pod that started in between: its template proves nothing."""
    there = pod(started=995, revision=ENV_CONTENT.template)
    pods = observe_pods(WEB, [there])
    (proof,) = pod_proofs(ENV_CONTENT, pods, now=NOW, windows=[Window(990.0, 999.0)])
    assert proof.loaded.confidence is Confidence.UNKNOWN
    assert "other content" in proof.loaded.reason


@pytest.mark.parametrize("read_at_start", [False, True], ids=["re-read", "at start"])
def test_container_that_started_while_files_differed_counts_if_it_reads_them_then(
    read_at_start: bool,
) -> None:
    """Another container of the pod has read the environment before."""
    content = desired(ENV_AND_FILES, live_needs_rollout=read_at_start, changed_at=900.0)
    environment, files = Span(980.0, 981.0), Span(995.0, 996.0)
    start = PodStart(
        "web-1",
        environment.earliest,
        "",
        containers=(environment, files),
        at_start=(
            ContainerStart(environment, frozenset((ObjectKey("ConfigMap", "shop", "app"),))),
        ),
    )
    pods = [observed_pod(environment.earliest)._replace(start=start)]
    (proof,) = pod_proofs(content, pods, now=NOW, windows=[Window(990.0, 999.0)])
    assert ("other content" in proof.loaded.reason) is read_at_start


@pytest.mark.parametrize(
    ("observed", "reason"),
    [
        pytest.param(observed_pod(1010, ready=False), "not ready", id="not ready"),
        pytest.param(observed_pod(None), "not started", id="not started"),
        pytest.param(
            observed_pod(None, mounted_at=1010), "not started", id="its volumes are mounted"
        ),
        pytest.param(
            observed_pod(1010, ready=False, waiting_reason="CrashLoopBackOff"),
            "not running (CrashLoopBackOff)",
            id="crashing",
        ),
        pytest.param(
            observed_pod(1010, ready=False, revision=ENV_CONTENT.template),
            "not ready",
            id="current template",
        ),
        pytest.param(
            observed_pod(1010, waiting_reason="CrashLoopBackOff"),
            "not running (CrashLoopBackOff)",
            id="ready all the same",
        ),
    ],
)
def test_pod_that_is_not_ready_is_unknown(observed: ObservedPod, reason: str) -> None:
    """Whatever its start time, template or nudge say: it does not serve, so it proves nothing."""
    nudged = observed._replace(nudged=BOTH_CONTENT.target)
    for item in (observed, nudged):
        projected, loaded = stages_of(BOTH_CONTENT, item, template_current=True)
        assert projected == loaded == Stage(Confidence.UNKNOWN, reason)


@pytest.mark.parametrize(
    ("awaited", "latest", "known"),
    [
        pytest.param(True, 1003.0, Confidence.PROBABLE, id="started after the creation"),
        pytest.param(True, 999.0, Confidence.UNKNOWN, id="started before it"),
        pytest.param(False, 1003.0, Confidence.UNKNOWN, id="it was edited"),
    ],
)
def test_init_container_that_waited_has_what_was_created(
    awaited: bool, latest: float, known: Confidence
) -> None:
    """It has read its environment at some time between the pod's creation and its own start."""
    content = with_start_change(desired(ENV), awaited=awaited)
    waited = observed_pod(980.0)
    container = ContainerStart(
        Span(980.0, latest), frozenset((ObjectKey("ConfigMap", "shop", "app"),))
    )
    _, loaded = stages_of(
        content, waited._replace(start=waited.start._replace(at_start=(container,)))
    )
    assert loaded.confidence is known


def test_pod_without_mounts_has_no_projected_stage() -> None:
    """Environment alone: there is no such stage."""
    projected, _ = stages_of(ENV_CONTENT, observed_pod(1010))
    assert projected is None


@pytest.mark.parametrize(
    ("at", "nudged", "projected", "loaded"),
    [
        pytest.param(
            500, NUDGED, Confidence.UNKNOWN, Confidence.UNKNOWN, id="told of other content"
        ),
        pytest.param(
            500,
            BOTH_CONTENT.target,
            Confidence.INFERRED,
            Confidence.UNKNOWN,
            id="files alone follow",
        ),
        pytest.param(
            1010, None, Confidence.PROVEN, Confidence.PROVEN, id="started after the change"
        ),
    ],
)
def test_stage_has_the_confidence_of_its_weakest_part(
    at: float, nudged: Target | None, projected: Confidence, loaded: Confidence
) -> None:
    """An environment does not follow a nudge, so such a pod has loaded a part alone."""
    stages = stages_of(BOTH_CONTENT, observed_pod(at, nudged=nudged))
    assert stages[0] is not None
    assert (stages[0].confidence, stages[1].confidence) == (projected, loaded)


def test_reason_gives_durations_and_waiting_reason() -> None:
    """How long before or after, and what keeps a pod from running."""
    assert (
        stages_of(ENV_CONTENT, observed_pod(1065))[1].reason == "started 1m5s after the last change"
    )
    assert (
        stages_of(ENV_CONTENT, observed_pod(1000 - 7200))[1].reason
        == "started 2h before the last change"
    )
    waits = observed_pod(None, waiting_reason="CrashLoopBackOff")
    assert stages_of(ENV_CONTENT, waits)[1].reason == "not running (CrashLoopBackOff)"


def test_metadata_alone_proves_nothing() -> None:
    """The last change was not observed, and a removed data key would not have moved its time."""
    every_key = "containers: [{name: web, envFrom: [{configMapRef: {name: app}}]}]"
    estimated = desired(every_key)._replace(estimated=True)
    for at in (1001.0, 1002.0, 2000.0):
        _, loaded = stages_of(estimated, observed_pod(at))
        assert loaded.confidence is Confidence.INFERRED
        assert loaded.reason.endswith("that its metadata shows")
    _, loaded = stages_of(estimated, observed_pod(999.0))
    assert loaded.confidence is Confidence.UNKNOWN


@pytest.mark.parametrize(
    "content",
    [
        desired("containers: [{name: web, envFrom: [{configMapRef: {name: app}}]}]"),
        FILES_AT_START,
        desired(
            """
            containers:
            - {name: web, volumeMounts: [{name: v, mountPath: /v, subPath: LEVEL}]}
            volumes: [{name: v, configMap: {name: app}}]
            """
        ),
    ],
    ids=["env", "files that are read at start", "subPath"],
)
@pytest.mark.parametrize(
    ("version", "known"),
    [
        pytest.param(50, Confidence.UNKNOWN, id="the source was written after the pod"),
        pytest.param(70, Confidence.INFERRED, id="the pod was written after the source"),
        pytest.param(0, Confidence.INFERRED, id="not known"),
    ],
)
def test_write_without_a_time_after_the_pod_is_doubt(
    content: DesiredContent, version: int, known: Confidence
) -> None:
    """At first sight a data key may have been removed; only resourceVersions show that."""
    content = content._replace(estimated=True, adopted_version=60)
    observed = observed_pod(2000.0)
    observed = observed._replace(start=observed.start._replace(version=version))
    _, loaded = stages_of(content, observed)
    assert loaded.confidence is known


def test_pods_of_a_deleted_source_are_not_proven() -> None:
    """What a required source held before it was deleted is not known any more."""
    gone = desired_content(snapshot(WEB, policy=Policy(opted_in=True)))
    _, loaded = stages_of(gone, observed_pod(2000.0))
    assert loaded.confidence is Confidence.UNKNOWN


@pytest.mark.parametrize(
    ("created", "known"), [(CHANGED, Confidence.PROBABLE), (CHANGED - 1, Confidence.UNKNOWN)]
)
def test_start_in_the_second_of_a_write_proves_only_what_was_created_then(
    created: float, known: Confidence
) -> None:
    """A source that existed before may have been edited in that second, seen by no controller."""
    source = config_map(data={"LEVEL": "info"}, changed_at=CHANGED, created_at=created)
    content = desired_content(snapshot(WEB, source, policy=Policy(opted_in=True)))
    assert stages_of(content, observed_pod(CHANGED))[1].confidence is known
