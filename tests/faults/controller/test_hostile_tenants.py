"""One namespace's owner cannot stop hotmap for the others; see `tests/support/hostile_tenants`.

During and after each attack the others' edits are rolled out, every task of the controller runs,
`/healthz` says so, and its memory grows by less than 64 MiB at its peak. How much later the others'
rollouts come is measured by `python -m benchmarks tenants`; nothing here depends on a machine's
speed.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.controller_process import ControllerProcess
from tests.support.hostile_tenants import ATTACKS, LEFT_OUT, SHORT_LIVED
from tests.support.restless_tenants import RESTLESS, played
from tests.support.scenario import Object, Scenario

from hotmap.core.errors import BadRequest, Invalid
from hotmap.kube.resources import BY_KIND, EVENTS, NAMESPACES

EVIL = "evil"

#: One of each sort: a value that cannot be read, what costs time, what costs memory, and what wants
#: to be printed. `make test-slow` plays the others; `tests/core` has the bounds of all.
QUICK = ("invalid time", "slow expressions", "many containers", "forged lines")

#: Seconds for which a tenant goes on writing, at least.
RESTLESS_FOR = 6.0

#: MiB.
MOST_MEMORY = 64

#: Characters that no line of a log has but at its end.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u202e]")

#: A term that ended, and one that ended since the API server did not respond for its whole time.
_LOST = re.compile(r"lost leadership")
_LOST_TO_API_SERVER = re.compile(r"(lost leadership): could not renew .* did not respond within")


def memory(pid: int, field: str) -> float:
    """Read a size of a process in MiB: VmRSS, or VmHWM for the largest that it ever had."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"no {field}")


async def attack(podless_scenario: Scenario, objects: list[Object], *, delete: bool) -> int:
    """Create objects in a namespace of their own, several at once; returns how many."""
    waiting, created = iter(objects), 0

    async def write() -> None:
        nonlocal created
        for body in waiting:
            resource, name = BY_KIND[body["kind"]], body["metadata"]["name"]
            # What the API server refuses costs the controller nothing.
            with suppress(BadRequest, Invalid):
                await podless_scenario.client.create(resource, EVIL, body, type=Object)
                created += 1
                if delete:
                    await podless_scenario.client.delete(resource, EVIL, name)

    await asyncio.gather(*(write() for _ in range(8)))
    return created


async def warnings_about(podless_scenario: Scenario, name: str) -> list[str]:
    """List the Warning Events about one workload of the tenant, however often each was counted."""
    events = await podless_scenario.client.list_page(EVENTS, EVIL, type=Object)
    return [
        event["message"]
        for event in events.items
        if event["type"] == "Warning" and event["involvedObject"]["name"] == name
    ]


async def is_healthy(controller: ControllerProcess) -> bool:
    """Ask /healthz; the API server shares this process, so the answer may be read late."""
    health = json.loads(await controller.get("/healthz"))
    return bool(health["healthy"]) and not health["failingTasks"]


async def longest_hold(controller: ControllerProcess) -> str:
    """Return the bucket of the longest time for which the event loop was held, in seconds."""
    page = await controller.get("/metrics")
    buckets = re.findall(r'^hotmap_event_loop_lag_seconds_bucket{le="(.*)"} (.*)$', page, re.M)
    total = float(buckets[-1][1])
    bound: str = next(bound for bound, count in buckets if float(count) == total)
    return f"≤ {bound} s"


@pytest.mark.parametrize(
    "name",
    [item if item in QUICK else pytest.param(item, marks=pytest.mark.slow) for item in ATTACKS],
)
async def test_hostile_tenant_does_not_stop_others(
    podless_scenario: Scenario, name: str, record_property: Callable[[str, object], None]
) -> None:
    """Others are served while it goes on, and after it."""
    await podless_scenario.set_up()
    namespace = {"metadata": {"name": EVIL}}
    await podless_scenario.client.create(NAMESPACES, None, namespace, type=Object)
    async with podless_scenario.controller("--leader-elect", also=EVIL) as controller:
        await controller.ready()
        pid = controller.process.pid
        before = memory(pid, "VmRSS")
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak counts from here on
        attacking = asyncio.create_task(
            attack(podless_scenario, ATTACKS[name](), delete=name in SHORT_LIVED)
        )
        for edit in range(1, 4):
            await podless_scenario.edit(LEVEL=f"during {edit}")
            await podless_scenario.wait_for_rollouts(times=edit)
            assert await is_healthy(controller)
        created = await attacking
        record_property("objects created", created)
        assert created, "the API server refused all of it"
        # Its pods are listed for this.
        await controller.get(f"/v1/status?workload=Deployment/{EVIL}/evil")
        await podless_scenario.edit(LEVEL="after")
        await podless_scenario.wait_for_rollouts(times=4)
        assert await is_healthy(controller)
        record_property("event loop held", await longest_hold(controller))
        if name in LEFT_OUT:
            warned = await podless_scenario.until(
                lambda: warnings_about(podless_scenario, EVIL), "its Warning is written"
            )
            assert len(warned) == 1
            assert "(limit " in warned[0]
        grown = memory(pid, "VmHWM") - before
        record_property("peak memory", f"+{grown:.1f} MiB")
        assert grown < MOST_MEMORY
        await expect_no_harm(controller)


@pytest.mark.parametrize(
    "name",
    [item if item in QUICK else pytest.param(item, marks=pytest.mark.slow) for item in RESTLESS],
)
async def test_restless_tenant_does_not_stop_others(
    podless_scenario: Scenario, name: str, record_property: Callable[[str, object], None]
) -> None:
    """Others are served while a tenant writes without end, and its own state follows."""
    await podless_scenario.set_up()
    client = podless_scenario.client
    await client.create(NAMESPACES, None, {"metadata": {"name": EVIL}}, type=Object)
    async with podless_scenario.controller("--leader-elect", also=EVIL) as controller:
        await controller.ready()
        pid = controller.process.pid
        before = memory(pid, "VmRSS")
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak counts from here on
        async with played(client, EVIL, name) as tenant:
            for edit in range(1, 5):
                # It goes on for longer than a source settles at most.
                await asyncio.sleep(RESTLESS_FOR / 4)
                await podless_scenario.edit(LEVEL=f"during {edit}")
                await podless_scenario.wait_for_rollouts(times=edit)
                assert await is_healthy(controller)
            await controller.get(f"/v1/status?workload=Deployment/{EVIL}/evil")
            record_property("writes", tenant.writes)
        await podless_scenario.edit(LEVEL="after")
        await podless_scenario.wait_for_rollouts(times=5)
        assert await is_healthy(controller)
        grown = memory(pid, "VmHWM") - before
        record_property("peak memory", f"+{grown:.1f} MiB")
        record_property("event loop held", await longest_hold(controller))
        record_property("log lines", controller.log().count("\n"))
        assert grown < MOST_MEMORY
        await expect_no_harm(controller)


async def expect_no_harm(controller: ControllerProcess) -> None:
    """The controller runs, leads, and has logged no fault of its own.

    The Lease is renewed on the event loop, which nothing holds for long. The API server is on the
    loop of this test, where an attack may hold it: that ends a term, and nothing else.
    """
    assert controller.is_running
    log = controller.log()
    assert _LOST.findall(log) == _LOST_TO_API_SERVER.findall(log)
    assert len(re.findall("became leader", log)) <= 1 + len(_LOST.findall(log))
    if not _LOST.search(log):
        assert await controller.leads()
    assert not re.search(r"internal error|ended unexpectedly", log), log[-3000:]
    assert not _CONTROL.search(log)
