"""Jobs are recreated for a change, where they ask for it (`hotmap.dev/on-change: recreate`).

The plane stores Jobs and runs none of them: the tests play their controllers.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import product
from typing import Any

import pytest
from tests.controller.stored_jobs import RECREATE, find_going, is_true, jobs, uid
from tests.controller.world import NAMESPACE, World, env

from hotmap.controller.reconcile import job_recreation
from hotmap.core.errors import api_error
from hotmap.core.model.objects import ObjectKey
from hotmap.core.policy.policy import Defaults, OnChange
from hotmap.local.apiserver.options import DeleteOptions
from hotmap.local.apiserver.routes import ResourcePath


async def test_job_is_created_again(world: World) -> None:
    """Deleted with its pods first, then created as its owner wrote it, with one Event on it."""
    await world.config_map(LEVEL="info")
    old = await world.job(annotations=RECREATE, parallelism=2)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        going = await world.until(lambda: find_going(world, "load"), "the Job is being deleted")
        assert going["metadata"]["finalizers"] == ["foregroundDeletion"]
        await world.quiet(controller)
        assert len(await world.pending_jobs()) == 1
        await world.end_deletion("jobs", "load")
        message = await world.event("JobRecreated")
        await world.until(lambda: _none_pending(world), "nothing is pending")
        await world.quiet(controller)
    (new,) = await jobs(world)
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert new["metadata"]["annotations"] == RECREATE
    assert new["spec"]["parallelism"] == 2
    uid = "batch.kubernetes.io/controller-uid"
    assert new["spec"]["selector"]["matchLabels"] == {uid: new["metadata"]["uid"]}
    labels = new["spec"]["template"]["metadata"]["labels"]
    assert (labels["app"], labels[uid]) == ("load", new["metadata"]["uid"])
    (event,) = await world.events()
    assert event["involvedObject"]["uid"] == new["metadata"]["uid"]
    assert message.endswith(": recreating the Job")


async def test_why_a_job_was_recreated_is_kept_until_it_is_deleted(world: World) -> None:
    """The new Job has another uid, and users ask for it by name."""
    await world.config_map(LEVEL="info")
    await world.job(annotations=RECREATE)
    job = ObjectKey("Job", NAMESPACE, "load")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(lambda: find_going(world, "load"), "the Job is being deleted")
        await world.end_deletion("jobs", "load")
        await world.event("JobRecreated")
        await world.quiet(controller)
        recreated, adopted = controller.decision_log.decisions_on(job)
        await world.registry.delete("jobs", NAMESPACE, "load", propagation="Background")
        log = controller.decision_log
        await world.until(lambda: is_true(not log.decisions_on(job)), "nothing is kept")
    assert recreated.reason.endswith(": recreating the Job")
    assert adopted.reason.endswith(": now tracking")


async def test_job_survives_crash_during_recreation(world: World) -> None:
    """Its manifest is kept before it is deleted, and the next controller creates it."""
    await world.config_map(LEVEL="info")
    old = await world.job(annotations=RECREATE)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(lambda: find_going(world, "load"), "the Job is being deleted")
        await world.quiet(controller)
    await world.end_deletion("jobs", "load")
    assert await jobs(world) == []
    async with world.controller() as controller:
        await world.event("JobRecreated")
        await world.until(lambda: _none_pending(world), "nothing is pending")
        await world.quiet(controller)
    (new,) = await jobs(world)
    assert new["metadata"]["uid"] != old["metadata"]["uid"]


async def test_job_whose_deletion_was_not_confirmed_is_recreated(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second deletion would be refused, as if the Job were another one."""
    await world.config_map(LEVEL="info")
    old = await world.job(annotations=RECREATE)
    delete = world.registry.admitted.delete

    async def delete_and_fail(path: ResourcePath, options: DeleteOptions) -> Any:
        await delete(path, options)
        if path.kind.plural == "jobs":
            raise api_error(503, "the response was lost", reason="ServiceUnavailable")

    monkeypatch.setattr(world.registry.admitted, "delete", delete_and_fail)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(lambda: find_going(world, "load"), "the Job is being deleted")
        await asyncio.sleep(2)
        assert len(await world.pending_jobs()) == 1
        await world.end_deletion("jobs", "load")
        await world.event("JobRecreated")
    (new,) = await jobs(world)
    assert new["metadata"]["uid"] != old["metadata"]["uid"]


async def test_flapping_job_is_held(world: World) -> None:
    """How often it was created again is remembered for who comes under its name."""
    await world.config_map(LEVEL="info")
    await world.job(annotations=RECREATE)
    async with world.controller(flap_limit=2) as controller:
        for times in (1, 2):
            await world.quiet(controller)
            await world.edit(LEVEL=f"v{times}")
            await world.until(lambda: find_going(world, "load"), "the Job is being deleted")
            await world.end_deletion("jobs", "load")
            await world.until(partial(_is_reported, world, "JobRecreated", times), "it is back")
        before = await uid(world, "Job", "load")
        await world.quiet(controller)
        await world.edit(LEVEL="v3")
        message = await world.event("Held")
    assert "rollout suppressed since" in message
    assert "2 rollouts in 1m; last modified by kubectl; to roll out now, run" in message
    assert "'hotmap release job/load -n default'" in message
    assert await uid(world, "Job", "load") == before


async def test_manifest_is_kept_before_job_is_deleted(world: World) -> None:
    """In the other order a crash in between would lose it."""
    await world.config_map(LEVEL="info")
    await world.job(annotations=RECREATE)
    kept: list[int] = []

    async def look(plural: str, namespace: str | None, name: str, obj: object) -> None:
        kept.append(len(await world.pending_jobs()))

    world.registry.delete_guards.append(look)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(lambda: find_going(world, "load"), "the Job is being deleted")
    assert kept == [1]


async def test_job_deleted_by_a_user_stays_deleted(world: World) -> None:
    """The dry run makes nothing, and what is gone is not deleted and not created again."""
    await world.config_map(LEVEL="info")
    await world.job(annotations=RECREATE)

    async def delete_first(plural: str, namespace: str | None, name: str, obj: object) -> None:
        if plural == "jobs":
            world.registry.create_guards.clear()
            await world.registry.delete("jobs", NAMESPACE, "load", propagation="Background")

    world.registry.create_guards.append(delete_first)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(lambda: is_true(not world.registry.create_guards), "it is deleted")
        await world.quiet(controller)
        await world.until(lambda: _none_pending(world), "nothing is pending")
    assert await jobs(world) == []


async def test_job_that_was_not_deleted_is_decided_on_again(world: World) -> None:
    """After a crash before the deletion the existing Job stays, and the decision is repeated."""
    await world.config_map(LEVEL="info")
    old = await world.job(annotations=RECREATE)
    async with world.controller() as controller:
        await world.quiet(controller)
    await world.edit(LEVEL="debug")
    metadata = {"name": "load", "namespace": NAMESPACE}
    kept = {"uid": old["metadata"]["uid"], "reason": "old", "job": {"metadata": metadata}}
    await world.keep_pending(kept)
    async with world.controller() as controller:
        await world.until(lambda: find_going(world, "load"), "the Job is being deleted")
        await world.quiet(controller)
        assert len(await world.pending_jobs()) == 1
        await world.end_deletion("jobs", "load")
        message = await world.event("JobRecreated")
    assert message.endswith(": recreating the Job")
    (new,) = await jobs(world)
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert new["metadata"]["annotations"] == RECREATE


async def test_kept_manifest_of_opted_out_job_changes_nothing(world: World) -> None:
    """Nothing is changed by what was kept for a deletion that never came to be."""
    await world.config_map(LEVEL="info")
    old = await world.job()
    metadata = {"name": "load", "namespace": NAMESPACE}
    kept = {"uid": old["metadata"]["uid"], "reason": "old", "job": {"metadata": metadata}}
    await world.keep_pending(kept)
    async with world.controller() as controller:
        await world.until(lambda: _none_pending(world), "nothing is pending")
        await world.quiet(controller)
    assert await uid(world, "Job", "load") == old["metadata"]["uid"]
    assert await world.messages() == []


@pytest.mark.parametrize("is_going", [False, True])
async def test_job_created_by_another_client_first_is_kept(world: World, is_going: bool) -> None:
    """A deployment tool has put its own there: that one counts, also if it is deleted again."""
    await world.config_map(LEVEL="info")
    await world.job(annotations=RECREATE)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(lambda: find_going(world, "load"), "the Job is being deleted")
        await world.end_deletion("jobs", "load")
        theirs = await world.job(annotations=RECREATE, parallelism=7)
        if is_going:
            await world.registry.delete("jobs", NAMESPACE, "load", propagation="Foreground")
        await world.until(lambda: _none_pending(world), "nothing is pending")
        await world.quiet(controller)
    (job,) = await jobs(world)
    assert job["metadata"]["uid"] == theirs["metadata"]["uid"]


async def test_job_failing_dry_run_is_not_deleted(world: World) -> None:
    """It is created as a dry run first, while the old one is still there."""
    await world.config_map(LEVEL="info")
    old = await world.job(annotations=RECREATE)

    async def refuse(plural: str, namespace: str | None, name: str, obj: object) -> None:
        if plural == "jobs":
            raise api_error(403, "denied by policy no-jobs", reason="Forbidden")

    world.registry.create_guards.append(refuse)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        message = await world.event("Failed")
    assert "denied by policy no-jobs" in message
    assert await uid(world, "Job", "load") == old["metadata"]["uid"]
    assert await world.pending_jobs() == []


async def test_job_too_large_to_keep_is_not_deleted_and_delays_no_other(world: World) -> None:
    """All manifests that are kept share a Secret, and a finalizer may keep one there for good."""
    await world.config_map(LEVEL="info")
    spec = env("LEVEL")
    spec["containers"][0]["args"] = ["x" * 300_000]
    large = await world.job("large", spec, annotations=RECREATE)
    await world.job(annotations=RECREATE)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(lambda: find_going(world, "load"), "the Job is being deleted")
        await world.end_deletion("jobs", "load")
        await world.event("JobRecreated")
        message = await world.event("Failed")
    assert "and that of a recreated Job at most 244 KiB" in message
    assert await uid(world, "Job", "large") == large["metadata"]["uid"]


async def test_rejected_job_creation_is_retried(world: World) -> None:
    """It was accepted by the dry run and is refused now; this is reported once."""
    await world.config_map(LEVEL="info")
    await world.job(annotations=RECREATE)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(lambda: find_going(world, "load"), "the Job is being deleted")
        await world.quiet(controller)

        async def refuse(plural: str, namespace: str | None, name: str, obj: object) -> None:
            if plural == "jobs":
                raise api_error(422, "spec.template: too bad", reason="Invalid")

        world.registry.create_guards.append(refuse)
        await world.end_deletion("jobs", "load")
        message = await world.event("Failed")
        assert "is not recreated yet; retrying: spec.template: too bad" in message
        world.registry.create_guards.clear()
        await world.event("JobRecreated")
    assert len(await world.messages("Failed")) == 1


async def test_manifests_that_cannot_be_written_are_logged_once(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Someone has made the Secret immutable, for example; the Job exists again, so no hurry."""
    monkeypatch.setattr(job_recreation, "_PAUSE_LAST", 0.05)
    await world.config_map(LEVEL="info")
    await world.job(annotations=RECREATE)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(lambda: find_going(world, "load"), "the Job is being deleted")
        await world.quiet(controller)
        writes = world.plane.fail("update", "secrets", code=422, name="hotmap-pending")
        await world.end_deletion("jobs", "load")
        await world.event("JobRecreated")
        await world.until(lambda: is_true(writes.met > 5), "writes were tried again")
        assert sum("hotmap-pending: " in text for text in caplog.messages) == 1
        writes.left = 0
        await world.until(lambda: _none_pending(world), "nothing is pending")


@pytest.mark.parametrize("hanging", [1, 12])
async def test_jobs_whose_creation_is_not_answered_delay_none_of_another_namespace(
    world: World, hanging: int
) -> None:
    """An admission webhook of some namespaces hangs, for which each attempt waits."""
    slow = [f"slow-{number}" for number in range(hanging)]
    for namespace in slow:
        await world.namespace(namespace)
    answered, waiting = asyncio.Event(), []

    async def hang(plural: str, namespace: str | None, name: str, obj: object) -> None:
        if plural == "jobs" and namespace in slow:
            waiting.append((namespace, name))
            await answered.wait()

    manifest = {"spec": {"template": {"spec": {**env("LEVEL"), "restartPolicy": "Never"}}}}
    await world.keep_pending(
        *(
            {
                "uid": f"{namespace}-{name}",
                "reason": "old",
                "job": {"metadata": {"name": name, "namespace": namespace}, **manifest},
            }
            for namespace, name in (*product(slow, "ab"), (NAMESPACE, "load"))
        )
    )
    world.registry.create_guards.append(hang)
    async with world.controller() as controller:
        await world.until(lambda: uid(world, "Job", "load"), "the Job is there")
        assert waiting == [(namespace, "a") for namespace in slow]
        answered.set()
        await world.until(lambda: _none_pending(world), "nothing is pending")
        await world.quiet(controller)
    for namespace in slow:
        assert len((await world.registry.list("jobs", namespace)).items) == 2


async def test_job_changed_during_decision_is_decided_again(world: World) -> None:
    """Its deletion carries the version that was decided on."""
    await world.config_map(LEVEL="info")
    await world.job(annotations=RECREATE)
    changed = False

    async def opt_out_first(plural: str, namespace: str | None, name: str, obj: object) -> None:
        nonlocal changed
        if plural == "jobs" and not changed:
            changed = True
            await world.annotate("load", kind="Job", on_change=None)

    world.registry.delete_guards.append(opt_out_first)
    async with world.controller() as controller:
        await world.quiet(controller)
        before = await uid(world, "Job", "load")
        await world.edit(LEVEL="debug")
        await world.event("Notified")
        await world.quiet(controller)
    assert changed
    assert await uid(world, "Job", "load") == before
    assert await world.pending_jobs() == []


@pytest.mark.parametrize("ended", ["Complete", "Failed"])
async def test_finished_job_is_left_alone(world: World, ended: str) -> None:
    """It has read what it read; not even an Event is written."""
    await world.config_map(LEVEL="info")
    await world.job(ended=ended)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.quiet(controller)
    assert await world.messages() == []


async def test_finished_job_that_opted_in_is_run_again(world: World) -> None:
    """That is what loads new content into a database, say."""
    await world.config_map(LEVEL="info")
    await world.job(annotations=RECREATE, ended="Complete")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(lambda: find_going(world, "load"), "the Job is being deleted")
        await world.end_deletion("jobs", "load")
        await world.event("JobRecreated")


async def test_finished_jobs_cost_nothing(world: World) -> None:
    """Those that say nothing are not even kept, unless flags have them created again."""
    await world.config_map(LEVEL="info")
    await world.job(annotations={}, ended="Complete")
    async with world.controller(follow="auto") as controller:
        await world.quiet(controller)
        assert len(controller.index.consumers["Job"]) == 0
    defaults = Defaults(follow="auto", on_change=frozenset((OnChange.RECREATE,)))
    async with world.controller(defaults=defaults) as controller:
        await world.until(lambda: _keeps_a_job(controller), "the Job is kept")


async def _is_reported(world: World, reason: str, times: int) -> bool:
    return len(await world.events(reason)) == times


async def _none_pending(world: World) -> bool:
    return not await world.pending_jobs()


async def _keeps_a_job(controller: Any) -> bool:
    return len(controller.index.consumers["Job"]) == 1
