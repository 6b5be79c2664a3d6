"""Volumes set up without any container: owners, modes, tokens, host paths."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.support.requires import requires

from hotmap.core.errors import NotFound
from hotmap.local.kubelet.environment import ConfigError, SourceName
from hotmap.local.kubelet.mounts import PodVolumes


class Known:
    """Sources that never change, as a strategy would give them."""

    def __init__(self, **maps: dict[str, str]) -> None:
        self._maps = maps

    def register(self, pod: str, namespace: str, sources: Iterable[SourceName]) -> None: ...

    def unregister(self, pod: str) -> None: ...

    async def get(self, namespace: str, source: SourceName) -> dict[str, Any]:
        if source.name not in self._maps:
            raise NotFound(f'configmap "{source.name}" not found')
        return {"data": self._maps[source.name]}


def pod(volume: dict[str, Any], *, path: str = "/v", **spec: Any) -> dict[str, Any]:
    mounts = [{"name": "v", "mountPath": path}]
    return {
        "metadata": {"name": "web", "namespace": "default", "uid": "u"},
        "spec": {
            "volumes": [{"name": "v", **volume}],
            "containers": [{"name": "c", "volumeMounts": mounts}],
            **spec,
        },
    }


def volumes(tmp_path: Path, **more: Any) -> PodVolumes:
    return PodVolumes(tmp_path, "u", Known(app={"a": "1"}), allocatable={"cpu": "2"}, **more)


def token_projection(lifetime: int) -> dict[str, Any]:
    source = {"serviceAccountToken": {"path": "token", "expirationSeconds": lifetime}}
    return {"projected": {"sources": [source]}}


async def test_fresh_token_is_kept(tmp_path: Path) -> None:
    """A sync does not ask for a new token, so that the volume is not written again."""
    issued: list[tuple[str, int]] = []

    def issue(pod: object, *, audience: str, expiration_seconds: int) -> str:
        issued.append((audience, expiration_seconds))
        return f"token-{len(issued)}"

    kept = volumes(tmp_path, tokens=issue)
    for _ in range(3):
        assert await kept.set_up(pod(token_projection(3600))) == []
    assert issued == [("", 3600)]
    file = tmp_path / "pods/u/volumes/kubernetes.io~projected/v/token"
    assert file.read_text() == "token-1"


@pytest.mark.parametrize(
    ("context", "owner", "mode"),
    [({}, 0, 0o644), ({"runAsUser": 1000}, 1000, 0o600), ({"fsGroup": 10000}, 0, 0o640)],
)
async def test_token_is_for_user_or_group_alone(
    tmp_path: Path, context: dict[str, int], owner: int, mode: int
) -> None:
    """Where neither is known, whoever runs in the pod reads it (kubernetes: projected.go)."""
    requires("root", available=os.geteuid() == 0, reason="only root gives files away")

    def issue(_: object, **__: object) -> str:
        return "token"

    kept = volumes(tmp_path, tokens=issue)
    assert await kept.set_up(pod(token_projection(3600), securityContext=context)) == []
    found = (tmp_path / "pods/u/volumes/kubernetes.io~projected/v/token").stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (owner, mode)


async def test_old_token_is_replaced(tmp_path: Path) -> None:
    """A token without any life left is asked for again."""
    issued: list[int] = []

    def issue(pod: object, *, audience: str, expiration_seconds: int) -> str:
        issued.append(expiration_seconds)
        return f"token-{len(issued)}"

    aged = volumes(tmp_path, tokens=issue)
    for _ in range(2):
        await aged.set_up(pod(token_projection(0)))
    assert len(issued) == 2


async def test_token_volume_without_issuer_fails(tmp_path: Path) -> None:
    """No token is better than an empty one."""
    failures = await volumes(tmp_path).set_up(pod(token_projection(3600)))
    assert failures == [("v", "this node does not issue service account tokens")]


async def test_fs_group_can_read_projected_files(tmp_path: Path) -> None:
    """fsGroup: 0600 becomes 0640 of that group, and the directory passes its group on."""
    requires("root", available=os.geteuid() == 0, reason="only root gives files away")
    source = {"configMap": {"name": "app", "defaultMode": 0o600}}
    given = pod(source, securityContext={"fsGroup": 2000})
    try:
        os.chown(tmp_path, -1, 2000)
    except OSError:
        requires("root", available=False, reason="this root has no other groups")
    assert await volumes(tmp_path).set_up(given) == []
    directory = tmp_path / "pods/u/volumes/kubernetes.io~configmap/v"
    file = directory / "a"
    assert (file.stat().st_gid, stat.S_IMODE(file.stat().st_mode)) == (2000, 0o640)
    assert directory.stat().st_mode & stat.S_ISGID


async def test_projected_files_have_requested_modes(tmp_path: Path) -> None:
    """A volume's directory is open to all, its files have the default or their own mode."""
    items = [{"key": "a", "path": "own", "mode": 0o400}, {"key": "a", "path": "default"}]
    source = {"configMap": {"name": "app", "items": items, "defaultMode": 0o640}}
    assert await volumes(tmp_path).set_up(pod(source)) == []
    directory = tmp_path / "pods/u/volumes/kubernetes.io~configmap/v"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o777
    assert stat.S_IMODE((directory / "own").stat().st_mode) == 0o400
    assert stat.S_IMODE((directory / "default").stat().st_mode) == 0o640


async def test_downward_api_files(tmp_path: Path) -> None:
    """Labels are one line per entry, sorted and quoted, without a newline at the end."""
    items = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "cpu", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}},
    ]
    described = pod({"downwardAPI": {"items": items}})
    described["metadata"]["labels"] = {"b": 'say "x"', "a": "1"}
    assert await volumes(tmp_path).set_up(described) == []
    directory = tmp_path / "pods/u/volumes/kubernetes.io~downward-api/v"
    assert (directory / "labels").read_text() == 'a="1"\nb="say \\"x\\""'
    assert (directory / "cpu").read_text() == "2"


@pytest.mark.parametrize(
    ("type", "message"),
    [
        ("", None),
        ("Directory", "hostPath type check failed: {path} is not a directory"),
        ("File", "hostPath type check failed: {path} is not a file"),
        ("Socket", "hostPath type check failed: {path} is not a socket file"),
        ("DirectoryOrCreate", None),
    ],
)
async def test_host_path_type_is_checked(tmp_path: Path, type: str, message: str | None) -> None:
    """A hostPath that is not what it was said to be fails with its path."""
    path = tmp_path / "host"
    source = {"hostPath": {"path": str(path), "type": type}}
    failures = await volumes(tmp_path).set_up(pod(source))
    if message is None:
        assert failures == []
        assert path.is_dir()
    else:
        assert failures == [("v", message.format(path=path))]


@pytest.mark.parametrize("sub_path", ["../../secret", "/etc/passwd", "out/passwd"])
async def test_sub_path_cannot_leave_volume(tmp_path: Path, sub_path: str) -> None:
    """Neither `..`, nor an absolute path, nor a link leads out of a volume."""
    made = volumes(tmp_path)
    described = pod({"emptyDir": {}})
    assert await made.set_up(described) == []
    (tmp_path / "pods/u/volumes/kubernetes.io~empty-dir/v/out").symlink_to("/etc")
    container = described["spec"]["containers"][0]
    container["volumeMounts"][0]["subPath"] = sub_path
    with pytest.raises(ConfigError, match="subPath"):
        made.mounts_of(described, container, {})


async def test_pod_directory_is_removed_with_pod(tmp_path: Path) -> None:
    """Nothing of a pod's volumes stays when it is gone."""
    made = volumes(tmp_path)
    await made.set_up(pod({"configMap": {"name": "app"}}))
    made.remove()
    assert list((tmp_path / "pods").iterdir()) == []
