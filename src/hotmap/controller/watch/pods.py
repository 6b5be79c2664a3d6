"""Lists a consumer's pods when a rule needs them; pods are not watched.

One LIST by the consumer's selector, served from the API server's cache; several if it is large, or
if that cache lags behind.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import msgspec

from hotmap.core.errors import Forbidden
from hotmap.core.model.consumer import Consumer, adopted_through, controller_of, owns_pod
from hotmap.core.model.consumer_conversion import MAX_RUNS, is_finished
from hotmap.core.model.objects import Job, ObjectMeta, Pod
from hotmap.kube.client import Client
from hotmap.kube.loop_slices import share_loop
from hotmap.kube.paging import list_items
from hotmap.kube.resources import JOBS, PODS, REPLICASETS, Selection

__all__ = ["in_groups", "list_pods", "with_all_runs"]

#: The label of a Job's pods with its name (kubernetes: batch/v1, JobNameLabel).
_JOB_NAME = "batch.kubernetes.io/job-name"

#: Pods between which other tasks may run: what is derived from one takes 50 µs.
_GROUP = 20

#: Pods of which a list is mostly short.
_FEW_PODS = 20


async def list_pods(
    client: Client,
    consumer: Consumer,
    *,
    runs: bool = False,
    cached: bool = True,
) -> list[Pod]:
    """List the pods that a consumer selects and owns, including terminating ones.

    A cached state is mostly sufficient, since a pod that started too recently to be in it read the
    new content, and deleted pods do not matter. But a cache that lags far behind may lack a pod
    from before a change: if its own controller counts more pods, they are listed consistently; and
    if there are pods of ReplicaSets with other names, it is looked up whose these are. A bare Pod
    is its own only pod. A CronJob has none, but with `runs` those of its runs in progress.

    Raises:
        ResponseTooLarge: they have more bytes than a list may have.
        ApiError, Unreachable: as the client raises them.
    """
    selector = consumer.selector
    if runs and consumer.runs:
        selector = f"{_JOB_NAME} in ({','.join(consumer.runs)})"
    pods, others = await _list_pods(client, consumer, selector, cached=cached)
    if cached and _count_active(pods) < consumer.pods:
        del pods, others  # they may be large
        pods, others = await _list_pods(client, consumer, selector, cached=False)
    if others and _count_active(pods) < consumer.pods:
        adopted = await _list_adopted(client, consumer)
        pods += [pod for pod in others if adopted_through(consumer, pod) in adopted]
    return pods


async def in_groups(pods: Sequence[Pod]) -> AsyncIterator[Sequence[Pod]]:
    """Yield pods in small groups, so that work on thousands does not block the event loop."""
    for begin in range(0, len(pods), _GROUP):
        await share_loop()
        yield pods[begin : begin + _GROUP]


def _count_active(pods: Sequence[Pod]) -> int:
    return sum(not pod.metadata.deletion_timestamp for pod in pods)


async def _list_pods(
    client: Client, consumer: Consumer, selector: str, *, cached: bool
) -> tuple[list[Pod], list[Pod]]:
    """List a consumer's pods, and those that may be its own through an adopted ReplicaSet."""
    is_pod = consumer.key.kind == "Pod"
    if not selector and not is_pod:
        return [], []
    name = f"metadata.name={consumer.key.name}" if is_pod else ""
    selection = Selection(PODS, consumer.key.namespace, selector, name)
    is_long = consumer.pods > _FEW_PODS
    items = list_items(client, selection, type=Pod, cached=cached, is_long=is_long)
    pods: list[Pod] = []
    others: list[Pod] = []
    async for pod in items:
        if owns_pod(consumer, pod):
            pods.append(pod)
        elif adopted_through(consumer, pod):
            others.append(pod)
    return pods, others


async def with_all_runs(client: Client, consumer: Consumer, *, cached: bool = True) -> Consumer:
    """Return a CronJob with all Jobs in progress that were made from it; another kind as it is.

    Its own controller lists those that its schedule has started, and not what hotmap or `kubectl
    create job --from` makes (kubernetes: cronjob controller, "UnexpectedJob"). With `cached`, one
    that was created a moment ago may be missing.

    Raises:
        ResponseTooLarge: the Jobs of its namespace have more bytes than a list may have.
        ApiError, Unreachable: as the client raises them; not where Jobs may not be listed.
    """
    if consumer.key.kind != "CronJob":
        return consumer
    found = set(consumer.runs)
    with suppress(Forbidden):
        selection = Selection(JOBS, consumer.key.namespace)
        jobs = list_items(client, selection, type=Job, cached=cached)
        async for job in jobs:
            owner = controller_of(job.metadata)
            if owner is not None and owner.uid == consumer.uid and not is_finished(job):
                found.add(job.metadata.name)
    return msgspec.structs.replace(consumer, runs=tuple(sorted(found)[:MAX_RUNS]))


async def _list_adopted(client: Client, consumer: Consumer) -> set[str]:
    """List the uids of the ReplicaSets that a Deployment or a Rollout controls."""
    selection = Selection(REPLICASETS, consumer.key.namespace, consumer.selector)
    items = list_items(client, selection, type=_ReplicaSet)
    uid = consumer.argo.uid if consumer.argo else consumer.uid
    found = set()
    async for item in items:
        owner = controller_of(item.metadata)
        if owner is not None and owner.uid == uid:
            found.add(item.metadata.uid)
    return found


class _ReplicaSet(msgspec.Struct, gc=False):
    metadata: ObjectMeta
