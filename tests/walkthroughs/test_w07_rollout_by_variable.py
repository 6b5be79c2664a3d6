"""W7: a rollout by hand: a variable with the time in it."""

from __future__ import annotations

import time

from tests.walkthroughs.backend import Backend
from tests.walkthroughs.manifests import CONFIG, ENVIRONMENT
from tests.walkthroughs.steps import replaced, running_pod, variable


async def test_variable_of_one_container_rolls(backend: Backend) -> None:
    """The patch finds the container by its name and leaves the rest of it as it was."""
    await backend.create(CONFIG + ENVIRONMENT)
    first = await running_pod(backend, "my-nginx")
    await backend.patch("ConfigMap", "env-config", {"data": {"log_level": "DEBUG"}})
    now = str(int(time.time()))
    container = {"name": "my-nginx", "env": [{"name": "RESTART_TIME", "value": now}]}
    body = {"spec": {"template": {"spec": {"containers": [container]}}}}
    await backend.patch("Deployment", "my-nginx", body)
    await backend.rolled_out("my-nginx")
    second = await replaced(backend, "my-nginx", first)
    assert await variable(backend, second, "RESTART_TIME") == now
    assert await variable(backend, second, "log_level") == "DEBUG"
