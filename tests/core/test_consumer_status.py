"""A consumer's state: what it waits for, in words, and what is reported as latent."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.objects import ENV, KEY, config_map, consumer, deployment, snapshot, sources

from hotmap.core.decide.assessment import Finding, Verdict
from hotmap.core.decide.evidence import PodStart
from hotmap.core.decide.record import record_applied
from hotmap.core.decide.source_snapshot import take_snapshots
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import PodCheck
from hotmap.core.policy.policy import Policy
from hotmap.core.status.consumer import (
    ConsumerStatus,
    LastDecision,
    RolloutProgress,
    State,
    derive_status,
    rollout_status,
    status_before_replacement,
    status_from_pods,
)
from hotmap.core.status.desired import desired_content
from hotmap.core.status.observed_pods import ObservedPod
from hotmap.core.status.pods import PodProof
from hotmap.core.status.stage import Confidence, Stage
from hotmap.core.target import Target

DONE = LastDecision("ConfigMap shop/app LEVEL changed: rolling out")
DESIRED = desired_content(
    snapshot(deployment(ENV), config_map(data={"LEVEL": "info"}), policy=Policy(opted_in=True))
)


def behind(kind: str = "Deployment", count: int = 2, **fields: Any) -> Consumer:
    """A consumer whose own controller has so many pods left to replace."""
    workload = consumer(kind, ENV, replicas=3, **fields)
    return msgspec.structs.replace(workload, behind=count, rolling=bool(count))


def held(
    name: str = "web-1",
    known: Confidence = Confidence.PROVEN,
    *,
    ready: bool = True,
    at: float | None = 1010.0,
    trouble: str = "",
    template: str = "",
    told: Target | None = None,
) -> PodProof:
    """A pod, and how it is known that it loaded what is desired."""
    seen = ObservedPod(PodStart(name, at, ""), at, ready, trouble, template, told)
    stage = Stage(known, "started 5m before the last change")
    return PodProof(seen, None, stage)


@pytest.mark.parametrize(
    ("workload", "state", "reason"),
    [
        pytest.param(
            behind(), State.WAITING, "waiting for 2 pods: rollout in progress", id="rolling"
        ),
        pytest.param(
            behind(count=1),
            State.WAITING,
            "waiting for 1 pod: rollout in progress",
            id="one",
        ),
        pytest.param(
            behind(paused=True),
            State.PAUSED,
            "waiting for 2 pods: rollout is paused",
            id="paused",
        ),
        pytest.param(
            msgspec.structs.replace(behind(), blocked_by='pods "web-2" is forbidden'),
            State.WAITING,
            'waiting for 2 pods: its ReplicaSet cannot create pods: pods "web-2" is forbidden',
            id="no pods can be created",
        ),
        pytest.param(
            behind("StatefulSet", update_strategy="OnDelete"),
            State.WAITING,
            "waiting for 2 pods: OnDelete: pods are replaced only when deleted",
            id="OnDelete",
        ),
        pytest.param(
            behind("StatefulSet", update_strategy="RollingUpdate", partition=2),
            State.WAITING,
            "waiting for 2 pods: partition 2: pods with a lower ordinal are not updated",
            id="partition",
        ),
    ],
)
def test_rollout_status_names_what_it_waits_for(
    workload: Consumer, state: State, reason: str
) -> None:
    """By the word of its own controller, so without looking at pods."""
    assert rollout_status(workload) == ConsumerStatus(state, reason, workload.behind)


def test_rollout_status_of_a_finished_rollout_is_none() -> None:
    """All pods are of the newest template."""
    assert rollout_status(behind(count=0)) is None


# -- from its pods -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("proofs", "state", "reason"),
    [
        pytest.param(
            [held(), held("web-2", Confidence.PROBABLE)],
            State.CURRENT,
            "content is up to date (probable, proven)",
            id="all are known to hold it",
        ),
        pytest.param([], State.CURRENT, "no pods; new pods start with the current content", id="0"),
        pytest.param(
            [held(), held("web-2", Confidence.UNKNOWN)],
            State.LATENT,
            "1 of 2 pods may run with older content (web-2: started 5m before the last change); "
            "takes effect at the next restart",
            id="one may not hold it",
        ),
        pytest.param(
            [held(), held("web-2", Confidence.UNKNOWN, at=None)],
            State.WAITING,
            "waiting for 1 pod: web-2 is not running",
            id="one has not started",
        ),
        pytest.param(
            [held(), held("web-2", Confidence.UNKNOWN, ready=False)],
            State.WAITING,
            "waiting for 1 pod: web-2 is not ready",
            id="one is not ready",
        ),
        pytest.param(
            [held("web-1", Confidence.UNKNOWN), held("web-2", Confidence.UNKNOWN, ready=False)],
            State.LATENT,
            "1 of 2 pods may run with older content (web-1: started 5m before the last change); "
            "takes effect at the next restart",
            id="one that serves has older content",
        ),
        pytest.param(
            [held("a", trouble="CrashLoopBackOff"), held("b", trouble="ImagePullBackOff")],
            State.WAITING,
            "waiting for 2 pods: a, b are not running (CrashLoopBackOff, ImagePullBackOff)",
            id="some cannot start",
        ),
    ],
)
def test_status_from_pods_without_a_rollout(
    proofs: list[PodProof], state: State, reason: str
) -> None:
    """Nothing is left of its rollout, so the pods themselves tell."""
    who = msgspec.structs.replace(behind(count=0), pods=len(proofs))
    found = status_from_pods(who, proofs, DESIRED)
    assert (found.state, found.reason) == (state, reason)


def test_a_restart_is_not_said_to_help_where_a_source_cannot_be_read() -> None:
    """New pods would be as unknown; what helps is the permission."""
    who = msgspec.structs.replace(behind(count=0), pods=1)
    pod = held(known=Confidence.UNKNOWN)
    login = ObjectKey("Secret", "shop", "login")
    pod = pod._replace(loaded=Stage(Confidence.UNKNOWN, f"{login} cannot be read"))
    assert status_from_pods(who, [pod], DESIRED._replace(unseen=login)).reason == (
        "1 of 1 pod may run with older content (web-1: Secret shop/login cannot be read); "
        "not known until hotmap may read Secret shop/login again"
    )


def test_pods_have_their_own_reasons() -> None:
    """A pod that started in the second of the change is not called older than it."""
    pods = [held(f"web-{number}", Confidence.UNKNOWN) for number in range(7)]
    whens = ["started 3s before", "started 3s before", "started in the same second as"]
    whens += [f"started {age}s before" for age in (4, 5, 6, 6)]
    proofs = [
        pod._replace(loaded=Stage(Confidence.UNKNOWN, f"{when} the last change"))
        for pod, when in zip(pods, whens, strict=True)
    ]
    who = msgspec.structs.replace(behind(count=0), pods=len(proofs))
    assert status_from_pods(who, proofs, DESIRED).reason == (
        "7 of 7 pods may run with older content (web-0, web-1: started 3s before the last change; "
        "web-2: started in the same second as the last change; web-3: started 4s before the last "
        "change; and 3 more); takes effect at the next restart"
    )


def test_pods_that_are_counted_and_not_listed_are_waited_for() -> None:
    """They may have any content."""
    who = msgspec.structs.replace(behind(count=0), pods=3)
    found = status_from_pods(who, [], DESIRED)
    assert (found.state, found.behind) == (State.WAITING, 3)
    assert found.reason == (
        "waiting for 3 pods: its own controller reports them, but no pod is listed that is not "
        "terminating"
    )


def test_pending_files_are_waited_for() -> None:
    """Where files alone are missing nothing is latent: the kubelet brings them."""
    late = held("web-1", Confidence.UNKNOWN)._replace(files_pending=True)
    found = status_from_pods(behind(count=0), [held(), late], DESIRED)
    assert (found.state, found.behind) == (State.WAITING, 1)
    both = status_from_pods(behind(count=0), [late, held("web-2", Confidence.UNKNOWN)], DESIRED)
    assert both.state is State.LATENT


def test_rollout_in_progress_outweighs_older_pods() -> None:
    """They are about to be replaced: nothing is latent."""
    found = status_from_pods(behind(), [held("web-1", Confidence.UNKNOWN)], DESIRED)
    assert found.state is State.WAITING


def test_rollout_with_failing_pods_names_them() -> None:
    """More helpful than that it is in progress; all that are behind count."""
    found = status_from_pods(behind(), [held(), held("web-9", trouble="ImagePullBackOff")], DESIRED)
    assert found.reason == "waiting for 2 pods: web-9 is not running (ImagePullBackOff)"


TOLD = DESIRED.target


@pytest.mark.parametrize(
    ("restart", "state"),
    [
        pytest.param(True, State.WAITING, id="its agent was told"),
        pytest.param(False, State.LATENT, id="no agent restarts it"),
    ],
)
def test_pods_with_nudged_agents_are_waited_for(restart: bool, state: State) -> None:
    """A pod whose agent was told of the change is waited for."""
    older = held(known=Confidence.UNKNOWN)._replace(restart_pending=restart)
    found = status_from_pods(behind(count=0), [older], DESIRED)
    assert (found.state, found.behind) == (state, 1)


# -- stuck -------------------------------------------------------------------------------------


def ordered(**fields: Any) -> Consumer:
    """A StatefulSet whose newest template is db-new."""
    strategy = {"update_strategy": "RollingUpdate", **fields}
    return msgspec.structs.replace(
        behind("StatefulSet", name="db", **strategy), template_version="db-new"
    )


RECENT, STALLED, RETRIED = RolloutProgress

BROKEN = held("db-2", Confidence.UNKNOWN, ready=False, template="db-bad")


@pytest.mark.parametrize(
    ("workload", "broken", "progress", "is_stuck"),
    [
        pytest.param(ordered(), BROKEN, STALLED, True, id="a pod of another template is not ready"),
        pytest.param(ordered(), BROKEN, RECENT, False, id="it may be replaced any moment"),
        pytest.param(
            msgspec.structs.replace(ordered(), ordered=False), BROKEN, STALLED, False, id="Parallel"
        ),
        pytest.param(ordered(update_strategy="OnDelete"), BROKEN, STALLED, False, id="OnDelete"),
        pytest.param(
            ordered(),
            BROKEN._replace(pod=BROKEN.pod._replace(template="db-new")),
            STALLED,
            False,
            id="the newest template itself is bad: a revert helps",
        ),
        pytest.param(
            ordered(),
            BROKEN._replace(pod=BROKEN.pod._replace(ready=True)),
            STALLED,
            False,
            id="it is ready",
        ),
    ],
)
def test_stateful_set_waiting_for_an_unready_old_pod_is_stuck(
    workload: Consumer, broken: PodProof, progress: RolloutProgress, is_stuck: bool
) -> None:
    """One pod that never got ready keeps its StatefulSet from replacing it: it must be deleted."""
    found = status_from_pods(
        workload, [held("db-0"), held("db-1"), broken], DESIRED, progress=progress
    )
    assert (found.state is State.STUCK) is is_stuck
    assert found.reason.endswith("; delete pod db-2") is is_stuck


@pytest.mark.parametrize(
    ("long_unready", "progress", "ends_wait"),
    [
        pytest.param(False, STALLED, False, id="a slow start: it may become Ready and be replaced"),
        pytest.param(True, STALLED, True, id="it has had its time"),
        pytest.param(False, RETRIED, True, id="its kubelet has restarted it again and again"),
    ],
)
def test_stuck_pod_requires_a_user_once_it_has_had_time_to_become_ready(
    long_unready: bool, progress: RolloutProgress, ends_wait: bool
) -> None:
    """Two edits in a row, where pods take a minute to become Ready, are not a reason to act."""
    broken = BROKEN._replace(long_unready=long_unready)
    pods = [held("db-0"), held("db-1"), broken]
    status = status_from_pods(ordered(), pods, DESIRED, progress=progress)
    assert (status.state, status.action_required) == (State.STUCK, ends_wait)


#: The states that last until a user acts; all others may end by themselves, or have a reason of
#: their own to act (`needs_action`).
LASTING = {State.HELD, State.REFUSED, State.LATENT}


@pytest.mark.parametrize("state", list(State))
def test_wait_ends_early_only_for_states_that_last(state: State) -> None:
    """Such as a moment of `unknown` or `failed`, after which an agent loads the content."""
    assert ConsumerStatus(state, "").action_required is (state in LASTING)
    assert ConsumerStatus(state, "", needs_action=True).action_required


def test_latent_pods_that_the_controller_replaces_are_waited_for() -> None:
    """Older content is not a reason to act where the next check of the pods replaces them."""
    latent = ConsumerStatus(State.LATENT, "1 of 2 pods …", 1)
    status = status_before_replacement(latent)
    assert (status.state, status.behind, status.action_required) == (State.WAITING, 1, False)


@pytest.mark.parametrize(("progress", "state"), [(STALLED, State.WAITING), (RETRIED, State.STUCK)])
def test_crashing_pod_is_stuck_only_after_a_retry(progress: RolloutProgress, state: State) -> None:
    """Its kubelet starts it again and it reads what is there then; only if not, it is stuck."""
    crashes = held("db-2", Confidence.UNKNOWN, ready=False, trouble="Error", template="db-bad")
    found = status_from_pods(ordered(), [crashes], DESIRED, progress=progress)
    assert found.state is state


def test_stalled_rollout_names_unready_pods() -> None:
    """Where a rollout has stalled and all of it runs: not only that it is in progress."""
    unready = held("web-3", ready=False)
    going = status_from_pods(behind(), [held(), unready], DESIRED)
    assert going.reason == "waiting for 2 pods: rollout in progress"
    found = status_from_pods(behind(), [held(), unready], DESIRED, progress=STALLED)
    assert found.reason == "waiting for 2 pods: web-3 is not ready"
    several = [unready, held("web-4", ready=False)]
    found = status_from_pods(behind(count=1), several, DESIRED, progress=STALLED)
    assert found.reason == "waiting for 2 pods: web-3, web-4 are not ready"
    paused = status_from_pods(behind(paused=True), [unready], DESIRED, progress=STALLED)
    assert paused.state is State.PAUSED


# -- without a request ---------------------------------------------------------------------------

APP = ObjectKey("ConfigMap", "shop", "app")
LATENT = ConsumerStatus(State.LATENT, "1 of 2 pods …", 1)


@pytest.mark.parametrize(
    ("last", "pods_checked", "found", "workload", "state"),
    [
        pytest.param(None, None, None, behind(count=0), State.UNVERIFIED, id="no decision yet"),
        pytest.param(DONE, None, None, behind(count=0), State.UNVERIFIED, id="nothing is recorded"),
        pytest.param(
            DONE._replace(failed=True), PodCheck.CURRENT, None, behind(), State.FAILED, id="failed"
        ),
        pytest.param(
            DONE._replace(held=True), PodCheck.CURRENT, None, behind(), State.HELD, id="h"
        ),
        pytest.param(
            DONE._replace(waits=True),
            PodCheck.CURRENT,
            None,
            behind(count=0),
            State.WAITING,
            id="waits",
        ),
        pytest.param(
            DONE._replace(missing_sources=(APP,)),
            PodCheck.CURRENT,
            None,
            behind(count=0),
            State.WAITING,
            id="a source is gone",
        ),
        pytest.param(DONE, PodCheck.NOT_YET, None, behind(), State.WAITING, id="rolling out"),
        pytest.param(
            DONE,
            PodCheck.NOT_YET,
            None,
            behind(count=0),
            State.UNVERIFIED,
            id="rolled out, not seen",
        ),
        pytest.param(
            DONE, PodCheck.NOT_YET, LATENT, behind(), State.LATENT, id="what a look found"
        ),
        pytest.param(DONE, PodCheck.LATENT, LATENT, behind(), State.LATENT, id="latent"),
        pytest.param(DONE, PodCheck.LATENT, None, behind(), State.LATENT, id="latent, as recorded"),
        pytest.param(
            DONE, PodCheck.CURRENT, None, behind(), State.WAITING, id="a rollout of another writer"
        ),
        pytest.param(
            DONE,
            PodCheck.CURRENT,
            LATENT,
            behind(count=0),
            State.CURRENT,
            id="what a look found is over",
        ),
        pytest.param(
            DONE, PodCheck.DELIVERED, None, behind(count=0), State.DELIVERED, id="files alone"
        ),
        pytest.param(
            DONE, PodCheck.DELIVERED, None, behind(), State.WAITING, id="files alone, rolling out"
        ),
    ],
)
def test_status_is_derived_from_decision_record_and_pod_check(
    last: LastDecision | None,
    pods_checked: PodCheck | None,
    found: ConsumerStatus | None,
    workload: Consumer,
    state: State,
) -> None:
    """From the last decision, the record, its own controller's word, and the last look."""
    assert derive_status(workload, last, pods_checked, found).state is state


@pytest.mark.parametrize(
    ("pods_checked", "found", "state"),
    [
        pytest.param(PodCheck.CURRENT, None, State.UNVERIFIED, id="were current"),
        pytest.param(PodCheck.DELIVERED, None, State.UNVERIFIED, id="had the files"),
        pytest.param(PodCheck.LATENT, None, State.UNVERIFIED, id="were older"),
        pytest.param(PodCheck.CURRENT, LATENT, State.LATENT, id="a look since"),
    ],
)
def test_pods_that_were_nudged_since_their_check_are_not_verified(
    pods_checked: PodCheck, found: ConsumerStatus | None, state: State
) -> None:
    """Their agents are asked soon; what they had before is not what they have."""
    workload = behind(count=0)
    assert derive_status(workload, DONE, pods_checked, found, announced=True).state is state


@pytest.mark.parametrize(
    ("verdict", "pods_checked"),
    [
        pytest.param(Verdict.ADOPT, PodCheck.NOT_YET, id="adopted"),
        pytest.param(Verdict.FROZEN, PodCheck.NOT_YET, id="new pods are asked for"),
        pytest.param(Verdict.LIVE, PodCheck.LATENT, id="files alone follow: as before"),
        pytest.param(Verdict.UP_TO_DATE, PodCheck.LATENT, id="nothing changed: as before"),
        pytest.param(Verdict.HOLD, PodCheck.LATENT, id="held back: as before"),
    ],
)
def test_adoption_and_rollout_require_a_pod_check(verdict: Verdict, pods_checked: PodCheck) -> None:
    """After an adoption and after a rollout; nothing else changes what a look has shown."""
    who = deployment(ENV)
    (current,) = take_snapshots(who.uses, sources(config_map(data={"LEVEL": "info"})), KEY)
    first = record_applied(
        who, None, [Finding(current, Verdict.ADOPT, "")], key_id=KEY.id, generation=1
    )
    assert first.pods_checked is PodCheck.NOT_YET
    before = msgspec.structs.replace(first, pods_checked=PodCheck.LATENT)
    after = record_applied(
        who, before, [Finding(current, verdict, "")], key_id=KEY.id, generation=1
    )
    assert after.pods_checked is pods_checked


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        pytest.param(
            (APP,),
            "ConfigMap shop/app does not exist; running pods keep their content, "
            "new pods cannot start",
            id="one",
        ),
        pytest.param(
            (APP, ObjectKey("Secret", "shop", "db")),
            "ConfigMap shop/app, Secret shop/db do not exist; running pods keep their content, "
            "new pods cannot start",
            id="two",
        ),
    ],
)
def test_missing_source_is_named(missing: tuple[ObjectKey, ...], reason: str) -> None:
    """Whatever the pods showed before: the next one cannot start."""
    last = DONE._replace(missing_sources=missing)
    status = derive_status(behind(count=0), last, PodCheck.CURRENT, None)
    assert status == ConsumerStatus(State.WAITING, reason, needs_action=True)
    assert status.action_required


def test_workload_that_a_user_has_paused_is_paused() -> None:
    """Whatever a decision waits for, the user has to resume it first."""
    why = DONE._replace(waits=True, reason="ConfigMap shop/app changed")
    for workload, state in (
        (behind(paused=True, count=0), State.PAUSED),
        (behind(count=0), State.WAITING),
    ):
        status = derive_status(workload, why, PodCheck.CURRENT, None)
        assert (status.state, status.reason) == (state, "ConfigMap shop/app changed")


def test_source_that_is_not_visible_is_not_known_to_be_absent() -> None:
    """Pods may have any content of it, also where it is optional."""
    spec = ENV.replace("key: LEVEL", "key: LEVEL, optional: true")
    seen = snapshot(deployment(spec), policy=Policy(opted_in=True))
    assert not desired_content(seen).start_changes
    hidden = tuple(source._replace(visible=False) for source in seen.sources)
    ((_, change),) = desired_content(seen._replace(sources=hidden)).start_changes
    assert change.at is None


@pytest.mark.parametrize("last", [DONE._replace(held=True), DONE._replace(failed=True)])
def test_pods_of_a_held_or_failed_workload_are_behind(last: LastDecision) -> None:
    """All that exist, as long as nothing is known of each."""
    workload = msgspec.structs.replace(behind(count=0), pods=3)
    assert derive_status(workload, last, PodCheck.CURRENT, None).behind == 3
    known = ConsumerStatus(State.LATENT, "older", behind=1)
    assert derive_status(workload, last, PodCheck.LATENT, known).behind == 1
