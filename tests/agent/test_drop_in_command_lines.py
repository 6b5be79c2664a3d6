"""The command lines of configmap-reload and prometheus-config-reloader, as their docs describe."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.agent.agents import READER, TIMEOUT, Volume, eventually, free_port, webhook

from hotmap.agent.act.config_output import render
from hotmap.agent.act.http import redirect
from hotmap.agent.drop_in.configmap_reload import FLAGS as CONFIGMAP_FLAGS
from hotmap.agent.drop_in.configmap_reload import load as load_configmap_reload
from hotmap.agent.drop_in.prometheus_config_reloader import FLAGS as RELOADER_FLAGS
from hotmap.agent.settings.settings import Call
from hotmap.agent.settings.values import parse_url
from hotmap.core.errors import SettingsError

CONFIGMAP_RELOAD, RELOADER = "configmap-reload", "prometheus-config-reloader"


class DropIn:
    """A running agent with another program's command line."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def get(self, path: str) -> str:
        """Get a page; "" while there is no listener."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as page:
                text: str = page.read().decode()
                return text
        except urllib.error.HTTPError:
            raise
        except OSError:
            return ""

    def has_metric(self, line: str) -> bool:
        return f"{line}\n" in self.get("/metrics")


@contextmanager
def drop_in(folder: Path, program: str, *flags: object, **environment: str) -> Iterator[DropIn]:
    """Run one of the programs with its flags; it listens on a free port of the loopback."""
    port, log = free_port(), folder / "log"
    address = {CONFIGMAP_RELOAD: "-web.listen-address", RELOADER: "--listen-address"}[program]
    command = [sys.executable, "-m", "hotmap", program, f"{address}=127.0.0.1:{port}"]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*command, *map(str, flags)], stderr=output, env={**os.environ, **environment}
        )
    running = DropIn(process, port, log)
    try:
        yield running
    except AssertionError as error:
        raise AssertionError(f"{error}\n{running.log}") from None
    finally:
        process.terminate()
        process.wait(TIMEOUT)


def run(program: str, *flags: object, **environment: str) -> tuple[int, str, str]:
    """Run one of the programs to its end."""
    command = [sys.executable, "-m", "hotmap", program, *map(str, flags)]
    whole = {**os.environ, **environment}
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=TIMEOUT, env=whole
    )
    return done.returncode, done.stdout, done.stderr


@contextmanager
def responses(*heads: bytes, hang: bool = False) -> Iterator[tuple[int, list[bytes]]]:
    """Serve these responses, one for each connection, the last one again and again."""
    requests: list[bytes] = []
    listening = socket.create_server(("127.0.0.1", 0))
    kept = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            requests.append(connection.recv(65536))
            connection.sendall(heads[min(len(requests), len(heads)) - 1])
            kept.append(connection) if hang else connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listening.getsockname()[1], requests
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()
        for connection in kept:
            connection.close()


# configmap-reload


def test_configmap_reload_calls_each_webhook_once_per_change(tmp_path: Path) -> None:
    """Flags with one dash or two; method and status; several directories."""
    plain, long = Volume(tmp_path / "one", a="1"), Volume(tmp_path / "two", b="1")
    with webhook() as first, webhook() as second:
        first.status = second.status = 204
        flags = (
            *("-volume-dir", plain, f"--volume-dir={long}", f"-webhook-url={first.url}"),
            *("--webhook-url", second.url, "-webhook-method=PUT", "-webhook-status-code", "204"),
            "--webhook-retries=-1",
        )
        with drop_in(tmp_path, CONFIGMAP_RELOAD, *flags):
            for number in (1, 2):
                eventually(lambda n=number: len(first.calls) == len(second.calls) == n)
                if number == 1:
                    long.write(b="2")
        assert [method for method, *_ in (*first.calls, *second.calls)] == ["PUT"] * 4


def test_configmap_reload_last_value_of_a_repeated_flag_counts(tmp_path: Path) -> None:
    """As Go's flag package has it; what follows the flags is ignored."""
    volume = Volume(tmp_path / "volume", a="1")
    with webhook() as endpoint:
        upper = endpoint.url.replace("http://", "HTTP://")
        flags = (
            *("-webhook-method=GET", "-webhook-method=PUT", "-web.telemetry-path=/a"),
            *("-web.telemetry-path=/b", "-volume-dir", volume, "-volume-dir", volume),
            *("-webhook-url", upper, "ignored", "-webhook-method=POST"),
        )
        with drop_in(tmp_path, CONFIGMAP_RELOAD, *flags) as running:
            eventually(lambda: len(endpoint.calls) == 1)
            assert endpoint.calls[0][0] == "PUT"
            assert "configmap_reload_requests_total" in eventually(lambda: running.get("/b"))
            with pytest.raises(urllib.error.HTTPError):
                running.get("/a")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_configmap_reload_follows_redirects(tmp_path: Path, status: int) -> None:
    """To a path, then to a host; 307 and 308 keep the method."""
    volume = Volume(tmp_path / "volume", a="1")
    with webhook() as endpoint:
        path = f"HTTP/1.1 {status} Moved\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n"
        host = f"HTTP/1.1 {status} Moved\r\nLocation: {endpoint.url}\r\nContent-Length: 0\r\n\r\n"
        with responses(path.encode(), host.encode()) as (port, requests):
            flags = ("-volume-dir", volume, f"-webhook-url=http://a:b@127.0.0.1:{port}/here")
            with drop_in(tmp_path, CONFIGMAP_RELOAD, *flags) as running:
                eventually(lambda: len(endpoint.calls) == 1)
                method = "POST" if status in (307, 308) else "GET"
                assert endpoint.calls[0][0] == method
                assert "Authorization" not in endpoint.calls[0][2], "another host"
                assert requests[1].startswith(f"{method} /there HTTP/1.1\r\n".encode())
                assert b"Authorization: Basic" in requests[1], "the same host"
                label = f'webhook="http://***@127.0.0.1:{port}/here"'
                line = f"configmap_reload_success_reloads_total{{{label}}} 1"
                eventually(lambda: running.has_metric(line))


def test_redirects_are_followed_ten_times_at_most() -> None:
    """After ten, and at once for a call that follows none."""
    call: Call | None = Call(parse_url("http://a/b"), redirects=10)
    for _ in range(10):
        assert call is not None
        call = redirect(call, 302, "c?d")
    assert call is not None
    assert call.url.path == "/c?d"
    assert redirect(call, 302, "/c") is None
    assert redirect(Call(parse_url("http://a/b")), 302, "/c") is None
    assert redirect(Call(parse_url("http://a/b"), redirects=1), 302, "ftp://x") is None


@pytest.mark.parametrize(
    "location",
    [
        *("unix:///run/app.sock:/x", "/x HTTP/1.1\nHost: b", "/x\rY: 1", "/x y"),
        *("http://b/\x1b[31m", f"http://b:{'9' * 5000}/"),
    ],
    ids=["socket", "request", "header", "space", "escape", "port"],
)
def test_redirect_leads_nowhere_else(location: str) -> None:
    """Not to a socket of this container, and not to a request that the response has written."""
    assert redirect(Call(parse_url("http://a/b"), redirects=1), 302, location) is None


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("-volume-dir=/a -webhook-url=http://h/x", ("http://h:80/x", "POST", ("/a",))),
        ("--volume-dir /a --webhook-url http://h", ("http://h:80/", "POST", ("/a",))),
        ("-volume-dir -x -webhook-url=http://h", ("http://h:80/", "POST", ("{cwd}/-x",))),
        ("-volume-dir=/a -volume-dir=/b -volume-dir=/a -webhook-url=http://h",
         ("http://h:80/", "POST", ("/a", "/b"))),
        ("-volume-dir=rel -webhook-url=http://h", ("http://h:80/", "POST", ("{cwd}/rel",))),
        ("-volume-dir=/a -webhook-url=HTTPS://H:1/x?y=z#f", ("https://H:1/x?***", "POST", ("/a",))),
        ("-volume-dir=/a -webhook-url=http://[::1]:9/x", ("http://[::1]:9/x", "POST", ("/a",))),
        ("-volume-dir=/a -webhook-url=http://u:p%40@h/", ("http://***@h:80/", "POST", ("/a",))),
        ("-volume-dir=/a -webhook-url=http://h -webhook-method=PUT -webhook-method=GET",
         ("http://h:80/", "GET", ("/a",))),
        ("-volume-dir=/a -webhook-url=http://h -webhook-retries=-1",
         ("http://h:80/", "POST", ("/a",))),
        ("-volume-dir=/a -webhook-url=http://h -- -nonsense", ("http://h:80/", "POST", ("/a",))),
        ("-volume-dir=/a -webhook-url=http://h - -nonsense", ("http://h:80/", "POST", ("/a",))),
        ("-volume-dir=/a -webhook-url=http://h word -webhook-method=PUT",
         ("http://h:80/", "POST", ("/a",))),
        ("-webhook-url=http://h -volume-dir=/a -webhook-status-code 201",
         ("http://h:80/", "POST", ("/a",))),
        ("-volume-dir=/a -webhook-url=http://h ---x", "unknown flag ---x"),
        ("-volume-dir=/a -webhook-url=http://h -=x", "unknown flag -"),
        ("-volume-dir=/a -webhook-url=http://h --=x", "unknown flag --"),
        ("-volume-dir=/a -webhook-url=ftp://h",
         "-webhook-url: invalid URL: expected a form such as http://127.0.0.1:8080/-/reload"),
        ("-volume-dir=/a -webhook-url=http://h:99999",
         "-webhook-url: invalid port: expected a number from 0 to 65535 after the last colon"),
        ("-volume-dir= -webhook-url=http://h",
         '-volume-dir: invalid path "": must not be empty or contain a NUL byte'),
        ("-volume-dir=/a -webhook-url=http://h -web.listen-address=9533",
         '-web.listen-address: invalid address "9533": expected :9533, 127.0.0.1:9533 or none'),
    ],
)  # fmt: skip
def test_configmap_reload_command_line_is_read_as_by_go(
    words: str, expected: tuple[str, str, tuple[str, ...]] | str
) -> None:
    """One dash or two, values that look like flags, where flags end, which value counts."""
    if isinstance(expected, str):
        with pytest.raises(SettingsError) as caught:
            load_configmap_reload(words.split(" "))
        assert str(caught.value) == expected
        return
    found = load_configmap_reload(words.split(" "))
    call = found.rules[0].actions[0].call
    assert call is not None
    url, method, directories = expected
    assert (str(call.url), call.method) == (url, method)
    assert found.watch.directories == tuple(each.format(cwd=Path.cwd()) for each in directories)


def test_body_that_never_ends_is_not_waited_for(tmp_path: Path) -> None:
    """The status says all: a 200 whose body hangs is a success at once."""
    volume = Volume(tmp_path / "volume", a="1")
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
    with responses(head, hang=True) as (port, requests):
        flags = ("-volume-dir", volume, f"-webhook-url=http://127.0.0.1:{port}/")
        with drop_in(tmp_path, CONFIGMAP_RELOAD, *flags) as running:
            line = f'configmap_reload_success_reloads_total{{webhook="http://127.0.0.1:{port}/"}} 1'
            eventually(lambda: running.has_metric(line))
            assert len(requests) == 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("-webhook-url=http://x",), "-volume-dir is required"),
        (("-volume-dir=/x",), "-webhook-url is required"),
        (("-nonsense",), "unknown flag -nonsense"),
        (("-volume-dir",), "-volume-dir requires a value"),
        (
            ("-volume-dir=/x", "-webhook-url=http://x", "-webhook-retries=--5"),
            '-webhook-retries: invalid number "--5": expected an integer',
        ),
        (
            ("-volume-dir=/x", "-webhook-url=http://x", "-webhook-status-code=x"),
            '-webhook-status-code: invalid list of HTTP status codes "x": expected 200, 200,204 or '
            "2xx",
        ),
    ],
)
def test_configmap_reload_invalid_flags_are_one_sentence(
    flags: tuple[str, ...], message: str
) -> None:
    """With exit status 2."""
    assert run(CONFIGMAP_RELOAD, *flags) == (2, "", f"configmap-reload: {message}\n")


@pytest.mark.parametrize("program", [CONFIGMAP_RELOAD, RELOADER])
def test_program_name_selects_the_command_line(tmp_path: Path, program: str) -> None:
    """As the name of the executable, installed or as one file, and as the first argument."""
    assert f"Usage: {program}" in run(program, "--help")[1]
    installed = Path(sys.executable).parent / "hotmap"
    if installed.exists():
        link = tmp_path / program
        link.symlink_to(installed)
        done = subprocess.run([link, "--help"], check=True, capture_output=True, text=True)
        assert f"Usage: {program}" in done.stdout
    archive = tmp_path / "agent.pyz"
    subprocess.run([sys.executable, "-m", "hotmap", "agent", "copy", archive], check=True)
    named = tmp_path / "bin" / program
    named.parent.mkdir()
    shutil.copy(archive, named)
    words = [sys.executable, str(named), "--help"]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    assert f"Usage: {program}" in done.stdout


# prometheus-config-reloader


def test_reloader_renders_the_file_before_it_reloads(tmp_path: Path) -> None:
    """Decompressed and with variables; unknown ones stay and are counted."""
    text = b"replica: $(POD_NAME)-$(STATEFULSET_ORDINAL_NUMBER) $(NOT_SET) $$(SHARD) ${SHARD}\n"
    volume, output = Volume(tmp_path / "volume"), tmp_path / "out.yaml"
    volume.publish({"prometheus.yaml.gz": gzip.compress(text)})
    seen: list[str] = []
    with webhook(called=lambda: seen.append(output.read_text())) as endpoint:
        flags = (
            f"--config-file={volume}/prometheus.yaml.gz", f"--config-envsubst-file={output}",
            f"--reload-url={endpoint.url}", "--delay-interval=10ms",
        )  # fmt: skip
        with drop_in(tmp_path, RELOADER, *flags, POD_NAME="prom-12", SHARD="3") as running:
            eventually(lambda: len(seen) == 1)
            assert seen == ["replica: prom-12-12 $(NOT_SET) $3 ${SHARD}\n"]
            assert output.stat().st_mode & 0o777 == 0o644
            name = "reloader_config_environment_variable_expansion_errors"
            eventually(lambda: running.has_metric(f"{name} 1"))
            volume.publish({"prometheus.yaml.gz": b"plain $(SHARD)\n"})
            eventually(lambda: seen[1:] == ["plain 3\n"])
            eventually(lambda: running.has_metric(f"{name} 0"))
            for line in (
                "reloader_reloads_total 2", "reloader_reloads_failed_total 0",
                "reloader_last_reload_successful 1", 'reloader_info{method="http"} 1',
                "reloader_config_apply_operations_total 2", "reloader_watches 1",
                "reloader_config_apply_operations_failed_total 0",
            ):  # fmt: skip
                eventually(lambda line=line: running.has_metric(line), line)
            running.process.terminate()
            assert running.process.wait(TIMEOUT) == 0
        assert not list(tmp_path.glob("*.tmp"))


def test_reloader_retries_until_the_reload_succeeds(tmp_path: Path) -> None:
    """After --retry-interval; metrics tell, and a revert meanwhile is loaded too."""
    volume = Volume(tmp_path / "rules", a="1")
    with webhook() as endpoint:
        endpoint.status = 500
        flags = (
            f"--watched-dir={volume}", f"--reload-url={endpoint.url}",
            "--retry-interval=20ms", "--delay-interval=0s",
        )  # fmt: skip
        with drop_in(tmp_path, RELOADER, *flags) as running:
            eventually(lambda: len(endpoint.calls) > 2)
            assert running.has_metric("reloader_last_reload_successful 0")
            endpoint.status = 200
            eventually(lambda: running.has_metric("reloader_last_reload_successful 1"))
            calls = len(endpoint.calls)
            volume.write(a="2")
            eventually(lambda: len(endpoint.calls) == calls + 1)


def test_reloader_ignores_other_files_beside_the_config_file(tmp_path: Path) -> None:
    """Only the file counts, in a volume and in a plain directory."""
    plain, output = tmp_path / "plain", tmp_path / "plain" / "out.yaml"
    plain.mkdir()
    (plain / "in.yaml").write_text("one")
    with webhook() as endpoint:
        flags = (
            f"--config-file={plain}/in.yaml", f"--config-envsubst-file={output}",
            f"--reload-url={endpoint.url}", "--delay-interval=10ms",
        )  # fmt: skip
        with drop_in(tmp_path, RELOADER, *flags) as running:
            eventually(lambda: running.has_metric("reloader_reloads_total 1"))
            (plain / "other").write_text("x")
            (plain / "in.yaml").write_text("two")
            eventually(lambda: running.has_metric("reloader_reloads_total 2"))
            assert output.read_text() == "two"
            time.sleep(1.5)
            assert running.has_metric("reloader_reloads_total 2")


def test_reloader_init_mode_renders_once(tmp_path: Path) -> None:
    """--watch-interval=0: no reload, no port, exit status 0."""
    volume, output = Volume(tmp_path / "volume", c="$(A)"), tmp_path / "out"
    flags = (f"--config-file={volume}/c", f"--config-envsubst-file={output}", "--watch-interval=0")
    more = ("--listen-address=:8081", f"--watched-dir={tmp_path}/missing")
    status, _, log = run(RELOADER, *flags, *more, A="b")
    assert (status, output.read_text()) == (0, "b"), log


class _Runtime:
    """Prometheus' runtimeinfo, which shows a load of a process some time after it."""

    def __init__(self, loads: Any) -> None:
        runtime = self
        self.success = True

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                data = {"reloadConfigSuccess": runtime.success, "lastConfigTime": str(len(loads()))}
                body = json.dumps({"status": "success", "data": data}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/api/v1/status/runtimeinfo"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@contextmanager
def named_reader(folder: Path, source: Path, name: str) -> Iterator[Path]:
    """Run a process with a name of its own that loads a file at each HUP; gives its loads."""
    program, output = folder / name, folder / "loaded"
    program.symlink_to(os.path.realpath(sys.executable))
    with subprocess.Popen([program, "-S", "-c", READER, source, output]) as process:
        try:
            eventually(Path(f"{output}.pid").exists)
            yield output
        finally:
            process.kill()


def test_reloader_signals_and_asks_runtimeinfo(tmp_path: Path) -> None:
    """SIGHUP by executable name; reloadConfigSuccess and lastConfigTime decide what is loaded."""
    volume, name = Volume(tmp_path / "volume", text="one"), f"prom{os.getpid()}"
    with named_reader(tmp_path, volume.path / "text", name) as loaded:
        runtime = _Runtime(lambda: loaded.read_text().splitlines())
        flags = (
            f"--config-file={volume}/text", "--reload-method=signal", "--delay-interval=10ms",
            f"--process-executable-name={name}", f"--runtimeinfo-url={runtime.url}",
            "--reload-timeout=500ms", "--retry-interval=20ms",
        )  # fmt: skip
        try:
            with drop_in(tmp_path, RELOADER, *flags) as running:
                eventually(lambda: running.has_metric("reloader_last_reload_successful 1"))
                assert running.has_metric('reloader_info{method="signal"} 1')
                runtime.success = False
                volume.write(text="two")
                eventually(lambda: running.has_metric("reloader_last_reload_successful 0"))
                assert "data.reloadConfigSuccess is not true" in running.log
                runtime.success = True
                eventually(lambda: running.has_metric("reloader_last_reload_successful 1"))
                assert loaded.read_text().splitlines()[-1].endswith(" two")
        finally:
            runtime.close()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--nonsense",), "unknown flag --nonsense"),
        (("-config-file=x",), 'unexpected argument "-config-file"'),
        (("--config-file=/x", "--config-file=/y"), "--config-file must not be repeated"),
        (
            ("--watched-dir=",),
            '--watched-dir: invalid path "": must not be empty or contain a NUL byte',
        ),
        (("--reload-method=x",), "--reload-method: expected http, signal, got 'x'"),
        (("--reload-timeout=0",), '--reload-timeout: invalid duration "0": must be more than 0'),
        (("--log-level=x",), "--log-level: expected all, debug, info, warn, error, none, got 'x'"),
        (
            ("--config-file=/x", "--delay-interval=x"),
            '--delay-interval: invalid duration "x": expected a number with a unit, such as 500ms '
            "or 5s",
        ),
    ],
)
def test_reloader_invalid_flags_are_one_sentence(flags: tuple[str, ...], message: str) -> None:
    """With exit status 2."""
    assert run(RELOADER, *flags) == (2, "", f"prometheus-config-reloader: {message}\n")


def test_reloader_version_is_printed_with_status_0() -> None:
    """Exit status 0."""
    status, long, _ = run(RELOADER, "--version")
    assert (status, long.split()[0]) == (0, "prometheus-config-reloader")
    assert run(RELOADER, "--short-version")[1].strip() == long.split()[-1]


def test_config_output_is_rendered_by_reloaders_rules() -> None:
    """Names, escapes, what is put in, and broken gzip."""
    environment = {b"A": b"$(B)", b"B": b"b", b"_1": b""}
    assert render(b"$(A) $(B)$(_1) $(C-D) $( B) $(B", environment) == (
        b"$(B) b $(C-D) $( B) $(B",
        0,
    )
    assert render(b"", environment) == (b"", 0)
    assert render(b"\x1f", environment) == (b"\x1f", 0)
    twice = gzip.compress(b"$(B)") + gzip.compress(b"$(X)")
    assert render(twice, environment) == (b"b$(X)", 1)
    for broken in (gzip.compress(b"text")[:-9], b"\x1f\x8b\x08nonsense"):
        with pytest.raises(ValueError, match=r"compressed file is cut off|not valid gzip"):
            render(broken, environment)
    with pytest.raises(ValueError, match="more than 67108864 bytes"):
        render(gzip.compress(bytes(70 << 20)), environment)


@pytest.mark.parametrize(
    ("page", "flags"),
    [("configmap-reload.md", CONFIGMAP_FLAGS), ("prometheus-config-reloader.md", RELOADER_FLAGS)],
    ids=[CONFIGMAP_RELOAD, RELOADER],
)
def test_guide_names_every_flag(page: str, flags: dict[str, object]) -> None:
    """With what it does here."""
    text = (Path(__file__).parents[2] / "docs" / "guides" / page).read_text()
    assert [name for name in flags if f"`--{name}" not in text] == []
