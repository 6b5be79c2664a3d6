"""Workloads of a random trial: every way of using a source × every way of loading it again.

Each runs one program, which answers with what it has loaded: `GET /` gives its data keys. Each
data key has its source's name before it, as `s3a` of `s3`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import yaml
from tests.agent.agents import free_port
from tests.support.injected import injected
from tests.walkthroughs.backend import JsonObject

__all__ = ["KEYS", "SHAPES", "Shape", "TrialWorkload"]

#: The data keys of a source, after its name.
KEYS = ("a", "b", "c")

_SERVER = """
import http.server, json, os, pathlib, signal, sys, threading, time

use, port, mark = sys.argv[1:4]
state = {"mode": "ok", "generation": 0}

def read():
    if use == "env":
        return {key: value for key, value in os.environ.items() if key.startswith(mark)}
    found = {}
    for pattern in ("*", "deep/*"):
        for path in pathlib.Path("/conf").glob(pattern):
            if path.name.startswith(mark):
                found[path.name] = path.read_text()
    return found

def read_complete():
    while True:
        try:
            first = read()
            if first == read():
                return first
        except OSError:
            pass

loaded = read_complete()
lock = threading.Lock()

def reload():
    global loaded
    mode = state["mode"]
    if mode == "fail":
        return False
    if mode == "slow":
        time.sleep(3)
    with lock:
        loaded = read_complete()
        state["generation"] += 1
    return True

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/generation":
            self.answer(200, json.dumps({"generation": state["generation"]}))
        else:
            self.answer(200, json.dumps(loaded))
    def do_POST(self):
        if self.path.startswith("/mode/"):
            state["mode"] = self.path[6:]
            self.answer(200, "")
        elif state["mode"] == "lie":
            self.answer(200, "")
        else:
            self.answer(200 if reload() else 500, "")
    def answer(self, status, text):
        try:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())
        except OSError:
            pass
    def log_message(self, *_):
        pass

def reread():
    global loaded
    while True:
        time.sleep(0.5)
        loaded = read_complete()

if "reread" in sys.argv:
    threading.Thread(target=reread, daemon=True).start()
signal.signal(signal.SIGHUP, lambda *_: threading.Thread(target=reload, daemon=True).start())
pathlib.Path("/run/app/pid").write_text(f"{os.getpid()}\\n")
http.server.ThreadingHTTPServer.request_queue_size = 64
http.server.ThreadingHTTPServer((os.environ["POD_IP"], int(port)), Handler).serve_forever()
"""

_CALL = (
    "import os, urllib.request; urllib.request.urlopen(os.environ['RELOAD'], data=b'', timeout=20)"
)

#: How the sources are used, and what makes the process load them again.
_USES = ("file", "items", "subpath", "env", "envfrom", "projected", "init", "two containers")
_LOADERS = ("rollout", "rereads", "url", "staged url", "signal", "exec", "supervisor")


class Shape(NamedTuple):
    """One kind of workload."""

    kind: str
    use: str
    loader: str
    source: str

    @property
    def has_agent(self) -> bool:
        return self.loader not in ("rollout", "rereads")

    @property
    def reads_at_start(self) -> bool:
        return self.use in ("subpath", "env", "envfrom", "init")

    @property
    def final_states(self) -> frozenset[str]:
        """States in which it ends, when all that is left to do is hotmap's."""
        if self.use == "two containers":
            return frozenset(("delivered", "current"))
        return frozenset(("current",))


def _possible(shape: Shape) -> bool:
    files = shape.use in ("file", "items", "projected", "two containers")
    if shape.loader in ("rereads", "url", "staged url", "signal", "exec") and not files:
        return False
    if shape.loader == "supervisor" and shape.use not in ("file", "env", "envfrom", "projected"):
        return False
    if shape.use == "two containers" and shape.loader != "url":
        return False
    # A Pod is not replaced, so it has to load its files itself.
    return shape.kind != "Pod" or (files and shape.loader not in ("rollout", "supervisor"))


SHAPES = tuple(
    shape
    for kind in ("Deployment", "StatefulSet", "DaemonSet", "Pod")
    for use in _USES
    for loader in _LOADERS
    for source in ("ConfigMap", "Secret")
    if _possible(shape := Shape(kind, use, loader, source))
)


class TrialWorkload:
    """One workload of a trial: its objects, and which sources it uses."""

    def __init__(self, number: int, shape: Shape) -> None:
        self.shape = shape
        self.name = f"w{number}"
        #: By name: the kind of each source.
        self.sources = {f"s{number}x": shape.source}
        if shape.use in ("projected", "two containers"):
            other = "Secret" if shape.source == "ConfigMap" else "ConfigMap"
            self.sources[f"s{number}y"] = other
        self.mark = f"s{number}"
        self.port, self.agent_port = free_port(), free_port()

    def used(self, source: str) -> tuple[str, ...]:
        """Name the data keys of a source that its process loads."""
        if self.shape.use == "two containers" and source.endswith("y"):
            return ()  # its other container mounts it, which is not compared
        count = 1 if self.shape.use in ("items", "subpath", "env") else len(KEYS)
        return tuple(f"{source}{key}" for key in KEYS[:count])

    def manifest(self) -> JsonObject:
        """Make the workload, with the agent injected if it has one."""
        text = yaml.safe_dump(self._workload())
        if not self.shape.has_agent:
            found: JsonObject = yaml.safe_load(text)
            return found
        found = yaml.safe_load(injected(text, *self._injection()))
        spec = found["spec"] if self.shape.kind == "Pod" else found["spec"]["template"]["spec"]
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            if container["name"].startswith("hotmap-agent"):
                container["args"] = [
                    word.replace("$$(POD_IP)", "$(POD_IP)") for word in container["args"]
                ]
                container.setdefault("env", []).extend(self._environment())
        return found

    def _environment(self) -> list[JsonObject]:
        return [
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "RELOAD", "value": f"http://$(POD_IP):{self.port}/reload"},
        ]

    def _injection(self) -> list[str]:
        mode = "supervisor" if self.shape.loader == "supervisor" else "native-sidecar"
        options = ["--mode", mode, "--container", "app"]
        if self.shape.loader == "staged url":
            options.append("--stage")
        flags = ["--listen", f":{self.agent_port}", "--retry-max", "1s", "--work-dir", "/tmp"]
        url = f"http://$(POD_IP):{self.port}"
        verify = ["--verify", f"field {url}/generation generation", "--verify-timeout", "5s"]
        match self.shape.loader:
            case "url":
                flags += ["--url", f"{url}/reload"]
            case "staged url":
                flags += ["--url", f"{url}/reload", "--not-empty", "*a"]
            case "signal":
                flags += ["--signal", "HUP", "--process", "pidfile:/run/app/pid", *verify]
            case "exec":
                flags += ["--exec", f'python3 -c "{_CALL}"', *verify]
            case _:
                flags += ["--min-uptime", "500ms"]
        return [*options, "--", *flags]

    def _workload(self) -> JsonObject:
        labels = {"app": self.name}
        annotations = {"hotmap.dev/follow": "auto", "hotmap.dev/flap-limit": "0"}
        if self.shape.loader == "rereads":
            annotations["hotmap.dev/rereads"] = "2s"
        kind = self.shape.kind
        metadata = {"name": self.name, "annotations": annotations}
        if kind == "Pod":
            metadata["labels"] = {**labels, "hotmap.dev/watch": "true"}
            return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": self._spec()}
        spec: JsonObject = {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": self._spec()},
        }
        if kind == "StatefulSet":
            spec["serviceName"] = self.name
        if kind != "DaemonSet":
            spec["replicas"] = 1
        return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}

    def _spec(self) -> JsonObject:
        use = "env" if self.shape.use in ("env", "envfrom") else "file"
        reread = ["reread"] if self.shape.loader == "rereads" else []
        app: JsonObject = {
            "name": "app",
            "image": "hotmap.test/python:1",
            "command": ["python3", "-c", _SERVER, use, str(self.port), self.mark, *reread],
            "env": self._environment(),
            "volumeMounts": [{"name": "run", "mountPath": "/run/app"}],
            "readinessProbe": {"tcpSocket": {"port": self.port}, "periodSeconds": 1},
        }
        spec: JsonObject = {
            "terminationGracePeriodSeconds": 1,
            "securityContext": {"runAsUser": 0},
            "containers": [app],
            "volumes": [{"name": "run", "emptyDir": {}}],
        }
        self._add_use(spec, app)
        return spec

    def _add_use(self, spec: JsonObject, app: JsonObject) -> None:
        name, kind = next(iter(self.sources.items()))
        key = f"{name}a"
        volume: JsonObject = {"name": "conf", **_volume_source(name, kind)}
        mount: JsonObject = {"name": "conf", "mountPath": "/conf"}
        match self.shape.use:
            case "env":
                reference = "configMapKeyRef" if kind == "ConfigMap" else "secretKeyRef"
                app["env"].append(
                    {"name": key, "valueFrom": {reference: {"name": name, "key": key}}}
                )
                return
            case "envfrom":
                reference = "configMapRef" if kind == "ConfigMap" else "secretRef"
                app["envFrom"] = [{reference: {"name": name}}]
                return
            case "items":
                volume["configMap" if kind == "ConfigMap" else "secret"]["items"] = [
                    {"key": key, "path": f"deep/{key}"}
                ]
            case "subpath":
                mount |= {"mountPath": f"/conf/{key}", "subPath": key}
            case "projected":
                parts = [_projection(each, of) for each, of in self.sources.items()]
                volume = {"name": "conf", "projected": {"sources": parts}}
            case "init":
                copy = {
                    "name": "copy",
                    "image": "busybox",
                    "command": ["sh", "-c", "cp -L /from/s* /conf/"],
                    "volumeMounts": [{"name": "conf", "mountPath": "/from"}, _COPIED],
                }
                spec["initContainers"] = [copy]
                spec["volumes"].append({"name": "copied", "emptyDir": {}})
                mount = _COPIED
            case "two containers":
                other = next(each for each in self.sources.items() if each[0] != name)
                spec["volumes"].append({"name": "other", **_volume_source(*other)})
                spec["containers"].append(
                    {
                        "name": "other",
                        "image": "busybox",
                        "command": ["sleep", "infinity"],
                        "volumeMounts": [{"name": "other", "mountPath": "/other"}],
                    }
                )
        spec["volumes"].append(volume)
        app["volumeMounts"].append(mount)


_COPIED = {"name": "copied", "mountPath": "/conf"}


def _volume_source(name: str, kind: str) -> JsonObject:
    if kind == "ConfigMap":
        return {"configMap": {"name": name}}
    return {"secret": {"secretName": name}}


def _projection(name: str, kind: str) -> Mapping[str, JsonObject]:
    return {"configMap" if kind == "ConfigMap" else "secret": {"name": name}}
