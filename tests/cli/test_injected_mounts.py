"""The agent's container mounts what it shares with the application: sockets, pid files."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from hotmap.cli.inject import Injection, inject

MOUNTS: list[dict[str, Any]] = [
    {"name": "conf", "mountPath": "/etc/app"},
    {"name": "shared", "mountPath": "/shared", "subPath": "run"},
    {"name": "deep", "mountPath": "/shared/deep/", "readOnly": True},
    {"name": "run", "mountPath": "/run"},
    {"name": "named", "mountPath": "/named", "subPathExpr": "$(NAME)"},
]


def injected(*flags: str, mode: str = "native-sidecar") -> tuple[list[dict[str, Any]], list[str]]:
    """Inject an agent; returns its mounts without those of every agent, and the notes."""
    app = {"name": "app", "image": "app", "command": ["app"], "volumeMounts": MOUNTS}
    volumes = [{"name": mount["name"], "emptyDir": {}} for mount in MOUNTS[1:]]
    spec = {
        "securityContext": {"runAsUser": 1000},
        "containers": [app],
        "volumes": [{"name": "conf", "configMap": {"name": "app"}}, *volumes],
    }
    workload = {
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"template": {"spec": spec}},
    }
    text, notes = inject(yaml.safe_dump(workload), Injection("hotmap:1", "app", flags, mode), "f")
    (found,) = yaml.safe_load(text)["spec"]["template"]["spec"]["initContainers"]
    own = ("hotmap-", "conf")
    return [m for m in found["volumeMounts"] if not m["name"].startswith(own)], notes


@pytest.mark.parametrize(
    ("flags", "mount"),
    [
        pytest.param(("--url", "unix:/shared/app.sock:/reload"), MOUNTS[1], id="socket"),
        pytest.param(
            ("--signal", "HUP", "--process", "pidfile:/shared/app.pid"), MOUNTS[1], id="pid file"
        ),
        pytest.param(("--touch", "/shared/touched"), MOUNTS[1], id="touched"),
        pytest.param(
            ("--url", "http://127.0.0.1/r", "--verify", "log /shared/deep/log loaded"),
            MOUNTS[2],
            id="probe, in the deepest mount",
        ),
        pytest.param(
            ("--dir", "/shared/current", "--url", "http://127.0.0.1/r"),
            MOUNTS[1],
            id="watched, as git-sync's",
        ),
        pytest.param(
            ("--dir", "/shared/current", "--touch", "/shared/touched"), MOUNTS[1], id="both"
        ),
    ],
)
def test_volume_with_a_file_that_the_agent_uses_is_mounted(
    flags: tuple[str, ...], mount: dict[str, Any]
) -> None:
    """As the application mounts it."""
    assert injected(*flags) == ([mount], [])


def test_several_files_of_a_volume_need_one_mount() -> None:
    """Mount paths are unique in a container."""
    flags = ("--url", "unix:/shared/app.sock:/reload", "--touch", "/shared/touched")
    assert injected(*flags) == ([MOUNTS[1]], [])


@pytest.mark.parametrize("path", ["/run/app.sock", "/named/app.sock", "/app.sock", "/tmp/app.sock"])
def test_file_in_no_volume_that_the_agent_can_mount_is_noted(path: str) -> None:
    """It has a /run and a /tmp of its own, and not the variables of the application."""
    mounts, (note,) = injected("--url", f"unix:{path}:/reload")
    assert mounts == []
    assert f"the agent uses {path}, and its container has no volume there" in note
    assert "volume that container app mounts at a directory such as /shared" in note


@pytest.mark.parametrize("path", ["/etc/ap", "etc/app"])
def test_watched_directory_in_no_volume_is_noted(path: str) -> None:
    """The agent waits for each directory, so a misspelled one would keep it from loading any."""
    mounts, (note,) = injected("--dir", path, "--url", "http://127.0.0.1/reload")
    assert mounts == []
    assert f"the agent watches {path}, and its container has no volume there" in note
    assert "set --dir to one in a volume that container app mounts" in note


def test_check_before_the_start_mounts_what_it_reads() -> None:
    """And nothing for actions, since the agent ends before the application starts."""
    flags = ("--dir", "/shared/current", "--touch", "/shared/deep/touched")
    assert injected(*flags, mode="init") == ([MOUNTS[1]], [])


def test_source_that_is_mounted_already_is_mounted_once() -> None:
    """Such as a pid file of a test that is in the watched directory."""
    flags = ("--signal", "HUP", "--process", "pidfile:/etc/app/app.pid")
    assert injected(*flags) == ([], [])


def test_supervisor_has_the_mounts_of_its_application() -> None:
    """It runs in that container, so nothing is mounted, and nothing is noted."""
    mounts, notes = injected("--url", "unix:/run/app.sock:/reload", mode="supervisor")
    assert (mounts, notes) == ([], [])
