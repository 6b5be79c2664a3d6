"""No background task is without an owner: one that ends unexpectedly shows, and starts again.

Statically: which code may start a task or a timer at all. At run time: each task that a running
controller has is made to fail where it waits.
"""

from __future__ import annotations

import ast
import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.controller.world import World

import hotmap
from hotmap.controller.reconcile import reconcile
from hotmap.controller.run import Controller
from hotmap.controller.settings import AlertSettings, PodCheckSettings, WebhookSettings
from hotmap.core.decide.decide import decide as real_decide
from hotmap.core.decide.decision import Decision
from hotmap.core.decide.snapshot import Snapshot
from hotmap.kube.supervisor import STEADY_AFTER, Supervisor

_SOURCE = Path(hotmap.__file__).parent

#: Calls that start something which nothing awaits by itself.
_STARTS = {"create_task", "ensure_future", "call_later", "call_at", "run_coroutine_threadsafe"}

#: Who may do that in the controller and below it, and who owns what was started.
_OWNERS = {
    ("kube/supervisor.py", "start"): "the supervisor itself",
    ("kube/workqueue.py", "_wake"): "the timer of a queue, which it cancels",
    ("kube/leaderelection.py", "_run_while_leading"): "awaits both tasks, and raises their errors",
    ("controller/startup.py", "wait_for_apiserver"): "awaits the request, or cancels it",
    ("controller/leadership.py", "start"): "the terms, which `Controller.run` awaits",
    ("controller/leadership.py", "wait_until_acting_or_warm"): "cancels both at the end",
    ("controller/reconcile/job_recreation.py", "_start_tries"): "a TaskGroup, in a supervised task",
    ("controller/report/pod_checks.py", "run"): "a TaskGroup, in a supervised task",
    ("controller/report/pod_checks.py", "run_agent_checks"): "a TaskGroup, in a supervised task",
    ("kube/exec_plugin.py", "_log_in"): "awaits the plugin, or leaves its result to the next call",
    ("controller/watch/fan_outs.py", "_enqueue"): "the end of a pause, which a term cancels",
    ("kube/http/client.py", "_on_idle"): "a timer that closes idle connections",
    ("kube/http/client.py", "_close_idle"): "the same timer, again",
    ("kube/http/server.py", "on_message_complete"): "answers, ends with its connection",
    ("kube/http/server.py", "_restart_timer"): "a timer of one connection, which ends with it",
    ("controller/storage/record_shards.py", "_read_all"): "a TaskGroup, which is awaited at once",
}

#: Owners that start two.
_ONE_MORE = (
    ("kube/leaderelection.py", "_run_while_leading"),
    ("controller/leadership.py", "start"),
    ("controller/leadership.py", "wait_until_acting_or_warm"),
)

#: The tasks of a controller with an election, a webhook and alerts, for as long as it runs.
_EXPECTED = {
    *("refresh", "reconcile", "write records", "check records", "store watch progress"),
    *("check pods", "check agents", "report unreadable objects", "recreate jobs"),
    *("measure loop lag", "check keyring", "send change webhooks", "send alerts"),
    *("write Events", "watch leases", "discover rollouts"),
    *("watch configmaps", "watch secrets", "watch deployments", "watch statefulsets"),
    *("watch daemonsets", "watch cronjobs", "watch jobs", "watch replicasets", "watch pods"),
    "watch namespaces",
}


def starts() -> Iterator[tuple[str, str]]:
    """Find (file, function) of each call that starts a task or a timer."""
    for package in ("controller", "kube", "core"):
        for path in sorted((_SOURCE / package).rglob("*.py")):
            for function in ast.walk(ast.parse(path.read_text())):
                if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    continue
                for call in ast.walk(function):
                    name = getattr(getattr(call, "func", None), "attr", "")
                    if isinstance(call, ast.Call) and name in _STARTS:
                        yield str(path.relative_to(_SOURCE)), function.name


def test_tasks_and_timers_are_started_by_their_owners_only() -> None:
    """Everything else goes through `Supervisor.tasks().start`; no entry is out of date."""
    assert Counter(starts()) == Counter(dict.fromkeys(_OWNERS, 1)) + Counter(_ONE_MORE)


def supervised() -> dict[str, list[asyncio.Task[Any]]]:
    """Find the running supervised tasks, by name."""
    found: dict[str, list[asyncio.Task[Any]]] = {}
    for task in asyncio.all_tasks():
        coroutine = task.get_coro()
        if getattr(coroutine, "__qualname__", "") == Supervisor.run.__qualname__:
            found.setdefault(task.get_name(), []).append(task)
    return found


async def fail(task: asyncio.Task[Any]) -> None:
    """Let what a task waits for raise an error that nothing expects."""
    while True:
        waiter: asyncio.Future[Any] | None = task._fut_waiter  # type: ignore[attr-defined]
        if isinstance(waiter, asyncio.Task):
            task = waiter
        elif waiter is not None and not waiter.done():
            waiter.set_exception(RuntimeError("unexpected"))
            return
        else:
            await asyncio.sleep(0)  # it is about to go on


def controller(world: World) -> Controller:
    url = "http://127.0.0.1:9/"
    webhooks = WebhookSettings(change_url=url, alert=AlertSettings(url=url))
    return world.controller(
        identity="a", webhooks=webhooks, pod_checks=PodCheckSettings(rate=100.0)
    )


async def started(world: World, running: Controller) -> dict[str, list[asyncio.Task[Any]]]:
    """Wait until every task of a controller runs, that of the Events included."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations={"hotmap.dev/follow": "auto", "hotmap.dev/settle": "no time"})
    await world.event("InvalidAnnotation")
    await world.quiet(running)
    for _ in range(20):  # until nothing is being written, where an error concerns that alone
        await asyncio.sleep(0.5)
    return supervised()


async def test_tasks_that_fail_are_reported_counted_and_restarted(world: World) -> None:
    """All kinds at once: each is named, the controller is unhealthy at once, and recovers."""
    async with controller(world) as running:
        found = await started(world, running)
        assert found.keys() >= _EXPECTED
        assert running._health()[0]
        failed = {name: found[name][0] for name in sorted(_EXPECTED)}
        for task in failed.values():
            await fail(task)
        await asyncio.sleep(0.01)
        healthy, document = running._health()
        assert not healthy
        assert document["failingTasks"] == dict.fromkeys(failed, "RuntimeError")
        assert running.supervisor.restarts == dict.fromkeys(failed, 1)
        await asyncio.sleep(STEADY_AFTER + 5)
        healthy, document = running._health()
        assert healthy, document
        assert not [name for name, task in failed.items() if task.done()]
        await world.edit(LEVEL="debug")
        await world.rollout()


@pytest.mark.internal_errors
async def test_internal_error_about_one_workload_costs_only_itself(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are rolled out, every task goes on, and it is tried again until it succeeds."""
    failing = True

    def decide(snapshot: Snapshot, *arguments: Any) -> Decision:
        if failing and snapshot.consumer.key.name == "evil":
            raise RuntimeError("unexpected")
        return real_decide(snapshot, *arguments)

    await world.config_map(LEVEL="info")
    for name in ("evil", "web"):
        await world.workload(name)
    async with world.controller() as running:
        await world.quiet(running)
        monkeypatch.setattr(reconcile, "decide", decide)
        await world.edit(LEVEL="debug")
        await world.rollout("web")
        assert await world.revision("evil") == ""
        assert not running.supervisor.restarts
        failing = False
        await world.rollout("evil")
