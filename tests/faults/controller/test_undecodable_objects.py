"""Objects that cannot be decoded cost only themselves, in the real process and over HTTP.

What can be decoded is tested where it is decoded (tests/kube/test_decoding); here the process
around it goes on: it starts with them, stays healthy, and serves everybody else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.control_plane import ControlPlane
from tests.support.injecting_proxy import injecting_proxy
from tests.support.scenario import Scenario

#: A field set that nests so deep.
_DEEP = 3000


def _metadata(name: str, version: int, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop", "uid": f"uid-{name}"}
    return {**metadata, "resourceVersion": str(version), **fields}


def deep_config_map() -> str:
    """A ConfigMap whose managedFields nest 3,000 deep; too deep for json.dumps."""
    fields = '{"f:a":' * _DEEP + "{}" + "}" * _DEEP
    entry = f'{{"manager":"m","operation":"Update","fieldsV1":{fields}}}'
    metadata = json.dumps(_metadata("deep", 1))
    metadata = f'{metadata[:-1]},"managedFields":[{entry}]}}'
    return f'{{"metadata":{metadata},"data":{{"LEVEL":"info"}}}}'


def deep_data() -> str:
    """A ConfigMap with a value that is not a string, and nests."""
    value = "[" * 100_000 + "]" * 100_000
    return f'{{"metadata":{json.dumps(_metadata("list", 1))},"data":{{"LEVEL":{value}}}}}'


def invalid_secret() -> str:
    """A Secret whose data is not base64."""
    return json.dumps({"metadata": _metadata("broken", 1), "data": {"password": "$$not base64$$"}})


def invalid_deployment() -> str:
    """A Deployment whose template is of another type."""
    return json.dumps(
        {"metadata": _metadata("odd", 1, annotations={"hotmap.dev/follow": "auto"}), "spec": "none"}
    )


@pytest.mark.parametrize(
    ("plural", "made", "name"),
    [
        pytest.param("configmaps", deep_config_map, "ConfigMap shop/deep", id="managedFields"),
        pytest.param("configmaps", deep_data, "ConfigMap shop/list", id="data"),
        pytest.param("secrets", invalid_secret, "Secret shop/broken", id="base64"),
        pytest.param("deployments", invalid_deployment, "Deployment shop/odd", id="template"),
    ],
)
async def test_undecodable_object_costs_only_itself(
    podless_scenario: Scenario,
    plane: ControlPlane,
    tmp_path: Path,
    plural: str,
    made: Callable[[], str],
    name: str,
) -> None:
    """The controller starts beside it, is healthy, and rolls out what others edit."""
    await podless_scenario.set_up()
    config = plane.config()
    token = config.credentials.authorization().removeprefix("Bearer ")
    async with (
        injecting_proxy(
            config.server,
            token=token,
            objects={plural: [made()]},
            folder=tmp_path,
        ) as kubeconfig,
        podless_scenario.controller(kubeconfig=kubeconfig) as controller,
    ):
        await controller.ready()
        await podless_scenario.edit(LEVEL="debug")
        await podless_scenario.wait_for_rollouts(times=1)
        health = json.loads(await controller.get("/healthz"))
        assert health["healthy"], health
        assert not health["failingTasks"]
        metrics = await controller.get("/metrics")
        pattern = rf'^hotmap_watch_unreadable_objects{{resource="{plural}"}} (.*)'
        found = re.search(pattern, metrics, re.MULTILINE)
        assert found is not None
        # What nests so deep in a field that is not read may be passed over.
        ignored = int(float(found[1]))
        assert ignored == 1 or made is deep_config_map
        assert await controller.stop() == 0
    log = controller.log()
    assert log.count(f"ignoring {name}, which cannot be decoded") == ignored, log[-3000:]
    assert "ended unexpectedly" not in log
    assert "not base64$$" not in log
