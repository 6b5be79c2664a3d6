"""The reports of the agents in pods determine the state of a workload and its Events."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import chain, repeat
from typing import Any

import aiohttp
import pytest
from tests.controller.pod_check_results import SOON, status, wait_for_state
from tests.controller.world import Object, World, files, pause_fan_outs
from tests.support.fake_agents import FakeAgent, FakeAgents

from hotmap.controller.report import agents as agents_module
from hotmap.controller.run import Controller
from hotmap.core.model.objects import ObjectKey

AGENT = {"hotmap.dev/agent": f"port={FakeAgents.PORT};restart=none"}
QUICK = SOON._replace(agent_check_delay=0.05)


@pytest.fixture
async def agents() -> AsyncIterator[FakeAgents]:
    async with FakeAgents() as found:
        yield found


async def create_pod(
    world: World, agents: FakeAgents, name: str = "web-1", **options: Any
) -> FakeAgent:
    """Create a pod of web that is older than any change, with an agent."""
    made = await world.pod(name, annotations=AGENT, **options)
    agent = await agents.start(made["metadata"]["uid"])
    await set_address(world, name, agent.address)
    return agent


async def set_address(world: World, name: str, address: str) -> None:
    def report(obj: Object) -> Object:
        return {**obj, "status": {**obj["status"], "podIP": address}}

    await world.registry.modify(
        "pods", "default", name, report, subresource="status", manager="kubelet"
    )


async def create_workload(world: World, *, count: int = 1) -> None:
    await world.config_map(**{"app.toml": "size = 1"})
    await world.workload(spec=files(), template_annotations=AGENT, replicas=count)


async def create_workload_of_one_pod(world: World, agents: FakeAgents) -> FakeAgent:
    await create_workload(world)
    return await create_pod(world, agents)


@asynccontextmanager
async def edited(world: World) -> AsyncIterator[Controller]:
    """Run a controller, and edit the file of web."""
    async with world.controller(pod_checks=QUICK) as controller:
        await world.quiet(controller)
        await edit(world, "size = 2")
        yield controller


async def wait_for_nudge(world: World, pod: str = "web-1", *, other_than: str = "") -> str:
    """Wait until a pod is told of other content."""

    async def changed() -> str:
        target = await world.target(pod)
        return target if target.split("/")[1:3] != other_than.split("/")[1:3] else ""

    found: str = await world.until(changed, f"{pod} is told")
    return found


async def pod_states(controller: Controller, name: str = "web") -> dict[str, Any]:
    body = await status(controller, f"?workload=default/{name}")
    return {pod["name"]: pod["state"] for pod in body["workloads"][0]["pods"]}


async def edit(world: World, text: str) -> None:
    await world.edit(**{"app.toml": text})


async def test_edit_is_current_once_agents_have_loaded_it(world: World, agents: FakeAgents) -> None:
    """And not before: neither the nudge nor the files say anything of the process."""
    agent = await create_workload_of_one_pod(world, agents)
    async with edited(world) as controller:
        target = await wait_for_nudge(world)
        not_reached = "the announcement has not reached its agent yet"
        await wait_for_state(world, controller, "waiting", reason=not_reached)
        agent.tell(target, state="loading")
        await wait_for_state(world, controller, "waiting", reason="reloading the process")
        agent.tell(target)
        await wait_for_state(world, controller, "current")
        assert await pod_states(controller) == {"web-1": "current"}
        body = await status(controller, "?workload=default/web")
        assert body["workloads"][0]["pods"][0]["loaded"]["confidence"] == "proven"


async def test_agents_are_asked_after_a_change_of_another_source_has_waited(
    world: World, agents: FakeAgents
) -> None:
    """As one that thousands of workloads of the namespace use; no decision on web follows."""
    agent = await create_workload_of_one_pod(world, agents)
    late = QUICK._replace(agent_check_delay=5.0)
    async with world.controller(pod_checks=late) as controller:
        await world.quiet(controller)
        await edit(world, "size = 2")
        agent.tell(await wait_for_nudge(world))
        await asyncio.sleep(3)
        fan_outs = pause_fan_outs(controller, seconds=10)
        fan_outs.add(ObjectKey("ConfigMap", "default", "other"), offered=False)
        await asyncio.sleep(9)
        assert (await status(controller))["workloads"][0]["state"] != "current"
        await wait_for_state(world, controller, "current")


async def test_loaded_pod_is_asked_once(world: World, agents: FakeAgents) -> None:
    """One request for each pod and change, where all goes well; status queries ask no more."""
    await create_workload(world, count=3)
    found = [await create_pod(world, agents, f"web-{number}") for number in range(3)]
    once = QUICK._replace(agent_check_delay=1.0, pause=1000, max_pause=1000, max_pause_agents=1000)
    async with world.controller(pod_checks=once) as controller:

        async def adopted() -> bool:
            return all(agent.requests for agent in found)

        await world.until(adopted, "the adopted pods are asked")
        await world.quiet(controller)
        before = [agent.requests for agent in found]
        await edit(world, "size = 2")
        for number, agent in enumerate(found):
            agent.tell(await wait_for_nudge(world, f"web-{number}"))
        await wait_for_state(world, controller, "current")
        assert set((await pod_states(controller)).values()) == {"current"}
        assert [agent.requests - count for agent, count in zip(found, before, strict=True)] == [
            *(1, 1, 1)
        ]


async def test_refusal_is_reported_once_for_each_change(world: World, agents: FakeAgents) -> None:
    """State, Event, metric and status name the pods, the exit status and where the words are."""
    await create_workload(world, count=2)
    found = [await create_pod(world, agents, f"web-{number}") for number in range(2)]
    async with world.controller(pod_checks=QUICK) as controller:
        await world.quiet(controller)
        await edit(world, "size = ")
        target = await wait_for_nudge(world, "web-0")
        for number, agent in enumerate(found):
            agent.tell(await wait_for_nudge(world, f"web-{number}"), state="refused", exitStatus=1)
        document = await wait_for_state(world, controller, "refused")
        assert document["actionRequired"] is True
        assert document["reason"] == (
            "2 of 2 pods (web-0, web-1): the content did not pass the check of its agent "
            "(exit status 1); see kubectl logs -n default web-0 --all-containers"
        )
        assert await world.event("Refused") == document["reason"]
        assert await pod_states(controller) == {"web-0": "refused", "web-1": "refused"}
        assert 'hotmap_pods{state="refused"} 2.0' in await metrics(controller)
        await edit(world, "size = 4")
        for number, agent in enumerate(found):
            second = await wait_for_nudge(world, f"web-{number}", other_than=target)
            agent.tell(second, exitStatus=None)
        await wait_for_state(world, controller, "current")
        assert 'hotmap_pods{state="refused"} 0.0' in await metrics(controller)
        assert 'hotmap_pods{state="current"} 2.0' in await metrics(controller)
        assert len(await world.messages("Refused")) == 1
        await edit(world, "size = ")
        for number, agent in enumerate(found):
            third = await wait_for_nudge(world, f"web-{number}", other_than=second)
            agent.tell(third, state="refused", exitStatus=1)
        await wait_for_state(world, controller, "refused")

        async def reported_again() -> bool:
            events = await world.events("Refused")
            return sum(event.get("count") or 1 for event in events) == 2

        await world.until(reported_again, "the second refusal is reported")


async def metrics(controller: Controller) -> str:
    url = f"http://127.0.0.1:{controller.port}/metrics"
    async with aiohttp.ClientSession() as http, http.get(url) as response:
        return await response.text()


async def test_failed_load_is_reported_and_ends_by_itself(world: World, agents: FakeAgents) -> None:
    agent = await create_workload_of_one_pod(world, agents)
    async with edited(world) as controller:
        target = await wait_for_nudge(world)
        agent.tell(target, state="failed")
        document = await wait_for_state(world, controller, "failed")
        assert document["actionRequired"] is False
        assert "the process did not load the content" in await world.event("LoadFailed")
        agent.tell(target)
        await wait_for_state(world, controller, "current")


async def test_missing_checker_needs_a_person(world: World, agents: FakeAgents) -> None:
    """Retrying cannot help, since nothing puts the program there."""
    agent = await create_workload_of_one_pod(world, agents)
    async with edited(world) as controller:
        agent.tell(await wait_for_nudge(world), state="check-failed", exitStatus=127)
        document = await wait_for_state(world, controller, "failed")
        assert document["actionRequired"] is True
        assert "could not run (exit status 127)" in await world.event("LoadFailed")


async def test_reverted_edit_is_verified_too(world: World, agents: FakeAgents) -> None:
    """Agents were nudged with content that was reverted: they are queried, nothing is assumed."""
    agent = await create_workload_of_one_pod(world, agents)
    async with edited(world) as controller:
        first = await wait_for_nudge(world)
        agent.tell(first)
        await wait_for_state(world, controller, "current")
        await edit(world, "size = 1")
        second = await wait_for_nudge(world, other_than=first)
        await wait_for_state(world, controller, "waiting")
        await edit(world, "size = 2")
        await wait_for_nudge(world, other_than=second)
        agent.tell(second)
        await wait_for_state(world, controller, "waiting")
        agent.tell(await world.target("web-1"))
        await wait_for_state(world, controller, "current")


def answer(status_line: str, body: bytes, **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status_line}", *(f"{name}: {text}" for name, text in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@pytest.mark.parametrize(
    ("response", "words"),
    [
        pytest.param(answer("404 Not Found", b""), "too old to be queried", id="old agent"),
        pytest.param(answer("500 No", b""), "returned an error", id="an error"),
        pytest.param(answer("302 Found", b"", Location="http://127.0.0.1:1/"),
                     "returned an error", id="a redirect is not followed"),
        pytest.param(answer("200 OK", b'{"protocol":7}'), "speaks protocol 7", id="newer agent"),
        pytest.param(answer("200 OK", b"[" * 5000), "cannot be read", id="deep"),
        pytest.param(answer("200 OK", b" " * 100_000), "cannot be read", id="large"),
        pytest.param(answer("200 OK", b'{"protocol":1,"live":"\xff\xfe\xed\xa0\x80"}'),
                     "cannot be read", id="not UTF-8"),
        pytest.param(b"\x00\x01\x02", "cannot be read", id="no HTTP"),
        pytest.param(None, "did not answer within", id="silent"),
        pytest.param(b"", "cannot be read", id="closes at once"),
    ],
)  # fmt: skip
async def test_agent_that_gives_no_answer_leaves_the_workload_unknown(
    world: World, agents: FakeAgents, response: bytes | None, words: str
) -> None:
    """Never current, whatever it sends; and nothing of it is shown."""
    agent = await create_workload_of_one_pod(world, agents)
    agent.respond = lambda: response
    async with edited(world) as controller:
        await wait_for_nudge(world)
        document = await wait_for_state(world, controller, "unknown")
        assert words in document["reason"]
        assert await pod_states(controller) == {"web-1": "unknown"}


@pytest.mark.parametrize(
    ("piece", "most", "words"),
    [
        pytest.param(b" ", 100, "did not answer within 1s", id="drips without end"),
        pytest.param(b" " * 100_000, 1_000_000, "cannot be read", id="floods without end"),
    ],
)
async def test_answer_without_end_is_given_up(
    world: World, agents: FakeAgents, piece: bytes, most: int, words: str
) -> None:
    """After a second or 64 KiB, whichever is first."""
    agent = await create_workload_of_one_pod(world, agents)
    agent.respond = lambda: chain([answer("200 OK", b"{")], repeat(piece))
    async with edited(world) as controller:
        await wait_for_nudge(world)
        document = await wait_for_state(world, controller, "unknown")
        assert words in document["reason"]
    assert agent.sent <= most * agent.requests


async def test_head_of_an_answer_that_drips_is_searched_once(
    world: World, agents: FakeAgents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A head of 64 KiB takes milliseconds, which thousands of pieces must not take each."""
    searched: list[int] = []
    pattern = agents_module._CONTENT_LENGTH

    class Counting:
        def search(self, text: bytes, *bounds: int) -> re.Match[bytes] | None:
            searched.append(len(text))
            return pattern.search(text, *bounds)

    monkeypatch.setattr(agents_module, "_CONTENT_LENGTH", Counting())
    agent = await create_workload_of_one_pod(world, agents)
    agent.respond = lambda: chain([answer("200 OK", b"{")], repeat(b" "))
    async with edited(world) as controller:
        await wait_for_nudge(world)
        await wait_for_state(world, controller, "unknown")
    assert 0 < len(searched) <= agent.requests


async def test_answer_ends_where_its_length_says(world: World, agents: FakeAgents) -> None:
    """A connection that stays open does not delay an answer that is complete."""
    agent = await create_workload_of_one_pod(world, agents)

    def respond() -> Iterator[bytes]:
        body = json.dumps(agent.document).encode()
        head = answer("200 OK", b"", **{"content-length": str(len(body))})
        return chain([head, body[:20], body[20:]], repeat(b""))

    agent.respond = respond
    async with edited(world) as controller:
        agent.tell(await wait_for_nudge(world))
        await wait_for_state(world, controller, "current")


async def test_answer_of_another_pod_does_not_count(world: World, agents: FakeAgents) -> None:
    """An address may be another pod's by now, or another process may listen there."""
    agent = await create_workload_of_one_pod(world, agents)
    async with edited(world) as controller:
        agent.tell(await wait_for_nudge(world), uid="another-pod")
        document = await wait_for_state(world, controller, "unknown")
        assert "another pod answers at its address" in document["reason"]


@pytest.mark.parametrize("address", ["169.254.169.254", "0.0.0.0", ""])
async def test_other_addresses_are_never_asked(
    world: World, agents: FakeAgents, address: str
) -> None:
    agent = await create_workload_of_one_pod(world, agents)
    if address:
        await set_address(world, "web-1", address)
    else:
        await agent.stop()
    async with edited(world) as controller:
        await wait_for_nudge(world)
        document = await wait_for_state(world, controller, "unknown")
    assert agent.requests == 0
    assert ("cannot be reached" if not address else "agents are not queried at") in document[
        "reason"
    ]


async def test_pods_that_started_after_the_change_are_not_asked(
    world: World, agents: FakeAgents
) -> None:
    await create_workload(world)
    made = await world.pod("web-1", annotations=AGENT, started=time.time() + 5)
    agent = await agents.start(made["metadata"]["uid"])
    await set_address(world, "web-1", agent.address)
    async with world.controller(pod_checks=QUICK) as controller:
        await wait_for_state(world, controller, "current")
        await world.quiet(controller)
    assert agent.requests == 0


async def test_words_of_an_agent_are_never_shown(world: World, agents: FakeAgents) -> None:
    """A check's output can quote a Secret, and a hostile agent can say anything."""
    agent = await create_workload_of_one_pod(world, agents)
    async with edited(world) as controller:
        agent.tell(
            await wait_for_nudge(world),
            state="refused",
            exitStatus=1,
            error="hunter2",
            message="hunter2",
        )
        await wait_for_state(world, controller, "refused")
        shown = json.dumps(await status(controller, "?workload=default/web"))
        shown += json.dumps(await world.events()) + await metrics(controller)
    assert "hunter2" not in shown


def two_containers() -> Object:
    """Two containers of one volume, and the agent of the first."""
    mount = [{"name": "config", "mountPath": "/etc/app"}]
    spec = files()
    spec["containers"].append({"name": "log", "image": "log:1", "volumeMounts": mount})
    agent = {"name": "hotmap-agent", "image": "hotmap:1", "restartPolicy": "Always"}
    return {**spec, "initContainers": [{**agent, "volumeMounts": mount}]}


@pytest.mark.parametrize(
    ("annotation", "state", "words"),
    [
        ("port={port};container=main", "delivered", "container log has no agent"),
        ("port={port}", "delivered", "has no agent"),
        ("port={port};container=main;container=log", "current", "its agent has loaded"),
    ],
)
async def test_container_without_agent_is_not_proven_by_that_of_another(
    world: World, agents: FakeAgents, annotation: str, state: str, words: str
) -> None:
    """Both mount one volume; the agent has loaded the change, for its own container."""
    about = {"hotmap.dev/agent": annotation.format(port=FakeAgents.PORT)}
    spec = two_containers()
    await world.config_map(**{"app.toml": "size = 1"})
    await world.workload(spec=spec, template_annotations=about)
    made = await world.pod("web-1", annotations=about, spec=spec)
    agent = await agents.start(made["metadata"]["uid"])
    await set_address(world, "web-1", agent.address)
    async with edited(world) as controller:
        agent.tell(await wait_for_nudge(world))
        await wait_for_state(world, controller, state)
        body = await status(controller, "?workload=default/web")
        assert words in body["workloads"][0]["pods"][0]["loaded"]["reason"]


async def test_proven_pod_is_not_nudged_again(world: World, agents: FakeAgents) -> None:
    """Its kubelet has delivered the files; a pod that says nothing yet gets its second nudge."""
    await create_workload(world, count=2)
    proven, silent = [await create_pod(world, agents, f"web-{number}") for number in range(2)]
    async with edited(world) as controller:
        proven.tell(await wait_for_nudge(world, "web-0"))
        silent.tell(await wait_for_nudge(world, "web-1"), state="loading")

        async def repeated() -> bool:
            return (await world.target("web-1")).startswith("2/")

        await world.until(repeated, "the other pod is nudged again")
        silent.tell(await world.target("web-1"))
        await wait_for_state(world, controller, "current")
        assert (await world.target("web-0")).startswith("1/")


async def test_pods_that_wait_to_restart_are_not_latent(world: World, agents: FakeAgents) -> None:
    """They restart when it is their turn, so no Event says that nothing follows."""
    restarts = {"hotmap.dev/agent": f"port={FakeAgents.PORT};restart=term"}
    await world.config_map(LEVEL="info")
    await world.workload(template_annotations=restarts, replicas=2)
    started = time.time() + 3
    first = await create_pod(world, agents, "web-1", started=started)
    second = await create_pod(world, agents, "web-2", started=started)
    async with world.controller(pod_checks=QUICK) as controller:
        await wait_for_state(world, controller, "current")
        await asyncio.sleep(5)
        await world.edit(LEVEL="debug")
        first.tell(await wait_for_nudge(world), state="none")

        async def is_checked() -> bool:
            return second.requests > 2

        await world.until(is_checked, "the pod that waits is checked")
        assert await world.target("web-2") == ""
    assert await world.messages("Latent") == []
