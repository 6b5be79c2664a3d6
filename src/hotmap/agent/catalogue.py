"""Known programs: how to check their configuration, make them load it, and see that they did.

Each entry is tested against the program itself (tests/agent/test_known_programs.py), in the
version that Debian 12 has. Whatever a person writes beside `--for` goes over the entry.
"""

from __future__ import annotations

from collections import namedtuple

__all__ = ["CATALOGUE", "Entry"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple

    class Entry(NamedTuple):
        summary: str
        check: str
        signal: str
        process: str
        verify: tuple[str, ...]
        note: str
        command: str = ""
        files: tuple[str, ...] = ("*",)

else:
    Entry = namedtuple(
        "Entry",
        "summary check signal process verify note command files",
        defaults=["", ("*",)],
    )
    Entry.__doc__ = """summary: what it does, for documents; note: what it takes for granted."""

CATALOGUE: dict[str, Entry] = {
    "nginx": Entry(
        "`nginx -t`, then HUP to the master; confirmed by a new worker",
        "nginx -t -q -c {dir}/nginx.conf",
        "HUP",
        "name:nginx",
        ("workers name:nginx",),
        "nginx.conf is in the first directory; its includes are relative",
    ),
    "haproxy": Entry(
        "`haproxy -c`, then USR2 to the master; confirmed by a new worker",
        "haproxy -c -f {dir}/haproxy.cfg",
        "USR2",
        "name:haproxy",
        ("workers name:haproxy",),
        "haproxy runs in master-worker mode (-W or -Ws)",
    ),
    "prometheus": Entry(
        "`promtool check config`, then HUP; confirmed by its own metrics",
        "promtool check config {dir}/prometheus.yml",
        "HUP",
        "name:prometheus",
        (
            "metric http://127.0.0.1:9090/metrics prometheus_config_last_reload_successful=1",
            "metric http://127.0.0.1:9090/metrics "
            "prometheus_config_last_reload_success_timestamp_seconds",
        ),
        "it listens on port 9090 of the pod",
    ),
    "postgres": Entry(
        "`postgres -C`, then HUP to the postmaster; confirmed by pg_conf_load_time()",
        "postgres -C port -D {dir}",
        "HUP",
        "name:postgres",
        ("output psql -XAtqc 'select pg_conf_load_time()'",),
        "postgresql.conf is in the first directory; psql may connect (PGHOST, PGUSER …)",
    ),
    "gunicorn": Entry(
        "`gunicorn --check-config`, then HUP to the master; confirmed by a new worker",
        "gunicorn --check-config -c {dir}/gunicorn.conf.py",
        "HUP",
        "name:gunicorn",
        ("workers name:gunicorn",),
        "gunicorn.conf.py names the application (wsgi_app)",
    ),
    "redis": Entry(
        "`ACL LOAD` for users.acl, which checks all of it before it takes any",
        "",
        "",
        "",
        (),
        "redis-cli reaches the server (REDISCLI_AUTH …); redis.conf itself is read at start only",
        command="redis-cli -e ACL LOAD",
        files=("*.acl",),
    ),
}
