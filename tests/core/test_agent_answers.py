"""What an agent's answer proves of its pod: pod + answer + sources → state of the pod."""

from __future__ import annotations

import json
from math import inf
from typing import Any

import pytest
from tests.support.objects import ENV, FILES, config_map, deployment, snapshot

from hotmap.core.decide.evidence import ContainerStart, PodStart, Span
from hotmap.core.decide.restart_wave import RestartProgress
from hotmap.core.model.objects import ObjectKey
from hotmap.core.policy.policy import Agent, Policy
from hotmap.core.status.agent_announcement import AgentAnnouncement as Announcement
from hotmap.core.status.agent_announcement import agent_announcement
from hotmap.core.status.agent_answers import AgentReport, merge_reports, read_answer
from hotmap.core.status.agent_coverage import AgentCoverage, WatchedVolume
from hotmap.core.status.agent_locations import (
    AgentContainer,
)
from hotmap.core.status.agent_stages import has_restarted, is_final, restart_progress
from hotmap.core.status.consumer import State, status_from_pods
from hotmap.core.status.desired import DesiredContent, desired_content
from hotmap.core.status.observed_pods import ObservedPod
from hotmap.core.status.pods import PodProof, pod_proofs
from hotmap.core.status.stage import Confidence, PodState
from hotmap.core.target import Target

#: The source changed, the pod is older, and it is soon after.
CHANGED, STARTED, NOW = 1000.0, 500.0, 1003.0
UID = "uid-of-web-1"
#: What the ConfigMap volume is to hold.
DIGEST = "payload-now"


def desired(spec: str = FILES, *, secrets_changed: float | None = -inf) -> DesiredContent:
    """The content that a pod with an agent is to have: a ConfigMap, and maybe Secrets."""
    source = config_map(data={"LEVEL": "info"}, changed_at=CHANGED)
    policy = Policy(opted_in=True, agent=Agent(restart="term"))
    content = desired_content(snapshot(deployment(spec), source, policy=policy))
    digests = (DIGEST,) if spec == FILES else ()
    return content._replace(
        order_changed=secrets_changed, target=content.target._replace(payloads=digests)
    )


CONTENT, ENV_CONTENT = desired(), desired(ENV)
OLD = "the announcement before"


def directory(state: str = "loaded", evidence: str = "exact", **fields: Any) -> dict[str, Any]:
    payload = DIGEST if evidence == "exact" else ""
    return {"state": state, "evidence": evidence, "payload": payload, "age": 1.0, **fields}


def answer(*directories: dict[str, Any], **fields: Any) -> AgentReport:
    """An answer about the present announcement unless it says otherwise."""
    document = {
        "protocol": 1,
        "uid": UID,
        "live": CONTENT.target.live,
        "frozen": CONTENT.target.frozen,
        "directories": list(directories),
        **fields,
    }
    report = read_answer(json.dumps(document).encode(), UID)
    assert report.answer is not None, report.problem
    return report


AGENT_AT = AgentContainer("shop", "web-1", "hotmap-agent", ("agent",))


def pod(
    *,
    ready: bool = True,
    told: Target | None = CONTENT.target,
    at: float = STARTED,
    told_at: float | None = None,
) -> ObservedPod:
    start = PodStart("web-1", at, "")
    return ObservedPod(start, at, ready, "", "", told, UID, AGENT_AT, told_at)


def proof(
    report: AgentReport | None,
    content: DesiredContent = CONTENT,
    *,
    now: float = NOW,
    **facts: Any,
) -> PodProof:
    agents = {} if report is None else {UID: report}
    (found,) = pod_proofs(content, [pod(**facts)], now=now, agents=agents)
    return found


SECRET_TOO = desired(secrets_changed=CHANGED)
SECRET = SECRET_TOO._replace(target=SECRET_TOO.target._replace(payloads=()))
LATER = CHANGED + 100


@pytest.mark.parametrize(
    ("report", "content", "now", "state", "known"),
    [
        # -- ConfigMaps: by payload digest ----------------------------------------------------
        pytest.param(answer(directory()), CONTENT, NOW, PodState.CURRENT, Confidence.PROVEN,
                     id="loaded, by digest"),
        pytest.param(answer(directory("told")), CONTENT, NOW, PodState.TOLD, Confidence.INFERRED,
                     id="told, and nothing confirms it"),
        pytest.param(answer(directory("loaded", "order")), CONTENT, NOW, PodState.WAITING,
                     Confidence.UNKNOWN, id="loaded by order, where there is a digest"),
        pytest.param(answer(directory(payload="before")), CONTENT, NOW, PodState.WAITING,
                     Confidence.UNKNOWN, id="loaded other content than is announced"),
        pytest.param(answer(directory("waiting")), CONTENT, NOW, PodState.WAITING,
                     Confidence.UNKNOWN, id="files are not updated"),
        pytest.param(answer(), CONTENT, NOW, PodState.UNKNOWN, Confidence.UNKNOWN,
                     id="it watches nothing"),
        # -- Secrets: by the order of announcements and updates ---------------------------------
        pytest.param(answer(directory("loaded", "order")), SECRET, NOW, PodState.CURRENT,
                     Confidence.INFERRED, id="Secret: updated after it was announced"),
        pytest.param(answer(directory("loaded", "assumed", age=600)), SECRET, NOW, PodState.WAITING,
                     Confidence.UNKNOWN, id="Secret: no update was seen"),
        pytest.param(answer(directory("loaded", "assumed", age=0.5)), SECRET, NOW,
                     PodState.CURRENT, Confidence.INFERRED,
                     id="Secret: the last update is younger than the change"),
        pytest.param(answer(directory("loaded", "assumed", age=2)), SECRET, NOW, PodState.WAITING,
                     Confidence.UNKNOWN, id="Secret: the last update may be of the change before"),
        pytest.param(answer(directory("loaded", "assumed", age=600)), SECRET, LATER,
                     PodState.CURRENT, Confidence.INFERRED,
                     id="Secret: the kubelet has synced since"),
        pytest.param(answer(directory(), directory("loaded", "assumed", age=600)), SECRET_TOO, NOW,
                     PodState.WAITING, Confidence.UNKNOWN, id="both: the Secret is not updated"),
        pytest.param(answer(directory(), directory("loaded", "order")), SECRET_TOO, NOW,
                     PodState.CURRENT, Confidence.INFERRED, id="both: weaker than a digest"),
        pytest.param(answer(directory("loaded", "order", age=1.5),
                            directory("loaded", "order", age=600)), SECRET, NOW, PodState.WAITING,
                     Confidence.UNKNOWN, id="Secret: files that are not followed were updated"),
        # -- steps, and what ends badly ---------------------------------------------------------
        pytest.param(answer(directory("settling")), CONTENT, NOW, PodState.SETTLING,
                     Confidence.UNKNOWN, id="settling"),
        pytest.param(answer(directory("checking")), CONTENT, NOW, PodState.CHECKING,
                     Confidence.UNKNOWN, id="checking"),
        pytest.param(answer(directory("loading")), CONTENT, NOW, PodState.LOADING,
                     Confidence.UNKNOWN, id="loading"),
        pytest.param(answer(directory("restarting")), CONTENT, NOW, PodState.RESTARTING,
                     Confidence.UNKNOWN, id="restarting"),
        pytest.param(answer(directory("refused"), exitStatus=1), CONTENT, NOW, PodState.REFUSED,
                     Confidence.UNKNOWN, id="refused"),
        pytest.param(answer(directory("check-failed"), exitStatus=127), CONTENT, NOW,
                     PodState.FAILED, Confidence.UNKNOWN, id="no such checker"),
        pytest.param(answer(directory("failed")), CONTENT, NOW, PodState.FAILED,
                     Confidence.UNKNOWN, id="not loaded"),
        pytest.param(answer(directory("unreadable")), CONTENT, NOW, PodState.FAILED,
                     Confidence.UNKNOWN, id="unreadable"),
        pytest.param(answer(directory(), directory("refused")), CONTENT, NOW, PodState.REFUSED,
                     Confidence.UNKNOWN, id="one directory of two is refused"),
        pytest.param(answer(directory("waiting", "order", present="loaded")), SECRET, NOW,
                     PodState.WAITING, Confidence.UNKNOWN, id="Secret: awaited"),
        pytest.param(answer(directory("waiting", "assumed", present="loaded")), SECRET, LATER,
                     PodState.CURRENT, Confidence.INFERRED,
                     id="Secret: awaited, and nothing has come with the kubelet's sync"),
        pytest.param(answer(directory("waiting", "assumed", present="refused")), SECRET, LATER,
                     PodState.REFUSED, Confidence.UNKNOWN,
                     id="Secret: awaited, and what is there is refused"),
        pytest.param(answer(directory("waiting", payload="", present="loaded")), CONTENT, LATER,
                     PodState.WAITING, Confidence.UNKNOWN, id="ConfigMap: awaited without end"),
        # -- an answer about something else -----------------------------------------------------
        pytest.param(answer(directory(), live=OLD), CONTENT, NOW, PodState.WAITING,
                     Confidence.UNKNOWN, id="it does not know the announcement yet"),
        pytest.param(answer(directory("refused"), live=OLD), CONTENT, NOW, PodState.WAITING,
                     Confidence.UNKNOWN, id="it refused what was announced before"),
        # -- no answer --------------------------------------------------------------------------
        pytest.param(AgentReport(None, "no connection"), CONTENT, NOW, PodState.UNKNOWN,
                     Confidence.UNKNOWN, id="not reached"),
        pytest.param(AgentReport(None, "no connection"), CONTENT, LATER, PodState.UNKNOWN,
                     Confidence.UNKNOWN, id="not reached, long after the change"),
        pytest.param(None, CONTENT, LATER, PodState.UNKNOWN, Confidence.UNKNOWN, id="not asked"),
    ],
)  # fmt: skip
def test_agent_answer_decides_state_of_older_pod(
    report: AgentReport | None,
    content: DesiredContent,
    now: float,
    state: PodState,
    known: Confidence,
) -> None:
    """A nudge and the kubelet's sync prove files, and never that a process loaded them."""
    found = proof(report, content, now=now)
    assert (found.state, found.loaded.confidence) == (state, known)


def test_files_are_missing_while_one_of_two_directories_waits() -> None:
    """The files of the other one were updated, and are loaded."""
    found = answer(directory(), directory("waiting", "order", present="loaded"))
    projected = proof(found, SECRET_TOO).projected
    assert projected is not None
    assert (projected.reached, projected.reason) == (False, "its files are not updated yet")


@pytest.mark.parametrize(
    ("present", "now", "state"),
    [
        ("loaded", NOW, PodState.WAITING),
        ("loaded", LATER, PodState.CURRENT),
        ("told", LATER, PodState.TOLD),
        ("loading", LATER, PodState.LOADING),
    ],
)
def test_pod_does_not_wait_for_content_that_was_reverted(
    present: str, now: float, state: PodState
) -> None:
    """It was nudged with an edit, and the revert came while no controller was running."""
    found = answer(directory("waiting", "assumed", present=present, age=None), live=OLD)
    told = Target(3, OLD, CONTENT.target.frozen)
    assert proof(found, SECRET, now=now, told=told).state is state


@pytest.mark.parametrize("wrong", [-1.0, -0.5, 0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    ("evidence", "updated", "asked", "state"),
    [
        ("order", 0.3, 0.5, PodState.CURRENT),
        ("order", 0.3, 60, PodState.CURRENT),
        # Perhaps of an edit just before the last one.
        ("assumed", 0.3, 0.5, PodState.WAITING),
        ("assumed", 0.3, 5, PodState.WAITING),
        ("assumed", 0.3, 6.5, PodState.CURRENT),
        ("assumed", 3.5, 4, PodState.CURRENT),
        # Of the content before.
        ("assumed", -30, 6.5, PodState.WAITING),
        ("order", -30, 6.5, PodState.WAITING),
        ("assumed", -30, 93, PodState.CURRENT),
    ],
)
def test_update_that_may_be_of_the_edit_before_counts_after_the_second_nudge(
    evidence: str, updated: float, asked: float, state: PodState, wrong: float
) -> None:
    """Seconds after the change; the last nudge was three after it. Nobody's clock is exact.

    A node's clock has no part in it: the agent reports ages.
    """
    found = directory("loaded", evidence, age=max(asked - updated - wrong * 0.5, 0.0))
    assert proof(answer(found), SECRET, now=CHANGED + asked, told_at=CHANGED + 3).state is state


@pytest.mark.parametrize(
    ("report", "now", "state"),
    [
        pytest.param(answer(directory("loaded", ""), live=""), LATER, PodState.CURRENT,
                     id="loaded what the kubelet has synced"),
        pytest.param(answer(directory("loaded", ""), live=""), NOW, PodState.WAITING,
                     id="files may be older"),
        pytest.param(answer(directory("refused", ""), live=""), LATER, PodState.REFUSED,
                     id="refused"),
        pytest.param(AgentReport(None, "no connection"), LATER, PodState.UNKNOWN,
                     id="not reached"),
    ],
)  # fmt: skip
def test_pod_without_announcement_is_judged_by_time_and_agent(
    report: AgentReport, now: float, state: PodState
) -> None:
    """As after an adoption."""
    assert proof(report, now=now, told=None).state is state


def test_start_after_the_change_needs_no_agent() -> None:
    """Whatever the agent says or does not say: the process read the content when it started."""
    for report in (None, AgentReport(None, "no connection"), answer(directory("refused"))):
        found = proof(report, at=CHANGED + 5)
        assert (found.state, found.loaded.confidence) == (PodState.CURRENT, Confidence.PROVEN)


@pytest.mark.parametrize(
    ("report", "state"),
    [
        pytest.param(answer(directory()), PodState.NOT_READY, id="loaded"),
        pytest.param(AgentReport(None, "no connection"), PodState.NOT_READY, id="not reached"),
        pytest.param(answer(directory("refused")), PodState.REFUSED, id="refused"),
        pytest.param(answer(directory("check-failed")), PodState.FAILED, id="no such checker"),
    ],
)
def test_pod_that_is_not_ready_is_never_current(report: AgentReport, state: PodState) -> None:
    """A refusal explains why it is not ready; anything else proves nothing."""
    found = proof(report, ready=False)
    assert (found.state, found.loaded.reached) == (state, False)


def env_answer(
    state: str, fingerprint: str = ENV_CONTENT.target.frozen, **fields: Any
) -> AgentReport:
    restart = {"state": state, "fingerprint": fingerprint}
    given = {"live": ENV_CONTENT.target.live, "frozen": ENV_CONTENT.target.frozen, **fields}
    return answer(restart=restart, **given)


@pytest.mark.parametrize(
    ("report", "at", "state"),
    [
        pytest.param(env_answer("restarting"), STARTED, PodState.RESTARTING, id="restarting"),
        pytest.param(env_answer("failed"), STARTED, PodState.FAILED, id="cannot restart it"),
        pytest.param(env_answer("loaded"), STARTED, PodState.UNKNOWN,
                     id="it says so, and the containers did not start again"),
        pytest.param(env_answer("loaded"), CHANGED + 2, PodState.CURRENT,
                     id="the containers started again"),
        pytest.param(env_answer("loaded", frozen=OLD), STARTED, PodState.WAITING,
                     id="it does not know the announcement yet"),
        pytest.param(AgentReport(None, "no connection"), STARTED, PodState.UNKNOWN,
                     id="not reached"),
    ],
)  # fmt: skip
def test_restart_is_proven_by_the_start_of_containers(
    report: AgentReport, at: float, state: PodState
) -> None:
    """An agent says how far it is, and never that what is read at start was read."""
    assert proof(report, ENV_CONTENT, at=at, told=ENV_CONTENT.target).state is state


@pytest.mark.parametrize(
    ("report", "start", "state"),
    [
        pytest.param(env_answer("loaded"), {}, PodState.CURRENT, id="for this content"),
        pytest.param(env_answer("loaded", "other"), {}, PodState.UNKNOWN, id="for other content"),
        pytest.param(env_answer("none"), {}, PodState.UNKNOWN, id="it restarts nothing"),
        pytest.param(env_answer("loaded"), {"restarted": False}, PodState.UNKNOWN,
                     id="the container that reads it has not restarted"),
        pytest.param(env_answer("loaded"), {"span": Span(998, 999)}, PodState.UNKNOWN,
                     id="the restart was before the change"),
        pytest.param(env_answer("loaded"), {"version": 7}, PodState.UNKNOWN,
                     id="it is not known when the change was"),
    ],
)  # fmt: skip
def test_restart_in_the_second_of_the_change_is_known_from_the_agent(
    report: AgentReport, start: dict[str, Any], state: PodState
) -> None:
    """Times are whole seconds, and a restart that was announced came after its change."""
    ((source, change),) = ENV_CONTENT.start_changes
    changes = ((source, change._replace(edited=True)),)
    content = ENV_CONTENT._replace(
        start_changes=changes, edited=True, estimated=True, adopted_version=8
    )
    spans = (Span(STARTED, STARTED + 1), Span(CHANGED - 1, CHANGED + 1))
    facts: dict[str, Any] = {"span": spans[1], "restarted": True, "version": 0} | start
    version = facts.pop("version")
    web = ContainerStart(read=frozenset([source]), **facts)
    begun = PodStart("web-1", STARTED, "", spans, version=version, at_start=(web,))
    restarted = pod(told=content.target)._replace(start=begun)
    (found,) = pod_proofs(content, [restarted], now=NOW, agents={UID: report})
    assert found.state is state
    if state is PodState.CURRENT:
        assert found.loaded.confidence is Confidence.PROBABLE


def test_source_that_was_created_with_the_pod_is_not_waited_for() -> None:
    """After an edit of another one: its files were there when the agent started."""
    first, second = (ObjectKey("Secret", "shop", name) for name in ("first", "second"))
    content = SECRET._replace(
        live_changes=((first, CHANGED), (second, STARTED)),
        live_edited=frozenset([first]),
        edited=True,
    )
    watched = (WatchedVolume("a", frozenset([first])), WatchedVolume("b", frozenset([second])))
    coverage = AgentCoverage(watched, uncovered=(), directories=2)
    found = pod(told=content.target, told_at=CHANGED + 2)._replace(coverage=coverage)
    report = answer(directory("loaded", "order", age=2.0), directory("loaded", "order", age=None))

    def state(content: DesiredContent) -> PodState:
        (proof,) = pod_proofs(content, [found], now=NOW, agents={UID: report})
        return proof.state

    assert state(content) is PodState.CURRENT
    assert state(content._replace(live_edited=frozenset([first, second]))) is PodState.WAITING
    later = ((first, CHANGED), (second, STARTED + 5))
    assert state(content._replace(live_changes=later)) is PodState.WAITING


@pytest.mark.parametrize("content", [CONTENT, SECRET], ids=["ConfigMap", "Secret"])
def test_files_of_a_recreated_immutable_source_are_not_waited_for_without_end(
    content: DesiredContent,
) -> None:
    """Where a kubelet has had the time to update them, a user has to replace the pod."""
    source = ObjectKey("ConfigMap", "shop", "app")
    content = content._replace(immutable=((source, CHANGED),))
    waits = answer(directory("waiting"))
    assert proof(waits, content, now=CHANGED + 80).state is PodState.WAITING
    late = proof(waits, content, now=CHANGED + 95)
    assert late.state is PodState.UNKNOWN
    assert late.loaded.state is None, "so the consumer is latent"
    assert "ConfigMap shop/app, which is immutable and may have been recreated" in (
        late.loaded.reason
    )
    status = status_from_pods(deployment(FILES), [late], content)
    assert (status.state, status.action_required) == (State.LATENT, True)


# -- the consumer ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("report", "state", "words", "ends_wait"),
    [
        pytest.param(answer(directory()), State.CURRENT, "proven", False, id="loaded"),
        pytest.param(answer(directory("told")), State.DELIVERED, "nothing confirms", False,
                     id="told"),
        pytest.param(answer(directory("refused"), exitStatus=1), State.REFUSED,
                     "1 of 1 pod (web-1): the content did not pass the check of its agent "
                     "(exit status 1); see kubectl exec", True, id="refused"),
        pytest.param(answer(directory("failed")), State.FAILED, "did not load", False,
                     id="not loaded: it is retried"),
        pytest.param(answer(directory("check-failed"), exitStatus=127), State.FAILED,
                     "could not run (exit status 127)", True, id="no such checker"),
        pytest.param(answer(directory("check-failed")), State.FAILED, "could not run", False,
                     id="a check that timed out"),
        pytest.param(answer(directory("loading")), State.WAITING, "reloading", False, id="loading"),
        pytest.param(AgentReport(None, "no connection"), State.UNKNOWN, "no connection", False,
                     id="not reached"),
    ],
)  # fmt: skip
def test_workload_state_follows_its_agents(
    report: AgentReport, state: State, words: str, ends_wait: bool
) -> None:
    """It says whose doing is needed, and whether waiting can help."""
    status = status_from_pods(deployment(FILES), [proof(report)], CONTENT)
    assert (status.state, status.action_required) == (state, ends_wait)
    assert words in status.reason


@pytest.mark.parametrize(
    ("other", "state"), [("refused", State.REFUSED), ("loading", State.WAITING)]
)
def test_agent_that_cannot_be_queried_hides_no_other_one(other: str, state: State) -> None:
    """What another agent reports is known."""
    proofs = [proof(AgentReport(None, "no connection")), proof(answer(directory(other)))]
    assert status_from_pods(deployment(FILES), proofs, CONTENT).state is state


# -- answers that do not count -----------------------------------------------------------------

GOOD = {"protocol": 1, "uid": UID, "live": "a", "frozen": "b", "directories": []}


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        pytest.param({**GOOD, "protocol": 2}, "its agent speaks protocol 2, not 1", id="protocol"),
        pytest.param({**GOOD, "uid": "x"}, "another pod answers at its address", id="uid"),
        pytest.param({**GOOD, "uid": ""}, "its agent does not know the pod's uid; inject it again",
                     id="no uid"),
        pytest.param({**GOOD, "directories": [{"state": "happy"}]}, "", id="unknown state"),
        pytest.param({**GOOD, "directories": [{"state": "loaded", "evidence": "mine"}]}, "",
                     id="unknown evidence"),
        pytest.param({**GOOD, "directories": [{"state": "loaded"}] * 300}, "", id="too many"),
        pytest.param({**GOOD, "directories": [{"state": "loaded", "age": -1}]}, "", id="an age"),
        pytest.param({**GOOD, "live": "x" * 5000}, "", id="a long text"),
        pytest.param({**GOOD, "exitStatus": 100000}, "", id="an exit status"),
        pytest.param({**GOOD, "live": None}, "", id="a type"),
        pytest.param({"uid": UID}, "", id="no version"),
        pytest.param([], "", id="no object"),
    ],
)  # fmt: skip
def test_answer_that_does_not_fit_is_ignored(document: Any, problem: str) -> None:
    report = read_answer(json.dumps(document).encode(), UID)
    assert report.answer is None
    assert report.problem == (problem or "its agent's answer cannot be read")


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff\xfe", b"{", b"[" * 100_000, b'{"protocol":1,"x":' + b"[" * 50_000, b"null"],
    ids=["empty", "not UTF-8", "cut", "deep", "deep in an unknown field", "null"],
)
def test_broken_answer_is_ignored(body: bytes) -> None:
    assert read_answer(body, UID) == AgentReport(None, "its agent's answer cannot be read")


def test_answer_is_asked_for_again_until_it_is_final() -> None:
    announcement = Announcement(CONTENT.target, CONTENT.target, (), NOW)
    assert is_final(answer(directory()), announcement)
    assert is_final(answer(directory("told")), announcement)
    for state in ("waiting", "settling", "checking", "loading", "failed", "refused"):
        assert not is_final(answer(directory(state)), announcement), state
    assert not is_final(answer(directory(), live=OLD), announcement)
    assert not is_final(answer(directory(), frozen=OLD), announcement)
    assert not is_final(answer(directory(payload="before")), announcement)
    assert not is_final(AgentReport(None, "no connection"), announcement)


# -- several agents ---------------------------------------------------------------------------


BEHIND = answer(directory(), live=OLD, frozen=OLD)
SILENT = AgentReport(None, "its agent cannot be reached")


@pytest.mark.parametrize(
    ("reports", "state"),
    [
        pytest.param([answer(directory())], PodState.CURRENT, id="one"),
        pytest.param([answer(directory()), answer()], PodState.CURRENT,
                     id="the other watches nothing"),
        pytest.param([answer(directory("loaded", "order")), answer(directory())],
                     PodState.CURRENT, id="each watches its own directory"),
        pytest.param([answer(directory()), answer(directory("refused"), exitStatus=1)],
                     PodState.REFUSED, id="one refused"),
        pytest.param([answer(directory("loading")), answer(directory())], PodState.LOADING,
                     id="one is loading"),
        pytest.param([answer(directory()), BEHIND], PodState.WAITING,
                     id="one has not read the announcement"),
        pytest.param([answer(directory()), SILENT], PodState.UNKNOWN, id="one is silent"),
    ],
)  # fmt: skip
def test_pod_is_as_far_as_its_slowest_agent(reports: list[AgentReport], state: PodState) -> None:
    for each in (reports, reports[::-1]):
        assert proof(merge_reports(each)).state is state


def test_pod_has_restarted_when_all_its_agents_have() -> None:
    """A wave of restarts goes on only then."""
    restarting = answer(directory(), restart={"state": "restarting", "fingerprint": "x"})
    for each in ([restarting, answer(directory())], [answer(directory()), restarting]):
        assert restart_progress(merge_reports(each), CONTENT.target) == RestartProgress(
            loaded=False
        )
    done = merge_reports([answer(directory()), answer(directory())])
    assert restart_progress(done, CONTENT.target) == RestartProgress(loaded=True)


@pytest.mark.parametrize(
    ("fields", "restarted"),
    [
        pytest.param({}, True, id="for the desired content"),
        pytest.param({"frozen": OLD}, False, id="it was told other content since"),
        pytest.param({"restart": {"state": "loaded", "fingerprint": OLD}}, False, id="before"),
        pytest.param(
            {"restart": {"state": "restarting", "fingerprint": CONTENT.target.frozen}},
            False,
            id="it is restarting",
        ),
    ],
)
def test_agent_has_restarted_for_what_it_was_told_last(
    fields: dict[str, Any], restarted: bool
) -> None:
    done = {"restart": {"state": "loaded", "fingerprint": CONTENT.target.frozen}}
    report = answer(directory(), **(done | fields))
    assert has_restarted(report, agent_announcement(CONTENT, pod(), NOW)) is restarted


@pytest.mark.parametrize(
    ("report", "retried"),
    [
        pytest.param(answer(directory("failed")), True, id="files, with a process about to start"),
        pytest.param(answer(directory("refused")), False, id="files that did not pass"),
        pytest.param(
            answer(directory(), restart={"state": "failed", "fingerprint": "x"}), False,
            id="the restart itself",
        ),
    ],
)  # fmt: skip
def test_failure_to_load_files_after_a_restart_may_end(report: AgentReport, retried: bool) -> None:
    progress = restart_progress(report, CONTENT.target)
    assert progress is not None
    assert (bool(progress.failure), progress.retried) == (True, retried)


# -- pods that are never ready ---------------------------------------------------------------------


def test_pod_that_is_never_ready_says_what_to_do() -> None:
    """By design or not: it does not wait forever without a word."""
    for now, hint in ((STARTED + 60, False), (STARTED + 600, True)):
        found = proof(answer(directory()), ready=False, now=now)
        status = status_from_pods(deployment(FILES), [found], CONTENT)
        assert status.state is State.WAITING
        assert status.reason.startswith("waiting for 1 pod: web-1 is not ready")
        assert ('hotmap.dev/require-ready: "false"' in status.reason) is hint


def test_readiness_may_play_no_part() -> None:
    """A standby that is never Ready counts by its proof alone, and not without one."""
    content = CONTENT._replace(require_ready=False)
    found = proof(answer(directory()), content, ready=False)
    assert found.state is PodState.CURRENT
    assert status_from_pods(deployment(FILES), [found], content).state is State.CURRENT
    found = proof(AgentReport(None, "no connection"), content, ready=False)
    assert status_from_pods(deployment(FILES), [found], content).state is State.UNKNOWN
