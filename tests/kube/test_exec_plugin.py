"""Credential plugins as real processes, before a server that speaks TLS."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import ssl
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from aiohttp import web
from tests.support.certificates import Authority, as_lenient_as_go

from hotmap.core.errors import SettingsError, Unauthorized, Unreachable
from hotmap.kube import exec_plugin
from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_kubeconfig

pytestmark = pytest.mark.real_time

V1, V1BETA1 = "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"


class Server:
    """Answers who has the right token, or a client certificate of the right name."""

    def __init__(self) -> None:
        self.url = ""
        self.token = "t1"
        self.seen: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        certificate = request.transport.get_extra_info("peercert") or {}
        names = [value for rdn in certificate.get("subject", ()) for _, value in rdn]
        who = request.headers.get("Authorization", "") or ",".join(names)
        self.seen.append(who)
        good = who in (f"Bearer {self.token}", "jane")
        return web.json_response({"kind": "Status"}, status=200 if good else 401)


@pytest.fixture
async def server(tmp_path: Path, authority: Authority) -> AsyncIterator[Server]:
    """An API server named api.example on an address that its certificate does not name."""
    pair = authority.issue("api.example")
    (tmp_path / "server.pem").write_bytes(pair.certificate + pair.key)
    context = as_lenient_as_go(
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.pem.decode())
    )
    context.load_cert_chain(tmp_path / "server.pem")
    context.verify_mode = ssl.CERT_OPTIONAL
    server = Server()
    app = web.Application()
    app.router.add_get("/version", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    server.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    yield server
    await runner.cleanup()


class Plugin(NamedTuple):
    """A program that prints what its file `answer` says, and notes each run."""

    directory: Path

    @property
    def path(self) -> Path:
        return self.directory / "plugin"

    def program(self, text: str) -> None:
        self.path.write_text(f"#!{sys.executable}\n{text}\n")
        self.path.chmod(self.path.stat().st_mode | stat.S_IXUSR)

    def answers(self, api_version: str = V1, **status: Any) -> None:
        answer = {"kind": "ExecCredential", "apiVersion": api_version, "status": status}
        (self.directory / "answer").write_text(json.dumps(answer))
        self.program(
            "import os, sys\n"
            f"folder = {str(self.directory)!r}\n"
            "with open(folder + '/runs', 'a') as runs:\n"
            "    runs.write(os.environ['KUBERNETES_EXEC_INFO'] + '\\n')\n"
            "sys.stdout.write(open(folder + '/answer').read())"
        )

    def runs(self) -> list[dict[str, Any]]:
        with contextlib.suppress(FileNotFoundError):
            lines = (self.directory / "runs").read_text().splitlines()
            return [json.loads(line) for line in lines]
        return []


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    directory = tmp_path / "bin"
    directory.mkdir()
    return Plugin(directory)


@pytest.fixture
def kubeconfig(
    tmp_path: Path, server: Server, plugin: Plugin, authority: Authority
) -> Callable[..., str]:
    """Write a kubeconfig whose user has the plugin."""
    (tmp_path / "ca.crt").write_bytes(authority.pem)

    def write(*, user: dict[str, Any] | None = None, **settings: Any) -> str:
        login = {
            "apiVersion": V1,
            "command": "bin/plugin",
            "interactiveMode": "Never",
            **settings,
        }
        cluster = {
            "server": server.url,
            "certificate-authority": "ca.crt",
            "tls-server-name": "api.example",
            "extensions": [
                {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
            ],
        }
        path = tmp_path / "kubeconfig"
        document = {
            "current-context": "here",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {**(user or {}), "exec": login}}],
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        }
        path.write_text(yaml.safe_dump(document))
        return str(path)

    return write


def rfc3339(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def ask(path: str, times: int = 1) -> None:
    async with Client(load_kubeconfig(path)) as client:
        for _ in range(times):
            await client.request("GET", "/version")


@pytest.mark.parametrize(
    ("api_version", "settings"),
    [(V1, {}), (V1BETA1, {"apiVersion": V1BETA1}), (V1BETA1, {"interactiveMode": None})],
)
async def test_plugin_gives_a_token_that_is_kept(
    server: Server,
    plugin: Plugin,
    kubeconfig: Callable[..., str],
    api_version: str,
    settings: dict[str, Any],
) -> None:
    """One run for all requests, as long as nothing says that it is over."""
    plugin.answers(api_version, token="t1")
    await ask(kubeconfig(**{**settings, "apiVersion": api_version}), 3)
    assert server.seen == ["Bearer t1"] * 3
    assert plugin.runs() == [
        {"kind": "ExecCredential", "apiVersion": api_version, "spec": {"interactive": False}}
    ]


async def test_concurrent_requests_share_one_run(
    server: Server, plugin: Plugin, kubeconfig: Callable[..., str]
) -> None:
    """Those of the controller's watches at its start, for example."""
    plugin.answers(token="t1")
    async with Client(load_kubeconfig(kubeconfig())) as client:
        await asyncio.gather(*(client.request("GET", "/version") for _ in range(8)))
    assert len(plugin.runs()) == 1


async def test_run_outlasts_the_requests_that_wait_for_it(
    server: Server, plugin: Plugin, kubeconfig: Callable[..., str]
) -> None:
    """Those for the Lease have 3.5 s, which a plugin may need for itself."""
    plugin.answers(token="t1")
    with plugin.path.open("a") as program:
        program.write("import time; time.sleep(1.5)\n")
    async with Client(load_kubeconfig(kubeconfig())) as client:
        for _ in range(2):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await client.request("GET", "/version")
        await client.request("GET", "/version")
    assert len(plugin.runs()) == 1


async def test_expired_token_is_replaced_before_it_is_sent(
    server: Server, plugin: Plugin, kubeconfig: Callable[..., str]
) -> None:
    """A token that lasts is kept; one that is over, or nearly, costs a run for each request."""
    plugin.answers(token="t1", expirationTimestamp=rfc3339(time.time() + 600))
    await ask(kubeconfig(), 2)
    assert len(plugin.runs()) == 1
    plugin.answers(token="t1", expirationTimestamp=rfc3339(time.time() + 2))
    await ask(kubeconfig(), 2)
    assert len(plugin.runs()) == 3


async def test_refused_token_is_replaced_at_once(
    server: Server, plugin: Plugin, kubeconfig: Callable[..., str]
) -> None:
    """Whatever its expiry says; the request is sent once more."""
    plugin.answers(token="t1")
    async with Client(load_kubeconfig(kubeconfig())) as client:
        await client.request("GET", "/version")
        server.token = "t2"
        plugin.answers(token="t2")
        await client.request("GET", "/version")
        assert server.seen == ["Bearer t1", "Bearer t1", "Bearer t2"]
        server.token = "t3"
        with pytest.raises(Unauthorized):
            await client.request("GET", "/version")
    assert len(plugin.runs()) == 3


async def test_plugin_that_fails_later_is_an_outage(
    server: Server, plugin: Plugin, kubeconfig: Callable[..., str]
) -> None:
    """As when its network is down: whoever retries while a server is unreachable, retries then."""
    plugin.answers(token="t1", expirationTimestamp=rfc3339(time.time() + 2))
    async with Client(load_kubeconfig(kubeconfig())) as client:
        await client.request("GET", "/version")
        plugin.program("import sys; sys.exit('no network')")
        with pytest.raises(Unreachable, match="failed with exit status 1: no network"):
            await client.request("GET", "/version")
        plugin.answers(token="t1")
        await client.request("GET", "/version")
        server.token = "t2"
        plugin.program("import sys; sys.exit('no network')")
        with pytest.raises(Unreachable, match="failed with exit status 1: no network"):
            await client.request("GET", "/version")
    assert server.seen == ["Bearer t1"] * 3


async def test_plugin_gives_a_client_certificate(
    server: Server, plugin: Plugin, kubeconfig: Callable[..., str], authority: Authority
) -> None:
    """It is used for new connections, and replaced with the next login."""
    john, jane = authority.issue("john"), authority.issue("jane")
    plugin.answers(clientCertificateData=john.certificate.decode(), clientKeyData=john.key.decode())
    async with Client(load_kubeconfig(kubeconfig())) as client:
        with pytest.raises(Unauthorized):
            await client.request("GET", "/version")
        plugin.answers(
            clientCertificateData=jane.certificate.decode(), clientKeyData=jane.key.decode()
        )
        await client.request("GET", "/version")
    assert server.seen == ["john", "john", "jane"]


async def test_cluster_is_described_where_the_kubeconfig_says_so(
    server: Server, plugin: Plugin, kubeconfig: Callable[..., str], authority: Authority
) -> None:
    """As client-go does, with the cluster's own settings for plugins."""
    plugin.answers(token="t1")
    await ask(kubeconfig(provideClusterInfo=True))
    (info,) = plugin.runs()
    cluster = info["spec"]["cluster"]
    assert cluster.pop("certificate-authority-data")
    assert cluster == {
        "server": server.url,
        "tls-server-name": "api.example",
        "config": {"audience": "x"},
    }


async def test_arguments_and_variables_are_passed_on(
    server: Server, plugin: Plugin, kubeconfig: Callable[..., str]
) -> None:
    """And those of hotmap's own environment stay."""
    plugin.program(
        "import os, sys, json\n"
        "token = sys.argv[1] + os.environ['PART'] if 'PATH' in os.environ else ''\n"
        f"print(json.dumps({{'kind': 'ExecCredential', 'apiVersion': {V1!r},"
        " 'status': {'token': token}}))"
    )
    await ask(kubeconfig(args=["t"], env=[{"name": "PART", "value": "1"}]))
    assert server.seen == ["Bearer t1"]


async def test_plugin_beside_the_kubeconfig_is_not_looked_up_in_path(
    server: Server,
    plugin: Plugin,
    kubeconfig: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where the kubeconfig is in the working directory, and PATH has a program like it."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "plugin").write_text("#!/bin/sh\nexit 1\n")
    (other / "plugin").chmod(0o700)
    monkeypatch.setenv("PATH", str(other), prepend=os.pathsep)
    plugin.answers(token="t1")
    path = Path(kubeconfig(command="./plugin"))
    monkeypatch.chdir(path.rename(plugin.directory / "kubeconfig").parent)
    (tmp_path / "ca.crt").rename("ca.crt")
    await ask("kubeconfig")
    assert server.seen == ["Bearer t1"]


async def test_token_in_the_kubeconfig_goes_over_the_plugin(
    server: Server, plugin: Plugin, kubeconfig: Callable[..., str]
) -> None:
    """As in client-go."""
    plugin.answers(token="other")
    await ask(kubeconfig(user={"token": "t1"}))
    assert plugin.runs() == []


HEAD = "user 'u' in kubeconfig {path}: credential plugin {plugin} "


@pytest.mark.parametrize(
    ("program", "settings", "words"),
    [
        (None, {}, "is not installed, or not in PATH"),
        (
            None,
            {"installHint": "Install it:\n\n  brew install x\n"},
            "is not installed, or not in PATH: Install it: brew install x",
        ),
        (None, {"command": "./bin"}, "is not an executable file"),
        (None, {"command": "./" + "x" * 300}, "is not installed, or not in PATH"),
        (
            "import sys; sys.stderr.write('one\\nno session; run login\\n\\n'); sys.exit(1)",
            {},
            "failed with exit status 1: no session; run login",
        ),
        ("import sys; print('geheim'); sys.exit(7)", {}, "failed with exit status 7"),
        ("import os; os.kill(os.getpid(), 9)", {}, "was terminated by signal 9"),
        ("print('geheim')", {}, "did not print an ExecCredential"),
        ('print(\'{"token": "geheim"}\')', {}, "did not print an ExecCredential"),
        ("pass", {}, "did not print an ExecCredential"),
        (
            {"apiVersion": V1BETA1, "status": {"token": "geheim"}},
            {},
            f"printed an ExecCredential of apiVersion '{V1BETA1}', and not '{V1}'",
        ),
        ({"status": {}}, {}, "returned neither a token nor a client certificate"),
        ({}, {}, "returned neither a token nor a client certificate"),
        (
            {"status": {"clientCertificateData": "geheim"}},
            {},
            "returned an incomplete client certificate, without its key",
        ),
        ({"status": {"token": "geheim geheim"}}, {}, "returned a token that contains white space"),
        (
            {"status": {"token": "geheim", "expirationTimestamp": "soon"}},
            {},
            "returned an expirationTimestamp that is not RFC 3339",
        ),
        (
            {"status": {"token": ["geheim"]}},
            {},
            "printed an invalid ExecCredential: Expected `str | null`, got `array` - at"
            " `$.status.token`",
        ),
        ("print('x' * (2 << 20))", {}, "printed more than 1 MiB"),
        (
            "while True: print('x' * 9999)",
            {},
            "returned no credentials within 1 s",
        ),
        (
            "import time; time.sleep(60)",
            {},
            "returned no credentials within 1 s",
        ),
        (
            "import subprocess; subprocess.run(['sleep', '60'])",
            {},
            "returned no credentials within 1 s",
        ),
        (
            "pass",
            {"interactiveMode": "Always"},
            "requires a terminal, but standard input is not one",
        ),
    ],
)
async def test_failing_plugin_is_one_sentence(
    plugin: Plugin,
    kubeconfig: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    program: str | dict[str, Any] | None,
    settings: dict[str, Any],
    words: str,
) -> None:
    """Who, which program, what happened; nothing of what it printed."""
    monkeypatch.setattr(exec_plugin, "_TIMEOUT", 1.0 if "1 s" in words else 30.0)
    if isinstance(program, dict):
        answer = {"kind": "ExecCredential", "apiVersion": V1, **program}
        program = f"print({json.dumps(answer)!r})"
    if program is not None:
        plugin.program(program)
    path = kubeconfig(**settings)
    with pytest.raises(SettingsError) as caught:
        await ask(path)
    command = plugin.directory.parent / settings.get("command", "bin/plugin")
    assert str(caught.value) == HEAD.format(path=path, plugin=command) + words
    assert "geheim" not in str(caught.value)


async def test_program_that_hangs_is_ended_with_its_children(
    plugin: Plugin, kubeconfig: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing of it is left behind."""
    monkeypatch.setattr(exec_plugin, "_TIMEOUT", 1.0)
    plugin.program(
        "import subprocess\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid))\n"
        "child.wait()"
    )
    with pytest.raises(SettingsError, match="within 1 s"):
        await ask(kubeconfig())
    child = int((tmp_path / "child").read_text())
    for _ in range(100):
        state = Path(f"/proc/{child}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the child still runs")


async def test_plugin_may_ask_a_person_at_a_terminal(
    server: Server, plugin: Plugin, kubeconfig: Callable[..., str]
) -> None:
    """`hotmap` on a terminal: the plugin reads from it, and its words are shown there."""
    plugin.program(
        "import sys, os, json\n"
        "spec = json.loads(os.environ['KUBERNETES_EXEC_INFO'])['spec']\n"
        "assert spec['interactive'] is True\n"
        "sys.stderr.write('Token: ')\n"
        "sys.stderr.flush()\n"
        "token = sys.stdin.readline().strip()\n"
        f"print(json.dumps({{'kind': 'ExecCredential', 'apiVersion': {V1!r},"
        " 'status': {'token': token}}))"
    )
    path = kubeconfig(interactiveMode="Always")
    master, slave = pty.openpty()
    code = (
        "import asyncio, sys\n"
        "from hotmap.kube.client import Client\n"
        "from hotmap.kube.kubeconfig import load_kubeconfig\n"
        "async def main():\n"
        "    async with Client(load_kubeconfig(sys.argv[1])) as client:\n"
        "        await client.request('GET', '/version')\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.to_thread(
        subprocess.Popen,
        [sys.executable, "-c", code, path],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={"PATH": os.environ["PATH"]},
    )
    os.close(slave)
    try:
        shown = await asyncio.to_thread(_read_until, master, b"Token: ")
        os.write(master, b"t1\n")
        assert await asyncio.to_thread(process.wait, 30) == 0, shown
    finally:
        process.kill()
        process.wait()
        os.close(master)
    assert server.seen == ["Bearer t1"]


def _read_until(descriptor: int, words: bytes) -> bytes:
    shown = b""
    while words not in shown:
        shown += os.read(descriptor, 1024)
    return shown
