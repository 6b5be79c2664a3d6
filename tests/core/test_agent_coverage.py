"""What the agents of a pod prove: their own files in their own container, and nothing beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
import pytest
from tests.support.objects import config_map, deployment, pod_spec, secret, snapshot, timestamp

from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.model.agent_containers import runs_agent
from hotmap.core.model.config_volumes import VolumeDigest
from hotmap.core.model.objects import ConfigMap, Pod, Secret
from hotmap.core.policy.policy import Agent, Policy
from hotmap.core.status.agent_announcement import agent_announcement
from hotmap.core.status.agent_answers import AgentReport, read_answer
from hotmap.core.status.agent_coverage import agent_coverage
from hotmap.core.status.agent_stages import is_final
from hotmap.core.status.desired import desired_content, with_volume_digests
from hotmap.core.status.observed_pods import observe_pods
from hotmap.core.status.pods import PodProof, pod_proofs
from hotmap.core.status.stage import Confidence, PodState, Stage, weakest
from hotmap.core.target import Target

CREATED, CHANGED, NOW = 500.0, 1000.0, 1010.0
UID = "uid-of-web-1"

#: Containers of a pod; the agent beside them mounts what `web` does.
WEB = "{name: web, volumeMounts: [{name: config, mountPath: /etc/app}]}"
LOG = "{name: log, volumeMounts: [{name: config, mountPath: /etc/log}]}"
IDLE = "{name: idle}"
AGENT = (
    "{name: hotmap-agent, restartPolicy: Always, args: [agent, --dir, /etc/app], "
    "volumeMounts: [{name: config, mountPath: /etc/app}]}"
)
STAGING = AGENT.replace("--dir, /etc/app", "--dir, /etc/app, --stage, /hotmap/stage")
#: With a stage the application mounts the stage.
STAGED = "{name: web, volumeMounts: [{name: stage, mountPath: /etc/app}]}"
SUPERVISED = (
    "{name: web, command: [/usr/bin/python3, /hotmap/bin/agent.pyz, --dir, /etc/app, --, web], "
    "volumeMounts: [{name: config, mountPath: /etc/app}]}"
)
CONFIG = "{name: config, configMap: {name: app}}"
OTHER = "{name: other, configMap: {name: other}}"
ONE_KEY = "{name: part, configMap: {name: app, items: [{key: b, path: b}]}}"
SECRET = "{name: secret, secret: {secretName: db}}"
MIXED = "{name: mixed, projected: {sources: [{configMap: {name: app}}, {secret: {name: db}}]}}"


def spec(
    containers: Sequence[str], volumes: Sequence[str] = (CONFIG,), init: Sequence[str] = ()
) -> str:
    return (
        f"containers: [{', '.join(containers)}]\n"
        f"initContainers: [{', '.join(init)}]\n"
        f"volumes: [{', '.join([*volumes, '{name: stage, emptyDir: {}}'])}]\n"
    )


def mounting(name: str, *volumes: str, **fields: str) -> str:
    mounts = ", ".join(f"{{name: {each}, mountPath: /etc/{each}}}" for each in volumes)
    more = "".join(f", {key}: {value}" for key, value in fields.items())
    return f"{{name: {name}{more}, volumeMounts: [{mounts}]}}"


def pod(manifest: str, annotation: str, *, nudged: Target | None = None) -> Pod:
    """A pod that started long before the change."""
    annotations = {"hotmap.dev/agent": annotation}
    if nudged is not None:
        annotations["hotmap.dev/target"] = str(nudged)
    found = pod_spec(manifest)
    running = {"running": {"startedAt": timestamp(CREATED)}}
    statuses, init_statuses = (
        [{"name": each["name"], "ready": True, "state": running} for each in found.get(part) or ()]
        for part in ("containers", "initContainers")
    )
    metadata = {
        "name": "web-1", "namespace": "shop", "uid": UID, "annotations": annotations,
        "creationTimestamp": timestamp(CREATED),
        "managedFields": [{"manager": "hotmap", "time": timestamp(CHANGED + 2)}],
    }  # fmt: skip
    status = {
        "phase": "Running", "startTime": timestamp(CREATED),
        "containerStatuses": statuses, "initContainerStatuses": init_statuses,
    }  # fmt: skip
    return msgspec.convert({"metadata": metadata, "spec": found, "status": status}, Pod)


def changed_snapshot(
    manifest: str, changes: Mapping[str, float | None], policy: Policy | None = None
) -> Snapshot:
    """A workload of this pod spec, whose sources changed at these times."""
    times = {"app": CHANGED, "other": 1.0, "db": 1.0, **changes}
    sources: list[ConfigMap | Secret] = [
        config_map("app", {"a": "1", "b": "2"}, changed_at=times["app"]),
        config_map("other", {"a": "1"}, changed_at=times["other"]),
        secret("db", {"a": b"1"}, changed_at=times["db"]),
    ]
    policy = policy or Policy(opted_in=True, auto=frozenset(("ConfigMap", "Secret")), agent=Agent())
    return snapshot(deployment(manifest), *cast(list[ConfigMap], sources), policy=policy)


def answer(*directories: Mapping[str, Any], target: Target) -> AgentReport:
    document = {
        "protocol": 1, "uid": UID, "live": target.live, "frozen": target.frozen,
        "directories": directories,
    }  # fmt: skip
    report = read_answer(msgspec.json.encode(document), UID)
    assert report.answer is not None, report.problem
    return report


def exact(payload: str = "config", state: str = "loaded") -> dict[str, Any]:
    return {"state": state, "evidence": "exact", "payload": payload, "age": 5.0}


def ordered(age: float | None = 5.0, evidence: str = "order") -> dict[str, Any]:
    return {"state": "loaded", "evidence": evidence, "payload": "", "age": age}


def prove(
    manifest: str,
    *directories: Mapping[str, Any],
    annotation: str = "port=9533;container=web;restart=none",
    template: str = "",
    changes: Mapping[str, float | None] | None = None,
    digests: Sequence[str] = ("config",),
    now: float = NOW,
    policy: Policy | None = None,
    at: float | None = None,
) -> PodProof:
    """Judge a nudged pod by the report of its agents; digests are named as their volumes."""
    taken = changed_snapshot(template or manifest, changes or {}, policy)
    known = [VolumeDigest(name, name) for name in digests]
    desired = with_volume_digests(desired_content(taken), taken.consumer, known)
    live = frozenset(source.source for source in taken.sources if source.live)
    found = pod(manifest, annotation, nudged=desired.target)
    report = answer(*directories, target=desired.target)._replace(at=at)
    pods = observe_pods(taken.consumer, [found], read_by_agents=live)
    (proof,) = pod_proofs(desired, pods, now=now, agents={UID: report})
    return proof


UNNAMED = "port=9533;restart=none"
BOTH = "port=9533;container=web;restart=none,port=9534;container=log;restart=none"


@pytest.mark.parametrize(
    ("manifest", "annotation", "state"),
    [
        # -- one container ----------------------------------------------------------------------
        pytest.param(spec([WEB], init=[AGENT]), UNNAMED, "current", id="one, agent beside it"),
        pytest.param(spec([WEB, IDLE], init=[AGENT]), UNNAMED, "current",
                     id="another that mounts nothing"),
        pytest.param(spec([WEB, AGENT]), UNNAMED, "current", id="agent as an ordinary container"),
        pytest.param(spec([SUPERVISED]), UNNAMED, "current", id="agent as the parent process"),
        pytest.param(spec([STAGED], init=[STAGING]), "port=9533;container=web", "current",
                     id="staged"),
        # -- two containers of one volume -------------------------------------------------------
        pytest.param(spec([WEB, LOG], init=[AGENT]), "port=9533;container=web", "delivered",
                     id="two, of which one has an agent"),
        pytest.param(spec([WEB, LOG], init=[AGENT]), UNNAMED, "delivered",
                     id="two, and nothing says which one has the agent"),
        pytest.param(spec([SUPERVISED, LOG]), UNNAMED, "delivered",
                     id="agent as the parent process of one, and nothing names it"),
        pytest.param(spec([SUPERVISED, LOG]), "port=9533;container=web", "delivered",
                     id="agent as the parent process of one of two"),
        pytest.param(spec([STAGED, LOG], init=[STAGING]), "port=9533;container=web", "delivered",
                     id="one is staged, the other is not"),
        pytest.param(spec([STAGED, LOG], init=[STAGING]), UNNAMED, "delivered",
                     id="one is staged, and nothing names it"),
        pytest.param(spec([WEB, LOG], init=[AGENT]), "port=9533;container=web;container=log",
                     "current", id="one agent for two"),
        pytest.param(spec([WEB, LOG], init=[AGENT, AGENT.replace("-agent", "-agent-2")]), BOTH,
                     "waiting", id="two agents, of which one has not found its files"),
        # -- containers that others add ---------------------------------------------------------
        pytest.param(spec([WEB], init=[AGENT, LOG.replace("}]", "}], restartPolicy: Always", 1)]),
                     "port=9533;container=web", "delivered", id="a restartable init container"),
        pytest.param(spec([WEB], init=[AGENT, LOG]), "port=9533;container=web", "unknown",
                     id="an init container has read it before"),
        pytest.param(spec([WEB], init=[AGENT]) + f"ephemeralContainers: [{LOG}]",
                     "port=9533;container=web", "current",
                     id="an ephemeral container is not part of the workload"),
        pytest.param(spec([WEB, LOG.replace("mountPath", "subPath: a, mountPath")], init=[AGENT]),
                     "port=9533;container=web", "unknown",
                     id="another that reads it at start (subPath), and has not started again"),
        pytest.param(spec([WEB, LOG.replace("mountPath", "subPath: ., mountPath")], init=[AGENT]),
                     "port=9533;container=web", "delivered", id="another by the subPath '.'"),
    ],
)  # fmt: skip
def test_agent_proves_its_own_container_only(manifest: str, annotation: str, state: str) -> None:
    """A container that reads the file without an agent is as it would be alone: delivered."""
    found = prove(manifest, exact(), annotation=annotation)
    assert found.state.value == state, found.loaded


def test_reason_names_the_container_without_agent() -> None:
    found = prove(spec([WEB, LOG], init=[AGENT]), exact())
    assert found.loaded.reason == (
        "container log has no agent, and its files are updated; nothing is known to re-read them"
    )


def test_container_added_by_a_webhook_counts() -> None:
    """The pod has it and the pod template has not, for files as for what is read at start."""
    manifest = spec([WEB, LOG], init=[AGENT])
    template = spec([WEB], init=[AGENT])
    assert prove(manifest, exact(), template=template).state is PodState.DELIVERED
    env = "[{name: A, valueFrom: {configMapKeyRef: {name: app, key: a}}}]"
    added = spec([WEB, f"{{name: proxy, env: {env}}}"], init=[AGENT])
    taken = changed_snapshot(template, {})
    starts = observe_pods(taken.consumer, [pod(added, UNNAMED)])
    assert len(starts[0].start.containers) == 3  # with the agent's


def test_unchanged_files_of_another_container_need_no_agent() -> None:
    """They are as they were when it started; once they change, nothing reloads them."""
    log = mounting("log", "other")
    manifest = spec([WEB, log], [CONFIG, OTHER], init=[AGENT])
    known = ("config", "other")
    found = prove(manifest, exact(), digests=known)
    assert (found.state, found.loaded.confidence) == (PodState.CURRENT, Confidence.PROVEN)
    changed = prove(manifest, exact(), digests=known, changes={"other": CHANGED})
    assert changed.state is PodState.DELIVERED


def test_volume_that_the_agent_does_not_mount_is_not_proven() -> None:
    """Although it is of the container that it reloads."""
    web = mounting("web", "config", "other")
    manifest = spec([web], [CONFIG, OTHER], init=[AGENT])
    known = ("config", "other")
    found = prove(manifest, exact(), digests=known, changes={"other": CHANGED})
    assert found.state is PodState.DELIVERED
    unchanged = prove(manifest, exact(), digests=known)
    assert unchanged.state is PodState.CURRENT


def test_container_that_rereads_by_annotation_is_as_it_would_be_alone() -> None:
    policy = Policy(
        opted_in=True, auto=frozenset(("ConfigMap", "Secret")), agent=Agent(),
        rereads=True, rereads_within=30.0,
    )  # fmt: skip
    manifest = spec([WEB, LOG], init=[AGENT])
    soon = prove(manifest, exact(), policy=policy)
    assert soon.state is PodState.LOADING
    later = prove(manifest, exact(), policy=policy, now=CHANGED + 60)
    assert (later.state, later.loaded.confidence) == (PodState.CURRENT, Confidence.INFERRED)


@pytest.mark.parametrize(
    ("volumes", "directories", "digests", "state"),
    [
        pytest.param(("config", "part"), [exact(), exact("part")], ("config", "part"), "current",
                     id="two volumes of one ConfigMap, both loaded"),
        pytest.param(("config", "part"), [exact(), ordered()], ("config", "part"), "waiting",
                     id="one of them lags"),
        pytest.param(("config", "part"), [exact()], ("config", "part"), "waiting",
                     id="one of them is not watched"),
        pytest.param(("config", "config"), [exact()], ("config",), "waiting",
                     id="one of two places is not watched"),
        pytest.param(("config", "secret"), [exact()], ("config",), "waiting",
                     id="the volume of a Secret is not watched"),
        pytest.param(("config",), [ordered(600.0, "assumed")], (), "waiting",
                     id="the digest of the volume is not known, and no update was observed"),
        pytest.param(("config",), [ordered(5.0)], (), "current",
                     id="the digest is not known, and the update is of the change"),
        pytest.param(("mixed",), [ordered(600.0, "assumed")], (), "waiting",
                     id="a volume with a Secret in it has no digest"),
        pytest.param(("mixed",), [ordered(5.0)], (), "current", id="… and is known by order"),
    ],
)  # fmt: skip
def test_every_mounted_directory_has_to_be_loaded(
    volumes: Sequence[str], directories: Sequence[Any], digests: Sequence[str], state: str
) -> None:
    known = {
        "config": CONFIG, "part": ONE_KEY, "secret": SECRET, "mixed": MIXED,
    }  # fmt: skip
    agent = mounting("hotmap-agent", *volumes, restartPolicy="Always")
    manifest = spec([mounting("web", *volumes)], [known[name] for name in set(volumes)], [agent])
    assert prove(manifest, *directories, digests=digests).state.value == state


def test_two_equal_volumes_need_two_directories() -> None:
    """Their digests are equal, and one of them may not be updated yet."""
    same = "{name: same, configMap: {name: app}}"
    agent = mounting("hotmap-agent", "config", "same", restartPolicy="Always")
    manifest = spec([mounting("web", "config", "same")], [CONFIG, same], [agent])
    taken = changed_snapshot(manifest, {})
    desired = with_volume_digests(
        desired_content(taken), taken.consumer,
        [VolumeDigest("config", "equal"), VolumeDigest("same", "equal")],
    )  # fmt: skip
    live = frozenset(source.source for source in taken.sources)
    found = pod(manifest, UNNAMED, nudged=desired.target)
    pods = observe_pods(taken.consumer, [found], read_by_agents=live)
    for directories, state in (
        ([exact("equal"), ordered(None, "assumed")], PodState.WAITING),
        ([exact("equal"), exact("equal")], PodState.CURRENT),
    ):
        report = answer(*directories, target=desired.target)
        (proof,) = pod_proofs(desired, pods, now=NOW, agents={UID: report})
        assert proof.state is state


@pytest.mark.parametrize(
    ("ages", "state"),
    [
        pytest.param((5.0, 6.0), "current", id="both were updated"),
        pytest.param((5.0, 300.0), "waiting", id="one was updated long before"),
        pytest.param((5.0, None), "waiting", id="no update of one was observed"),
    ],
)
def test_each_changed_secret_needs_an_update(ages: Sequence[float | None], state: str) -> None:
    """Kubelets watch each Secret separately: an announcement may arrive with one of two."""
    other = "{name: other, secret: {secretName: other}}"
    agent = mounting("hotmap-agent", "secret", "other", restartPolicy="Always")
    manifest = spec([mounting("web", "secret", "other")], [SECRET, other], [agent])
    sources: list[ConfigMap | Secret] = [
        secret(name, {"a": b"1"}, changed_at=CHANGED) for name in ("db", "other")
    ]
    policy = Policy(opted_in=True, auto=frozenset(("Secret",)), agent=Agent())
    taken = snapshot(deployment(manifest), *cast(list[ConfigMap], sources), policy=policy)
    desired = with_volume_digests(desired_content(taken), taken.consumer, ())
    live = frozenset(source.source for source in taken.sources)
    pods = observe_pods(
        taken.consumer, [pod(manifest, UNNAMED, nudged=desired.target)], read_by_agents=live
    )
    report = answer(*(ordered(age) for age in ages), target=desired.target)
    (proof,) = pod_proofs(desired, pods, now=NOW, agents={UID: report})
    assert proof.state.value == state


def test_ages_of_a_kept_report_do_not_grow_younger() -> None:
    """The last update was before the change, and a report that is kept does not change that."""
    agent = mounting("hotmap-agent", "secret", restartPolicy="Always")
    manifest = spec([mounting("web", "secret")], [SECRET], [agent])
    changes = {"db": CHANGED, "app": 1.0}
    for now in (CHANGED + 3, CHANGED + 30, CHANGED + 60):
        old = ordered(10.0, "assumed")
        found = prove(manifest, old, digests=(), changes=changes, now=now, at=CHANGED + 3)
        assert found.state is PodState.WAITING, now


def test_report_without_the_new_files_is_not_final() -> None:
    """It is asked for again: the files may arrive with the next sync of the kubelet."""
    manifest = spec([WEB], init=[AGENT])
    taken = changed_snapshot(manifest, {})
    desired = with_volume_digests(
        desired_content(taken), taken.consumer, [VolumeDigest("config", "config")]
    )
    live = frozenset(source.source for source in taken.sources)
    found = pod(manifest, UNNAMED, nudged=desired.target)
    (observed,) = observe_pods(taken.consumer, [found], read_by_agents=live)
    announcement = agent_announcement(desired, observed, NOW)
    assert not is_final(answer(exact("before"), target=desired.target), announcement)
    assert is_final(answer(exact(), target=desired.target), announcement)


def test_unconfirmed_stage_is_weaker_than_an_equally_confident_one() -> None:
    """What was read at start is inferred, and so is that files were delivered: delivered counts."""
    delivered = Stage(Confidence.INFERRED, "files", PodState.DELIVERED)
    inferred = Stage(Confidence.INFERRED, "template")
    for stages in ([delivered, inferred], [inferred, delivered]):
        assert weakest(stages) is delivered
    unknown = Stage(Confidence.UNKNOWN, "older content")
    assert weakest([delivered, unknown]) is unknown


@pytest.mark.parametrize(
    ("container", "runs"),
    [
        ({"name": "hotmap-agent"}, True),
        ({"name": "hotmap-agent-2"}, True),
        ({"name": "hotmap-agent-first"}, False),
        ({"name": "reload", "args": ["agent", "--dir", "/etc"]}, True),
        ({"name": "reload", "command": ["/usr/bin/hotmap", "agent"], "args": ["--dir"]}, True),
        ({"name": "reload", "command": ["python3", "-m", "hotmap", "agent"]}, True),
        ({"name": "web", "command": ["python3", "/hotmap/bin/agent.pyz", "--", "web"]}, True),
        ({"name": "web", "command": ["web"], "args": ["agent"]}, False),
        ({"name": "web"}, False),
    ],
)
def test_container_of_an_agent_is_known_by_name_or_command(
    container: dict[str, Any], runs: bool
) -> None:
    found = msgspec.convert({"spec": {"containers": [container]}}, Pod)
    assert found.spec.containers is not None
    assert runs_agent(found.spec.containers[0]) is runs


def test_pod_that_mounts_no_followed_source_has_no_coverage() -> None:
    """Such as a pod of an earlier template; the files of its template count then."""
    assert agent_coverage(pod(spec([IDLE]), UNNAMED), frozenset()) is None
