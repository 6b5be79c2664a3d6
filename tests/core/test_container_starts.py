"""What each container of a pod has read at its start, where agents restart some in place."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import pytest
from tests.support.objects import KEY, config_map, deployment, pod, sources, template

from hotmap.core.decide.evidence import PodStart
from hotmap.core.decide.snapshot import take_snapshot
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey, Pod
from hotmap.core.policy.annotations import read_policy
from hotmap.core.policy.policy import followed_uses
from hotmap.core.status.agent_answers import AgentAnswer, AgentReport, AgentRestart, AgentState
from hotmap.core.status.consumer import State, status_from_pods
from hotmap.core.status.desired import DesiredContent, desired_content
from hotmap.core.status.observed_pods import observe_pods
from hotmap.core.status.pods import PodProof, pod_proofs
from hotmap.core.status.stage import Confidence

#: When the pod was made, when its agent restarted the container `web`, and some moment soon after.
MADE, RESTARTED, NOW = 100.0, 1000.0, 1030.0

TWO_ENVIRONMENTS = """
    containers:
    - {name: web, envFrom: [{configMapRef: {name: app}}]}
    - {name: log, envFrom: [{configMapRef: {name: other}}]}
    - {name: hotmap-agent}
"""
TWO_FILES = """
    containers:
    - {name: web, volumeMounts: [{name: v, mountPath: /a, subPath: a}]}
    - {name: log, volumeMounts: [{name: w, mountPath: /a, subPath: a}]}
    volumes: [{name: v, configMap: {name: app}}, {name: w, configMap: {name: other}}]
"""
READ_BY_WEB = "containers: [{name: web, envFrom: [{configMapRef: {name: app}}]}]"
READ_BY_BOTH = TWO_ENVIRONMENTS.replace("name: other", "name: app")
READ_BY_INIT = f"""
    initContainers: [{{name: setup, envFrom: [{{configMapRef: {{name: app}}}}]}}]
    {TWO_ENVIRONMENTS.lstrip()}
"""
BY_NAME = "containers: [{name: web}, {name: hotmap-agent}]"
BESIDE_ADDED = BY_NAME.replace("]", ", {name: log}]")
ADDED_READER = BY_NAME.replace("]", ", {name: log, envFrom: [{configMapRef: {name: app}}]}]")


class Judged(NamedTuple):
    """A pod, with what its workload should have now."""

    who: Consumer
    content: DesiredContent
    proof: PodProof


def judge(
    spec: str,
    changed: dict[str, float],
    *,
    pod_spec: str = "",
    annotations: dict[str, str] | None = None,
    agent: str = "container=web;restart=term",
    follow: str = "auto",
    report: AgentRestart | None = None,
    told: str = "",
    nudged_at: float | None = None,
    observed: bool = True,
    now: float = NOW,
) -> Judged:
    """Judge a pod after edits of its sources at these times; `pod_spec` is its own.

    `annotations` are the workload's, instead of that of an agent.
    `report` is what its agent says of the restart for what it was nudged with: that, or `told`. It
    was nudged at the last edit, unless `nudged_at` says when.
    """
    followed = {"hotmap.dev/follow": follow}
    who = deployment(spec, annotations=followed | (annotations or {"hotmap.dev/agent": agent}))
    policy = read_policy(who)
    found = sources(*(config_map(name, {"a": "1"}, changed_at=at) for name, at in changed.items()))
    uses = followed_uses(who, policy, found)
    taken = take_snapshot(who, policy, None, uses=uses, sources=found, keys=[KEY], now=NOW)
    edited = tuple(source._replace(edited=True, estimated=not observed) for source in taken.sources)
    content = desired_content(taken._replace(sources=edited))
    (seen,) = observe_pods(who, [_restarted(pod_spec or spec)], followed=uses)
    target = content.target._replace(frozen=told or content.target.frozen)
    nudged = seen._replace(
        nudged=target, nudged_at=max(changed.values()) if nudged_at is None else nudged_at
    )
    agents = None
    if report is not None:
        fingerprint = content.target.frozen if report.state is AgentState.LOADED else ""
        restart = msgspec.structs.replace(report, fingerprint=fingerprint)
        live, frozen = content.target.live, content.target.frozen
        agents = {"uid": AgentReport(AgentAnswer(1, "uid", live, frozen, (), restart))}
    (proof,) = pod_proofs(content, [nudged], now=now, agents=agents)
    return Judged(who, content, proof)


def _restarted(spec: str) -> Pod:
    """A pod whose container `web` was restarted in place, beside one that was not."""
    found = pod(started=MADE, containers={"web": RESTARTED, "log": MADE}, ended={"setup": MADE})
    statuses = [
        msgspec.structs.replace(each, restart_count=1 if each.name == "web" else 0)
        for each in found.status.container_statuses or ()
    ]
    return msgspec.structs.replace(
        found,
        spec=template(spec).spec,
        metadata=msgspec.structs.replace(found.metadata, uid="uid"),
        status=msgspec.structs.replace(found.status, container_statuses=statuses),
    )


@pytest.mark.parametrize(
    ("spec", "changed", "known"),
    [
        pytest.param(TWO_ENVIRONMENTS, {"app": 990, "other": 90}, Confidence.PROVEN,
                     id="what the restarted container reads"),
        pytest.param(TWO_ENVIRONMENTS, {"app": 990, "other": 990}, Confidence.UNKNOWN,
                     id="both"),
        pytest.param(TWO_ENVIRONMENTS, {"app": 90, "other": 990}, Confidence.UNKNOWN,
                     id="what the other container reads"),
        pytest.param(READ_BY_BOTH, {"app": 990}, Confidence.UNKNOWN, id="read by both"),
        pytest.param(READ_BY_INIT, {"app": 990, "other": 90}, Confidence.UNKNOWN,
                     id="read by an init container too"),
        pytest.param(TWO_FILES, {"app": 907, "other": 90}, Confidence.INFERRED,
                     id="its file, which the kubelet had updated"),
        pytest.param(TWO_FILES, {"app": 907, "other": 907}, Confidence.UNKNOWN,
                     id="the file of both"),
    ],
)  # fmt: skip
def test_start_of_a_container_counts_for_what_it_reads(
    spec: str, changed: dict[str, float], known: Confidence
) -> None:
    """One that was restarted in place has other content than one that was not."""
    assert judge(spec, changed).proof.loaded.confidence is known


def test_pod_that_has_not_started_has_read_nothing() -> None:
    assert PodStart("web-1", None, "").readers([ObjectKey("ConfigMap", "shop", "app")]) == []


@pytest.mark.parametrize("sources_of_log", ["other", "app, other"])
def test_container_of_the_pod_may_read_more_than_the_template_says(sources_of_log: str) -> None:
    """An admission webhook has added to it."""
    names = sources_of_log.split(", ")
    added = ", ".join(f"{{configMapRef: {{name: {name}}}}}" for name in names)
    spec = TWO_ENVIRONMENTS.replace("{configMapRef: {name: other}}", added)
    found = judge(TWO_ENVIRONMENTS, {"app": 990, "other": 90}, pod_spec=spec)
    assert found.proof.loaded.reached is (len(names) == 1)


FILES = """
    containers: [{name: web, volumeMounts: [{name: v, mountPath: /a}]}]
    volumes: [{name: v, configMap: {name: app}}]
"""
IN_WEB = "{name: web, volumeMounts: [{name: v, mountPath: /a}]}"


@pytest.mark.parametrize(
    ("added", "changed", "state"),
    [
        pytest.param(IN_WEB, 200, State.CURRENT, id="nothing"),
        pytest.param(f"{IN_WEB}, {{name: log, envFrom: [{{configMapRef: {{name: app}}}}]}}",
                     200, State.LATENT, id="a sidecar with variables"),
        pytest.param(f"{IN_WEB}, {{name: log, envFrom: [{{configMapRef: {{name: app}}}}]}}",
                     90, State.CURRENT, id="a sidecar with variables, before the pod was created"),
        pytest.param(f"{IN_WEB}, {{name: log, volumeMounts: [{{name: v, mountPath: /a}}]}}",
                     200, State.CURRENT, id="a sidecar with the same files"),
        pytest.param("{name: log, volumeMounts: [{name: v, mountPath: /a, subPath: a}]}",
                     200, State.LATENT, id="a sidecar with a subPath"),
        pytest.param("{name: web, volumeMounts: [{name: v, mountPath: /a, subPath: a}]}",
                     907, State.CURRENT, id="a subPath, updated before the container restarted"),
        pytest.param("{name: web, volumeMounts: [{name: v, mountPath: /a, subPath: a}]}",
                     910, State.LATENT, id="a subPath, perhaps updated after it restarted"),
        pytest.param("{name: log, volumeMounts: [{name: v, mountPath: /a, subPath: ./}]}",
                     200, State.CURRENT, id="a sidecar with the whole volume as a subPath"),
        pytest.param(f"{IN_WEB}]\n    initContainers: [{{name: setup, "
                     "env: [{name: A, valueFrom: {configMapKeyRef: {name: app, key: a}}}]}",
                     200, State.LATENT, id="an init container with variables"),
    ],
)  # fmt: skip
def test_content_that_a_webhook_lets_containers_read_at_start_is_not_reread(
    added: str, changed: float, state: State
) -> None:
    """The template has it as files only, which the application re-reads."""
    spec = FILES.replace(IN_WEB, added)
    rereads = {"hotmap.dev/rereads": "1s"}
    found = judge(FILES, {"app": changed}, pod_spec=spec, annotations=rereads)
    assert status_from_pods(found.who, [found.proof], found.content).state is state


PROJECTED = """
    containers:
    - {name: log, volumeMounts: [{name: v, mountPath: /a}, {name: v, mountPath: /b, subPath: b}]}
    volumes:
    - name: v
      projected:
        sources:
        - {configMap: {name: app, items: [{key: a, path: a}]}}
        - {configMap: {name: other, items: [{key: a, path: b}]}}
"""


@pytest.mark.parametrize("added", ["", ", envFrom: [{configMapRef: {name: app}}]"])
def test_subpath_pins_the_source_of_its_file_alone(added: str) -> None:
    """Of a volume with several; a webhook may let the container read the other one too."""
    rereads, changed = {"hotmap.dev/rereads": "1s"}, {"app": 200.0, "other": 50.0}
    spec = PROJECTED.replace("name: log", f"name: log{added}")
    found = judge(PROJECTED, changed, pod_spec=spec, annotations=rereads)
    state = status_from_pods(found.who, [found.proof], found.content).state
    assert state is (State.LATENT if added else State.CURRENT)


@pytest.mark.parametrize(
    ("pod_spec", "reached"),
    [
        pytest.param(BY_NAME, True, id="of the template"),
        pytest.param(BESIDE_ADDED, True, id="added by a webhook, without a reference"),
        pytest.param(ADDED_READER, False, id="added by a webhook, with a reference"),
    ],
)
def test_source_followed_by_name_is_read_by_the_containers_of_the_template(
    pod_spec: str, reached: bool
) -> None:
    """The author of the annotation speaks of these; an agent reads none."""
    found = judge(BY_NAME, {"app": 990}, pod_spec=pod_spec, follow="ConfigMap/app")
    assert found.proof.loaded.reached is reached


@pytest.mark.parametrize(
    ("spec", "agent", "changed", "state"),
    [
        pytest.param(TWO_ENVIRONMENTS, "container=web;restart=term", {"app": 1000, "other": 90},
                     State.CURRENT, id="the agent has restarted what reads it"),
        pytest.param(TWO_ENVIRONMENTS, "container=web;restart=term", {"app": 90, "other": 1000},
                     State.LATENT, id="it restarts another container"),
        pytest.param(READ_BY_BOTH, "container=web;restart=term", {"app": 1000},
                     State.LATENT, id="it restarts one of two"),
    ],
)  # fmt: skip
def test_restart_in_the_second_of_a_change_counts_for_what_the_agent_restarts(
    spec: str, agent: str, changed: dict[str, float], state: State
) -> None:
    """Where times are too close, its agent says that it was restarted for this content."""
    loaded = AgentRestart(AgentState.LOADED)
    found = judge(spec, changed, agent=agent, report=loaded)
    assert status_from_pods(found.who, [found.proof], found.content).state is state


@pytest.mark.parametrize(
    ("nudged_at", "observed", "state"),
    [
        pytest.param(1000, True, State.CURRENT, id="announced after the change"),
        pytest.param(998, True, State.LATENT, id="announced before it"),
        pytest.param(1000, False, State.LATENT, id="nobody observed what was there before"),
    ],
)
def test_restart_counts_only_if_the_last_change_was_announced(
    nudged_at: float, observed: bool, state: State
) -> None:
    """Content that has come back was announced before: a restart meanwhile read other content."""
    report = AgentRestart(AgentState.LOADED)
    changed, now = {"app": 1000.0}, 1103.0
    found = judge(
        READ_BY_WEB, changed, report=report, nudged_at=nudged_at, observed=observed, now=now
    )
    assert status_from_pods(found.who, [found.proof], found.content).state is state


@pytest.mark.parametrize(
    ("spec", "told", "now", "state"),
    [
        pytest.param(READ_BY_WEB, "", 1030, State.WAITING, id="a moment ago"),
        pytest.param(READ_BY_WEB, "", 1103, State.LATENT, id="long ago"),
        pytest.param(READ_BY_WEB, "other", 1030, State.LATENT, id="of other content"),
        pytest.param(READ_BY_BOTH, "", 1030, State.LATENT, id="the agent restarts one of two"),
    ],
)
def test_restart_is_waited_for_as_long_as_its_agent_may_follow(
    spec: str, told: str, now: float, state: State
) -> None:
    """It says what it does meanwhile; one that has nothing to do restarts nothing later."""
    report = AgentRestart(AgentState.NONE)
    found = judge(spec, {"app": 1010}, report=report, told=told, now=now)
    assert status_from_pods(found.who, [found.proof], found.content).state is state
