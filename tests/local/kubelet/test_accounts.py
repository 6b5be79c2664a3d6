"""The user and groups of a container, also by the /etc/passwd and /etc/group of its image."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.requires import requires

from hotmap.local.kubelet.container_spec import exec_spec

if TYPE_CHECKING:
    from pathlib import Path

    from tests.local.kubelet.conftest import LocalNode


@pytest.fixture
def root(tmp_path: Path) -> Path:
    etc = tmp_path / "root" / "etc"
    etc.mkdir(parents=True)
    (etc / "passwd").write_text(
        "root:x:0:0:root:/root:/bin/sh\nbroken\napp:x:4001:4005::/home/app:/bin/sh\n"
    )
    (etc / "group").write_text("app:x:4005:\nmore:x:4006:other,app\nnot:x:4007:application\n")
    return etc.parent


def identity(root: Path, **context: Any) -> tuple[int | None, int | None, list[int]]:
    pod = {"securityContext": {"fsGroup": 4000, **context}}
    spec = exec_spec(pod, {"name": "c"}, ["id"], {}, root=str(root), tty=False)
    return spec["user"], spec["group"], spec["groups"]


def test_known_user_has_the_groups_of_the_image(root: Path) -> None:
    """The group of /etc/passwd unless the pod sets one, and the memberships in /etc/group."""
    assert identity(root, runAsUser=4001) == (4001, 4005, [4000, 4006])
    assert identity(root, runAsUser=4001, runAsGroup=7) == (4001, 7, [4000, 4006])
    strict = {"supplementalGroups": [8], "supplementalGroupsPolicy": "Strict"}
    assert identity(root, runAsUser=4001, **strict) == (4001, 4005, [4000, 8])


def test_unknown_user_has_the_groups_of_the_pod_alone(root: Path) -> None:
    """The runtime gives it the root group; so it does where the image has no such files."""
    assert identity(root, runAsUser=4002) == (4002, None, [4000])
    assert identity(root / "none", runAsUser=4001) == (4001, None, [4000])
    assert identity(root) == (None, None, [4000])


async def test_container_of_known_user_cannot_read_what_root_group_can(node: LocalNode) -> None:
    """As on Kubernetes, a mode of 0440 keeps a volume from a user with a group of its own."""
    requires("root", available=os.geteuid() == 0, reason="only root can change users")
    await node.config_map("app", {"a": "1"})
    volume = {"name": "v", "configMap": {"name": "app", "defaultMode": 0o440}}
    output = await node.output(
        "user",
        "id -g; cat /v/a 2>&1 || true",
        pod={"securityContext": {"runAsUser": 65534}, "volumes": [volume]},
        volumeMounts=[{"name": "v", "mountPath": "/v"}],
    )
    assert output == "65534\ncat: /v/a: Permission denied\n"
