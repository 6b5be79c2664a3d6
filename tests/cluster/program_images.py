"""Images of the programs that agents know, with the layout of the published ones.

Users, paths, entry points and working directories are those of the images `haproxy`, `redis` and
`postgres` of Docker's library, of `prom/prometheus`, and of `python` with an application. Each
exists twice: as it is, and with Python and hotmap upon it, as an image for the agent. They are
loaded when a test needs them (`load`), since together they take as much as all others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.cluster import images, node, packages
from tests.cluster.cluster import Cluster
from tools.image.layer import MANUALS, Layer
from tools.image.oci import Image

__all__ = ["PROGRAMS", "agent_image", "application_image", "load"]

_ARCHIVES = ("libcap2", "libgcrypt20", "libgpg-error0", "liblz4-1", "liblzma5", "libzstd1")
_SYSTEM = (*images.LIBC, *_ARCHIVES, "libstdc++6", "libssl3", "libsystemd0", "zlib1g")
_HAPROXY = (
    *_SYSTEM, "haproxy", "liblua5.3-0", "libopentracing-c-wrapper0", "libopentracing1",
    "libpcre2-8-0",
)  # fmt: skip
_REDIS = (*_SYSTEM, "redis-server", "redis-tools", "libatomic1", "libjemalloc2", "liblzf1")
_POSTGRES = (
    *_SYSTEM, "postgresql-15", "postgresql-client-15", "libpq5", "libaudit1", "libcap-ng0",
    "libcom-err2", "libffi8", "libgmp10", "libgnutls30", "libgssapi-krb5-2", "libhogweed6",
    "libicu72", "libidn2-0", "libk5crypto3", "libkeyutils1", "libkrb5-3", "libkrb5support0",
    "libldap-2.5-0", "libnettle8", "libp11-kit0", "libpam0g", "libreadline8", "libsasl2-2",
    "libtasn1-6", "libtinfo6", "libunistring2", "libxml2", "tzdata",
)  # fmt: skip
_GUNICORN = (*images.PYTHON, "gunicorn", "python3-gunicorn", "python3-pkg-resources")

#: Bitcode for a compiler that is not there.
_LEFT_OUT = re.compile(f"{MANUALS.pattern}|/bitcode(/|$)|llvmjit")

#: As docker-library/haproxy: it adds master-worker mode.
_HAPROXY_ENTRY = b"""\
#!/bin/sh
set -e
if [ "${1#-}" != "$1" ]; then set -- haproxy "$@"; fi
if [ "$1" = haproxy ]; then shift; set -- haproxy -W -db "$@"; fi
exec "$@"
"""
#: As docker-library/redis, for another user than root.
_REDIS_ENTRY = b"""\
#!/bin/sh
set -e
if [ "${1#-}" != "$1" ] || [ "${1%.conf}" != "$1" ]; then set -- redis-server "$@"; fi
exec "$@"
"""
#: As docker-library/postgres, for another user than root: it makes the data directory.
_POSTGRES_ENTRY = b"""\
#!/bin/sh
set -e
if [ "${1#-}" != "$1" ]; then set -- postgres "$@"; fi
if [ "$1" = postgres ] && [ ! -s "$PGDATA/PG_VERSION" ]; then
  initdb --username=postgres --auth=trust --locale=C --no-sync --pgdata="$PGDATA" >/dev/null
fi
exec "$@"
"""
_APPLICATION = b"""\
import os


def serve(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [os.environ["TEXT"].encode()]
"""


class _Program(NamedTuple):
    #: The user that the published image has for it.
    user: str
    packages: tuple[str, ...]
    #: Adds the files that the package does not have.
    add_files: Callable[[Layer], None]
    #: Of the image's configuration.
    settings: Mapping[str, object]
    #: Variables of the agent's image.
    agent_environment: tuple[str, ...] = ()


def _haproxy_files(layer: Layer) -> None:
    layer.folders("usr/local/etc/haproxy")
    layer.folders("usr/local/bin")
    layer.folders("var/lib/haproxy")
    layer.file("usr/local/bin/docker-entrypoint.sh", _HAPROXY_ENTRY, 0o755)


def _prometheus_files(layer: Layer) -> None:
    layer.folders("etc/prometheus")
    layer.folder("prometheus", 0o777)


def _redis_files(layer: Layer) -> None:
    layer.folder("data", 0o777)
    layer.folders("usr/local/etc/redis")
    layer.folders("usr/local/bin")
    layer.file("usr/local/bin/docker-entrypoint.sh", _REDIS_ENTRY, 0o755)


def _postgres_files(layer: Layer) -> None:
    layer.folder("run/postgresql", 0o3777)
    layer.link("var/run", "/run")
    layer.folders("var/lib/postgresql")
    layer.folder("var/lib/postgresql/data", 0o1777)
    layer.folders("usr/local/bin")
    layer.file("usr/local/bin/docker-entrypoint.sh", _POSTGRES_ENTRY, 0o755)


def _gunicorn_files(layer: Layer) -> None:
    layer.folder("app")
    layer.file("app/shop.py", _APPLICATION)
    layer.link("usr/bin/python3", "python3.11")
    layer.link("usr/bin/python", "python3")


_ENTRY = ["docker-entrypoint.sh"]
_POSTGRES_PATH = f"{images.PATH}:/usr/lib/postgresql/15/bin"

_PROGRAMS = {
    "haproxy": _Program(
        "haproxy:x:99:99",
        _HAPROXY,
        _haproxy_files,
        {
            "Entrypoint": _ENTRY,
            "Cmd": ["haproxy", "-f", "/usr/local/etc/haproxy/haproxy.cfg"],
            "User": "99",
            "WorkingDir": "/var/lib/haproxy",
            "StopSignal": "SIGUSR1",
        },
    ),
    "prometheus": _Program(
        "nobody:x:65534:65534",
        (*images.LIBC, "libssl3", "zlib1g", "prometheus"),
        _prometheus_files,
        {
            "Entrypoint": ["/bin/prometheus"],
            "Cmd": [
                "--config.file=/etc/prometheus/prometheus.yml",
                "--storage.tsdb.path=/prometheus",
            ],
            "User": "65534",
            "WorkingDir": "/prometheus",
        },
    ),
    "redis": _Program(
        "redis:x:999:999",
        _REDIS,
        _redis_files,
        {"Entrypoint": _ENTRY, "Cmd": ["redis-server"], "WorkingDir": "/data"},
    ),
    "postgres": _Program(
        "postgres:x:999:999",
        _POSTGRES,
        _postgres_files,
        {
            "Entrypoint": _ENTRY,
            "Cmd": ["postgres"],
            "StopSignal": "SIGINT",
            "Env": [_POSTGRES_PATH, "PGDATA=/var/lib/postgresql/data"],
        },
        ("PGHOST=127.0.0.1", "PGUSER=postgres"),
    ),
    "gunicorn": _Program(
        "app:x:1000:1000",
        _GUNICORN,
        _gunicorn_files,
        {
            "Cmd": ["gunicorn", "-c", "/etc/gunicorn/gunicorn.conf.py"],
            "User": "1000",
            "WorkingDir": "/app",
            "Env": [images.PATH, "PYTHONDONTWRITEBYTECODE=1"],
        },
    ),
}

#: The programs that have images here.
PROGRAMS = tuple(_PROGRAMS)


def application_image(name: str) -> str:
    """Return the name by which pods ask for a program's image."""
    return images.reference(f"published-{name}")


def agent_image(name: str) -> str:
    """Return the name of the image for the agent beside a program."""
    return images.reference(f"hotmap-published-{name}")


def load(cluster: Cluster, name: str) -> None:
    """Have a node's containerd know both images of a program.

    Raises:
        TestBedError: a Debian package cannot be downloaded, or containerd refuses an image.
    """
    program = _PROGRAMS[name]
    for image, make in (
        (f"published-{name}", lambda: _application(program)),
        (f"hotmap-published-{name}", lambda: _agent(program)),
    ):
        node.load_image(cluster.layout, image, images.tar_of(image, make, Path(__file__)))


def _layer(program: _Program) -> bytes:
    name, _, _, group = program.user.split(":")
    users = f"root:x:0:0:root:/root:/bin/sh\n{program.user}::/nonexistent:/bin/sh\n"
    layer = images.add_shell(Layer().root(users, f"root:x:0:\n{name}:x:{group}:\n"))
    program.add_files(layer)
    for package in program.packages:
        layer.tree(packages.unpacked(package), without=_LEFT_OUT)
    return layer.content()


def _application(program: _Program) -> Image:
    return images.image_of([_layer(program)], {"Env": [images.PATH], **program.settings})


def _agent(program: _Program) -> Image:
    environment = program.settings.get("Env", [images.PATH])
    assert isinstance(environment, list)
    settings = {**program.settings, "Env": [*environment, *program.agent_environment]}
    return images.with_agent(_layer(program), settings)
