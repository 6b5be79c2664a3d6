"""What happens in the demo, step by step; every line that is shown was looked at first."""

from __future__ import annotations

import json
import sys
import time

from rich.console import Console

from hotmap.cli.demo.manifests import MANIFESTS, WORKLOADS
from hotmap.cli.demo.stage import ObservedPod, Stage
from hotmap.cli.demo.timeline import Timeline

__all__ = ["run_demo"]

_CONFIG = "app-config"


async def run_demo(console: Console | None) -> int:
    """Play the demo; returns 0 only if everything that it shows is true.

    Prints lines on the console as they happen, or without one a JSON document at the end.

    Raises:
        SettingsError: this machine does not allow what the local plane needs.
        HotmapError: the plane or the controller did not come up.
    """
    timeline = Timeline(console)
    async with Stage() as stage:
        story = _Story(stage, timeline)
        await story.set_up()
        await story.mounted_file()
        await story.environment()
        await story.undo()
        await story.while_nobody_looked()
    if console is None:
        json.dump(_document(timeline), sys.stdout, indent=2, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        timeline.say("")
        shown = sum(1 for line in timeline.lines if line.after is not None)
        words = "all of it true" if timeline.true else "NOT ALL OF IT TRUE"
        style = "bold green" if timeline.true else "bold red"
        timeline.say(f"{shown} lines, {words}, in {timeline.elapsed:.1f} s.", style=style)
    return 0 if timeline.true else 1


def _document(timeline: Timeline) -> dict[str, object]:
    return {
        "true": timeline.true,
        "seconds": round(timeline.elapsed, 3),
        "lines": [
            {"heading": line.text}
            if line.after is None
            else {
                "after": round(line.after, 4),
                "label": line.label,
                "text": line.text,
                "true": line.true,
            }
            for line in timeline.lines
        ],
    }


def _short(reason: str) -> str:
    """Leave out of a reason what every line of the demo has in common."""
    for source in ("app-config", "clock-config"):
        reason = reason.replace(f"ConfigMap default/{source} ", "")
    return reason


class _Story:
    def __init__(self, stage: Stage, timeline: Timeline) -> None:
        self._stage = stage
        self._timeline = timeline
        #: The pods of each workload as they should still be.
        self._pods: dict[str, ObservedPod] = {}
        self._debug_replica_set = ""

    async def set_up(self) -> None:
        """Start everything and wait until four workloads run."""
        stage, timeline = self._stage, self._timeline
        timeline.heading("A control plane, a node and four workloads, on this machine alone")
        text = f"API server, workload controllers, kubelet: {stage.server}"
        timeline.note(stage.plane_ready_after, "ready", text)
        await stage.apply(MANIFESTS)
        for app in WORKLOADS:
            if (pod := await self._running(app)) is not None:
                self._pods[app] = pod
        text = "; ".join(f"{app}: {use}" for app, use in WORKLOADS.items())
        timeline.note(timeline.elapsed, "running", text, true=len(self._pods) == len(WORKLOADS))
        await stage.start_controller()
        for app in WORKLOADS:
            await stage.decision(app, since=0, about="first time")

    async def mounted_file(self) -> None:
        """An edit of a mounted file: nobody restarts."""
        self._timeline.heading("Edit: greeting becomes “good morning”")
        began = await self._stage.edit(_CONFIG, {"greeting": "good morning"})
        await self._decided("site", began, about="files refreshed")
        await self._printed("site", self._pods["site"], "greeting is good morning", began)
        if not await self._undisturbed("site"):
            self._timeline.note(self._since(began), "same", "process in site", true=False)
        await self._left_alone(began, "api", "batch", not_concerned="clock")

    async def environment(self) -> None:
        """An edit of an environment variable: only its user rolls."""
        self._timeline.heading("Edit: LOG_LEVEL becomes DEBUG")
        began = await self._stage.edit(_CONFIG, {"LOG_LEVEL": "DEBUG"})
        await self._decided("api", began, about="rollout")
        await self._rolled("api", "LOG_LEVEL is DEBUG", began)
        await self._left_alone(began, "site", "batch", not_concerned="clock")

    async def undo(self) -> None:
        """The edit is taken back."""
        self._timeline.heading("Undo: LOG_LEVEL becomes INFO again")
        began = await self._stage.edit(_CONFIG, {"LOG_LEVEL": "INFO"})
        self._debug_replica_set = self._pods["api"].replica_set
        await self._decided("api", began, about="rollout")
        await self._rolled("api", "LOG_LEVEL is INFO", began)
        await self._left_alone(began, "site", "batch", not_concerned="clock")

    async def while_nobody_looked(self) -> None:
        """A change while the controller is away is found when it is back."""
        self._timeline.heading("The controller is killed, LOG_LEVEL becomes DEBUG, it starts again")
        await self._stage.kill_controller()
        began = await self._stage.edit(_CONFIG, {"LOG_LEVEL": "DEBUG"})
        await self._stage.start_controller()
        await self._decided("api", began, about="rollout")
        await self._rolled("api", "LOG_LEVEL is DEBUG", began)
        replica_set = self._pods["api"].replica_set
        self._timeline.note(
            self._since(began),
            "same",
            f"content, so the same ReplicaSet as before: {replica_set}",
            true=replica_set == self._debug_replica_set,
        )
        # Looked at anew, all of them: by whatever reason, they are left alone.
        await self._left_alone(began, "site", "batch", "clock", about="")

    # -- what is looked at ---------------------------------------------------------------------

    async def _running(self, app: str, *, other_than: str = "") -> ObservedPod | None:
        """Wait until a workload has exactly one pod, running, and not a certain one."""

        async def look() -> ObservedPod | None:
            pods = await self._stage.pods(app)
            if len(pods) == 1 and pods[0].running and pods[0].uid != other_than:
                return pods[0]
            return None

        return await self._stage.until(look)

    async def _decided(self, app: str, began: float, *, about: str) -> None:
        decided = await self._stage.decision(app, since=began, about=about)
        if decided is None:
            self._timeline.note(
                self._since(began), "decided", f"nothing about {app} in time", true=False
            )
        else:
            self._timeline.note(decided.at - began, "decided", f"{app}: {_short(decided.reason)}")

    async def _printed(self, app: str, pod: ObservedPod, text: str, began: float) -> None:
        """Wait for a line of a pod's output, and show when it was printed."""

        async def look() -> float | None:
            for at, line in await self._stage.printed(pod.name):
                if line == text and at >= began:
                    return at
            return None

        at = await self._stage.until(look)
        label = "loaded"
        if at is None:
            message = f"{app} never says “{text}”"
            self._timeline.note(self._since(began), label, message, true=False)
        else:
            self._timeline.note(at - began, label, f"{app} says “{text}” in pod {pod.name}")

    async def _rolled(self, app: str, text: str, began: float) -> None:
        """Wait for the new pod of a workload and for what it prints at its start."""
        pod = await self._running(app, other_than=self._pods[app].uid)
        if pod is None:
            message = f"{app} has no new pod"
            self._timeline.note(self._since(began), "loaded", message, true=False)
            return
        self._pods[app] = pod
        await self._printed(app, pod, text, began)

    async def _left_alone(
        self,
        began: float,
        *apps: str,
        about: str = "does not use",
        not_concerned: str | None = None,
    ) -> None:
        """Show who still runs in the same process, with the controller's reason.

        The one that is not concerned uses another source, so nobody had to look at it.
        """
        reasons: dict[str, list[str]] = {}
        true = await self._undisturbed(*apps)
        for app in apps:
            decided = await self._stage.decision(app, since=began, about=about)
            true = true and decided is not None
            reason = _short(decided.reason) if decided else "no reason given"
            reasons.setdefault(reason, []).append(app)
        if not_concerned:
            pods_checked = (d for d in self._stage.decisions if d.consumer == not_concerned)
            true = true and not any(decided.at >= began for decided in pods_checked)
            true = true and await self._undisturbed(not_concerned)
            reasons["not even looked at"] = [not_concerned]
        parts = []
        for reason, same in reasons.items():
            words = reason.replace("it does not", "they do not") if len(same) > 1 else reason
            parts.append(f"{', '.join(same)}: {words}")
        text = "; ".join(parts)
        self._timeline.note(self._since(began), "left alone", text, true=true)

    async def _undisturbed(self, *apps: str) -> bool:
        """Tell whether workloads still run in the processes that they ran in."""
        for app in apps:
            now = [(pod.uid, pod.restarts) for pod in await self._stage.pods(app)]
            if now != [(self._pods[app].uid, self._pods[app].restarts)]:
                return False
        return True

    @staticmethod
    def _since(began: float) -> float:
        return time.time() - began
