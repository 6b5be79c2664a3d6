"""Carries out actions: one function per action, each a few requests and nothing decided."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from hotmap.controller.evidence import list_pods
from hotmap.core.consumer import Consumer
from hotmap.core.errors import ApiError, Conflict, Forbidden, HotmapError, Invalid, NotFound
from hotmap.core.objects import ObjectMeta, Pod
from hotmap.core.reloader_writing import FIELD_MANAGER
from hotmap.core.target import TARGET, Target, can_be_nudged, read_target
from hotmap.core.template_patch import TemplatePatch
from hotmap.kube.client import Client
from hotmap.kube.resources import BY_KIND, PODS

__all__ = ["Executor", "NotLeading", "NudgeResult"]

#: Nudges in flight at once, over all consumers: files are refreshed by kubelets, each of which
#: then reads the API server, so a burst is spread.
_NUDGES_AT_ONCE = 32

_log = logging.getLogger(__name__)


class _Written(msgspec.Struct):
    """What is read of the answer to a write."""

    metadata: ObjectMeta


class NotLeading(HotmapError):
    """Raised instead of a write when the Lease is lost; the next leader does the work."""


class NudgeResult(NamedTuple):
    """What came of nudging a consumer's pods."""

    #: pods that were sent the annotation
    nudged: int
    #: pods that had been told already, or need not be
    skipped: int
    #: why pods refused it, or ""
    refusal: str


class Executor:
    """Writes to the cluster, always with a precondition on what the decision saw."""

    def __init__(self, client: Client, *, may_write: Callable[[], bool]) -> None:
        self._client = client
        self._may_write = may_write
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

    async def nudge(
        self, consumer: Consumer, target: Target, *, asked: Target | None, again: bool
    ) -> NudgeResult:
        """Tell a consumer's pods what to hold, those that were told something else.

        `asked` is what a pod that was never told anything counts as told. `again` tells all of
        them a second time: a pod sync that outran the kubelet's own watch left old files.

        Raises:
            ApiError, Unreachable: the pods could not be listed.
        """
        pods = [pod for pod in await list_pods(self._client, consumer) if can_be_nudged(pod)]
        needing = [pod for pod in pods if again or _needs(pod, target, asked)]
        refusals = await asyncio.gather(
            *(self._nudge_one(consumer, pod, target) for pod in _spread(needing))
        )
        refused = [refusal for refusal in refusals if refusal]
        return NudgeResult(
            len(needing) - len(refused), len(pods) - len(needing), refused[0] if refused else ""
        )

    def _check(self) -> None:
        """Refuse to write once another may lead; asked right before each write."""
        if not self._may_write():
            raise NotLeading("another replica leads now")

    async def _nudge_one(self, consumer: Consumer, pod: Pod, target: Target) -> str:
        told = read_target(pod)
        value = target._replace(sequence=(told.sequence if told else 0) + 1)
        body = {
            "metadata": {"uid": pod.metadata.uid, "annotations": {TARGET: str(value)}},
        }
        async with self._nudging:
            self._check()
            try:
                await self._client.patch(
                    PODS,
                    consumer.key.namespace,
                    pod.metadata.name,
                    body,
                    type=_Written,
                    idempotent=True,
                )
            except (NotFound, Conflict):
                return ""  # a fact: the pod is gone, or its name is another's
            except (Forbidden, Invalid) as error:
                return (
                    f"Pod {consumer.key.namespace}/{pod.metadata.name} refuses the nudge: {error}"
                )
            except ApiError as error:
                _log.warning("nudge of Pod %s: %s", pod.metadata.name, error)
                return str(error)
        return ""


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
