"""Signals, closed streams and used ports end the process with one sentence, or not at all."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command_calls import FAILED, TOKEN, WRONG, hotmap, started
from tests.walkthroughs.local import Plane

import hotmap as package
from hotmap.__main__ import main
from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_kubeconfig
from hotmap.kube.resources import CONFIGMAPS, EVENTS

# -- how it is started and ended -------------------------------------------------------------


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
    """It ends with status 0, and logs a signal and the release of its Lease.

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
    # Of two that are pending, the kernel delivers that with the lower number.
    first = "|".join(number.name for number in signals)
    stopping = rf"\S+ INFO shutting down \(({first})\)\n"
    released = r"\S+ INFO Lease hotmap/hotmap-controller: released\n"
    assert re.fullmatch(stopping + released, said) or (
        len(signals) > 1 and re.fullmatch(stopping, said)
    ), said


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


def test_closed_log_pipe_is_not_an_error(plane: Plane, tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ({}, "click"),
        ({"click.py": "import msgspec._core", "msgspec.py": ""}, "msgspec"),
        ({"click.py": "from click.core import Option"}, "click"),
    ],
)
def test_missing_dependency_is_named(broken: dict[str, str], named: str, tmp_path: Path) -> None:
    """A Python without the packages of hotmap, or with a broken one, cannot run a command."""
    for name, text in broken.items():
        (tmp_path / name).write_text(text)
    sources = str(Path(package.__file__).parents[1])
    ended = subprocess.run(
        [sys.executable, "-S", "-m", "hotmap", "status"],
        env={"PYTHONPATH": f"{tmp_path}:{sources}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == WRONG
    assert ended.stderr == (
        f"hotmap: the Python module {named} is missing or broken: install hotmap again, as "
        "pip install '.[local]' does in a checkout (docs/install.md)\n"
    )


@pytest.mark.parametrize("closed", [">&-", "<&-", ">&- <&- 2>&-"])
@pytest.mark.parametrize("words", ["stamp --filename -", "inject --help"])
def test_closed_standard_streams_are_not_an_internal_error(words: str, closed: str) -> None:
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
