"""Sends one round of nudges: lists the pods of a consumer, chooses some, and annotates each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from hotmap.controller.reconcile.restart_waves import RestartWaves
from hotmap.controller.storage.records import Records
from hotmap.controller.watch.pods import in_groups, list_pods
from hotmap.core.decide.nudge_choice import (
    choose_new,
    spread_over_nodes,
    was_just_nudged,
    with_content_before,
)
from hotmap.core.decide.nudge_sequence import NudgeNumbers
from hotmap.core.decide.pod_starts import pod_starts
from hotmap.core.decide.record_evidence import may_be_older, with_older_pods
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.errors import (
    ApiError,
    Conflict,
    HotmapError,
    NotFound,
    Throttled,
    Unauthorized,
    Unavailable,
)
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import Pod
from hotmap.core.patch.nudge import can_be_nudged, is_starting, read_target
from hotmap.core.target import TARGET, Target
from hotmap.kube.client import Client
from hotmap.kube.fair_slots import FairSlots
from hotmap.kube.partial_metadata import PartialObjectMetadata
from hotmap.kube.resources import PODS

__all__ = ["Nudge", "NudgeRound", "NudgeSender"]

#: Nudges in flight at once, over all consumers: files are refreshed by kubelets, each of which
#: then reads the API server, so a burst is spread.
_NUDGES_AT_ONCE = 32

#: Seconds for the records to be written before pods are nudged: files are not to wait for longer.
_WRITE_AT_MOST = 2.0

_log = logging.getLogger(__name__)


class Nudge(NamedTuple):
    """The nudge of one pod."""

    name: str
    uid: str
    #: The annotation's value, and the one before.
    value: str
    replaces: str


class _Result(NamedTuple):
    """The result of nudging one pod."""

    nudge: Nudge
    #: why it will never accept it, or ""
    refusal: str = ""
    #: why it could not be nudged now
    failure: HotmapError | None = None


class NudgeRound(NamedTuple):
    """The nudges of a consumer's pods after one LIST; pods by uid."""

    #: Pods whose last nudge was another one, pods that wait until others have restarted, and pods
    #: that a leader before has just nudged.
    new: set[str]
    held: set[str]
    recent: set[str]
    results: Sequence[_Result]
    #: Whether some pods are about to start, perhaps with the content before.
    some_start: bool

    @property
    def failures(self) -> dict[str, HotmapError]:
        return {item.nudge.uid: item.failure for item in self.results if item.failure}

    @property
    def refusals(self) -> dict[str, str]:
        return {item.nudge.uid: item.refusal for item in self.results if item.refusal}

    @property
    def told(self) -> dict[str, Nudge]:
        """The pods that have got a new nudge."""
        return {
            item.nudge.uid: item.nudge
            for item in self.results
            if item.nudge.uid in self.new and not item.failure and not item.refusal
        }


class NudgeSender:
    """Nudges the pods of one consumer after another; namespaces take turns."""

    def __init__(
        self,
        client: Client,
        records: Records,
        *,
        check_leading: Callable[[], None],
        waves: RestartWaves,
    ) -> None:
        self._client = client
        self._records = records
        self._check_leading = check_leading
        self._waves = waves
        # 10,000 pods of one namespace delay no other's.
        self._slots = FairSlots(_NUDGES_AT_ONCE)

    async def send_round(
        self, snapshot: Snapshot, target: Target, *, again: Collection[str], is_first: bool
    ) -> NudgeRound:
        """Nudge those pods of a consumer whose last nudge was different, and the pods in `again`.

        The recorded target counts as the last nudge of a pod without one. A failure does not stop
        the others. `is_first`: in this term, so that other nudges are of a leader before.
        """
        consumer, recorded = snapshot.consumer, snapshot.recorded_target
        listed = await list_pods(self._client, consumer)
        pods = [pod for pod in listed if can_be_nudged(pod)]
        some_start = any(map(is_starting, listed))
        new = choose_new(pods, snapshot, target, is_first=is_first)
        recent: set[str] = set()
        if is_first:
            recent = {pod.metadata.uid for pod in pods if was_just_nudged(pod, snapshot.now)}
            recent -= new | set(again)
        held = await self._waves.held_back(snapshot, target, pods, new)
        new -= held
        chosen = new | (set(again) - held)
        needing = [pod for pod in pods if pod.metadata.uid in chosen]
        await self._record_older_pods(consumer, needing)
        before = recorded if snapshot.policy.agent is not None else None
        numbers = NudgeNumbers(snapshot)
        nudges = [_make_nudge(pod, numbers, target, before) for pod in spread_over_nodes(needing)]
        del listed, pods, needing  # they are large, and patching takes a while
        results = await self._send_all(consumer.key.namespace, nudges)
        return NudgeRound(new, held, recent, results, some_start)

    async def _record_older_pods(self, consumer: Consumer, pods: Sequence[Pod]) -> None:
        """Record which pods are older than an adopted source: once nudged, they seem newer.

        That is written first, since after a crash nothing else shows it.
        """
        record = self._records.get(consumer.uid)
        if record is None:
            return
        # The starts of 10,000 pods take most of a second, and after the first nudge none is older.
        older = [pod for pod in pods if may_be_older(record, pod.metadata.resource_version)]
        starts = [
            start async for group in in_groups(older) for start in pod_starts(consumer, group)
        ]
        record = self._records.get(consumer.uid)  # it may have changed meanwhile
        if not starts or record is None:
            return
        self._records.put(with_older_pods(record, starts))
        self._check_leading()
        try:
            async with asyncio.timeout(_WRITE_AT_MOST):
                await self._records.flush(consumer.uid)
        except TimeoutError:
            _log.warning(
                "%s: its record is not written within %gs: nudging its pods",
                consumer.key,
                _WRITE_AT_MOST,
            )

    async def _send_all(self, namespace: str, nudges: Sequence[Nudge]) -> list[_Result]:
        """Send nudges by a few tasks, since there may be thousands of pods."""
        results: list[_Result] = []
        queue = iter(nudges)

        async def send() -> None:
            for nudge in queue:
                results.append(await self._send_one(namespace, nudge))  # noqa: PERF401

        await asyncio.gather(*(send() for _ in range(min(len(nudges), _NUDGES_AT_ONCE))))
        return results

    async def _send_one(self, namespace: str, nudge: Nudge) -> _Result:
        body = {"metadata": {"uid": nudge.uid, "annotations": {TARGET: nudge.value}}}
        refuses = f"Pod {namespace}/{nudge.name} refuses the nudge"
        async with self._slots.use(namespace):
            try:
                self._check_leading()
                answer = await self._client.patch(
                    PODS,
                    namespace,
                    nudge.name,
                    body,
                    type=PartialObjectMetadata,
                    attempts=1,  # the consumer is retried; others need not wait for it
                )
            except (NotFound, Conflict):
                return _Result(nudge)  # the pod was deleted, or its name is another pod's
            except (Throttled, Unavailable, Unauthorized) as error:
                return _Result(nudge, failure=error)
            except ApiError as error:
                return _Result(nudge, refusal=f"{refuses}: {error}")
            except HotmapError as error:
                return _Result(nudge, failure=error)
        if (answer.metadata.annotations or {}).get(TARGET) != nudge.value:
            why = "an admission policy or webhook removed the annotation"
            return _Result(nudge, refusal=f"{refuses}: {why}")
        return _Result(nudge)


def _make_nudge(pod: Pod, numbers: NudgeNumbers, target: Target, before: Target | None) -> Nudge:
    told = read_target(pod)
    value = with_content_before(target, told, before)
    value = value._replace(sequence=numbers.after(told))
    replaces = "" if told is None else str(told)
    return Nudge(pod.metadata.name, pod.metadata.uid, str(value), replaces)
