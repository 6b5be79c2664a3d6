"""The first 500 pods of an owner come at once, further ones at Kubernetes' pace."""

from __future__ import annotations

import pytest
from tests.local.controllers.plane import control_plane

from hotmap.local.controllers import creation_pace
from hotmap.local.controllers.creation_pace import BURST, CreationPace

_CONTAINER = {"name": "main", "image": "host", "command": ["true"]}


def test_creation_pace_is_twenty_a_second_after_the_burst() -> None:
    """Once a second, and each owner for itself; what is not used is saved up to the burst."""
    now = 100.0
    pace = CreationPace(clock=lambda: now)
    assert pace.take("a", 2**31) == BURST
    assert pace.take("a", 2**31) == 0
    assert pace.pause("a") == 1.0
    assert pace.take("b", 3) == 3
    now += 0.5
    assert pace.take("a", 2**31) == 0
    assert pace.take("a", 5) == 5
    now += 1.0
    assert pace.take("a", 2**31) == 25
    now += 3600.0
    assert pace.take("a", 2**31) == BURST


def test_creation_pace_forgets_owners_that_may_have_a_full_burst() -> None:
    """Thousands of owners over the years cost no memory."""
    now = 100.0
    pace = CreationPace(clock=lambda: now)
    pace.take("busy", 2**31)
    for number in range(5000):
        pace.take(str(number), 1)
        now += 0.001
    assert len(pace._buckets) <= 1001
    assert pace.take("busy", 2**31) < BURST


async def test_replica_set_creates_pods_beyond_the_burst_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The number is reached, and none is forgotten when the burst is over."""
    monkeypatch.setattr(creation_pace, "BURST", 4)
    async with control_plane(with_node=False) as plane:
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [_CONTAINER]}}
        spec = {"replicas": 6, "selector": {"matchLabels": labels}, "template": template}
        await plane.create("replicasets", {"metadata": {"name": "web"}, "spec": spec})

        async def all_there() -> bool:
            return len(await plane.names("pods")) == 6

        await plane.until(all_there, what="all pods")
