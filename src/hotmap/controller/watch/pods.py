"""Lists a consumer's pods when a rule needs them; pods are not watched.

One LIST by the consumer's selector, served from the API server's cache; several if it is large, or
if that cache lags behind.
"""

from __future__ import annotations

from hotmap.core.model.consumer import Consumer, owns_pod
from hotmap.core.model.objects import Pod
from hotmap.kube.client import Client
from hotmap.kube.paging import list_items
from hotmap.kube.resources import PODS

__all__ = ["list_pods"]

#: The label of a Job's pods with its name (kubernetes: batch/v1, JobNameLabel).
_JOB_NAME = "batch.kubernetes.io/job-name"


async def list_pods(client: Client, consumer: Consumer, *, runs: bool = False) -> list[Pod]:
    """List the pods that a consumer selects and owns, including terminating ones.

    A cached state is sufficient, since a pod that started too recently to be in it read the new
    content, and deleted pods do not matter. But a cache that lags far behind may lack a pod from
    before a change: if its own controller counts more pods, they are listed consistently. A bare
    Pod is its own only pod. A CronJob has none, but with `runs` those of its runs in progress.

    Raises:
        ResponseTooLarge: they have more bytes than a list may have.
        ApiError, Unreachable: as the client raises them.
    """
    selector = consumer.selector
    if runs and consumer.runs:
        selector = f"{_JOB_NAME} in ({','.join(consumer.runs)})"
    pods = await _list_pods(client, consumer, selector, cached=True)
    active = sum(not pod.metadata.deletion_timestamp for pod in pods)
    if active >= consumer.pods:
        return pods
    return await _list_pods(client, consumer, selector, cached=False)


async def _list_pods(
    client: Client, consumer: Consumer, selector: str, *, cached: bool
) -> list[Pod]:
    is_pod = consumer.key.kind == "Pod"
    if not selector and not is_pod:
        return []
    items = list_items(
        client,
        PODS,
        consumer.key.namespace,
        type=Pod,
        label_selector=selector,
        field_selector=f"metadata.name={consumer.key.name}" if is_pod else "",
        cached=cached,
    )
    return [pod async for pod in items if owns_pod(consumer, pod)]
