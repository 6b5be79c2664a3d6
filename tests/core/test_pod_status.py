"""How far the desired content has got in each pod, and how that is known."""

from __future__ import annotations

from math import inf
from typing import Any

import msgspec
import pytest
from tests.core.pod_stages import (
    BOTH_CONTENT,
    CHANGED,
    ENV_CONTENT,
    FILES_CONTENT,
    NOW,
    SUB_PATH,
    WEB,
    desired,
    observed_pod,
    stages_of,
)
from tests.support.objects import (
    ENV,
    ENV_AND_FILES,
    FILES,
    config_map,
    consumer,
    cron_job,
    deployment,
    pod,
    snapshot,
    template,
)

from hotmap.core.decide.evidence import ContainerStart, PodStart, Span, pod_starts
from hotmap.core.model.objects import ObjectKey, PodSpec
from hotmap.core.model.provider_class import ClassMounts, MountedPod
from hotmap.core.model.state import Window
from hotmap.core.policy.policy import Policy
from hotmap.core.status.agent_answers import AgentReport
from hotmap.core.status.consumer import State, status_from_pods
from hotmap.core.status.desired import (
    DesiredClass,
    DesiredContent,
    desired_content,
    has_current_template,
)
from hotmap.core.status.observed_pods import ObservedPod, observe_pods
from hotmap.core.status.pod_facts import KUBELET_SYNC
from hotmap.core.status.pods import pod_proofs
from hotmap.core.status.stage import Confidence, PodState, Stage
from hotmap.core.target import Target

FILES_AT_START = desired(FILES, live_needs_rollout=True)


def with_start_change(content: DesiredContent, **fields: Any) -> DesiredContent:
    """The same, and more of the change of the source that is read at start."""
    ((source, change),) = content.start_changes
    return content._replace(start_changes=((source, change._replace(**fields)),))


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


@pytest.mark.parametrize(
    ("revision", "vouched", "known"),
    [
        pytest.param(ENV_CONTENT.template, False, Confidence.INFERRED, id="its template names it"),
        pytest.param(
            f"{ENV_CONTENT.template}.2", False, Confidence.INFERRED, id="… under its own name"
        ),
        pytest.param("kid.other", False, Confidence.UNKNOWN, id="its template names other content"),
        pytest.param("", False, Confidence.UNKNOWN, id="its template names nothing"),
        pytest.param("", True, Confidence.INFERRED, id="all pods have the applied template"),
    ],
)
def test_template_revision_is_evidence_for_its_pods(
    revision: str, vouched: bool, known: Confidence
) -> None:
    """Where clocks do not: a pod that seems older than the change was made for its content."""
    _, loaded = stages_of(
        ENV_CONTENT, observed_pod(990, revision=revision), template_current=vouched
    )
    assert loaded.confidence is known


@pytest.mark.parametrize("hidden", [True, False], ids=["by a selector", "not readable"])
def test_template_says_nothing_of_a_source_that_is_not_seen(hidden: bool) -> None:
    """It may have changed since; one that a selector hides is not followed, and is not judged."""
    taken = snapshot(WEB, config_map(data={"LEVEL": "info"}), policy=Policy(opted_in=True))
    (source,) = taken.sources
    unseen = source._replace(exists=False, visible=False, changed_at=None)
    unfollowed = (source.source,) if hidden else ()
    content = desired_content(taken._replace(sources=(unseen,), unfollowed=unfollowed))
    _, loaded = stages_of(
        content, observed_pod(990, revision=taken.revision), template_current=True
    )
    if hidden:
        assert loaded.reason == "uses no source that is followed"
    else:
        assert loaded == Stage(Confidence.UNKNOWN, "ConfigMap shop/app cannot be read")


@pytest.mark.parametrize(
    ("fields", "changed_at", "vouched"),
    [
        pytest.param({"written_at": 1000}, CHANGED, True, id="written in the second of the change"),
        pytest.param({"written_at": 1005}, CHANGED, True, id="written after the change"),
        pytest.param({"written_at": 999}, CHANGED, False, id="written before the change"),
        pytest.param({"written_at": 1005}, None, False, id="the time of the change is unknown"),
        pytest.param({"written_at": None}, CHANGED, False, id="not written by hotmap"),
        pytest.param(
            {"written_at": 1005, "rolling": True}, CHANGED, False, id="older pods are left"
        ),
    ],
)
def test_current_template_requires_our_write_after_the_change(
    fields: dict[str, Any], changed_at: float | None, vouched: bool
) -> None:
    """Our write came after the change, and its own controller has no other pod left."""
    web = deployment(ENV, revision="kid.any", **fields)
    source = config_map(data={"LEVEL": "info"}, changed_at=changed_at)
    assert has_current_template(snapshot(web, source)) is vouched


def test_no_template_is_written_for_a_deleted_source() -> None:
    """What it had last is not known, and it may have been edited before."""
    web = deployment(ENV, revision="kid.any", written_at=1005)
    assert not has_current_template(snapshot(web))


@pytest.mark.parametrize(
    ("kind", "used", "reached"),
    [
        ("ReplicaSet", ENV, True),
        ("ReplicaSet", ENV.replace("name: app", "name: earlier"), False),
        ("CronJob", ENV.replace("key: LEVEL", "key: OTHER"), False),
        ("Deployment", "", True),
    ],
)
def test_pod_of_an_earlier_template_is_unknown(kind: str, used: str, reached: bool) -> None:
    """A ReplicaSet and a CronJob keep it, whatever its start says of the present sources."""
    of = cron_job(ENV) if kind == "CronJob" else consumer(kind, ENV)
    spec = template(used).spec if used else PodSpec()
    started = msgspec.structs.replace(pod(started=CHANGED + 10), spec=spec)
    (start,) = pod_starts(of, [started])
    assert start.is_outdated is not reached


@pytest.mark.parametrize("revision", ["kid.other", ENV_CONTENT.template], ids=["other", "same"])
def test_proven_start_outweighs_template_revision(revision: str) -> None:
    """A proof does not depend on the template."""
    _, loaded = stages_of(ENV_CONTENT, observed_pod(1010, revision=revision))
    assert loaded.confidence is Confidence.PROVEN


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
    ("content", "started", "mounted_at", "known"),
    [
        pytest.param(
            FILES_CONTENT,
            1030,
            999,
            Confidence.UNKNOWN,
            id="re-read: image pulled during the change",
        ),
        pytest.param(
            FILES_AT_START, 1030, 999, Confidence.UNKNOWN, id="at start: image pulled meanwhile"
        ),
        pytest.param(FILES_CONTENT, 1030, 1002, Confidence.PROVEN, id="re-read: mounted after it"),
        pytest.param(FILES_AT_START, 1030, 1002, Confidence.PROVEN, id="at start: mounted after"),
        pytest.param(
            FILES_AT_START, 1092, 999, Confidence.INFERRED, id="restarted a sync period later"
        ),
        pytest.param(ENV_CONTENT, 1030, 999, Confidence.PROVEN, id="environment: container start"),
    ],
)
def test_files_are_judged_by_the_start_of_the_pod(
    content: DesiredContent, started: float, mounted_at: float, known: Confidence
) -> None:
    """The volume is written before the image is pulled, which can take half a minute."""
    _, loaded = stages_of(content, observed_pod(started, mounted_at=mounted_at), now=NOW)
    assert loaded.confidence is known


@pytest.mark.parametrize("content", [FILES_CONTENT, FILES_AT_START])
@pytest.mark.parametrize(
    ("others", "started", "restarted", "known"),
    [
        pytest.param(-inf, 1001.0, False, Confidence.PROBABLE, id="started after the creation"),
        pytest.param(-inf, 990.0, False, Confidence.UNKNOWN, id="started before it"),
        pytest.param(-inf, 1020.0, True, Confidence.UNKNOWN, id="has run before"),
        pytest.param(900.0, 1001.0, False, Confidence.PROBABLE, id="beside older files"),
        pytest.param(995.0, 1001.0, False, Confidence.UNKNOWN, id="beside files edited meanwhile"),
    ],
)
def test_containers_that_waited_for_their_files_have_them(
    content: DesiredContent, others: float, started: float, restarted: bool, known: Confidence
) -> None:
    """The pod is older than the ConfigMap; its kubelet could not mount it until then."""
    content = content._replace(files_awaited=CHANGED, files_not_awaited=others)
    waited = observed_pod(started, mounted_at=980)
    start = waited.start._replace(containers=(Span(started, started + 1),), restarted=restarted)
    _, loaded = stages_of(content, waited._replace(start=start))
    assert loaded.confidence is known


@pytest.mark.parametrize(
    ("awaited", "restarted", "known"),
    [
        (True, False, Confidence.PROBABLE),
        (True, True, Confidence.UNKNOWN),
        (False, False, Confidence.UNKNOWN),
    ],
)
def test_container_that_waited_for_its_sub_path_has_it(
    awaited: bool, restarted: bool, known: Confidence
) -> None:
    """The same for files that are bound when a container starts."""
    content = with_start_change(desired(SUB_PATH), awaited=awaited)
    waited = observed_pod(1001.0, mounted_at=980)
    container = ContainerStart(
        Span(1001.0, 1002.0), frozenset((ObjectKey("ConfigMap", "shop", "app"),)), restarted
    )
    _, loaded = stages_of(
        content, waited._replace(start=waited.start._replace(at_start=(container,)))
    )
    assert loaded.confidence is known


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


NUDGED = FILES_CONTENT.target._replace(sequence=7)


@pytest.mark.parametrize(
    ("at", "nudged", "now", "known"),
    [
        pytest.param(1002, None, NOW, Confidence.PROVEN, id="mounted after the change"),
        pytest.param(1001, None, NOW, Confidence.PROBABLE, id="mounted inside the margin"),
        pytest.param(500, NUDGED, NOW, Confidence.INFERRED, id="nudged after the change"),
        pytest.param(
            500, NUDGED._replace(live="old"), NOW, Confidence.UNKNOWN, id="nudged before it"
        ),
        pytest.param(500, None, NOW, Confidence.UNKNOWN, id="the kubelet may not have synced yet"),
        pytest.param(500, None, 1092, Confidence.INFERRED, id="the kubelet's period is over"),
        pytest.param(None, NUDGED, NOW, Confidence.UNKNOWN, id="not started"),
    ],
)
def test_files_are_projected_by_nudge_or_sync_period(
    at: float | None, nudged: Target | None, now: float, known: Confidence
) -> None:
    """Projected; and loaded with it, by an application that re-reads its files."""
    projected, loaded = stages_of(FILES_CONTENT, observed_pod(at, nudged=nudged), now=now)
    assert projected is not None
    assert (projected.confidence, loaded.confidence) == (known, known)


@pytest.mark.parametrize(
    ("nudged_at", "now", "known"),
    [
        pytest.param(1002, 1004, Confidence.UNKNOWN, id="a moment ago"),
        pytest.param(1002, 1005, Confidence.INFERRED, id="long enough ago"),
        # The kubelet had perhaps not seen the change, and the second nudge is missing.
        pytest.param(1001, 1010, Confidence.UNKNOWN, id="at once after the change"),
        pytest.param(1001, 1092, Confidence.INFERRED, id="at once, and the period is over"),
        pytest.param(1088, 1089, Confidence.UNKNOWN, id="late, and a moment ago"),
        pytest.param(1090, 1092, Confidence.INFERRED, id="late, and the kubelet's period is over"),
        # It names content that has come back since.
        pytest.param(990, 1004, Confidence.UNKNOWN, id="before the change"),
        pytest.param(None, NOW, Confidence.UNKNOWN, id="time unknown"),
        pytest.param(None, 1092, Confidence.INFERRED, id="and the kubelet's period is over"),
    ],
)
def test_nudged_pod_has_its_files_some_seconds_later(
    nudged_at: float | None, now: float, known: Confidence
) -> None:
    """A nudge is a request to the kubelet, not its answer."""
    observed = observed_pod(500, nudged=NUDGED, nudged_at=nudged_at)
    (proof,) = pod_proofs(FILES_CONTENT, [observed], now=now)
    assert proof.projected is not None
    assert (proof.projected.confidence, proof.loaded.confidence) == (known, known)
    assert proof.files_pending is (known is Confidence.UNKNOWN)


@pytest.mark.parametrize(
    ("policy", "now", "state", "reason"),
    [
        pytest.param({}, NOW, PodState.DELIVERED, "nothing shows whether", id="at some time"),
        pytest.param(
            {"rereads": False}, NOW, PodState.DELIVERED, "nothing is known to re-read", id="never"
        ),
        pytest.param(
            {"rereads_within": 10.0}, 1014, PodState.LOADING, "re-reads them within 10s", id="soon"
        ),
        pytest.param(
            {"rereads_within": 10.0}, 1015, PodState.CURRENT, "10s ago", id="within its time"
        ),
    ],
)
def test_rereading_pod_is_current_only_where_it_is_said_when_it_rereads(
    policy: dict[str, Any], now: float, state: PodState, reason: str
) -> None:
    content = FILES_CONTENT._replace(**policy)
    (proof,) = pod_proofs(content, [observed_pod(500, nudged=NUDGED)], now=now)
    assert proof.state is state
    assert reason in proof.loaded.reason
    assert proof.loaded.reached_at == (1015 if state is PodState.LOADING else inf)
    (restarted,) = pod_proofs(content, [observed_pod(1010, nudged=NUDGED)], now=now)
    assert restarted.state is PodState.CURRENT


@pytest.mark.parametrize(
    ("started", "nudged", "known"),
    [
        pytest.param(1010, True, Confidence.INFERRED, id="after the nudge"),
        pytest.param(1009, True, Confidence.UNKNOWN, id="before the nudge"),
        pytest.param(1020, False, Confidence.UNKNOWN, id="not nudged"),
        pytest.param(1091, False, Confidence.UNKNOWN, id="within the kubelet's period"),
        pytest.param(1092, False, Confidence.INFERRED, id="after the kubelet's period"),
        pytest.param(999, True, Confidence.UNKNOWN, id="before the change"),
    ],
)
def test_restarted_container_has_the_files_of_a_sub_path_that_its_kubelet_had_updated(
    started: float, nudged: bool, known: Confidence
) -> None:
    """The pod is older than the change, so the files were there with other content before."""
    content = desired(SUB_PATH)
    target = content.target if nudged else None
    observed = observed_pod(
        started, mounted_at=500, nudged=target, nudged_at=1010 if nudged else None
    )
    _, loaded = stages_of(content, observed, now=1100)
    assert loaded.confidence is known


@pytest.mark.parametrize(
    ("nudged", "when"),
    [
        (True, "now, since the pods were nudged, within 5s"),
        (False, "at the kubelet's next sync, within 90s"),
    ],
)
def test_reason_says_how_soon_files_are_updated(nudged: bool, when: str) -> None:
    observed = observed_pod(500, nudged=NUDGED if nudged else None, nudged_at=CHANGED + 2)
    proofs = pod_proofs(FILES_CONTENT, [observed], now=CHANGED + 3)
    status = status_from_pods(deployment(FILES), proofs, FILES_CONTENT)
    assert (status.state, f"files are updated {when}" in status.reason) == (State.WAITING, True)


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


@pytest.mark.parametrize(
    ("content", "nudged", "follows"),
    [
        pytest.param(FILES_CONTENT, None, True, id="files alone are missing"),
        pytest.param(FILES_CONTENT, NUDGED, False, id="nothing is missing"),
        pytest.param(BOTH_CONTENT, None, False, id="an environment is missing too"),
        pytest.param(ENV_CONTENT, None, False, id="an environment alone is missing"),
    ],
)
def test_files_pending_only_where_files_alone_are_missing(
    content: DesiredContent, nudged: Target | None, follows: bool
) -> None:
    """A pod that only its files keep from the present content will have them by itself."""
    (proof,) = pod_proofs(content, [observed_pod(500, nudged=nudged)], now=NOW)
    assert proof.files_pending is follows


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


@pytest.mark.parametrize("content", [ENV_CONTENT, FILES_AT_START], ids=["environment", "files"])
@pytest.mark.parametrize(
    ("started", "known"),
    [
        pytest.param(990.0, Confidence.UNKNOWN, id="certainly before the edit"),
        pytest.param(999.5, Confidence.INFERRED, id="maybe after it"),
    ],
)
def test_template_proves_nothing_of_pods_from_before_the_last_edit(
    content: DesiredContent, started: float, known: Confidence
) -> None:
    """A return to earlier content brings its revision back, which pods of the time between have."""
    if content.start_changes:
        content = with_start_change(content, edited_since=CHANGED)
    content = content._replace(edited=True, files_edited_since=CHANGED)
    span = Span(started, started + 1)
    observed = observed_pod(started, revision=content.template)
    observed = observed._replace(start=observed.start._replace(containers=(span,)))
    _, loaded = stages_of(content, observed)
    assert loaded.confidence is known
    unnamed = observed._replace(start=observed.start._replace(revision=""))
    _, loaded = stages_of(content, unnamed, template_current=True)  # as with Reloader's strategies
    assert loaded.confidence is known


@pytest.mark.parametrize("content", [ENV_CONTENT, FILES_AT_START], ids=["environment", "files"])
@pytest.mark.parametrize(
    ("ended", "fields", "known"),
    [
        pytest.param(898, {}, Confidence.INFERRED, id="before it was replaced"),
        pytest.param(899, {}, Confidence.UNKNOWN, id="perhaps when it was replaced"),
        pytest.param(898, {"replaced_at": 0.0}, Confidence.UNKNOWN, id="it never came back"),
        pytest.param(898, {"written": "k.a.1"}, Confidence.UNKNOWN, id="of another name"),
        pytest.param(898, {"written": ""}, Confidence.UNKNOWN, id="the template has none"),
    ],
)
def test_template_proves_content_that_its_pods_read_before_it_was_replaced(
    content: DesiredContent, ended: float, fields: dict[str, Any], known: Confidence
) -> None:
    """It has come back since, and with it the ReplicaSet of these pods."""
    if content.start_changes:
        content = with_start_change(content, edited_since=CHANGED)
    content = content._replace(edited=True, files_edited_since=CHANGED, replaced_at=900.0)
    content = content._replace(**{"written": content.template} | fields)
    observed = observed_pod(890, revision=content.template)
    start = observed.start._replace(containers=(Span(890, ended),))
    _, loaded = stages_of(content, observed._replace(start=start))
    assert loaded.confidence is known
    unmarked = observed._replace(start=start._replace(revision=""))
    _, loaded = stages_of(content._replace(written=""), unmarked)  # from before the first rollout
    is_before = ended == 898 and bool(content.replaced_at)
    assert loaded.confidence is (Confidence.INFERRED if is_before else Confidence.UNKNOWN)


@pytest.mark.parametrize(
    ("started", "known"),
    [(CHANGED + 10, Confidence.UNKNOWN), (CHANGED + KUBELET_SYNC, Confidence.INFERRED)],
)
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(FILES_AT_START, id="files"),
        pytest.param(
            with_start_change(ENV_CONTENT, edited_since=CHANGED, sub_path_at=CHANGED), id="subPath"
        ),
    ],
)
def test_template_proves_nothing_of_files_that_the_kubelet_may_not_have_updated(
    content: DesiredContent, started: float, known: Confidence
) -> None:
    """A pod that was kept after a revert, and whose container starts again, may read the edit."""
    content = content._replace(edited=True, files_edited_since=CHANGED, replaced_at=900.0)
    observed = observed_pod(890, revision=content.template)
    start = observed.start._replace(at=started, containers=(Span(started, started + 1),))
    _, loaded = stages_of(
        content._replace(written=content.template), observed._replace(start=start)
    )
    assert loaded.confidence is known


@pytest.mark.parametrize(
    ("facts", "revision", "known"),
    [
        pytest.param({"rolled_at": CHANGED + 0.5}, "r.a", Confidence.INFERRED, id="of it"),
        pytest.param({"rolled_at": CHANGED - 1}, "r.a", Confidence.UNKNOWN, id="rolled out before"),
        pytest.param(
            {"rolled_at": CHANGED + 0.2}, "r.a", Confidence.UNKNOWN, id="before, in the same second"
        ),
        pytest.param({"rolled_at": CHANGED + 0.5}, "r.b", Confidence.UNKNOWN, id="of another one"),
        pytest.param({}, "r.a", Confidence.UNKNOWN, id="no rollout is known"),
        pytest.param(
            {"rolled_at": CHANGED + 9}, "r.a", Confidence.UNKNOWN, id="older, of the same revision"
        ),
        pytest.param({"proven_since": 1.0}, "", Confidence.PROVEN, id="created after all changes"),
        pytest.param({"proven_since": 9e9}, "", Confidence.UNKNOWN, id="created before"),
    ],
)
@pytest.mark.parametrize("agents", [None, {}], ids=["no agent", "agent"])
def test_files_of_a_pod_that_a_rollout_has_made(
    facts: dict[str, Any], revision: str, known: Confidence, agents: dict[str, AgentReport] | None
) -> None:
    """Its kubelet has written them after the change, and its process started with them."""
    content = FILES_CONTENT._replace(
        rolled_revision="r.a", edited=True, files_read_at_start=False, rereads=True, **facts
    )._replace(files_changed_until=CHANGED + 0.4)
    observed = observed_pod(CHANGED + 0.9, revision=revision)
    observed = observed._replace(start=observed.start._replace(created=CHANGED))
    projected, loaded = stages_of(content, observed, now=CHANGED + 2, agents=agents)
    assert projected is not None
    assert (projected.confidence, loaded.confidence) == (known, known)


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


# -- SecretProviderClasses --------------------------------------------------------------------

VAULT = ObjectKey("SecretProviderClass", "shop", "vault")


@pytest.mark.parametrize(
    ("mounted", "is_known", "is_reread", "confidence", "state"),
    [
        pytest.param((), True, False, Confidence.UNKNOWN, PodState.UNKNOWN, id="not reported"),
        pytest.param((True,), True, False, Confidence.INFERRED, PodState.CURRENT, id="at start"),
        pytest.param((True,), False, False, Confidence.UNKNOWN, PodState.UNKNOWN, id="unknown"),
        pytest.param((False,), True, False, Confidence.UNKNOWN, PodState.UNKNOWN, id="others"),
        pytest.param((False,), True, True, Confidence.UNKNOWN, PodState.UNKNOWN, id="behind"),
        pytest.param(
            (True, True, 1100.0), True, False, Confidence.UNKNOWN, PodState.UNKNOWN, id="updated"
        ),
        pytest.param(
            (True, True, None), True, False, Confidence.UNKNOWN, PodState.UNKNOWN, id="no time"
        ),
        pytest.param(
            (True, True, 900.0), True, False, Confidence.INFERRED, PodState.CURRENT, id="restarted"
        ),
        pytest.param(
            (True, True, 1100.0), True, True, Confidence.INFERRED, PodState.DELIVERED, id="re-read"
        ),
    ],
)
def test_pod_of_class_is_current_only_by_what_it_mounted(
    mounted: tuple[Any, ...],
    is_known: bool,
    is_reread: bool,
    confidence: Confidence,
    state: PodState,
) -> None:
    """The times of the class prove nothing, and neither does the kubelet's sync."""
    pods = (MountedPod("web-1", *mounted),) if mounted else ()
    wanted = DesiredClass(VAULT, ClassMounts(is_known, True, pods), is_reread)
    content = ENV_CONTENT._replace(start_changes=(), classes=(wanted,), rereads=is_reread)
    (proof,) = pod_proofs(content, [observed_pod(1000.0)], now=NOW)
    assert (proof.loaded.confidence, proof.state) == (confidence, state)


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
