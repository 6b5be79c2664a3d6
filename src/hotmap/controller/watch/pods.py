"""Lists a consumer's pods when a rule needs them; pods are not watched.

One LIST by the consumer's selector, served from the API server's cache.
"""

from __future__ import annotations

from hotmap.core.model.consumer import Consumer, owns_pod
from hotmap.core.model.objects import Pod
from hotmap.kube.client import Client
from hotmap.kube.resources import PODS

__all__ = ["list_pods"]


async def list_pods(client: Client, consumer: Consumer) -> list[Pod]:
    """List the pods that a consumer selects and owns, including terminating ones.

    `resourceVersion=0`: any cached state is sufficient, since a pod that started too recently to be
    in it read the new content, and deleted pods do not matter. A bare Pod is its own only pod;
    any other consumer without a selector (CronJob) has none.

    Raises:
        ApiError, Unreachable: as the client raises them.
    """
    is_pod = consumer.key.kind == "Pod"
    if not consumer.selector and not is_pod:
        return []
    namespace = consumer.key.namespace
    pods: list[Pod] = []
    token = ""
    while True:
        page = await client.list_page(
            PODS,
            namespace,
            type=Pod,
            label_selector=consumer.selector,
            field_selector=f"metadata.name={consumer.key.name}" if is_pod else "",
            resource_version=None if token else "0",
            continue_token=token,
        )
        pods += (pod for pod in page.items if owns_pod(consumer, pod))
        token = page.continue_token
        if not token:
            return pods
