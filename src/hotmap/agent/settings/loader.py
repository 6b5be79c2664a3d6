"""Loads settings from flags, rules file and known programs, and checks them as a whole.

Each error names the flag (as it was written) or the field of the rules file, and the value.
"""

from __future__ import annotations

import os

from hotmap.agent.settings.flags import Arguments
from hotmap.agent.settings.known_programs import KNOWN_PROGRAMS, KnownProgram
from hotmap.agent.settings.probes import parse_probe, parse_process
from hotmap.agent.settings.rules_file import (
    add_document,
    load_rules,
    parse_command,
    parse_restart_mode,
    parse_rules,
    require,
)
from hotmap.agent.settings.settings import (
    FROZEN,
    Action,
    ActionSettings,
    ApplicationSettings,
    Call,
    CheckSettings,
    ContentLimits,
    EnvFrom,
    EnvSetting,
    Probe,
    ReportSettings,
    Rule,
    Settings,
    WatchSettings,
)
from hotmap.agent.settings.values import (
    InvalidValue,
    parse_address,
    parse_header,
    parse_method,
    parse_mode,
    parse_path,
    parse_positive_duration,
    parse_signal,
    parse_size,
    parse_socket_path,
    parse_statuses,
    parse_stop_signal,
    parse_url,
    parse_value,
    split_command,
)
from hotmap.core.duration import parse_duration
from hotmap.core.text import parse_number

__all__ = ["load_settings"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeVar

    T = TypeVar("T")

#: Flags whose value may contain a credential, so that it is in no message.
_SECRET_FLAGS = ("url", "drain-url", "body", "header", "env")

#: Paths of the agent's other responses, which probes, the controller and `agent status` request.
_OTHER_PATHS = ("/status", "/v1/pod", "/healthz", "/startupz", "/readyz")

_SUPERVISED = Action("restart", restart_mode="supervised")


def load_settings(arguments: Arguments) -> Settings:
    """Compute the settings of one start.

    Raises:
        SettingsError: a value is invalid, two flags cannot be used together, or nothing is to be
            watched; one sentence.
    """
    rules_file = _Flags(arguments).path("rules")
    document = load_rules(rules_file) if rules_file else {}
    tables = document.pop("rule", [])
    flags = _Flags(add_document(arguments, document, rules_file))
    directories = flags.paths("dir")
    env_from = flags.many("env-from", _parse_env_from)
    require(bool(directories or env_from), "no directory to watch: use --dir DIR")
    _require_combinable(flags)
    own_rules = parse_rules(tables, rules_file, directories, supervised=bool(flags.application))
    flag_rules = _flag_rules(flags, directories, env_from, has_tables=bool(tables))
    rules = tuple(_with_certificates(rule, flags) for rule in (*own_rules, *flag_rules))
    _require_unique_names(rules)
    watched = tuple(dict.fromkeys((*directories, *(each.directory for each in env_from))))
    _require_stageable(flags, watched)
    _require_outside(flags, watched, own_rules, rules_file)
    return Settings(
        watch=_watch_settings(flags, watched),
        rules=rules,
        checks=_check_settings(flags, tables, rules_file, watched),
        actions=_action_settings(flags),
        application=_application_settings(flags, env_from),
        reports=_report_settings(flags),
        state_file=flags.path("state"),
        once=flags.switch("once"),
        warnings=_warnings(flags),
    )


class _Flags:
    """Parses values of flags; an error names the flag."""

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments
        self.application = arguments.application

    def has(self, name: str) -> bool:
        return name in self._arguments.values

    def spelled(self, name: str) -> str:
        return self._arguments.spelling.get(name, f"--{name}")

    def one(self, name: str, parse: Callable[[str], T], default: T) -> T:
        found = self.many(name, parse)
        return found[-1] if found else default

    def many(self, name: str, parse: Callable[[str], T]) -> tuple[T, ...]:
        where, is_secret = self.spelled(name), name in _SECRET_FLAGS
        return tuple(
            parse_value(text, parse, where, is_secret=is_secret)
            for text in self._arguments.values.get(name, ())
        )

    def path(self, name: str) -> str:
        return self.one(name, parse_path, "")

    def paths(self, name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.many(name, parse_path)))

    def switch(self, name: str) -> bool:
        return self.one(name, _parse_switch, False)

    def process(self, default: str) -> str:
        """Parse --process; without it the own application, else `default`."""
        return self.one("process", parse_process, "child" if self.application else default)


def _require_combinable(flags: _Flags) -> None:
    for name in ("env-from", "env", "forward-hup", "stop-signal", "min-uptime"):
        require(
            bool(flags.application) or not flags.has(name),
            f"{flags.spelled(name)} requires an application: put it after --",
        )
    require(
        not (flags.switch("once") and flags.application),
        "--once cannot be used with an application",
    )
    require(
        not flags.has("restart-on") or flags.has("target-file"),
        "--restart-on requires --target-file",
    )
    users_of_process = ("signal", "restart", "for")
    require(
        not flags.has("process") or any(flags.has(name) for name in users_of_process),
        "--process requires --signal, --restart term or --for",
    )
    for flag, required in (
        ("drain-url", "restart-on"),
        ("client-key", "client-cert"),
        ("stage-mode", "stage"),
        *((name, "url") for name in ("method", "body", "header", "status")),
        *((name, "url") for name in ("credentials", "token")),
    ):
        require(flags.has(required) or not flags.has(flag), f"--{flag} requires --{required}")
    require(
        not (flags.has("credentials") and flags.has("token")),
        "--credentials and --token cannot be used together",
    )
    callers = ("url", "verify", "drain-url", "rules")
    for flag in ("ca", "client-cert"):
        require(
            not flags.has(flag) or any(flags.has(name) for name in callers),
            f"--{flag} requires --url, --verify or --drain-url",
        )


def _require_unique_names(rules: tuple[Rule, ...]) -> None:
    names = [rule.name for rule in rules]
    for name in names:
        require(names.count(name) == 1, f"two rules have the name {name!r}")


def _require_stageable(flags: _Flags, directories: tuple[str, ...]) -> None:
    stage = flags.path("stage")
    if not stage:
        return
    names = [os.path.basename(directory) for directory in directories]
    require(
        len(set(names)) == len(names),
        "--stage: two directories have the same base name: mount one of them elsewhere",
    )
    for directory in directories:
        nested = stage.startswith(f"{directory}/") or directory.startswith(f"{stage}/")
        require(
            stage != directory and not nested,
            f"--stage: {stage} and {directory} must not contain each other",
        )


def _require_outside(
    flags: _Flags, directories: tuple[str, ...], rules: tuple[Rule, ...], rules_file: str
) -> None:
    """Require that the agent writes nothing into what it watches: it would reload for ever."""
    written = [
        *((flags.spelled(name), flags.path(name)) for name in ("state", "socket", "work-dir")),
        *((flags.spelled("touch"), path) for path in flags.paths("touch")),
        *(
            (f"{rules_file}: rule {rule.name}: touch", action.path)
            for rule in rules
            for action in rule.actions
            if action.kind == "touch"
        ),
    ]
    for where, path in written:
        for directory in directories if path else ():
            require(
                not f"{path}/".startswith(f"{directory.rstrip('/')}/"),
                f"{where}: {path} is in the watched directory {directory}, so each write to it "
                "would be a change: use another directory, such as an emptyDir",
            )


def _watch_settings(flags: _Flags, directories: tuple[str, ...]) -> WatchSettings:
    return WatchSettings(
        directories=directories,
        settle=flags.one("settle", parse_duration, 0.1),
        settle_max=flags.one("settle-max", parse_duration, 2.0),
        poll_interval=flags.one("poll-interval", parse_positive_duration, 0.0),
        target_file=flags.path("target-file"),
        max_directory_size=flags.one("max-directory-size", parse_size, 64 << 20),
        permissions=flags.has("stage") and not flags.has("stage-mode"),
    )


def _check_settings(
    flags: _Flags, tables: list[Any], rules_file: str, directories: tuple[str, ...]
) -> CheckSettings:
    texts = flags.many("check", str)
    commands = []
    if not texts and (program := _known_program(flags)):
        commands = [split_command(program.check)] if program.check else []
    elif texts != ("none",):
        commands = list(flags.many("check", split_command))
    for number, table in enumerate(tables, start=1):
        if "check" in table:
            commands.append(parse_command(table["check"], f"{rules_file}: rule {number}: check"))
    _require_directories(commands, len(directories))
    return CheckSettings(
        commands=tuple(commands),
        timeout=flags.one("check-timeout", parse_positive_duration, 30.0),
        limits=ContentLimits(
            flags.one("max-size", parse_size, 0),
            flags.many("not-empty", _parse_pattern),
            flags.many("syntax", _parse_syntax),
        ),
        stage=flags.path("stage"),
        stage_mode=flags.many("stage-mode", parse_mode)[-1] if flags.has("stage-mode") else None,
        work_directory=flags.path("work-dir"),
    )


def _require_directories(commands: Iterable[tuple[str, ...]], count: int) -> None:
    """Require that {dir2}, {dir3} … name directories: a check would get the words as they are."""
    known = ("dir", *(f"dir{number}" for number in range(2, count + 1)))
    for part in (part for command in commands for word in command for part in word.split("{")):
        name, end, _ = part.partition("}")
        if end and name.startswith("dir") and not name[3:].strip("0123456789"):
            expected = ", ".join(f"{{{each}}}" for each in known)
            require(name in known, f"check: unknown directory {{{name}}}, expected {expected}")


def _action_settings(flags: _Flags) -> ActionSettings:
    return ActionSettings(
        timeout=flags.one("action-timeout", parse_positive_duration, 60.0),
        verify_timeout=flags.one("verify-timeout", parse_positive_duration, 10.0),
        retry_first=flags.one("retry-first", parse_positive_duration, 0.25),
        retry_max=flags.one("retry-max", parse_positive_duration, 15.0),
        grace=flags.one("grace", parse_duration, 25.0),
        splay=flags.one("splay", parse_duration, 0.0),
    )


def _application_settings(flags: _Flags, env_from: tuple[EnvFrom, ...]) -> ApplicationSettings:
    return ApplicationSettings(
        command=flags.application,
        env_from=env_from,
        env=flags.many("env", _parse_env),
        forward_hup=flags.switch("forward-hup"),
        stop_signal=flags.one("stop-signal", parse_stop_signal, 15),
        min_uptime=flags.one("min-uptime", parse_duration, 10.0),
    )


def _report_settings(flags: _Flags) -> ReportSettings:
    # What ends by itself is not worth a port that others may have.
    listen = None if flags.switch("once") else parse_address(":9533")
    return ReportSettings(
        listen=flags.one("listen", parse_address, listen),
        metrics_path=flags.one("metrics-path", _parse_url_path, "/metrics"),
        socket=flags.one("socket", parse_socket_path, ""),
        log_format=flags.one("log-format", _parse_format, "text"),
        log_checker_output=flags.switch("log-checker-output"),
    )


def _known_program(flags: _Flags) -> KnownProgram | None:
    return KNOWN_PROGRAMS.get(flags.one("for", _parse_program, ""))


def _flag_rules(
    flags: _Flags,
    directories: tuple[str, ...],
    env_from: tuple[EnvFrom, ...],
    *,
    has_tables: bool,
) -> tuple[Rule, ...]:
    """Make the rules that follow from flags: default, environment and frozen."""
    actions = _flag_actions(flags)
    probes = flags.many("verify", parse_probe)
    files: tuple[str, ...] = ("*",)
    program = _known_program(flags)
    if program is not None:
        files = program.files
        if not actions:
            _require_reloadable(flags, program, directories)
            actions = (_program_action(flags, program),)
        actions = tuple(_with_reply(action, program) for action in actions)
        if not probes:
            target = flags.process(program.process)
            probes = tuple(
                probe._replace(target=target) if probe.kind == "workers" else probe
                for probe in map(parse_probe, program.verify)
            )
    if not actions and flags.application and not has_tables:
        actions = (_SUPERVISED,)
    rules = []
    env_directories = tuple(dict.fromkeys(each.directory for each in env_from))
    if actions or probes or not has_tables:
        # A restart reads everything, so one rule for all directories is enough.
        joined = actions == (_SUPERVISED,)
        if directories or joined:
            own = () if joined else directories
            rules += [
                Rule(name, files, own, some, probes)
                for name, some in _split_calls(actions or (Action("none"),))
            ]
        if joined:
            env_directories = ()
    if program is not None and program.startup_files:
        rules.append(_startup_rule(program, actions, directories))
    if env_directories:
        rules.append(Rule("environment", ("*",), env_directories, (_SUPERVISED,), ()))
    if flags.one("restart-on", _parse_frozen, ""):
        rules.append(_frozen_rule(flags))
    return tuple(rules)


def _split_calls(actions: tuple[Action, ...]) -> list[tuple[str, tuple[Action, ...]]]:
    """Return each of several endpoints a rule of its own, so that one that fails delays no other.

    Not before a restart, which calls are made in preparation of.
    """
    calls = [action for action in actions if action.kind == "http"]
    if len(calls) < 2 or any(action.kind == "restart" for action in actions):
        return [("default", actions)]
    others = tuple(action for action in actions if action.kind != "http")
    named = [(f"url-{number}", (call,)) for number, call in enumerate(calls, start=1)]
    return [*([("default", others)] if others else []), *named]


def _frozen_rule(flags: _Flags) -> Rule:
    default = "supervised" if flags.application else "all-containers"
    mode = flags.one("restart", parse_restart_mode, default)
    drains = tuple(Action("http", call=Call(url)) for url in flags.many("drain-url", parse_url))
    return Rule(FROZEN, (), (), (*drains, _restart_action(flags, mode)), ())


def _require_reloadable(flags: _Flags, program: KnownProgram, directories: tuple[str, ...]) -> None:
    """Require that a reload loads the files: it would be confirmed, whatever they are."""
    for directory in directories:
        require(
            directory not in program.start_directories,
            f"--for {flags.one('for', str, '')} reloads the program, and what is in {directory} is "
            "used only when its container starts: mount finished configuration instead, or let "
            "changes roll out the workload, without an agent",
        )


def _program_action(flags: _Flags, program: KnownProgram) -> Action:
    if program.command:
        return Action("exec", command=split_command(program.command))
    target = flags.process(program.process)
    return Action("signal", signal=parse_signal(program.signal), target=target)


def _with_reply(action: Action, program: KnownProgram) -> Action:
    """Mark the command of a program, also one with other options, whose success is its reply."""
    last = split_command(program.command)[-2:] if program.command else ()
    is_known = bool(last) and action.command[-2:] == last
    return action._replace(replies=True) if is_known else action


def _startup_rule(
    program: KnownProgram, actions: tuple[Action, ...], directories: tuple[str, ...]
) -> Rule:
    """Follow the files that a program reads only when it starts: only another start loads them."""
    client = next(
        (action.command[:-2] for action in actions if action.replies),
        split_command(program.command)[:-2],
    )
    probes = (
        Probe("exec", command=(*client, *split_command(program.running_query))),
        Probe("output", command=(*client, *split_command(program.startup_query))),
    )
    files = program.startup_files
    return Rule("startup", files, directories, (Action("none"),), probes, read_at_start=True)


def _flag_actions(flags: _Flags) -> tuple[Action, ...]:
    actions: list[Action] = []
    for number in flags.many("signal", parse_signal):
        target = flags.process("")
        require(bool(target), "--signal requires --process: the process that gets the signal")
        actions.append(Action("signal", signal=number, target=target))
    for url in flags.many("url", parse_url):
        call = Call(
            url,
            method=flags.one("method", parse_method, "POST"),
            headers=flags.many("header", parse_header),
            body=flags.one("body", str, ""),
            statuses=flags.one("status", parse_statuses, (200,)),
            credentials=flags.path("credentials"),
            token=flags.path("token"),
        )
        actions.append(Action("http", call=call))
    actions += [Action("exec", command=words) for words in flags.many("exec", split_command)]
    actions += [Action("touch", path=path) for path in flags.many("touch", parse_path)]
    if flags.has("restart") and not flags.has("restart-on"):
        actions.append(_restart_action(flags, flags.one("restart", parse_restart_mode, "")))
    return tuple(actions)


def _with_certificates(rule: Rule, flags: _Flags) -> Rule:
    """Let all calls of a rule, probes too, use the certificates of flags, except its own."""

    def complete(call: Call | None) -> Call | None:
        if call is None or call.ca or call.certificate:
            return call
        return call._replace(
            ca=flags.path("ca"),
            certificate=flags.path("client-cert"),
            private_key=flags.path("client-key"),
        )

    return rule._replace(
        actions=tuple(action._replace(call=complete(action.call)) for action in rule.actions),
        probes=tuple(probe._replace(call=complete(probe.call)) for probe in rule.probes),
    )


def _restart_action(flags: _Flags, mode: str) -> Action:
    require(
        mode != "supervised" or bool(flags.application),
        "--restart supervised requires an application: put it after --",
    )
    target = ""
    if mode == "term":
        require(flags.has("process"), "--restart term requires --process: the process to terminate")
        target = flags.process("")
    return Action("restart", restart_mode=mode, target=target)


def _warnings(flags: _Flags) -> tuple[str, ...]:
    if flags.has("webhook-retries"):
        flags.one("webhook-retries", _parse_count, 0)
        return (
            f"{flags.spelled('webhook-retries')} has no effect: a call is repeated until it "
            "succeeds or the content changes",
        )
    return ()


# Values that only appear here.


def _parse_switch(text: str) -> bool:
    if text not in ("true", "false"):
        raise InvalidValue("boolean", "expected true or false")
    return text == "true"


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


def _parse_pattern(text: str) -> str:
    if not text.strip():
        raise InvalidValue("pattern", "expected the name of a file, or a pattern such as *.conf")
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


def _parse_frozen(text: str) -> str:
    if text != "frozen":
        raise InvalidValue("restart condition", "expected frozen")
    return text


def _parse_program(text: str) -> str:
    if text not in KNOWN_PROGRAMS:
        raise InvalidValue("program", f"expected one of {', '.join(sorted(KNOWN_PROGRAMS))}")
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
