"""How far the files of the desired content have got in each pod, and how that is known."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from tests.core.pod_stages import (
    BOTH_CONTENT,
    CHANGED,
    ENV_CONTENT,
    FILES_AT_START,
    FILES_CONTENT,
    NOW,
    NUDGED,
    SUB_PATH,
    desired,
    observed_pod,
    stages_of,
    with_start_change,
)
from tests.support.objects import FILES, config_map, deployment, snapshot

from hotmap.core.decide.evidence import ContainerStart, Span
from hotmap.core.model.objects import ObjectKey
from hotmap.core.policy.policy import Policy
from hotmap.core.status.agent_answers import AgentReport
from hotmap.core.status.consumer import State, status_from_pods
from hotmap.core.status.desired import DesiredContent, desired_content
from hotmap.core.status.pod_check import conclude_from_pods
from hotmap.core.status.pods import pod_proofs
from hotmap.core.status.stage import Confidence, PodState
from hotmap.core.target import Target


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
        (True, "being updated, which takes at most 5s"),
        (False, "updated at the kubelet's next sync, within 90s"),
    ],
)
def test_reason_says_how_soon_files_are_updated(nudged: bool, when: str) -> None:
    observed = observed_pod(500, nudged=NUDGED if nudged else None, nudged_at=CHANGED + 2)
    proofs = pod_proofs(FILES_CONTENT, [observed], now=CHANGED + 3)
    status = status_from_pods(deployment(FILES), proofs, FILES_CONTENT)
    assert (status.state, f"files are {when}" in status.reason) == (State.WAITING, True)


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


@pytest.mark.parametrize(
    ("started", "nudged_at", "agents", "left"),
    [
        pytest.param(500, CHANGED + 2, None, 37.0, id="half a minute ago"),
        pytest.param(500, CHANGED - 40, None, 0.0, id="for the content before"),
        pytest.param(500, None, None, 0.0, id="never"),
        pytest.param(CHANGED + 5, CHANGED + 6, None, 0.0, id="though it started with the files"),
        pytest.param(500, CHANGED + 2, {}, 0.0, id="agents show it"),
    ],
)
def test_kubelet_of_a_nudged_pod_shows_a_minute_later_whether_it_runs(
    started: float, nudged_at: float | None, agents: dict[str, AgentReport] | None, left: float
) -> None:
    """Its node is NotReady by then otherwise, and the pod with it."""
    source = config_map(data={"app.yaml": "a: 1"}, changed_at=CHANGED)
    taken = snapshot(deployment(FILES), source, policy=Policy(opted_in=True, rereads=True))
    content = desired_content(taken)
    target = content.target._replace(sequence=7)
    pod = observed_pod(started, nudged=target if nudged_at else None, nudged_at=nudged_at)
    assert conclude_from_pods(taken, content, [pod], now=NOW, agents=agents).confirmed_in == left


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
def test_pod_that_a_rollout_has_made_has_the_files(
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
