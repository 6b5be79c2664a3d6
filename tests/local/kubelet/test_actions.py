"""What happens to a pod's containers next, decided without touching any."""

from __future__ import annotations

from typing import Any

import pytest

from hotmap.local.kubelet.actions import (
    BackOff,
    PodActions,
    Run,
    compute_pod_actions,
    is_backing_off,
    next_back_off,
)

RUNNING = Run("r", 0, 100.0)
DONE = RUNNING._replace(finished_at=110.0, exit_code=0)
FAILED = RUNNING._replace(finished_at=110.0, exit_code=1)


def spec(policy: str = "Always", *, init: list[Any] | None = None) -> dict[str, Any]:
    return {
        "restartPolicy": policy,
        "initContainers": init or [],
        "containers": [{"name": "a"}, {"name": "b"}],
    }


INIT = [{"name": "i1"}, {"name": "i2"}]
#: Their first container has a hook after its start.
HOOK = {"lifecycle": {"postStart": {"exec": {"command": ["true"]}}}}
HOOKED = {"restartPolicy": "Always", "containers": [{"name": "a", **HOOK}, {"name": "b"}]}
STARTING = RUNNING._replace(starting=True)
SIDECAR = [{"name": "s", "restartPolicy": "Always"}, {"name": "i"}]


@pytest.mark.parametrize(
    ("pod", "runs", "expected"),
    [
        (spec(), {}, PodActions(start=("a", "b"))),
        (spec(), {"a": RUNNING, "b": RUNNING}, PodActions()),
        (spec(), {"a": DONE, "b": RUNNING}, PodActions(start=("a",))),
        (HOOKED, {}, PodActions(start=("a",))),
        (HOOKED, {"a": STARTING}, PodActions()),
        (HOOKED, {"a": RUNNING}, PodActions(start=("b",))),
        (HOOKED, {"a": STARTING, "b": FAILED}, PodActions()),
        (spec("OnFailure"), {"a": DONE, "b": FAILED}, PodActions(start=("b",))),
        (spec("OnFailure"), {"a": DONE, "b": DONE}, PodActions(finished=True)),
        (spec("Never"), {"a": FAILED, "b": RUNNING}, PodActions()),
        (spec("Never"), {"a": FAILED, "b": DONE}, PodActions(finished=True)),
        (spec(init=INIT), {}, PodActions(start=("i1",))),
        (spec(init=INIT), {"i1": RUNNING}, PodActions()),
        (spec(init=INIT), {"i1": DONE}, PodActions(start=("i2",))),
        (spec(init=INIT), {"i1": DONE, "i2": DONE}, PodActions(start=("a", "b"))),
        (spec(init=INIT), {"i1": FAILED}, PodActions(start=("i1",))),
        (spec("Never", init=INIT), {"i1": FAILED}, PodActions(finished=True)),
        (spec(init=SIDECAR), {}, PodActions(start=("s",))),
        (spec(init=SIDECAR), {"s": STARTING}, PodActions()),
        (spec(init=SIDECAR), {"s": RUNNING}, PodActions(start=("i",))),
        (spec(init=SIDECAR), {"s": RUNNING, "i": DONE}, PodActions(start=("a", "b"))),
        (
            spec(init=SIDECAR),
            {"s": FAILED, "i": DONE, "a": RUNNING, "b": RUNNING},
            PodActions(start=("s",)),
        ),
        (
            spec("Never", init=SIDECAR),
            {"s": RUNNING, "i": DONE, "a": DONE, "b": DONE},
            PodActions(kill=("s",), finished=True),
        ),
    ],
    ids=[
        "a new pod starts all its containers",
        "a running pod is left alone",
        "Always restarts what succeeded",
        "a container with a hook after its start is the last to be started",
        "its hook is waited for",
        "the next container follows the end of the hook",
        "also one that is to be restarted",
        "OnFailure restarts only what failed",
        "OnFailure is over when all succeeded",
        "Never restarts nothing while another runs",
        "Never is over when all ended",
        "init containers come first, one at a time",
        "a running init container is waited for",
        "the next init container follows",
        "after the last init container the regular ones start",
        "a failed init container is run again",
        "with Never a failed init container ends the pod",
        "a sidecar is started in its place",
        "the hook of a sidecar is waited for",
        "a running sidecar lets the next one start",
        "sidecar and init done: the regular ones start",
        "a sidecar is restarted beside running containers",
        "sidecars are killed when the regular ones are done",
    ],
)
def test_actions_follow_from_spec_and_newest_runs(
    pod: dict[str, Any], runs: dict[str, Run], expected: PodActions
) -> None:
    """The next actions follow from the specification and the newest runs alone."""
    assert compute_pod_actions(pod, runs) == expected


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ({}, ("b",)),
        ({"a": FAILED}, ("b",)),
        ({"a": FAILED, "b": FAILED}, ("b",)),
        ({"a": STARTING}, ()),
    ],
    ids=["it cannot be started", "it backs off", "it backs off later", "its hook runs"],
)
def test_container_with_a_hook_holds_others_up_only_while_the_hook_runs(
    runs: dict[str, Run], expected: tuple[str, ...]
) -> None:
    """As in Kubernetes, which goes on to the next container when one cannot be started."""
    assert compute_pod_actions(HOOKED, runs, {"a"}) == PodActions(start=expected)


def test_what_was_tried_is_not_started_again_in_the_same_sync() -> None:
    assert compute_pod_actions(spec(init=INIT), {"i1": FAILED}, {"i1"}) == PodActions()
    ephemeral = {**spec(), "ephemeralContainers": [{"name": "e"}]}
    assert compute_pod_actions(ephemeral, {}, {"e", "a"}) == PodActions(start=("b",))


def test_back_off_doubles_up_to_five_minutes() -> None:
    """A container that always crashes at once waits 10 s, 20 s, … 300 s before its restarts."""
    now, waits = 1000.0, []
    back_off = next_back_off(None, now)
    for _ in range(7):
        assert is_backing_off(back_off, now, now)
        waits.append(back_off.duration)
        now += back_off.duration
        back_off = next_back_off(back_off, now)
    assert waits == [10, 20, 40, 80, 160, 300, 300]


def test_first_restart_is_immediate() -> None:
    """A container that has not been restarted yet does not wait."""
    assert not is_backing_off(None, 100.0, 100.0)


def test_back_off_ends_after_wait() -> None:
    """A container waits from its end on, no longer than the duration."""
    known = BackOff(20.0, 100.0)
    assert is_backing_off(known, 150.0, 169.9)
    assert not is_backing_off(known, 150.0, 170.0)


def test_back_off_is_reset_after_ten_minutes() -> None:
    """A container that crashes after more than 10 min starts from the beginning."""
    known = BackOff(300.0, 100.0)
    assert not is_backing_off(known, 701.0, 701.0)
    assert next_back_off(known, 701.0) == BackOff(10.0, 701.0)
    assert next_back_off(known, 700.0) == BackOff(300.0, 700.0)
