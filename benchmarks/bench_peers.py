"""The scenarios in which other controllers were measured, for hotmap, in the same rows.

The others' figures are of the same kind of machine: 2 shared cores, a real API server 1.36.
Absolute times compare within one run alone; what is lost or rolled for nothing compares always.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from tests.support.fleet import Sizes
from tests.support.watch_server import watch_server

from benchmarks.bench_fan_out import BURST_EDITS, BURST_SECONDS, burst, fan_out
from benchmarks.bench_fan_out import create as create_fan
from benchmarks.bench_rollout_delay import create, edit_in_turn
from benchmarks.clusters import Cluster, ClusterUser, TemplateWatch, cluster_user, watch_templates
from benchmarks.figures import Comparison, quantile
from benchmarks.gate import gate
from benchmarks.generate import config_map, secret
from benchmarks.machine import cpu_seconds, peak_mb, resident_mb
from benchmarks.processes import Controller, controller, local_plane
from benchmarks.scope import Scope, measured
from hotmap.core.errors import HotmapError
from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_kubeconfig
from hotmap.kube.resources import CONFIGMAPS

__all__ = ["run"]

_COLUMNS = ("scenario", "Reloader 1.4.21", "Wave 0.11", "asyncio prototype", "hotmap")

#: Seconds after which an unwanted rollout would have been seen.
_AFTERMATH = 3.0

#: Seconds that the API server is away, in the middle of a fan-out.
_AWAY = 7.0

_PATIENCE = 120.0

Row = tuple[str, str, str, str, str]


async def run(scope: Scope) -> AsyncIterator[Comparison]:
    """Go through the rows, each with a controller of its own, on the local plane."""
    with measured("Beside other controllers, local plane") as result:
        rows = [
            *await _timed(scope),
            *await _counted(scope),
            *await _interrupted(scope),
            await _rejected(),
            *await _sized(scope),
        ]
        result.notes = [
            "Reloader: env-vars strategy / annotations. Wave: without its default throttle.",
            "The others on a real API server, Deployments without pods; hotmap on the local plane,"
            " DaemonSets without nodes. Single edits with settle time 0, the rest with 0.5 s.",
            "Away: every connection is cut and refused for 7 s, the server keeps what it knew."
            " Rejected: by a synthetic server's policy.",
        ]
    yield result.comparison(_COLUMNS, rows)


# -- how long ----------------------------------------------------------------------------------


async def _timed(scope: Scope) -> list[Row]:
    few, many, edits = scope.count(100), scope.count(1000, quick=4), scope.count(100)
    rows: list[Row] = []
    async with local_plane() as plane, cluster_user(plane.cluster()) as user:
        cluster = plane.cluster()
        await create(user, 0, few)
        delays, requests = await _edits(cluster, user, few, edits)
        name = f"single edits, {few} consumers: p50 / p99"
        rows.append((name, "5.9–6.7 / 10–12 ms", "3.9 / 6.8 ms", "3.8 / 6.2 ms", delays))
        await create(user, few, many)
        await user.create(secret(f"secret-{number}", LEVEL="0") for number in range(many))
        delays, _ = await _edits(cluster, user, many, edits)
        name = f"beside {many:,} consumers, ConfigMaps, Secrets"
        rows.append((name, "7.7–9.3 / 12–18 ms", "5.3 / 9.7 ms", "4.0 / 7.5 ms", delays))
        others = ("700 (500 LISTs, 100 PATCH, 100 Events)", "200 (100 UPDATE, 100 Events)", "100")
        rows.append((f"requests for {edits} edits", *others, requests))
    return rows


async def _edits(
    cluster: Cluster, user: ClusterUser, consumers: int, edits: int
) -> tuple[str, str]:
    """Edit one after the other; returns the delays and the requests in words."""
    async with controller(cluster, "--settle", "0s") as running, watch_templates(cluster) as watch:
        before = await running.requests()
        delays = await edit_in_turn(user, watch, consumers, edits, value=f"of {consumers}")
        await running.quiet()
        requests = _difference(await running.requests(), before)
    return f"{quantile(delays, 0.5):.1f} / {quantile(delays, 0.99):.1f} ms", _in_words(requests)


def _difference(after: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {method: count - before.get(method, 0) for method, count in after.items()}


def _in_words(requests: dict[str, int]) -> str:
    words = {"GET": "reads", "PATCH": "PATCH", "POST": "Events", "PUT": "records"}
    parts = [f"{requests[name]} {word}" for name, word in words.items() if requests.get(name)]
    return f"{sum(requests.values())} ({', '.join(parts)})"


# -- how often ---------------------------------------------------------------------------------


async def _counted(scope: Scope) -> list[Row]:
    sizes = (2, 3, 4) if scope.quick else (50, 200, 1000)
    ten = scope.count(10)
    others = (
        ("8.2 s", "0.56 s", "0.11 s"),
        ("38.2 s", "2.1 s", "0.37 s"),
        ("198 s", "10.0 s (2,000 requests)", "1.8 s"),
    )
    rows: list[Row] = []
    async with local_plane() as plane, cluster_user(plane.cluster()) as user:
        cluster = plane.cluster()
        for size in sizes:
            await create_fan(user, f"fan-{size}", size)
        await create_fan(user, "burst", ten)
        async with controller(cluster) as running, watch_templates(cluster) as watch:
            for size, other in zip(sizes, others, strict=True):
                found = await fan_out(user, running, watch, size)
                ours = f"{found.seconds:.2f} s {_in_words(found.requests)}"
                rows.append((f"1 source → {size:,} consumers: the last one", *other, ours))
            bursts = await burst(user, running, watch, ten)
            name = f"{BURST_EDITS} edits in {BURST_SECONDS:g} s × {ten} consumers"
            ours = f"{bursts.rollouts} rollouts, the last {bursts.seconds:.1f} s after"
            other = ("1,000 rollouts, the last 58 s after", "160 rollouts", "795")
            rows.append((name, *other, ours))
            for number in range(scope.count(20)):
                note = {"example.com/note": str(number)}
                await user.mark("ConfigMap", "burst", note)
            surplus = await _surplus(watch)
            rows.append(("metadata-only edits", "0", "0", "0", str(surplus)))
            rows.append(await _with_bad_regex(user, running, watch, sizes[0]))
    rows.append(await _first_start(scope.count(1000)))
    return rows


async def _surplus(watch: TemplateWatch) -> int:
    """Count the unwanted rollouts, from now on."""
    before = len(watch.seen)
    await asyncio.sleep(_AFTERMATH)
    return len(watch.seen) - before


async def _with_bad_regex(
    user: ClusterUser, running: Controller, watch: TemplateWatch, consumers: int
) -> Row:
    """Write an invalid expression; is the next edit of another source followed?"""
    bad = {"configmap.reloader.stakater.com/reload": "[("}
    await user.mark("DaemonSet", "burst-0", bad)
    before = len(watch.seen)
    await user.edit(f"fan-{consumers}", {"LEVEL": "after the bad expression"})
    served = await _found(watch, consumers, before) == "found" and running.is_running
    ours = "others are served" if served else "**others wait**"
    return ("an invalid regex in one annotation", "the process dies", "–", "–", ours)


async def _first_start(consumers: int) -> Row:
    async with local_plane() as plane, cluster_user(plane.cluster()) as user:
        await create(user, 0, consumers)
        async with watch_templates(plane.cluster()) as watch, controller(plane.cluster()):
            surplus = await _surplus(watch)
    name = f"first start beside {consumers:,} untouched consumers: rollouts"
    return (name, "0", "1,000", "0", str(surplus))


# -- whatever happens --------------------------------------------------------------------------


async def _interrupted(scope: Scope) -> list[Row]:
    many = scope.count(200, quick=5)
    rows: list[Row] = []
    async with local_plane() as plane, cluster_user(plane.cluster()) as user:
        cluster = plane.cluster()
        await create_fan(user, "down", 1)
        await create_fan(user, "again", 1)
        await create_fan(user, "away", many)
        async with controller(cluster):
            pass
        async with watch_templates(cluster) as watch:
            await user.edit("down", {"LEVEL": "1"})
            async with controller(cluster):
                found = await _found(watch, 1)
            rows.append(("edited while the controller is down", "**lost**", "found", "–", found))
            async with controller(cluster):
                found = await _recreated(user, watch)
            name = "source deleted, recreated with other content"
            rows.append((name, "**lost**", "found", "–", found))
            rows.append(await _server_away(cluster, user, watch, many))
    return rows


async def _found(watch: TemplateWatch, rollouts: int, since: int = 0) -> str:
    try:
        await watch.until(since + rollouts)
    except HotmapError:
        return "**lost**"
    return "found"


async def _recreated(user: ClusterUser, watch: TemplateWatch) -> str:
    before = len(watch.seen)
    await user.delete(CONFIGMAPS, "again")
    await asyncio.sleep(1)
    await user.create([config_map("again", LEVEL="1")])
    return await _found(watch, 1, before)


async def _server_away(
    cluster: Cluster, user: ClusterUser, watch: TemplateWatch, consumers: int
) -> Row:
    """Cut the controller off in the middle of a fan-out; how many are rolled in the end?"""
    with tempfile.TemporaryDirectory(prefix="hotmap-bench-") as directory:
        async with gate(cluster, Path(directory)) as (way, behind), controller(behind):
            before = len(watch.seen)
            await user.edit("away", {"LEVEL": "1"})
            await watch.until(before + max(1, consumers // 10))
            await way.shut()
            done = len(watch.seen) - before
            await asyncio.sleep(_AWAY)
            back = time.perf_counter()
            await way.open()
            await _found(watch, consumers, before)
    seen = watch.seen[before:]
    twice = len(seen) - len({item.consumer for item in seen})
    ours = (
        f"{len(seen) - twice} of {consumers} ({done} before), {twice} twice,"
        f" the last {max(0.0, seen[-1].at - back):.1f} s after return"
    )
    name = f"API server away for {_AWAY:g} s in a fan-out of {consumers}"
    return (name, "10 of 200, 190 **lost**", "200 of 200, 5 s after return", "–", ours)


async def _rejected() -> Row:
    """Let a policy refuse one consumer of ten; are the others served, and does it heal?"""
    sizes = Sizes(
        config_maps=4, secrets=2, deployments=30, stateful_sets=0, daemon_sets=0, namespaces=1
    )
    flags = [f"--{name.replace('_', '-')}={count}" for name, count in sizes._asdict().items()]
    with tempfile.TemporaryDirectory(prefix="hotmap-bench-") as directory:
        async with watch_server(Path(directory), *flags) as server:
            cluster = Cluster("watch server", server.kubeconfig, kubelet=None, image="")
            config = load_kubeconfig(str(server.kubeconfig))
            async with controller(cluster) as running, Client(config) as client:
                path = "/apis/apps/v1/namespaces/team-000/deployments/deployment-3"
                await client.request("POST", "/reject", params={"path": path}, body=b"{}")
                edit = {"path": CONFIGMAPS.path(None), "number": str(sizes.shared + 1)}
                await client.request("POST", "/edit", params=edit, body=b"{}")
                others = await _patched(running, 9)
                refused = await running.answers("PATCH", 422)
                await client.request("POST", "/accept", body=b"{}")
                healed = await _patched(running, 10)
    ours = f"9 of 9 after {others:.1f} s; {refused} refusals; heals after {healed:.1f} s"
    return (
        "one consumer's patch always rejected",
        "4 of 9 others; never heals",
        "9 of 9; heals after 21 s",
        "–",
        ours,
    )


async def _patched(running: Controller, consumers: int) -> float:
    """Wait until so many patches were accepted; returns the seconds that it took."""
    began = time.perf_counter()
    async with asyncio.timeout(_PATIENCE):
        while await running.answers("PATCH", 200) < consumers:  # noqa: ASYNC110  it has no event
            await asyncio.sleep(0.05)
    return time.perf_counter() - began


# -- how big -----------------------------------------------------------------------------------


async def _sized(scope: Scope) -> list[Row]:
    third, idle = scope.count(1000), scope.count(60)
    async with local_plane() as plane, cluster_user(plane.cluster()) as user:
        cluster = plane.cluster()
        await _objects(user, 0, max(1, third // 30))
        small, _ = await _resident(cluster)
        await _objects(user, max(1, third // 30), third)
        middle, _ = await _resident(cluster)
        used, requests = await _idle(cluster, idle)
        big = (
            secret(f"release-{number}", release=chr(97 + number % 26) * 500_000)
            for number in range(50)
        )
        await user.create(big)
        large, peak = await _resident(cluster)
    name = f"resident: {3 * max(1, third // 30)} / {3 * third:,} objects / and 50 Secrets of 500 KB"
    ours = f"{small:.0f} / {middle:.0f} / {large:.0f} MB (peak {peak:.0f})"
    others = ("42 / 48 / 87 MB", "46 / 72 / 122 MB (peak 168)", "37 / 56 / – MB")
    none = ("0, 0", "0, 0", "0, 0")
    return [
        (name, *others, ours),
        (f"idle for {idle} s: of one core, requests", *none, f"{used}, {requests}"),
    ]


async def _objects(user: ClusterUser, first: int, end: int) -> None:
    numbers = range(first, end)
    await create(user, first, end)
    await user.create(secret(f"secret-{number}", LEVEL="0") for number in numbers)


async def _resident(cluster: Cluster) -> tuple[float, float]:
    """Start beside what there is; returns the MB that stay, and the most there ever were."""
    async with controller(cluster) as running:
        await asyncio.sleep(2)
        return resident_mb(running.pid), peak_mb(running.pid)


async def _idle(cluster: Cluster, seconds: int) -> tuple[str, int]:
    async with controller(cluster) as running:
        await asyncio.sleep(2)
        before, used = await running.requests(), cpu_seconds(running.pid)
        await asyncio.sleep(seconds)
        share = (cpu_seconds(running.pid) - used) / seconds * 100
        return f"{share:.2f} %", sum(_difference(await running.requests(), before).values())
