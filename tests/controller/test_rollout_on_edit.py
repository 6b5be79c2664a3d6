"""A changed data key that containers read at their start gives one rollout, and nothing else."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from tests.controller.world import FOLLOW, World, both, env, files

from hotmap.controller.storage import record_shards
from hotmap.controller.watch import fan_outs
from hotmap.core.model.objects import ObjectKey
from hotmap.kube import events

WEB = ObjectKey("Deployment", "default", "web")


async def test_first_sight_writes_only_records(world: World) -> None:
    """What is there when hotmap first comes is noted: no consumer is touched, no Event told."""
    await world.config_map(LEVEL="info")
    before = await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
    assert await world.get("Deployment", "web") == before
    assert await world.events() == []
    assert len(await world.records()) == 1
    assert world.answers()["PATCH"] == 0


@pytest.mark.parametrize(("value", "words"), [("debug", "rolling out"), (None, "lacks LEVEL")])
async def test_log_line_of_a_change_has_workload_source_and_change(
    world: World, caplog: pytest.LogCaptureFixture, value: str | None, words: str
) -> None:
    """As fields, for a rollout and for what is held: scripts need not read the message."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1")
    async with world.controller() as controller:
        await world.quiet(controller)
        with caplog.at_level(logging.INFO, "hotmap"):
            await world.edit(LEVEL=value)

            async def lines() -> list[logging.LogRecord]:
                return [record for record in caplog.records if words in record.message]

            (line,) = await world.until(lines, "it is logged")
    fields = {name: getattr(line, name) for name in ("workload", "source", "change")}
    assert fields == {
        "workload": "Deployment default/web",
        "source": "ConfigMap default/app",
        "change": fields["change"],
    }
    assert fields["change"]


async def test_edit_that_waits_for_a_pause_is_rolled_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon after an edit of a source that thousands of workloads use."""
    monkeypatch.setattr(fan_outs, "MANY", 1)
    monkeypatch.setattr(fan_outs, "_REST", 20_000.0)  # about two seconds
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        first = await world.rollout()
        await world.rolled_out()
        await world.quiet(controller)
        await world.edit(LEVEL="trace")
        await world.rollout(after=first)


@pytest.mark.parametrize("opts_in", ["as it is made", "later"])
async def test_edit_right_after_creation_rolls(world: World, opts_in: str) -> None:
    """What is there at first sight is noted before the settle time is over; the edit counts."""
    await world.config_map(LEVEL="info")
    async with world.controller(settle=5.0, settle_max=10.0) as controller:
        await world.quiet(controller)
        if opts_in == "later":
            await world.workload(annotations={})
            await world.quiet(controller)
            await world.annotate("web", follow="auto")
        else:
            await world.workload()

        async def adopted() -> bool:
            return controller.decision_log.latest(WEB) is not None

        await world.until(adopted, "web is noted")
        assert controller.queue_statistics()["reconcile"].waiting == 1
        await world.pod("web-1")
        await world.edit(LEVEL="debug")
        await world.rolled_out("web")
        await world.rollout()


async def test_objects_created_together_need_no_rollout(world: World) -> None:
    """An optional source that appears within the settle time of its consumer is not a change."""
    async with world.controller(settle=0.3) as controller:
        await world.quiet(controller)
        before = await world.workload(spec=env("LEVEL", optional=True))
        await world.config_map(LEVEL="info")
        await world.quiet(controller)
        assert await world.get("Deployment", "web") == before
        assert await world.events() == []


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
async def test_used_data_key_edit_rolls(world: World, kind: str) -> None:
    """One PATCH and one Event for each kind; the record then has the applied content."""
    await world.config_map(LEVEL="info")
    await world.workload(kind=kind)
    async with world.controller() as controller:
        await world.quiet(controller)
        before = world.answers()
        await world.edit(LEVEL="debug")
        revision = await world.rollout(kind=kind)
        await world.quiet(controller)
    assert (world.answers() - before)["PATCH"] == 1
    assert len(await world.events()) == 1
    assert await world.messages("RolledOut") == [
        "ConfigMap default/app LEVEL changed (containers[main].env[LEVEL]): rolling out"
    ]
    assert len(revision.split(".")) == 2


async def test_rollout_writes_one_annotation(world: World) -> None:
    """The pod template's annotation and nothing else, owned by the field manager hotmap."""
    await world.config_map(LEVEL="info")
    before = await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        revision = await world.rollout()
    after = await world.get("Deployment", "web")
    assert after["metadata"]["annotations"] == before["metadata"]["annotations"]
    annotations = after["spec"]["template"]["metadata"].pop("annotations")
    before["spec"]["template"]["metadata"].pop("annotations", None)
    assert annotations == {"hotmap.dev/revision": revision}
    assert after["spec"] == before["spec"]
    ours = [e for e in after["metadata"]["managedFields"] if e["manager"] == "hotmap"]
    assert [entry["operation"] for entry in ours] == ["Update"]


async def test_rollout_patch_has_preconditions(world: World) -> None:
    """The patch names the uid and the resourceVersion that the decision saw."""
    sent: list[Any] = []

    async def keep(plural: str, namespace: str | None, name: str, patch: Any) -> None:
        sent.append(patch)

    await world.config_map(LEVEL="info")
    seen = (await world.workload())["metadata"]
    world.registry.guards.append(keep)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        revision = await world.rollout()
    assert sent[0] == {
        "metadata": {"uid": seen["uid"], "resourceVersion": seen["resourceVersion"]},
        "spec": {"template": {"metadata": {"annotations": {"hotmap.dev/revision": revision}}}},
    }


async def test_secret_edit_rolls(world: World) -> None:
    """A Secret's consumers are rolled as a ConfigMap's are."""
    await world.secret("login", password="old")
    await world.workload(spec=env("password", source="login", kind="secret"))
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit("login", kind="Secret", password="new")
        await world.rollout()
    assert (await world.messages("RolledOut"))[0].startswith("Secret default/login password")


async def test_file_edit_rolls_without_reload(world: World) -> None:
    """New pods have the new files, so the consumer is rolled, and its pods are not nudged."""
    await world.config_map(LEVEL="info")
    await world.workload(spec=files())
    await world.pod("web-1")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.rollout()
        await world.quiet(controller)
    assert await world.target("web-1") == ""


async def test_removed_optional_data_key_rolls(world: World) -> None:
    """Its absence is a value of its own, and a change."""
    await world.config_map(LEVEL="info", MODE="fast")
    await world.workload(spec=env("LEVEL", optional=True))
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL=None)
        await world.rollout()


async def test_two_sources_edited_together_are_one_rollout(world: World) -> None:
    """One rollout answers both, and its reason names both."""
    await world.config_map("app", LEVEL="info")
    await world.config_map("extra", MODE="fast")
    spec = env("LEVEL")
    spec["containers"][0]["env"] += env("MODE", source="extra")["containers"][0]["env"]
    generation = (await world.workload(spec=spec))["metadata"]["generation"]
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit("app", LEVEL="debug")
        await world.edit("extra", MODE="slow")
        await world.rollout()
        await world.quiet(controller)
    after = await world.get("Deployment", "web")
    assert after["metadata"]["generation"] == generation + 1
    (message,) = await world.messages("RolledOut")
    assert "default/app LEVEL" in message
    assert "default/extra MODE" in message


async def test_burst_of_edits_is_one_rollout(world: World) -> None:
    """100 edits give two rollouts at most, and the last content's revision."""
    await world.config_map(LEVEL="0")
    generation = (await world.workload())["metadata"]["generation"]
    async with world.controller(settle=0.3, settle_max=5) as controller:
        await world.quiet(controller)
        for level in range(1, 101):
            await world.edit(LEVEL=str(level))
            await asyncio.sleep(0)  # each edit is seen on its own
        await world.rollout()
        await world.quiet(controller)
        last = await world.revision()
        rollouts = (await world.get("Deployment", "web"))["metadata"]["generation"] - generation
        await world.edit(LEVEL="other")
        await world.rollout(after=last)
        await world.edit(LEVEL="100")
        await world.rollout(after=await world.revision())
    assert 1 <= rollouts <= 2
    assert await world.revision() == last


async def test_revert_returns_to_the_earlier_revision(world: World) -> None:
    """The same content has the same name, so the earlier ReplicaSet serves again."""
    await world.config_map(LEVEL="a")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        revisions = [""]
        for level in ("b", "c", "b"):
            await world.edit(LEVEL=level)
            revisions.append(await world.rollout(after=revisions[-1]))
            await world.rolled_out()
    assert revisions[1] != revisions[2]
    assert revisions[3] == revisions[1]


async def test_only_users_of_the_changed_data_key_are_rolled(world: World) -> None:
    """Of four consumers of one ConfigMap only the two that use the data key are touched."""
    await world.config_map(LEVEL="info", MODE="fast")
    await world.workload("level", env("LEVEL"))
    await world.workload("mode", env("MODE"))
    await world.workload("all", both("MODE"))
    await world.workload("none", env("LEVEL", source="other", optional=True))
    async with world.controller() as controller:
        await world.quiet(controller)
        before = world.answers()
        await world.edit(LEVEL="debug")
        await world.rollout("level")
        await world.rollout("all")
        await world.quiet(controller)
    assert (world.answers() - before)["PATCH"] == 2
    assert await world.revision("mode") == ""
    assert await world.revision("none") == ""


async def test_workload_owned_by_operator_is_followed(world: World) -> None:
    """A workload that a custom resource controls is followed like any other."""
    await world.config_map(LEVEL="info")
    await world.workload()
    owner = {
        "apiVersion": "example.org/v1",
        "kind": "Shop",
        "name": "shop",
        "uid": "8d1b6b5c-0000-4000-8000-000000000000",
        "controller": True,
    }
    await world.merge("Deployment", "web", {"metadata": {"ownerReferences": [owner]}})
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.rollout()


async def test_hundred_workloads_of_one_source_are_rolled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each gets its one PATCH and its one Event; nothing is listed or read for it."""
    monkeypatch.setattr(events, "SPACING", 0.0)  # else they take 5 s
    # Else most of them wait for the end, where a busy machine has no time for all.
    monkeypatch.setattr(events, "NAMESPACE_BURST", 1000)
    monkeypatch.setattr(record_shards, "_CHECK_EVERY", 3600.0)  # a small read, whatever is rolled
    consumers = [f"web-{number}" for number in range(100)]
    await world.config_map(LEVEL="info")
    for name in consumers:
        await world.workload(name, annotations=FOLLOW)
    async with world.controller() as controller:
        await world.quiet(controller)
        before = world.answers()
        patched: list[str] = []

        async def count(plural: str, namespace: str | None, name: str, patch: Any) -> None:
            if plural == "deployments":
                patched.append(name)

        world.registry.guards.append(count)
        await world.edit(LEVEL="debug")
        for name in consumers:
            await world.rollout(name)
        await world.quiet(controller)
        asked = world.answers() - before
    assert sorted(patched) == sorted(consumers)
    assert asked["GET"] == 0
    told = [event["involvedObject"]["name"] for event in await world.events()]
    assert sorted(told) == sorted(consumers)
