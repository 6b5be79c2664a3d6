"""Environment variables from files in volumes: `fileKeyRef`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hotmap.local.kubelet.env_file import EnvFileError, find_variable, read_env_file

if TYPE_CHECKING:
    from pathlib import Path

    from tests.local.kubelet.conftest import LocalNode


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A='1'\n", "1"),
        ("# A='0'\n\n  A='1' # one\nA='2'\n", "1"),
        ("B='x'\nA='two\nlines'\n", "two\nlines"),
        ("B='A=1\n'\r\nA='a\\\\b$C'\r\n", "a\\\\b$C"),
        ("A= '1'\n", ""),
        ("B='1'", ""),
        ("", ""),
        ("A='1'\nthis is not read\n", "1"),
    ],
)
def test_variable_is_found(text: str, value: str) -> None:
    """The first one of its name, as it is between single quotes."""
    assert find_variable(text, "A") == value


@pytest.mark.parametrize(
    "text", ["A", "A ='1'", "='1'", "A=1", "A=", 'A="1"', "A='1", "A='1'2", "B=x\nA='1'"]
)
def test_file_in_another_format_is_refused(text: str) -> None:
    with pytest.raises(EnvFileError):
        find_variable(text, "A")


def test_file_is_looked_for_in_the_volume_only(tmp_path: Path) -> None:
    """A pod may make links in it, which the kubelet must not follow out of it."""
    volume = tmp_path / "volume"
    (volume / "d").mkdir(parents=True)
    (volume / "d" / "a.env").write_text("A='1'\n")
    (tmp_path / "secret").write_text("A='2'\n")
    (volume / "link").symlink_to(tmp_path / "secret")
    (volume / "up").symlink_to(tmp_path)
    assert read_env_file(volume, "d/a.env") == read_env_file(volume, "/d//a.env") == "A='1'\n"
    for path in ("link", "up/secret", "d", "nothing", "d/a.env/x"):
        with pytest.raises(EnvFileError):
            read_env_file(volume, path)


def reference(**more: Any) -> list[dict[str, Any]]:
    source = {"volumeName": "v", "path": "a.env", "key": "A", **more}
    return [{"name": "FROM_FILE", "valueFrom": {"fileKeyRef": source}}]


def written(text: str) -> dict[str, Any]:
    """Return the fields of a pod whose init container writes a file."""
    init = {
        "name": "i",
        "image": "shell",
        "command": ["sh", "-c", 'printf %s "$TEXT" > /v/a.env'],
        "env": [{"name": "TEXT", "value": text}],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    return {"initContainers": [init], "volumes": [{"name": "v", "emptyDir": {}}]}


async def test_container_gets_a_variable_that_another_one_wrote(node: LocalNode) -> None:
    """It need not mount the volume itself."""
    script = "echo [$FROM_FILE]"
    pod = written("A='one $$(X)'")
    assert await node.output("p", script, env=reference(), pod=pod) == "[one $(X)]\n"
    optional = reference(key="B", optional=True)
    assert await node.output("q", script, env=optional, pod=written("A='1'")) == "[]\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("B='1'", 'environment variable key "A" not found in file "a.env"'),
        ("A=1", "couldn't parse env file"),
    ],
)
async def test_container_waits_for_its_variable(node: LocalNode, text: str, message: str) -> None:
    await node.run_pod("p", "true", env=reference(), pod=written(text))
    waiting = await node.waiting("p", "CreateContainerConfigError")
    assert waiting["message"] == message
