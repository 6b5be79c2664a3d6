"""Values of Secrets are nowhere but in their Secrets: not in logs, Events, records or status."""

from __future__ import annotations

import logging
from base64 import b64decode, b64encode
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.controller.world import REREADS, World, env

from hotmap.core.errors import api_error

#: Values that a Secret has one after the other; none of them may be seen anywhere.
PLANTED = ("swordfish-1", "swordfish-2", "swordfish-3", "swordfish-4")


def secret_files() -> dict[str, Any]:
    """A pod spec that mounts the Secret login."""
    mount = {"name": "login", "mountPath": "/etc/login"}
    return {
        "containers": [{"name": "main", "image": "app:1", "volumeMounts": [mount]}],
        "volumes": [{"name": "login", "secret": {"secretName": "login"}}],
    }


async def test_secret_values_are_not_exposed(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Through rollouts, nudges, refusals, holds and a restart, with every log line kept."""
    caplog.set_level(logging.DEBUG)
    refused = False

    async def refuse_once(plural: str, namespace: str | None, name: str, patch: Any) -> None:
        nonlocal refused
        if plural == "deployments" and not refused:
            refused = True
            raise api_error(403, "not now")

    world.registry.guards.append(refuse_once)
    shown = []
    await world.secret("login", password=PLANTED[0])
    await world.workload("env", env("password", source="login", kind="secret"))
    await world.workload("files", secret_files(), annotations=REREADS)
    await world.pod("files-1", of="files")
    for value in PLANTED[1:]:
        async with world.controller() as controller:
            await world.quiet(controller)
            before = await world.revision("env")
            await world.edit("login", kind="Secret", password=value)
            await world.rollout("env", after=before)
            await world.rolled_out("env")
            await world.edit("login", kind="Secret", password=None)
            await world.event("Held")
            await world.edit("login", kind="Secret", password=value)
            shown.append(await _served(controller.port))
    everything = [
        *shown,
        *(_text(record) for record in caplog.records),
        *[msgspec.json.encode(event).decode() for event in await world.events()],
        *[b64decode(text).decode() for text in (await world.records()).values()],
    ]
    for plural in ("deployments", "pods"):
        items = (await world.registry.list(plural, None)).items
        everything += [msgspec.json.encode(item).decode() for item in items]
    # Each place was looked at when it told of the Secret.
    assert any("hotmap-state/1" in text and '"login"' in text for text in everything)
    assert any("RolledOut" in text and "login" in text for text in everything)
    assert all('"name":"login"' in text.replace(" ", "") for text in shown)
    assert any("login" in record.getMessage() for record in caplog.records)
    found = [
        text
        for text in everything
        for value in PLANTED
        if value in text or b64encode(value.encode()).decode() in text
    ]
    assert found == []


def _text(record: logging.LogRecord) -> str:
    """Everything that a handler could write of a log record."""
    return f"{record.getMessage()} {record.__dict__}"


async def _served(port: int) -> str:
    texts = []
    async with aiohttp.ClientSession() as http:
        proofs = [f"/v1/status?workload=default/{name}" for name in ("env", "files")]
        for path in ("/metrics", "/healthz", "/readyz", "/v1/status", *proofs):
            async with http.get(f"http://127.0.0.1:{port}{path}") as response:
                texts.append(await response.text())
    return "\n".join(texts)
