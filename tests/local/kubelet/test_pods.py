"""Pods as people run them: environment, arguments, volumes, and what an edit does by itself."""

from __future__ import annotations

import json
import os
import stat
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.local.kubelet.conftest import LocalNode, eventually

import hotmap


def mounted(source: dict[str, Any], path: str = "/etc/config", **mount: Any) -> dict[str, Any]:
    """The parts of a pod that mount one volume `v`."""
    return {
        "pod": {"volumes": [{"name": "v", **source}]},
        "volumeMounts": [{"name": "v", "mountPath": path, **mount}],
    }


async def test_pod_environment_has_data_keys_and_whole_config_maps(node: LocalNode) -> None:
    """Values of data keys and of whole ConfigMaps are in the environment of the command."""
    await node.config_map("special-config", {"special.how": "very", "special.type": "charm"})
    await node.config_map("env-config", {"log_level": "INFO"})
    reference = {"name": "special-config", "key": "special.how"}
    printed = await node.output(
        "w2",
        "env",
        env=[{"name": "SPECIAL_LEVEL_KEY", "valueFrom": {"configMapKeyRef": reference}}],
        envFrom=[{"configMapRef": {"name": "env-config"}}],
    )
    assert {"SPECIAL_LEVEL_KEY=very", "log_level=INFO"} <= set(printed.splitlines())


async def test_references_in_pod_arguments_are_replaced(node: LocalNode) -> None:
    """$(NAME) in the command is replaced before it starts."""
    await node.config_map("special-config", {"special.how": "very"})
    reference = {"name": "special-config", "key": "special.how"}
    printed = await node.output(
        "w3",
        "echo $(SPECIAL_LEVEL_KEY) charm",
        env=[{"name": "SPECIAL_LEVEL_KEY", "valueFrom": {"configMapKeyRef": reference}}],
    )
    assert printed == "very charm\n"


async def test_references_to_what_the_runtime_adds_stay(node: LocalNode) -> None:
    """$(HOSTNAME) and $(PATH) are known in the container only, as on a real kubelet."""
    assert await node.output("w3-own", "echo '$(HOSTNAME) $(PATH)'") == "$(HOSTNAME) $(PATH)\n"


async def test_mounted_config_map_is_files_below_the_mount_path(node: LocalNode) -> None:
    """A mounted ConfigMap is files under mountPath, by name or by the path of an item."""
    await node.config_map("special-config", {"special.how": "very"})
    whole = {"configMap": {"name": "special-config"}}
    assert await node.output("w4", "cat /etc/config/special.how", **mounted(whole)) == "very"
    items = [{"key": "special.how", "path": "path/to/special-key"}]
    chosen = {"configMap": {"name": "special-config", "items": items}}
    script = "cat /etc/config/path/to/special-key"
    assert await node.output("w4-items", script, **mounted(chosen)) == "very"


async def test_edit_updates_volume_but_not_environment(node: LocalNode) -> None:
    """The environment and a subPath keep their content; the volume has the new one at a sync."""
    await node.config_map("app", {"log_level": "INFO"})
    volume = {"name": "v", "configMap": {"name": "app"}}
    await node.run_pod(
        "w5",
        "exec sleep 600",
        pod={"volumes": [volume]},
        envFrom=[{"configMapRef": {"name": "app"}}],
        volumeMounts=[
            {"name": "v", "mountPath": "/etc/config"},
            {"name": "v", "mountPath": "/etc/one/level", "subPath": "log_level"},
        ],
    )
    await node.phase("w5", "Running")
    await node.edit("app", log_level="DEBUG")
    await node.annotate("w5", nudge="1")
    file = await node.volume("w5", "v") / "log_level"
    await eventually(lambda: file.read_text() == "DEBUG")
    script = "echo $log_level; cat /etc/config/log_level; echo; cat /etc/one/level"
    assert await node.execute("w5", script) == "INFO\nDEBUG\nINFO"


async def test_sub_path_changes_on_restart(node: LocalNode) -> None:
    """The next run of the container binds the file of the present revision."""
    await node.config_map("app", {"key": "old"})
    # The first run ends when the test says so, by a file in a volume.
    script = "cat /etc/one; until test -e /go/on; do sleep 0.01; done; rm /go/on; exit 1"
    parts = mounted({"configMap": {"name": "app"}}, "/etc/one", subPath="key")
    parts["pod"]["volumes"].append({"name": "go", "emptyDir": {}})
    parts["volumeMounts"].append({"name": "go", "mountPath": "/go"})
    await node.run_pod("pinned", script, **parts)
    await node.phase("pinned", "Running")
    await node.edit("app", key="new")
    (await node.volume("pinned", "go", "empty-dir") / "on").touch()
    await node.until("pinned", lambda pod: pod["status"]["containerStatuses"][0]["restartCount"])
    assert await node.logs("pinned", previous=True) == "old"
    assert await node.execute("pinned", "cat /etc/one") == "new"


async def test_missing_sub_path_becomes_directory(node: LocalNode) -> None:
    """A subPath that names nothing is made as a directory, as upstream."""
    parts = mounted({"emptyDir": {}}, "/data", subPath="not/there")
    assert await node.output("sub", "test -d /data && echo yes", **parts) == "yes\n"


async def test_missing_sub_path_is_as_open_as_its_volume(node: LocalNode) -> None:
    """Whatever the umask is: a container may run as any user."""
    parts = mounted({"emptyDir": {}}, "/data", subPath="not/there")
    before = os.umask(0o077)
    try:
        assert await node.output("sub", "stat -c %a /data", **parts) == "777\n"
    finally:
        os.umask(before)
    made = await node.volume("sub", "v", "empty-dir") / "not"
    assert stat.S_IMODE(made.stat().st_mode) == 0o777


async def test_sub_path_makes_nothing_outside_of_its_volume(
    node: LocalNode, tmp_path: Path
) -> None:
    """Also where a link in the volume leads there."""
    volume, outside = tmp_path / "volume", tmp_path / "outside"
    volume.mkdir()
    outside.mkdir()
    (volume / "link").symlink_to(outside)
    parts = mounted({"hostPath": {"path": str(volume)}}, "/data", subPath="link/made")
    await node.run_pod("sub", "true", **parts)
    await node.waiting("sub", "CreateContainerConfigError")
    assert list(outside.iterdir()) == []


async def test_sub_path_expression_uses_environment(node: LocalNode) -> None:
    """subPathExpr takes variables of the container."""
    await node.config_map("app", {"blue": "sea", "red": "fire"})
    parts = mounted({"configMap": {"name": "app"}}, "/etc/one", subPathExpr="$(COLOUR)")
    env = [{"name": "COLOUR", "value": "red"}]
    assert await node.output("expr", "cat /etc/one", env=env, **parts) == "fire"


async def test_projection_is_read_only(node: LocalNode) -> None:
    """A ConfigMap's volume is read-only in the container, an emptyDir can be written."""
    await node.config_map("app", {"key": "value"})
    parts = mounted({"configMap": {"name": "app"}})
    script = "echo x 2>&1 > /etc/config/key || echo refused"
    assert "refused\n" in await node.output("ro", script, **parts)
    parts = mounted({"emptyDir": {}}, "/scratch")
    assert await node.output("rw", "echo x > /scratch/a && cat /scratch/a", **parts) == "x\n"


async def test_secret_projected_and_downward_volumes(node: LocalNode) -> None:
    """The other sources become files by the same rules, later projections over earlier ones."""
    await node.config_map("app", {"both": "from the map", "own": "x"})
    secret = {"metadata": {"name": "key"}, "data": {"both": "ZnJvbSB0aGUgc2VjcmV0"}}
    await node.create("secrets", secret)
    name = {"path": "pod/name", "fieldRef": {"fieldPath": "metadata.name"}}
    sources = [
        {"configMap": {"name": "app"}},
        {"secret": {"name": "key"}},
        {"downwardAPI": {"items": [name]}},
    ]
    parts = mounted({"projected": {"sources": sources}})
    script = "cd /etc/config; cat both; echo; cat own; echo; cat pod/name"
    assert await node.output("all", script, **parts) == "from the secret\nx\nall"
    parts = mounted({"secret": {"secretName": "key", "defaultMode": 0o400}})
    script = "cat /etc/config/both; stat -L -c ' %a' /etc/config/both"
    assert await node.output("secret", script, **parts) == "from the secret 400\n"


async def test_host_path_mounts_host_directory(node: LocalNode, tmp_path: Path) -> None:
    """A hostPath volume shows the host's directory and lets the container write there."""
    (tmp_path / "in").write_text("host\n")
    parts = mounted({"hostPath": {"path": str(tmp_path)}}, "/host")
    assert await node.output("host", "cat /host/in; echo pod > /host/out", **parts) == "host\n"
    assert (tmp_path / "out").read_text() == "pod\n"


async def test_volume_may_be_mounted_inside_a_volume(node: LocalNode) -> None:
    """A mountPath may lie in another volume, although that one is read-only."""
    await node.config_map("outer", {"a": "1"})
    await node.config_map("inner", {"b": "2"})
    volumes = [{"name": n, "configMap": {"name": n}} for n in ("outer", "inner")]
    mounts = [
        {"name": "inner", "mountPath": "/etc/config/deep"},
        {"name": "outer", "mountPath": "/etc/config"},
    ]
    printed = await node.output(
        "nested",
        "cat /etc/config/a /etc/config/deep/b",
        pod={"volumes": volumes},
        volumeMounts=mounts,
    )
    assert printed == "12"


async def test_init_containers_run_first_and_share_volumes(node: LocalNode) -> None:
    """What an init container writes is there when the regular container starts."""
    mount = [{"name": "v", "mountPath": "/scratch"}]
    init = {
        "name": "i",
        "image": "shell",
        "command": ["sh", "-c", "echo ready > /scratch/f"],
        "volumeMounts": mount,
    }
    pod = {"volumes": [{"name": "v", "emptyDir": {}}], "initContainers": [init]}
    assert await node.output("init", "cat /scratch/f", pod=pod, volumeMounts=mount) == "ready\n"


async def test_sidecar_ends_with_pod(node: LocalNode) -> None:
    """A native sidecar is started first, and killed when the pod is done."""
    sidecar = {
        "name": "s",
        "image": "shell",
        "restartPolicy": "Always",
        "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.05; done"],
    }
    await node.run_pod(
        "side", "exit 0", pod={"restartPolicy": "Never", "initContainers": [sidecar]}
    )
    pod = await node.phase("side", "Succeeded")
    pod = await node.until(
        "side", lambda pod: "terminated" in pod["status"]["initContainerStatuses"][0]["state"]
    )
    assert pod["status"]["phase"] == "Succeeded"


async def test_succeeded_pod_keeps_logs(node: LocalNode) -> None:
    """The log of a finished pod stays readable until the pod is deleted."""
    await node.run_pod("done", "echo one; echo two >&2", pod={"restartPolicy": "OnFailure"})
    await node.phase("done", "Succeeded")
    assert sorted((await node.logs("done")).splitlines()) == ["one", "two"]
    await node.registry.delete("pods", "default", "done")
    await node.gone("done")


async def test_container_inherits_standard_streams_only(node: LocalNode) -> None:
    """Descriptors of the kubelet's own, such as the specification with all its values, stay out."""
    seen = await node.output("streams", "cd /proc/self/fd && echo *")
    # 3 is the shell's own, for reading the directory.
    assert seen.split() == ["0", "1", "2", "3"]


async def test_hotmap_image_runs_this_hotmap(node: LocalNode) -> None:
    """So that what `hotmap inject` writes runs as it is, whatever registry it names."""
    container = {"name": "c", "image": "registry.example:5000/team/hotmap:0.1.0"}
    for name, words in {"version": ["--version"], "agent": ["agent", "--version"]}.items():
        pod = {"restartPolicy": "Never", "containers": [{**container, "args": words}]}
        await node.run_pod(name, "", pod=pod, command=[])
        await node.phase(name, "Succeeded")
        assert hotmap.__version__ in await node.logs(name)
    await node.run_pod("other", "", image="example/nothotmap:1", command=[], args=["--version"])
    assert "has no images" in (await node.waiting("other", "ErrImageNeverPull"))["message"]


async def test_volume_does_not_hide_hotmap(node: LocalNode) -> None:
    """Wherever the interpreter and the package lie: here, below what is mounted."""
    tops = {Path("/", *Path(place).parts[1:2]) for place in (sys.prefix, hotmap.__file__)}
    await node.run_pod(
        "hidden",
        "",
        image="hotmap",
        command=["hotmap"],
        args=["--version"],
        volumeMounts=[
            {"name": f"v{number}", "mountPath": str(top)} for number, top in enumerate(tops)
        ],
        pod={
            "restartPolicy": "Never",
            "volumes": [{"name": f"v{number}", "emptyDir": {}} for number in range(len(tops))],
        },
    )
    await node.phase("hidden", "Succeeded")
    assert hotmap.__version__ in await node.logs("hidden")


@pytest.mark.parametrize(
    "program",
    [
        {"image": "hotmap", "command": [], "args": ["agent"]},
        {"command": [sys.executable, "-m", "hotmap", "agent"]},
    ],
    ids=["hotmap's image", "the application's image"],
)
async def test_agents_listen_at_pod_addresses(node: LocalNode, program: dict[str, Any]) -> None:
    """The network is the machine's; `:9533` means the pod's address, so that none is in the way."""
    answers = []
    for name in ("first", "second"):
        await node.config_map(name, {"name": name})
        volume = {"name": "v", "configMap": {"name": name}}
        await node.run_pod(
            name,
            "",
            image=program.get("image", "host"),
            command=program["command"],
            args=[*program.get("args", ()), "--dir", f"/etc/{name}", "--touch", "/tmp/touched"],
            volumeMounts=[{"name": "v", "mountPath": f"/etc/{name}"}],
            pod={"volumes": [volume]},
        )
        pod = await node.phase(name, "Running")
        address = f"http://{pod['status']['podIP']}:9533/status"
        await eventually(lambda: fetched(address))  # noqa: B023 - called before the next
        shown = json.loads(fetched(address))["directories"]
        answers += [directory["directory"] for directory in shown]
    assert answers == ["/etc/first", "/etc/second"]


def fetched(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""
