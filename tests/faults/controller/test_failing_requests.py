"""Requests of some sort fail, at the start and in the run: things take longer, and all is done."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.control_plane import ControlPlane, Failure
from tests.support.scenario import Scenario

#: Minutes of waiting or of processor time, too much after each edit.
pytestmark = pytest.mark.slow

#: How the controller names itself to the API server; the scenario's own requests do not fail.
AGENT = "hotmap-controller"

#: Seconds by which an answer is late.
LATE = 1.0

#: (verb, plural, how its name begins) of everything that a controller asks at its start …
AT_THE_START = [
    ("watch", "configmaps", ""),
    ("watch", "secrets", ""),
    ("watch", "deployments.apps", ""),
    ("get", "leases.coordination.k8s.io", ""),
    ("create", "leases.coordination.k8s.io", ""),
    ("get", "secrets", "hotmap-key"),
    ("create", "secrets", ""),
    ("get", "secrets", "hotmap-state"),
]

#: … and what it asks when something changes. Watches are asked for since the server is restarted.
IN_THE_RUN = [
    ("watch", "configmaps", ""),
    ("watch", "secrets", ""),
    ("watch", "deployments.apps", ""),
    ("update", "leases.coordination.k8s.io", ""),
    ("patch", "deployments.apps", "web"),
    ("create", "events", ""),
    ("update", "secrets", "hotmap-state"),
]


def _fail(plane: ControlPlane, sorts: list[tuple[str, str, str]], code: int) -> list[Failure]:
    failures = []
    for verb, plural, name in sorts:
        # Once: pauses grow to 30 s, so that a second failure would only cost time.
        failure = plane.fail(verb, plural, code=code, times=1, name=name, agent=AGENT)
        failure.delay = 0.0 if code else LATE
        failures.append(failure)
    return failures


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(429, id="429", marks=pytest.mark.slow),
        pytest.param(500, id="500"),
        pytest.param(0, id="late", marks=pytest.mark.slow),
    ],
)
async def test_every_request_fails_at_first(
    plane: ControlPlane, podless_scenario: Scenario, code: int
) -> None:
    """Each sort of request is tried again until it is answered, in the run as at the start."""
    await podless_scenario.set_up()
    begun = _fail(plane, AT_THE_START, code)
    async with podless_scenario.controller("--leader-elect") as controller:
        await controller.ready()
        await podless_scenario.until(controller.leads, "it leads")
        await podless_scenario.wait_until_handled()
        failures = _fail(plane, IN_THE_RUN, code)
        await plane.stop()
        await plane.start()
        await podless_scenario.edit(LEVEL="debug")

        async def all_met() -> bool:
            return not any(failure.left for failure in failures)

        await podless_scenario.wait_for_rollouts(within=120)
        await podless_scenario.until(all_met, "every sort of request has failed", within=120)
        await podless_scenario.check_invariants({"web": 1})
    assert not any(item.left for item in begun)


@pytest.mark.slow
async def test_failing_pod_list_is_retried(plane: ControlPlane, shop: Scenario) -> None:
    """Their starts decide whether a rollout is needed, so the decision waits for them."""
    await shop.set_up(replicas=2)
    async with shop.started_controller() as controller:
        assert await controller.stop() == 0
    await shop.edit(LEVEL="debug")
    await shop.wait_until_pods_are_older()
    image = {"metadata": {"annotations": {"shop.test/version": "2"}}}
    await shop.patch("Deployment", "web", {"spec": {"template": image}}, manager="helm")
    await shop.wait_for_rollout_end()
    failure = plane.fail("list", "pods", code=500, times=6, agent=AGENT)
    async with shop.controller() as controller:
        await controller.ready()
        await controller.wait_for_output("Deployment shop/web: reconcile failed, retrying in ")
        await shop.check_invariants({"web": 0})
    assert failure.met > 4  # more than the tries of one call


async def test_rejected_events_delay_nothing(
    plane: ControlPlane, podless_scenario: Scenario
) -> None:
    """An Event is a courtesy: it holds nothing up, and the log says which were not written."""
    await podless_scenario.set_up()
    plane.fail("*", "events", code=500, agent=AGENT)
    async with podless_scenario.started_controller() as controller:
        for times in (1, 2):
            await podless_scenario.edit(LEVEL=f"v{times}")
            await podless_scenario.wait_for_rollouts(times=times)
        await podless_scenario.check_invariants({"web": 2})
    assert " Events: the API server did not accept them in time" in controller.log()


async def test_failing_record_writes_are_retried(
    plane: ControlPlane, podless_scenario: Scenario
) -> None:
    """Rollouts go on, the log says what is not written, and it is written once that is possible."""
    await podless_scenario.set_up()
    async with podless_scenario.started_controller() as controller:
        plane.fail("*", "secrets", code=500, name="hotmap-state", agent=AGENT)
        plane.fail("create", "secrets", code=500, agent=AGENT)
        for times in (1, 2):
            await podless_scenario.edit(LEVEL=f"v{times}")
            await podless_scenario.wait_for_rollouts(times=times)
        await controller.wait_for_output("failed to write the records of 1 workload; retrying: ")
        plane.failures.clear()
        await podless_scenario.check_invariants({"web": 2})
    async with podless_scenario.controller() as controller:
        await controller.ready()
        await podless_scenario.check_invariants({"web": 2})


async def test_failing_lease_writes_are_retried(
    plane: ControlPlane, podless_scenario: Scenario
) -> None:
    """For less than its deadline it goes on leading; beyond, it stops acting, and begins again."""
    await podless_scenario.set_up()
    async with podless_scenario.started_controller("--leader-elect") as controller:
        plane.fail("*", "leases.coordination.k8s.io", code=429, agent=AGENT)
        await podless_scenario.edit(LEVEL="debug")
        await podless_scenario.wait_for_rollouts()
        await controller.wait_for_output("lost leadership")
        await podless_scenario.edit(LEVEL="trace")
        await asyncio.sleep(0.3)  # more than the settle time
        assert len(podless_scenario.rollouts.of("web")) == 1
        plane.failures.clear()
        await podless_scenario.wait_for_rollouts(times=2, within=120)
        await podless_scenario.check_invariants({"web": 2})
