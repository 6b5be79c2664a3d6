"""Programs that start a second master at SIGUSR2: until one is left, both serve."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from tests.agent.agents import Volume, agent, eventually, free_port
from tests.agent.known_programs import needs, own_target, program, served
from tests.support.processes import children_of, with_modules


@pytest.mark.parametrize("target", ["pidfile", "command"])
def test_nginx_that_is_being_upgraded_is_not_loaded(tmp_path: Path, target: str) -> None:
    """Two masters have workers that serve: USR2 starts another one beside the first."""
    needs("nginx", path="/usr/sbin:/usr/bin")
    port, pidfile = free_port(), tmp_path / "nginx.pid"

    def conf(text: str) -> str:
        return f"""
            pid {pidfile}; error_log stderr; user root; worker_processes 1; events {{}}
            http {{ access_log off; server {{ listen 127.0.0.1:{port};
              location / {{ return 200 "{text}"; }} }} }}
        """

    volume = Volume(tmp_path / "volume", nginx__conf=conf("one"))
    command = ("/usr/sbin/nginx", "-c", str(volume.path / "nginx.conf"))
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)  # a daemon: others ignore USR2
    masters = [int(eventually(lambda: other_pid(pidfile, 0)))]
    named = f"command:{command[2]}" if target == "command" else f"pidfile:{pidfile}"
    flags = ("--dir", volume, "--signal", "HUP", "--process", named, "--verify", f"workers {named}")
    try:
        eventually(lambda: served(port) == "one")
        with agent(tmp_path, *flags) as running:
            running.reaches("loaded")
            os.kill(masters[0], signal.SIGUSR2)
            masters.append(int(eventually(lambda: other_pid(pidfile, masters[0]))))
            eventually(lambda: children_of(masters[1]))
            volume.write(nginx__conf=conf("two"))
            assert "are both masters" in running.reaches("failing")["message"]
            os.kill(masters[0], signal.SIGWINCH)  # its workers end; it stays, to go back
            eventually(lambda: served(port) == "two")
            running.reaches("loaded")
            assert Path(f"/proc/{masters[0]}").exists()
    finally:
        for pid in masters:
            os.kill(pid, signal.SIGTERM)


@pytest.mark.parametrize("started", [True, False], ids=["with workers", "without workers yet"])
def test_gunicorn_that_is_being_upgraded_is_not_loaded(tmp_path: Path, started: bool) -> None:
    """Its masters may have no titles: workers of the second one serve what it has read."""
    needs("gunicorn")
    port, gate, second_file = free_port(), tmp_path / "gate", tmp_path / "second"
    (tmp_path / "setproctitle.py").write_text("raise ImportError")  # it is optional
    (tmp_path / "application.py").write_text(
        "import os\n"
        "def app(environ, start):\n"
        "    start('200 OK', [('Connection', 'close')])\n"
        "    return [os.environ['VERSION'].encode()]\n"
    )

    def conf(version: str) -> str:
        return (
            f"import os, time\nwsgi_app = 'application:app'\nworkers = 1\n"
            f"raw_env = ['VERSION={version}']\n"
            "def on_starting(server):\n"
            f"    open('{second_file}.new', 'w').write(str(os.getpid()))\n"
            f"    os.rename('{second_file}.new', '{second_file}')\n"
            f"    while os.path.exists('{gate}'): time.sleep(0.01)\n"
        )

    volume = Volume(tmp_path / "volume", gunicorn__conf__py=conf("one"))
    environment = with_modules(tmp_path, PYTHONDONTWRITEBYTECODE="1")
    command = ("gunicorn", "-c", volume.path / "gunicorn.conf.py", "-b", f"127.0.0.1:{port}")
    with program("gunicorn", tmp_path, *command, env=environment) as pid:
        eventually(lambda: served(port) == "one")
        flags = ("--dir", volume, *own_target("gunicorn", pid, tmp_path))
        with agent(tmp_path, *flags, env=environment) as running:
            running.reaches("loaded")
            gate.touch()
            os.kill(pid, signal.SIGUSR2)
            second = int(eventually(lambda: other_pid(second_file, pid)))
            try:
                if started:
                    gate.unlink()
                    eventually(lambda: children_of(second))
                volume.write(gunicorn__conf__py=conf("two"))
                message = running.reaches("failing")["message"]
                assert ("are both masters" if started else "is a new master") in message
                gate.unlink(missing_ok=True)
                eventually(lambda: children_of(second))
                os.kill(second, signal.SIGTERM)
                running.reaches("loaded")
                assert {served(port) for _ in range(10)} == {"two"}
            finally:
                with suppress(ProcessLookupError):
                    os.kill(second, signal.SIGTERM)


def other_pid(pidfile: Path, pid: int) -> str:
    """Read a pid file until it names another process; "" while it does not."""
    text = pidfile.read_text().strip() if pidfile.exists() else ""
    return "" if text == str(pid) else text
