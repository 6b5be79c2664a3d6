"""Container logs: the file that runtimes write, and the parts of it that people ask for."""

from __future__ import annotations

import asyncio
import re
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.local.kubelet.conftest import LocalNode, eventually

from hotmap.core.errors import BadRequest
from hotmap.local.kubelet.logs import MAX_FILES, MAX_LINE, ContainerLog, parse_line
from hotmap.local.kubelet.missing_logs import no_log
from hotmap.local.kubelet_api import LogOptions

LINE = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z (stdout|stderr) [FP] .*\n")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ContainerLog]:
    log = ContainerLog(tmp_path / "pod" / "c" / "0.log")
    yield log
    log.close()


async def read(log: ContainerLog, **options: Any) -> bytes:
    return b"".join([chunk async for chunk in log.read(LogOptions(**options))])


def test_log_file_has_cri_format(log: ContainerLog) -> None:
    """Time, stream, tag and text: what log collectors on nodes read."""
    log.write("stdout", b"one\ntwo\n")
    log.write("stderr", b"three\n")
    log.close()
    lines = log.path.read_bytes().splitlines(keepends=True)
    assert all(LINE.fullmatch(line) for line in lines)
    assert [parse_line(line)[1:] for line in lines] == [
        ("stdout", b"one\n"),
        ("stdout", b"two\n"),
        ("stderr", b"three\n"),
    ]


async def test_log_lines_are_joined_per_stream(log: ContainerLog) -> None:
    """Pieces of a line that come one by one, mixed with the other stream, stay one line."""
    log.write("stdout", b"on")
    log.write("stderr", b"err")
    log.write("stdout", b"e\ntwo")
    assert await read(log) == b"one\n"
    log.write("stdout", b"\n")
    log.write("stderr", b"or\n")
    assert await read(log) == b"one\ntwo\nerror\n"


async def test_log_output_without_newline_gets_none(log: ContainerLog) -> None:
    """What is left at the end is shown as it was printed, as by containerd."""
    log.write("stdout", b"one\ntwo")
    assert await read(log) == b"one\n"
    log.close()
    assert await read(log) == b"one\ntwo"


async def test_long_log_line_is_written_in_parts(log: ContainerLog) -> None:
    """A line longer than 16 KiB is stored as partial lines, without an end of its own."""
    text = b"x" * (2 * MAX_LINE + 5)
    log.write("stdout", text[:100])
    log.write("stdout", text[100:] + b"\n")
    log.close()
    assert log.path.read_bytes().count(b" P ") == 2
    assert await read(log) == text + b"\n"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, b"1\n2\n3\n"),
        ({"tail_lines": 2}, b"2\n3\n"),
        ({"tail_lines": 0}, b""),
        ({"limit_bytes": 3}, b"1\n2"),
        ({"since": 4102444800.0}, b""),
        ({"since": 0.0}, b"1\n2\n3\n"),
    ],
)
async def test_log_options_select_lines(
    log: ContainerLog, options: dict[str, Any], expected: bytes
) -> None:
    """Lines from the end, bytes from the beginning, lines since a time."""
    log.write("stdout", b"1\n2\n3\n")
    assert await read(log, **options) == expected


async def test_log_timestamps_option(log: ContainerLog) -> None:
    """Each line then begins with the time at which it was written."""
    log.write("stdout", b"1\n")
    assert re.fullmatch(rb"\d{4}-\S+Z 1\n", await read(log, timestamps=True))


async def test_log_follow_ends_with_run(log: ContainerLog) -> None:
    """What is written later is given when it is written; a closed log ends the reading."""
    log.write("stdout", b"1\n")
    stream = log.read(LogOptions(follow=True))
    assert await anext(stream) == b"1\n"
    later = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    assert not later.done()
    log.write("stdout", b"2\n")
    assert await later == b"2\n"
    log.write("stdout", b"3")
    log.close()
    assert [chunk async for chunk in stream] == [b"3"]


async def test_log_follow_with_tail_lines(log: ContainerLog) -> None:
    """tail_lines counts what is there; everything later follows."""
    log.write("stdout", b"1\n2\n")
    stream = log.read(LogOptions(follow=True, tail_lines=1))
    assert await anext(stream) == b"2\n"
    log.write("stdout", b"3\n4\n")
    assert await anext(stream) == b"3\n4\n"


async def test_log_failure_names_its_cause(node: LocalNode) -> None:
    """A name that is wrong, a container that has not started, a run that never was."""
    await node.run_pod("web", "exec sleep 600", envFrom=[{"configMapRef": {"name": "nope"}}])
    await node.waiting("web", "CreateContainerConfigError")
    for options, container, message in (
        ({}, "x", "container x is not valid for pod web"),
        (
            {},
            "c",
            'container "c" in pod "web" is waiting to start: CreateContainerConfigError',
        ),
        ({"previous": True}, "c", 'previous terminated container "c" in pod "web" not found'),
    ):
        with pytest.raises(BadRequest) as raised:
            await node.logs("web", container, **options)
        assert str(raised.value) == message


@pytest.mark.parametrize(
    ("status", "init", "text"),
    [
        ({}, False, 'container "c" in pod "p" is waiting to start: ContainerCreating'),
        ({}, True, 'container "c" in pod "p" is waiting to start: PodInitializing'),
        (
            {"state": {"waiting": {"reason": "ErrImageNeverPull"}}, "lastState": {}},
            False,
            'container "c" in pod "p" is waiting to start: ErrImageNeverPull',
        ),
        (
            {"state": {"terminated": {"containerID": "hotmap://1"}}},
            False,
            "unable to retrieve container logs for hotmap://1",
        ),
        (
            {"state": {"running": {}}, "containerID": "hotmap://2"},
            False,
            "unable to retrieve container logs for hotmap://2",
        ),
    ],
)
def test_missing_log_is_explained(status: dict[str, Any], init: bool, text: str) -> None:
    """By what is known of the container (validateContainerLogStatus)."""
    spec = {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}] if init else []}
    statuses = [{"name": "c", **status}] if status else []
    pod = {"spec": spec, "status": {"containerStatuses": statuses}}
    assert no_log(pod, "p", "c") == text


async def test_log_of_a_finished_pod_survives_the_kubelet(node: LocalNode) -> None:
    """No worker takes the pod up again; its log goes with it."""
    assert await node.output("done", "echo hello") == "hello\n"
    await node.restart()
    assert await node.logs("done") == "hello\n"
    assert (node.directory / "logs").stat().st_mode & 0o777 == 0o700
    await node.registry.delete("pods", "default", "done", grace_period=0)
    await eventually(lambda: not list((node.directory / "logs").iterdir()))


async def test_previous_log_is_that_of_the_earlier_kubelet(node: LocalNode) -> None:
    """What ran is restarted, so its output is that of the run before."""
    await node.run_pod("p", "date +%s%N; exec sleep 600")
    await node.phase("p", "Running")
    logs = node.directory / "logs"
    await eventually(lambda: any(path.stat().st_size for path in logs.glob("*/c/0.log")))
    before = await node.logs("p")
    await node.restart()
    await node.until("p", lambda pod: "running" in container_state(pod))
    assert await node.logs("p", previous=True) == before
    assert len(list(logs.glob("*/c/*"))) == 2


async def test_logs_of_pods_that_are_gone_are_removed(node: LocalNode) -> None:
    """They may have been deleted while no kubelet ran."""
    await node.output("done", "echo hello")
    await node.stop()
    await node.registry.delete("pods", "default", "done", grace_period=0)
    await node.start()
    assert not list((node.directory / "logs").iterdir())


def container_state(pod: dict[str, Any]) -> dict[str, Any]:
    statuses = pod.get("status", {}).get("containerStatuses") or [{}]
    found: dict[str, Any] = statuses[0]
    return dict(found["state"]) if found.get("restartCount") else {}


async def test_large_log_is_rotated(tmp_path: Path) -> None:
    """The newest file can be read; the older ones are limited in number."""
    log = ContainerLog(tmp_path / "0.log", max_size=1000)
    for number in range(300):
        log.write("stdout", b"%d\n" % number)
    assert len(list(tmp_path.iterdir())) == MAX_FILES
    shown = (await read(log)).split()
    assert 0 < len(shown) < 30
    assert shown[-1] == b"299"
    log.close()


async def test_log_follow_continues_after_a_rotation(tmp_path: Path) -> None:
    """Nothing is left out, whichever file it is in."""
    log = ContainerLog(tmp_path / "0.log", max_size=1000)
    log.write("stdout", b"0\n")
    stream = log.read(LogOptions(follow=True))
    received = await anext(stream)
    for number in range(1, 90):
        log.write("stdout", b"%d\n" % number)
    log.close()
    received += b"".join([chunk async for chunk in stream])
    assert received.split() == [b"%d" % number for number in range(90)]


async def test_reading_a_large_log_leaves_others_their_turn(tmp_path: Path) -> None:
    """Also where nothing of it is wanted."""
    log = ContainerLog(tmp_path / "0.log")
    log.write("stdout", b"x" * 99 + b"\n" * 20_000)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(count())
    assert await read(log, since=4102444800.0) == b""
    other.cancel()
    assert turns > 5
    log.close()


@pytest.mark.parametrize("count", [0, 1, 2, 1499, 2999, 3000, 5000])
async def test_tail_begins_at_a_line(log: ContainerLog, count: int) -> None:
    """However many blocks of the file it takes."""
    lines = [b"%d %s\n" % (number, b"x" * (number % 97)) for number in range(3000)]
    log.write("stdout", b"".join(lines))
    expected = b"".join(lines[max(0, 3000 - count) :])
    assert await read(log, tail_lines=count) == expected


async def test_tail_has_no_more_lines_however_much_is_written_meanwhile(log: ContainerLog) -> None:
    log.write("stdout", b"1\n2\n3\n")
    seen = []
    async for chunk in log.read(LogOptions(tail_lines=2)):
        seen.append(chunk)
        log.write("stdout", b"later\n")
    assert seen == [b"2\n3\n"]


async def test_output_that_cannot_be_written_is_lost(
    log: ContainerLog, caplog: pytest.LogCaptureFixture
) -> None:
    """On a full disk the container goes on, and what is written later can be read."""
    log.write("stdout", b"1\n")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60, limit[1]))
    try:
        log.write("stdout", b"2\n" * 100)
        log.write("stdout", b"3\n" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    log.write("stdout", b"4\n")
    assert await read(log) == b"1\n4\n"
    assert [record.message for record in caplog.records] == [
        f"output is missing from {log.path}: no space left"
    ]


async def test_log_of_a_pod_that_initializes(node: LocalNode) -> None:
    """Its containers wait for the init containers."""
    init = {"name": "i", "image": "shell", "command": ["sh", "-c", "sleep 600"]}
    await node.run_pod("p", "true", pod={"initContainers": [init]})
    await node.until("p", lambda pod: pod.get("status", {}).get("initContainerStatuses"))
    with pytest.raises(BadRequest, match="is waiting to start: PodInitializing"):
        await node.logs("p")
