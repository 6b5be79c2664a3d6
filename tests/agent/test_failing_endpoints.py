"""An endpoint that is down, returns errors, hangs or is not trusted: no change is lost."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.agents import TIMEOUT, Volume, agent, eventually, free_port, webhook
from tests.support.certificates import Authority, as_lenient_as_go, encrypted
from tests.support.processes import members_of


def test_unavailable_endpoint_is_called_when_it_is_back(tmp_path: Path) -> None:
    """Without a listener the rule is failing, with a message; once there is one, it is loaded."""
    volume, port = Volume(tmp_path / "volume", text="one"), free_port()
    url = f"http://127.0.0.1:{port}/-/reload"
    with agent(tmp_path, "--dir", volume, "--url", url) as running:
        assert f"cannot reach {url}: connection refused" in running.reaches("failing")["message"]
        eventually(lambda: running.rule()["consecutive_failures"] > 4)
        with webhook(port) as endpoint:
            running.reaches("loaded")
            assert len(endpoint.calls) == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["away", "500", "hangs"])
def test_endpoint_without_accept_for_a_minute_is_called_later(tmp_path: Path, kind: str) -> None:
    """A real minute with the default pauses: the newest content is loaded, once it takes it."""
    volume, port = Volume(tmp_path / "volume", text="one"), free_port()
    defaults = ("--retry-first", "250ms", "--retry-max", "15s", "--settle", "100ms")
    limit = ("--action-timeout", "10s") if kind == "hangs" else ()
    flags = ("--dir", volume, "--url", f"http://127.0.0.1:{port}/-/reload", *defaults, *limit)
    with contextlib.ExitStack() as stack:
        if kind != "away":
            endpoint = stack.enter_context(webhook(port))
            endpoint.status = 500
            if kind == "hangs":
                endpoint.hang.clear()
        running = stack.enter_context(agent(tmp_path, *flags))
        running.reaches("failing")
        time.sleep(30)
        volume.write(text="two")
        time.sleep(30)
        assert running.status()["state"] in ("failing", "pending")
        if kind == "away":
            endpoint = stack.enter_context(webhook(port))
        endpoint.status = 200
        endpoint.hang.set()
        running.reaches("loaded")
        assert running.rule()["loads"] == 1


def test_unanswered_call_delays_no_other_rule(tmp_path: Path) -> None:
    """The endpoint forgets one call and answers the others: the next change is delivered."""
    volume = Volume(tmp_path / "volume", text="one")
    with webhook() as endpoint:
        forgotten, endpoint.hang = endpoint.hang, threading.Event()
        flags = ("--dir", volume, "--url", endpoint.url, "--action-timeout", "300ms")
        with agent(tmp_path, *flags) as running:
            eventually(lambda: len(endpoint.calls) == 1)
            endpoint.hang, never = forgotten, endpoint.hang
            volume.write(text="two")
            running.reaches("loaded")
            assert len(endpoint.calls) == 2
            never.set()


def test_unexpected_status_is_a_failure(tmp_path: Path) -> None:
    """Only accepted statuses are; a redirect is not followed."""
    volume = Volume(tmp_path / "volume", text="one")
    with webhook() as endpoint:
        endpoint.status = 302
        flags = ("--dir", volume, "--url", endpoint.url, "--status", "200,204")
        with agent(tmp_path, *flags) as running:
            assert "returned 302 Found, expected 200, 204" in running.reaches("failing")["message"]
            endpoint.status = 204
            running.reaches("loaded")
            assert {path for _, path, _, _ in endpoint.calls} == {"/-/reload"}


def test_hanging_endpoint_delays_neither_rules_nor_changes(tmp_path: Path) -> None:
    """A call that hangs is cut off; meanwhile other rules act, and newer content is not lost."""
    volume = Volume(tmp_path / "volume", text="one")
    rules = tmp_path / "rules.toml"
    with webhook() as endpoint:
        endpoint.hang.clear()
        rules.write_text(
            f"""
            [[rule]]
            name = "hangs"
            actions = [{{ http = "{endpoint.url}" }}]
            [[rule]]
            name = "works"
            actions = [{{ exec = ["sh", "-c", "echo x >> {tmp_path}/done"] }}]
            """
        )
        flags = ("--dir", volume, "--rules", rules, "--action-timeout", "300ms")
        with agent(tmp_path, *flags) as running:
            eventually((tmp_path / "done").exists)
            volume.write(text="two")
            eventually(lambda: (tmp_path / "done").read_text() == "x\nx\n")
            assert "within 0.3s" in running.reaches("failing")["message"]
            endpoint.hang.set()
            running.reaches("told")


def test_revert_after_a_failed_load_loads_again(tmp_path: Path) -> None:
    """The endpoint may have taken the new content although it answered 500."""
    volume = Volume(tmp_path / "volume", text="one")
    with webhook() as endpoint, agent(tmp_path, "--dir", volume, "--url", endpoint.url) as running:
        running.reaches("loaded")
        endpoint.status = 500
        volume.write(text="two")
        running.reaches("failing")
        endpoint.status = 200
        calls = len(endpoint.calls)
        volume.write(text="one")
        running.reaches("loaded")
        assert len(endpoint.calls) > calls


def test_request_has_method_headers_and_body(tmp_path: Path) -> None:
    """Method, headers, body and credentials from files, which are read for each call."""
    volume, token = Volume(tmp_path / "volume", text="one"), tmp_path / "token"
    token.write_text("first\n")
    flags = (
        *("--method", "put", "--header", "X-Reason: reload", "--body", '{"now": true}'),
        *("--token", token),
    )
    with webhook() as endpoint:
        with agent(tmp_path, "--dir", volume, "--url", endpoint.url, *flags) as running:
            running.reaches("loaded")
            token.write_text("second\n")
            volume.write(text="two")
            eventually(lambda: len(endpoint.calls) == 2)
        (method, _, headers, body), (_, _, later, _) = endpoint.calls
        assert (method, body, headers["X-Reason"]) == ("PUT", b'{"now": true}', "reload")
        assert headers["Authorization"] == "Bearer first"
        assert later["Authorization"] == "Bearer second"


def test_header_replaces_the_default_in_any_case(tmp_path: Path) -> None:
    """A request with two Host headers is refused by servers (RFC 9112, section 3.2)."""
    volume = Volume(tmp_path / "volume", text="one")
    headers = ("--header", "host: app.example", "--header", "USER-AGENT: reload")
    with webhook() as endpoint:
        with agent(tmp_path, "--dir", volume, "--url", endpoint.url, *headers) as running:
            running.reaches("loaded")
        sent = [(name.lower(), value) for name, value in endpoint.calls[0][2].items()]
        assert sorted(sent)[-2:] == [("host", "app.example"), ("user-agent", "reload")]
        assert len(dict(sent)) == len(sent)


def test_request_body_that_is_not_utf8_is_sent(tmp_path: Path) -> None:
    """The bytes of the command line, as they are."""
    volume, body = Volume(tmp_path / "volume", text="one"), b"caf\xe9"
    with webhook() as endpoint:
        flags = ("--dir", volume, "--url", endpoint.url, "--body", os.fsdecode(body))
        with agent(tmp_path, *flags) as running:
            running.reaches("loaded")
        assert endpoint.calls[0][3] == body


@pytest.mark.parametrize("host", ["x" * 64, "a..b"])
def test_host_that_is_not_a_name_is_reported(tmp_path: Path, host: str) -> None:
    """One sentence, as of a name that does not resolve."""
    volume = Volume(tmp_path / "volume", text="one")
    with agent(tmp_path, "--dir", volume, "--url", f"http://{host}/") as running:
        message = running.reaches("failing")["message"]
    assert message == f"default: cannot resolve the host of http://{host}:80/: invalid name"


def test_url_credentials_are_used_and_never_shown(tmp_path: Path) -> None:
    """user:password@ and a query are sent; log, status and metrics have *** instead."""
    volume, port = Volume(tmp_path / "volume", text="one"), free_port()
    url = f"http://admin:hunter2@127.0.0.1:{port}/reload?authKey=s3cret"
    with agent(tmp_path, "--dir", volume, "--url", url) as running:
        running.reaches("failing")
        with webhook(port) as endpoint:
            running.reaches("loaded")
            _, path, headers, _ = endpoint.calls[0]
        assert path == "/reload?authKey=s3cret"
        assert headers["Authorization"] == "Basic YWRtaW46aHVudGVyMg=="
        shown = running.log + running.get("/status")[1] + running.get("/metrics")[1]
        assert f"http://***@127.0.0.1:{port}/reload?***" in shown
        assert "hunter2" not in shown
        assert "s3cret" not in shown


def test_tls_certificate_is_verified(tmp_path: Path) -> None:
    """A server whose certificate is not trusted is not called; with its CA it is."""
    authority = Authority("an authority")
    ca = tmp_path / "ca.pem"
    ca.write_bytes(authority.pem)
    tls = authority.server_context(tmp_path, "localhost", "127.0.0.1")
    volume = Volume(tmp_path / "volume", text="one")
    with webhook(tls=tls) as endpoint:
        flags = ("--dir", volume, "--url", endpoint.url)
        with agent(tmp_path / "one", *flags) as running:
            assert "is not trusted" in running.reaches("failing")["message"]
        with agent(tmp_path / "two", *flags, "--ca", ca) as running:
            running.reaches("loaded")
        assert len(endpoint.calls) == 1


def test_endpoint_with_an_expired_certificate_is_called_after_its_renewal(tmp_path: Path) -> None:
    """The change is kept meanwhile, and the message says what is wrong."""
    authority, ca = Authority("an authority"), tmp_path / "ca.pem"
    ca.write_bytes(authority.pem)
    pem = tmp_path / "server.pem"

    def write(*, expired: bool) -> Path:
        pair = authority.issue("localhost", address="127.0.0.1", expired=expired)
        pem.write_bytes(pair.certificate + pair.key)
        return pem

    tls = as_lenient_as_go(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))
    tls.load_cert_chain(write(expired=True))
    volume = Volume(tmp_path / "volume", text="one")
    with webhook(tls=tls) as endpoint:
        flags = ("--dir", volume, "--url", endpoint.url, "--ca", ca)
        with agent(tmp_path / "agent", *flags) as running:
            assert "certificate has expired" in running.reaches("failing")["message"]
            assert endpoint.calls == []
            tls.load_cert_chain(write(expired=False))
            running.reaches("loaded")
        assert len(endpoint.calls) == 1


def test_client_certificate_is_sent(tmp_path: Path) -> None:
    """Mutual TLS: without the certificate the call fails, with it it succeeds."""
    authority = Authority("an authority")
    ca, pair = tmp_path / "ca.pem", authority.issue("agent")
    ca.write_bytes(authority.pem)
    (tmp_path / "client.pem").write_bytes(pair.certificate)
    (tmp_path / "client.key").write_bytes(pair.key)
    tls = authority.server_context(tmp_path, "localhost", "127.0.0.1")
    tls.load_verify_locations(ca)
    tls.verify_mode = ssl.CERT_REQUIRED
    volume = Volume(tmp_path / "volume", text="one")
    with webhook(tls=tls) as endpoint:
        flags = ("--dir", volume, "--url", endpoint.url, "--ca", ca)
        with agent(tmp_path / "one", *flags) as running:
            # The endpoint may close the connection before the request is written.
            assert "cannot reach https://" in running.reaches("failing")["message"]
        client = ("--client-cert", tmp_path / "client.pem", "--client-key", tmp_path / "client.key")
        with agent(tmp_path / "two", *flags, *client) as running:
            running.reaches("loaded")


@pytest.mark.parametrize("in_rules", [False, True], ids=["flags", "rules"])
def test_certificates_are_used_for_probes_too(tmp_path: Path, in_rules: bool) -> None:
    """An endpoint with a certificate of the cluster's own authority can confirm a reload."""
    authority, volume = Authority("an authority"), Volume(tmp_path / "volume", text="one")
    pair, files = authority.issue("agent"), [tmp_path / name for name in ("ca", "cert", "key")]
    for file, data in zip(files, (authority.pem, pair.certificate, pair.key), strict=True):
        file.write_bytes(data)
    tls = authority.server_context(tmp_path, "localhost", "127.0.0.1")
    tls.load_verify_locations(files[0])
    tls.verify_mode = ssl.CERT_REQUIRED
    with webhook(tls=tls) as endpoint:
        flags = ["--dir", volume, "--ca", files[0], "--client-cert", files[1]]
        flags += ["--client-key", files[2]]
        if in_rules:
            rules = tmp_path / "rules.toml"
            rules.write_text(
                f"""[[rule]]\nname = "a"\nfiles = ["*"]\nactions = [{{ touch = "{tmp_path}/t" }}]
                verify = ["http {endpoint.url}"]\n"""
            )
            flags += ["--rules", rules]
        else:
            flags += ["--touch", tmp_path / "t", "--verify", f"http {endpoint.url}"]
        with agent(tmp_path, *flags) as running:
            running.reaches("loaded")
        assert endpoint.calls


#: Makes a call that writes to a connection which the other side has closed, and prints its end.
CLOSED = """
import os
from hotmap.agent.process.child_processes import ChildProcesses
from hotmap.agent.runtime.loop import Loop
loop, outcomes = Loop(), []
reader, writer = os.pipe()
os.close(reader)
def call(): os.write(writer, b"x")
ChildProcesses(loop).run_function(call, seconds=60, done=outcomes.append)
while not outcomes: loop.turn()
print(outcomes[0].status, outcomes[0].output)
"""


def test_call_on_a_closed_connection_has_a_reason() -> None:
    """SIGPIPE would end the child that makes it, without a word."""
    done = subprocess.run(
        [sys.executable, "-c", CLOSED], check=True, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert done.stdout.startswith("1 ")
    assert "broken pipe" in done.stdout.lower()


def test_endpoint_without_tls_is_reported(tmp_path: Path) -> None:
    """An https URL of an http endpoint: the words of OpenSSL would not say so."""
    volume = Volume(tmp_path / "volume", text="one")
    with webhook() as endpoint:
        url = endpoint.url.replace("http:", "https:")
        with agent(tmp_path, "--dir", volume, "--url", url) as running:
            message = running.reaches("failing")["message"]
    assert message == (
        f"default: cannot reach {url}: it does not speak TLS; use http:// for such an endpoint"
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing", "no such file or directory"),
        ("other", "key values mismatch"),
        ("encrypted", "the private key is encrypted"),
    ],
)
def test_unusable_client_certificate_is_named(tmp_path: Path, name: str, reason: str) -> None:
    """OpenSSL would ask for the password of an encrypted key, and wait for it."""
    authority = Authority("an authority")
    pair, certificate, key = authority.issue("agent"), tmp_path / "a.pem", tmp_path / name
    certificate.write_bytes(pair.certificate)
    if name == "other":
        key.write_bytes(authority.issue("other").key)
    elif name == "encrypted":
        key.write_bytes(encrypted(pair.key))
    volume = Volume(tmp_path / "volume", text="one")
    with webhook(tls=authority.server_context(tmp_path, "localhost", "127.0.0.1")) as endpoint:
        client = ("--client-cert", certificate, "--client-key", key)
        with agent(tmp_path, "--dir", volume, "--url", endpoint.url, *client) as running:
            message = running.reaches("failing")["message"]
    assert message == (
        f"default: cannot call {endpoint.url}: cannot read {certificate} and {key}: {reason}"
    )


def test_unix_socket_endpoint_is_called(tmp_path: Path) -> None:
    """unix:SOCKET:/PATH calls a server that listens on a socket file."""
    volume = Volume(tmp_path / "volume", text="one")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "app.sock"))
        listening.listen()
        listening.settimeout(TIMEOUT)
        with agent(tmp_path, "--dir", volume, "--url", f"unix:{tmp_path}/app.sock:/re") as running:
            connection, _ = listening.accept()
            with connection:
                assert connection.recv(4096).startswith(b"POST /re HTTP/1.1\r\n")
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            running.reaches("loaded")


@contextlib.contextmanager
def listener() -> Iterator[tuple[socket.socket, str]]:
    """Listen for what a test answers itself; yields the socket and its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(TIMEOUT)
        yield listening, f"http://127.0.0.1:{listening.getsockname()[1]}/"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "no response from"),
        (b"garbage\r\n\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 OK\r\n\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 200", "does not speak HTTP"),
        (b"\x16\x03\x01" * 9, "does not speak HTTP"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "no response from"),
    ],
    ids=["nothing", "garbage", "no status", "half a line", "binary", "only an announcement"],
)
def test_response_that_is_not_http_is_reported(tmp_path: Path, answer: bytes, words: str) -> None:
    """An endpoint that speaks something else is one sentence; the agent stays up."""
    volume = Volume(tmp_path / "volume", text="one")
    with (
        listener() as (listening, url),
        agent(tmp_path, "--dir", volume, "--url", url, "--retry-first", "9s") as running,
    ):
        connection, _ = listening.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(answer)
        assert words in running.reaches("failing")["message"]


def test_failing_endpoint_does_not_delay_another_one(tmp_path: Path) -> None:
    """Each URL is a rule of its own: the second is called while the first is down."""
    volume = Volume(tmp_path / "volume", text="one")
    down = f"http://127.0.0.1:{free_port()}/"
    with webhook() as endpoint:
        flags = ("--dir", volume, "--url", down, "--url", endpoint.url)
        with agent(tmp_path, *flags) as running:
            eventually(lambda: len(endpoint.calls) == 1)
            volume.write(text="two")
            eventually(lambda: len(endpoint.calls) == 2)
            assert running.reaches("failing")["message"].startswith("url-1: cannot reach")
            eventually(lambda: running.rule("url-2")["state"] == "loaded")


def test_urls_before_a_restart_are_called_in_order(tmp_path: Path) -> None:
    """A drain has to succeed before the process is stopped."""
    volume = Volume(tmp_path / "volume", text="one")
    with webhook() as first, webhook() as second:
        first.status = 500
        flags = ("--dir", volume, "--url", first.url, "--url", second.url)
        words = ("--restart", "supervised", "--", "sleep", "600")
        with agent(tmp_path, *flags, *words) as running:
            running.reaches("loaded")
            volume.write(text="two")
            running.reaches("failing")
            assert not second.calls
            first.status = 200
            eventually(lambda: running.status()["application"]["starts"] == 2)
            assert len(second.calls) == 1


#: Responses that never end, before and after their status.
ENDLESS = {
    "chunked body": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"5\r\nhello\r\n"),
    "body without length": (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 1000),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X-Header: x\r\n"),
    "early hints": (b"", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"),
}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("kind", ENDLESS)
def test_response_without_end_is_bounded(tmp_path: Path, kind: str, host: str) -> None:
    """What is read of it stays far inside the memory limit of an injected agent."""
    volume = Volume(tmp_path / "volume", text="one")
    head, piece = ENDLESS[kind]
    over = threading.Event()

    def serve(listening: socket.socket) -> None:
        while not over.is_set():
            with contextlib.suppress(OSError):
                connection, _ = listening.accept()
                with connection:
                    connection.sendall(head)
                    while not over.is_set():
                        connection.sendall(piece * 500)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.2)
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        try:
            url = f"http://{host}:{listening.getsockname()[1]}/"
            with agent(tmp_path, "--dir", volume, "--url", url, "--retry-first", "9s") as running:
                if "body" in kind:
                    running.reaches("loaded")
                else:
                    assert "does not speak HTTP" in running.reaches("failing")["message"]
                assert _peak_memory(running.pid) < 24 << 20
        finally:
            over.set()
            thread.join()


def test_status_counts_although_the_body_hangs(tmp_path: Path) -> None:
    """The endpoint has decided once its status is there."""
    volume = Volume(tmp_path / "volume", text="one")
    with (
        listener() as (listening, url),
        agent(tmp_path, "--dir", volume, "--url", url) as running,
    ):
        connection, _ = listening.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
            running.reaches("loaded")


def test_status_counts_although_the_connection_is_reset(tmp_path: Path) -> None:
    """As by a script that reads one line only: its answer is there, so it is not called again."""
    volume = Volume(tmp_path / "volume", text="one")
    with (
        listener() as (listening, url),
        agent(tmp_path, "--dir", volume, "--url", url, "--retry-first", "9s") as running,
    ):
        connection, _ = listening.accept()
        connection.recv(4)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        connection.close()
        eventually(lambda: running.rule()["loads"] + running.rule()["failures"])
        assert running.rule()["failures"] == 0


def _peak_memory(pid: int) -> int:
    """Return the most that a process had resident so far, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))


def test_status_500_is_retried(tmp_path: Path) -> None:
    """However long an endpoint answers 500, the content is loaded afterwards."""
    volume = Volume(tmp_path / "volume", text="one")
    with webhook() as endpoint:
        endpoint.status = 500
        with agent(tmp_path, "--dir", volume, "--url", endpoint.url) as running:
            eventually(lambda: len(endpoint.calls) > 5)
            endpoint.status = 200
            running.reaches("loaded")


def test_hanging_command_is_killed_with_its_children(tmp_path: Path) -> None:
    """It is killed with its family when its time is over, and tried again."""
    volume, allowed = Volume(tmp_path / "volume", text="one"), tmp_path / "allowed"
    family = f"echo $$ >> {tmp_path}/pids; [ -e {allowed} ] || {{ sleep 600 & sleep 601; }}"
    script = tmp_path / "script"
    script.write_text(family)
    flags = ("--dir", volume, "--exec", f"sh {script}", "--action-timeout", "200ms")
    with agent(tmp_path, *flags) as running:
        message = running.reaches("failing")["message"]
        assert message == "default: sh timed out after 0.2s and was killed"
        first = int((tmp_path / "pids").read_text().split()[0])
        eventually(lambda: members_of(first) == [])
        allowed.touch()
        running.reaches("told")


def test_hanging_command_that_left_its_process_group_is_killed(tmp_path: Path) -> None:
    """Its rule would wait for it without end."""
    volume = Volume(tmp_path / "volume", text="one")
    script = tmp_path / "script.py"
    script.write_text("import os, time; os.setpgid(0, os.getpgid(os.getppid())); time.sleep(600)")
    command = f"{sys.executable} -S {script}"
    with agent(tmp_path, "--dir", volume, "--exec", command, "--action-timeout", "1s") as running:
        assert "timed out after 1s and was killed" in running.reaches("failing")["message"]


def test_calls_are_counted_under_configmap_reload_names(tmp_path: Path) -> None:
    """Its labels and reasons, too, so that dashboards and alerts stay as they are."""
    volume, port = Volume(tmp_path / "volume", text="one"), free_port()
    flags = ("-volume-dir", volume, f"-webhook-url=http://admin:hunter2@127.0.0.1:{port}/r")
    with agent(tmp_path, *flags) as running:
        running.reaches("failing")
        label = f'webhook="http://***@127.0.0.1:{port}/r"'
        page = running.get("/metrics")[1]
        assert f"configmap_reload_last_reload_error{{{label}}} 1\n" in page
        assert (
            f'configmap_reload_request_errors_total{{{label},reason="client_request_do"}}' in page
        )
        with webhook(port, status=503) as endpoint:
            eventually(
                lambda: (
                    f'configmap_reload_requests_total{{{label},status_code="503"}}'
                    in running.get("/metrics")[1]
                )
            )
            assert (
                f'configmap_reload_request_errors_total{{{label},reason="client_response"}}'
                in running.get("/metrics")[1]
            )
            endpoint.status = 200
            running.reaches("loaded")
        page = running.get("/metrics")[1]
        for line in (
            f"configmap_reload_last_reload_error{{{label}}} 0",
            f"configmap_reload_success_reloads_total{{{label}}} 1",
            f'configmap_reload_requests_total{{{label},status_code="200"}} 1',
            "configmap_reload_watcher_errors_total 0",
        ):
            assert f"\n{line}\n" in page
        assert f"\nconfigmap_reload_last_request_duration_seconds{{{label}}} 0." in page
        assert "hunter2" not in page
