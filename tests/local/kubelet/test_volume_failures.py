"""Sources that are missing, appear, vanish: what the files do, and what people are told."""

from __future__ import annotations

from tests.local.kubelet.conftest import LocalNode, eventually
from tests.local.kubelet.test_pods import mounted


async def test_missing_source_blocks_container(node: LocalNode) -> None:
    """Without the ConfigMap no container is created, an Event says why, and it heals."""
    await node.run_pod("web", "exec sleep 600", **mounted({"configMap": {"name": "late"}}))
    await node.waiting("web", "ContainerCreating")
    await node.event(
        "FailedMount", 'MountVolume.SetUp failed for volume "v" : configmap "late" not found'
    )
    assert not await has_sandbox(node)
    await node.config_map("late", {"a": "1"})
    await node.phase("web", "Running")
    assert await node.execute("web", "cat /etc/config/a") == "1"
    assert await has_sandbox(node)


async def has_sandbox(node: LocalNode) -> bool:
    pod = await node.registry.get("pods", "default", "web")
    conditions = {each["type"]: each["status"] for each in pod["status"]["conditions"]}
    return bool(conditions["PodReadyToStartContainers"] == "True")


async def test_missing_data_key_is_named(node: LocalNode) -> None:
    """An item whose data key is not there fails the volume with upstream's text."""
    await node.config_map("app", {"a": "1"})
    source = {"configMap": {"name": "app", "items": [{"key": "zz", "path": "zz"}]}}
    await node.run_pod("web", "exec sleep 600", **mounted(source))
    await node.event(
        "FailedMount",
        'MountVolume.SetUp failed for volume "v" : '
        "configmap references non-existent config key: zz",
    )


async def test_deleted_source_keeps_files(node: LocalNode) -> None:
    """A source that is not optional can be deleted; running pods keep the files."""
    await node.config_map("app", {"a": "1"})
    await node.run_pod("web", "exec sleep 600", **mounted({"configMap": {"name": "app"}}))
    await node.phase("web", "Running")
    await node.registry.delete("configmaps", "default", "app")
    await node.annotate("web", nudge="1")
    await node.event(
        "FailedMount", 'MountVolume.SetUp failed for volume "v" : configmap "app" not found'
    )
    assert await node.execute("web", "cat /etc/config/a") == "1"


async def test_deleted_optional_source_empties_volume(node: LocalNode) -> None:
    """An optional source comes and goes: at the next sync its files do, too."""
    source = {"configMap": {"name": "app", "optional": True}}
    await node.run_pod("web", "exec sleep 600", **mounted(source))
    await node.phase("web", "Running")
    volume = await node.volume("web", "v")
    await node.config_map("app", {"a": "1"})
    await node.annotate("web", nudge="1")
    await eventually((volume / "a").is_file)
    await node.registry.delete("configmaps", "default", "app")
    await node.annotate("web", nudge="2")
    await eventually(lambda: not (volume / "a").is_symlink())
    assert (volume / "..data").is_symlink()
    assert await node.execute("web", "ls /etc/config") == ""


async def test_projection_reports_all_failures(node: LocalNode) -> None:
    """A projected volume is all or nothing, and names every source that is missing."""
    sources = [{"configMap": {"name": "one"}}, {"secret": {"name": "two"}}]
    await node.run_pod("web", "exec sleep 600", **mounted({"projected": {"sources": sources}}))
    await node.event(
        "FailedMount",
        'MountVolume.SetUp failed for volume "v" : '
        '[configmap "one" not found, secret "two" not found]',
    )


async def test_error_of_the_system_is_shown_without_its_number(node: LocalNode) -> None:
    """What happened, and to which file."""
    source = {"hostPath": {"path": "/proc/none", "type": "DirectoryOrCreate"}}
    await node.run_pod("web", "exec sleep 600", **mounted(source))
    await node.event(
        "FailedMount",
        'MountVolume.SetUp failed for volume "v" : No such file or directory: /proc/none',
    )


async def test_unsupported_volume_is_named(node: LocalNode) -> None:
    """A volume that this node cannot provide says so instead of starting without it."""
    source = {"nfs": {"server": "files", "path": "/"}}
    await node.run_pod("web", "exec sleep 600", **mounted(source))
    await node.event(
        "FailedMount",
        'MountVolume.SetUp failed for volume "v" : '
        "volumes of type nfs are not supported by this node",
    )


async def test_claim_without_volume_is_named(node: LocalNode) -> None:
    """A pod that names the node by itself waits there for its claim."""
    source = {"persistentVolumeClaim": {"claimName": "data"}}
    await node.run_pod("web", "exec sleep 600", **mounted(source))
    await node.event(
        "FailedMount",
        'MountVolume.SetUp failed for volume "v" : error processing PVC default/data: failed to '
        'fetch PVC from API server: persistentvolumeclaims "data" not found',
    )


async def test_unmounted_volume_is_not_required(node: LocalNode) -> None:
    """A missing source of an unmounted volume holds nothing back."""
    pod = {"volumes": [{"name": "v", "configMap": {"name": "nope"}}]}
    assert await node.output("web", "echo up", pod=pod) == "up\n"


async def test_missing_env_source_is_config_error(node: LocalNode) -> None:
    """The container waits with the kubelet's sentence, and starts when the source is there."""
    await node.run_pod("web", "exec sleep 600", envFrom=[{"configMapRef": {"name": "late"}}])
    waiting = await node.waiting("web", "CreateContainerConfigError")
    assert waiting["message"] == 'configmap "late" not found'
    await node.event("Failed", 'Error: configmap "late" not found')
    await node.config_map("late", {"a": "1"})
    await node.annotate("web", look="again")
    await node.phase("web", "Running")
