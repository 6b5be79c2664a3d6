"""Failures of the machine and of programs that the agent runs: told, counted and retried."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.agent.agents import Volume, agent, eventually
from tests.agent.test_supervised_application import application, starts
from tests.support.processes import with_modules

#: Makes the first forks of the agent fail as on a machine without memory or processes.
FAILING_FORKS = """
import errno, os
fork, left = os.fork, [{count}]
def failing_fork():
    if left[0] > 0:
        left[0] -= 1
        raise OSError(errno.{name}, os.strerror(errno.{name}))
    return fork()
os.fork = failing_fork
"""


def failing_forks(folder: Path, name: str, count: int) -> dict[str, str]:
    """Return an environment in which the first `count` forks of a Python process fail."""
    (folder / "sitecustomize.py").write_text(FAILING_FORKS.format(count=count, name=name))
    return with_modules(folder)


@pytest.mark.parametrize("kind", ["output", "exec"])
def test_probe_writing_to_stderr_confirms(tmp_path: Path, kind: str) -> None:
    """A warning on standard error is not part of the probe's result."""
    volume = Volume(tmp_path / "volume", text="one")
    probe = f"{kind} sh -c 'echo warning >&2; cat {volume}/text'"
    touched = tmp_path / "touched"
    with agent(
        tmp_path, "--dir", volume, "--touch", touched, "--verify", probe,
        "--verify-timeout", "1s", *application(tmp_path),
    ) as running:  # fmt: skip
        eventually(lambda: starts(tmp_path))
        (tmp_path / "before").write_text("one")
        volume.write(text="two")
        expected = "failing" if kind == "output" else "loaded"
        eventually(touched.exists)
        running.reaches(expected)
        if kind == "output":  # the output was the new one before the action already
            eventually(lambda: "has not changed" in running.message)
        assert running.process.poll() is None
        assert len(starts(tmp_path)) == 1


def test_failing_probe_command_is_retried(tmp_path: Path) -> None:
    """A server that is not up yet, as pg_isready says on standard error, ends nothing."""
    volume, ready = Volume(tmp_path / "volume", text="one"), tmp_path / "ready"
    probe = f"output sh -c 'test -e {ready} && date +%N || {{ echo refused >&2; exit 2; }}'"
    flags = ("--dir", volume, "--touch", tmp_path / "touched", "--verify", probe)
    with agent(tmp_path, *flags, "--verify-timeout", "500ms") as running:
        running.reaches("failing")
        assert "sh failed with exit status 2" in running.message
        ready.write_text("up")
        running.reaches("loaded")


@pytest.mark.parametrize("name", ["EAGAIN", "ENOMEM"])
def test_failing_fork_of_an_action_is_retried(tmp_path: Path, name: str) -> None:
    """An action that gets no process fails, in words, and is retried."""
    volume, done = Volume(tmp_path / "volume", text="one"), tmp_path / "done"
    environment = failing_forks(tmp_path, name, 2)
    flags = ("--dir", volume, "--exec", f"touch {done}")
    with agent(tmp_path, *flags, env=environment) as running:
        running.reaches("told")
        assert done.exists()
        assert running.rule()["failures"] == 2
        assert "cannot start a process" in running.log


def test_failing_fork_of_a_check_is_retried(tmp_path: Path) -> None:
    """A check that gets no process says nothing of the content."""
    volume = Volume(tmp_path / "volume", text="one")
    environment = failing_forks(tmp_path, "EAGAIN", 2)
    flags = ("--dir", volume, "--touch", tmp_path / "touched", "--check", "true")
    with agent(tmp_path, *flags, env=environment) as running:
        status = running.reaches("told")
        assert status["check"]["counts"] == {"passed": 1, "refused": 0, "error": 2}


def test_failing_fork_of_the_application_is_retried(tmp_path: Path) -> None:
    """The application is started as soon as there is a process for it, and restarted as well."""
    volume = Volume(tmp_path / "volume", APP_LEVEL="info")
    environment = failing_forks(tmp_path, "EAGAIN", 1)
    with agent(tmp_path, "--env-from", volume, *application(tmp_path), env=environment) as running:
        eventually(lambda: len(starts(tmp_path)) == 1)
        assert "cannot start the application: " in running.log
        volume.write(APP_LEVEL="debug")
        eventually(lambda: len(starts(tmp_path)) == 2)
        assert running.reaches("loaded")["problems"] == []


def test_too_long_argument_of_an_action_is_reported(tmp_path: Path) -> None:
    """E2BIG of exec is a failure of that action only."""
    volume, rules = Volume(tmp_path / "volume", text="one"), tmp_path / "rules.toml"
    rules.write_text(f'[[rule]]\nactions = [{{ exec = ["true", "{"x" * 200_000}"] }}]\n')
    with agent(tmp_path, "--dir", volume, "--rules", rules) as running:
        running.reaches("failing")
        assert "true cannot be started: argument list too long" in running.message
        volume.write(text="two")
        assert running.rule("rule-1")["failures"] > 0


def test_deeply_nested_state_file_is_ignored(tmp_path: Path) -> None:
    """It is reported, and the agent starts without it."""
    volume, state = Volume(tmp_path / "volume", text="one"), tmp_path / "state"
    state.write_text("[" * 100_000)
    flags = ("--dir", volume, "--touch", tmp_path / "touched", "--state", state)
    with agent(tmp_path, *flags) as running:
        running.reaches("told")
        assert "is not a state file: nested too deeply" in running.log


def test_directory_name_that_is_not_utf8_is_shown(tmp_path: Path) -> None:
    """Metrics and status escape it."""
    place = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    Volume(Path(place), text="one")
    with agent(tmp_path, "--dir", place, "--touch", tmp_path / "touched") as running:
        running.reaches("told")
        assert running.get("/metrics")[0] == 200
        assert "caf\\udce9" in running.get("/metrics")[1]
        assert running.get("/healthz")[0] == 200


def test_unexpected_error_is_counted_and_retried(tmp_path: Path) -> None:
    """An exception that nothing was prepared for is logged without its text, and work goes on."""
    volume = Volume(tmp_path / "volume", text="one")
    (tmp_path / "sitecustomize.py").write_text(
        "from hotmap.agent.watch.detector import Detector\n"
        "read, left = Detector.read, [2]\n"
        "def failing_read(self):\n"
        "    if left[0] > 0:\n"
        "        left[0] -= 1\n"
        "        raise LookupError('hunter2')\n"
        "    return read(self)\n"
        "Detector.read = failing_read\n"
    )
    environment = with_modules(tmp_path)
    flags = ("--dir", volume, "--touch", tmp_path / "touched")
    with agent(tmp_path, *flags, env=environment) as running:
        running.reaches("told")
        volume.write(text="two")
        eventually(lambda: running.rule()["loads"] == 2)
        assert running.status()["internal_errors"] == 2
        assert "hotmap_agent_internal_errors_total 2" in running.get("/metrics")[1]
        assert "internal error: LookupError" in running.log
        assert "hunter2" not in running.log


def test_unread_content_is_not_loaded(tmp_path: Path) -> None:
    """While a change cannot be read because of an unexpected error, nothing counts as loaded."""
    volume, fails = Volume(tmp_path / "volume", text="one"), tmp_path / "fails"
    (tmp_path / "sitecustomize.py").write_text(
        "import os\n"
        "from hotmap.agent.watch.detector import Detector\n"
        "read = Detector.read\n"
        "def failing_read(self):\n"
        f"    if os.path.exists('{fails}'): raise LookupError\n"
        "    return read(self)\n"
        "Detector.read = failing_read\n"
    )
    flags = ("--dir", volume, "--touch", tmp_path / "touched")
    with agent(tmp_path, *flags, env=with_modules(tmp_path)) as running:
        running.reaches("told")
        fails.touch()
        volume.write(text="two")
        eventually(lambda: running.status()["internal_errors"])
        running.reaches("pending")
        assert '"state":"settling"' in running.get("/v1/pod")[1]
        fails.unlink()
        running.reaches("told")
        assert running.rule()["loads"] == 2


def test_content_without_memory_for_it_is_unreadable(tmp_path: Path) -> None:
    """Its size is allowed, and the memory of the process is limited further."""
    volume = Volume(tmp_path / "volume", text="one")
    with agent(tmp_path, "--dir", volume, "--touch", tmp_path / "touched") as running:
        running.reaches("told")
        pages = int(Path(f"/proc/{running.pid}/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + (30 << 20)
        resource.prlimit(running.pid, resource.RLIMIT_AS, (limit, limit))
        volume.publish({"text": b"x" * (40 << 20)})
        running.reaches("waiting")
        assert running.message == f"not enough memory to read {volume}"
        volume.write(text="two")
        running.reaches("told")
        assert running.status()["internal_errors"] == 0


def test_limit_of_files_that_is_too_small_is_named(tmp_path: Path) -> None:
    """It is the user's to raise, and nothing to report."""
    limited = ["sh", "-c", 'ulimit -n 5 && exec "$@"', "sh", sys.executable, "-m", "hotmap"]
    found = subprocess.run(
        [*limited, "agent", "--dir", str(tmp_path), "--listen", "none"],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    words = "hotmap: too many open files; raise the limit of open files (ulimit -n)\n"
    assert (found.returncode, found.stderr) == (1, words)


def test_exhausted_descriptors_are_retried(tmp_path: Path) -> None:
    """An agent that gets no descriptor for a while continues when there are some again."""
    volume, limit = Volume(tmp_path / "volume", text="one"), tmp_path / "done"
    with agent(tmp_path, "--dir", volume, "--exec", f"touch {limit}") as running:
        running.reaches("told")
        used = max(int(path.name) for path in Path(f"/proc/{running.pid}/fd").iterdir()) + 1
        before = resource.prlimit(running.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(running.pid, resource.RLIMIT_NOFILE, (used, before[1]))
        volume.write(text="two")
        eventually(lambda: "too many open files" in running.log.lower())
        resource.prlimit(running.pid, resource.RLIMIT_NOFILE, before)
        eventually(lambda: running.rule()["loads"] == 2)
        assert running.process.poll() is None


@pytest.mark.parametrize("place", ["record", "execute"])
def test_unexpected_error_loses_no_result(tmp_path: Path, place: str) -> None:
    """One fact or command raises; those of the same moment are handled, and work goes on."""
    volume = Volume(tmp_path / "volume", text="one")
    target, method = {
        "record": ("hotmap.agent.decide.reconciler import Reconciler", "record"),
        "execute": ("hotmap.agent.act.rule_attempts import RuleAttempts", "_find_evidence"),
    }[place]
    owner = target.rpartition(" ")[2]
    (tmp_path / "sitecustomize.py").write_text(
        f"from {target}\n"
        f"original, seen = {owner}.{method}, []\n"
        "def failing(self, what, *rest):\n"
        "    seen.append(type(what).__name__)\n"
        "    if seen.count('StartAttempt') == 1 and seen[-1] == 'StartAttempt':\n"
        "        raise LookupError('hunter2')\n"
        "    if seen.count('AttemptFinished') == 1 and seen[-1] == 'AttemptFinished':\n"
        "        raise LookupError('hunter2')\n"
        "    return original(self, what, *rest)\n"
        f"{owner}.{method} = failing\n"
    )
    environment = with_modules(tmp_path)
    first, second = tmp_path / "first", tmp_path / "second"
    (tmp_path / "rules.toml").write_text(
        "".join(
            f'[[rule]]\nname = "{path.name}"\nactions = [{{ exec = "touch {path}" }}]\n'
            for path in (first, second)
        )
    )
    flags = ("--dir", volume, "--rules", tmp_path / "rules.toml")
    with agent(tmp_path, *flags, env=environment) as running:
        running.reaches("told")
        assert first.exists()
        assert second.exists()
        failures = sum(rule["failures"] for rule in running.status()["rules"])
        assert failures + running.status()["internal_errors"] == 1
        assert "internal error: LookupError" in running.log
        assert "hunter2" not in running.log


def test_unexpected_error_between_two_attempts_does_not_end_a_rule(tmp_path: Path) -> None:
    """Newer content came during a command; what raises when that ends is a failure to retry."""
    (tmp_path / "sitecustomize.py").write_text(
        "from hotmap.agent.act.rule_attempts import RuleAttempts\n"
        "original, seen = RuleAttempts._find_evidence, []\n"
        "def failing(self, command):\n"
        "    seen.append(command)\n"
        "    if len(seen) == 2:\n"
        "        raise LookupError('hunter2')\n"
        "    return original(self, command)\n"
        "RuleAttempts._find_evidence = failing\n"
    )
    volume, allowed, runs = Volume(tmp_path / "volume", text="one"), tmp_path / "go", tmp_path / "r"
    command = f"sh -c 'echo x >> {runs}; until test -e {allowed}; do sleep 0.02; done'"
    flags = ("--dir", volume, "--settle", "0", "--exec", command)
    with agent(tmp_path, *flags, env=with_modules(tmp_path)) as running:
        eventually(runs.exists)
        volume.write(text="two")
        eventually(lambda: running.rule()["superseded"] == 1)
        allowed.touch()
        running.reaches("told")
        assert runs.read_text() == "x\nx\n"
        assert "internal error: LookupError" in running.log


@pytest.fixture
def nest() -> Iterator[Callable[[Path], None]]:
    """Make more directories in each other than a recursive function can visit.

    They are removed again, since the functions that remove temporary directories are recursive.
    """
    made: list[Path] = []

    def nest(place: Path) -> None:
        made.append(place)
        code = "import os\nfor _ in range(1200): os.mkdir('d'); os.chdir('d')"
        subprocess.run([sys.executable, "-S", "-c", code], cwd=place, check=True)

    yield nest
    for place in made:
        remove(place)


def remove(place: Path) -> None:
    """Remove nested directories, also while an agent does."""
    subprocess.run(["rm", "-rf", place / "d"], check=False, stderr=subprocess.DEVNULL)


def test_remains_nested_too_deeply_do_not_prevent_the_start(
    tmp_path: Path, nest: Callable[[Path], None]
) -> None:
    """A checker left them in the work directory, or a program in the stage."""
    volume, work, stage = Volume(tmp_path / "volume", text="one"), tmp_path / "w", tmp_path / "s"
    left = (work / "hotmap-agent-left", stage / "..2026_01_01_00_00_00.1")
    for place in left:
        place.mkdir(parents=True)
        nest(place)
    flags = ("--dir", volume, "--work-dir", work, "--check", "true")
    with agent(tmp_path, *flags, "--touch", tmp_path / "touched") as running:
        running.reaches("told")
    with agent(tmp_path, "--dir", volume, "--stage", stage) as running:
        if sys.version_info < (3, 13):  # later ones remove them
            eventually(lambda: running.status().get("state") == "waiting")
            remove(left[1])
        running.reaches("told")
        assert (stage / "text").read_text() == "one"


def test_directories_nested_too_deeply_are_unreadable(
    tmp_path: Path, nest: Callable[[Path], None]
) -> None:
    """A directory that no kubelet writes may be nested in any depth: it is said, and read later."""
    place = tmp_path / "plain"
    place.mkdir()
    (place / "text").write_text("one")
    with agent(
        tmp_path, "--dir", place, "--touch", tmp_path / "touched", "--poll-interval", "20ms"
    ) as running:
        running.reaches("told")
        nest(place)
        (place / "text").write_text("two")
        eventually(lambda: "nested too deeply" in running.message, "the reason")
        assert running.status()["state"] == "waiting"
        assert running.status()["internal_errors"] == 0
        remove(place)
        running.reaches("told")
