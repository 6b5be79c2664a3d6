"""When a rollout takes a turn of its source, and when that turn is over."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.objects import ENV, config_map, deployment, snapshot

from hotmap.core.decide.decide import decide
from hotmap.core.decide.record import Outcome, next_record
from hotmap.core.decide.rollout_turns import is_rolled_out, replaces_pods, sources_of_rollout
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.consumer_conversion import consumer_from_rollout, consumer_from_workload
from hotmap.core.model.objects import ObjectKey, Rollout, Workload
from hotmap.core.policy.lint import source_problems
from hotmap.core.policy.policy import Pause, Policy
from hotmap.core.policy.rollout_limits import parse_rollout_limit, read_rollout_limit

LIMIT = "hotmap.dev/max-concurrent-rollouts"

APP = ObjectKey("ConfigMap", "shop", "app")
#: How a Deployment is paused when a source changes.
PAUSED = Pause("deployment.reloader.stakater.com/paused-at", 30.0, own=True)

#: The status of three pods that are all replaced and available, by kind; as `kubectl get -o yaml`.
DONE: dict[str, dict[str, Any]] = {
    "Deployment": {"replicas": 3, "updatedReplicas": 3, "availableReplicas": 3},
    "StatefulSet": {"replicas": 3, "updatedReplicas": 3, "availableReplicas": 3},
    "DaemonSet": {
        "desiredNumberScheduled": 3,
        "currentNumberScheduled": 3,
        "updatedNumberScheduled": 3,
        "numberAvailable": 3,
    },
    "Rollout": {
        "replicas": 3,
        "updatedReplicas": 3,
        "availableReplicas": 3,
        "stableRS": "6b",
        "currentPodHash": "6b",
    },
}


def made(
    kind: str, status: dict[str, Any] | None = None, *, observed: int = 2, **spec: Any
) -> Consumer:
    """Make a workload of three pods, of generation 2, whose status differs from DONE."""
    metadata = {"name": "web", "namespace": "shop", "uid": "u", "generation": 2}
    said: dict[str, Any] = {"observedGeneration": observed, **DONE[kind], **(status or {})}
    if kind == "Rollout":
        said["observedGeneration"] = str(observed)
    body = {"metadata": metadata, "spec": {"replicas": 3, **spec}, "status": said}
    encoded = msgspec.json.encode(body)
    if kind == "Rollout":
        return consumer_from_rollout(msgspec.json.decode(encoded, type=Rollout))
    return consumer_from_workload(kind, msgspec.json.decode(encoded, type=Workload))


@pytest.mark.parametrize(
    ("level", "pause", "expected"),
    [
        pytest.param("debug", None, [APP], id="rolled out"),
        pytest.param("info", None, [], id="unchanged"),
        pytest.param("debug", PAUSED, [], id="only paused for now"),
    ],
)
def test_turn_is_of_the_sources_whose_change_is_rolled_out(
    level: str, pause: Pause | None, expected: list[ObjectKey]
) -> None:
    who = deployment(ENV)
    policy = Policy(opted_in=True, pause=pause)
    first = decide(snapshot(who, config_map(data={"LEVEL": "info"}), policy=policy))
    record = next_record(first, Outcome(who.generation, "", 900.0))
    edited = config_map(data={"LEVEL": level}, version=2, changed_at=990)
    decision = decide(snapshot(who, edited, record=record, policy=policy))
    assert sources_of_rollout(decision) == expected


@pytest.mark.parametrize("kind", list(DONE))
def test_turn_is_over_when_all_pods_are_replaced_and_available(kind: str) -> None:
    assert is_rolled_out(made(kind), 2)
    assert not is_rolled_out(made(kind), 3), "the store has an older generation"
    assert not is_rolled_out(made(kind, observed=1), 2), "its controller has an older one"


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("Deployment", {"updatedReplicas": 1, "replicas": 4}),
        ("Deployment", {"replicas": 4}),
        ("Deployment", {"availableReplicas": 2}),
        ("StatefulSet", {"updatedReplicas": 2}),
        ("StatefulSet", {"availableReplicas": 0}),
        ("DaemonSet", {"updatedNumberScheduled": 2}),
        ("DaemonSet", {"numberAvailable": 2}),
        ("Rollout", {"currentPodHash": "7c"}),
        ("Rollout", {"availableReplicas": 2}),
    ],
)
def test_turn_lasts_while_pods_are_replaced_or_not_available(
    kind: str, status: dict[str, Any]
) -> None:
    assert not is_rolled_out(made(kind, status), 2)


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Deployment", {"paused": True}),
        ("Deployment", {"replicas": 0}),
        ("StatefulSet", {"updateStrategy": {"type": "OnDelete"}}),
        ("StatefulSet", {"updateStrategy": {"rollingUpdate": {"partition": 3}}}),
        ("DaemonSet", {"updateStrategy": {"type": "OnDelete"}}),
    ],
)
def test_workload_that_replaces_no_pods_takes_no_turn(kind: str, spec: dict[str, Any]) -> None:
    """Nobody else waits for what only a user continues."""
    stays = {"updatedReplicas": 0, "updatedNumberScheduled": 0}
    consumer = made(kind, stays, **spec)
    assert not replaces_pods(consumer)
    assert is_rolled_out(consumer, 2)


@pytest.mark.parametrize(("updated", "over"), [(0, False), (1, False), (2, True), (3, True)])
def test_turn_of_a_partition_is_over_with_the_pods_above_it(updated: int, over: bool) -> None:
    strategy = {"rollingUpdate": {"partition": 1}}
    consumer = made("StatefulSet", {"updatedReplicas": updated}, updateStrategy=strategy)
    assert replaces_pods(consumer)
    assert is_rolled_out(consumer, 2) is over


@pytest.mark.parametrize(
    ("source", "namespace", "default", "limit"),
    [
        (None, None, 0, 0),
        (None, None, 5, 5),
        ("2", None, 5, 2),
        (None, "3", 5, 3),
        ("2", "3", 5, 2),
        ("0", "3", 5, 0),
        (" 2 ", None, 0, 2),
        ("10000", None, 0, 10_000),
        ("10001", None, 0, 1),
        ("25%", "3", 5, 1),
        ("", "3", 5, 1),
        ("-1", None, 0, 1),
        (None, "x", 5, 1),
    ],
)
def test_limit_of_the_source_is_used_before_the_namespace_and_the_default(
    source: str | None, namespace: str | None, default: int, limit: int
) -> None:
    """One that cannot be read counts as 1: whoever wrote it wanted fewer rollouts."""
    present = [{LIMIT: text} if text is not None else {} for text in (source, namespace)]
    assert read_rollout_limit(*present, default=default) == limit


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "25%", "10001", "١", "9" * 5000])
def test_limit_that_cannot_be_read_is_reported(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected 0 \(no limit\) to 10000; treating as 1"):
        parse_rollout_limit(text)
    (problem,) = source_problems({LIMIT: text}, "ConfigMap")
    assert problem.annotation == LIMIT
    assert len(problem.message) < 300
