"""The steps of the demo; every line that is printed was checked."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time

from rich.console import Console

from hotmap.cli.demo.cluster import DemoCluster, PodSnapshot
from hotmap.cli.demo.manifests import WORKLOADS, make_manifests
from hotmap.cli.demo.timeline import Timeline
from hotmap.cli.stop_signals import on_stop_signal

__all__ = ["run_demo"]

_CONFIG = "app-config"

#: Seconds of quiet after which a controller has written its state: one that is killed sooner may
#: have to replace pods, since it cannot know what they started with.
_QUIET = 2.5

#: Seconds that pods run before the last edit of their ConfigMap that a controller sees before it
#: is killed. Its successor cannot tell pods from about that time from those without a controller.
_AGE = 3.0


async def run_demo(console: Console | None) -> int:
    """Run the demo; returns 0 only if every check passed, as an exit status.

    Prints lines on the console as they happen, or a JSON document at the end if there is none.
    SIGINT, SIGTERM and SIGHUP end it early, and it leaves nothing behind.

    Raises:
        SettingsError: this machine does not allow what the local plane needs.
        HotmapError: the control plane or the controller did not start.
    """
    running = asyncio.create_task(_run(console))
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        received.append(number)
        running.cancel()

    on_stop_signal(stop)
    await asyncio.wait((running,))
    return 128 + received[0] if received else running.result()


async def _run(console: Console | None) -> int:
    timeline = Timeline(console)
    async with DemoCluster() as cluster:
        scenario = _Scenario(cluster, timeline)
        await scenario.set_up()
        await scenario.mounted_file()
        await scenario.environment()
        await scenario.undo()
        await scenario.agent()
        await scenario.refusal()
        await scenario.downtime()
    if console is None:
        json.dump(_document(timeline), sys.stdout, indent=2, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        timeline.print_line("")
        results = [line.passed for line in timeline.lines if line.after is not None]
        if timeline.passed:
            summary, style = f"all {len(results)} checks passed", "bold green"
        else:
            summary, style = f"{results.count(False)} of {len(results)} checks FAILED", "bold red"
        timeline.print_line(f"{summary} in {timeline.elapsed:.1f} s", style=style)
    return 0 if timeline.passed else 1


def _document(timeline: Timeline) -> dict[str, object]:
    return {
        "passed": timeline.passed,
        "seconds": round(timeline.elapsed, 3),
        "lines": [
            {"heading": line.text}
            if line.after is None
            else {
                "after": round(line.after, 4),
                "label": line.label,
                "text": line.text,
                "passed": line.passed,
            }
            for line in timeline.lines
        ],
    }


def _short(reason: str) -> str:
    """Remove from a reason the name that all lines of the demo have in common."""
    for source in ("app-config", "clock-config"):
        reason = reason.replace(f"ConfigMap default/{source} ", "")
    return reason


class _Scenario:
    def __init__(self, cluster: DemoCluster, timeline: Timeline) -> None:
        self._cluster = cluster
        self._timeline = timeline
        #: The expected pod of each workload.
        self._pods: dict[str, PodSnapshot] = {}
        self._debug_replica_set = ""
        #: When all workloads ran, in seconds since the begin.
        self._running_at = 0.0

    async def set_up(self) -> None:
        """Start the workloads and the controller."""
        cluster, timeline = self._cluster, self._timeline
        timeline.heading("Set up: a control plane, a node and five workloads on this machine")
        text = f"API server, workload controllers, kubelet: {cluster.server}"
        timeline.add(cluster.plane_ready_after, "ready", text)
        await cluster.apply(make_manifests())
        for app in WORKLOADS:
            if (pod := await self._running(app)) is not None:
                self._pods[app] = pod
        text = "; ".join(f"{app}: {use}" for app, use in WORKLOADS.items())
        self._running_at = timeline.elapsed
        timeline.add(self._running_at, "running", text, passed=len(self._pods) == len(WORKLOADS))
        await cluster.start_controller()
        for app in WORKLOADS:
            await cluster.decision(app, since=0, about="now tracking")

    async def mounted_file(self) -> None:
        """Edit a mounted file: no pod restarts."""
        self._timeline.heading("Edit: greeting becomes “good morning”")
        began = await self._cluster.edit(_CONFIG, {"greeting": "good morning"})
        await self._decided("site", began, about="refreshing mounted files")
        await self._printed("site", self._pods["site"], "greeting is good morning", began)
        if not await self._same_processes("site"):
            self._timeline.add(self._since(began), "loaded", "site restarted", passed=False)
        await self._check_unaffected(began, "api", "batch", unrelated="clock")

    async def environment(self) -> None:
        """Edit an environment variable: only the workload that uses it is rolled out."""
        self._timeline.heading("Edit: LOG_LEVEL becomes DEBUG")
        began = await self._cluster.edit(_CONFIG, {"LOG_LEVEL": "DEBUG"})
        await self._decided("api", began, about="rolling out")
        await self._rolled("api", "LOG_LEVEL is DEBUG", began)
        await self._check_unaffected(began, "site", "batch", unrelated="clock")

    async def undo(self) -> None:
        """Revert the edit."""
        await asyncio.sleep(self._running_at + _AGE - self._timeline.elapsed)
        self._timeline.heading("Revert: LOG_LEVEL becomes INFO again")
        began = await self._cluster.edit(_CONFIG, {"LOG_LEVEL": "INFO"})
        self._debug_replica_set = self._pods["api"].replica_set
        await self._decided("api", began, about="rolling out")
        await self._rolled("api", "LOG_LEVEL is INFO", began)
        await self._check_unaffected(began, "site", "batch", unrelated="clock")

    async def agent(self) -> None:
        """Edit what an agent reloads: the same process has it, and proof comes from there."""
        self._timeline.heading("Edit: routes become v2, for a process that reloads at SIGHUP")
        began = await self._cluster.edit("proxy-config", {"routes": "v2"})
        await self._printed("proxy", self._pods["proxy"], "serving v2", began)
        await self._has_status("proxy", "current", began)

    async def refusal(self) -> None:
        """Make a broken edit, and correct it: the agent lets only the latter through."""
        self._timeline.heading("Edit: routes become broken, then v3")
        began = await self._cluster.edit("proxy-config", {"routes": "broken"})
        await self._has_status("proxy", "refused", began)
        output = await self._cluster.output(self._pods["proxy"].name)
        serving = [line for _, line in output if line.startswith("serving ")]
        self._timeline.add(
            self._since(began),
            "unaffected",
            "proxy still serves v2; its agent has not let the broken file through",
            passed=serving[-1:] == ["serving v2"] and await self._same_processes("proxy"),
        )
        began = await self._cluster.edit("proxy-config", {"routes": "v3"})
        await self._printed("proxy", self._pods["proxy"], "serving v3", began)
        await self._has_status("proxy", "current", began)

    async def downtime(self) -> None:
        """Edit while the controller is down: it finds the change when it starts."""
        self._timeline.heading("Edit while the controller is down: LOG_LEVEL becomes DEBUG")
        await asyncio.sleep(_QUIET)
        await self._cluster.kill_controller()
        began = await self._cluster.edit(_CONFIG, {"LOG_LEVEL": "DEBUG"})
        await self._cluster.start_controller()
        await self._decided("api", began, about="rolling out")
        await self._rolled("api", "LOG_LEVEL is DEBUG", began)
        replica_set = self._pods["api"].replica_set
        self._timeline.add(
            self._since(began),
            "reused",
            f"the ReplicaSet that already had this content: {replica_set}",
            passed=replica_set == self._debug_replica_set,
        )
        # The new controller evaluates all of them, so any reason will do.
        others = [app for app in WORKLOADS if app != "api"]
        await self._check_unaffected(began, *others, about="", why="run in the same processes")

    # -- checks --------------------------------------------------------------------------------

    async def _running(self, app: str, *, other_than: str = "") -> PodSnapshot | None:
        """Wait until a workload has exactly one pod, which is running and is not `other_than`."""

        async def find() -> PodSnapshot | None:
            pods = await self._cluster.pods(app)
            if len(pods) == 1 and pods[0].running and pods[0].uid != other_than:
                return pods[0]
            return None

        return await self._cluster.wait_for(find)

    async def _decided(self, app: str, began: float, *, about: str) -> None:
        decided = await self._cluster.decision(app, since=began, about=about)
        if decided is None:
            self._timeline.add(self._since(began), "decided", f"no decision on {app}", passed=False)
        else:
            self._timeline.add(decided.at - began, "decided", f"{app}: {_short(decided.reason)}")

    async def _printed(self, app: str, pod: PodSnapshot, text: str, began: float) -> None:
        """Wait for a line of a pod's output, and show when it was printed."""

        async def find() -> float | None:
            for at, line in await self._cluster.output(pod.name):
                if line == text and at >= began:
                    return at
            return None

        at = await self._cluster.wait_for(find)
        label = "loaded"
        if at is None:
            message = f"{app} did not print “{text}”"
            self._timeline.add(self._since(began), label, message, passed=False)
        else:
            self._timeline.add(at - began, label, f"{app} printed “{text}” in pod {pod.name}")

    async def _has_status(self, app: str, state: str, began: float) -> None:
        """Wait for a state of a workload, as `hotmap status` shows it, and show why."""

        async def find() -> str | None:
            found = await self._cluster.status(app)
            return found[1] if found[0] == state else None

        reason = await self._cluster.wait_for(find)
        if reason is None:
            found = ": ".join(await self._cluster.status(app))
            text = f"{app} is not {state}: {found}"
            self._timeline.add(self._since(began), "status", text, passed=False)
            return
        text = f"{app}: {state}; {reason.partition('; see ')[0]}"
        self._timeline.add(self._since(began), "status", text)

    async def _rolled(self, app: str, text: str, began: float) -> None:
        """Wait for the new pod of a workload and for what it prints when it starts."""
        pod = await self._running(app, other_than=self._pods[app].uid)
        if pod is None:
            message = f"{app} has no new pod"
            self._timeline.add(self._since(began), "loaded", message, passed=False)
            return
        self._pods[app] = pod
        await self._printed(app, pod, text, began)

    async def _check_unaffected(
        self,
        began: float,
        *apps: str,
        about: str = "is not used",
        unrelated: str | None = None,
        why: str = "",
    ) -> None:
        """Check that workloads still run in the same processes; print the controller's reason.

        `why` is printed instead of reasons that differ.

        `unrelated` uses another source, so the controller must not have evaluated it.
        """
        reasons: dict[str, list[str]] = {}
        passed = await self._same_processes(*apps)
        for app in apps:
            decided = await self._cluster.decision(app, since=began, about=about)
            passed = passed and decided is not None
            reason = _short(decided.reason) if decided else "no decision"
            reason = why if why and passed else reason
            reasons.setdefault(reason, []).append(app)
        if unrelated:
            evaluated = (d for d in self._cluster.decisions if d.consumer == unrelated)
            passed = passed and not any(decided.at >= began for decided in evaluated)
            passed = passed and await self._same_processes(unrelated)
            reasons["uses another ConfigMap"] = [unrelated]
        parts = []
        for reason, same in reasons.items():
            words = reason.replace("it does not", "they do not") if len(same) > 1 else reason
            parts.append(f"{', '.join(same)}: {words}")
        text = "; ".join(parts)
        self._timeline.add(self._since(began), "unaffected", text, passed=passed)

    async def _same_processes(self, *apps: str) -> bool:
        """Return whether workloads still run in the same processes."""
        for app in apps:
            now = [(pod.uid, pod.restarts) for pod in await self._cluster.pods(app)]
            if now != [(self._pods[app].uid, self._pods[app].restarts)]:
                return False
        return True

    @staticmethod
    def _since(began: float) -> float:
        return time.time() - began
