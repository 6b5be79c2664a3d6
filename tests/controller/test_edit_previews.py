"""What an edit would do to each workload that uses a source, asked before it is made."""

from __future__ import annotations

from typing import Any
from unittest import mock

import aiohttp
import pytest
from tests.controller.pages import get_json
from tests.controller.test_reloader_rollouts import (
    AUTO,
    DEBUG,
    VARIABLE,
    controller,
    until_variable,
)
from tests.controller.world import FOLLOW, REREADS, World, env, files

APP = "/v1/status?source=configmap/default/app"


def by_name(body: dict[str, Any]) -> dict[str, tuple[bool, list[str]]]:
    return {item["name"]: (item["followed"], item["actions"]) for item in body["workloads"]}


async def test_edit_of_a_data_key_is_foreseen(world: World, http: aiohttp.ClientSession) -> None:
    """Every user of the source is listed; nothing is written, and the edit does what was said."""
    await world.config_map(LEVEL="info", OTHER="x")
    await world.workload("a-variable", env("LEVEL"))
    await world.workload("b-other", env("OTHER"))
    await world.workload("c-files", files(), annotations=REREADS)
    await world.workload("d-unfollowed", env("LEVEL"), annotations={})
    excluded = {**FOLLOW, "hotmap.dev/exclude": "configmap/app"}
    await world.workload("e-excluded", env("LEVEL"), annotations=excluded)
    unnamed = {"hotmap.dev/follow": "configmap/other"}
    await world.workload("f-not-named", env("LEVEL"), annotations=unnamed)
    async with world.controller() as controller:
        await world.quiet(controller)
        _, body = await get_json(http, controller, f"{APP}&changed=LEVEL")
        assert await world.revision("a-variable") == ""
        await world.edit(LEVEL="debug")
        await world.rollout("a-variable")
        message = await world.event("RolledOut")
    assert by_name(body) == {
        "a-variable": (True, ["rollout"]),
        "b-other": (True, []),
        "c-files": (True, ["nudge"]),
        "d-unfollowed": (False, []),
        "e-excluded": (False, []),
        "f-not-named": (False, []),
    }
    reasons = {item["name"]: item["reason"] for item in body["workloads"]}
    assert reasons["a-variable"] == message
    assert reasons["d-unfollowed"].startswith(
        "not followed: no annotation opts it in, such as hotmap.dev/follow: auto"
    )
    app = "not followed: ConfigMap default/app is"
    assert reasons["e-excluded"] == f"{app} excluded by an annotation or a flag"
    assert reasons["f-not-named"] == f"{app} not included in hotmap.dev/follow: configmap/other"


async def test_source_without_match_is_named_as_such(
    world: World, http: aiohttp.ClientSession
) -> None:
    """`search` alone follows nothing; that the source has to be annotated too is easily missed."""
    await world.config_map(LEVEL="info")
    search = "reloader.stakater.com/search"
    await world.workload("searching", annotations={search: "true"})
    async with world.controller() as controller:
        await world.quiet(controller)
        _, body = await get_json(http, controller, f"{APP}&changed=*")
        assert body["workloads"][0]["reason"] == (
            f"not followed: ConfigMap default/app is not included in {search}: true, since it "
            "lacks the annotation reloader.stakater.com/match: true"
        )
        await world.annotate("app", "ConfigMap", ignore="true")
        await world.quiet(controller)
        _, body = await get_json(http, controller, f"{APP}&changed=*")
        why = "not followed: ConfigMap default/app is annotated to be ignored"
        assert body["workloads"][0]["reason"] == why


async def test_binary_data_is_not_in_an_environment(
    world: World, http: aiohttp.ClientSession
) -> None:
    """The controller knows which data keys are of `binaryData`."""
    environment = {"name": "main", "image": "app:1", "envFrom": [{"configMapRef": {"name": "app"}}]}
    body = {"metadata": {"name": "app"}, "binaryData": {"blob": "AAEC"}}
    await world.registry.create("configmaps", "default", body, manager="kubectl")
    await world.workload("a", {"containers": [environment]})
    async with world.controller() as controller:
        await world.quiet(controller)
        _, body = await get_json(http, controller, f"{APP}&changed=blob")
        assert by_name(body) == {"a": (True, [])}
        assert "blob changed, but is not used" in body["workloads"][0]["reason"]
        _, body = await get_json(http, controller, f"{APP}&changed=blob&moved=blob")
    assert by_name(body) == {"a": (True, ["rollout"])}


async def test_mark_of_a_strategy_of_reloaders_is_that_of_the_earlier_content(
    world: World, http: aiohttp.ClientSession
) -> None:
    """The edit gives another one, so that the reason is the one of an ordinary rollout."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations=AUTO)
    async with controller(world) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        await until_variable(world, VARIABLE, DEBUG)
        await world.quiet(running)
        _, body = await get_json(http, running, f"{APP}&changed=LEVEL")
        await world.edit(LEVEL="warn")
        await world.quiet(running)
        messages = await world.messages("RolledOut")
    assert body["workloads"][0]["reason"] == messages[-1]


async def test_each_workload_is_on_one_page_of_previews(
    world: World, http: aiohttp.ClientSession
) -> None:
    """As those of the status: each workload is on one page."""
    await world.config_map(LEVEL="info")
    for name in "abc":
        await world.workload(name)
    async with world.controller() as controller:
        await world.quiet(controller)
        names, token = [], ""
        while True:
            _, body = await get_json(http, controller, f"{APP}&changed=*&limit=2&continue={token}")
            names += [item["name"] for item in body["workloads"]]
            if not (token := body.get("continue", "")):
                break
    assert names == ["a", "b", "c"]


async def test_page_of_previews_finds_the_uses_of_those_on_it(
    world: World, http: aiohttp.ClientSession
) -> None:
    """Of a source with thousands of users, one page holds up neither others nor decisions."""
    await world.config_map(LEVEL="info")
    for name in "abcde":
        await world.workload(name, annotations={})
    async with world.controller() as controller:
        await world.quiet(controller)
        with mock.patch.object(
            controller.index, "uses_or_follows", side_effect=controller.index.uses_or_follows
        ) as seen:
            _, body = await get_json(http, controller, f"{APP}&changed=*&limit=2")
    assert [item["name"] for item in body["workloads"]] == ["a", "b"]
    assert [call.args[0].key.name for call in seen.call_args_list] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("changed=LEVEL", "changed and removed require source"),
        ("source=configmap/default/app&moved=LEVEL", "moved requires changed"),
        ("changed=LEVEL&workload=default/web", "changed and removed cannot be used with workload"),
        ("source=secretproviderclass/default/app&changed=x", "changed and removed require source"),
        ("source=configmap/default/app&changed=a%20b", "invalid data keys"),
        ("source=configmap/default/app&removed=*", "invalid data keys"),
        ("source=configmap/default/app&changed=a,,b", "invalid data keys"),
    ],
)
async def test_invalid_edit_is_refused(
    world: World, http: aiohttp.ClientSession, query: str, words: str
) -> None:
    """One sentence says what is wrong."""
    async with world.controller() as controller:
        await world.quiet(controller)
        status, body = await get_json(http, controller, f"/v1/status?{query}")
    assert status == 400
    assert words in body["error"]


async def test_limit_of_rollouts_is_foreseen(world: World, http: aiohttp.ClientSession) -> None:
    """That of the source, or else of the flag."""
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller(rollout_limit=7) as controller:
        await world.quiet(controller)
        _, by_flag = await get_json(http, controller, f"{APP}&changed=LEVEL")
        annotations = {"hotmap.dev/max-concurrent-rollouts": "2"}
        await world.merge("ConfigMap", "app", {"metadata": {"annotations": annotations}})
        await world.quiet(controller)
        _, by_annotation = await get_json(http, controller, f"{APP}&changed=LEVEL")
    assert (by_flag["maxConcurrentRollouts"], by_annotation["maxConcurrentRollouts"]) == (7, 2)
