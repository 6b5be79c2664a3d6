"""W12: an edit reaches the process inside its pod; no other pod, container or address.

hotmap's controller runs in each test, so that the files follow at once; how long it takes from the
write to what the application answers is shown at the end of the run.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
from tests.agent.agents import free_port
from tests.support.requires import requires
from tests.walkthroughs.applications import (
    NGINX,
    REREADS,
    WEBHOOK,
    Application,
    nginx_conf,
    program,
)
from tests.walkthroughs.backend import Backend
from tests.walkthroughs.local import LocalBackend

#: Minutes of waiting or of processor time, too much after each edit.
pytestmark = pytest.mark.slow

#: pytest's `record_property`.
Note = Callable[[str, object], None]

WITH_NGINX = ("--image=hotmap.test/hotmap-nginx:1", "--for=nginx")


def needs(backend: Backend, name: str, *, on_the_node: bool = False) -> None:
    """Skip where this machine's program is wanted and not installed."""
    if on_the_node or isinstance(backend, LocalBackend):
        requires(
            name,
            available=shutil.which(name, path="/usr/sbin:/usr/bin") is not None,
            reason=f"{name} is not installed (tests/agent/install_programs.sh)",
        )


async def test_nginx_is_signalled(backend: Backend, record_property: Note) -> None:
    """The agent beside it sends HUP to its master, and what is served is new."""
    needs(backend, "nginx")
    port = free_port()
    web = Application(backend, port)
    life = await web.create(NGINX, {"nginx.conf": nginx_conf(port, "one")}, inject=WITH_NGINX)
    async with backend.running_controller():
        await web.wait_until_shown("one")
        for text in ("two", "three"):
            took = await web.takes(text, nginx__conf=nginx_conf(port, text))
            record_property("edit → served by nginx", took)
            await web.agent("loaded")
    assert await web.life() == life
    assert await backend.history("web") == [1]


async def test_broken_nginx_conf_is_not_loaded(backend: Backend) -> None:
    """No signal is sent, the old content is served, and the status says so; then it is fixed."""
    needs(backend, "nginx")
    port = free_port()
    web = Application(backend, port)
    life = await web.create(NGINX, {"nginx.conf": nginx_conf(port, "one")}, inject=WITH_NGINX)
    loads = 'hotmap_agent_loads_total{rule="default"}'
    async with backend.running_controller():
        await web.wait_until_shown("one")
        await web.edit(nginx__conf=nginx_conf(port, "two"))
        await web.wait_until_shown("two")
        await web.agent("loaded")
        loaded = await web.metric(loads)

        await web.edit(nginx__conf=nginx_conf(port, "three") + "}")
        status = await web.agent("refused")
        assert 'unexpected "}"' in status["check"]["error"]
        assert await web.metric("hotmap_agent_check_passed") == 0
        assert await web.metric(loads) == loaded
        assert await web.answer() == "two"

        await web.edit(nginx__conf=nginx_conf(port, "four"))
        await web.wait_until_shown("four")
        await web.agent("loaded")
        assert await web.metric("hotmap_agent_check_passed") == 1
    assert await web.life() == life


async def test_application_with_webhook_is_called(backend: Backend, record_property: Note) -> None:
    """`POST /-/reload` makes it read its file again."""
    port = free_port()
    web = Application(backend, port)
    hook = ("--", f"--url=http://127.0.0.1:{port}/-/reload")
    life = await web.create(program(WEBHOOK, port), {"text": "one"}, inject=hook)
    async with backend.running_controller():
        await web.wait_until_shown("one")
        record_property("edit → served after a webhook", await web.takes("two", text="two"))
        await web.agent("loaded")
    assert await web.life() == life
    assert await backend.history("web") == [1]


async def test_prometheus_is_called(backend: Backend, record_property: Note) -> None:
    """What it refuses is not hidden: it answers 500, keeps what it has, and is asked again."""
    needs(backend, "prometheus", on_the_node=True)
    port = free_port()
    web = Application(backend, port)

    def conf(version: str) -> str:
        return f"global:\n  external_labels: {{version: v-{version}}}\n"

    container = {
        "image": "hotmap.test/python:1",
        "command": [
            *("/opt/prometheus", "--config.file=/conf/prometheus.yml", "--web.enable-lifecycle"),
            *(f"--web.listen-address=:{port}", "--storage.tsdb.path=/tmp/data"),
        ],
        "volumeMounts": [{"name": "program", "mountPath": "/opt/prometheus"}],
    }
    path = {"path": "/usr/bin/prometheus", "type": "File"}
    life = await web.create(
        container,
        {"prometheus.yml": conf("one")},
        inject=("--", f"--url=http://127.0.0.1:{port}/-/reload"),
        volumes=({"name": "program", "hostPath": path},),
    )
    present = "/api/v1/status/config"
    async with backend.running_controller():
        await web.wait_until_shown("v-one", present)
        took = await web.takes("v-two", present, prometheus__yml=conf("two"))
        record_property("edit → prometheus has it", took)
        await web.agent("loaded")

        await web.edit(prometheus__yml="globl: {}\n")
        assert "500" in (await web.agent("failing"))["message"]
        assert "v-two" in await web.answer(present)

        await web.edit(prometheus__yml=conf("three"))
        await web.wait_until_shown("v-three", present)
        await web.agent("loaded")
    assert await web.life() == life


async def test_rereading_application_needs_no_agent(
    backend: Backend, record_property: Note
) -> None:
    """It watches `..data`; that its files are there at once is all that hotmap has to do."""
    port = free_port()
    web = Application(backend, port)
    opted_in = {"hotmap.dev/rereads": "true"}
    life = await web.create(program(REREADS, port), {"text": "one"}, annotations=opted_in)
    async with backend.running_controller():
        await web.wait_until_shown("one")
        record_property("edit → served by what rereads", await web.takes("two", text="two"))
    assert await web.life() == life
    assert await backend.history("web") == [1]
