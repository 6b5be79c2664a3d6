"""The queues of consumers are shared fairly between namespaces."""

import asyncio

import pytest

from hotmap.controller.queues import ConsumerQueues
from hotmap.core.model.objects import ObjectKey

WORKERS = 32


def deployment(namespace: str, number: int) -> ObjectKey:
    return ObjectKey("Deployment", namespace, f"d{number}")


@pytest.mark.parametrize("slow", [1, 5, WORKERS // 2])
async def test_namespaces_whose_writes_hang_leave_workers_to_others(slow: int) -> None:
    """As many as half of the workers, such as where an admission webhook does not answer."""
    queue = ConsumerQueues(workers=WORKERS).reconciles
    taken = 0
    for namespace in range(slow):  # as their edits arrive: the first one finds all workers free
        for number in range(WORKERS):
            queue.add(deployment(f"slow{namespace}", number))
        while taken < WORKERS and queue.has_ready():
            queue.get_nowait()
            taken += 1
    other = deployment("other", 0)
    queue.add(other)
    assert taken < WORKERS
    assert queue.get_nowait() == other


async def test_one_worker_takes_any_key() -> None:
    """The smallest number of workers leaves none to others."""
    queue = ConsumerQueues(workers=1).reconciles
    queue.add(deployment("a", 0))
    queue.add(deployment("b", 0))
    queue.done(queue.get_nowait())
    assert queue.get_nowait().namespace == "b"
    with pytest.raises(asyncio.QueueEmpty):
        queue.get_nowait()
