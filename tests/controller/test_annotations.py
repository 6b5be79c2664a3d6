"""What consumers, pod templates, sources and Namespaces ask for by annotation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

import pytest
from tests.controller.world import FOLLOW, PLURALS, World, env, files

#: A consumer without any reference to a source.
NO_USES = {"containers": [{"name": "main", "image": "app:1"}]}

BOTH_SOURCES = {
    "containers": [
        {
            "name": "main",
            "image": "app:1",
            "envFrom": [{"configMapRef": {"name": "app"}}, {"configMapRef": {"name": "extra"}}],
        }
    ]
}


async def _is_rolled_by(world: World, source: str, *, kind: str = "ConfigMap") -> bool:
    """Return whether an edit of a source rolls the consumer web; a controller runs for it."""
    async with world.controller() as controller:
        await world.quiet(controller)
        before = await world.revision()
        await world.edit(source, kind=kind, LEVEL="debug")
        await world.quiet(controller)
        return await world.revision() != before


# -- who is followed --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("follow", "source", "rolled"),
    [
        ("configmap/app", "app", True),
        ("configmap/other", "app", False),
        ("secret/app", "app", False),
        ("cm/a*", "app", True),
        ("secret/db-*, configmap/app", "app", True),
        ("off", "app", False),
    ],
)
@pytest.mark.parametrize("spec", [env("LEVEL"), NO_USES], ids=["referenced", "not referenced"])
async def test_follow_list_names_sources_used_or_not(
    world: World, spec: dict[str, object], follow: str, source: str, rolled: bool
) -> None:
    """Sources that are named count, whether the pod template references them or not."""
    await world.config_map(source, LEVEL="info")
    await world.workload(spec=spec, annotations={"hotmap.dev/follow": follow})
    assert await _is_rolled_by(world, source) is rolled


async def test_followed_source_that_appears_rolls(world: World) -> None:
    """Named but absent: its first appearance is a change."""
    await world.workload(spec=NO_USES, annotations={"hotmap.dev/follow": "configmap/app"})
    await world.pod("web-old", started=time.time() - 60)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.config_map(LEVEL="info")
        await world.rollout()


async def test_named_source_in_another_namespace_is_ignored(world: World) -> None:
    """Names mean the consumer's own namespace."""
    await world.namespace("shop")
    await world.config_map(LEVEL="info", namespace="shop")
    await world.workload(spec=NO_USES, annotations={"hotmap.dev/follow": "configmap/app"})
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug", namespace="shop")
        await world.quiet(controller)
    assert await world.revision() == ""


async def test_excluded_source_causes_no_action(world: World) -> None:
    """An excluded source never causes an action; the others do."""
    await world.config_map("app", LEVEL="info")
    await world.config_map("extra", LEVEL="info")
    said = {**FOLLOW, "hotmap.dev/exclude": "configmap/ex*"}
    await world.workload(spec=BOTH_SOURCES, annotations=said)
    assert not await _is_rolled_by(world, "extra")
    assert await _is_rolled_by(world, "app")


async def test_ignored_source_rolls_nothing(world: World) -> None:
    """The source itself may say so; when it no longer does, its next change counts."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.annotate("app", kind="ConfigMap", ignore="true")
    assert not await _is_rolled_by(world, "app")
    await world.annotate("app", kind="ConfigMap", ignore=None)
    async with world.controller() as controller:
        await world.quiet(controller)
        assert await world.revision() == ""
        await world.edit(LEVEL="trace")
        await world.rollout()


async def test_source_becomes_ignored(world: World) -> None:
    """The annotation itself rolls nothing, in either direction."""
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.annotate("app", kind="ConfigMap", ignore="true")
        await world.quiet(controller)
        await world.annotate("app", kind="ConfigMap", ignore=None)
        await world.quiet(controller)
    assert await world.revision() == ""


async def test_pod_template_annotation_is_read(world: World) -> None:
    """Annotations of the pod template count where the consumer's own are silent."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations={}, template_annotations=FOLLOW)
    assert await _is_rolled_by(world, "app")


async def test_workload_annotation_overrides_pod_template(world: World) -> None:
    """What stands on the consumer wins."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations={"hotmap.dev/follow": "off"}, template_annotations=FOLLOW)
    assert not await _is_rolled_by(world, "app")


@pytest.mark.parametrize(("said", "rolled"), [({}, True), ({"hotmap.dev/follow": "off"}, False)])
async def test_namespace_annotation_follows(
    world: World, said: Mapping[str, str], rolled: bool
) -> None:
    """`follow: auto` on a Namespace opts its consumers in, unless they say otherwise."""
    await world.namespace("shop", FOLLOW)
    await world.config_map(LEVEL="info", namespace="shop")
    await world.workload(annotations=said, namespace="shop")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug", namespace="shop")
        await world.quiet(controller)
    assert bool(await world.revision(namespace="shop")) is rolled


async def test_namespace_annotation_added_later_adopts_workloads(world: World) -> None:
    """Its consumers are adopted then, and followed from then on."""
    await world.namespace("shop")
    await world.config_map(LEVEL="info", namespace="shop")
    await world.workload(annotations={}, namespace="shop")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.registry.patch(
            "namespaces",
            None,
            "shop",
            {"metadata": {"annotations": FOLLOW}},
            kind="merge",
            manager="kubectl",
        )

        async def adopted() -> int:
            return len(controller.records)

        await world.until(adopted, "the consumer is adopted")
        assert await world.revision(namespace="shop") == ""
        await world.edit(LEVEL="debug", namespace="shop")
        await world.rollout(namespace="shop")


async def test_flag_follows_all_workloads(world: World) -> None:
    """`--follow auto` opts in workloads without the annotation."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations={})
    async with world.controller(follow="auto") as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.rollout()


async def test_namespaced_mode_needs_a_role_only(world: World) -> None:
    """One namespace is watched with a Role alone; what its Namespace says is not read."""
    world.registry.withheld |= {*PLURALS.values(), "namespaces"}
    await world.namespace("shop", FOLLOW)
    await world.namespace("bank")
    for name in ("shop", "bank"):
        await world.config_map(LEVEL="info", namespace=name)
        await world.workload(namespace=name)
    await world.workload("silent", annotations={}, namespace="shop")
    async with world.controller(watch_namespaces=("shop",), namespace="shop") as controller:
        await world.quiet(controller, namespace="shop")
        await world.edit(LEVEL="debug", namespace="bank")
        await world.edit(LEVEL="debug", namespace="shop")
        await world.rollout(namespace="shop")
        await world.quiet(controller, namespace="shop")
    assert await world.revision(namespace="bank") == ""
    assert await world.revision("silent", namespace="shop") == ""


# -- what is done -----------------------------------------------------------------------------


async def test_strategy_notify_writes_an_event_only(world: World) -> None:
    """An Event, nothing else: no rollout, no nudge."""
    await world.config_map(LEVEL="info")
    await world.workload(spec=files(), annotations={**FOLLOW, "hotmap.dev/strategy": "notify"})
    await world.pod("web-1")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        message = await world.event("Notified")
        await world.quiet(controller)
    assert message.endswith("reported only, since the strategy is notify")
    assert await world.messages() == [message]
    assert await world.revision() == ""
    assert await world.target("web-1") == ""


async def test_strategy_rollout_replaces_pods_for_every_change(world: World) -> None:
    """New pods for every change, also where the application re-reads its files."""
    await world.config_map(LEVEL="info")
    said = {**FOLLOW, "hotmap.dev/rereads": "true", "hotmap.dev/strategy": "rollout"}
    await world.workload(spec=files(), annotations=said)
    assert await _is_rolled_by(world, "app")


async def test_settle_time_zero_rolls_out_at_once(world: World) -> None:
    """The flag says a day, which the test does not wait."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations={**FOLLOW, "hotmap.dev/settle": "0"})
    async with world.controller(settle=86_400, settle_max=86_400) as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.rollout()


async def test_settle_time_is_bounded(world: World) -> None:
    """Edits that never pause are acted on all the same, after settle-max."""
    await world.config_map(LEVEL="0")
    said = {**FOLLOW, "hotmap.dev/settle": "5s", "hotmap.dev/settle-max": "5s"}
    await world.workload(annotations=said)

    async def edit_for_ever() -> None:
        level = 0
        while True:
            level += 1
            await world.edit(LEVEL=str(level))
            await asyncio.sleep(0.02)

    async with world.controller() as controller:
        await world.quiet(controller)
        await world.annotate("web", settle="300ms", settle_max="500ms")
        await world.rolled_out()
        await world.quiet(controller)
        editing = asyncio.create_task(edit_for_ever())
        try:
            await world.rollout()
        finally:
            editing.cancel()
            await asyncio.wait([editing])


# -- Reloader's dialect -----------------------------------------------------------------------

NAMED = "configmap.reloader.stakater.com/reload"
SECRETS = "secret.reloader.stakater.com/reload"
AUTO = "reloader.stakater.com/auto"


@pytest.mark.parametrize(
    ("said", "rolled"),
    [
        ({AUTO: "true"}, True),
        ({AUTO: "false"}, False),
        ({NAMED: "app"}, True),
        ({NAMED: "other, ap.*"}, True),
        ({NAMED: "ap"}, False),
        ({NAMED: "a|app"}, True),
        ({SECRETS: "app"}, False),
        ({AUTO: "true", "hotmap.dev/follow": "off"}, False),
    ],
)
@pytest.mark.parametrize("place", ["consumer", "pod template"])
async def test_reloaders_annotations_are_read_unless_hotmaps_are_set(
    world: World, said: dict[str, str], rolled: bool, place: str
) -> None:
    """Lists of expressions that match whole names, and auto; hotmap's own dialect wins."""
    await world.config_map(LEVEL="info")
    if place == "consumer":
        await world.workload(annotations=said)
    else:
        await world.workload(annotations={}, template_annotations=said)
    assert await _is_rolled_by(world, "app") is rolled


async def test_reloaders_names_need_no_reference(world: World) -> None:
    """A source that is named but not referenced counts, as with Reloader."""
    await world.secret("login", LEVEL="old")
    await world.workload(spec=NO_USES, annotations={SECRETS: "log.*"})
    assert await _is_rolled_by(world, "login", kind="Secret")


async def test_reloaders_ignore_on_a_source(world: World) -> None:
    """The source's word counts in both dialects."""
    await world.config_map(LEVEL="info")
    said = {"metadata": {"annotations": {"reloader.stakater.com/ignore": "true"}}}
    await world.merge("ConfigMap", "app", said)
    await world.workload(annotations={AUTO: "true"})
    assert not await _is_rolled_by(world, "app")


# -- what cannot be read ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "value", "words"),
    [
        (
            "hotmap.dev/follow",
            "yes",
            'invalid value "yes": expected auto, off or a list such as configmap/app, '
            "secret/db-*; treating as off",
        ),
        (
            "hotmap.dev/exclude",
            "app",
            'invalid item "app": expected configmap/NAME, secret/NAME or spc/NAME',
        ),
        (
            "hotmap.dev/rereads",
            "maybe",
            'invalid value "maybe": expected true, false or a time such as 30s; treating as false',
        ),
        ("hotmap.dev/strategy", "bounce", "treating as notify"),
        (
            "hotmap.dev/settle",
            "soon",
            'invalid duration "soon": expected a number with a unit, such as 500ms or 5s',
        ),
        ("hotmap.dev/settle-max", "-1s", 'invalid duration "-1s": must not be negative'),
        ("hotmap.dev/catch-up", "1", 'invalid boolean "1": expected true or false'),
        (
            "hotmap.dev/on-change",
            "run-now",
            "run-now only applies to a CronJob, not to a Deployment",
        ),
        ("hotmap.dev/agent", "port=0", 'invalid item "port=0": expected port='),
        (
            "hotmap.dev/folow",
            "auto",
            "folow is unknown; did you mean hotmap.dev/follow?",
        ),
        ("hotmap.dev/ignore", "true", "has no effect on a Deployment; it belongs on a ConfigMap"),
        (NAMED, "app(", 'invalid regular expression "app("'),
        (AUTO, "perhaps", 'invalid boolean "perhaps": expected true or false; treating as false'),
    ],
)
async def test_invalid_annotation_is_reported(
    world: World, annotation: str, value: str, words: str
) -> None:
    """One Warning says which, what is wrong and how it is taken; nothing crashes."""
    await world.config_map(LEVEL="info")
    follow = FOLLOW if annotation.startswith("hotmap.dev/") else {}
    await world.workload(annotations={**follow, annotation: value})
    await world.workload("api")
    async with world.controller() as controller:
        await world.event("InvalidAnnotation")
        await world.edit(LEVEL="debug")
        await world.rollout("api")
        await world.quiet(controller)
    (event,) = await world.events("InvalidAnnotation")
    assert event["type"] == "Warning"
    assert event["message"].startswith(f"annotation {annotation}")
    assert words in event["message"]


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
@pytest.mark.parametrize(
    ("annotation", "value", "words"),
    [
        (
            "hotmap.dev/ignore",
            "yes",
            'invalid boolean "yes": expected true or false; treating as false',
        ),
        (
            "reloader.stakater.com/ignore",
            "Y",
            'invalid boolean "Y": expected true or false; treating as false',
        ),
        (
            "reloader.stakater.com/match",
            "1",
            'invalid boolean "1": expected true or false; treating as false',
        ),
        ("hotmap.dev/ignroe", "true", "is unknown; did you mean hotmap.dev/ignore?"),
        ("hotmap.dev/follow", "auto", "has no effect on a KIND; it belongs on the workload"),
        (AUTO, "true", "has no effect on a KIND; it belongs on the workload"),
    ],
)
async def test_invalid_source_annotation_is_reported(
    world: World, kind: str, annotation: str, value: str, words: str
) -> None:
    """One Warning on the source, however often it is edited; its edits count as ever."""
    refs = {"kind": "configMap" if kind == "ConfigMap" else "secret"}
    await (world.config_map if kind == "ConfigMap" else world.secret)("app", LEVEL="info")
    await world.merge(kind, "app", {"metadata": {"annotations": {annotation: value}}})
    await world.workload(spec=env("LEVEL", **refs))
    async with world.controller() as controller:
        message = await world.event("InvalidAnnotation")
        before = await world.revision()
        for level in ("debug", "trace"):
            await world.edit(kind=kind, LEVEL=level)
            before = await world.rollout(after=before)
            await world.rolled_out()
            await world.quiet(controller)
    assert message.startswith(f"annotation {annotation}")
    assert words.replace("KIND", kind) in message
    (event,) = await world.events("InvalidAnnotation")
    assert (event["type"], event["count"]) == ("Warning", 1)
    regarding = event["involvedObject"]
    assert (regarding["kind"], regarding["name"]) == (kind, "app")
    assert regarding["uid"] == (await world.get(kind, "app"))["metadata"]["uid"]


async def test_source_annotation_warning_is_repeated_after_fix(world: World) -> None:
    """What cannot be read is told when it is written, also while the controller runs."""
    await world.config_map(LEVEL="info")
    async with world.controller() as controller:
        await world.quiet(controller)
        for ignore in ("yes", "true", "no"):
            await world.annotate("app", kind="ConfigMap", ignore=ignore)
            await world.quiet(controller)
    told = [message.split('"')[1] for message in await world.messages("InvalidAnnotation")]
    assert told == ["yes", "no"]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            {"hotmap.dev/follow": "yes"},
            'hotmap.dev/follow: invalid value "yes": expected auto, off or a list',
        ),
        (
            {"hotmap.dev/folow": "auto"},
            "hotmap.dev/folow is unknown; did you mean hotmap.dev/follow?",
        ),
        ({"hotmap.dev/settle": "1s"}, "hotmap.dev/settle has no effect on a Namespace"),
        ({AUTO: "true"}, f"{AUTO} has no effect on a Namespace; it belongs on the workload"),
    ],
)
async def test_invalid_namespace_annotation_is_reported(
    world: World, said: dict[str, str], words: str
) -> None:
    """One Warning about the Namespace, to be found in it; none for each consumer there."""
    await world.namespace("shop", said)
    await world.config_map(LEVEL="info", namespace="shop")
    for name in ("web", "api"):
        await world.workload(name, annotations={}, namespace="shop")
    async with world.controller() as controller:
        message = await world.event("InvalidAnnotation")
        await world.edit(LEVEL="debug", namespace="shop")
        await world.quiet(controller)
    assert message.startswith(f"annotation {words}")
    (event,) = await world.events("InvalidAnnotation")
    assert event["metadata"]["namespace"] == "shop"
    assert event["involvedObject"]["kind"] == "Namespace"
    assert await world.revision(namespace="shop") == ""


async def test_invalid_annotation_is_reported_and_fixed(world: World) -> None:
    """The safe reading holds until then."""
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.annotate("web", follow="auto!")
        await world.event("InvalidAnnotation")
        await world.edit(LEVEL="debug")
        await world.quiet(controller)
        assert await world.revision() == ""
        await world.annotate("web", follow="auto")
        await world.rolled_out()
        await world.quiet(controller)
        await world.edit(LEVEL="trace")
        await world.rollout()
