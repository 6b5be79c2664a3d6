"""With Reloader's strategies a cluster cannot tell hotmap from Reloader, except by its faults."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Any

import pytest
from tests.controller.world import SETTLE, World, env, files, rfc3339

from hotmap.controller.run import Controller
from hotmap.controller.settings import Settings
from hotmap.core.model.objects import ObjectKey
from hotmap.core.policy.policy import Defaults
from hotmap.core.reloader.annotations import DialectSettings, Writing
from hotmap.core.reloader.patch import digest_of

AUTO = {"reloader.stakater.com/auto": "true"}
VARIABLE = "STAKATER_APP_CONFIGMAP"
LAST = "reloader.stakater.com/last-reloaded-from"

INFO = digest_of([(b"LEVEL", b"info")])
DEBUG = digest_of([(b"LEVEL", b"debug")])


def controller(world: World, writing: Writing = Writing.ENV_VARS, **settings: Any) -> Controller:
    """A controller that writes as Reloader does."""
    defaults = {name: settings.pop(name) for name in ("catch_up", "muted") if name in settings}
    dialect = DialectSettings(writing=writing, **settings.pop("dialect", {}))
    return Controller(
        world.client,
        Settings(
            defaults=Defaults(settle=SETTLE, settle_max=1.0, dialect=dialect, **defaults),
            listen=("127.0.0.1", 0),
            **settings,
        ),
    )


def marked(spec: dict[str, Any], digest: str, name: str = "STAKATER_APP_CONFIGMAP") -> Any:
    """A pod spec as Reloader left it."""
    spec["containers"][0].setdefault("env", []).append({"name": name, "value": digest})
    return spec


async def variables(world: World, name: str = "web", kind: str = "Deployment") -> dict[str, str]:
    """Reloader's variables in the first container of a consumer."""
    obj = await world.get(kind, name)
    entries = obj["spec"]["template"]["spec"]["containers"][0].get("env") or []
    return {e["name"]: e.get("value", "") for e in entries if e["name"].startswith("STAKATER_")}


async def last_reloaded_from(world: World) -> dict[str, Any]:
    obj = await world.get("Deployment", "web")
    said = obj["spec"]["template"]["metadata"].get("annotations") or {}
    document: dict[str, Any] = json.loads(said.get(LAST, "{}"))
    return document


async def until_variable(world: World, name: str, value: str | None, **where: str) -> None:
    async def there() -> bool:
        return (await variables(world, **where)).get(name) == value

    await world.until(there, f"{name} is {value!r}")


@pytest.fixture
def sent(world: World) -> list[Any]:
    """The patches of consumers that arrive at the API server."""
    patches: list[Any] = []

    async def keep(plural: str, namespace: str | None, name: str, patch: Any) -> None:
        if plural in ("deployments", "statefulsets", "daemonsets"):
            patches.append(patch)

    world.registry.guards.append(keep)
    return patches


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
async def test_strategy_env_vars_writes_one_variable(
    world: World, kind: str, sent: list[Any]
) -> None:
    """One variable with the source's SHA-1, by the field manager Reloader, and nothing else."""
    await world.config_map(LEVEL="info")
    before = await world.workload(kind=kind, annotations=AUTO)
    async with controller(world) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        await until_variable(world, VARIABLE, DEBUG, kind=kind)
        await world.quiet(running)
    after = await world.get(kind, "web")
    managers = [entry["manager"] for entry in after["metadata"]["managedFields"]]
    assert "Reloader" in managers
    assert "hotmap" not in managers
    entry = {"name": "STAKATER_APP_CONFIGMAP", "value": DEBUG}
    after["spec"]["template"]["spec"]["containers"][0]["env"].remove(entry)
    assert after["spec"]["template"] == before["spec"]["template"]
    (patch,) = sent
    assert patch["spec"]["template"] == {"spec": {"containers": [{"name": "main", "env": [entry]}]}}
    assert set(patch["metadata"]) == {"uid", "resourceVersion"}


async def test_workload_without_pods_is_marked_once(world: World, sent: list[Any]) -> None:
    """Reloader marks it too; scaling it up afterwards needs nothing more."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations=AUTO, replicas=0)
    async with controller(world) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        await until_variable(world, VARIABLE, DEBUG)
        await world.merge("Deployment", "web", {"spec": {"replicas": 1}})
        await world.rolled_out()
        await world.quiet(running)
    assert len([patch for patch in sent if "template" in patch["spec"]]) == 1


async def test_strategy_annotations_writes_one_annotation(world: World, sent: list[Any]) -> None:
    """One annotation that names the source, its SHA-1, the container and the time."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations=AUTO)
    async with controller(world, Writing.ANNOTATIONS) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        document = await world.until(lambda: last_reloaded_from(world), "the annotation is there")
        await world.quiet(running)
    observed = document.pop("observedAt")
    assert isinstance(observed, int)
    assert document == {
        "type": "CONFIGMAP",
        "name": "app",
        "namespace": "default",
        "hash": DEBUG,
        "containerRefs": ["main"],
    }
    assert len(sent) == 1


async def test_digest_of_a_secret_is_of_its_decoded_values(world: World) -> None:
    """Its digest is that of the decoded values."""
    await world.secret("login", password="old")
    spec = env("password", source="login", kind="secret")
    await world.workload(spec=spec, annotations=AUTO)
    async with controller(world) as running:
        await world.quiet(running)
        await world.edit("login", kind="Secret", password="new")
        await until_variable(world, "STAKATER_LOGIN_SECRET", digest_of([(b"password", b"new")]))


@pytest.mark.parametrize("digest", [None, "0" * 40, INFO], ids=["none", "old", "right"])
@pytest.mark.parametrize("writing", [Writing.ENV_VARS, Writing.ANNOTATIONS])
async def test_moving_over_rolls_nothing(
    world: World, writing: Writing, digest: str | None, sent: list[Any]
) -> None:
    """Whatever Reloader left behind, also when it missed the last change."""
    await world.config_map(LEVEL="info")
    spec = marked(env("LEVEL"), digest) if digest else env("LEVEL")
    before = await world.workload(spec=spec, annotations=AUTO)
    async with controller(world, writing) as running:
        await world.quiet(running)
    assert await world.get("Deployment", "web") == before
    assert sent == []


@pytest.mark.parametrize(("digest", "rolled"), [("0" * 40, True), (INFO, False)])
async def test_sync_after_restart_rolls_only_what_reloader_missed(
    world: World, digest: str, rolled: bool
) -> None:
    """`--sync-after-restart`: what Reloader missed is made up for; what it did is left alone."""
    await world.config_map(LEVEL="info")
    await world.workload(spec=marked(env("LEVEL"), digest), annotations=AUTO)
    await world.pod("web-1")
    async with controller(world, catch_up=True) as running:
        if rolled:
            await until_variable(world, VARIABLE, INFO)
        await world.quiet(running)
    assert await variables(world) == {"STAKATER_APP_CONFIGMAP": INFO}
    assert len(await world.events("RolledOut")) == int(rolled)


async def test_reloader_is_still_running(world: World, sent: list[Any]) -> None:
    """A rollout that Reloader wrote first counts as applied: one rollout, not two."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations=AUTO)
    async with controller(world) as running:
        await world.quiet(running)

        def mark(obj: dict[str, Any]) -> dict[str, Any]:
            marked(obj["spec"]["template"]["spec"], DEBUG)
            return obj

        await world.registry.modify(
            "configmaps", "default", "app", _level("debug"), manager="kubectl"
        )
        await world.registry.modify("deployments", "default", "web", mark, manager="Reloader")
        await world.rolled_out()
        await world.quiet(running)
    assert sent == []
    assert await variables(world) == {"STAKATER_APP_CONFIGMAP": DEBUG}


def _level(value: str) -> Any:
    return lambda obj: {**obj, "data": {"LEVEL": value}}


async def test_change_while_down_is_written_once(world: World, sent: list[Any]) -> None:
    """A change while hotmap is down is written when it is back, once."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations=AUTO)
    async with controller(world) as running:
        await world.quiet(running)
    await world.edit(LEVEL="debug")
    async with controller(world) as running:
        await until_variable(world, VARIABLE, DEBUG)
        await world.quiet(running)
    async with controller(world) as running:
        await world.quiet(running)
    assert len(sent) == 1


@pytest.mark.parametrize("undone", [False, True])
async def test_change_that_reloader_applied_while_down(
    world: World, sent: list[Any], undone: bool
) -> None:
    """Moving to Reloader and back: its mark counts, unless it is there by an undo.

    All data keys are in use, so that managedFields do not tell when the source changed last.
    """
    await world.config_map(LEVEL="info")
    uses = [{"configMapRef": {"name": "app"}}]
    spec = {"containers": [{"name": "main", "image": "app:1", "envFrom": uses}]}
    await world.workload(spec=spec, annotations=AUTO)
    async with controller(world) as running:
        await world.quiet(running)

    def mark(obj: dict[str, Any], digest: str = DEBUG) -> dict[str, Any]:
        obj["spec"]["template"]["spec"]["containers"][0]["env"] = [
            {"name": VARIABLE, "value": digest}
        ]
        return obj

    await world.edit(LEVEL="debug")
    await world.registry.modify("deployments", "default", "web", mark, manager="Reloader")
    if undone:
        other = partial(mark, digest=INFO)
        await world.registry.modify("deployments", "default", "web", other, manager="Reloader")
        await world.registry.modify("deployments", "default", "web", mark, manager="kubectl")
    await world.rolled_out()
    await world.pod("web-1")
    await world.passes_a_second()
    async with controller(world) as running:
        await world.quiet(running)
    assert len(sent) == int(undone)


async def test_revert_writes_the_earlier_variable(world: World) -> None:
    """A revert writes the earlier value again, so the earlier ReplicaSet is used."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations=AUTO)
    async with controller(world) as running:
        await world.quiet(running)
        for value, digest in (("debug", DEBUG), ("info", INFO), ("debug", DEBUG)):
            await world.edit(LEVEL=value)
            await until_variable(world, "STAKATER_APP_CONFIGMAP", digest)
            await world.rolled_out()
            await world.quiet(running)


async def test_undo_before_the_content_came_back_gets_a_revision(world: World) -> None:
    """The variable is right and its pods are not: they get a revision, which Reloader forgets."""
    await world.config_map(LEVEL="info")
    await world.workload(spec=marked(env("LEVEL"), INFO), annotations=AUTO)
    async with controller(world) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        await until_variable(world, VARIABLE, DEBUG)
        await world.rolled_out()
        await world.quiet(running)

        def undo(obj: dict[str, Any]) -> dict[str, Any]:
            obj["spec"]["template"]["spec"]["containers"][0]["env"][-1]["value"] = INFO
            return obj

        await world.registry.modify("deployments", "default", "web", undo, manager="kubectl")
        await world.rolled_out()
        await world.quiet(running)
        await world.pod("web-1")
        await world.edit(LEVEL="info")
        await world.rollout()
        await world.quiet(running)


async def test_contents_that_share_a_digest(world: World) -> None:
    """Reloader does not see this edit; its variable stays, and a revision has pods replaced."""
    first, two = {"LEVEL": "a;MODE=b"}, {"LEVEL": "a", "MODE": "b"}
    await world.config_map(**first)
    spec = marked(env("LEVEL"), digest_of([(b"LEVEL", b"a;MODE=b")]))
    await world.workload(spec=spec, annotations=AUTO)
    async with controller(world) as running:
        await world.quiet(running)
        before = await variables(world)
        await world.edit(**two)
        await world.rollout()
        await world.quiet(running)
    assert (
        await variables(world)
        == before
        == {VARIABLE: digest_of([(b"LEVEL", b"a"), (b"MODE", b"b")])}
    )


# -- creation and deletion --------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [True, False])
async def test_reload_on_create_rolls_optional_users_only_with_the_flag(
    world: World, wanted: bool
) -> None:
    """A source that appears rolls its optional users only where flags say so."""
    await world.workload(spec=env("LEVEL", optional=True), annotations=AUTO)
    await world.pod("web-old", started=time.time() - 60)
    async with controller(world, dialect={"reload_on_create": wanted}) as running:
        await world.quiet(running)
        await world.config_map(LEVEL="info")
        if wanted:
            await until_variable(world, VARIABLE, INFO)
        await world.quiet(running)
    assert bool(await variables(world)) is wanted


async def test_source_recreated_with_other_content_rolls(world: World) -> None:
    """Other content under the same name is a change without any flag; Reloader misses it."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations=AUTO)
    async with controller(world, dialect={"reload_on_create": False}) as running:
        await world.quiet(running)
        await world.delete("ConfigMap", "app")
        await world.quiet(running)
        await world.config_map(LEVEL="debug")
        await until_variable(world, VARIABLE, DEBUG)


@pytest.mark.parametrize("wanted", [True, False])
async def test_reload_on_delete_removes_the_variable_by_its_name(
    world: World, wanted: bool, sent: list[Any]
) -> None:
    """The variable is removed by its name; its neighbours stay, wherever they are now."""
    spec = marked(env("LEVEL", optional=True), INFO)
    spec["containers"][0]["env"].append({"name": "LAST", "value": "kept"})
    await world.config_map(LEVEL="info")
    await world.workload(spec=spec, annotations=AUTO)
    async with controller(world, dialect={"reload_on_delete": wanted}) as running:
        await world.quiet(running)
        await world.delete("ConfigMap", "app")
        if wanted:
            await until_variable(world, VARIABLE, None)
        await world.quiet(running)
    assert len(sent) == int(wanted)
    obj = await world.get("Deployment", "web")
    names = [e["name"] for e in obj["spec"]["template"]["spec"]["containers"][0]["env"]]
    assert names == (["LEVEL", "LAST"] if wanted else ["LEVEL", "STAKATER_APP_CONFIGMAP", "LAST"])


async def test_deletion_that_would_keep_pods_from_starting(world: World, sent: list[Any]) -> None:
    """A source that is not optional: running pods are left in peace."""
    await world.config_map(LEVEL="info")
    await world.workload(spec=marked(env("LEVEL"), INFO), annotations=AUTO)
    async with controller(world, dialect={"reload_on_delete": True}) as running:
        await world.quiet(running)
        await world.delete("ConfigMap", "app")
        await world.quiet(running)
    assert sent == []


# -- who is concerned -------------------------------------------------------------------------


async def test_search_rolls_for_sources_that_say_match(world: World) -> None:
    """A consumer that searches is rolled by the referenced sources that say match."""
    await world.config_map("app", LEVEL="info")
    await world.workload(annotations={"reloader.stakater.com/search": "true"})
    async with controller(world) as running:
        await world.quiet(running)
        await world.edit(LEVEL="trace")
        await world.quiet(running)
        assert await variables(world) == {}
        match = {"metadata": {"annotations": {"reloader.stakater.com/match": "true"}}}
        await world.merge("ConfigMap", "app", match)
        await world.quiet(running)
        assert await variables(world) == {}
        await world.edit(LEVEL="debug")
        await until_variable(world, VARIABLE, DEBUG)


async def test_found_source_is_deleted_and_created_again(world: World) -> None:
    """What was found once is not forgotten with it: its return with other content is a change."""
    match = {"metadata": {"annotations": {"reloader.stakater.com/match": "true"}}}
    await world.config_map(LEVEL="info")
    await world.merge("ConfigMap", "app", match)
    await world.workload(annotations={"reloader.stakater.com/search": "true"})
    async with controller(world) as running:
        await world.quiet(running)
        await world.delete("ConfigMap", "app")
        await world.quiet(running)
        body = {"metadata": {"name": "app", **match["metadata"]}, "data": {"LEVEL": "debug"}}
        await world.registry.create("configmaps", "default", body, manager="kubectl")
        await until_variable(world, VARIABLE, DEBUG)


@pytest.mark.parametrize("how", ["recreated without match", "match removed"])
async def test_source_that_is_no_longer_found_holds_nothing(world: World, how: str) -> None:
    """What was said of it while it was followed, or did not exist, is not said any more."""
    match = {"reloader.stakater.com/match": "true"}
    await world.config_map(LEVEL="info")
    await world.merge("ConfigMap", "app", {"metadata": {"annotations": match}})
    await world.workload(annotations={"reloader.stakater.com/search": "true"})
    await world.pod("web-1", started=time.time() + 5)
    async with controller(world) as running:

        def waits() -> bool:
            last = running.decision_log.last_decision(ObjectKey("Deployment", "default", "web"))
            return last is not None and (last.held or bool(last.missing_sources))

        async def is_waiting() -> bool:
            return waits()

        async def is_over() -> bool:
            return not waits()

        await world.quiet(running)
        if how == "match removed":
            await world.edit(LEVEL=None)
            await world.until(is_waiting, "the missing data key is reported")
            annotations = dict.fromkeys(match)
            await world.merge("ConfigMap", "app", {"metadata": {"annotations": annotations}})
        else:
            await world.delete("ConfigMap", "app")
            await world.until(is_waiting, "the missing source is reported")
            await world.config_map(LEVEL="info")
        await world.until(is_over, "nothing is reported")


async def test_named_but_not_referenced(world: World) -> None:
    """It is marked in the first container."""
    await world.config_map("other", LEVEL="info")
    said = {"configmap.reloader.stakater.com/reload": "oth.*"}
    await world.workload(annotations=said)
    async with controller(world) as running:
        await world.quiet(running)
        await world.edit("other", LEVEL="debug")
        await until_variable(world, "STAKATER_OTHER_CONFIGMAP", DEBUG)


@pytest.mark.parametrize("wanted", [True, False])
async def test_creation_of_a_source_that_an_expression_names(world: World, wanted: bool) -> None:
    """The first one and a second one."""
    await world.workload(annotations={"configmap.reloader.stakater.com/reload": "oth.*"})
    await world.pod("web-1", started=time.time() - 60)
    async with controller(world, dialect={"reload_on_create": wanted}) as running:
        await world.quiet(running)
        for name, variable in (("other", "OTHER"), ("other-2", "OTHER_2")):
            await world.passes_a_second()
            await world.config_map(name, LEVEL="info")
            await world.quiet(running)
            assert (f"STAKATER_{variable}_CONFIGMAP" in await variables(world)) is wanted
            await world.rolled_out()
            await world.quiet(running)


async def test_change_of_files_is_marked_in_the_container_that_mounts_them(world: World) -> None:
    """A change of mounted files is marked in the container that mounts them."""
    await world.config_map(LEVEL="info")
    await world.workload(spec=files(), annotations=AUTO)
    async with controller(world) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        await until_variable(world, VARIABLE, DEBUG)


PAUSED_AT = "deployment.reloader.stakater.com/paused-at"


@pytest.mark.parametrize(("period", "resumed"), [("5m", False), ("1s", True)])
async def test_deployment_paused_by_reloader_is_resumed(
    world: World, period: str, resumed: bool
) -> None:
    """Reloader resumes from memory; after its end hotmap does, when the period is over."""
    await world.config_map(LEVEL="info")
    said = {
        **AUTO,
        "deployment.reloader.stakater.com/pause-period": period,
        PAUSED_AT: rfc3339(time.time() - 60),
    }
    await world.workload(annotations=said)
    await world.registry.modify(
        "deployments",
        "default",
        "web",
        lambda obj: {**obj, "spec": {**obj["spec"], "paused": True}},
        manager="Reloader",
    )
    async with controller(world) as running:
        if resumed:
            await world.event("Resumed")
        else:

            async def is_decided() -> bool:
                return bool(running.decision_log.history())

            await world.until(is_decided, "it was looked at")
    obj = await world.get("Deployment", "web")
    assert obj["spec"].get("paused", False) is not resumed
    assert (PAUSED_AT in obj["metadata"]["annotations"]) is not resumed


async def test_deployment_paused_by_others_stays_paused(world: World) -> None:
    """It is not followed, so nothing is written."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations=AUTO, paused=True)
    async with controller(world) as running:
        await world.quiet(running)
    assert (await world.get("Deployment", "web"))["spec"]["paused"]


async def test_changes_in_a_pause_period_are_one_rollout(world: World, sent: list[Any]) -> None:
    """The rollout waits from the first change on; what changes meanwhile goes with it."""
    await world.config_map(LEVEL="info")
    said = {**AUTO, "deployment.reloader.stakater.com/pause-period": "1s"}
    await world.workload(template_annotations=said, annotations={})
    async with controller(world) as running:
        await world.quiet(running)
        for value in ("warn", "error", "debug"):
            await world.edit(LEVEL=value)
        await until_variable(world, VARIABLE, DEBUG)
        await world.quiet(running)
    assert len(sent) == 1
