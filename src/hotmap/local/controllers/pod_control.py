"""Creating and deleting the pods of an owner, with its Events.

kubernetes: pkg/controller/controller_utils.go, RealPodControl.

The cache has seen all that was written before a method returns, so the next decision counts it;
that takes the place of upstream's expectations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from hotmap.core.errors import ApiError, Conflict, NotFound, is_namespace_terminating
from hotmap.local.client import Client
from hotmap.local.informer import Informer
from hotmap.local.meta import MANAGER, Object, is_deleted, name_of, uid_of
from hotmap.local.recorder import Recorder

__all__ = ["PodControl", "is_staying", "pod_from_template"]


class PodControl:
    """Creates and deletes pods on behalf of their owners."""

    def __init__(self, client: Client, pods: Informer, recorder: Recorder) -> None:
        self._client = client
        self._pods = pods
        self._recorder = recorder

    async def create(self, owner: Object, pods: Iterable[Object]) -> None:
        """Create pods one after another and stop at the first failure.

        Upstream sends batches of 1, 2, 4 … so that a quota is not met by hundreds of refused
        requests at once; one by one is gentler still, and in one process as fast.

        Raises:
            ApiError: a pod could not be created; an Event says why.
        """
        created, failure = None, None
        for pod in pods:
            try:
                created = await self._client.create(
                    "pods", owner["metadata"]["namespace"], pod, manager=MANAGER
                )
            except ApiError as error:
                failure = error
                break
            text = f"Created pod: {created['metadata']['name']}"
            self._recorder.event(owner, "Normal", "SuccessfulCreate", text)
            # The registry answers without waiting; requests come in between.
            await asyncio.sleep(0)
        if created is not None:
            await self._pods.wait_for_version(created["metadata"]["resourceVersion"])
        # A terminating namespace takes no pods, and their owners are deleted with it.
        if failure is not None and not is_namespace_terminating(failure):
            text = f"Error creating: {failure}"
            self._recorder.event(owner, "Warning", "FailedCreate", text)
            raise failure

    async def delete(self, owner: Object, pods: Sequence[Object]) -> None:
        """Delete pods, and return when all of them are gone or on their way out.

        Raises:
            ApiError: a pod could not be deleted; an Event says why.
        """
        deleted: list[Object] = []
        failure = None
        for pod in pods:
            try:
                await self._delete(owner, pod)
            except ApiError as error:
                failure = error
                break
            deleted.append(pod)
            await asyncio.sleep(0)
        await self._pods.until(lambda: not any(is_staying(self._pods, pod) for pod in deleted))
        if failure is not None:
            raise failure

    async def _delete(self, owner: Object, pod: Object) -> None:
        try:
            await self._client.delete("pods", *name_of(pod), uid=uid_of(pod))
        except (NotFound, Conflict):
            pass  # gone already, or another pod of that name: the cache will have that soon
        except ApiError as error:
            text = f"Error deleting: {error}"
            self._recorder.event(owner, "Warning", "FailedDelete", text)
            raise
        else:
            text = f"Deleted pod: {pod['metadata']['name']}"
            self._recorder.event(owner, "Normal", "SuccessfulDelete", text)


def is_staying(pods: Informer, pod: Object) -> bool:
    """Return whether the cache still has a pod, and its deletion has not begun."""
    present = pods.objects.get(name_of(pod))
    return present is not None and uid_of(present) == uid_of(pod) and not is_deleted(present)


def pod_from_template(owner: Object, template: Object, reference: Object) -> Object:
    """Build a pod from a template (kubernetes: controller_utils.go, GetPodFromTemplate)."""
    metadata = template.get("metadata") or {}
    passed_on = ("labels", "annotations", "finalizers")
    return {
        "metadata": {
            "generateName": f"{owner['metadata']['name']}-",
            **{field: metadata[field] for field in passed_on if metadata.get(field)},
            "ownerReferences": [reference],
        },
        "spec": template["spec"],
    }
