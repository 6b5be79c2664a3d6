"""The status of a pod: phase, conditions, container statuses; pure.

kubernetes: pkg/kubelet/kubelet_pods.go (getPhase, convertToAPIContainerStatuses) and
pkg/kubelet/status/generate.go (conditions). `sync` sends it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from hotmap.local.kubelet.actions import (
    Run,
    has_failed_for_good,
    is_initialized,
    is_restarting_all,
)
from hotmap.local.kubelet.restart_policy import (
    all_containers,
    has_rule_for_all,
    is_sidecar,
    should_restart,
)
from hotmap.local.quantity import format_quantity, is_binary
from hotmap.local.quota import pod_resources

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Waiting(NamedTuple):
    """Why a container does not run: a CamelCase reason and a sentence."""

    reason: str
    message: str = ""


class Ended(NamedTuple):
    """Why the kubelet has ended a pod: a CamelCase reason and a sentence."""

    reason: str
    message: str


class PodFacts(NamedTuple):
    """What the kubelet knows about a pod's containers.

    `runs` is the newest run of each container, `previous` the one before it; `waiting` is set for
    containers that should run and do not.
    """

    runs: Mapping[str, Run]
    previous: Mapping[str, Run]
    waiting: Mapping[str, Waiting]
    address: str
    host_address: str
    started_at: float
    #: The generation of the pod that the facts are about; 0 if it has none.
    generation: int = 0
    #: Why the kubelet has ended the pod, None where it has not.
    ended: Ended | None = None
    #: Whether all volumes are there; before, a kubelet makes no sandbox.
    has_volumes: bool = True


def rfc3339(seconds: float) -> str:
    """Write POSIX seconds as metav1.Time does: UTC, whole seconds."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def make_status(pod: Mapping[str, Any], facts: PodFacts, *, now: float) -> dict[str, Any]:
    """Describe a pod as its `status`; transition times of unchanged conditions are kept.

    `now` is POSIX seconds. Equal arguments give an equal status.
    """
    spec, old = pod["spec"], pod.get("status") or {}
    facts = facts._replace(waiting=_waiting_for_start(spec, facts))
    phase = "Failed" if facts.ended else compute_phase(spec, facts.runs, facts.previous)
    idle = "PodInitializing" if spec.get("initContainers") else "ContainerCreating"
    conditions = _conditions(spec, phase, facts, old)
    observed = {"observedGeneration": facts.generation} if facts.generation else {}
    for condition in conditions:
        condition.update(observed)
    status: dict[str, Any] = {
        **observed,
        "phase": phase,
        "conditions": _with_times(conditions, old.get("conditions") or [], now),
        "hostIP": facts.host_address,
        "hostIPs": [{"ip": facts.host_address}],
        "podIP": facts.address,
        "podIPs": [{"ip": facts.address}],
        "startTime": old.get("startTime") or rfc3339(facts.started_at),
        "qosClass": old.get("qosClass") or "BestEffort",
        # Init containers are listed in their own order (kubetypes.SortedContainerStatuses).
        "containerStatuses": [
            _container_status(container, facts, idle=idle)
            for container in sorted(spec["containers"], key=itemgetter("name"))
        ],
    }
    resources = {part: text for part in ("requests", "limits") if (text := _amounts(spec, part))}
    status |= {"resources": resources, **_allocated(resources)}
    if facts.ended:
        status |= facts.ended._asdict()
    if spec.get("initContainers"):
        status["initContainerStatuses"] = [
            _container_status(c, facts, idle="PodInitializing", init=True)
            for c in spec["initContainers"]
        ]
    if spec.get("ephemeralContainers"):
        status["ephemeralContainerStatuses"] = [
            _ephemeral_status(container, facts, idle=idle)
            for container in sorted(spec["ephemeralContainers"], key=itemgetter("name"))
        ]
    return status


def _waiting_for_start(spec: Mapping[str, Any], facts: PodFacts) -> dict[str, Waiting]:
    """Return what containers wait for, but for those that have ended and are not run again.

    kubernetes: pkg/kubelet/kubelet_pods.go, convertToAPIContainerStatuses.
    """
    return {
        container["name"]: waiting
        for container in all_containers(spec)
        if (waiting := facts.waiting.get(container["name"])) is not None
        and (
            (run := facts.runs.get(container["name"])) is None
            or should_restart(spec, container, run.exit_code)
        )
    }


def _amounts(spec: Mapping[str, Any], part: str) -> dict[str, str]:
    """Add up the requests or limits of a pod, as they are granted (getEffectiveAllocatedResources).

    They are those of the spec, since nothing is reserved here. A sum has the unit of the first
    amount.
    """
    containers = [*spec["containers"], *(spec.get("initContainers") or ())]
    given = [(container.get("resources") or {}).get(part) or {} for container in containers]
    return {
        name: format_quantity(
            amount, binary=is_binary(next(str(found[name]) for found in given if name in found))
        )
        for name, amount in pod_resources(spec, part).items()
    }


def _allocated(resources: Mapping[str, Any]) -> dict[str, Any]:
    requests = resources.get("requests")
    return {"allocatedResources": requests} if requests else {}


def compute_phase(
    spec: Mapping[str, Any], runs: Mapping[str, Run], previous: Mapping[str, Run] | None = None
) -> str:
    """Name the phase of a pod (kubernetes: pkg/kubelet/kubelet_pods.go, getPhase).

    A container that waits for a start has ended before, if there is a `previous` run.
    """
    if not is_initialized(spec, runs):
        failed = any(
            has_failed_for_good(spec, container, runs.get(container["name"]))
            for container in spec.get("initContainers") or ()
        )
        return "Failed" if failed else "Pending"
    before = previous or {}
    known = [
        (container, runs.get(container["name"]) or before.get(container["name"]))
        for container in spec["containers"]
    ]
    ended = [(container, run) for container, run in known if run is not None]
    if len(ended) < len(known):
        return "Pending"
    if any(run.running or should_restart(spec, c, run.exit_code) for c, run in ended):
        return "Running"
    return "Succeeded" if all(run.succeeded for _, run in ended) else "Failed"


def _conditions(
    spec: Mapping[str, Any], phase: str, facts: PodFacts, old: Mapping[str, Any]
) -> list[dict[str, Any]]:
    done = phase in ("Succeeded", "Failed")
    unready = _unready(spec, facts.runs)
    # Once a pod is initialized it stays so, also where its init containers run again.
    initialized = is_initialized(spec, facts.runs) or any(
        condition["type"] == "Initialized" and condition["status"] == "True"
        for condition in old.get("conditions") or ()
    )
    conditions = [
        _condition("PodReadyToStartContainers", facts.has_volumes and not done),
        _initialized(spec, initialized, facts.runs, phase),
        _ready(spec, unready, phase, old),
        _readiness("ContainersReady", unready, phase),
        _condition("PodScheduled", True),
    ]
    if has_rule_for_all(spec):
        conditions.append(_restarting_all(phase, is_restarting_all(spec, facts.runs)))
    return conditions


def _restarting_all(phase: str, holds: bool) -> dict[str, Any]:
    type, reason = "AllContainersRestarting", "RestartAllContainersStarted"
    if phase in ("Succeeded", "Failed"):
        return _condition(type, False, "PodCompleted" if phase == "Succeeded" else "PodFailed")
    if holds:
        return _condition(type, True, reason, "container exited with restart policy rule")
    return _condition(type, False)


def _unready(spec: Mapping[str, Any], runs: Mapping[str, Run]) -> list[str]:
    sidecars = [c for c in spec.get("initContainers") or () if is_sidecar(c)]
    names = [container["name"] for container in [*sidecars, *spec["containers"]]]
    return [
        name
        for name in names
        if not ((run := runs.get(name)) is not None and run.running and run.ready)
    ]


def _initialized(
    spec: Mapping[str, Any], initialized: bool, runs: Mapping[str, Run], phase: str
) -> dict[str, Any]:
    if initialized or phase == "Succeeded":
        reason = "PodCompleted" if phase == "Succeeded" else ""
        return _condition("Initialized", True, reason)
    missing = [
        container["name"]
        for container in spec.get("initContainers") or ()
        if not ((run := runs.get(container["name"])) and run.succeeded)
    ]
    message = f"containers with incomplete status: [{' '.join(missing)}]"
    return _condition("Initialized", False, "ContainersNotInitialized", message)


def _ready(
    spec: Mapping[str, Any], unready: Sequence[str], phase: str, old: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the condition Ready, for which others set the conditions of the readiness gates."""
    condition = _readiness("Ready", unready, phase)
    if condition["status"] == "False":
        return condition
    missing = [
        f'the status of pod readiness gate "{type}" is not "True", but {status}'
        if status
        else f'corresponding condition of pod readiness gate "{type}" does not exist.'
        for type, status in readiness_gates(spec, old).items()
        if status != "True"
    ]
    if missing:
        return _condition("Ready", False, "ReadinessGatesNotReady", ", ".join(missing))
    return condition


def readiness_gates(spec: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, str]:
    """Map each readiness gate of a pod to the status of its condition, "" where there is none."""
    known = {each.get("type"): each.get("status", "") for each in status.get("conditions") or ()}
    types = (gate["conditionType"] for gate in spec.get("readinessGates") or ())
    return {type: known.get(type, "") for type in types}


def _readiness(type: str, unready: Sequence[str], phase: str) -> dict[str, Any]:
    if phase == "Succeeded":
        return _condition(type, False, "PodCompleted")
    if phase == "Failed":
        return _condition(type, False, "PodFailed")
    if unready:
        message = f"containers with unready status: [{' '.join(unready)}]"
        return _condition(type, False, "ContainersNotReady", message)
    return _condition(type, True)


def _condition(type: str, holds: bool, reason: str = "", message: str = "") -> dict[str, Any]:
    condition = {"type": type, "status": "True" if holds else "False"}
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    return condition


def _with_times(
    conditions: list[dict[str, Any]], old: Sequence[Mapping[str, Any]], now: float
) -> list[dict[str, Any]]:
    """Date each condition by the last change of its status; keep conditions of others."""
    known = {condition["type"]: condition for condition in old}
    ours = {condition["type"] for condition in conditions}
    for condition in conditions:
        before = known.get(condition["type"])
        same = before is not None and before["status"] == condition["status"]
        kept = before.get("lastTransitionTime") if before is not None and same else None
        condition["lastProbeTime"] = None
        condition["lastTransitionTime"] = kept or rfc3339(now)
    return [*conditions, *(dict(known[type]) for type in known if type not in ours)]


def _container_status(
    container: Mapping[str, Any], facts: PodFacts, *, idle: str, init: bool = False
) -> dict[str, Any]:
    name = container["name"]
    run, waiting = facts.runs.get(name), facts.waiting.get(name)
    last = facts.previous.get(name)
    if run is not None and run.running:
        state: dict[str, Any] = {"running": {"startedAt": rfc3339(run.started_at)}}
    elif run is not None and waiting is None:
        state = {"terminated": _terminated(run)}
    else:
        last = run or last
        state = {"waiting": _waiting(waiting or Waiting(idle))}
    resources = container.get("resources") or {}
    running = run is not None and run.running
    done = init and run is not None and run.succeeded and not is_sidecar(container)
    return {
        "name": name,
        "image": (run.image if run else "") or container.get("image", ""),
        "imageID": "",
        **({"containerID": f"hotmap://{run.id}"} if run is not None else {}),
        "state": state,
        "lastState": {"terminated": _terminated(last)} if last is not None else {},
        "ready": done or bool(running and run is not None and run.ready),
        "started": bool(running and run is not None and run.started),
        # If an earlier kubelet ran the container, only its previous run is known.
        "restartCount": shown.restarts if (shown := run or last) is not None else 0,
        **({"resources": resources, **_allocated(resources)} if run is not None else {}),
        **({"volumeMounts": mounts} if (mounts := _volume_mounts(container)) else {}),
    }


def _volume_mounts(container: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Tell how volumes are mounted; mounts below a read-only one may be writable (KEP-3857)."""
    return [
        {
            "name": mount["name"],
            "mountPath": mount["mountPath"],
            **(
                {"readOnly": True, "recursiveReadOnly": "Disabled"} if mount.get("readOnly") else {}
            ),
        }
        for mount in container.get("volumeMounts") or ()
    ]


def _ephemeral_status(
    container: Mapping[str, Any], facts: PodFacts, *, idle: str
) -> dict[str, Any]:
    """Describe an ephemeral container, which has no probes and is never ready."""
    status = {**_container_status(container, facts, idle=idle), "ready": False}
    del status["started"]
    return status


def _waiting(waiting: Waiting) -> dict[str, str]:
    message = {"message": waiting.message} if waiting.message else {}
    return {"reason": waiting.reason, **message}


def _terminated(run: Run) -> dict[str, Any]:
    assert run.finished_at is not None
    # The status says only that a removed run was removed.
    is_known = bool(run.id)
    return {
        **({"containerID": f"hotmap://{run.id}"} if is_known else {}),
        "exitCode": run.exit_code,
        "reason": run.reason,
        **({"message": run.message} if run.message else {}),
        "startedAt": rfc3339(run.started_at) if is_known else None,
        "finishedAt": rfc3339(run.finished_at) if is_known else None,
    }
