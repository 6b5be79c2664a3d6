"""How tests find Jobs and other objects that they act on."""

from __future__ import annotations

from tests.controller.world import FOLLOW, NAMESPACE, Object, World

from hotmap.core.errors import NotFound

RECREATE = {**FOLLOW, "hotmap.dev/on-change": "recreate"}


async def jobs(world: World) -> list[Object]:
    return (await world.registry.list("jobs", NAMESPACE)).items


async def uid(world: World, kind: str, name: str) -> str:
    """The uid of an object, "" where there is none."""
    try:
        return str((await world.get(kind, name))["metadata"]["uid"])
    except NotFound:
        return ""


async def find_going(world: World, name: str, kind: str = "Job") -> Object | None:
    obj = await world.get(kind, name)
    return obj if "deletionTimestamp" in obj["metadata"] else None


async def is_true(value: object) -> bool:
    return bool(value)
