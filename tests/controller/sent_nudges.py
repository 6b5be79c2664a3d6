"""How tests watch nudges, and what pods have been told by them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from tests.controller.world import REREADS, Object, World, files

hurried = pytest.mark.usefixtures("hurry")


async def rereading_workload(
    world: World, *pods: str, annotations: Mapping[str, str] | None = None
) -> Object:
    """Make a Deployment that mounts the ConfigMap `app`, and re-reads it, with these pods."""
    await world.config_map(LEVEL="info")
    made = await world.workload(
        spec=files(), annotations={**REREADS, **(annotations or {})}, replicas=max(len(pods), 1)
    )
    for pod in pods:
        await world.pod(pod)
    return made


def count_nudges(world: World) -> Counter[str]:
    """Count the patches of pods from now on, by pod."""
    sent: Counter[str] = Counter()

    async def count(plural: str, namespace: str | None, name: str, patch: Any) -> None:
        if plural == "pods":
            sent[name] += 1

    world.registry.guards.append(count)
    return sent


async def nudged(world: World, pod: str, *, after: str = "") -> str:
    """Wait until a pod was told something else than `after`; returns it."""

    async def is_reported() -> str | None:
        now = await world.target(pod)
        return now if now != after else None

    found: str = await world.until(is_reported, f"{pod} is told something else than {after!r}")
    return found
