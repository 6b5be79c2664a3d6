"""Applications that serve over HTTP what they have loaded from a mounted ConfigMap.

`Application` is one of them in a Deployment of one pod, as a person sees it: its answers, its
pod, and the agent beside it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import urllib.request
from typing import Any, NamedTuple

import yaml
from tests.support.injected import injected
from tests.walkthroughs.backend import Backend, until
from tests.walkthroughs.steps import running_pod

__all__ = ["NGINX", "REREADS", "WEBHOOK", "Application", "Life", "nginx_conf", "program"]

_AGENT = "hotmap-agent"
_SOCKET = "/hotmap/run/agent.sock"

#: nginx as its image has it, with the configuration that is mounted.
NGINX = {
    "image": "hotmap.test/nginx:1",
    "command": ["nginx", "-c", "/conf/nginx.conf", "-g", "daemon off;"],
}

_SERVER = """
import ctypes, http.server, os, pathlib, sys, threading

def load():
    global loaded
    loaded = pathlib.Path("/conf/text").read_text()

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(loaded)
    def do_POST(self):
        if self.path == "/-/reload":
            load()
            self.answer("loaded")
    def answer(self, text):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())
    def log_message(self, *_):
        pass

load()
"""
_SERVE = """
http.server.ThreadingHTTPServer(("", int(sys.argv[1])), Handler).serve_forever()
"""
#: Waits for the rename that ends an update (kubernetes: pkg/volume/util/atomic_writer.go).
_WATCH = """
def watch():
    libc = ctypes.CDLL(None)
    inotify = libc.inotify_init()
    libc.inotify_add_watch(inotify, b"/conf", 0x80)  # IN_MOVED_TO
    load()
    while True:
        if b"..data" in os.read(inotify, 4096):
            load()

threading.Thread(target=watch, daemon=True).start()
"""
#: Programs in Python for `program`: one is told by POST /-/reload, one watches by itself.
WEBHOOK = _SERVER + _SERVE
REREADS = _SERVER + _WATCH + _SERVE


def program(text: str, port: int) -> dict[str, Any]:
    """Make a container of a program in Python that listens on a port."""
    return {"image": "hotmap.test/python:1", "command": ["python3", "-c", text, str(port)]}


def nginx_conf(port: int, text: str) -> str:
    """Write an nginx.conf that answers every request with a text."""
    paths = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = " ".join(f"{path}_temp_path /tmp/{path};" for path in paths)
    return (
        "user root; worker_processes 1; pid /tmp/nginx.pid; error_log stderr; events {}\n"
        f"http {{ access_log off; {temporary}\n"
        f'  server {{ listen {port}; location / {{ return 200 "{text}"; }} }} }}\n'
    )


class Life(NamedTuple):
    """What of a pod another pod, or a restart in it, would change."""

    uid: str
    started_at: str
    address: str
    #: Of each container, sidecars included: its name, its restarts, when it was started.
    containers: tuple[tuple[str, int, str], ...]


class Application:
    """A Deployment `web` of one pod, and a ConfigMap `web` that it mounts at /conf."""

    def __init__(self, backend: Backend, port: int) -> None:
        self._backend = backend
        self._port = port
        self._pod = ""
        self._address = ""

    async def create(
        self,
        container: dict[str, Any],
        data: dict[str, str],
        *,
        inject: tuple[str, ...] = (),
        annotations: dict[str, str] | None = None,
        volumes: tuple[dict[str, Any], ...] = (),
    ) -> Life:
        """Create both, injected with the arguments that `inject` has, and wait until they serve."""
        deployment = yaml.safe_dump(_deployment(container, annotations or {}, volumes, self._port))
        if inject:
            deployment = injected(deployment, *inject)
        source = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "web"},
            "data": data,
        }
        await self._backend.create(f"{yaml.safe_dump(source)}---\n{deployment}")
        self._pod = (await running_pod(self._backend, "web")).name
        life = await self.life()
        self._address = life.address
        return life

    async def life(self) -> Life:
        """Read what must not change while every container runs."""
        found = await self._backend.get("Pod", self._pod)
        status = found["status"]
        runs = [*status.get("initContainerStatuses", ()), *status["containerStatuses"]]
        return Life(
            found["metadata"]["uid"],
            status["startTime"],
            status["podIP"],
            tuple(
                (run["name"], run["restartCount"], run["state"]["running"]["startedAt"])
                for run in runs
            ),
        )

    async def edit(self, **data: str) -> None:
        """Change data keys; `__` stands for a dot."""
        named = {key.replace("__", "."): text for key, text in data.items()}
        await self._backend.patch("ConfigMap", "web", {"data": named})

    async def takes(self, text: str, path: str = "/", /, **data: str) -> str:
        """Edit, wait until the application shows a text; tell how long that took."""
        began = time.monotonic()
        await self.edit(**data)
        await self.wait_until_shown(text, path)
        return f"{time.monotonic() - began:.2f} s"

    async def wait_until_shown(self, text: str, path: str = "/") -> None:
        """Wait until the application's answer has a text in it."""

        async def check() -> bool | None:
            return text in await self.answer(path) or None

        await until(check, f"{path} shows {text!r}")

    async def answer(self, path: str = "/") -> str:
        """Ask as a browser does; "" while there is no answer."""
        return await asyncio.to_thread(_get, f"http://{self._address}:{self._port}{path}")

    async def agent(self, state: str) -> dict[str, Any]:
        """Wait until `hotmap agent status` tells of a state, also by its exit status."""

        async def check() -> dict[str, Any] | None:
            words = ("hotmap", "agent", "status", "--json", "--socket", _SOCKET)
            script = "import subprocess, sys; print('\\n', subprocess.run(sys.argv[1:]).returncode)"
            command = ("python3", "-c", script, *words)
            output = await self._backend.exec(self._pod, *command, container=_AGENT)
            said, _, code = output.strip().rpartition("\n")
            status: dict[str, Any] = json.loads(said)
            assert (code.strip() == "0") == (status["state"] == "loaded"), output
            return status if status["state"] == state else None

        return await until(check, f"the agent is {state}")

    async def metric(self, name: str) -> float:
        """Read one of the agent's samples, by its name and labels."""
        request = "GET /metrics HTTP/1.0\\r\\n\\r\\n"
        script = (
            f"import socket; s = socket.socket(socket.AF_UNIX); s.connect('{_SOCKET}'); "
            f"s.sendall(b'{request}'); print(s.makefile().read())"
        )
        page = await self._backend.exec(self._pod, "python3", "-c", script, container=_AGENT)
        (line,) = [line for line in page.splitlines() if line.startswith(f"{name} ")]
        return float(line.rsplit(" ", 1)[1])


def _deployment(
    container: dict[str, Any],
    annotations: dict[str, str],
    volumes: tuple[dict[str, Any], ...],
    port: int,
) -> dict[str, Any]:
    mounts = [{"name": "conf", "mountPath": "/conf"}, *container.pop("volumeMounts", ())]
    container = {
        "name": "web",
        **container,
        "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1},
        "volumeMounts": mounts,
    }
    labels = {"app": "web"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "annotations": {"hotmap.dev/follow": "auto", **annotations}},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    # Agent and application are the same user: one signals the other.
                    "securityContext": {"runAsUser": 0},
                    "containers": [container],
                    "volumes": [{"name": "conf", "configMap": {"name": "web"}}, *volumes],
                },
            },
        },
    }


def _get(url: str) -> str:
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
        return str(answer.read().decode().strip())
    return ""
