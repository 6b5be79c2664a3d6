"""Other programs are told what changed, and nothing waits for them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controller.world import FOLLOW, SETTLE, World, env
from tests.support.http_receiver import Receiver, http_receiver
from tests.support.objects import KEY, config_map, sources

from hotmap.controller.report.change_webhooks import ChangeWebhooks
from hotmap.controller.run import Controller
from hotmap.controller.settings import AlertSettings, Settings, WebhookSettings
from hotmap.core.decide.source_snapshot import take_snapshots
from hotmap.core.model.references import EVERY_KEY, Use, UseKind
from hotmap.core.policy.policy import Defaults
from hotmap.kube.supervisor import Supervisor


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with http_receiver() as receiver:
        yield receiver


def controller(
    world: World, webhooks: WebhookSettings, *, muted: str = "", **settings: Any
) -> Controller:
    return Controller(
        world.client,
        Settings(
            defaults=Defaults(settle=SETTLE, settle_max=1.0, muted=muted),
            webhooks=webhooks,
            listen=("127.0.0.1", 0),
            **settings,
        ),
    )


def changes(receiver: Receiver, **options: Any) -> WebhookSettings:
    return WebhookSettings(change_url=receiver.url, settle=SETTLE, settle_max=1.0, **options)


async def received(world: World, receiver: Receiver, count: int = 1) -> list[Any]:
    async def enough() -> bool:
        return len(receiver.bodies) >= count

    await world.until(enough, f"{count} requests arrive")
    return [json.loads(body) for body in receiver.bodies]


# -- instead of acting ------------------------------------------------------------------------


async def test_change_is_sent(world: World, receiver: Receiver) -> None:
    """Reloader's body, and beside it what changed where and whose business it is."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.workload("other", annotations={})
    muted = "--webhook-url is set"
    async with controller(world, changes(receiver), muted=muted) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        (document,) = await received(world, receiver)
        await world.quiet(running)
    assert document == {
        "webhook": "update successful",
        "change": "updated",
        "kind": "ConfigMap",
        "namespace": "default",
        "name": "app",
        "dataKeys": ["LEVEL"],
        "missed": False,
        "workloads": [{"kind": "Deployment", "namespace": "default", "name": "web"}],
    }
    assert receiver.content_types == ["application/json"]
    assert await world.revision() == ""
    (message,) = await world.messages("Notified")
    assert message.endswith(": reported only, since --webhook-url is set")


def _with_label(namespace: dict[str, Any]) -> dict[str, Any]:
    return {**namespace, "metadata": {**namespace["metadata"], "labels": {"team": "a"}}}


async def test_namespaces_that_are_not_selected_are_not_sent(
    world: World, receiver: Receiver
) -> None:
    """Their names and data keys leave the cluster no more than their rollouts happen."""
    await world.namespace("bank")
    await world.config_map(LEVEL="info", namespace="bank")
    await world.config_map(LEVEL="info")
    await world.registry.modify("namespaces", None, "default", _with_label, manager="kubectl")
    async with controller(world, changes(receiver), namespace_selector="team=a") as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug", namespace="bank")
        await world.edit(LEVEL="debug")
        documents = await received(world, receiver)
        await asyncio.sleep(1)
    assert [document["namespace"] for document in documents] == ["default"]
    assert len(receiver.bodies) == 1


async def test_edits_in_a_row_are_one_request(world: World, receiver: Receiver) -> None:
    """It is sent when the source is quiet, and names every data key that changed."""
    await world.config_map(LEVEL="info", MODE="a")
    async with controller(world, changes(receiver)) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        await world.edit(MODE="b")
        (document,) = await received(world, receiver)
    assert document["dataKeys"] == ["LEVEL", "MODE"]
    assert document["workloads"] == []


async def test_change_during_downtime_is_sent(world: World, receiver: Receiver) -> None:
    """It is told once at the next start, of sources that are followed; data keys are not known."""
    for name in ("app", "calm", "nobodys"):
        await world.config_map(name, LEVEL="info")
    spec = env("LEVEL")
    (calm,) = env("LEVEL", source="calm")["containers"][0]["env"]
    spec["containers"][0]["env"].append(calm | {"name": "CALM"})
    for name in ("web", "api"):
        await world.workload(name, spec)
    muted = "--webhook-url is set"
    async with controller(world, changes(receiver), muted=muted) as running:
        await world.quiet(running)
    assert receiver.bodies == []
    await world.edit("app", LEVEL="debug")
    await world.edit("nobodys", LEVEL="debug")
    for _ in range(2):
        async with controller(world, changes(receiver), muted=muted) as running:
            (document,) = await received(world, receiver)
            await world.quiet(running)
    assert (document["change"], document["name"]) == ("updated", "app")
    assert (document["missed"], document["dataKeys"]) == (True, [])
    assert sorted(workload["name"] for workload in document["workloads"]) == ["api", "web"]
    assert len(receiver.bodies) == 1


async def test_missed_and_seen_change_are_sent(world: World, receiver: Receiver) -> None:
    """An observed change is sent once; the comparison with the record adds nothing."""
    await world.config_map(LEVEL="info")
    await world.workload()
    muted = "--webhook-url is set"
    async with controller(world, changes(receiver), muted=muted) as running:
        await world.quiet(running)
    await world.edit(LEVEL="debug")
    async with controller(world, changes(receiver), muted=muted) as running:
        await received(world, receiver)
        await world.quiet(running)
        await world.edit(LEVEL="trace")
        documents = await received(world, receiver, 2)
        await world.quiet(running)
    assert [(document["missed"], document["dataKeys"]) for document in documents] == [
        (True, []),
        (False, ["LEVEL"]),
    ]
    assert len(receiver.bodies) == 2


async def test_change_between_two_terms_is_sent(world: World, receiver: Receiver) -> None:
    """Once in each term of leading: another replica may have led, and missed it too."""
    found = sources(config_map(data={"LEVEL": "debug"}))
    (app,) = found
    (current,) = take_snapshots([Use(app, UseKind.FROZEN, EVERY_KEY, "env")], found, KEY)
    webhooks = ChangeWebhooks(changes(receiver), followers=lambda key: [])
    webhooks.start(Supervisor())
    for term in (1, 2):
        webhooks.begin_term()
        for _ in range(2):
            webhooks.source_found_changed(current)
        await received(world, receiver, term)
    await webhooks.aclose()
    assert len(receiver.bodies) == 2


@pytest.mark.parametrize("wanted", [True, False])
async def test_creation_and_deletion_are_sent(
    world: World, receiver: Receiver, wanted: bool
) -> None:
    """They are told where flags ask for them."""
    settings = changes(receiver, on_create=wanted, on_delete=wanted)
    async with controller(world, settings) as running:
        await world.quiet(running)
        await world.config_map("new", LEVEL="info")
        if wanted:
            await received(world, receiver)
        await world.delete("ConfigMap", "new")
        if wanted:
            await received(world, receiver, 2)
        await world.quiet(running)
    told = [json.loads(body)["change"] for body in receiver.bodies]
    assert told == (["created", "deleted"] if wanted else [])


async def test_metadata_change_is_not_sent(world: World, receiver: Receiver) -> None:
    """Changes of labels and annotations send nothing."""
    await world.config_map(LEVEL="info")
    async with controller(world, changes(receiver)) as running:
        await world.quiet(running)
        await world.merge("ConfigMap", "app", {"metadata": {"labels": {"a": "b"}}})
        await world.edit(LEVEL="debug")
        (document,) = await received(world, receiver)
    assert document["dataKeys"] == ["LEVEL"]


async def test_failed_request_is_retried(
    world: World, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """With pauses, until it takes it; that is said once, with its host and never the path."""
    receiver.answers = [500, 302]
    await world.config_map(LEVEL="info")
    with caplog.at_level(logging.WARNING, "hotmap"):
        async with controller(world, changes(receiver)) as running:
            await world.quiet(running)
            await world.edit(LEVEL="debug")
            documents = await received(world, receiver, 3)
    assert [document["dataKeys"] for document in documents] == [["LEVEL"]] * 3
    assert "127.0.0.1 answered 500" in caplog.text
    assert len([line for line in caplog.messages if "change webhook failed" in line]) == 1
    assert "planted" not in caplog.text


def _change(number: int, *, namespace: str = "default", keys: int = 1) -> tuple[Any, ...]:
    """The creation of a source, as a store tells it."""
    data = {f"key-{number}": "x" for number in range(keys)}
    found = sources(config_map(f"app-{number}", data))
    ((key, source),) = found.items()
    return key._replace(namespace=namespace), None, source


async def _sent(
    world: World, webhooks: ChangeWebhooks, receiver: Receiver, count: int
) -> list[Any]:
    """Send what waits, so many documents."""
    webhooks.start(Supervisor())
    documents = await received(world, receiver, count)
    await webhooks.aclose()
    assert len(receiver.bodies) == count
    return documents


async def test_refused_change_is_given_up(
    world: World, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """A receiver that may be starting is asked for ten minutes; then the log names the source."""
    receiver.answers = [404] * 1000
    webhooks = ChangeWebhooks(changes(receiver), followers=lambda key: [])
    webhooks.source_changed(*_change(1))
    webhooks.start(Supervisor())
    await asyncio.sleep(599)
    assert "given up" not in caplog.text
    await asyncio.sleep(302)
    (line,) = [record for record in caplog.records if "given up" in record.message]
    assert (line.levelname, line.__dict__["source"]) == ("ERROR", "ConfigMap default/app-1")
    assert "planted" not in line.message
    told = len(receiver.bodies)
    await asyncio.sleep(3600)
    assert len(receiver.bodies) == told
    receiver.answers.clear()
    webhooks.source_changed(*_change(1))
    await received(world, receiver, told + 1)
    await webhooks.aclose()


async def test_waiting_changes_are_bounded(
    world: World, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """By namespace, so that no tenant takes the place of another."""
    webhooks = ChangeWebhooks(changes(receiver), followers=lambda key: [])
    for number in range(1100):
        webhooks.source_changed(*_change(number))
    webhooks.source_changed(*_change(1, namespace="other"))
    webhooks.source_changed(*_change(1, keys=2))
    documents = await _sent(world, webhooks, receiver, 1001)
    assert "other" in {document["namespace"] for document in documents[:500]}
    assert "1000 sources of a namespace wait" in caplog.text


async def test_very_many_data_keys_are_not_named(world: World, receiver: Receiver) -> None:
    """Edits of one source with ever new data keys fill no memory, and stay incomplete."""
    webhooks = ChangeWebhooks(changes(receiver), followers=lambda key: [])
    webhooks.source_changed(*_change(1, keys=1001))
    webhooks.source_changed(*_change(1, keys=2))
    webhooks.source_changed(*_change(2, keys=1000))
    first, second = await _sent(world, webhooks, receiver, 2)
    assert (first["dataKeys"], len(second["dataKeys"])) == ([], 1000)


# -- after acting -----------------------------------------------------------------------------


async def test_rollout_alert_is_sent(world: World, receiver: Receiver) -> None:
    """Reloader's sentence without its asterisks, and the reason."""
    await world.config_map(LEVEL="info")
    await world.workload()
    alert = AlertSettings(receiver.url, info="cluster one")
    async with controller(world, WebhookSettings(alert=alert)) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        await world.rollout()
        await world.quiet(running)
    assert receiver.bodies == [
        "cluster one : Reloader detected changes in app of type CONFIGMAP in namespace default. "
        "Hence reloaded web of type Deployment in namespace default. ConfigMap default/app LEVEL "
        "changed (containers[main].env[LEVEL]): rolling out"
    ]
    assert receiver.content_types == ["text/plain"]


async def test_secret_values_are_not_sent(world: World, receiver: Receiver) -> None:
    """Names of data keys are, values are not."""
    await world.secret("login", password="planted-old")
    await world.workload(spec=env("password", source="login", kind="secret"))
    settings = WebhookSettings(
        receiver.url, settle=SETTLE, settle_max=1.0, alert=AlertSettings(receiver.url)
    )
    async with controller(world, settings) as running:
        await world.quiet(running)
        await world.edit("login", kind="Secret", password="planted-new")
        await world.rollout()
        await world.quiet(running)
    assert len(receiver.bodies) == 2
    assert "password" in receiver.bodies[0]
    assert not any("planted" in body for body in receiver.bodies)


async def test_silent_receiver_delays_nothing(world: World, receiver: Receiver) -> None:
    """Rollouts go on while an alert waits for its answer."""
    receiver.hangs.set()
    await world.config_map(LEVEL="info")
    for name in ("web", "two", "three"):
        await world.workload(name, annotations=FOLLOW)
    settings = WebhookSettings(alert=AlertSettings(receiver.url))
    async with controller(world, settings) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        for name in ("web", "two", "three"):
            await world.rollout(name)
        await world.quiet(running)
    assert len(receiver.bodies) == 1


async def test_unreachable_receiver_is_retried(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said, with the host alone, and tried again."""
    await world.config_map(LEVEL="info")
    settings = WebhookSettings("http://localhost:9/planted", settle=SETTLE)
    with caplog.at_level(logging.WARNING, "hotmap"):
        async with controller(world, settings) as running:
            await world.quiet(running)
            await world.edit(LEVEL="debug")

            async def is_logged() -> bool:
                return "cannot reach localhost" in caplog.text

            await world.until(is_logged, "it is said")
    assert "planted" not in caplog.text
