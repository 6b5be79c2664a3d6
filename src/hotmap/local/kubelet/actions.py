"""What to do with a pod's containers now: pod and container runs → actions; pure.

kubernetes: pkg/kubelet/kuberuntime/kuberuntime_manager.go (computePodActions,
computeInitContainerActions, doBackOff). `restart_policy` says what is restarted, `sync` carries the
actions out, and `status` reports the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hotmap.local.kubelet.restart_policy import (
    is_sidecar,
    restarts_all,
    should_restart,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

#: Seconds; kubernetes: pkg/kubelet/kubelet.go, containerBackOffPeriod and MaxContainerBackOff.
BACK_OFF_FIRST = 10.0
BACK_OFF_LAST = 300.0
#: Seconds after its last back-off at which a container counts as healthy again: twice the last
#: (kubernetes: client-go/util/flowcontrol/backoff.go, hasExpired).
BACK_OFF_RESET = 2 * BACK_OFF_LAST


#: Seconds until the kubelet notices that a container was started, or could not be, and asks whether
#: it is ready, or starts it again or backs off (kubernetes: pkg/kubelet/kubelet.go,
#: genericPlegRelistPeriod).
RELIST_PERIOD = 1.0


class Run(NamedTuple):
    """One run of a container, the current or the last one; times are POSIX seconds.

    `finished_at` and `exit_code` are None while it runs. `restarts` counts the runs before it.
    `starting` while its postStart hook runs: it counts as not started, and no container after it is
    started. `started` and `ready` are what its startup and readiness probes say, True without them.
    `is_earlier` if an earlier kubelet ran it (see `earlier_runs`). `image` is what it was started
    with, empty where that is not known.
    """

    id: str
    restarts: int
    started_at: float
    started: bool = True
    ready: bool = True
    starting: bool = False
    finished_at: float | None = None
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    is_earlier: bool = False
    image: str = ""

    @property
    def running(self) -> bool:
        return self.finished_at is None

    @property
    def succeeded(self) -> bool:
        return self.exit_code == 0


class PodActions(NamedTuple):
    """The containers to start, in order, and whether what still runs is to be killed.

    `finished` means that nothing is started again: the pod has succeeded or failed. Those in
    `replace` run with another image than the pod has now: they are killed and started again,
    whatever the restart policy says. Those to `reset` are removed one after the other, so that the
    pod starts again.
    """

    start: tuple[str, ...] = ()
    kill: tuple[str, ...] = ()
    finished: bool = False
    reset: tuple[str, ...] = ()
    replace: tuple[str, ...] = ()


class BackOff(NamedTuple):
    """How long a container waits after a crash: `duration` seconds, decided at `updated_at`."""

    duration: float
    updated_at: float


def compute_pod_actions(
    spec: Mapping[str, Any], runs: Mapping[str, Run], tried: Collection[str] = ()
) -> PodActions:
    """Choose which containers to start now.

    `runs` holds the newest run of each container that ever ran. Those that were `tried` in this
    sync are not started again in it. Init containers run one after the other, each to success; a
    native sidecar (an init container that is always restarted) only has to have been started. When
    all regular containers are done for good, the sidecars that still run are killed. Back-off is
    not considered here: see `is_backing_off`.
    """
    if causes := _causes_of_reset(spec, runs):
        return PodActions(reset=_reset_order(spec, runs, causes))
    regular = [container["name"] for container in spec["containers"]]
    if _is_finished(spec, runs):
        return PodActions(kill=_still_running(runs), finished=True)
    if changed := _changed(spec, runs):
        return PodActions(replace=changed)
    # Ephemeral containers are started once, whether or not the pod is initialized.
    debuggers = [c["name"] for c in spec.get("ephemeralContainers") or () if c["name"] not in runs]
    ephemeral = [name for name in debuggers if name not in tried]
    if not _have_begun(regular, runs):
        start, initialized = _init_actions(spec, runs)
        start = tuple(name for name in start if name not in tried)
        if not initialized:
            return PodActions(start=(*ephemeral, *start))
    else:
        start = _to_start(spec, filter(is_sidecar, spec.get("initContainers") or ()), runs, tried)
    regular_start = _to_start(spec, spec["containers"], runs, tried)
    return PodActions(start=(*ephemeral, *start, *regular_start))


def next_back_off(known: BackOff | None, finished_at: float) -> BackOff:
    """Choose the wait after the next crash of a container that is restarted now.

    10 s, doubled at each restart up to 300 s, from the start again after 10 min without one.
    """
    if known is None or finished_at - known.updated_at > BACK_OFF_RESET:
        return BackOff(BACK_OFF_FIRST, finished_at)
    return BackOff(min(known.duration * 2, BACK_OFF_LAST), finished_at)


def is_backing_off(known: BackOff | None, finished_at: float, now: float) -> bool:
    """Return whether a container that ended at `finished_at` still has to wait."""
    if known is None or finished_at - known.updated_at > BACK_OFF_RESET:
        return False
    return now - finished_at < known.duration


def is_initialized(spec: Mapping[str, Any], runs: Mapping[str, Run]) -> bool:
    """Return whether the regular containers may run: all init containers done, sidecars started."""
    if _have_begun([container["name"] for container in spec["containers"]], runs):
        return True
    for container in spec.get("initContainers") or ():
        run = runs.get(container["name"])
        if run is None or not (run.succeeded or (is_sidecar(container) and _is_up(run))):
            return False
    return True


def is_restarting_all(spec: Mapping[str, Any], runs: Mapping[str, Run]) -> bool:
    """Return whether a container has ended in a way that restarts all of them (KEP-5532)."""
    return bool(_causes_of_reset(spec, runs))


def has_failed_for_good(
    spec: Mapping[str, Any], container: Mapping[str, Any], run: Run | None
) -> bool:
    """Return whether a container has failed and is not run again."""
    return (
        run is not None
        and not run.running
        and not run.succeeded
        and not should_restart(spec, container, run.exit_code)
    )


def _causes_of_reset(spec: Mapping[str, Any], runs: Mapping[str, Run]) -> set[str]:
    containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
    return {
        container["name"]
        for container in containers
        if (run := runs.get(container["name"])) and restarts_all(container, run.exit_code)
    }


def _reset_order(
    spec: Mapping[str, Any], runs: Mapping[str, Run], causes: set[str]
) -> tuple[str, ...]:
    """Order what has run: what caused the reset comes last (getContainersToReset)."""
    known = [
        container["name"]
        for container in [*spec["containers"], *(spec.get("initContainers") or ())]
        if container["name"] in runs
    ]
    return tuple(sorted(known, key=lambda name: name in causes))


def _init_actions(spec: Mapping[str, Any], runs: Mapping[str, Run]) -> tuple[tuple[str, ...], bool]:
    """Return the init containers to start, and whether the regular ones may follow at once."""
    start: list[str] = []
    for container in spec.get("initContainers") or ():
        name, run = container["name"], runs.get(container["name"])
        if is_sidecar(container):
            if _needs_start(spec, container, run):
                start.append(name)
            if run is None or not _is_up(run):
                # The next one waits until this one is observed running.
                return tuple(start), False
            continue
        if run is not None and run.succeeded:
            continue
        if _needs_start(spec, container, run):
            start.append(name)
        return tuple(start), False
    return tuple(start), True


def _changed(spec: Mapping[str, Any], runs: Mapping[str, Run]) -> tuple[str, ...]:
    """Choose what runs with another image; a hook is waited for (containerChanged)."""
    containers = [*filter(is_sidecar, spec.get("initContainers") or ()), *spec["containers"]]
    return tuple(
        container["name"]
        for container in containers
        if (run := runs.get(container["name"])) is not None
        and run.running
        and not run.starting
        and run.image not in ("", container.get("image", ""))
    )


def _have_begun(names: Iterable[str], runs: Mapping[str, Run]) -> bool:
    """Whether any of these ran since the init containers did."""
    return any(name in runs and not runs[name].is_earlier for name in names)


def _is_up(run: Run) -> bool:
    return run.running and run.started and not run.starting


def _to_start(
    spec: Mapping[str, Any],
    containers: Iterable[Mapping[str, Any]],
    runs: Mapping[str, Run],
    tried: Collection[str],
) -> tuple[str, ...]:
    """Choose what to start, in order: up to the first hook, whose end is waited for.

    One that was tried and is not running, since it backs off or cannot be started, has no hook to
    wait for.

    kubernetes: pkg/kubelet/kuberuntime, SyncPod and startContainer.
    """
    start: list[str] = []
    for container in containers:
        run = runs.get(container["name"])
        if run is not None and run.starting:
            break
        if container["name"] not in tried and _needs_start(spec, container, run):
            start.append(container["name"])
            if start_hook(container):
                break
    return tuple(start)


def start_hook(container: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the hook that runs after the start of a container, if it has one."""
    return (container.get("lifecycle") or {}).get("postStart")


def _needs_start(spec: Mapping[str, Any], container: Mapping[str, Any], run: Run | None) -> bool:
    if run is None:
        return True
    return not run.running and should_restart(spec, container, run.exit_code)


def _is_finished(spec: Mapping[str, Any], runs: Mapping[str, Run]) -> bool:
    if any(
        has_failed_for_good(spec, container, runs.get(container["name"]))
        for container in spec.get("initContainers") or ()
    ):
        return True
    return all(
        (run := runs.get(container["name"])) is not None
        and not run.running
        and not _needs_start(spec, container, run)
        for container in spec["containers"]
    )


def _still_running(runs: Mapping[str, Run]) -> tuple[str, ...]:
    return tuple(name for name, run in runs.items() if run.running)
