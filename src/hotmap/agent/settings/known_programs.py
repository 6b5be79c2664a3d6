"""Known programs (`--for`): how to check, reload and verify each of them.

Each is tested against the program itself (tests/agent/test_known_programs.py), in the version that
Debian 12 has. Other flags take precedence over what is here.
"""

from __future__ import annotations

from hotmap.core.value import Value

__all__ = ["KNOWN_PROGRAMS", "KnownProgram"]


class KnownProgram(Value):
    """How to reload one program.

    summary: what the agent does, for the documentation
    check: the check command, "" for none
    signal, process: the reload signal and the process that gets it; or command
    note: what it requires, for the documentation
    files: patterns of the files that it reloads
    """

    summary: str
    check: str
    signal: str
    process: str
    verify: tuple[str, ...]
    note: str
    command: str = ""
    files: tuple[str, ...] = ("*",)


KNOWN_PROGRAMS: dict[str, KnownProgram] = {
    "nginx": KnownProgram(
        "`nginx -t`, then SIGHUP to the master process; verified by a new worker",
        "nginx -t -q -c {dir}/nginx.conf",
        "HUP",
        "name:nginx",
        ("workers name:nginx",),
        "nginx.conf is in the first directory and uses relative includes",
    ),
    "haproxy": KnownProgram(
        "`haproxy -c`, then SIGUSR2 to the master process; verified by a new worker",
        "haproxy -c -f {dir}/haproxy.cfg",
        "USR2",
        "name:haproxy",
        ("workers name:haproxy",),
        "haproxy runs in master-worker mode (-W or -Ws)",
    ),
    "prometheus": KnownProgram(
        "`promtool check config`, then SIGHUP; verified by its own metrics",
        "promtool check config {dir}/prometheus.yml",
        "HUP",
        "name:prometheus",
        (
            "metric http://127.0.0.1:9090/metrics prometheus_config_last_reload_successful=1",
            "metric http://127.0.0.1:9090/metrics "
            "prometheus_config_last_reload_success_timestamp_seconds",
        ),
        "prometheus listens on port 9090 of the pod",
    ),
    "postgres": KnownProgram(
        "`postgres -C`, then SIGHUP to the postmaster; verified by pg_conf_load_time()",
        "postgres -C port -D {dir}",
        "HUP",
        "name:postgres",
        ("output psql -XAtqc 'select pg_conf_load_time()'",),
        "postgresql.conf is in the first directory; psql can connect (PGHOST, PGUSER …)",
    ),
    "gunicorn": KnownProgram(
        "`gunicorn --check-config`, then SIGHUP to the master process; verified by a new worker",
        "gunicorn --check-config -c {dir}/gunicorn.conf.py",
        "HUP",
        "name:gunicorn",
        ("workers name:gunicorn",),
        "gunicorn.conf.py sets wsgi_app",
    ),
    "redis": KnownProgram(
        "`ACL LOAD` for users.acl, which redis validates as a whole",
        "",
        "",
        "",
        (),
        "redis-cli can connect (REDISCLI_AUTH …); redis.conf is read only when redis starts",
        command="redis-cli -e ACL LOAD",
        files=("*.acl",),
    ),
}
