"""Loads settings from flags and the rules file, and checks them as a whole.

Each error names the flag (as it was written) or the field of the rules file, and the value.
"""

from __future__ import annotations

from hotmap.agent.settings.constraints import (
    require_combinable,
    require_directories,
    require_outside,
    require_stageable,
    require_unique_names,
)
from hotmap.agent.settings.flag_rules import flag_rules
from hotmap.agent.settings.flag_values import FlagValues
from hotmap.agent.settings.flags import Arguments
from hotmap.agent.settings.rules_file import add_document, load_rules, parse_command, parse_rules
from hotmap.agent.settings.settings import (
    Action,
    ActionSettings,
    ApplicationSettings,
    Call,
    CheckSettings,
    ContentLimits,
    EnvFrom,
    EnvSetting,
    ReportSettings,
    Rule,
    Settings,
    WatchSettings,
)
from hotmap.agent.settings.values import (
    InvalidValue,
    parse_address,
    parse_mode,
    parse_path,
    parse_pattern,
    parse_positive_duration,
    parse_positive_size,
    parse_secret_path,
    parse_size,
    parse_socket_path,
    parse_stop_signal,
    require,
    split_command,
)
from hotmap.core.duration import parse_duration
from hotmap.core.text import parse_number

__all__ = ["load_settings"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

#: Paths of the agent's other responses, which probes, the controller and `agent status` request.
_OTHER_PATHS = ("/status", "/v1/pod", "/healthz", "/startupz", "/readyz")


def load_settings(arguments: Arguments) -> Settings:
    """Compute the settings of one start.

    Raises:
        SettingsError: a value is invalid, two flags cannot be used together, or nothing is to be
            watched; one sentence.
    """
    rules_file = FlagValues(arguments).path("rules")
    document = load_rules(rules_file) if rules_file else {}
    tables = document.pop("rule", [])
    flags = FlagValues(add_document(arguments, document, rules_file))
    directories = flags.paths("dir")
    env_from = flags.all("env-from", _parse_env_from)
    require(bool(directories or env_from), "no directory to watch: use --dir DIR")
    require_combinable(flags)
    from_file = parse_rules(tables, rules_file, directories, supervised=bool(flags.application))
    from_flags = flag_rules(flags, directories, env_from, has_tables=bool(tables))
    rules = tuple(_with_certificates(rule, flags) for rule in (*from_file, *from_flags))
    require_unique_names(rules)
    watched = tuple(dict.fromkeys((*directories, *(each.directory for each in env_from))))
    require_stageable(flags, watched)
    require_outside(flags, watched, from_file, rules_file)
    return Settings(
        watch=_watch_settings(flags, watched),
        rules=rules,
        checks=_check_settings(flags, tables, rules_file, watched),
        actions=_action_settings(flags),
        application=_application_settings(flags, env_from),
        reports=_report_settings(flags),
        state_file=flags.path("state"),
        once=flags.switch("once"),
        warnings=_warnings(flags, rules),
    )


def _watch_settings(flags: FlagValues, directories: tuple[str, ...]) -> WatchSettings:
    return WatchSettings(
        directories=directories,
        settle=flags.last("settle", parse_duration, 0.1),
        settle_max=flags.last("settle-max", parse_duration, 2.0),
        poll_interval=flags.last("poll-interval", parse_positive_duration, 0.0),
        target_file=flags.path("target-file"),
        max_directory_size=flags.last("max-directory-size", parse_positive_size, 64 << 20),
        permissions=flags.has("stage") and not flags.has("stage-mode"),
    )


def _check_settings(
    flags: FlagValues, tables: list[Any], rules_file: str, directories: tuple[str, ...]
) -> CheckSettings:
    texts = flags.all("check", str)
    commands = []
    if not texts and (program := flags.program()):
        commands = [split_command(program.check)] if program.check else []
    elif texts != ("none",):
        commands = list(flags.all("check", split_command))
    for number, table in enumerate(tables, start=1):
        if "check" in table:
            commands.append(parse_command(table["check"], f"{rules_file}: rule {number}: check"))
    require_directories(commands, len(directories))
    return CheckSettings(
        commands=tuple(commands),
        timeout=flags.last("check-timeout", parse_positive_duration, 30.0),
        limits=ContentLimits(
            flags.last("max-size", parse_size, 0),
            flags.all("not-empty", parse_pattern),
            flags.all("syntax", _parse_syntax),
        ),
        stage=flags.path("stage"),
        stage_mode=flags.all("stage-mode", parse_mode)[-1] if flags.has("stage-mode") else None,
        work_directory=flags.path("work-dir"),
    )


def _action_settings(flags: FlagValues) -> ActionSettings:
    return ActionSettings(
        timeout=flags.last("action-timeout", parse_positive_duration, 60.0),
        verify_timeout=flags.last("verify-timeout", parse_positive_duration, 10.0),
        retry_first=flags.last("retry-first", parse_positive_duration, 0.25),
        retry_max=flags.last("retry-max", parse_positive_duration, 15.0),
        grace=flags.last("grace", parse_duration, 25.0),
        splay=flags.last("splay", parse_duration, 0.0),
    )


def _application_settings(flags: FlagValues, env_from: tuple[EnvFrom, ...]) -> ApplicationSettings:
    return ApplicationSettings(
        command=flags.application,
        env_from=env_from,
        env=flags.all("env", _parse_env),
        forward_hup=flags.switch("forward-hup"),
        stop_signal=flags.last("stop-signal", parse_stop_signal, 15),
        min_uptime=flags.last("min-uptime", parse_duration, 10.0),
    )


def _report_settings(flags: FlagValues) -> ReportSettings:
    # What ends by itself is not worth a port that others may have.
    listen = None if flags.switch("once") else parse_address(":9533")
    return ReportSettings(
        listen=flags.last("listen", parse_address, listen),
        metrics_path=flags.last("metrics-path", _parse_url_path, "/metrics"),
        socket=flags.last("socket", parse_socket_path, ""),
        log_format=flags.last("log-format", _parse_format, "text"),
        log_checker_output=flags.switch("log-checker-output"),
    )


def _with_certificates(rule: Rule, flags: FlagValues) -> Rule:
    """Let all calls of a rule, probes too, use the certificates of flags, except its own."""

    def complete(call: Call | None) -> Call | None:
        if call is None or call.ca or call.certificate:
            return call
        return call._replace(
            ca=flags.path("ca"),
            certificate=flags.path("client-cert"),
            private_key=flags.last("client-key", parse_secret_path, ""),
        )

    return rule._replace(
        actions=tuple(action._replace(call=complete(action.call)) for action in rule.actions),
        probes=tuple(probe._replace(call=complete(probe.call)) for probe in rule.probes),
    )


def _warnings(flags: FlagValues, rules: Iterable[Rule]) -> tuple[str, ...]:
    found = [
        f"rule {rule.name}: the probe {probe.kind} compares the values before and after an action, "
        "and the rule has no action, so it may never succeed: add an action, or a probe for a value"
        for rule in rules
        for probe in rule.probes
        if probe.compares and not rule.read_at_start and rule.actions == (Action("none"),)
    ]
    if flags.has("webhook-retries"):
        flags.last("webhook-retries", _parse_count, 0)
        found.append(
            f"{flags.spelling_of('webhook-retries')} has no effect: a call is repeated until it "
            "succeeds or the content changes"
        )
    return tuple(found)


def _parse_count(text: str) -> int:
    number = parse_number(text.removeprefix("-"))
    if number is None:
        raise InvalidValue("number", "expected an integer")
    return -number if text.startswith("-") else number


def _parse_url_path(text: str) -> str:
    if not text.startswith("/"):
        raise InvalidValue("URL path", "expected a path such as /metrics")
    if text in _OTHER_PATHS:
        raise InvalidValue("URL path", "the agent has another response there; choose another path")
    return text


def _parse_syntax(text: str) -> tuple[str, str]:
    pattern, equals, language = text.rpartition("=")
    if not equals or not pattern or language not in ("json", "toml"):
        raise InvalidValue("syntax", "expected '*.json=json' or '*.toml=toml'")
    return pattern, language


def _parse_format(text: str) -> str:
    if text not in ("text", "json"):
        raise InvalidValue("log format", "expected text or json")
    return text


def _parse_env_from(text: str) -> EnvFrom:
    prefix, equals, directory = text.partition("=")
    if not equals:
        prefix, directory = "", text
    if not (prefix.isascii() and (prefix.isprintable() or not prefix)):
        raise InvalidValue("prefix", "must contain only printable ASCII characters")
    return EnvFrom(prefix, parse_path(directory))


def _parse_env(text: str) -> EnvSetting:
    name, equals, value = text.partition("=")
    if not name or not (name.isascii() and name.isprintable()):
        raise InvalidValue("variable", "expected NAME=VALUE or NAME")
    return EnvSetting(name, value if equals else None)
