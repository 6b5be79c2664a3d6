"""When pods are checked in the background, on a clock that the test advances.

The PodChecker is real and lists real objects from an API server; the test fills stores, records and
decision log.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple, cast

import msgspec
import pytest
from tests.controller.world import World, rfc3339
from tests.support.objects import ENV, KEY, NAMESPACE, config_map, deployment, snapshot, sources

from hotmap.controller.report.agents import AgentClient
from hotmap.controller.report.consumer_states import ConsumerStates
from hotmap.controller.report.decision_log import DecisionLog
from hotmap.controller.report.pod_check_results import FollowUps, PodCheckResults
from hotmap.controller.report.pod_checks import PodChecker, PodCheckGate, PodCheckStores
from hotmap.controller.report.pod_reader import PodReader
from hotmap.controller.settings import PodCheckSettings
from hotmap.controller.storage.records import Records
from hotmap.controller.watch.changes import ChangeListener
from hotmap.controller.watch.index import Index
from hotmap.controller.watch.observation import Observer, ObserverSettings
from hotmap.core.decide.assessment import Assessment, Verdict
from hotmap.core.decide.decision import Decision
from hotmap.core.decide.plan import Plan
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.model.config_volumes import VolumeDigest
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.source import Source
from hotmap.core.model.state import PodCheck, Record
from hotmap.core.policy.policy import Defaults
from hotmap.core.status.consumer import State
from hotmap.kube.client import Client
from hotmap.kube.events import EventWriter
from hotmap.kube.recorder import Recorder

SETTINGS = PodCheckSettings(
    rate=1000,
    initial_delay=10,
    rollout_delay=3,
    stalled_after=30,
    pause=30,
    max_pause=100,
    max_pause_rolling=60,
)
#: Seconds after which a checker that has not turned round is at rest: its turns are a millisecond.
REST = 0.1

#: Its own controller counts no pods, as none is listed.
WEB = msgspec.structs.replace(deployment(ENV), pods=0)


async def no_digests(_: Consumer) -> tuple[VolumeDigest, ...]:
    return ()


class ListHook:
    """Passes lists on, and lets a test do something while one is under way."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.short_lists, self.long_lists = client.short_lists, client.long_lists
        self.meanwhile: Callable[[], None] = lambda: None
        self.under_way = False
        #: Seconds by which the API server's clock is ahead.
        self.ahead = 0.0

    def server_time(self) -> float:
        return self._client.server_time() + self.ahead

    async def list_page(self, *arguments: Any, **options: Any) -> Any:
        self.meanwhile()
        self.under_way = True
        try:
            return await self._client.list_page(*arguments, **options)
        finally:
            self.under_way = False


class Bench:
    """One followed Deployment, and a checker that may check its pods."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.now = 0.0
        self.busy = False
        self.pending = False
        #: Consumers whose pods may have to be replaced.
        self.reconciles: list[ObjectKey] = []
        #: How often the checker has turned round.
        self.turns = 0
        self.client = ListHook(world.client)
        self.index = Index(defaults=Defaults(follow="auto"))
        ChangeListener(self.index)
        self.records = Records()
        self.decision_log = DecisionLog(wall_clock=lambda: self.now)
        self.observer = Observer(
            index=self.index,
            records=self.records,
            settings=ObserverSettings([KEY]),
            clock=world.client.server_time,
        )
        self.consumer_states = ConsumerStates(
            index=self.index,
            decision_log=self.decision_log,
            records=self.records,
            take_snapshot=self.observer.snapshot,
        )
        self.pod_checker = PodChecker(
            PodReader(cast(Client, self.client), AgentClient(""), no_digests),
            observer=self.observer,
            stores=PodCheckStores(
                self.index, self.records, self.decision_log, self.consumer_states
            ),
            results=PodCheckResults(
                observer=self.observer,
                records=self.records,
                consumer_states=self.consumer_states,
                recorder=Recorder(EventWriter(world.client), component="hotmap"),
                follow_ups=FollowUps(reconcile=self.reconciles.append),
            ),
            settings=SETTINGS,
            gate=PodCheckGate(
                is_busy=self._is_busy,
                is_pending=lambda key: self.pending,
                may_be_pending=lambda _: False,
            ),
            clock=lambda: self.now,
        )
        for key, source in sources(config_map(data={"LEVEL": "info"})).items():
            self.index.sources["ConfigMap"].put(key, source)
        self.index.sources["ConfigMap"].synced.set()
        self.store = self.index.consumers["Deployment"]
        self.store.subscribe(self.pod_checker.consumer_changed)
        self.put(WEB)

    def _is_busy(self) -> bool:
        self.turns += 1
        return self.busy

    def put(self, consumer: Consumer) -> None:
        """Have the store show a consumer."""
        self.store.put(consumer.key, consumer)

    def put_in_memory(self, plan: Plan) -> None:
        """Log a decision on the consumer, made from a version of its source of its own."""
        item = config_map(data={"LEVEL": "info"}, version=int(self.now * 10))
        assessment = Assessment(plan.verdict, plan.reason, ())
        self.decision_log.add(Decision(snapshot(WEB, item), assessment, plan))

    def decided(self, verdict: Verdict, **record: Any) -> None:
        """Decide something on the consumer, and record it."""
        self.put_in_memory(Plan(verdict, (), f"because of {verdict.value}", settles=True))
        self.records.put_in_memory(Record(WEB.uid, KEY.id, **{"generation": 1, **record}))
        self.pod_checker.schedule_check(WEB.key)

    async def checks_by(self, now: float) -> int:
        """Move the clock, and count the lists made until then."""
        self.now = now
        before = self.turns
        while self.turns < before + 3:
            seen = self.turns
            await asyncio.sleep(REST)
            if self.turns == seen and not self.client.under_way:
                break
        return self.pod_checker.checks

    async def latent(self) -> None:
        """Add a pod that is older than its source."""
        self.index.sources["ConfigMap"].put(*self._changed())
        body = {
            "metadata": {"name": "web-1", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "app:1"}]},
        }
        await self.world.registry.create("pods", NAMESPACE, body, manager="kube")
        at = {"running": {"startedAt": rfc3339(time.time())}}
        container = {"name": "web", "ready": True, "state": at}
        started = rfc3339(time.time())
        status = {"phase": "Running", "startTime": started, "containerStatuses": [container]}
        await self.world.registry.modify(
            "pods",
            NAMESPACE,
            "web-1",
            lambda obj: {**obj, "status": {**obj["status"], **status}},
            subresource="status",
            manager="kubelet",
        )

    def _changed(self) -> tuple[ObjectKey, Source]:
        later = config_map(data={"LEVEL": "debug"}, changed_at=time.time() + 60)
        ((key, source),) = sources(later).items()
        return key, source

    def pods_checked(self) -> PodCheck:
        record = self.records.get(WEB.uid)
        assert record is not None
        return record.pods_checked


@pytest.fixture
async def bench(world: World) -> AsyncIterator[Bench]:
    await world.namespace(NAMESPACE)
    bench = Bench(world)
    running = asyncio.create_task(bench.pod_checker.run())
    yield bench
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_adoption_is_checked_when_calm(bench: Bench) -> None:
    """Not before, and once."""
    bench.decided(Verdict.ADOPT)
    assert await bench.checks_by(9.9) == 0
    assert await bench.checks_by(10.0) == 1
    assert bench.pods_checked() is PodCheck.CURRENT
    assert await bench.checks_by(5000.0) == 1


async def test_queued_work_goes_before_checks(bench: Bench) -> None:
    """While keys wait for a worker no pods are checked, however long that takes."""
    bench.decided(Verdict.ADOPT)
    bench.busy = True
    assert await bench.checks_by(500.0) == 0
    bench.busy = False
    assert await bench.checks_by(500.0) == 1


async def test_finished_rollout_is_checked_soon(bench: Bench) -> None:
    """Its own controller says when; nothing is sent before."""
    bench.decided(Verdict.FROZEN)
    bench.put(msgspec.structs.replace(WEB, rolling=True, behind=1))
    assert await bench.checks_by(20.0) == 0
    bench.put(WEB)
    assert await bench.checks_by(22.9) == 0
    assert await bench.checks_by(23.0) == 1
    assert bench.pods_checked() is PodCheck.CURRENT


async def test_stalled_rollout_is_checked(bench: Bench) -> None:
    """Half a minute after its last progress, then with pauses that double up to a bound."""
    bench.put(msgspec.structs.replace(WEB, rolling=True, behind=3))
    bench.decided(Verdict.FROZEN)
    assert await bench.checks_by(15.0) == 0
    bench.put(msgspec.structs.replace(WEB, rolling=True, behind=2))
    assert await bench.checks_by(44.0) == 0
    assert await bench.checks_by(45.0) == 1
    assert await bench.checks_by(74.0) == 1
    assert await bench.checks_by(75.0) == 2
    assert await bench.checks_by(134.0) == 2
    assert await bench.checks_by(135.0) == 3
    assert await bench.checks_by(194.0) == 3
    assert await bench.checks_by(195.0) == 4


async def test_check_waits_for_lagging_store(bench: Bench) -> None:
    """Our own write has not come back: what the store shows is from before it."""
    bench.decided(Verdict.FROZEN, generation=2)
    assert await bench.checks_by(10.0) == 0
    bench.put(msgspec.structs.replace(WEB, generation=2))
    assert await bench.checks_by(40.0) == 1


async def test_workload_changed_during_check_is_checked_again(bench: Bench) -> None:
    """A look that began before does not speak of it."""
    bench.decided(Verdict.ADOPT)
    asked_later = Record(WEB.uid, KEY.id, 1, serial=1)
    bench.client.meanwhile = lambda: bench.records.put_in_memory(asked_later)
    assert await bench.checks_by(10.0) == 1
    assert bench.pods_checked() is PodCheck.NOT_YET
    bench.client.meanwhile = lambda: None
    assert await bench.checks_by(40.0) == 2
    assert bench.pods_checked() is PodCheck.CURRENT


async def test_new_rollout_resets_the_schedule(bench: Bench) -> None:
    """Long pauses of the one before do not count for it."""
    bench.put(msgspec.structs.replace(WEB, rolling=True, behind=3))
    bench.decided(Verdict.FROZEN)
    assert await bench.checks_by(30.0) == 1
    assert await bench.checks_by(60.0) == 2
    bench.decided(Verdict.FROZEN)
    assert await bench.checks_by(89.0) == 2
    assert await bench.checks_by(90.0) == 3


async def test_unfinished_decision_is_not_checked(bench: Bench) -> None:
    """A consumer that is held, or waits, has nothing to confirm."""
    bench.decided(Verdict.ADOPT)
    waits = Plan(Verdict.WAIT, (), "a stale store", requeue_after=1.0)
    bench.put_in_memory(waits)
    assert await bench.checks_by(10.0) == 0
    over = Plan(Verdict.UP_TO_DATE, (), "as asked", settles=True, confirms=True)
    bench.put_in_memory(over)
    assert await bench.checks_by(40.0) == 1


async def test_deleted_workload_is_forgotten(bench: Bench) -> None:
    """A deleted consumer costs no look."""
    bench.decided(Verdict.ADOPT)
    bench.store.remove(WEB.key)
    assert await bench.checks_by(10.0) == 0


async def test_workload_deleted_during_check_is_forgotten(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is kept of it, and nothing breaks."""
    await bench.latent()
    bench.decided(Verdict.ADOPT)
    assert await bench.checks_by(9.0) == 0
    bench.client.meanwhile = lambda: bench.store.remove(WEB.key)
    assert await bench.checks_by(10.0) == 1
    assert await bench.checks_by(5000.0) == 1
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


class _Decision(NamedTuple):
    """A decision that may replace pods once they were found to have older content."""

    needs_pod_starts: bool


def _decide_to_replace(snapshot: Snapshot) -> _Decision:
    record = snapshot.record
    return _Decision(record is not None and record.pods_checked is PodCheck.LATENT)


async def test_older_pods_that_will_be_replaced_are_not_latent(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a query before the check that replaces them calls them so, nor that check."""
    monkeypatch.setattr("hotmap.controller.report.pod_check_results.decide", _decide_to_replace)
    await bench.latent()
    bench.decided(Verdict.ADOPT)
    item = bench.observer.snapshot(WEB.key)
    assert item is not None
    result = await bench.pod_checker.check_now(item)
    assert result.status.state is State.LATENT
    status = bench.consumer_states.get(WEB)
    assert (status.state, status.action_required) == (State.WAITING, False)
    assert bench.reconciles == []
    await bench.checks_by(10.0)
    assert bench.reconciles == [WEB.key]
    assert bench.consumer_states.get(WEB).state is State.WAITING


async def test_pending_reconcile_is_waited_for(bench: Bench) -> None:
    """The consumer may be about to be rolled: its pods are older than the edit, and not latent."""
    await bench.latent()
    bench.decided(Verdict.ADOPT)
    bench.pending = True
    assert await bench.checks_by(500.0) == 0
    bench.pending = False
    assert await bench.checks_by(503.0) == 1
    assert bench.pods_checked() is PodCheck.LATENT


async def test_reconcile_that_becomes_pending_during_a_check_voids_it(bench: Bench) -> None:
    """What the pods showed is from before the edit that is about to be acted on."""
    await bench.latent()
    bench.decided(Verdict.ADOPT)

    def edit() -> None:
        bench.pending = True

    bench.client.meanwhile = edit
    assert await bench.checks_by(10.0) == 1
    assert bench.pods_checked() is PodCheck.NOT_YET
    assert await bench.world.messages("Latent") == []


async def test_workload_scaled_to_zero_is_settled_once_it_has_no_pods(bench: Bench) -> None:
    """A StatefulSet ends one pod after the other; scaled up again, the rest are still there."""
    await bench.latent()
    bench.put(msgspec.structs.replace(WEB, wanted=0, replicas=0, pods=1))
    bench.decided(Verdict.ADOPT)
    assert await bench.checks_by(10.0) == 0
    assert bench.pods_checked() is PodCheck.NOT_YET
    bench.put(msgspec.structs.replace(WEB, wanted=1, replicas=1, pods=1))
    assert await bench.checks_by(40.0) == 1
    assert bench.pods_checked() is PodCheck.LATENT


async def test_workload_without_pods_costs_no_list(bench: Bench) -> None:
    """Scaled to zero, and all pods have ended: the next ones read the current content."""
    bench.put(msgspec.structs.replace(WEB, wanted=0, replicas=0, pods=0))
    bench.decided(Verdict.ADOPT)
    assert await bench.checks_by(10.0) == 0
    assert bench.pods_checked() is PodCheck.CURRENT


async def test_workload_deleted_before_its_agents_are_checked_ends_nothing(bench: Bench) -> None:
    """The check was taken from the schedule and had not begun; those of others go on."""
    checks = asyncio.create_task(bench.pod_checker.run_agent_checks())
    await asyncio.sleep(0)
    bench.pod_checker.schedule_agent_check(WEB.key)
    bench.now = 60.0
    await asyncio.sleep(0)  # it is taken now, and begins in the next round of the loop
    bench.pod_checker.consumer_changed(WEB.key, WEB, None)
    await asyncio.sleep(REST)
    assert not checks.done()
    checks.cancel()
