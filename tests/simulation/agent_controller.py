"""The controller on simulated time, with the real parts that nudge pods, query agents and check.

These run on an event loop whose time is that of the cluster. Requests are answered at once by the
simulated cluster, agents answer a moment later, or not at all.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Any, TypeVar

import msgspec
from tests.simulation.agent_cluster import AgentCluster
from tests.simulation.agents import SimulatedAgent
from tests.simulation.controller import Controller
from tests.simulation.pods import SOURCES

from hotmap.controller.reconcile.nudges import Nudges
from hotmap.controller.reconcile.payload_digests import PayloadDigests
from hotmap.controller.reconcile.restart_waves import RestartWaves
from hotmap.controller.report.agents import AgentClient
from hotmap.controller.report.consumer_states import ConsumerStates
from hotmap.controller.report.pod_check_results import FollowUps, PodCheckResults
from hotmap.controller.report.pod_checks import PodChecker, PodCheckGate, PodCheckStores
from hotmap.controller.report.pod_reader import PodReader
from hotmap.controller.settings import PodCheckSettings
from hotmap.core.decide.decision import Decision
from hotmap.core.decide.plan import ActionType
from hotmap.core.decide.record import Outcome
from hotmap.core.decide.restart_wave import RestartProgress
from hotmap.core.decide.snapshot import SentNudge, Snapshot
from hotmap.core.errors import NotFound, Unavailable
from hotmap.core.model.config_volumes import VolumeDigest
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey, Pod
from hotmap.core.status.agent_answers import AgentReport, read_answer
from hotmap.core.status.agent_locations import AgentAddress
from hotmap.core.status.consumer import ConsumerStatus
from hotmap.core.target import TARGET, Target
from hotmap.kube.client import Page
from hotmap.kube.fair_slots import FairSlots
from hotmap.kube.recorder import Recorder
from hotmap.kube.resources import PODS, Resource

__all__ = ["AgentController"]

T = TypeVar("T")

#: The ports of agents, by their number in a pod.
_FIRST_PORT = 9533

#: Seconds until an agent is asked, and until its answer arrives.
_SLOWNESS = (0.0, 0.0, 0.05, 0.4)


class _Loop(asyncio.SelectorEventLoop):
    """An event loop on simulated time, which never waits."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._simulated_time = clock

    def time(self) -> float:
        return self._simulated_time()

    def run_due(self) -> None:
        """Run everything that can run at this time."""
        while self._has_due():
            self.call_soon(self.stop)
            self.run_forever()

    def _has_due(self) -> bool:
        timers: Any = self._scheduled  # type: ignore[attr-defined]
        ready: Any = self._ready  # type: ignore[attr-defined]
        return bool(ready) or (bool(timers) and timers[0].when() <= self.time())


class _ApiServer:
    """The requests that nudges and pod checks send."""

    def __init__(self, cluster: AgentCluster, chance: random.Random) -> None:
        self._cluster, self._chance = cluster, chance
        self.is_away = False
        self.short_lists, self.long_lists = FairSlots(16), FairSlots(2)
        #: Whether some requests fail that the API server has carried out.
        self.loses_responses = False

    def server_time(self) -> float:
        return self._cluster.now

    async def list_page(self, resource: Resource, namespace: str, **options: Any) -> Page[Any]:
        self._check()
        if resource is PODS:
            cached = options.get("resource_version") == "0"
            return Page(self._cluster.list_pods(cached=cached), "1", "")
        names = [name for name in SOURCES if self._cluster.data(name) is not None]
        selected = options["field_selector"].removeprefix("metadata.name=")
        return Page([self._cluster.config_map(name) for name in names if name == selected], "1", "")

    async def patch(
        self, resource: Resource, namespace: str, name: str, body: Any, *, type: Any, **_: Any
    ) -> Any:
        self._check()
        metadata = body["metadata"]
        value = metadata["annotations"][TARGET]
        if not self._cluster.nudge(metadata["uid"], value):
            raise NotFound(f"pod {name} is gone")
        if self.loses_responses and self._chance.random() < 0.2:
            raise Unavailable("the response is lost")
        return msgspec.convert({"metadata": {"annotations": metadata["annotations"]}}, type)

    def _check(self) -> None:
        if self.is_away:
            raise Unavailable("the API server is away")


class _Agents(AgentClient):
    """Queries simulated agents."""

    def __init__(self, cluster: AgentCluster, chance: random.Random) -> None:
        super().__init__("https://10.0.0.1:6443")
        self._cluster, self._chance = cluster, chance
        self.is_quick = False

    async def _ask_agent(self, address: AgentAddress) -> AgentReport:
        await asyncio.sleep(0.0 if self.is_quick else self._chance.choice(_SLOWNESS))
        agent = self._agent_at(address)
        if (
            agent is None
            or not agent.is_running
            or self._chance.random() < self._cluster.unreachable
        ):
            return AgentReport(None, "its agent cannot be reached")
        answer = agent.answer(self._cluster.now)
        await asyncio.sleep(0.0 if self.is_quick else self._chance.choice(_SLOWNESS))
        return read_answer(answer, address.uid)

    def _agent_at(self, address: AgentAddress) -> SimulatedAgent | None:
        for pod in self._cluster.pods:
            if pod.uid == address.uid and pod.agents:
                return list(pod.agents.values())[address.port - _FIRST_PORT]
        return None


class AgentController(Controller):
    """One process at a time, and what outlives it."""

    cluster: AgentCluster

    def __init__(self, cluster: AgentCluster, chance: random.Random) -> None:
        super().__init__(cluster, chance, rereads=False)
        #: Volumes whose digests are not announced, as those of Secrets.
        self._secret_volumes = chance.choice(((), ("v",), ("w",), ("v", "w")))
        self.loop = _Loop(lambda: cluster.now)
        self.api = _ApiServer(cluster, chance)
        self._tasks: list[asyncio.Task[Any]] = []

    def close(self) -> None:
        """End everything."""
        self.stop(crash=True)
        self.loop.close()

    def start(self) -> None:
        self._is_settling = False
        super().start()
        client: Any = self.api
        digests = PayloadDigests(client, self._index.sources["ConfigMap"])

        async def announced_digests(consumer: Consumer) -> tuple[VolumeDigest, ...]:
            found = await digests.digests(consumer)
            return tuple(each for each in found if each.volume not in self._secret_volumes)

        payloads: Any = _Payloads(announced_digests)
        self._agents = _Agents(self.cluster, self._chance)
        self._reader = PodReader(client, self._agents, announced_digests)
        self._nudges = Nudges(
            client,
            payloads,
            self._records,
            check_leading=lambda: None,
            reporter=_Reporter(),
            waves=RestartWaves(
                clock=lambda: self.cluster.now,
                report_stop=lambda *_: None,
                read_agents=self._read_restarts,
            ),
            on_agents_notified=self._on_agents_notified,
        )
        self.states = ConsumerStates(
            index=self._index,
            decision_log=self._log,
            records=self._records,
            take_snapshot=self._observer.snapshot,
        )
        results = PodCheckResults(
            observer=self._observer,
            records=self._records,
            consumer_states=self.states,
            recorder=Recorder(None, component="hotmap", clock=lambda: self.cluster.now),
            follow_ups=FollowUps(
                reconcile=self._reconcile_now,
                confirm_nudges=self._nudges.confirm,
                request_nudges=self._request_nudges,
            ),
        )
        self._checker = PodChecker(
            self._reader,
            observer=self._observer,
            stores=PodCheckStores(self._index, self._records, self._log, self.states),
            results=results,
            settings=PodCheckSettings(),
            gate=PodCheckGate(
                is_busy=self._is_busy,
                is_pending=lambda _: self._is_busy(),
                may_be_pending=lambda _: False,
            ),
            clock=lambda: self.cluster.now,
        )
        self._index.consumers[self.cluster.kind].subscribe(self._checker.consumer_changed)
        for run in (self._checker.run, self._checker.run_agent_checks):
            self._tasks.append(self.loop.create_task(run()))

    def stop(self, *, crash: bool) -> None:
        super().stop(crash=crash)
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                self.loop.run_until_complete(task)
        self._tasks.clear()

    def step(self) -> None:
        self.api.is_away = self.is_outage
        super().step()
        if self.is_up:
            self.loop.run_due()

    def get_status(self) -> ConsumerStatus | None:
        """Return what `hotmap status` shows; None while it knows no workload."""
        consumer = self._index.consumer(self._key)
        if consumer is None:
            return None
        return self._in_loop(lambda: self.states.get(consumer))

    # -- what it does --------------------------------------------------------------------------

    def _in_loop(self, call: Callable[[], T]) -> T:
        """Call what asks for the time of the running loop."""
        if self.loop.is_running():
            return call()

        async def called() -> T:
            return call()

        return self.loop.run_until_complete(called())

    def _sent_nudge(self, key: ObjectKey) -> SentNudge | None:
        return self._in_loop(lambda: self._nudges.sent(key))

    def _work(self, work: str) -> None:
        snapshot = self._observer.snapshot(self._key)
        self._is_settling = self._is_settling and work != "reconcile"
        try:
            super()._work(work)
        except Unavailable:
            self._due[work] = self.cluster.now + 1
        if not self.is_up:
            return  # it crashed
        again = self._in_loop(lambda: self._nudges.second_in(snapshot)) if snapshot else None
        if again is not None:
            self._due[work] = min(self.cluster.now + again, self._due.get(work, inf))
        self._in_loop(self._after_work)

    def _after_work(self) -> None:
        self._checker.schedule_check(self._key)
        is_pending = "reconcile" in self._due
        self.states.set_pending(self._key, pending=is_pending, changed=self._is_busy())
        self.states.update(self._key)

    def _nudge(self, decision: Decision) -> None:
        self.loop.run_until_complete(self._nudges.send(decision))

    def _execute(self, decision: Decision) -> Outcome | None:
        outcome = super()._execute(decision)
        actions = decision.plan.actions
        is_corrected = not actions and decision.corrects_nudge
        if not is_corrected and all(each.type is not ActionType.NUDGE for each in actions):
            self._nudges.end_restarts(self._key)
        return outcome

    def _conclude(self, decision: Decision, outcome: Outcome) -> None:
        if waiting := self._nudges.waiting_restarts(self._key):
            self._log.add(decision, outcome=waiting, continues=True)
            self.said.append(f"{self.cluster.now:.1f} {decision.plan.reason}: {waiting}")
        else:
            super()._conclude(decision, outcome)

    def _reconcile_after(self, key: ObjectKey, settle: float, settle_max: float) -> None:
        super()._reconcile_after(key, settle, settle_max)
        self._is_settling = True
        self.states.set_pending(key, pending=True, changed=True)

    def _reconcile_now(self, key: ObjectKey) -> None:
        self._due["reconcile"] = self.cluster.now

    def _request_nudges(self, key: ObjectKey, target: Target, uids: Sequence[str]) -> None:
        if self._nudges.request(key, target, uids):
            self._due["refresh"] = self.cluster.now

    async def _read_restarts(
        self, snapshot: Snapshot, pods: Iterable[Pod]
    ) -> Mapping[str, RestartProgress]:
        """Query agents in the middle of a decision, for which time stands still."""
        self._agents.is_quick = True
        try:
            return await self._reader.read_restarts(snapshot, pods)
        finally:
            self._agents.is_quick = False

    def _on_agents_notified(self, key: ObjectKey) -> None:
        self._checker.schedule_agent_check(key)

    def _is_busy(self) -> bool:
        """Whether a decision is due or settling; what is repeated later is not."""
        return self._is_settling or any(at <= self.cluster.now for at in self._due.values())

    def _check_pods(self) -> None:
        """Leave it to the checker."""


class _Payloads:
    def __init__(self, digests: Callable[[Consumer], Any]) -> None:
        self.digests = digests


class _Reporter:
    """Hears of what prevents nudges."""

    def report_refused_nudge(self, consumer: Consumer, why: str) -> None:
        raise AssertionError(why)

    def report_overwritten_nudge(self, consumer: Consumer, pod: str) -> None:
        raise AssertionError(pod)
