"""Pages of a running controller, fetched by HTTP."""

from __future__ import annotations

from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from hotmap.controller.run import Controller


async def get_json(http: aiohttp.ClientSession, controller: Controller, path: str) -> Any:
    async with http.get(f"http://127.0.0.1:{controller.port}{path}") as response:
        return response.status, await response.json()


async def get_metrics(
    http: aiohttp.ClientSession, controller: Controller
) -> dict[tuple[str, str], float]:
    """Fetch all samples, by name and by the values of their labels in the order of those."""
    async with http.get(f"http://127.0.0.1:{controller.port}/metrics") as response:
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = await response.text()
    return {
        (sample.name, "/".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def count_workloads(http: aiohttp.ClientSession, controller: Controller) -> dict[str, float]:
    """Fetch the metric with the number of workloads in each state."""
    samples = await get_metrics(http, controller)
    return {state: value for (name, state), value in samples.items() if name == "hotmap_workloads"}
