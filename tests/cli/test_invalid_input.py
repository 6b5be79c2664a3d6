"""An invalid call is reported in one sentence, with the right exit status.

The command runs as a process of its own, as a person or a script starts it.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.certificates import Authority
from tests.support.warm_process import run_warm
from tests.walkthroughs.local import Plane, running_plane

from hotmap.__main__ import main
from hotmap.cli.inject import default_image
from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_kubeconfig
from hotmap.kube.resources import CONFIGMAPS, EVENTS
from hotmap.local.controllers.controller_names import CONTROLLER_NAMES

#: The call itself is wrong; or it is right, and did not come out as it should.
WRONG, FAILED = 2, 1
TOKEN = "S3CRET"


def hotmap(*arguments: str, home: Path) -> tuple[int, str]:
    """Run the command to its end; return its status and the only line that it wrote."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home)}
    status, out, problems = run_warm(*arguments, env=env)
    text = problems.decode()
    assert out == b""
    assert text.count("\n") == 1, text
    assert TOKEN not in text
    return status, text.rstrip()


def kubeconfig(path: Path, *, user: dict[str, str] | None = None, **cluster: str) -> str:
    """Write a kubeconfig with a cluster of these fields; return its path."""
    content = {
        "current-context": "shop",
        "clusters": [{"name": "shop", "cluster": cluster}],
        "contexts": [{"name": "shop", "context": {"cluster": "shop", "user": "ann"}}],
        "users": [{"name": "ann", "user": user or {"token": TOKEN}}],
    }
    path.write_text(yaml.safe_dump(content))
    return str(path)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with running_plane(tmp_path_factory.mktemp("bad-input") / "plane") as plane:
        yield plane


# -- what is typed ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("--nope", "No such option '--nope'; see 'hotmap --help'"),
        (
            "-n shop status",
            "No such option '-n'; put '-n' after the command; see 'hotmap --help'",
        ),
        (
            "status --namespce=x",
            "No such option '--namespce'; did you mean '--all-namespaces', "
            "'--controller-namespace', '--namespace'; see 'hotmap status --help'",
        ),
        (
            "status -n Shop",
            "Invalid value for '--namespace' / '-n': \"Shop\" is not the name of a namespace: "
            "expected at most 63 lowercase letters, digits and hyphens; see 'hotmap status --help'",
        ),
        # As the shell passes what is not ASCII where the locale has no other characters.
        (
            "release web -n caf\udcc3\udca9",
            "Invalid value for '--namespace' / '-n': \"caf\\udcc3\\udca9\" is not the name of a "
            "namespace: expected at most 63 lowercase letters, digits and hyphens; see 'hotmap "
            "release --help'",
        ),
        (
            "status --controller-namespace ..",
            "Invalid value for '--controller-namespace': \"..\" is not the name of a namespace: "
            "expected at most 63 lowercase letters, digits and hyphens; see 'hotmap status --help'",
        ),
        (
            "controler",
            "No such command 'controler'; did you mean 'controller'; see 'hotmap --help'",
        ),
        ("frobnicate", "No such command 'frobnicate'; see 'hotmap --help'"),
        ("local down", "No such command 'down'; see 'hotmap local --help'"),
        ("demo twice", "Got unexpected extra argument (twice); see 'hotmap demo --help'"),
        ("status --wait", "Option '--wait' requires an argument; see 'hotmap status --help'"),
        ("local up --dir", "Option '--dir' requires an argument; see 'hotmap local up --help'"),
        ("controller -h=x", "No such option '-='; see 'hotmap controller --help'"),
        (
            "local up --port 99999",
            "Invalid value for '--port': 99999 is not in the range 0<=x<=65535; "
            "see 'hotmap local up --help'",
        ),
        ("local up --dir=", '--dir: invalid directory "": omit --dir to keep objects in memory'),
        ("local up --etcd=", '--etcd: invalid URL "": expected http://HOST:PORT'),
        ("local up --images=", '--images: invalid file "": expected the name of a file'),
        (
            "local up --sync-period soon",
            '--sync-period: invalid duration "soon": expected a number with a unit, such as '
            "500ms or 5s",
        ),
        (
            "local up --sync-period 0",
            '--sync-period: invalid duration "0": must be greater than 0, such as 1s',
        ),
        (
            "local up --controllers *,-daemonset",
            f"--controllers: unknown controller 'daemonset'; there are "
            f"{', '.join(CONTROLLER_NAMES)}",
        ),
        (
            "controller --workers none",
            "Invalid value for '--workers': 'none' is not a number; see 'hotmap controller --help'",
        ),
        (
            "inject app.yaml",
            "Missing option '--filename' / '-f'; write '-f app.yaml'; see 'hotmap inject --help'",
        ),
        (
            "inject --output app.yaml",
            "Missing option '--filename' / '-f'; see 'hotmap inject --help'",
        ),
        (
            "stamp -f app.yaml web.yaml",
            "Got unexpected extra argument (web.yaml); write '-f web.yaml'; "
            "see 'hotmap stamp --help'",
        ),
        (
            "why deploy web",
            "Got unexpected extra argument (web); write 'deploy/web'; see 'hotmap why --help'",
        ),
        (
            "preview cm app --key LEVEL",
            "Got unexpected extra argument (app); write 'cm/app'; see 'hotmap preview --help'",
        ),
        (
            "inject -f app.yaml web.yaml",
            "unexpected argument \"web.yaml\": write '-f web.yaml'",
        ),
        (
            "inject -f app.yaml web",
            'unexpected argument "web": put flags of the agent after --',
        ),
        (
            "inject -f app.yaml --image=",
            f'--image: invalid image "": expected a name such as {default_image()}',
        ),
        (
            "inject --output=app.yaml",
            "Missing option '--filename' / '-f'; see 'hotmap inject --help'",
        ),
        (
            "inject -f app.yaml -- --not-empty=web.yaml",
            "cannot read app.yaml: no such file or directory",
        ),
        (
            "controller --settle 1",
            '--settle: invalid duration "1": expected a number with a unit, such as 500ms or 5s',
        ),
        (
            "controller --settle-max ever",
            '--settle-max: invalid duration "ever": expected a number with a unit, such as '
            "500ms or 5s",
        ),
        (
            "controller --listen 9533",
            '--listen: invalid address "9533": expected HOST:PORT, :PORT or none',
        ),
    ],
)
def test_invalid_argument_is_named(typed: str, sentence: str, tmp_path: Path) -> None:
    """The flag or word, what is wrong with it and where to look."""
    assert hotmap(*typed.split(), home=tmp_path) == (WRONG, f"hotmap: {sentence}")


def test_image_with_a_space_is_refused(tmp_path: Path) -> None:
    """The API server would accept it, and the pod could not start."""
    problem = f'--image: invalid image "web: 1": expected a name such as {default_image()}'
    call = ("inject", "-f", "app.yaml", "--image", "web: 1")
    assert hotmap(*call, home=tmp_path) == (WRONG, f"hotmap: {problem}")


def test_manifest_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    """A pipeline checks manifests that others have written, and reads commands in its log."""
    manifest = tmp_path / "app.yaml"
    name = r"a\n::error::\x1b[31m"
    metadata = f'metadata: {{name: "{name}"}}'
    manifest.write_text(f"apiVersion: v1\nkind: Secret\n{metadata}\ndata: {{LEVEL: 1}}\n")
    code, text = hotmap("stamp", "-f", str(manifest), home=tmp_path)
    assert code == 2
    assert f'Secret/{name}: data "LEVEL" is a number' in text
    assert text.isprintable()


def test_invalid_follow_is_an_error(tmp_path: Path) -> None:
    """The flag's value is named, and how one is written."""
    problem = '--follow: invalid item "pod/x": expected configmap/NAME, secret/NAME or spc/NAME'
    call = ("controller", "--follow", "pod/x")
    assert hotmap(*call, home=tmp_path) == (WRONG, f"hotmap: {problem}")


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
    ],
    ids=["empty", "no YAML", "a number"],
)
def test_invalid_kubeconfig_is_an_error(content: str, problem: str, tmp_path: Path) -> None:
    """The file is named, and the place in it."""
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    status, sentence = hotmap("controller", "--kubeconfig", str(path), home=tmp_path)
    assert (status, sentence) == (WRONG, f"hotmap: kubeconfig {path} {problem}")


@pytest.mark.parametrize("content", ["- a list\n", "root:x:0:0::/root:/bin/sh\n", "7"])
def test_file_that_is_no_kubeconfig_is_an_error(content: str, tmp_path: Path) -> None:
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
            assert process.stderr.read() == ""


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


# -- how it is started and ended -------------------------------------------------------------


@contextmanager
def started(*arguments: str, home: Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Run the command beside the test; it is gone at the end."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)} | options.pop("env", {})
    with subprocess.Popen(
        [sys.executable, "-m", "hotmap", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def until_ready(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if " ready" in line:
            return
    raise AssertionError("it ended before it was ready")


def until_leading(process: subprocess.Popen[str]) -> None:
    """Wait until it is ready and leads; the Lease of a killed one has to expire first."""
    missing = {" INFO ready", " became leader", " INFO watching "}
    assert process.stderr is not None
    for line in process.stderr:
        missing = {said for said in missing if said not in line}
        if not missing:
            return
    raise AssertionError(f"it ended before it said {missing}")


@pytest.mark.parametrize(
    "home",
    [
        pytest.param("{}", id="with a home"),
        pytest.param("/proc/nowhere", id="with a home that cannot be"),
    ],
)
@pytest.mark.parametrize(
    "signals",
    [
        (signal.SIGINT,),
        (signal.SIGHUP,),
        (signal.SIGINT, signal.SIGINT),
        (signal.SIGTERM, signal.SIGINT),
    ],
    ids=["once", "by a closed terminal", "twice", "in two ways"],
)
def test_repeated_signals_end_with_status_0(
    signals: tuple[signal.Signals, ...], home: str, plane: Plane, tmp_path: Path
) -> None:
    """It ends with status 0, and says at most that it released its Lease.

    The user may interrupt the release.
    """
    call = ("controller", "--listen=none", "--kubeconfig", str(plane.kubeconfig))
    with started(*call, home=Path(home.format(tmp_path))) as process:
        until_leading(process)
        for number in signals:
            process.send_signal(number)
        assert process.stderr is not None
        said = process.stderr.read()
        assert process.wait(timeout=60) == 0
    released = re.fullmatch(r"\S+ INFO Lease hotmap/hotmap-controller: released\n", said)
    assert released or (len(signals) > 1 and said == ""), said


async def annotate_wrongly(plane: Plane) -> None:
    """Create an object that the controller reports, and wait for the Event."""
    annotations = {"hotmap.dev/ignore": "yes"}
    body = {"metadata": {"generateName": "unread-", "annotations": annotations}}
    async with Client(load_kubeconfig(str(plane.kubeconfig))) as client, asyncio.timeout(20):
        made = await client.create(CONFIGMAPS, "default", body, type=dict[str, Any])
        while True:
            events = await client.list_page(EVENTS, "default", type=dict[str, Any])
            told = [event["involvedObject"]["name"] for event in events.items]
            if made["metadata"]["name"] in told:
                return
            await asyncio.sleep(0.05)


def test_closed_log_pipe_is_no_error(plane: Plane, tmp_path: Path) -> None:
    """A log without a reader does not end the process: it goes on, and ends on request."""
    call = ("controller", "--listen=none", "--log-level=debug")
    kubeconfig = ("--kubeconfig", str(plane.kubeconfig))
    with started(*call, *kubeconfig, home=tmp_path) as process:
        until_leading(process)
        assert process.stderr is not None
        process.stderr.close()
        asyncio.run(annotate_wrongly(plane))
        process.terminate()
        assert process.wait(timeout=60) == 0


@pytest.mark.parametrize("name", ["POD_NAMESPACE", "KUBECONFIG", "UNRELATED"])
def test_non_utf8_variable_is_reported_only_where_it_is_used(
    name: str, plane: Plane, tmp_path: Path
) -> None:
    """Bytes that are not valid UTF-8 are reported for variables in use and ignored in others."""
    environment: Any = {name: b"\xff\xfe"}
    call: tuple[str, ...] = ("controller", "--listen=none")
    if name != "KUBECONFIG":
        call += ("--kubeconfig", str(plane.kubeconfig))
    with started(*call, home=tmp_path, env=environment) as process:
        assert process.stderr is not None
        if name == "UNRELATED":
            until_ready(process)
            process.terminate()
            assert process.wait(timeout=60) == 0
            return
        lines = process.stderr.read()
        assert process.wait(timeout=60) == WRONG
        assert lines.startswith("hotmap: ")
        assert lines.count("\n") == 1
        assert name in lines


# -- places that are taken -------------------------------------------------------------------


@pytest.fixture
def used_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_local_port_in_use_is_an_error(used_port: int, plane: Plane, tmp_path: Path) -> None:
    """It names the port, and leaves no directory behind."""
    state = tmp_path / "state"
    call = ("local", "up", "--dir", str(state), "--port", str(used_port))
    problem = (
        f"port {used_port} on 127.0.0.1 is in use by another process; "
        "choose another port, or 0 for any free one"
    )
    assert hotmap(*call, home=tmp_path) == (WRONG, f"hotmap: {problem}")
    assert list(tmp_path.iterdir()) == []


def test_controller_port_in_use_is_an_error(used_port: int, plane: Plane, tmp_path: Path) -> None:
    """It names the address and the flag."""
    address = f"127.0.0.1:{used_port}"
    call = ("controller", "--kubeconfig", str(plane.kubeconfig), "--listen", address)
    status, sentence = hotmap(*call, home=tmp_path)
    assert status == WRONG
    assert address in sentence
    assert "--listen" in sentence


def test_local_directory_in_use_is_an_error(plane: Plane, tmp_path: Path) -> None:
    """It names the directory and the process, which goes on as if nothing had been."""
    call = ("local", "up", "--dir", str(plane.directory))
    problem = (
        f"a local control plane is already running in {plane.directory} "
        f"(process {plane.process.pid}); stop it, or choose another directory with --dir"
    )
    assert hotmap(*call, home=tmp_path) == (WRONG, f"hotmap: {problem}")
    assert plane.process.poll() is None
    assert plane.kubeconfig.exists()


@pytest.mark.parametrize(
    "make", [lambda path: path.write_text("a file"), lambda path: path.symlink_to("nowhere/at/all")]
)
def test_unusable_local_directory_is_an_error(
    make: Callable[[Path], object], tmp_path: Path
) -> None:
    """A file or a dangling link where the state is to be: it is named and left as it is."""
    path = tmp_path / "state"
    make(path)
    status, sentence = hotmap("local", "up", "--dir", str(path), home=tmp_path)
    assert status == WRONG
    assert sentence.startswith(f"hotmap: the state directory {path} cannot be used: ")
    assert sentence.endswith("; choose a directory that can be written")
    assert path.is_symlink() or path.read_text() == "a file"


@pytest.mark.parametrize("words", [["version"], ["agent"]])
def test_internal_error_is_one_sentence(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its text, which may quote data, and with its place, for a report."""

    def fail(_words: list[str]) -> int:
        raise KeyError(TOKEN)

    monkeypatch.setattr("hotmap.cli.main.run", fail)
    monkeypatch.setattr("hotmap.agent.main.main", fail)
    monkeypatch.setattr("sys.argv", ["hotmap", *words])
    with pytest.raises(SystemExit) as exit_:
        main()
    assert re.fullmatch(
        r"hotmap: internal error: KeyError in __main__\.py:\d+; please report it, with the command",
        str(exit_.value.code),
    )


@pytest.mark.parametrize("closed", [">&-", "<&-", ">&- <&- 2>&-"])
@pytest.mark.parametrize("words", ["stamp --filename -", "inject --help"])
def test_closed_standard_streams_are_no_internal_error(words: str, closed: str) -> None:
    """As a daemon or a job of cron may start it."""
    command = f"exec {sys.executable} -m hotmap {words} {closed}"
    text = b"kind: Deployment\nspec: {template: {spec: {containers: []}}}\n"
    ended = subprocess.run(
        ["sh", "-c", command], input=text, capture_output=True, check=False, timeout=60
    )
    is_read = "<" in closed and words.startswith("stamp")
    assert ended.returncode == (WRONG if is_read else FAILED if ">" in closed else 0)
    if closed == ">&-":
        assert ended.stderr == b"hotmap: cannot write to standard output: bad file descriptor\n"
    assert b"internal error" not in ended.stderr
