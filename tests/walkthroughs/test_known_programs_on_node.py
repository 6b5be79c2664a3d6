"""Known programs on the layout of their published images, on a real node: what is served and said.

One pod of each, injected by the documented command. An edit, a broken edit and its correction reach
it while a controller runs; after each the process itself is queried, and then `hotmap status`.
nginx has a test of its own (tests/agent/test_published_nginx_on_node.py).
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import traceback
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from tests.cluster import program_images
from tests.cluster.cluster import Cluster
from tests.cluster.errors import TestBedError
from tests.support.processes import child_environment
from tests.walkthroughs.backend import ROOT, until
from tests.walkthroughs.cluster import ClusterBackend
from tests.walkthroughs.status_controller import (
    StatusController,
    get_text,
    running_status_controller,
)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

CURRENT, NOT_CURRENT = 0, 1

#: Seconds in which all of them start, images unpacked.
_PATIENCE = 240.0


class Program(NamedTuple):
    """How a program is deployed, and what its files and its answers are."""

    user: int
    #: Where its configuration is mounted.
    path: str
    file: str
    #: The file's text with a value.
    text: Callable[[str], str]
    #: What is broken in the text of a broken edit.
    broken: Callable[[str], str]
    #: The state of the workload after that, and what its reason says.
    refusal: tuple[str, str]
    #: Gets the value that the process serves; "" while it does not answer.
    serve: Callable[[Shop, str], Awaitable[str]]
    arguments: tuple[str, ...] = ()
    #: Directories that it writes to.
    writable: tuple[str, ...] = ()
    #: Whether the configuration is a Secret.
    secret: bool = False
    environment: tuple[tuple[str, str], ...] = ()


class Shop(NamedTuple):
    """The namespace of the pods."""

    backend: ClusterBackend
    #: The addresses of pods, once they are known: none is replaced.
    addresses: dict[str, str]

    async def pod(self, name: str) -> Mapping[str, Any]:
        (found,) = await self.backend.find("Pod", selector=f"app={name}")
        return found

    async def get(self, name: str, port: int, path: str = "/") -> str:
        if not self.addresses.get(name):
            self.addresses[name] = (await self.pod(name))["status"].get("podIP", "")
        address = self.addresses[name]
        url = f"http://{address}:{port}{path}"
        return await asyncio.to_thread(get_text, url) if address else ""

    async def run(self, name: str, *command: str) -> str:
        """Run a command in the application's container; "" if that fails."""
        try:
            return (await self.backend.exec(f"deploy/{name}", *command, container="app")).strip()
        except TestBedError:  # it is about to start
            return ""


def _haproxy(value: str) -> str:
    return f"""\
defaults
  mode http
  timeout client 5s
  timeout server 5s
  timeout connect 5s
frontend web
  bind :80
  http-request return status 200 content-type text/plain string "{value}"
"""


async def _serve_prometheus(shop: Shop, name: str) -> str:
    text = await shop.get(name, 9090, "/api/v1/status/config")
    return text.partition("version: ")[2].partition("\\n")[0].strip("'\\\"")


async def _serve_redis(shop: Shop, name: str) -> str:
    users = (await shop.run(name, "redis-cli", "acl", "users")).split()
    return next((user for user in users if user != "default"), "")


PROGRAMS = {
    "haproxy": Program(
        99,
        "/usr/local/etc/haproxy",
        "haproxy.cfg",
        _haproxy,
        lambda value: "nonsense\n" + _haproxy(value),
        ("refused", "did not pass the check"),
        lambda shop, name: shop.get(name, 80),
    ),
    "prometheus": Program(
        65534,
        "/etc/prometheus",
        "prometheus.yml",
        lambda value: f"global:\n  external_labels: {{version: '{value}'}}\n",
        lambda value: f"globl: {value}\n",
        ("refused", "did not pass the check"),
        _serve_prometheus,
        writable=("/prometheus",),
    ),
    "redis": Program(
        999,
        "/usr/local/etc/redis",
        "users.acl",
        lambda value: f"user default on nopass ~* +@all\nuser {value} on >{value} ~* +@all\n",
        lambda value: f"user {value} nonsense\n",
        ("failed", "did not load the content"),
        _serve_redis,
        ("redis-server", "--aclfile", "/usr/local/etc/redis/users.acl", "--protected-mode", "no"),
        ("/data",),
        secret=True,
    ),
    "postgres": Program(
        999,
        "/etc/postgresql",
        "postgresql.conf",
        lambda value: f"shop.text = '{value}'\nlisten_addresses = '*'\n",
        lambda value: f"work_mem = '{value}'\n",
        ("refused", "did not pass the check"),
        lambda shop, name: shop.run(name, "psql", "-U", "postgres", "-XAtqc", "show shop.text"),
        ("-c", "config_file=/etc/postgresql/postgresql.conf"),
        ("/var/lib/postgresql/data", "/run/postgresql", "/tmp"),
        # A directory below the volume, which has to be the user's own.
        environment=(("PGDATA", "/var/lib/postgresql/data/pgdata"),),
    ),
    "gunicorn": Program(
        1000,
        "/etc/gunicorn",
        "gunicorn.conf.py",
        lambda value: f"wsgi_app = 'shop:serve'\nbind = ':8000'\nraw_env = ['TEXT={value}']\n",
        lambda value: f"wsgi_app = 'nowhere:serve'\nraw_env = ['TEXT={value}']\n",
        ("refused", "did not pass the check"),
        lambda shop, name: shop.get(name, 8000),
        writable=("/tmp",),
    ),
}  # fmt: skip


def test_every_program_with_an_image_is_tested() -> None:
    assert set(program_images.PROGRAMS) == set(PROGRAMS)


def _source(name: str, program: Program, text: str) -> Mapping[str, Any]:
    kind, field = ("Secret", "stringData") if program.secret else ("ConfigMap", "data")
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name},
        field: {program.file: text},
    }


def _deployment(name: str, program: Program) -> Mapping[str, Any]:
    """Make a Deployment of the published image, with a read-only root."""
    source = {"secret": {"secretName": name}} if program.secret else {"configMap": {"name": name}}
    volumes: list[dict[str, Any]] = [{"name": "config", **source}]
    mounts = [{"name": "config", "mountPath": program.path}]
    for number, path in enumerate(program.writable):
        volumes.append({"name": f"scratch-{number}", "emptyDir": {}})
        mounts.append({"name": f"scratch-{number}", "mountPath": path})
    container: dict[str, Any] = {
        "name": "app",
        "image": program_images.application_image(name),
        "securityContext": {"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False},
        "env": [{"name": key, "value": value} for key, value in program.environment],
        "volumeMounts": mounts,
    }
    if program.arguments:
        container["args"] = list(program.arguments)
    labels = {"app": name}
    spec = {
        "terminationGracePeriodSeconds": 1,
        "securityContext": {
            "runAsUser": program.user,
            "fsGroup": program.user,
            # As containerd does by default since 1.7, for ports below 1024.
            "sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}],
        },
        "containers": [container],
        "volumes": volumes,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "annotations": {"hotmap.dev/follow": "auto"}},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _inject(name: str, manifest: Mapping[str, Any]) -> str:
    """Add the agent as the guide says to."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "hotmap", "inject", "--filename", "-", "--for", name),
            *("--image", program_images.agent_image(name)),
        ],
        input=json.dumps(manifest),
        capture_output=True,
        text=True,
        check=False,
        env=child_environment(),
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class _Story:
    """What happens to one program; raises AssertionError where it is not as it should be."""

    def __init__(self, shop: Shop, controller: StatusController, name: str) -> None:
        self._shop, self._controller = shop, controller
        self.name, self.program = name, PROGRAMS[name]

    async def play(self) -> None:
        await self._is_current("one")
        uid = (await self._shop.pod(self.name))["metadata"]["uid"]
        await self._edit(self.program.text("two"))
        await self._is_current("two")
        await self._edit(self.program.broken("three"))
        await self._is_refused(still="two")
        await self._edit(self.program.text("four"))
        await self._is_current("four")
        pod = await self._shop.pod(self.name)
        assert pod["metadata"]["uid"] == uid, "it was not rolled out"
        (status,) = pod["status"]["containerStatuses"]
        assert status["restartCount"] == 0, status["lastState"]

    async def _serve(self) -> str:
        return await self.program.serve(self._shop, self.name)

    async def _edit(self, text: str) -> None:
        source = _source(self.name, self.program, text)
        body = {key: source[key] for key in ("data", "stringData") if key in source}
        await self._shop.backend.patch(str(source["kind"]), self.name, body)

    async def _is_current(self, value: str) -> None:
        """Wait as a script does; what is current afterwards is what the process serves."""
        ended = await self._controller.wait(self.name, 60)
        document = await self._controller.workload(self.name)
        served = await self._serve()
        assert (ended.status, served) == (CURRENT, value), ended.text
        assert document["state"] == "current"

    async def _is_refused(self, *, still: str) -> None:
        state, words = self.program.refusal

        async def check() -> str | None:
            document = await self._controller.workload(self.name)
            served = await self._serve()
            assert served in ("", still)
            assert document["state"] != "current", document["reason"]
            return str(document["reason"]) if document["state"] == state else None

        assert words in await until(check, f"{self.name} is {state}")
        ended = await self._controller.wait(self.name, 6)
        assert ended.status == NOT_CURRENT, ended.text
        assert await self._serve() == still


async def _play_all(cluster: Cluster, folder: Any) -> dict[str, str]:
    """Play all stories at once; returns how each failed, "" for those that did not."""
    async with ClusterBackend(cluster, f"programs-{uuid.uuid4().hex[:8]}") as backend:
        shop = Shop(backend, {})
        for name, program in PROGRAMS.items():
            await asyncio.to_thread(program_images.load, cluster, name)
            await backend.create(json.dumps(_source(name, program, program.text("one"))))
            await backend.create(_inject(name, _deployment(name, program)))

        async def play(controller: StatusController, name: str) -> str:
            async def serves() -> bool | None:
                if await PROGRAMS[name].serve(shop, name) == "one":
                    return True
                await asyncio.sleep(0.5)
                return None

            try:
                await until(serves, f"{name} serves", within=_PATIENCE)
                await _Story(shop, controller, name).play()
            except Exception:
                return traceback.format_exc()
            return ""

        async with running_status_controller(backend, folder) as controller:
            found = await asyncio.gather(*(play(controller, name) for name in PROGRAMS))
        return dict(zip(PROGRAMS, found, strict=True))


@pytest.fixture(scope="module")
def failures(
    real_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    yield asyncio.run(_play_all(real_cluster, tmp_path_factory.mktemp("programs")))


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_is_reloaded_and_its_status_is_that_of_the_process(
    failures: dict[str, str], name: str
) -> None:
    """An edit, a broken one, and the correction, without a rollout or a restart."""
    assert not failures[name], failures[name]
