"""Known programs (`--for`): how to check, reload and verify each of them.

Each is tested against the program itself (tests/agent/test_known_programs.py), in the version that
Debian 12 has. Other flags take precedence over what is here. docs/agent.md says what each requires.
"""

from __future__ import annotations

from hotmap.core.value import Value

__all__ = ["KNOWN_PROGRAMS", "KnownProgram"]


class KnownProgram(Value):
    """How to reload one program.

    check: the check command, "" for none
    signal, process: the reload signal and the process that gets it; or command
    files: patterns of the files that it reloads
    startup_files: patterns of the files that it reads only when it starts
    start_directories: directories of its published image of which a start of the container makes
        configuration, and a reload does not
    startup_query, running_query: instead of the last two words of the command: prints what differs
        after a start; succeeds as soon as the program has read those files
    """

    check: str = ""
    signal: str = ""
    process: str = ""
    verify: tuple[str, ...] = ()
    command: str = ""
    files: tuple[str, ...] = ("*",)
    startup_files: tuple[str, ...] = ()
    start_directories: tuple[str, ...] = ()
    startup_query: str = ""
    running_query: str = ""


#: Everything for which postgres keeps what it had although it took the signal: settings that are
#: wrong or need a restart, rules it cannot read, certificates that are not there. It has no view of
#: the certificate that it uses.
_POSTGRES_ERRORS = """
select sourcefile || ' line ' || sourceline || ': ' || error
  from pg_file_settings where error is not null
union all select 'pg_hba.conf line ' || line_number || ': ' || error
  from pg_hba_file_rules where error is not null
union all select 'pg_hba.conf has no entries'
  where not exists (select from pg_hba_file_rules)
union all select 'pg_ident.conf has an error'
  where case when to_regclass('pg_catalog.pg_ident_file_mappings') is not null then query_to_xml(
    'select error from pg_ident_file_mappings where error is not null', false, false, '')::text
    else '' end like '%<row>%'
union all select name || ' takes effect when postgres is restarted'
  from pg_settings where pending_restart
union all select name || ': ' || setting || ' does not exist'
  from pg_settings where name in ('ssl_cert_file', 'ssl_key_file', 'ssl_ca_file', 'ssl_crl_file')
  and setting <> '' and current_setting('ssl') = 'on' and (pg_stat_file(setting, true)).size is null
"""

_POSTGRES_PROBE = f'empty psql -XAtqc "{" ".join(_POSTGRES_ERRORS.split())}"'


#: The image's entry point fills in the templates in it.
_NGINX_TEMPLATES = ("/etc/nginx/templates",)

KNOWN_PROGRAMS: dict[str, KnownProgram] = {
    "nginx": KnownProgram(
        "nginx -t -q -c {dir}/nginx.conf",
        "HUP",
        "name:nginx",
        ("workers name:nginx",),
        start_directories=_NGINX_TEMPLATES,
    ),
    "nginx-conf.d": KnownProgram(
        "nginx -t -q",
        "HUP",
        "name:nginx",
        ("workers name:nginx",),
        start_directories=_NGINX_TEMPLATES,
    ),
    "haproxy": KnownProgram(
        "haproxy -c -f {dir}/haproxy.cfg",
        "USR2",
        "name:haproxy",
        ("workers name:haproxy",),
    ),
    "prometheus": KnownProgram(
        "promtool check config {dir}/prometheus.yml",
        "HUP",
        "name:prometheus",
        (
            "metric http://127.0.0.1:9090/metrics prometheus_config_last_reload_successful=1",
            "metric http://127.0.0.1:9090/metrics "
            "prometheus_config_last_reload_success_timestamp_seconds",
        ),
    ),
    "postgres": KnownProgram(
        "postgres -C port -D {dir}",
        "HUP",
        "name:postgres",
        (_POSTGRES_PROBE, "output psql -XAtqc 'select pg_conf_load_time()'", _POSTGRES_PROBE),
    ),
    "gunicorn": KnownProgram(
        "gunicorn --check-config -c {dir}/gunicorn.conf.py",
        "HUP",
        "name:gunicorn",
        ("workers name:gunicorn",),
    ),
    "redis": KnownProgram(
        command="redis-cli -e ACL LOAD",
        files=("*.acl",),
        startup_files=("*.conf",),
        startup_query="EVAL \"return string.match(redis.call('INFO', 'server'), "
        "'run_id:(%w+)')\" 0",
        running_query="INFO server",  # also answered while the dataset is loaded
    ),
}
