"""When `hotmap status --wait` ends, and with which exit status; the controller is a fake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from hotmap.cli.command_options import StatusOptions
from hotmap.cli.shared_options import ClusterOptions, ControllerAddress, WorkloadOptions
from hotmap.cli.status import run_status


class FakeController:
    """Shows one workload, whose pods it checks only when that is queried by its name."""

    def __init__(self) -> None:
        #: What it shows of earlier checks, in turn; the last one from then on.
        self.shown = ["stuck"]
        #: What a check of the pods shows.
        self.checked = "stuck"
        self.checks = 0
        self._server = TestServer(self._app())

    def _app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/v1/status", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.Response:
        if "workload" in request.query:
            assert request.query == {"workload": "StatefulSet/shop/db", "consistent": "true"}
            self.checks += 1
            return web.json_response(document(self.checked))
        state = self.shown.pop(0) if len(self.shown) > 1 else self.shown[0]
        return web.json_response(document(state))

    async def start(self) -> str:
        await self._server.start_server()
        return str(self._server.make_url(""))

    async def stop(self) -> None:
        await self._server.close()


def document(state: str) -> dict[str, Any]:
    workload = {
        "kind": "StatefulSet",
        "namespace": "shop",
        "name": "db",
        "state": state,
        "reason": f"it is {state}",
        "actionRequired": state == "stuck",
        "behind": 0,
    }
    return {
        "kind": "ControllerStatus",
        "ready": True,
        "counts": {state: 1},
        "behind": 0,
        "time": 0.0,
        "workloads": [workload],
    }


@pytest.fixture
async def controller(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeController]:
    monkeypatch.setattr("hotmap.cli.status._FINAL_AFTER", 0.1)
    monkeypatch.setattr("hotmap.cli.status._PERIOD", 0.05)
    controller = FakeController()
    yield controller
    await controller.stop()


async def wait(controller: FakeController, seconds: str = "60s") -> int:
    """Run `hotmap status --namespace=shop --wait`; return the exit status."""
    url = await controller.start()
    options = StatusOptions(wait=seconds)
    workload, address = WorkloadOptions(namespace="shop"), ControllerAddress(url=url)
    return await asyncio.to_thread(run_status, (), workload, options, ClusterOptions(), address)


async def test_wait_ends_when_a_check_confirms_that_a_user_has_to_act(
    controller: FakeController, capsys: pytest.CaptureFixture[str]
) -> None:
    """Long before the time is over, by one check."""
    assert await wait(controller) == 1
    assert controller.checks == 1
    assert "it is stuck" in capsys.readouterr().out


async def test_wait_goes_on_when_a_check_shows_that_the_pods_were_mended(
    controller: FakeController,
) -> None:
    """The overview may be of a check before the user deleted the stuck pod."""
    controller.shown = [*["stuck"] * 12, "current"]
    controller.checked = "waiting"
    assert await wait(controller) == 0
    assert controller.checks


async def test_wait_that_runs_out_is_not_current(controller: FakeController) -> None:
    """Exit status 1, whatever was shown meanwhile."""
    controller.checked = "waiting"
    assert await wait(controller, "500ms") == 1
