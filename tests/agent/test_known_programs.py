"""Each known program, tested with the program itself in Debian's version.

A test starts the program on a mounted configuration, lets the agent load an edit into the running
process, sees that the process behaves by it without having been restarted, and that a broken edit
is neither loaded nor hidden. `tests/agent/install_programs.sh` installs the programs.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.agent.agents import Agent, Volume, agent, eventually, free_port, run_program
from tests.agent.known_programs import needs, own_target, program, refuses, served
from tests.support.processes import children_of, with_modules
from tests.support.requires import requires

from hotmap.agent.process import signals
from hotmap.agent.process.process_table import ProcessError, identify
from hotmap.agent.process.signals import send_reload
from hotmap.agent.settings.known_programs import KNOWN_PROGRAMS


def test_every_entry_is_tested() -> None:
    """Every known program has a test; that of nginx-conf.d needs the files of an image."""
    tested = {name.split("_")[1] for name in globals() if name.startswith("test_")}
    tested.add("nginx-conf.d")  # tests/agent/test_published_nginx_on_node.py
    assert set(KNOWN_PROGRAMS) <= tested


def test_nginx_is_reloaded_and_kept_from_broken_files(tmp_path: Path) -> None:
    """W12: the served content changes, the master stays; `nginx -t` keeps a broken file away."""
    needs("nginx", path="/usr/sbin:/usr/bin")
    port = free_port()

    def conf(text: str) -> str:
        return f"""
            daemon off; pid {tmp_path}/nginx.pid; error_log stderr; user root;
            events {{}}
            http {{ access_log off; server {{ listen 127.0.0.1:{port};
              location / {{ return 200 "{text}"; }} }} }}
        """

    volume = Volume(tmp_path / "volume", nginx__conf=conf("one"))
    with program("nginx", tmp_path, "/usr/sbin/nginx", "-c", volume.path / "nginx.conf") as pid:
        eventually(lambda: served(port) == "one")
        flags = ("--dir", volume, *own_target("nginx", pid, tmp_path))
        with agent(tmp_path, *flags) as running:
            running.reaches("loaded")
            volume.write(nginx__conf=conf("two"))
            eventually(lambda: served(port) == "two")
            running.reaches("loaded")
            loads = running.rule()["loads"]
            volume.write(nginx__conf=conf("three") + "}")
            refuses(running, "unexpected", "nginx.conf")
            assert served(port) == "two"
            assert running.rule()["loads"] == loads
            assert Path(f"/proc/{pid}").exists()
            volume.write(nginx__conf=conf("four"))
            eventually(lambda: served(port) == "four")


def test_haproxy_starts_new_workers_and_is_kept_from_broken_files(tmp_path: Path) -> None:
    """The master starts new workers on USR2; `haproxy -c` keeps a broken file away."""
    needs("haproxy", path="/usr/sbin:/usr/bin")
    port = free_port()

    def conf(text: str) -> str:
        return f"""
defaults
  mode http
  timeout client 5s
  timeout server 5s
  timeout connect 5s
frontend web
  bind 127.0.0.1:{port}
  http-request return status 200 content-type text/plain string "{text}"
"""

    volume = Volume(tmp_path / "volume", haproxy__cfg=conf("one"))
    command = ("/usr/sbin/haproxy", "-W", "-f", volume.path / "haproxy.cfg")
    with program("haproxy", tmp_path, *command) as pid:
        eventually(lambda: served(port) == "one")
        flags = ("--dir", volume, *own_target("haproxy", pid, tmp_path))
        environment = {**os.environ, "PATH": f"/usr/sbin:{os.environ['PATH']}"}
        with agent(tmp_path, *flags, env=environment) as running:
            running.reaches("loaded")
            volume.write(haproxy__cfg=conf("two"))
            eventually(lambda: served(port) == "two")
            running.reaches("loaded")
            volume.write(haproxy__cfg="nonsense\n" + conf("three"))
            refuses(running, "unknown keyword 'nonsense'")
            assert served(port) == "two"


def test_prometheus_is_reloaded_and_verified_by_its_metrics(tmp_path: Path) -> None:
    """HUP makes it read its file; its own metrics say that it did; promtool checks before."""
    needs("prometheus", "promtool")
    port = free_port()

    def conf(label: str) -> str:
        return f"global:\n  external_labels: {{ version: '{label}' }}\n"

    def version() -> str:
        address = f"http://127.0.0.1:{port}/api/v1/status/config"
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                text = str(answer.read().decode())
        except OSError:
            return ""
        return text.partition("version: ")[2].partition("\\n")[0].strip("'\\\"")

    volume = Volume(tmp_path / "volume", prometheus__yml=conf("one"))
    command = (
        *("prometheus", f"--config.file={volume}/prometheus.yml"),
        *(f"--web.listen-address=127.0.0.1:{port}", f"--storage.tsdb.path={tmp_path}/data"),
    )
    with program("prometheus", tmp_path, *command) as pid:
        eventually(lambda: version() == "one")
        words = own_target("prometheus", pid, tmp_path)
        flags = [word.replace(":9090/", f":{port}/") for word in words]
        with agent(tmp_path, "--dir", volume, *flags) as running:
            running.reaches("loaded")
            volume.write(prometheus__yml=conf("two"))
            eventually(lambda: version() == "two")
            running.reaches("loaded")
            volume.write(prometheus__yml="globl: {}")
            refuses(running, "globl")
            assert version() == "two"


def test_starting_prometheus_is_not_killed_by_a_signal(tmp_path: Path) -> None:
    """The runtime of Go catches HUP at once, and exits at it until Prometheus asks for it."""
    needs("prometheus", "promtool")
    (tmp_path / "prometheus.yml").write_text("global: {}\n")
    command = (
        *("prometheus", f"--config.file={tmp_path}/prometheus.yml"),
        *(f"--web.listen-address=127.0.0.1:{free_port()}", f"--storage.tsdb.path={tmp_path}/data"),
    )
    with run_program(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        asked = identify(process.pid)
        assert asked is not None
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            with pytest.raises(ProcessError, match="may not handle HUP yet"):
                send_reload(asked, signal.SIGHUP)
        assert process.poll() is None

        def is_sent() -> bool:
            try:
                send_reload(asked, signal.SIGHUP)
            except ProcessError:
                return False
            return True

        eventually(is_sent)
        assert process.poll() is None


@pytest.mark.parametrize("blocks", ["before it is looked at", "while it is looked at"])
def test_process_that_blocks_all_signals_has_just_started(
    monkeypatch: pytest.MonkeyPatch, blocks: str
) -> None:
    """The runtime of Go does while it starts a thread; a signal would wait, and kill it then."""
    program = (
        "import signal, sys, time\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n"
        "print(flush=True)\n"
        "time.sleep(60)\n"
    )
    masks = signals._signal_masks
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:

        def masks_before(path: str) -> dict[str, int]:
            is_whole = path == f"/proc/{process.pid}/status"
            return dict.fromkeys(masks(path), 0) if is_whole else masks(path)

        try:
            assert process.stdout is not None
            process.stdout.readline()
            asked = identify(process.pid)
            assert asked is not None
            if blocks == "while it is looked at":  # its threads are looked at last
                monkeypatch.setattr(signals, "_signal_masks", masks_before)
            with pytest.raises(ProcessError, match="may not handle HUP yet"):
                send_reload(asked, signal.SIGHUP)
        finally:
            process.kill()


def test_starting_java_program_is_not_killed_by_a_signal(tmp_path: Path) -> None:
    """A Java virtual machine catches HUP at once, and exits at it until its program asks for it."""
    requires("java", available=shutil.which("javac") is not None, reason="there is no JDK")
    source = tmp_path / "Starting.java"
    source.write_text(
        "class Starting {\n"
        "  public static void main(String[] arguments) throws Exception {\n"
        "    System.in.read();\n"
        '    sun.misc.Signal.handle(new sun.misc.Signal("HUP"), number -> {});\n'
        "    System.in.read();\n"
        "  }\n"
        "}\n"
    )
    subprocess.run(["javac", "-nowarn", source], check=True, stderr=subprocess.DEVNULL)
    command = ("java", "-cp", str(tmp_path), "Starting")
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        asked = identify(process.pid)
        assert asked is not None

        def catches() -> bool:
            with pytest.raises(ProcessError, match="may not handle HUP yet"):
                send_reload(asked, signal.SIGHUP)
            masks = Path(f"/proc/{process.pid}/status").read_text().partition("SigCgt:")[2]
            return bool(int(masks.split()[0], 16) & 1)

        eventually(catches, "a handler of HUP")
        with pytest.raises(ProcessError, match="may not handle HUP yet"):
            send_reload(asked, signal.SIGHUP)
        assert process.poll() is None
        process.communicate(b"\n\n")
        assert process.returncode == 0


@pytest.mark.slow  # ten seconds of processor time, most of them for initdb
def test_postgres_is_reloaded_and_verified_by_its_load_time(tmp_path: Path) -> None:
    """HUP makes it read its files; pg_conf_load_time() says that it did; `postgres -C` checks."""
    binaries = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    requires(
        "postgres",
        available=bool(binaries),
        reason="it is not installed (tests/agent/install_programs.sh)",
    )
    environment = {**os.environ, "PATH": f"{binaries[-1]}:{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory(prefix="hotmap-test-") as name:
        folder = Path(name)
        options: dict[str, Any] = {"env": environment, "cwd": folder}
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(folder, user.pw_uid, user.pw_gid)
            options |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        folder.chmod(0o755)
        data = folder / "data"
        subprocess.run(
            ["initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync"],
            check=True,
            capture_output=True,
            **options,
        )
        _try_postgres(folder, data, environment, options)


def _try_postgres(
    folder: Path, data: Path, environment: dict[str, str], options: dict[str, object]
) -> None:
    def conf(memory: str) -> str:
        return f"listen_addresses = ''\nunix_socket_directories = '{folder}'\nwork_mem = {memory}\n"

    volume = Volume(folder / "volume", postgresql__conf=conf("'5MB'"))
    volume.path.chmod(0o755)
    environment |= {"PGHOST": str(folder), "PGUSER": "postgres"}

    def memory() -> str:
        done = subprocess.run(
            ["psql", "-XAtqc", "show work_mem"],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        return done.stdout.strip()

    log = folder / "log"
    log.mkdir(mode=0o777)
    command = ("postgres", "-D", data, "-c", f"config_file={volume}/postgresql.conf")
    with program("postgres", log, *command, **options) as pid:
        eventually(lambda: memory() == "5MB")
        flags = ("--dir", volume, *own_target("postgres", pid, log))
        with agent(log, *flags, env=environment) as running:
            running.reaches("loaded")
            volume.write(postgresql__conf=conf("'6MB'"))
            eventually(lambda: memory() == "6MB")
            running.reaches("loaded")
            volume.write(postgresql__conf=conf("'lots'"))
            refuses(running, "work_mem")
            assert memory() == "6MB"
            volume.write(postgresql__conf=conf("'7MB'"))
            running.reaches("loaded")
            _break_postgres(running, data, lambda text: volume.write(postgresql__conf=text), conf)
            more = "ssl = on\nssl_cert_file = '/nowhere/tls.crt'\n"
            volume.write(postgresql__conf=conf("'7MB'") + more)
            assert "tls.crt" in running.reaches("failing")["message"]
            volume.write(postgresql__conf=conf("'8MB'") + "shared_buffers = 200MB\n")
            eventually(lambda: "setting could not be applied" in running.message)
            assert memory() == "8MB", "what needs no restart is there"
            volume.write(postgresql__conf=conf("'8MB'") + "shared_buffers = 128MB\n")
            running.reaches("loaded")


def _break_postgres(
    running: Agent, data: Path, write: Callable[[str], None], conf: Callable[[str], str]
) -> None:
    """Break the files beside postgresql.conf: postgres goes on with what it had."""
    for name, text, words in (
        ("pg_hba.conf", "local all all nonsense\n", "line 1: invalid authentication method"),
        ("pg_hba.conf", "# nothing\n", "pg_hba.conf has no entries"),
        ("pg_ident.conf", "map /( postgres\n", "pg_ident.conf has an error"),
    ):
        before = (data / name).read_text()
        (data / name).write_text(text)
        write(conf("'7MB'") + f"# {words}\n")
        assert words in running.reaches("failing")["message"]
        loads = running.rule()["loads"]
        (data / name).write_text(before)
        running.reaches("loaded")  # told again, since postgres has what it had before
        assert running.rule()["loads"] == loads + 1


def test_redis_loads_users_and_refuses_an_invalid_file(tmp_path: Path) -> None:
    """ACL LOAD takes a new users.acl; one with an error is refused by Redis and tried again."""
    needs("redis-server", "redis-cli")
    port = free_port()

    def acl(*users: str) -> str:
        lines = [f"user {name} on >{name} ~* +@all" for name in users]
        return "\n".join(["user default on nopass ~* +@all", *lines, ""])

    def users() -> list[str]:
        done = subprocess.run(
            ["redis-cli", "-p", str(port), "acl", "users"],
            capture_output=True,
            text=True,
            check=False,
        )
        return sorted(done.stdout.split())

    volume = Volume(tmp_path / "volume", users__acl=acl("ada"))
    command = (
        *("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", ""),
        *("--dir", tmp_path, "--aclfile", volume.path / "users.acl"),
    )
    with program("redis", tmp_path, *command):
        eventually(lambda: users() == ["ada", "default"])
        flags = ("--dir", volume, "--for", "redis", "--exec", f"redis-cli -p {port} -e ACL LOAD")
        with agent(tmp_path, *flags) as running:
            running.reaches("loaded")
            volume.write(users__acl=acl("ada", "eve"))
            eventually(lambda: users() == ["ada", "default", "eve"])
            volume.write(users__acl=acl("ada") + "user broken nonsense\n")
            assert "users.acl:3" in running.reaches("failing")["message"]
            assert users() == ["ada", "default", "eve"]
            volume.write(users__acl=acl("zoe"))
            eventually(lambda: users() == ["default", "zoe"])
            running.reaches("loaded")


def test_redis_conf_takes_a_restart(tmp_path: Path) -> None:
    """A change of redis.conf is not called loaded until redis has started again."""
    needs("redis-server", "redis-cli")
    port = free_port()
    base = f"port {port}\nbind 127.0.0.1\nsave ''\ndir {tmp_path}\n"
    volume = Volume(tmp_path / "volume", redis__conf=base + "maxclients 100\n")
    command = ("redis-server", volume.path / "redis.conf")

    def up() -> bool:
        words = ["redis-cli", "-p", str(port), "ping"]
        return b"PONG" in subprocess.run(words, capture_output=True, check=False).stdout

    cli = f"redis-cli -p {port} -e ACL LOAD"
    flags = ("--dir", volume, "--for", "redis", "--exec", cli, "--verify-timeout", "500ms")
    with program("redis", tmp_path, *command):
        eventually(up)
        with agent(tmp_path, *flags) as running:
            eventually(running.status)
            eventually(lambda: running.rule("startup")["state"] == "loaded")
            volume.write(redis__conf=base + "maxclients 200\n")
            eventually(lambda: running.rule("startup")["state"] == "failing")
            subprocess.run(["redis-cli", "-p", str(port), "shutdown"], check=True)
            eventually(lambda: not up())
            with program("redis", tmp_path, *command):
                eventually(up)
                eventually(lambda: running.rule("startup")["state"] == "loaded")


def test_redis_that_loads_its_dataset_is_not_taken_for_stopped(tmp_path: Path) -> None:
    """It answers LOADING, and has read its file already: only another start loads an edit."""
    needs("redis-server", "redis-cli")
    port = free_port()
    base = f"port {port}\nbind 127.0.0.1\nsave ''\ndir {tmp_path}\n"
    slow = "key-load-delay 10000\nloading-process-events-interval-bytes 1024\n"
    volume = Volume(tmp_path / "volume", redis__conf=base)
    command = ("redis-server", volume.path / "redis.conf")

    def ask(*words: str) -> str:
        done = subprocess.run(
            ["redis-cli", "-p", str(port), *words], capture_output=True, text=True, check=False
        )
        return done.stdout

    with program("redis", tmp_path, *command):
        eventually(lambda: "PONG" in ask("ping"))
        fill = "for i = 1, 800 do redis.call('SET', i, string.rep(tostring(i), 50)) end"
        ask("eval", fill, "0")
        ask("save")
    volume.write(redis__conf=base + slow)
    flags = ("--dir", volume, "--for", "redis", "--verify-timeout", "500ms")
    cli = f"redis-cli -p {port} -e ACL LOAD"
    with agent(tmp_path, *flags, "--exec", cli) as running, program("redis", tmp_path, *command):
        eventually(running.status)
        eventually(lambda: running.rule("startup")["state"] == "told")  # it was edited before
        eventually(lambda: "loading:1" in ask("info", "persistence"))
        volume.write(redis__conf=base + slow + "maxclients 200\n")
        eventually(lambda: "is running" in running.rule("startup").get("error", ""))
        eventually(lambda: "PONG" in ask("ping"))
        eventually(lambda: "has not changed" in running.rule("startup").get("error", ""))
        assert running.rule("startup")["state"] == "failing"


@pytest.mark.parametrize("workers", [1, 2])
def test_nginx_that_keeps_its_configuration_is_not_loaded(tmp_path: Path, workers: int) -> None:
    """The check passes, the port is taken: nginx keeps what it had, also when a worker ends.

    The master replaces a worker that has crashed, which is not a reload, even of its only one.
    """
    needs("nginx", path="/usr/sbin:/usr/bin")
    port, taken = free_port(), free_port()

    def conf(text: str, more: str = "") -> str:
        return f"""
            daemon off; pid {tmp_path}/nginx.pid; error_log stderr; user root;
            worker_processes {workers}; events {{}}
            http {{ access_log off; server {{ listen 127.0.0.1:{port}; {more}
              location / {{ return 200 "{text}"; }} }} }}
        """

    volume = Volume(tmp_path / "volume", nginx__conf=conf("one"))
    with (
        socket.create_server(("127.0.0.1", taken)),
        program("nginx", tmp_path, "/usr/sbin/nginx", "-c", volume.path / "nginx.conf") as pid,
    ):
        eventually(lambda: served(port) == "one")
        flags = ("--dir", volume, *own_target("nginx", pid, tmp_path))
        with agent(
            tmp_path, *flags, "--check", "none", "--verify-timeout", "4s", "--action-timeout", "9s"
        ) as running:
            running.reaches("loaded")
            volume.write(nginx__conf=conf("two", f"listen 127.0.0.1:{taken};"))
            eventually(lambda: "bind() to" in (tmp_path / "nginx.log").read_text())
            os.kill(children_of(pid)[0], signal.SIGKILL)
            eventually(lambda: "exited on signal 9" in (tmp_path / "nginx.log").read_text())
            message = running.reaches("failing")["message"]
            if workers == 1:
                assert "which may have replaced crashed ones" in running.log
            else:
                assert "old workers" in message
            assert running.rule()["loads"] == 1
            assert served(port) == "one"
            volume.write(nginx__conf=conf("three"))
            eventually(lambda: served(port) == "three")
            running.reaches("loaded")


def test_gunicorn_starts_new_workers_and_is_kept_from_broken_files(tmp_path: Path) -> None:
    """HUP starts new workers with the new settings; `--check-config` keeps a broken file away."""
    needs("gunicorn")
    port = free_port()
    (tmp_path / "application.py").write_text(
        "import os\n"
        "def app(environ, start):\n"
        "    start('200 OK', [])\n"
        "    return [os.environ.get('VERSION', '').encode()]\n"
    )

    def conf(version: str) -> str:
        return f"wsgi_app = 'application:app'\nraw_env = ['VERSION={version}']\nworkers = 1\n"

    volume = Volume(tmp_path / "volume", gunicorn__conf__py=conf("one"))
    environment = with_modules(tmp_path, PYTHONDONTWRITEBYTECODE="1")
    command = ("gunicorn", "-c", volume.path / "gunicorn.conf.py", "-b", f"127.0.0.1:{port}")
    with program("gunicorn", tmp_path, *command, env=environment) as pid:
        eventually(lambda: served(port) == "one")
        flags = ("--dir", volume, *own_target("gunicorn", pid, tmp_path))
        with agent(tmp_path, *flags, env=environment) as running:
            running.reaches("loaded")
            volume.write(gunicorn__conf__py=conf("two"))
            eventually(lambda: served(port) == "two")
            running.reaches("loaded")
            volume.write(gunicorn__conf__py=conf("three") + "workers = 'many'\n")
            refuses(running, "workers")
            assert served(port) == "two"


def test_gunicorn_that_ends_by_the_content_is_not_loaded(tmp_path: Path) -> None:
    """Its new workers read the content once the previous ones have ended; it ends with them."""
    needs("gunicorn")
    port = free_port()
    volume = Volume(tmp_path / "volume", text="one")
    (tmp_path / "application.py").write_text(
        f"text = open('{volume}/text', 'rb').read()\n"
        "assert text != b'invalid'\n"
        "def app(environ, start):\n"
        "    start('200 OK', [])\n"
        "    return [text]\n"
    )
    environment = with_modules(tmp_path, PYTHONDONTWRITEBYTECODE="1")
    command = ("gunicorn", "-w", "2", "-b", f"127.0.0.1:{port}", "application:app")
    with program("gunicorn", tmp_path, *command, env=environment) as pid:
        eventually(lambda: served(port) == "one")
        (tmp_path / "pid").write_text(str(pid))
        target = f"pidfile:{tmp_path}/pid"
        flags = ("--signal", "HUP", "--process", target, "--verify", f"workers {target}")
        with agent(tmp_path, "--dir", volume, "--verify-timeout", "4s", *flags) as running:
            running.reaches("loaded")
            loads = running.rule()["loads"]
            volume.write(text="invalid")
            running.reaches("failing")
            assert running.rule()["loads"] == loads
