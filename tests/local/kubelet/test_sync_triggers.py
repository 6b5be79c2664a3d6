"""When files follow an edit: never by the edit itself, at once by a nudge, else by the clock."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.local.kubelet.conftest import LocalNode, eventually

from hotmap.local.kubelet.sync import SyncSettings, differs_semantically

Make = Callable[..., Any]

#: A pod whose files show which annotations the last sync saw, after its ConfigMap was written.
VOLUMES = [
    {"name": "v", "configMap": {"name": "app"}},
    {
        "name": "meta",
        "downwardAPI": {
            "items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.annotations['nudge']"}}]
        },
    },
]
MOUNTS = [
    {"name": "v", "mountPath": "/etc/config"},
    {"name": "meta", "mountPath": "/etc/meta"},
]


async def start_pod(node: LocalNode, name: str = "web") -> tuple[Path, Path]:
    """Run the pod; return the host's paths of the ConfigMap's file and of the annotation's."""
    await node.run_pod(name, "exec sleep 600", pod={"volumes": VOLUMES}, volumeMounts=MOUNTS)
    await node.phase(name, "Running")
    config = await node.volume(name, "v") / "a"
    return config, await node.volume(name, "meta", "downward-api") / "n"


async def nudge(node: LocalNode, seen: Path, value: str, name: str = "web") -> None:
    """Annotate the pod and wait until the sync that this causes has written its volumes."""
    await node.annotate(name, nudge=value)
    await eventually(lambda: seen.read_text() == value)


async def test_source_edit_causes_no_sync(node: LocalNode) -> None:
    """The node knows the new content (a new pod has it), yet the running pod keeps the old."""
    await node.config_map("app", {"a": "old"})
    config, _ = await start_pod(node)
    await node.edit("app", a="new")
    fresh, _ = await start_pod(node, "fresh")
    assert fresh.read_text() == "new"
    assert config.read_text() == "old"


async def test_pod_annotation_causes_immediate_sync(node: LocalNode) -> None:
    """W10: an annotation of the pod after the edit, and the files are there."""
    await node.config_map("app", {"a": "old"})
    config, seen = await start_pod(node)
    await node.edit("app", a="new")
    await nudge(node, seen, "1")
    assert config.read_text() == "new"


async def test_files_are_updated_after_sync_period(make_node: Make) -> None:
    """W10: with nothing but time the next periodic sync brings the files."""
    node = await make_node(SyncSettings(period=0.05))
    await node.config_map("app", {"a": "old"})
    config, _ = await start_pod(node)
    await node.edit("app", a="new")
    await eventually(lambda: config.read_text() == "new")


async def test_unchanged_links_keep_inodes(node: LocalNode) -> None:
    """Only `..data` moves: the user-visible link stays, the old revision is gone."""
    await node.config_map("app", {"a": "old"})
    config, seen = await start_pod(node)
    link, revision = os.lstat(config).st_ino, (config.parent / "..data").readlink()
    await node.edit("app", a="new")
    await nudge(node, seen, "1")
    assert os.lstat(config).st_ino == link
    assert (config.parent / "..data").readlink() != revision
    assert not (config.parent / revision).exists()


async def test_foreign_file_is_kept_and_nothing_rewritten(node: LocalNode) -> None:
    """A sync with the same payload keeps the revision; a file that another process added stays."""
    await node.config_map("app", {"a": "1"})
    config, seen = await start_pod(node)
    revision = (config.parent / "..data").readlink()
    (config.parent / "foreign").write_text("mine")
    await nudge(node, seen, "1")
    assert (config.parent / "..data").readlink() == revision
    await node.edit("app", a="2")
    await nudge(node, seen, "2")
    assert (config.parent / "foreign").read_text() == "mine"


async def test_get_strategy_reads_at_every_sync(make_node: Make) -> None:
    """W11: with the strategy Get a sync has what the API server has."""
    node = await make_node(SyncSettings(strategy="Get"))
    await node.config_map("app", {"a": "old"})
    config, seen = await start_pod(node)
    await node.edit("app", a="new")
    await nudge(node, seen, "1")
    assert config.read_text() == "new"


async def test_cache_strategy_serves_until_ttl(make_node: Make) -> None:
    """W11: with the strategy Cache a sync within the TTL writes the old content again."""
    node = await make_node(SyncSettings(strategy="Cache"))
    await node.config_map("app", {"a": "old"})
    config, seen = await start_pod(node)
    await node.edit("app", a="new")
    await nudge(node, seen, "1")
    assert config.read_text() == "old"


async def test_new_pod_gets_fresh_content(make_node: Make) -> None:
    """A pod that begins to refer to a source has it read again, and the others with it."""
    node = await make_node(SyncSettings(strategy="Cache"))
    await node.config_map("app", {"a": "old"})
    config, seen = await start_pod(node)
    await node.edit("app", a="new")
    fresh, _ = await start_pod(node, "fresh")
    assert fresh.read_text() == "new"
    await nudge(node, seen, "1")
    assert config.read_text() == "new"


async def test_node_annotation_sets_ttl(make_node: Make) -> None:
    """W11: a TTL of 0 s in the node's annotation makes Cache as fresh as Get."""
    node = await make_node(SyncSettings(strategy="Cache", ttl=0))
    registered = await node.registry.get("nodes", None, "local")
    assert registered["metadata"]["annotations"]["node.alpha.kubernetes.io/ttl"] == "0"
    await node.config_map("app", {"a": "old"})
    config, seen = await start_pod(node)
    await node.edit("app", a="new")
    await nudge(node, seen, "1")
    assert config.read_text() == "new"


async def test_immutable_source_is_cached_while_used(node: LocalNode) -> None:
    """Deleted and made again under its name, it is old for new pods, too, until all are gone."""
    await node.config_map("app", {"a": "old"}, immutable=True)
    await start_pod(node, "one")
    await node.registry.delete("configmaps", "default", "app")
    await node.config_map("app", {"a": "new"}, immutable=True)
    second, _ = await start_pod(node, "two")
    assert second.read_text() == "old"
    for name in ("one", "two"):
        await node.registry.delete("pods", "default", name, grace_period=0)
    directories = node.directory / "pods"
    await eventually(lambda: not any(directories.iterdir()))
    third, _ = await start_pod(node, "three")
    assert third.read_text() == "new"


@pytest.mark.parametrize(
    ("metadata", "spec", "status", "expected"),
    [
        ({"annotations": {"a": "1"}}, {}, {}, True),
        ({"labels": {"a": "1"}}, {}, {}, True),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, {}, {}, True),
        ({}, {"containers": []}, {}, True),
        ({"resourceVersion": "2", "managedFields": []}, {}, {}, False),
        ({"annotations": {"kubernetes.io/config.seen": "now"}}, {}, {}, False),
        ({}, {}, {"phase": "Running"}, False),
        ({}, {}, {"conditions": [{"type": "a/b", "status": "True"}]}, False),
    ],
)
def test_pod_updates_that_cause_sync(
    metadata: dict[str, Any], spec: dict[str, Any], status: dict[str, Any], expected: bool
) -> None:
    """Spec, labels, annotations and deletion do; status and bookkeeping do not."""
    new = {"metadata": metadata, "spec": spec, "status": status}
    assert differs_semantically({"metadata": {}, "spec": {}}, new) is expected


def test_condition_of_a_readiness_gate_causes_sync() -> None:
    """Whoever opens the gate does not wait for the next periodic sync."""
    old = {"metadata": {}, "spec": {"readinessGates": [{"conditionType": "a/b"}]}}
    new = {**old, "status": {"conditions": [{"type": "a/b", "status": "True"}]}}
    assert differs_semantically(old, new)


def test_sync_period_has_jitter() -> None:
    """Upstream's jitter: 60 to 90 s, never less than the period."""
    drawn = [SyncSettings().next_sync() for _ in range(1000)]
    assert min(drawn) >= 60
    assert max(drawn) <= 90
    assert max(drawn) - min(drawn) > 20
