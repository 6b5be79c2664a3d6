"""Looks at pods after the fact: is what was asked for real, and who runs with older content?

Pods are not watched. After an adoption and after a rollout one LIST of the consumer's own pods
tells what they hold; the result is kept in the record, so nobody is looked at twice for the same
cause. It only ever reports. Looks are a background matter:

1. a consumer whose record says that nobody has looked since is scheduled: what was adopted in
   line, a few a second; what was rolled out once its own controller says that it is done
2. nothing is sent for one that wants no pods, and none while reconciles are at work
3. a rollout that does not go on is looked at after a while, to say what it waits for
4. who is not current yet, or is latent, is looked at again with growing pauses
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Literal, NamedTuple, NoReturn

import msgspec

from hotmap.controller.report.consumer_states import ConsumerStates
from hotmap.controller.report.decision_log import DecisionLog
from hotmap.controller.report.reasons import Reason
from hotmap.controller.settings import PodCheckSettings
from hotmap.controller.storage.records import Records
from hotmap.controller.watch.observation import Observer
from hotmap.controller.watch.pods import list_pods
from hotmap.core.decide.freshness import Verdict
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.errors import ApiError, Unreachable
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import PodCheck, Record
from hotmap.core.policy.policy import Strategy
from hotmap.core.status.consumer import ConsumerStatus, State, conclude
from hotmap.core.status.pods import (
    Desired,
    PodProof,
    desired_of,
    observe_pods,
    prove,
    template_vouches,
)
from hotmap.kube.client import Client
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.recorder import Recorder
from hotmap.kube.resources import BY_KIND

__all__ = ["PodCheckResult", "PodChecker", "look"]

#: Seconds between two writes of what looks have shown, where nothing else has to be written.
_WRITE_EVERY = 60.0

_log = logging.getLogger(__name__)


class PodCheckResult(NamedTuple):
    """What one look at a consumer's pods has shown."""

    desired: Desired
    pods: tuple[PodProof, ...]
    standing: ConsumerStatus


async def look(
    client: Client, snapshot: Snapshot, *, stalled: bool = False, retried: bool = False
) -> PodCheckResult:
    """List a consumer's pods and conclude what they hold; one LIST, and nothing is changed.

    `stalled` says that its own controller has reported no progress for a while, `retried` that it
    has not for longer than kubelets wait before they start again what crashes.

    Raises:
        ApiError, Unreachable: as the client raises them.
    """
    consumer, policy = snapshot.consumer, snapshot.policy
    desired = desired_of(snapshot)
    pods = await list_pods(client, consumer)
    proofs = prove(
        desired,
        observe_pods(consumer, pods),
        now=time.time(),
        vouched=template_vouches(snapshot),
        windows=snapshot.record.windows if snapshot.record else (),
    )
    agents_restart = (
        policy.strategy is Strategy.AUTO
        and policy.agent is not None
        and policy.agent.restart != "none"
    )
    standing = conclude(
        consumer,
        proofs,
        desired,
        stalled=stalled,
        retried=retried,
        agents_restart=agents_restart,
    )
    return PodCheckResult(desired, proofs, standing)


class _Watched:
    """A consumer that is looked at when its time comes."""

    __slots__ = ("asked_at", "behind", "due", "pause", "since")

    def __init__(self, now: float, behind: int, asked_at: float = 0.0) -> None:
        self.due = now
        #: Seconds of the last pause.
        self.pause = 0.0
        #: How many pods its own controller had left, and since when.
        self.behind = behind
        self.since = now
        #: When its pods were asked for, POSIX seconds; 0: they were not.
        self.asked_at = asked_at


class PodChecker:
    """The background looks of one term of leading."""

    def __init__(
        self,
        client: Client,
        *,
        observer: Observer,
        consumer: Callable[[ObjectKey], Consumer | None],
        records: Records,
        decision_log: DecisionLog,
        consumer_states: ConsumerStates,
        recorder: Recorder,
        settings: PodCheckSettings,
        busy: Callable[[], bool],
        clock: Callable[[], float] = loop_time,
    ) -> None:
        """`busy` tells whether there is work that goes first."""
        self._client = client
        self._observer = observer
        self._consumer = consumer
        self._records = records
        self._journal = decision_log
        self._standings = consumer_states
        self._recorder = recorder
        self._settings = settings
        self._busy = busy
        self._clock = clock
        #: Adopted consumers that nobody has looked at, in line; keys alone, as there may be many.
        self._line: dict[ObjectKey, float] = {}
        #: Consumers with a time of their own, and the times; a key may be filed more than once.
        self._watched: dict[ObjectKey, _Watched] = {}
        self._heap: list[tuple[float, ObjectKey]] = []
        #: Of whom what was shown is not written yet, by uid.
        self._unwritten: set[str] = set()
        #: The reason that the last Event on a stuck consumer gave.
        self._told: dict[ObjectKey, str] = {}
        self._wake = asyncio.Event()
        #: Looks that cost a LIST.
        self.looks = 0

    # -- whom to look at -----------------------------------------------------------------------

    def consider(self, key: ObjectKey) -> None:
        """Schedule a consumer that something was just decided on, if there is anything to see."""
        consumer, latest = self._consumer(key), self._journal.latest(key)
        record = self._records.get(consumer.uid) if consumer else None
        if (
            consumer is None
            or record is None
            or latest is None
            or record.pods_checked is PodCheck.CURRENT
        ):
            self._forget(key)
        elif latest.verdict == Verdict.FROZEN.value and record.pods_checked is PodCheck.NOT_YET:
            self._expect(key, consumer, asked_at=latest.at)
        elif key not in self._watched and key not in self._line:
            self._line[key] = self._clock() + self._settings.calm
            self._wake.set()

    def _expect(self, key: ObjectKey, consumer: Consumer, *, asked_at: float) -> None:
        """Begin to look for the pods that were asked for, once for each time that they were."""
        watched = self._watched.get(key)
        if watched is not None and watched.asked_at == asked_at:
            return
        self._forget(key)
        self._watched[key] = _Watched(self._clock(), consumer.behind, asked_at)
        self._file(key, consumer, self._settings.calm)

    def consumer_changed(self, key: ObjectKey, old: Consumer | None, new: Consumer | None) -> None:
        """Follow what a consumer's own controller reports; the consumers' stores call this."""
        if new is None or old is None or old.uid != new.uid:
            self._forget(key)
            self._told.pop(key, None)
            return
        if (old.behind, old.rolling, old.paused) == (new.behind, new.rolling, new.paused):
            return
        watched = self._watched.get(key)
        if watched is not None and watched.behind != new.behind:
            watched.behind, watched.since = new.behind, self._clock()
        record = self._records.get(new.uid)
        if record is not None and record.pods_checked is not PodCheck.CURRENT and not new.rolling:
            self._line.pop(key, None)
            self._file(key, new, self._settings.done)
        self._standings.update(key)

    def _file(self, key: ObjectKey, consumer: Consumer, after: float) -> None:
        now = self._clock()
        watched = self._watched.get(key)
        if watched is None:
            watched = self._watched[key] = _Watched(now, consumer.behind)
        watched.due = now + after
        heappush(self._heap, (watched.due, key))
        self._wake.set()

    def _forget(self, key: ObjectKey) -> None:
        self._line.pop(key, None)
        self._watched.pop(key, None)
        self._standings.found(key, None)

    # -- looking -------------------------------------------------------------------------------

    async def run(self) -> NoReturn:
        """Look at pods as their times come, until cancelled."""
        if not self._settings.per_second:
            await asyncio.Event().wait()
        spacing = 1 / self._settings.per_second
        written_at = self._clock()
        while True:
            key = None if self._busy() else self._next()
            if key is not None and await self._try_visit(key):
                await asyncio.sleep(spacing)
            elif key is not None:
                await asyncio.sleep(0)
            elif self._line or self._heap:
                await asyncio.sleep(spacing)
            else:
                await self._rest(written_at)
            if self._clock() - written_at >= _WRITE_EVERY:
                self.write()
                written_at = self._clock()

    async def _rest(self, written_at: float) -> None:
        """Wait until somebody is scheduled, or what was shown has to be written."""
        self._wake.clear()
        left = written_at + _WRITE_EVERY - self._clock() if self._unwritten else None
        try:
            async with asyncio.timeout(left):
                await self._wake.wait()
        except TimeoutError:
            return

    def _next(self) -> ObjectKey | None:
        """Take the key whose time has come; who waits in line comes after those with a time."""
        now = self._clock()
        while self._heap and self._heap[0][0] <= now:
            due, key = heappop(self._heap)
            watched = self._watched.get(key)
            if watched is not None and watched.due == due:
                return key
        for key, due in self._line.items():
            if due > now:
                break
            del self._line[key]
            return key
        return None

    async def _try_visit(self, key: ObjectKey) -> bool:
        """Look at one consumer; a defect of ours stays its own trouble, as in the queues."""
        try:
            return await self._visit(key)
        except Exception:
            _log.exception("a defect met %s; the others go on", key)
            return True

    async def _visit(self, key: ObjectKey) -> bool:
        """Look at one consumer, if there is anything to see; tells whether that cost a LIST."""
        consumer = self._consumer(key)
        record = self._records.get(consumer.uid) if consumer else None
        latest = self._journal.latest(key)
        if consumer is None or record is None or latest is None:
            self._forget(key)
            return False
        if key not in self._watched:
            self._watched[key] = _Watched(self._clock(), consumer.behind)
        if not latest.last.is_over or consumer.generation < record.generation:
            # It is not over, or our own write has not come back yet.
            self._again(key, consumer)
            return False
        quiet = self._clock() - self._watched[key].since
        stalled, retried = quiet >= self._settings.stalled, quiet >= self._settings.retried
        if consumer.rolling and not stalled:
            self._file(key, consumer, self._settings.stalled - quiet)
            return False
        if not consumer.wanted:
            return self._keep_without_pods(consumer, record)
        snapshot = self._observer.snapshot(key)
        assert snapshot is not None, "the consumer was found above"
        self.looks += 1
        try:
            shown = await look(self._client, snapshot, stalled=stalled, retried=retried)
        except (ApiError, Unreachable) as error:
            _log.info("%s: its pods are looked at later: %s", key, error)
            self._again(key, consumer)
            return True
        if self._records.get(consumer.uid) != record:
            self._again(key, consumer)  # something was asked meanwhile
        else:
            self._keep(consumer, record, shown.standing)
        return True

    def _keep_without_pods(self, consumer: Consumer, record: Record) -> bool:
        if consumer.rolling:
            self._again(consumer.key, consumer)
        else:
            self._keep(consumer, record, ConsumerStatus(State.CURRENT, ""))
        return False

    def _again(self, key: ObjectKey, consumer: Consumer) -> None:
        """Come back after a pause that is twice the last one."""
        watched = self._watched.get(key)
        if watched is None:
            return  # it went away while its pods were listed
        most = self._settings.pause_rolling if consumer.rolling else self._settings.pause_most
        watched.pause = min(most, max(self._settings.pause, watched.pause * 2))
        self._file(key, consumer, watched.pause)

    # -- what was shown ------------------------------------------------------------------------

    def _keep(self, consumer: Consumer, record: Record, standing: ConsumerStatus) -> None:
        """Keep what a look has shown, tell what is new about it, and come back if need be."""
        key, state = consumer.key, standing.state
        if state is State.CURRENT:
            self._note(record, PodCheck.CURRENT)
            self._forget(key)
            self._told.pop(key, None)
            return
        if state is State.LATENT and record.pods_checked is not PodCheck.LATENT:
            self._event(consumer, Reason.LATENT, standing.reason, "Normal")
            self._note(record, PodCheck.LATENT)
        elif state is State.STUCK and self._told.get(key) != standing.reason:
            self._told[key] = standing.reason
            self._event(consumer, Reason.STUCK, standing.reason, "Warning")
        self._standings.found(key, standing)
        self._again(key, consumer)

    def _note(self, record: Record, pods_checked: PodCheck) -> None:
        if record.pods_checked is not pods_checked:
            self._records.note(msgspec.structs.replace(record, pods_checked=pods_checked))
            self._unwritten.add(record.uid)

    def write(self) -> None:
        """Have what was shown written with the records."""
        self._records.write(self._unwritten)
        self._unwritten.clear()

    def _event(
        self,
        consumer: Consumer,
        reason: Reason,
        message: str,
        type_: Literal["Normal", "Warning"],
    ) -> None:
        _log.log(
            logging.WARNING if type_ == "Warning" else logging.INFO,
            message,
            extra={"consumer": str(consumer.key), "change": ""},
        )
        self._recorder.event(
            consumer.key,
            api_version=BY_KIND[consumer.key.kind].api_version,
            uid=consumer.uid,
            type=type_,
            reason=reason,
            message=message,
        )
