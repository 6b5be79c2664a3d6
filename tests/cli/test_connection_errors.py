"""A kubeconfig or server that cannot be used is reported in one sentence."""

from __future__ import annotations

import signal
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.command_calls import FAILED, TOKEN, WRONG, hotmap, kubeconfig, started
from tests.support.certificates import Authority
from tests.walkthroughs.local import Plane

# -- kubeconfigs -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "has no contexts, so it names no cluster"),
        ("clusters: [", "is not valid YAML at line 1, column 12"),
        (
            "clusters: 7\n",
            "is not valid: Expected `array | null`, got `int` - at `$.clusters`",
        ),
        ("[" * 10_000, "is not valid YAML: nested too deeply"),
    ],
    ids=["empty", "no YAML", "a number", "nested"],
)
def test_invalid_kubeconfig_is_an_error(content: str, problem: str, tmp_path: Path) -> None:
    """The file is named, and the place in it."""
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    status, sentence = hotmap("controller", "--kubeconfig", str(path), home=tmp_path)
    assert (status, sentence) == (WRONG, f"hotmap: kubeconfig {path} {problem}")


@pytest.mark.parametrize("content", ["- a list\n", "root:x:0:0::/root:/bin/sh\n", "7"])
def test_file_that_is_not_a_kubeconfig_is_an_error(content: str, tmp_path: Path) -> None:
    """It says what such a file has."""
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    status, sentence = hotmap("controller", "--kubeconfig", str(path), home=tmp_path)
    problem = "is not a kubeconfig: expected clusters, contexts and users in YAML"
    assert (status, sentence) == (WRONG, f"hotmap: {path} {problem}")


def test_missing_kubeconfig_is_an_error(tmp_path: Path) -> None:
    """The file is named, and why it cannot be read."""
    path = tmp_path / "kubeconfig"
    status, sentence = hotmap("controller", "--kubeconfig", str(path), home=tmp_path)
    problem = "cannot be read: no such file or directory"
    assert (status, sentence) == (WRONG, f"hotmap: kubeconfig {path} {problem}")


def test_missing_cluster_error_names_the_options(tmp_path: Path) -> None:
    """In an empty home, outside of a pod: what was looked for is said."""
    status, sentence = hotmap("controller", home=tmp_path)
    looked = f"{tmp_path}/.kube/config does not exist, and this is not a pod"
    assert status == WRONG
    assert sentence.startswith("hotmap: no cluster is configured: ")
    assert looked in sentence
    assert sentence.endswith("'hotmap local up' starts a cluster and prints its kubeconfig")


def test_unknown_context_is_an_error(tmp_path: Path) -> None:
    """Those that are in it are named."""
    path = kubeconfig(tmp_path / "kubeconfig", server="https://127.0.0.1:1")
    call = ("controller", "--kubeconfig", path, "--context", "test")
    problem = f"kubeconfig {path} has no context 'test': it has shop"
    assert hotmap(*call, home=tmp_path) == (WRONG, f"hotmap: {problem}")


def test_unsupported_credentials_are_an_error(tmp_path: Path) -> None:
    """A user with a password is told what to use instead, without the password."""
    user = {"username": "ann", "password": TOKEN}
    path = kubeconfig(tmp_path / "kubeconfig", server="https://127.0.0.1:1", user=user)
    status, sentence = hotmap("controller", "--kubeconfig", path, home=tmp_path)
    assert status == WRONG
    assert "'username'" in sentence
    assert "use a token" in sentence


# -- servers ---------------------------------------------------------------------------------


def test_unreachable_server_is_an_error(tmp_path: Path) -> None:
    """Address, reason and the kubeconfig that the address is from."""
    path = kubeconfig(tmp_path / "kubeconfig", server="https://127.0.0.1:1")
    status, sentence = hotmap("controller", "--listen=none", "--kubeconfig", path, home=tmp_path)
    assert status == FAILED
    assert sentence.startswith("hotmap: cannot reach https://127.0.0.1:1: connection refused;")
    assert path in sentence


def test_untrusted_server_certificate_is_an_error(plane: Plane, tmp_path: Path) -> None:
    """A wrong certificate authority is not a reason to go on: what to check is said."""
    authority = tmp_path / "ca.crt"
    authority.write_bytes(Authority("another authority").pem)
    fields: dict[str, Any] = {"server": server_of(plane), "certificate-authority": str(authority)}
    path = kubeconfig(tmp_path / "kubeconfig", **fields)
    status, sentence = hotmap("controller", "--listen=none", "--kubeconfig", path, home=tmp_path)
    assert status == FAILED
    assert sentence.startswith(f"hotmap: cannot trust {server_of(plane)}: ")
    assert "certificate authority" in sentence
    assert path in sentence


def test_expired_token_is_an_error(plane: Plane, tmp_path: Path) -> None:
    """The refusal names the credentials' origin, never the token."""
    authority = str(plane.directory / "pki" / "ca.crt")
    fields: dict[str, Any] = {"server": server_of(plane), "certificate-authority": authority}
    path = kubeconfig(tmp_path / "kubeconfig", **fields)
    problem = (
        f"{server_of(plane)} rejected the credentials (401 Unauthorized): they are wrong or have "
        f"expired; renew those of kubeconfig {path}, context 'shop'"
    )
    call = ("controller", "--listen=none", "--kubeconfig", path)
    assert hotmap(*call, home=tmp_path) == (FAILED, f"hotmap: {problem}")


def server_of(plane: Plane) -> str:
    content: Any = yaml.safe_load(plane.kubeconfig.read_text())
    server: str = content["clusters"][0]["cluster"]["server"]
    return server


def test_silent_server_is_an_error(tmp_path: Path) -> None:
    """Named after a second, while it is still waited for; an interrupt ends the waiting."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"https://127.0.0.1:{silent.getsockname()[1]}"
        path = kubeconfig(tmp_path / "kubeconfig", server=server)
        call = ("controller", "--listen=none", "--kubeconfig", path)
        with started(*call, home=tmp_path) as process:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line.endswith(f" WARNING no response from {server} yet; still waiting\n")
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 0
            (last,) = process.stderr.read().splitlines()
            assert last.endswith(" INFO shutting down (SIGINT)")


@pytest.mark.parametrize(
    "server", ["https://a b:1", "https://127.0.0.1:99999", "https://", "ssh://x", "https://[::1"]
)
def test_invalid_server_url_is_an_error(server: str, tmp_path: Path) -> None:
    """The kubeconfig is named, and how a server is written."""
    path = kubeconfig(tmp_path / "kubeconfig", server=server)
    status, sentence = hotmap("controller", "--kubeconfig", path, home=tmp_path)
    assert status == WRONG
    assert sentence.startswith(f"hotmap: cluster 'shop' in kubeconfig {path} needs a server like")


def test_token_with_line_break_is_an_error(tmp_path: Path) -> None:
    """Two lines where one word is wanted: the user is named, the token is not shown."""
    user = {"token": f"{TOKEN}\nmore"}
    path = kubeconfig(tmp_path / "kubeconfig", server="https://127.0.0.1:1", user=user)
    problem = f"the token of user 'ann' in kubeconfig {path} contains white space"
    call = ("controller", "--kubeconfig", path)
    assert hotmap(*call, home=tmp_path) == (WRONG, f"hotmap: {problem}")


def test_exec_plugin_of_an_old_version_is_an_error(tmp_path: Path) -> None:
    """The versions to use instead are said."""
    user: Any = {"exec": {"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "aws"}}
    path = kubeconfig(tmp_path / "kubeconfig", server="https://127.0.0.1:1", user=user)
    problem = (
        f"user 'ann' in kubeconfig {path} has an exec plugin of apiVersion"
        " 'client.authentication.k8s.io/v1alpha1', which is not supported:"
        " use client.authentication.k8s.io/v1 or client.authentication.k8s.io/v1beta1"
    )
    call = ("controller", "--kubeconfig", path)
    assert hotmap(*call, home=tmp_path) == (WRONG, f"hotmap: {problem}")


def test_password_is_an_error(tmp_path: Path) -> None:
    """What to use instead is said, and the password is not shown."""
    user = {"username": "ann", "password": TOKEN}
    path = kubeconfig(tmp_path / "kubeconfig", server="https://127.0.0.1:1", user=user)
    status, sentence = hotmap("controller", "--kubeconfig", path, home=tmp_path)
    assert status == WRONG
    assert "uses 'username', which is not supported: use a token" in sentence
