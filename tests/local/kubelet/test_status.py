"""What the API server is told about a pod, from what its containers do."""

from __future__ import annotations

from typing import Any

import pytest

from hotmap.local.kubelet.actions import Run
from hotmap.local.kubelet.status import PodFacts, Waiting, compute_phase, make_status

RUNNING = Run("r", 0, 100.0)
DONE = RUNNING._replace(finished_at=110.0, exit_code=0, reason="Completed")
FAILED = RUNNING._replace(finished_at=110.0, exit_code=3, reason="Error")


def spec(policy: str = "Always", *, init: bool = False) -> dict[str, Any]:
    return {
        "restartPolicy": policy,
        **({"initContainers": [{"name": "i"}]} if init else {}),
        "containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}],
    }


@pytest.mark.parametrize(
    ("pod", "runs", "phase"),
    [
        (spec(), {}, "Pending"),
        (spec(), {"a": RUNNING}, "Pending"),
        (spec(), {"a": RUNNING, "b": FAILED}, "Running"),
        (spec(), {"a": DONE, "b": DONE}, "Running"),
        (spec("OnFailure"), {"a": DONE, "b": DONE}, "Succeeded"),
        (spec("OnFailure"), {"a": DONE, "b": FAILED}, "Running"),
        (spec("Never"), {"a": DONE, "b": FAILED}, "Failed"),
        (spec("Never"), {"a": RUNNING, "b": FAILED}, "Running"),
        (spec(init=True), {"i": RUNNING}, "Pending"),
        (spec(init=True), {"i": FAILED}, "Pending"),
        (spec("Never", init=True), {"i": FAILED}, "Failed"),
    ],
)
def test_phase_follows_from_restart_policy_and_runs(
    pod: dict[str, Any], runs: dict[str, Run], phase: str
) -> None:
    """The phase follows from restart policy and container runs."""
    assert compute_phase(pod, runs) == phase


def status(
    runs: dict[str, Run],
    *,
    waiting: dict[str, Waiting] | None = None,
    previous: dict[str, Run] | None = None,
    pod: dict[str, Any] | None = None,
    now: float = 200.0,
) -> dict[str, Any]:
    facts = PodFacts(runs, previous or {}, waiting or {}, "127.1.0.1", "127.0.0.1", 90.0)
    return make_status(pod or {"spec": spec()}, facts, now=now)


def conditions(value: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c.get("reason", "")) for c in value["conditions"]}


def test_running_pod_is_ready() -> None:
    """All containers running: every condition is True and there is an address."""
    value = status({"a": RUNNING, "b": RUNNING})
    assert value["phase"] == "Running"
    assert {holds for holds, _ in conditions(value).values()} == {"True"}
    assert value["podIP"] == "127.1.0.1"
    assert value["startTime"] == "1970-01-01T00:01:30Z"


def test_unready_containers_are_named() -> None:
    """A container that does not run yet keeps the pod from being ready, by name."""
    value = status({"a": RUNNING})
    ready = next(c for c in value["conditions"] if c["type"] == "Ready")
    assert ready["status"] == "False"
    assert ready["reason"] == "ContainersNotReady"
    assert ready["message"] == "containers with unready status: [b]"
    assert value["containerStatuses"][1]["state"] == {"waiting": {"reason": "ContainerCreating"}}


def test_crashed_container_waits_with_last_state() -> None:
    """While it waits for its restart, the run that ended is its last state."""
    value = status(
        {"a": RUNNING, "b": FAILED._replace(restarts=2)},
        waiting={"b": Waiting("CrashLoopBackOff", "back-off 20s …")},
    )
    crashed = value["containerStatuses"][1]
    assert crashed["state"] == {
        "waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s …"}
    }
    assert crashed["lastState"]["terminated"]["exitCode"] == 3
    assert crashed["restartCount"] == 2


@pytest.mark.parametrize(("policy", "state"), [("OnFailure", "waiting"), ("Never", "terminated")])
def test_container_that_is_not_run_again_waits_for_nothing(policy: str, state: str) -> None:
    """As after a change of its image, since nothing else starts it whatever its policy says."""
    pod = {"spec": spec(policy)}
    failed = {"b": Waiting("CreateContainerConfigError", "no ConfigMap")}
    value = status({"a": RUNNING, "b": FAILED}, waiting=failed, pod=pod)
    assert list(value["containerStatuses"][1]["state"]) == [state]


@pytest.mark.parametrize("run", [RUNNING, DONE, FAILED])
def test_image_is_that_of_the_newest_run(run: Run) -> None:
    """An init container that is done is not run again when its image is changed."""
    pod = {"spec": {**spec(), "initContainers": [{"name": "i", "image": "x"}]}}
    ran = run._replace(image="old")
    value = status({"i": DONE._replace(image="old"), "a": ran, "b": run}, pod=pod)
    assert [found["image"] for found in value["containerStatuses"]] == ["old", "x"]
    assert value["initContainerStatuses"][0]["image"] == "old"


def test_restarted_container_shows_previous_run() -> None:
    """After a restart the state is the new run, the last state the old one."""
    value = status({"a": RUNNING, "b": RUNNING._replace(restarts=1)}, previous={"b": FAILED})
    restarted = value["containerStatuses"][1]
    assert "running" in restarted["state"]
    assert restarted["lastState"]["terminated"]["reason"] == "Error"


def test_transition_times_move_only_with_the_status() -> None:
    """An unchanged condition keeps its time, a changed one gets the present time."""
    pod = {"spec": spec(), "status": status({"a": RUNNING}, now=200.0)}
    value = status({"a": RUNNING, "b": RUNNING}, pod=pod, now=300.0)
    times = {c["type"]: c["lastTransitionTime"] for c in value["conditions"]}
    assert times["Ready"] == "1970-01-01T00:05:00Z"
    assert times["PodScheduled"] == "1970-01-01T00:03:20Z"


def test_foreign_conditions_are_kept() -> None:
    """A condition that the kubelet does not own stays in the status."""
    gate = {"type": "example.com/gate", "status": "True"}
    pod = {"spec": spec(), "status": {"conditions": [gate]}}
    assert gate in status({}, pod=pod)["conditions"]


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        (None, 'corresponding condition of pod readiness gate "a/b" does not exist.'),
        ("False", 'the status of pod readiness gate "a/b" is not "True", but False'),
        ("True", ""),
    ],
)
def test_readiness_gates_keep_a_pod_from_being_ready(gate: str | None, message: str) -> None:
    """Ready needs the conditions of all gates, ContainersReady does not."""
    known = [{"type": "a/b", "status": gate}] if gate else []
    pod = {
        "spec": {**spec(), "readinessGates": [{"conditionType": "a/b"}]},
        "status": {"conditions": known},
    }
    found = {c["type"]: c for c in status({"a": RUNNING, "b": RUNNING}, pod=pod)["conditions"]}
    assert found["ContainersReady"]["status"] == "True"
    assert found["Ready"].get("message", "") == message
    assert conditions({"conditions": [found["Ready"]]}) == {
        "Ready": ("False", "ReadinessGatesNotReady") if message else ("True", "")
    }


def test_init_containers_have_own_statuses() -> None:
    """Before they are done the pod is not initialized, and the regular ones say so."""
    pod = {"spec": spec(init=True)}
    value = status({"i": RUNNING}, pod=pod)
    assert conditions(value)["Initialized"] == ("False", "ContainersNotInitialized")
    assert value["containerStatuses"][0]["state"]["waiting"]["reason"] == "PodInitializing"
    done = status({"i": DONE}, pod=pod)
    assert conditions(done)["Initialized"] == ("True", "")
    assert done["initContainerStatuses"][0]["ready"] is True


def test_succeeded_pod_status() -> None:
    """A pod that is done is initialized, not ready, and neither is a failure."""
    value = status({"a": DONE, "b": DONE}, pod={"spec": spec("Never")})
    assert value["phase"] == "Succeeded"
    assert conditions(value)["Ready"] == ("False", "PodCompleted")
    assert conditions(value)["Initialized"] == ("True", "PodCompleted")


def test_status_names_the_generation_that_it_is_about() -> None:
    """In the status and in each condition, so that readers know whether an edit was seen."""
    facts = PodFacts({}, {}, {}, "127.1.0.1", "127.0.0.1", 0.0, generation=3)
    status = make_status({"spec": spec()}, facts, now=1.0)
    assert status["observedGeneration"] == 3
    assert {condition["observedGeneration"] for condition in status["conditions"]} == {3}


def test_statuses_of_containers_are_sorted() -> None:
    """By name, as a kubelet sorts them, and those of init containers in their own order."""
    names = [{"name": "b"}, {"name": "a"}]
    value = status({}, pod={"spec": {"containers": names, "initContainers": names}})
    assert [each["name"] for each in value["containerStatuses"]] == ["a", "b"]
    assert [each["name"] for each in value["initContainerStatuses"]] == ["b", "a"]
    assert "[b a]" in str(value["conditions"])


def test_status_shows_how_volumes_are_mounted() -> None:
    """Read-only mounts are not read-only below, as a kubelet says since 1.31."""
    mounts = [
        {"name": "v", "mountPath": "/v", "subPath": "s"},
        {"name": "w", "mountPath": "/w", "readOnly": True},
    ]
    pod = spec()
    pod["containers"][0]["volumeMounts"] = mounts
    first, second = status({}, pod={"spec": pod})["containerStatuses"]
    assert first["volumeMounts"] == [
        {"name": "v", "mountPath": "/v"},
        {"name": "w", "mountPath": "/w", "readOnly": True, "recursiveReadOnly": "Disabled"},
    ]
    assert "volumeMounts" not in second


def test_status_shows_what_is_allocated() -> None:
    """To each container that has run, and to the pod: an init container where it needs more."""

    def needs(**requests: str) -> dict[str, Any]:
        return {"resources": {"requests": requests, "limits": {"memory": "1Gi"}}}

    pod = spec(init=True)
    pod["initContainers"][0] |= needs(cpu="500m", memory="64Mi")
    pod["containers"][0] |= needs(cpu="100m", memory="96Mi")
    pod["containers"][1] |= needs(cpu="200m", memory="32Mi")
    value = status({"i": DONE, "a": RUNNING}, pod={"spec": pod})
    assert value["allocatedResources"] == {"cpu": "500m", "memory": "128Mi"}
    assert value["resources"] == {
        "requests": {"cpu": "500m", "memory": "128Mi"},
        "limits": {"memory": "2Gi"},
    }
    first, second = value["containerStatuses"]
    assert first["resources"] == pod["containers"][0]["resources"]
    assert first["allocatedResources"] == {"cpu": "100m", "memory": "96Mi"}
    assert "resources" not in second
    assert status({"a": RUNNING})["resources"] == {}
    assert status({"a": RUNNING})["containerStatuses"][0]["resources"] == {}
