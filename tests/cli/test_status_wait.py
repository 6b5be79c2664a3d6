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
from hotmap.cli.status_response import StatusUnavailable


class FakeController:
    """Shows one workload, whose pods it checks only when that is queried by its name."""

    def __init__(self) -> None:
        #: What it shows of earlier checks, in turn; the last one from then on.
        self.shown = ["stuck"]
        #: What a check of the pods shows.
        self.checked = "stuck"
        self.checks = 0
        #: What answers while the controller is replaced, in turn: "standby" or "error".
        self.away: list[str] = []
        self._server = TestServer(self._app())

    def _app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/v1/status", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.Response:
        if self.away:
            if self.away.pop(0) == "error":
                return web.json_response({}, status=503)
            return web.json_response(document("current") | {"ready": False, "workloads": []})
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


async def test_wait_continues_when_a_check_shows_that_the_pods_recovered(
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


@pytest.mark.parametrize("first", ["current", "waiting"])
async def test_wait_continues_while_the_controller_is_replaced(
    controller: FakeController, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rolling update of hotmap, before the first answer or between two."""
    controller.shown = [first, "current"]
    controller.away = ["standby", "error", "error", "standby"]
    assert await wait(controller) == 0
    assert capsys.readouterr().err.count("; retrying") == 1


async def test_wait_ends_when_no_controller_comes_back(
    controller: FakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its time is over: an hour's wait for a controller that was never installed is long."""
    monkeypatch.setattr("hotmap.cli.status._AWAY_FOR", 0.2)
    controller.away = ["standby"] * 1000
    with pytest.raises(StatusUnavailable, match="is a standby"):
        await wait(controller)


async def test_status_without_wait_does_not_retry(
    controller: FakeController, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit status of one question is about this moment."""
    controller.away = ["standby"]
    with pytest.raises(StatusUnavailable, match="is a standby"):
        await wait(controller, "")
    assert capsys.readouterr().err == ""


async def test_workload_that_is_named_twice_is_shown_once(
    controller: FakeController, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its kind and without, in any spelling."""
    url = await controller.start()
    controller.checked = "current"
    names = ("sts/db", "statefulset/shop/db")
    workload, address = WorkloadOptions(namespace="shop", output="name"), ControllerAddress(url=url)
    status = await asyncio.to_thread(
        run_status, names, workload, StatusOptions(), ClusterOptions(), address
    )
    assert status == 0
    assert capsys.readouterr().out == "statefulset.apps/db\n"
