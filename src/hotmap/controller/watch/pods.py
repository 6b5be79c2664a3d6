"""Lists a consumer's pods when a rule needs them; pods are not watched.

One LIST by the consumer's selector, served from the API server's cache; several if it is large.
"""

from __future__ import annotations

from hotmap.core.model.consumer import Consumer, owns_pod
from hotmap.core.model.objects import Pod
from hotmap.kube.client import Client
from hotmap.kube.paging import list_items
from hotmap.kube.resources import PODS

__all__ = ["list_pods"]


async def list_pods(client: Client, consumer: Consumer) -> list[Pod]:
    """List the pods that a consumer selects and owns, including terminating ones.

    `resourceVersion=0`: any cached state is sufficient, since a pod that started too recently to be
    in it read the new content, and deleted pods do not matter. A bare Pod is its own only pod;
    any other consumer without a selector (CronJob) has none.

    Raises:
        ResponseTooLarge: they have more bytes than a list may have.
        ApiError, Unreachable: as the client raises them.
    """
    is_pod = consumer.key.kind == "Pod"
    if not consumer.selector and not is_pod:
        return []
    items = list_items(
        client,
        PODS,
        consumer.key.namespace,
        type=Pod,
        label_selector=consumer.selector,
        field_selector=f"metadata.name={consumer.key.name}" if is_pod else "",
        cached=True,
    )
    return [pod async for pod in items if owns_pod(consumer, pod)]
