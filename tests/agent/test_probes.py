"""Probes confirm an action; one that does not makes the attempt fail."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.agent.agents import (
    TIMEOUT,
    Volume,
    agent,
    eventually,
    reader,
    run_program,
    tick,
    webhook,
)

from hotmap.agent.act import worker_probe
from hotmap.agent.act.probe_errors import NotConfirmed, Refused
from hotmap.agent.act.probes import confirm, read_before
from hotmap.agent.settings.probes import parse_probe

#: Seconds that are given to a probe that is not to confirm; one look is enough.
ONCE = 0.01


class Page:
    """A web page whose text can be changed."""

    def __init__(self) -> None:
        self.text = ""
        #: Bytes that are announced and not sent: the connection is closed instead.
        self.missing = 0
        self.requests = 0
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page.requests += 1
                data = page.text.encode()
                self.send_response(200 if data else 503)
                self.send_header("Content-Length", str(len(data) + page.missing))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"


@pytest.fixture
def page() -> Iterator[Page]:
    found = Page()
    thread = threading.Thread(target=found.server.serve_forever, args=(0.01,))
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join()


def confirmed(text: str, before: str | None = "") -> bool:
    """Look once."""
    try:
        confirm(parse_probe(text), before, 0, seconds=ONCE)
    except NotConfirmed as error:
        assert str(error).startswith("verification failed: ")
        return False
    return True


def test_http_probe_needs_status_200(page: Page) -> None:
    """`http` wants 200."""
    assert not confirmed(f"http {page.url}")
    page.text = "here"
    assert confirmed(f"http {page.url}")


def test_http_probe_does_not_wait_for_the_body() -> None:
    """An endpoint that streams events never ends its response."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        answers: list[socket.socket] = []

        def answer() -> None:
            answers.append(listener.accept()[0])
            answers[0].sendall(b"HTTP/1.1 200 OK\r\n\r\ndata: one\n\n")

        thread = threading.Thread(target=answer)
        thread.start()
        assert confirmed(f"http http://{host}:{port}/events")
        thread.join()
        answers[0].close()


def test_metric_probe_reads_no_value_that_is_cut(page: Page) -> None:
    """An endpoint that closes early sends half a number, which no load has changed."""
    text = f"metric {page.url} loads"
    page.text = "loads 1234"
    before = read_before(parse_probe(text), 0)
    page.text, page.missing = "loads 12", 2
    assert not confirmed(text, before)
    page.text, page.missing = "loads 1235\nother 12", 2
    assert confirmed(text, before)


@pytest.mark.parametrize(
    ("document", "value"), [('{"a": [{"b": "x"}]}', "x"), ('{"a": [{"b": 7}]}', "7")]
)
def test_field_probe_compares_a_value(page: Page, document: str, value: str) -> None:
    """`field` follows names and numbers into a JSON answer."""
    page.text = document
    assert confirmed(f"field {page.url} a.0.b={value}")
    assert not confirmed(f"field {page.url} a.0.b=other")
    assert not confirmed(f"field {page.url} a.1.b={value}")
    page.text = "no JSON"
    assert not confirmed(f"field {page.url} a.0.b={value}")


@pytest.mark.parametrize(
    ("found", "wanted", "equal"),
    [
        ('"1.10"', "1.10", True),
        ('"1.10"', "1.1", False),
        ('"1e1"', "10", False),
        ('"7"', "7", True),
        ("1.10", "1.1", True),
        ("1e1", "10", True),
        ("7", "7.0", True),
        ("9007199254740993", "9007199254740992", False),
        ("1000", "1_000", False),
        ("7", "seven", False),
        ("true", "true", True),
        ("[1, 2]", "[1, 2]", True),
    ],
)
def test_field_probe_compares_numbers_by_value_and_strings_as_text(
    page: Page, found: str, wanted: str, equal: bool
) -> None:
    """1.10 and 1.1 are two versions and one number; a number is as exact as it is written."""
    page.text = f'{{"version": {found}}}'
    assert confirmed(f"field {page.url} version={wanted}") == equal


def test_field_probe_detects_a_change(page: Page) -> None:
    """Without a value it has to be another one than before the action."""
    probe = f"field {page.url} generation"
    page.text = '{"generation": 1}'
    before = read_before(parse_probe(probe), 0)
    assert not confirmed(probe, before)
    page.text = '{"generation": 2}'
    assert confirmed(probe, before)


def test_metric_probe_compares_a_sample(page: Page) -> None:
    """`metric` names a sample with its labels; numbers are compared as numbers."""
    page.text = '# HELP up x\nup{job="a=b"} 1\nup{job="c"} 0\nreloads_total 1e0\n'
    assert confirmed(f'metric {page.url} up{{job="a=b"}}=1')
    assert not confirmed(f'metric {page.url} up{{job="c"}}=1')
    assert confirmed(f"metric {page.url} reloads_total=1")
    assert not confirmed(f"metric {page.url} absent=1")
    probe = f'metric {page.url} up{{job="c"}}'
    before = read_before(parse_probe(probe), 0)
    assert not confirmed(probe, before)
    page.text = 'up{job="c"} 5\n'
    assert confirmed(probe, before)


@pytest.mark.parametrize(
    "line",
    [
        'up{a="x",job="c d"} 1',
        'up{job="c d", a="x",} 1',
        'up { job = "c d" , a="x" } 1',
        'up{job="c d",a="x"} 1 1767225600000',
        'up{job="c d",a="x"} 1 # {trace_id="0"} 0.5 1767225600',
    ],
)
def test_metric_probe_finds_a_sample_as_pages_write_it(page: Page, line: str) -> None:
    """Labels have no order, and a timestamp or an exemplar may follow the value."""
    page.text = f'up 7\nup_time{{job="c d",a="x"}} 5\nup{{job="c d"}} 3\n{line}\n'
    probe = f'metric {page.url} up{{job="c d",a="x"}}'
    assert confirmed(f"{probe}=1")
    assert not confirmed(f"{probe}=7")
    assert confirmed(f"metric {page.url} up=7")
    assert read_before(parse_probe(probe), 0) == "1"


def test_metric_probe_unescapes_labels(page: Page) -> None:
    """A quote, a backslash and a line break are escaped; other lines are ignored."""
    page.text = 'up{a="1} 1\nup{a=1} 1\nup{a="\\"}=1\\\\"} 2\nup\n'
    assert confirmed(f'metric {page.url} up{{a="\\"}}=1\\\\"}}=2')
    assert not confirmed(f'metric {page.url} up{{a="1"}}=1')
    assert not confirmed(f"metric {page.url} up=1")


def test_file_probe_detects_a_write(tmp_path: Path) -> None:
    """`file` wants another file, or another time of it."""
    path = tmp_path / "file"
    before = read_before(parse_probe(f"file {path}"), 0)
    assert not confirmed(f"file {path}", before)
    path.write_text("1")
    assert confirmed(f"file {path}", before)
    before = read_before(parse_probe(f"file {path}"), 0)
    assert not confirmed(f"file {path}", before)
    (tmp_path / "new").write_text("1")
    (tmp_path / "new").rename(path)
    assert confirmed(f"file {path}", before)


def test_log_probe_detects_a_new_line(tmp_path: Path) -> None:
    """`log` does not count what stood there before; a log that was rotated counts whole."""
    path = tmp_path / "log"
    probe = f"log {path} reloaded it"
    assert not confirmed(probe, read_before(parse_probe(probe), 0))
    path.write_text("12:00 reloaded it\n")
    before = read_before(parse_probe(probe), 0)
    assert not confirmed(probe, before)
    with path.open("a") as file:
        file.write("12:01 reloaded it\n")
    assert confirmed(probe, before)
    path.write_text("reloaded it")
    assert confirmed(probe, before)
    before = read_before(parse_probe(probe), 0)
    path.rename(tmp_path / "log.1")
    path.write_text("12:02 reloaded it, in a log that is larger by now\n")
    assert confirmed(probe, before)


@pytest.mark.parametrize("probe", ["file {}", "log {} loaded"])
def test_file_that_could_not_be_looked_at_before_confirms_nothing(
    tmp_path: Path, probe: str
) -> None:
    """What is in it may have been there all the time."""
    folder = tmp_path / "folder"
    folder.symlink_to(folder)  # as where its permissions deny access, also for root
    text = probe.format(folder / "file")
    before = read_before(parse_probe(text), 0)
    folder.unlink()
    folder.mkdir()
    (folder / "file").write_text("loaded\n")
    with pytest.raises(Refused, match="could not be read before"):
        confirm(parse_probe(text), before, 0, seconds=ONCE)


def test_command_probes_use_status_and_output(tmp_path: Path) -> None:
    """`exec` wants success, `output` another text than before."""
    assert confirmed("exec true")
    assert not confirmed("exec false")
    assert not confirmed("exec no-such-program")
    path = tmp_path / "text"
    path.write_text("one")
    before = read_before(parse_probe(f"output cat {path}"), 0)
    assert not confirmed(f"output cat {path}", before)
    path.write_text("two")
    assert confirmed(f"output cat {path}", before)


@pytest.mark.parametrize("probe", ["file {path}", "output sh -c 'cat {path} || true'"])
def test_what_a_program_has_removed_confirms_nothing(tmp_path: Path, probe: str) -> None:
    """It may remove a file when it begins to load, and write it when it has loaded."""
    path = tmp_path / "loaded"
    path.write_text("one")
    text = probe.format(path=path)
    before = read_before(parse_probe(text), 0)
    path.unlink()
    assert not confirmed(text, before)
    path.write_text("two")
    assert confirmed(text, before)


def test_workers_probe_detects_new_workers(tmp_path: Path) -> None:
    """`workers` wants a child that was not there before."""
    shell = subprocess.Popen(
        ["sh", "-c", "sleep 60 & first=$!; read line; kill $first; sleep 60 & echo $!; wait"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert shell.stdin is not None
    assert shell.stdout is not None
    try:
        (tmp_path / "pid").write_text(str(shell.pid))
        probe = f"workers pidfile:{tmp_path}/pid"
        before = eventually(lambda: read_before(parse_probe(probe), 0))
        assert not confirmed(probe, before)
        shell.stdin.write("go\n")
        shell.stdin.flush()
        shell.stdout.readline()
        eventually(lambda: confirmed(probe, before))
    finally:
        os.killpg(shell.pid, signal.SIGTERM)
        shell.wait()
        shell.stdin.close()
        shell.stdout.close()


@pytest.mark.parametrize(
    ("replaced", "apart", "name", "expected"),
    [
        (1, False, "worker", False),
        (2, False, "worker", True),
        (2, True, "worker", False),
        (1, True, "haproxy", True),
        (2, True, "haproxy", True),
        (1, False, "haproxy-admin", False),
        (2, True, "haproxy-admin", False),
    ],
)
def test_workers_probe_waits_while_workers_are_replaced_one_by_one(
    replaced: int,
    apart: bool,
    name: str,
    expected: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As uvicorn does: the next one is told when the new one serves, and has old content till then.

    So has the last one while the last new one starts. haproxy starts one worker, beside all that
    have connections to finish.
    """
    monkeypatch.setattr(worker_probe, "_HAND_OVER", 0.0)
    monkeypatch.setattr(worker_probe, "_HAND_OVER_APART", TIMEOUT)
    monkeypatch.setattr(worker_probe, "_APART", 0.0 if apart else TIMEOUT)
    program = tmp_path / name
    program.write_text("#!/bin/sh\nread line\n")
    program.chmod(0o755)
    tracker = "sh -c 'read line' multiprocessing.resource_tracker"
    master = f"mkfifo in; exec 3<>in; start() {{ {program} <&3 & echo $!; }}; {tracker} <&3 &"
    master += " start; start; while read line; do start; done"
    with subprocess.Popen(
        ["sh", "-c", master],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        try:
            old = [int(shell.stdout.readline()) for _ in range(2)]
            (tmp_path / "pid").write_text(str(shell.pid))
            probe = f"workers pidfile:{tmp_path}/pid"
            before = eventually(lambda: all_started(read_before(parse_probe(probe), 0), old, name))
            for _ in range(replaced):
                shell.stdin.write("\n")
                shell.stdin.flush()
                new = int(shell.stdout.readline())
                tick()
            eventually(lambda: all_started(read_before(parse_probe(probe), 0), [new], name))
            assert confirmed(probe, before) is expected
        finally:
            os.killpg(shell.pid, signal.SIGKILL)


def all_started(children: str | None, numbers: list[int], name: str) -> str:
    """Return the children if all of these have started their program; "" before that."""
    # A fork of the shell shows its command, which has the name too, until it executes the program.
    lines = [line for line in (children or "").splitlines() if "mkfifo" not in line]
    found = [line for line in lines if int(line.partition(":")[0]) in numbers and name in line]
    return children or "" if len(found) == len(numbers) else ""


def test_workers_probe_needs_a_worker(tmp_path: Path) -> None:
    """php-fpm ends its workers before it reads its files; if these are invalid, it ends too."""
    master = ["sh", "-c", "sleep 60 & wait; while :; do read line; done"]
    with subprocess.Popen(master, start_new_session=True, stdin=subprocess.PIPE) as parent:
        try:
            (tmp_path / "pid").write_text(str(parent.pid))
            probe = f"workers pidfile:{tmp_path}/pid"
            before = eventually(lambda: read_before(parse_probe(probe), 0))
            os.kill(int(before.partition(":")[0]), signal.SIGKILL)
            eventually(lambda: not read_before(parse_probe(probe), 0))
            assert not confirmed(probe, before)
        finally:
            os.killpg(parent.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("name", "needed", "expected"),
    [
        ("worker", TIMEOUT, False),
        ("worker", 0.0, True),
        ("haproxy", TIMEOUT, True),
        ("/usr/bin/qemu-x86_64 /usr/local/sbin/haproxy -W", TIMEOUT, True),
        ("app-worker haproxy", TIMEOUT, False),
    ],
)
def test_workers_probe_waits_for_new_workers_that_stay(
    name: str, needed: float, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker may end by the content that it reads at its start; haproxy waits for it itself."""
    monkeypatch.setattr(worker_probe, "_HAND_OVER", needed)
    with subprocess.Popen(["sh", "-c", "sleep 60 & wait"], start_new_session=True) as parent:
        try:
            (tmp_path / "pid").write_text(str(parent.pid))
            probe = f"workers pidfile:{tmp_path}/pid"
            eventually(lambda: read_before(parse_probe(probe), 0))
            assert confirmed(probe, f"1:1 {name}") is expected
        finally:
            os.killpg(parent.pid, signal.SIGKILL)


#: Starts a worker of nginx. Its title is not in the command itself, which a fork of the shell shows
#: until it executes another program.
WORKER = '(exec -a "$TITLE" sleep 60)'
TITLE = "nginx: worker process"


@pytest.mark.parametrize(
    ("workers", "pause", "expected"), [(1, 0, False), (2, 0, True), (2, 1, False)]
)
def test_workers_probe_accepts_several_unseen_replacements_of_nginx(
    tmp_path: Path, workers: int, pause: float, expected: bool
) -> None:
    """An agent with little processor time misses the old workers beside the new ones.

    A single worker that was replaced may have crashed, and so may several, one after the other.
    """
    starts = f"for i in $(seq {workers}); do {WORKER} & sleep {pause}; done; wait"
    master, environment = ["bash", "-c", starts], {**os.environ, "TITLE": TITLE}
    before = "\n".join(f"{number}:1 {TITLE}" for number in range(1, workers + 1))
    with subprocess.Popen(master, start_new_session=True, env=environment) as parent:
        try:
            (tmp_path / "pid").write_text(str(parent.pid))
            probe = f"workers pidfile:{tmp_path}/pid"
            eventually(lambda: (read_before(parse_probe(probe), 0) or "").count(TITLE) == workers)
            assert confirmed(probe, before) is expected
        finally:
            os.killpg(parent.pid, signal.SIGKILL)


def test_workers_probe_sees_new_workers_of_nginx_before_it_finds_the_master(
    tmp_path: Path,
) -> None:
    """To find it takes longer, on a busy machine, than the old worker stays beside the new one."""
    master = ["bash", "-c", f"{WORKER} & read line; {WORKER} & wait"]
    environment = {**os.environ, "TITLE": TITLE}
    pidfile = tmp_path / "pid"
    with subprocess.Popen(
        master, start_new_session=True, stdin=subprocess.PIPE, env=environment
    ) as parent:

        def workers() -> list[str]:
            lines = (read_before(parse_probe(f"workers pidfile:{pidfile}"), 0) or "").split("\n")
            return [line for line in lines if TITLE in line]

        def find_late() -> None:
            """Let the master be found once the old worker is gone."""
            pidfile.open("w").close()  # returns when it is read
            os.kill(int(old.partition(":")[0]), signal.SIGKILL)
            write_pid_file()

        def write_pid_file() -> None:
            (tmp_path / "draft").write_text(str(parent.pid))
            (tmp_path / "draft").rename(pidfile)

        try:
            assert parent.stdin is not None
            write_pid_file()
            (old,) = eventually(workers)
            parent.stdin.write(b"go\n")
            parent.stdin.flush()
            eventually(lambda: len(workers()) == 2)
            pidfile.unlink()
            os.mkfifo(pidfile)
            thread = threading.Thread(target=find_late)
            thread.start()
            assert not confirm(parse_probe(f"workers pidfile:{pidfile}"), old, 0, seconds=TIMEOUT)
            thread.join()
        finally:
            os.killpg(parent.pid, signal.SIGKILL)


def test_workers_probe_needs_the_application(tmp_path: Path) -> None:
    """Without it, number 0 is the parent of every container's first process."""
    assert read_before(parse_probe("workers child"), 0) is None
    assert not confirmed("workers child", "1:1 sleep")


def test_failed_probe_is_retried(page: Page, tmp_path: Path) -> None:
    """The action succeeded, its effect did not show: the rule fails, and later starts over."""
    volume = Volume(tmp_path / "volume", text="one")
    page.text = '{"loaded": "no"}'
    count = tmp_path / "count"
    flags = (
        *("--exec", f"sh -c 'echo x >> {count}'", "--verify-timeout", "500ms"),
        *("--verify", f"field {page.url} loaded=yes", "--action-timeout", "300ms"),
    )
    with agent(tmp_path, "--dir", volume, *flags) as running:
        assert (
            running.reaches("failing")["message"]
            == "default: verification failed: loaded is not yes"
        )
        eventually(lambda: len(count.read_text()) > 2)
        page.text = '{"loaded": "yes"}'
        running.reaches("loaded")


def test_output_probe_reads_long_output() -> None:
    """A command that prints more than fits into a pipe ends by itself, and all of it counts."""
    long = "sh -c 'head -c 300000 /dev/zero; echo {0}'"
    before = read_before(parse_probe(f"output {long.format('one')}"), 0)
    assert confirm(parse_probe(f"output {long.format('two')}"), before, 0, seconds=ONCE) == ""
    with pytest.raises(NotConfirmed, match="has not changed"):
        confirm(parse_probe(f"output {long.format('one')}"), before, 0, seconds=ONCE)
    assert before is not None
    assert len(before) < 100_000
    assert confirm(parse_probe(f"exec {long.format('')}"), "", 0, seconds=ONCE) == ""


@pytest.mark.parametrize("kind", ["field", "metric", "output", "workers"])
def test_probe_that_could_not_be_read_before_confirms_nothing(
    kind: str, page: Page, tmp_path: Path
) -> None:
    """What it shows afterwards may have been there before."""
    probe = {
        "field": f"field {page.url} generation",
        "metric": f"metric {page.url} reloads",
        "output": f"output cat {tmp_path}/text",
        "workers": f"workers pidfile:{tmp_path}/pid",
    }[kind]
    before = read_before(parse_probe(probe), 0, seconds=0.0)
    page.text = "reloads 7\n" if kind == "metric" else '{"generation": 7}'
    (tmp_path / "text").write_text("seven")
    (tmp_path / "pid").write_text(str(os.getpid()))
    with run_program(["sleep", "600"]):
        assert before is None
        with pytest.raises(Refused, match="could not be read before"):
            confirm(parse_probe(probe), before, 0, seconds=60.0)


def test_probe_is_read_before_the_action_as_soon_as_it_can_be(page: Page, tmp_path: Path) -> None:
    """An endpoint that is busy for a moment does not make a load of an action that did nothing."""
    volume = Volume(tmp_path / "volume", text="one")
    count = tmp_path / "count"
    flags = (
        *("--exec", f"sh -c 'echo x >> {count}'", "--verify-timeout", "500ms"),
        *("--verify", f"field {page.url} generation", "--action-timeout", "10m"),
    )
    with agent(tmp_path, "--dir", volume, *flags) as running:
        eventually(lambda: page.requests > 0)
        page.text = '{"generation": 1}'
        message = running.reaches("failing")["message"]
        assert message == "default: verification failed: generation has not changed"
        page.text = '{"generation": 2}'
        running.reaches("loaded")


@pytest.mark.parametrize("probe", ["exec", "output"])
def test_probe_that_hangs_before_the_action_does_not_prevent_it(tmp_path: Path, probe: str) -> None:
    """A process that hangs may work again once it has loaded the content."""
    volume = Volume(tmp_path / "volume", text="one")
    told = tmp_path / "told"
    hang = f"until test -e {told}; do sleep 0.02; done"
    flags = (
        *("--dir", volume, "--exec", f"sh -c 'echo x >> {told}'", "--verify-timeout", "300ms"),
        *("--verify", f"{probe} sh -c '{hang}; cat {told}'"),
    )
    with agent(tmp_path, *flags) as running:
        running.reaches("loaded")
    # What could not be compared with an earlier value confirms only another load.
    assert told.read_text() == {"exec": "x\n", "output": "x\nx\n"}[probe]


def test_message_says_how_long_a_probe_was_waited_for(tmp_path: Path) -> None:
    """All probes together have a limit, and a second more."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = ("--touch", tmp_path / "told", "--verify", "exec sleep 600")
    with agent(tmp_path, "--dir", volume, *flags, "--verify-timeout", "100ms") as running:
        message = running.reaches("failing")["message"]
        assert message == "default: verification did not end within 1.1s"


def test_process_that_read_the_content_at_its_start_is_probed(tmp_path: Path) -> None:
    """It may end by the content each time, so it counts as loaded once it works."""
    volume = Volume(tmp_path / "volume", text="one")
    with webhook() as endpoint:
        endpoint.status = 503
        flags = (
            *("--dir", volume, "--signal", "HUP", "--verify", f"http {endpoint.url}"),
            *("--process", f"pidfile:{tmp_path}/loaded.pid", "--verify-timeout", "100ms"),
            # So that the process starts between two attempts.
            *("--retry-first", "1s", "--retry-max", "1s"),
        )
        with agent(tmp_path, *flags) as running:
            eventually(lambda: "does not exist" in running.message)
            tick()
            with reader(volume.path / "text", tmp_path):
                eventually(lambda: "returned 503" in running.message)
                assert running.rule()["state"] == "failing"
                endpoint.status = 200
                running.reaches("loaded")


def test_process_gets_a_signal_if_probes_do_not_confirm_what_it_read_at_its_start(
    tmp_path: Path,
) -> None:
    """A program may show only after its first reload that it has loaded the content."""
    volume = Volume(tmp_path / "volume", text="one")
    has_reloaded = f"sh -c 'test $(wc -l < {tmp_path}/loaded) -ge 2'"
    flags = (
        *("--dir", volume, "--signal", "HUP", "--process", f"pidfile:{tmp_path}/loaded.pid"),
        *("--verify", f"exec {has_reloaded}", "--verify-timeout", "100ms"),
        *("--action-timeout", "1s", "--retry-first", "250ms", "--retry-max", "250ms"),
    )
    with agent(tmp_path, *flags) as running:
        eventually(lambda: "does not exist" in running.message)
        tick()
        with reader(volume.path / "text", tmp_path) as process:
            eventually(lambda: "verification failed" in running.message)
            assert process.loads == ["one"]
            running.reaches("loaded")
            assert process.loads == ["one", "one"]
