"""Carries out actions: one function per action, each a few requests and nothing decided."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from hotmap.controller.reconcile.job_recreation import JobRecreations
from hotmap.controller.watch.pods import list_pods
from hotmap.core.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    HotmapError,
    NotFound,
    Throttled,
    Unauthorized,
    Unavailable,
)
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectMeta, Pod
from hotmap.core.patch.jobs import job_again, job_of_cron_job
from hotmap.core.patch.nudge import TARGET, Target, can_be_nudged, read_target
from hotmap.core.patch.rollout import TemplatePatch
from hotmap.core.reloader.patch import FIELD_MANAGER
from hotmap.kube.client import Client
from hotmap.kube.resources import BY_KIND, CRONJOBS, JOBS, PODS, ROLLOUTS

__all__ = ["Executor", "NotLeading", "NudgeResult"]

#: Nudges in flight at once, over all consumers: files are refreshed by kubelets, each of which
#: then reads the API server, so a burst is spread.
_NUDGES_AT_ONCE = 32


class _Written(msgspec.Struct):
    """What is read of the answer to a write."""

    metadata: ObjectMeta


class NotLeading(HotmapError):
    """Raised instead of a write when the Lease is lost; the next leader does the work."""


class NudgeResult(NamedTuple):
    """What came of nudging a consumer's pods."""

    #: uids of the pods that were told something new
    told: frozenset[str] = frozenset()
    #: uids of the pods that could not be told now, and why; to be tried again
    missed: frozenset[str] = frozenset()
    failure: HotmapError | None = None
    #: why pods refused it, or ""
    refusal: str = ""


class _Sent(NamedTuple):
    """What came of nudging one pod."""

    uid: str
    #: why it will never take it, or ""
    refusal: str = ""
    #: why it could not be told now
    failure: HotmapError | None = None


class Executor:
    """Writes to the cluster, always with a precondition on what the decision saw."""

    #: Whether pod templates show afterwards what was asked.
    writes = True

    def __init__(
        self, client: Client, *, may_write: Callable[[], bool], job_recreations: JobRecreations
    ) -> None:
        self._client = client
        self._may_write = may_write
        self._recreations = job_recreations
        self._nudging = asyncio.Semaphore(_NUDGES_AT_ONCE)

    async def rollout(self, consumer: Consumer, patch: TemplatePatch) -> int:
        """Write a rollout into a consumer's pod template; returns its generation after that.

        Raises:
            Conflict: the consumer moved on; decide again.
            Invalid: another object has its name now (wrong uid), or a policy refuses.
            NotFound: it is gone.
            ApiError, Unreachable: as the client raises them.
        """
        self._check()
        answer = await self._client.patch(
            BY_KIND[consumer.key.kind],
            consumer.key.namespace,
            consumer.key.name,
            patch.body,
            type=_Written,
            content_type=patch.content_type,
            field_manager=patch.field_manager,
        )
        return answer.metadata.generation

    async def resume(self, consumer: Consumer, annotation: str) -> None:
        """Resume a Deployment that Reloader paused, and take away the annotation that says so.

        Raises:
            Conflict, Invalid, NotFound, ApiError, Unreachable: as for `rollout`.
        """
        self._check()
        precondition = {"uid": consumer.uid, "resourceVersion": consumer.resource_version}
        await self._client.patch(
            BY_KIND[consumer.key.kind],
            consumer.key.namespace,
            consumer.key.name,
            {
                "metadata": {**precondition, "annotations": {annotation: None}},
                "spec": {"paused": False},
            },
            type=_Written,
            field_manager=FIELD_MANAGER,
        )

    async def restart_pods(self, consumer: Consumer, at: int) -> int:
        """Have an Argo Rollout replace the pods that were made before a time.

        `at` is POSIX seconds; returns the consumer's generation after that. Argo compares whole
        seconds and waits for a time to come (argo-rollouts: rollout/restart.go).

        Raises:
            Conflict, Invalid, NotFound, ApiError, Unreachable: as for `rollout`.
        """
        argo = consumer.argo
        assert argo is not None, "a plan asks this of Rollouts only"
        self._check()
        answer = await self._client.patch(
            ROLLOUTS,
            argo.key.namespace,
            argo.key.name,
            {
                "metadata": {"uid": argo.uid, "resourceVersion": argo.resource_version},
                "spec": {"restartAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))},
            },
            type=_Written,
        )
        return answer.metadata.generation if consumer.key == argo.key else consumer.generation

    async def run_now(self, consumer: Consumer, name: str) -> None:
        """Start a Job of a CronJob under a name; if there is one of that name, that is it.

        Raises:
            Conflict: the CronJob moved on (it may be suspended now); decide again.
            NotFound: it is gone.
            ApiError, Unreachable: as the client raises them.
        """
        cron_job = await self._read_same(consumer)
        self._check()
        with suppress(AlreadyExists):
            await self._client.create(
                JOBS,
                consumer.key.namespace,
                job_of_cron_job(cron_job, name),
                type=_Written,
                idempotent=True,
            )

    async def recreate(self, consumer: Consumer, why: str) -> None:
        """Delete a Job and see to it that it is created again; see `recreations`.

        It is created as a dry run first, so that a policy that refuses it now does so while the
        Job is still there. That its name is taken is found out after all else was checked
        (kubernetes: apiserver/pkg/registry/generic/registry/store.go Create).

        Raises:
            Conflict, NotFound: it is another one by now; decide again.
            ApiError, Unreachable: as the client raises them; the Job may be on its way.
        """
        again = job_again(await self._read_same(consumer))
        with suppress(AlreadyExists):
            await self._client.create(
                JOBS, consumer.key.namespace, again, type=_Written, dry_run=True, idempotent=True
            )
        self._check()
        await self._recreations.again(consumer.uid, consumer.resource_version, again, why)

    async def evict(self, consumer: Consumer) -> None:
        """Evict a Pod; PodDisruptionBudgets are respected.

        Raises:
            Throttled: a budget does not allow it now; try again later.
            Conflict, NotFound: it is another one by now, or gone.
            ApiError, Unreachable: as the client raises them.
        """
        self._check()
        namespace, name = consumer.key.namespace, consumer.key.name
        precondition = {"uid": consumer.uid, "resourceVersion": consumer.resource_version}
        await self._client.create(
            PODS,
            namespace,
            {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"namespace": namespace, "name": name},
                "deleteOptions": {"preconditions": precondition},
            },
            type=msgspec.Raw,
            subresource=(name, "eviction"),
            idempotent=True,
            attempts=1,  # a budget wants minutes; the queue has them
        )

    async def _read_same(self, consumer: Consumer) -> dict[str, Any]:
        """Read a whole object, as it was when its consumer was decided on.

        Raises:
            Conflict: it is not any more.
        """
        resource = CRONJOBS if consumer.key.kind == "CronJob" else JOBS
        obj: dict[str, Any] = await self._client.get(
            resource, consumer.key.namespace, consumer.key.name, type=dict
        )
        metadata = obj["metadata"]
        saw = (consumer.uid, consumer.resource_version)
        if (metadata["uid"], metadata["resourceVersion"]) != saw:
            raise Conflict(f"{consumer.key} was written since the decision")
        return obj

    async def nudge(
        self,
        consumer: Consumer,
        target: Target,
        *,
        asked: Target | None,
        again: Collection[str] = (),
    ) -> NudgeResult:
        """Tell a consumer's pods what to hold, those that were told something else.

        `asked` is what a pod that was never told anything counts as told. Pods whose uids are in
        `again` are told a second time: a pod sync that outran the kubelet's own watch left old
        files. One pod's failure keeps no other from being told.

        Raises:
            ApiError, Unreachable: the pods could not be listed.
        """
        pods = [pod for pod in await list_pods(self._client, consumer) if can_be_nudged(pod)]
        new = {pod.metadata.uid for pod in pods if _needs(pod, target, asked)}
        needing = [pod for pod in pods if pod.metadata.uid in new or pod.metadata.uid in again]
        sent = await asyncio.gather(
            *(self._nudge_one(consumer, pod, target) for pod in _spread(needing))
        )
        failures = {one.uid: one.failure for one in sent if one.failure}
        refusals = {one.uid: one.refusal for one in sent if one.refusal}
        return NudgeResult(
            told=frozenset(new - failures.keys() - refusals.keys()),
            missed=frozenset(failures),
            failure=next(iter(failures.values()), None),
            refusal=next(iter(refusals.values()), ""),
        )

    def _check(self) -> None:
        """Refuse to write once another may lead; asked right before each write."""
        if not self._may_write():
            raise NotLeading("another replica leads now")

    async def _nudge_one(self, consumer: Consumer, pod: Pod, target: Target) -> _Sent:
        uid = pod.metadata.uid
        told = read_target(pod)
        value = target._replace(sequence=(told.sequence if told else 0) + 1)
        body = {"metadata": {"uid": uid, "annotations": {TARGET: str(value)}}}
        async with self._nudging:
            try:
                self._check()
                await self._client.patch(
                    PODS,
                    consumer.key.namespace,
                    pod.metadata.name,
                    body,
                    type=_Written,
                    attempts=1,  # the consumer is tried again; others need not wait for it
                )
            except (NotFound, Conflict):
                return _Sent(uid)  # a fact: the pod is gone, or its name is another's
            except (Throttled, Unavailable, Unauthorized) as error:
                return _Sent(uid, failure=error)
            except ApiError as error:
                named = f"Pod {consumer.key.namespace}/{pod.metadata.name}"
                return _Sent(uid, refusal=f"{named} refuses the nudge: {error}")
            except HotmapError as error:
                return _Sent(uid, failure=error)
        return _Sent(uid)


def _needs(pod: Pod, target: Target, asked: Target | None) -> bool:
    told = read_target(pod) or asked
    return told is None or (told.live, told.frozen) != (target.live, target.frozen)


def _spread(pods: Sequence[Pod]) -> list[Pod]:
    """Order pods so that neighbours in the list run on different nodes."""
    by_node: dict[str, list[Pod]] = {}
    for pod in pods:
        by_node.setdefault(pod.spec.node_name, []).append(pod)
    spread: list[Pod] = []
    rows = list(by_node.values())
    while rows:
        spread += [row.pop() for row in rows]
        rows = [row for row in rows if row]
    return spread
