"""Workloads that mount SecretProviderClasses, with a controller that follows these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.controller.world import FOLLOW, SETTLE, World
from tests.support.provider_classes import (
    Driver,
    class_volume,
)

from hotmap.controller.run import Controller
from hotmap.core.policy.policy import Defaults
from hotmap.core.reloader.annotations import DialectSettings, Writing

AUTO = {"reloader.stakater.com/auto": "true"}


CLASS_AUTO = {"secretproviderclass.reloader.stakater.com/auto": "true"}


NAMED = "secretproviderclass.reloader.stakater.com/reload"


EXCLUDED = "secretproviderclasses.exclude.reloader.stakater.com/reload"


VARIABLE = "STAKATER_VAULT_SECRETPROVIDERCLASS"


def controller(
    world: World, writing: Writing = Writing.REVISION, *, enabled: bool = True, **settings: Any
) -> Controller:
    """A controller with the integration."""
    ignored = frozenset[str]() if enabled else DialectSettings().ignored_sources
    catch_up = settings.pop("catch_up", False)
    dialect = DialectSettings(ignored_sources=ignored, writing=writing)
    defaults = Defaults(settle=SETTLE, settle_max=1.0, catch_up=catch_up, dialect=dialect)
    return world.controller(defaults=defaults, **settings)


async def set_up(
    world: World,
    driver: Driver,
    *pods: str,
    annotations: Mapping[str, str] = FOLLOW,
    said: Mapping[str, str] | None = None,
    **options: Any,
) -> None:
    """Create a class, and a workload whose pods have mounted its first version."""
    await driver.provider_class(annotations=said)
    await world.workload(spec=class_volume(), annotations=annotations, **options)
    for pod in pods or ("web-1", "web-2"):
        await world.pod(pod)
        await driver.mount(pod, password="1")


async def known(running: Controller, world: World) -> None:
    """Wait until the controller has decided on everything that it can see."""
    await world.quiet(running)


async def settled(world: World, running: Controller) -> None:
    """Wait until what was reported last has been acted on, whatever that is."""
    await world.config_map("canary", LEVEL="1")
    await world.quiet(running)
    await world.delete("ConfigMap", "canary")
    await world.quiet(running)


async def replace_pods(world: World, driver: Driver, **pods: str) -> None:
    """Replace all pods, as a rollout does; each value is the version that is mounted."""
    for pod in ("web-1", "web-2"):
        await driver.end_pod(pod)
    for pod, version in pods.items():
        await world.pod(pod.replace("_", "-"))
        await driver.mount(pod.replace("_", "-"), password=version)
    await world.rolled_out()
