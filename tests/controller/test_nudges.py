"""Pods whose application re-reads its files are told to sync now, before the settle time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import pytest
from tests.controller.sent_nudges import count_nudges, hurried, nudged, rereading_workload
from tests.controller.world import FOLLOW, REREADS, Object, World, both, files
from tests.support.objects import FILES, deployment, snapshot

from hotmap.controller.reconcile import nudge_round
from hotmap.controller.reconcile import nudges as nudging
from hotmap.controller.reconcile.nudges import NudgeReporter, Nudges, _SentNudges
from hotmap.controller.reconcile.payload_digests import PayloadDigests
from hotmap.controller.reconcile.restart_waves import RestartWaves
from hotmap.controller.storage.records import Records
from hotmap.controller.watch.pods import list_pods
from hotmap.core.decide.evidence import PodStart
from hotmap.core.decide.pod_starts import pod_starts
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import Pod
from hotmap.core.payload_digest import file_digest, payload_digest
from hotmap.core.target import Target
from hotmap.kube.client import Client
from hotmap.kube.loop_clock import loop_time


async def test_file_edit_nudges_pods(world: World) -> None:
    """Each pod is told at once and once more after two seconds; nothing else is written."""
    before = await rereading_workload(world, "web-1", "web-2")
    sent = count_nudges(world)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        first = await nudged(world, "web-1")
        second = await nudged(world, "web-1", after=first)
        await world.quiet(controller)
        assert [first.split("/")[0], second.split("/")[0]] == ["1", "2"]
        assert first.split("/")[1:] == second.split("/")[1:]
        assert (await world.target("web-2")) == second
    assert sent == {"web-1": 2, "web-2": 2}
    assert await world.get("Deployment", "web") == before
    assert await world.messages() == [
        "ConfigMap default/app LEVEL changed (volumes[config] at "
        "containers[main]:/etc/app): refreshing mounted files; the application re-reads them"
    ]


async def test_starts_of_pods_are_read_at_their_first_nudge_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of 10,000 pods take most of a second, in which the controller does nothing else."""
    read: list[str] = []

    def counted(consumer: Consumer, pods: Sequence[Pod]) -> tuple[PodStart, ...]:
        read.extend(pod.metadata.name for pod in pods)
        return pod_starts(consumer, pods)

    monkeypatch.setattr(nudge_round, "pod_starts", counted)
    await world.config_map("other", LEVEL="info")
    spec = files("other")
    spec["containers"][0]["envFrom"] = [{"configMapRef": {"name": "app"}}]
    await world.workload(spec=spec, annotations=REREADS)
    await world.pod("web-1", spec=spec)
    await world.config_map(LEVEL="info", MODE="a")
    await world.edit(MODE=None)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit("other", LEVEL="debug")
        first = await nudged(world, "web-1")
        await nudged(world, "web-1", after=first)
        await world.quiet(controller)
    assert read == ["web-1"]


async def test_nudges_for_returned_content_are_not_taken_for_those_of_another_hotmap(
    world: World,
) -> None:
    """The pods have just been told of the same content, by this one."""
    await rereading_workload(world, "web-1")
    sent = count_nudges(world)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await nudged(world, "web-1")
        world.plane.fail("patch", "pods", code=503, times=4)
        await asyncio.sleep(2.2)  # the second nudge has failed
        await world.edit(LEVEL="trace")
        await world.edit(LEVEL="debug")
        await world.quiet(controller)
        await asyncio.sleep(10)
        await world.quiet(controller)
    assert sent["web-1"] >= 3, "the second one, and one since their files may be others"
    assert await world.events("OtherController") == []


@hurried
async def test_two_hotmaps_do_not_nudge_without_end(world: World) -> None:
    """Each has a fingerprint key of its own, and takes the other's nudge for one of old content."""
    await rereading_workload(world, "web-1")
    sent = count_nudges(world)
    async with world.controller() as ours, world.controller(namespace="another") as other:
        for _ in range(3):
            await world.quiet(ours)
            await world.quiet(other)
            sent.clear()
            await world.edit(LEVEL=f"{time.time()}")
            await asyncio.sleep(60)
            # Six, or more on a busy machine; without an end it would be 120.
            assert 2 <= sent["web-1"] <= 30
        message = await world.event("OtherController")
    assert "another hotmap also nudges its pods, such as web-1" in message


async def test_nudge_ignores_settle_time(world: World) -> None:
    """A nudge disrupts no pods, so it takes place."""
    await rereading_workload(world, "web-1", annotations={"hotmap.dev/settle": "30s"})
    async with world.controller() as controller:
        await world.until(_recorded(controller), "the consumer is adopted")
        await world.edit(LEVEL="debug")
        await nudged(world, "web-1")
        assert await world.messages() == []


def _recorded(controller: Any) -> Any:
    async def recorded() -> int:
        return len(controller.records)

    return recorded


async def test_revert_within_settle_time_is_nudged(world: World) -> None:
    """The pods were told, so they are told back, under a higher number.

    By two, since none of the edits is recorded yet, and the record is what edits are counted from.
    """
    await rereading_workload(world, "web-1")
    async with world.controller(settle=0.5) as controller:
        await world.until(_recorded(controller), "the consumer is adopted")
        await world.edit(LEVEL="debug")
        first = await nudged(world, "web-1")
        await world.edit(LEVEL="info")
        second = await nudged(world, "web-1", after=first)
        await world.edit(LEVEL="debug")
        third = await nudged(world, "web-1", after=second)
    assert [text.split("/")[0] for text in (first, second, third)] == ["1", "3", "5"]
    assert first.split("/")[1:] == third.split("/")[1:]
    assert first.split("/")[1] != second.split("/")[1]


@hurried
async def test_settle_time_zero_nudges_no_pod_more_than_twice(world: World) -> None:
    """Both ways to a decision run at once then, and still no pod is told more than twice."""
    await rereading_workload(world, "web-1", annotations={"hotmap.dev/settle": "0"})
    sent = count_nudges(world)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        first = await nudged(world, "web-1")
        await nudged(world, "web-1", after=first)
        await world.quiet(controller)
    assert sent == {"web-1": 2}


async def test_pods_that_are_not_running_are_not_nudged(world: World) -> None:
    """Pending, finished, terminating and mirror pods are left alone."""
    await rereading_workload(world, "running")
    await world.pod("pending", phase="Pending")
    await world.pod("done", phase="Succeeded")
    await world.pod("mirror", annotations={"kubernetes.io/config.mirror": "x"})
    await world.pod("going")
    await world.pod("other", of="api")
    await world.registry.delete("pods", "default", "going", grace_period=30)
    sent = count_nudges(world)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await nudged(world, "running")
    assert set(sent) == {"running"}


def count_pod_lists(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the lists for nudges from now on, by consumer."""
    lists: Counter[str] = Counter()

    async def count(client: Any, consumer: Any, **options: Any) -> Any:
        lists[consumer.key.name] += 1
        return await list_pods(client, consumer, **options)

    monkeypatch.setattr(nudge_round, "list_pods", count)
    return lists


async def test_pods_are_listed_once_for_a_nudge(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decision that records the change lists them no more."""
    monkeypatch.setattr(nudging, "SECOND_NUDGE", 60.0)
    await rereading_workload(world, "web-1")
    async with world.controller(settle=0.1) as controller:
        await world.until(_recorded(controller), "the consumer is adopted")
        (before,) = controller.records.values()
        lists = count_pod_lists(monkeypatch)
        await world.edit(LEVEL="debug")

        async def is_recorded() -> bool:
            return [record.sources for record in controller.records.values()] != [before.sources]

        await world.until(is_recorded, "the change is recorded")
    assert lists == {"web": 1}


async def test_pod_that_was_starting_is_nudged_by_the_next_decision(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have mounted the content before, so pods are listed again after the settle time."""
    monkeypatch.setattr(nudging, "SECOND_NUDGE", 60.0)
    await world.config_map(LEVEL="info")
    await world.workload(spec=files(), annotations=REREADS, replicas=2)
    await world.pod("running")
    await world.pod("starting", phase="Pending")
    async with world.controller(settle=1.0) as controller:
        await world.until(_recorded(controller), "the consumer is adopted")
        await world.edit(LEVEL="debug")
        await nudged(world, "running")
        await world.starts("starting")
        await nudged(world, "starting")


async def test_deletion_of_optional_source_is_nudged(world: World) -> None:
    """Its files go away, which those who re-read them learn at once."""
    await world.config_map(LEVEL="info")
    await world.workload(spec=files(optional=True), annotations=REREADS)
    await world.pod("web-1")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.delete("ConfigMap", "app")
        first = await nudged(world, "web-1")
        message = await world.event("Refreshed")
        await world.config_map(LEVEL="info")
        second = await nudged(world, "web-1", after=first)
    assert "ConfigMap default/app was deleted" in message
    assert first.split("/")[1] != second.split("/")[1]
    assert await world.revision() == ""


@hurried
async def test_file_and_env_edit_rolls_without_nudge(world: World) -> None:
    """New pods have both, so there is a rollout and no nudge."""
    await world.config_map(LEVEL="info", MODE="fast")
    await world.workload(spec=both("LEVEL"), annotations=REREADS)
    await world.pod("web-1")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug", MODE="slow")
        await world.rollout()
        await world.quiet(controller)
        assert await world.target("web-1") == ""


async def test_file_edit_beside_env_only_nudges(world: World) -> None:
    """What containers read at their start did not change, so a nudge is enough."""
    await world.config_map(LEVEL="info", MODE="fast")
    await world.workload(spec=both("LEVEL"), annotations=REREADS)
    await world.pod("web-1")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(MODE="slow")
        await nudged(world, "web-1")
        await world.event("Refreshed")
    assert await world.revision() == ""


@hurried
async def test_strategy_nudge_refreshes_files_only(world: World) -> None:
    """Files are refreshed twice as ever, and the Event says what is left for the next restart."""
    await world.config_map(LEVEL="info")
    said = {**FOLLOW, "hotmap.dev/strategy": "nudge"}
    await world.workload(spec=both("LEVEL"), annotations=said)
    await world.pod("web-1")
    sent = count_nudges(world)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        first = await nudged(world, "web-1")
        await nudged(world, "web-1", after=first)
        await world.quiet(controller)
        message = await world.event("Notified")
    assert message.endswith("the rest takes effect at the next restart (strategy nudge)")
    assert await world.revision() == ""
    assert sent == {"web-1": 2}


@hurried
@pytest.mark.parametrize("said", [{"follow": "off"}, {"strategy": "notify"}])
async def test_opt_out_stops_the_second_nudge(world: World, said: dict[str, str]) -> None:
    """Not even the second nudge is sent any more."""
    await rereading_workload(world, "web-1")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        first = await nudged(world, "web-1")
        await world.annotate("web", **said)
        await world.quiet(controller)
        assert await world.target("web-1") == first


async def test_many_pods_are_nudged_concurrently(world: World) -> None:
    """Forty pods of one consumer, each told once now."""
    pods = [f"web-{number}" for number in range(40)]
    await rereading_workload(world, *pods)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        targets = await asyncio.gather(*(nudged(world, name) for name in pods))
    assert len(set(targets)) == 1


async def test_workloads_of_one_source_do_not_wait_for_each_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each list takes a round trip, and a source may have hundreds of workloads."""
    names = [f"web-{number}" for number in range(8)]
    await world.config_map(LEVEL="info")
    for name in names:
        await world.workload(name, spec=files(), annotations=REREADS)
        await world.pod(f"{name}-pod", of=name)
    listing, together = set[str](), asyncio.Event()

    async def list_together(client: Any, consumer: Any, **options: Any) -> Any:
        listing.add(consumer.key.name)
        if len(listing) == len(names):
            together.set()
        await together.wait()
        return await list_pods(client, consumer, **options)

    async with world.controller() as controller:
        await world.quiet(controller)
        monkeypatch.setattr(nudge_round, "list_pods", list_together)
        await world.edit(LEVEL="debug")
        await asyncio.gather(*(nudged(world, f"{name}-pod") for name in names))


def a_pod_with_an_agent() -> Object:
    """A pod spec with volumes of ConfigMaps alone, and with others that hold more."""
    spec = files()
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("picked", "joined", "mixed")]
    spec["containers"][0]["volumeMounts"] += mounts
    picked = [{"key": "LEVEL", "path": "conf.d/level"}]
    more = {"configMap": {"name": "more"}}
    spec["volumes"] += [
        {"name": "picked", "configMap": {"name": "app", "items": picked}},
        {"name": "joined", "projected": {"sources": [{"configMap": {"name": "app"}}, more]}},
        {"name": "mixed", "projected": {"sources": [more, {"secret": {"name": "keys"}}]}},
        {"name": "absent", "configMap": {"name": "nowhere"}},
        {"name": "perhaps", "configMap": {"name": "nowhere", "optional": True}},
    ]
    return spec


@hurried
async def test_agent_gets_payload_digests(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a digest of each volume of ConfigMaps alone; each version is read for it once."""
    reads: Counter[str] = Counter()
    list_page = world.client.list_page

    async def counting(*args: Any, field_selector: str = "", **kwargs: Any) -> Any:
        reads.update([field_selector] if field_selector else [])
        return await list_page(*args, field_selector=field_selector, **kwargs)

    monkeypatch.setattr(world.client, "list_page", counting)
    await world.config_map(LEVEL="info", name_only="1")
    await world.config_map("more", LEVEL="other", motd="hello")
    await world.secret("keys", token="t")
    agent = {"hotmap.dev/agent": "port=9533;restart=none"}
    for name in ("web", "db"):
        await world.workload(name, a_pod_with_an_agent(), template_annotations=agent)
        await world.pod(f"{name}-1", of=name)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        first = await nudged(world, "web-1")
        again = await nudged(world, "web-1", after=first)
        await world.quiet(controller)
        assert (await world.target("db-1")).split("/")[3] == first.split("/")[3]
    level = {"LEVEL": b"debug", "name_only": b"1"}
    expected = [
        level,
        {"conf.d/level": b"debug"},
        {**level, "LEVEL": b"other", "motd": b"hello"},
        {},
    ]
    digests = [payload_digest({p: file_digest(d) for p, d in item.items()}) for item in expected]
    assert first.split("/")[3].split(".") == digests
    assert again.split("/")[1:] == first.split("/")[1:]
    assert reads == {"metadata.name=app": 1, "metadata.name=more": 1}


async def test_each_nudge_of_an_agent_names_what_its_pod_started_with(world: World) -> None:
    """The first one that an agent reads may be a later one: it was away, or they came together."""
    await world.config_map(LEVEL="info")
    agent = {"hotmap.dev/agent": "port=9533;restart=none"}
    await world.workload(spec=files(), template_annotations=agent)
    await world.pod("web-1")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        first = await nudged(world, "web-1")
        await world.quiet(controller)
        before = await world.target("web-1")
        await world.edit(LEVEL="warn")
        later = await nudged(world, "web-1", after=before)
        await world.quiet(controller)
    assert first.split("/")[1] != later.split("/")[1]
    assert first.split("/")[4:] == later.split("/")[4:] != []


async def test_pod_without_agent_gets_no_digests(world: World) -> None:
    """No process would read them."""
    await rereading_workload(world, "web-1")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        assert (await nudged(world, "web-1")).count("/") == 2


def unconnected_nudges() -> Nudges:
    """Those of a term that sends none."""
    return Nudges(
        cast(Client, None),
        cast(PayloadDigests, None),
        Records(),
        check_leading=lambda: None,
        reporter=cast(NudgeReporter, None),
        waves=RestartWaves(clock=loop_time, report_stop=lambda consumer, why: None),
    )


async def test_second_nudge_that_a_new_leader_needs_is_of_the_target_that_it_decides_on() -> None:
    """A pod check names the payload digests too; a decision on another target drops the request."""
    who, nudges = deployment(FILES), unconnected_nudges()
    target = Target(0, "live", "-")
    assert nudges.request(who.key, target._replace(payloads=("digest",)), ["uid-1"])
    sent = nudges.sent(who.key)
    assert sent is not None
    assert (sent.target, sent.due) == (target, True)


async def test_pod_due_during_a_decision_is_still_nudged() -> None:
    """Only what was due in the snapshot is done with once its decision was carried out."""
    who, nudges = deployment(FILES), unconnected_nudges()
    nudges._sent[who.key] = sent = _SentNudges(Target(0, "live", "-"))
    early = snapshot(who)._replace(sent=nudges.sent(who.key))
    assert early.sent is not None
    sent.second["uid-1"] = early.sent.as_of + 0.001
    await asyncio.sleep(0.02)
    assert nudges.second_in(early)
    late = snapshot(who)._replace(sent=nudges.sent(who.key))
    assert late.sent is not None
    assert late.sent.due
    assert nudges.second_in(late) is None
