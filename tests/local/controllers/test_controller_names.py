"""Which controllers a list selects, as kube-controller-manager's `--controllers` does."""

from __future__ import annotations

import pytest
from tests.local.controllers.plane import FakeNode, Plane, web

from hotmap.local.apiserver.bootstrap import create_system_namespaces
from hotmap.local.apiserver.registry import Registry
from hotmap.local.controllers.controller_names import CONTROLLER_NAMES, select_controllers
from hotmap.local.controllers.run import Controllers
from hotmap.local.store import MVCCStore

ALL = set(CONTROLLER_NAMES)


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        pytest.param("*", ALL, id="all"),
        pytest.param("*,-scheduler", ALL - {"scheduler"}, id="all but one"),
        pytest.param(" * , -scheduler ", ALL - {"scheduler"}, id="spaces"),
        pytest.param("-scheduler,*,scheduler", ALL, id="enabled and disabled"),
        pytest.param("job-controller,scheduler", {"job-controller", "scheduler"}, id="two"),
        pytest.param("-scheduler", set(), id="nothing is enabled"),
        pytest.param("", set(), id="none"),
    ],
)
def test_list_selects_controllers(text: str, selected: set[str]) -> None:
    """A controller runs if it is named, or if `*` is there and it is not disabled."""
    assert set(select_controllers(text)) == selected


@pytest.mark.parametrize("text", ["daemonset", "*,-daemonset", "**", "*,-"])
def test_unknown_controller_is_refused(text: str) -> None:
    """The message has the names that there are."""
    with pytest.raises(
        ValueError, match=r"unknown controller .*; there are .*daemonset-controller"
    ):
        select_controllers(text)


async def test_disabled_controller_does_not_run() -> None:
    """A Deployment stays without ReplicaSet; the namespace gets its service account."""
    registry = Registry(MVCCStore())
    await create_system_namespaces(registry)
    plane = Plane(registry, FakeNode(registry, lambda: 1_800_000_000.0))
    controllers = select_controllers("*,-deployment-controller")
    async with Controllers(registry, controllers=controllers):
        await plane.create("deployments", web(1))

        async def has_account() -> bool:
            return "default" in await plane.names("serviceaccounts", "default")

        await plane.until(has_account)
    assert await plane.items("replicasets") == []
