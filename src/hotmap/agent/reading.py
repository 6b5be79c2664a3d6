"""From words to settings: flags, a rules file and the catalogue, typed and checked as a whole.

Each complaint names the flag (as it was typed) or the field of the rules file, and the value.
"""

from __future__ import annotations

import os

from hotmap.agent.catalogue import CATALOGUE
from hotmap.agent.check import Bounds
from hotmap.agent.environment import EnvFrom, EnvSetting
from hotmap.agent.flags import FLAGS, Words
from hotmap.agent.http import Call
from hotmap.agent.probes import parse_probe, parse_target
from hotmap.agent.settings import FROZEN, WAYS, Action, Check, Rule, Settings
from hotmap.agent.values import (
    parse_address,
    parse_duration,
    parse_mode,
    parse_signal,
    parse_size,
    parse_statuses,
    parse_url,
    split_command,
)
from hotmap.core.errors import SettingsError

__all__ = ["read_settings"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    T = TypeVar("T")


def read_settings(words: Words) -> Settings:
    """Work out the settings, or say in one sentence what is wrong with them.

    Raises:
        SettingsError: a value is ill-typed, two flags do not go together, or nothing is asked for.
    """
    rules_file = words.values.get("rules", [""])[0]
    document = _load(rules_file) if rules_file else {}
    tables = document.pop("rule", [])
    reader = _Reader(_with_document(words, document, rules_file))
    directories = reader.paths("dir")
    env_from = reader.many("env-from", _parse_env_from)
    application = words.application
    _require(bool(directories or env_from), "no directory is given; write --dir DIR")
    _together(reader, application, env_from)
    rules = (
        *_table_rules(tables, rules_file, reader, application),
        *_flag_rules(reader, directories, env_from, application, told=bool(tables)),
    )
    names = [rule.name for rule in rules]
    for name in names:
        _require(names.count(name) == 1, f"two rules have the name {name!r}")
    everything = (*directories, *(one.directory for one in env_from))
    _require_stageable(reader, everything)
    return Settings(
        directories=tuple(dict.fromkeys(everything)),
        rules=rules,
        checks=_checks(reader, tables, rules_file),
        bounds=Bounds(
            reader.one("max-size", parse_size, 0),
            reader.many("not-empty", str),
            reader.many("syntax", _parse_syntax),
        ),
        stage=reader.path("stage"),
        stage_mode=reader.one("stage-mode", parse_mode, 0o644),
        work=reader.path("work-dir"),
        settle=reader.one("settle", parse_duration, 0.1),
        settle_max=reader.one("settle-max", parse_duration, 2.0),
        check_interval=reader.one("check-interval", _parse_period, 0.0),
        action_seconds=reader.one("action-timeout", _parse_period, 10.0),
        verify_seconds=reader.one("verify-timeout", _parse_period, 10.0),
        retry_first=reader.one("retry-first", _parse_period, 0.25),
        retry_last=reader.one("retry-max", _parse_period, 15.0),
        grace=reader.one("grace", parse_duration, 25.0),
        listen=reader.one("listen", parse_address, parse_address(":9533")),
        metrics_path=reader.one("metrics-path", _parse_path_of_url, "/metrics"),
        socket=reader.path("socket"),
        state=reader.path("state"),
        log_format=reader.one("log-format", _parse_format, "text"),
        target_file=reader.path("target-file"),
        application=application,
        env_from=env_from,
        env=reader.many("env", _parse_env),
        forward_hup=reader.switch("forward-hup"),
        once=reader.switch("once"),
        notes=_notes(reader),
    )


class _Reader:
    """Reads values of flags, and says which flag it was when one is wrong."""

    def __init__(self, words: Words) -> None:
        self._words = words

    def has(self, name: str) -> bool:
        return name in self._words.values

    def spelled(self, name: str) -> str:
        return self._words.given.get(name, f"--{name}")

    def one(self, name: str, parse: Callable[[str], T], default: T) -> T:
        found = self._words.values.get(name)
        return self._parsed(name, found[-1], parse) if found else default

    def many(self, name: str, parse: Callable[[str], T]) -> tuple[T, ...]:
        return tuple(self._parsed(name, text, parse) for text in self._words.values.get(name, ()))

    def path(self, name: str) -> str:
        return self.one(name, _parse_path, "")

    def paths(self, name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.many(name, _parse_path)))

    def switch(self, name: str) -> bool:
        return self.one(name, _parse_switch, False)

    def _parsed(self, name: str, text: str, parse: Callable[[str], T]) -> T:
        try:
            return parse(text)
        except ValueError as error:
            shown = "" if name in ("url", "drain-url", "body", "header", "env") else f" {text!r}"
            raise SettingsError(f"{self.spelled(name)}:{shown} {error}") from None


def _require(condition: bool, complaint: str) -> None:
    if not condition:
        raise SettingsError(complaint)


def _together(reader: _Reader, application: tuple[str, ...], env_from: tuple[EnvFrom, ...]) -> None:
    for name in ("env-from", "env", "forward-hup"):
        _require(
            bool(application) or not reader.has(name),
            f"{reader.spelled(name)} needs an application: put it after --",
        )
    _require(
        not (reader.switch("once") and application), "--once and an application exclude each other"
    )
    _require(
        not reader.has("restart-on") or reader.has("target-file"),
        "--restart-on needs --target-file, where the announcement is read",
    )
    _require(
        not reader.has("drain-url") or reader.has("restart-on"),
        "--drain-url goes with --restart-on frozen",
    )
    for needed, flag in (("client-cert", "client-key"), ("url", "method"), ("url", "body")):
        _require(reader.has(needed) or not reader.has(flag), f"--{flag} goes with --{needed}")
    for flag in ("header", "status", "ca", "client-cert", "credentials", "token"):
        _require(reader.has("url") or not reader.has(flag), f"--{flag} goes with --url")


def _require_stageable(reader: _Reader, directories: tuple[str, ...]) -> None:
    stage = reader.path("stage")
    if not stage:
        return
    names = [os.path.basename(one) for one in directories]
    _require(
        len(set(names)) == len(names),
        "--stage: two directories end in the same name; mount one of them elsewhere",
    )
    for one in directories:
        _require(
            stage != one and not stage.startswith(f"{one}/") and not one.startswith(f"{stage}/"),
            f"--stage: {stage} and {one} lie in each other",
        )


def _checks(reader: _Reader, tables: list[Any], rules_file: str) -> tuple[Check, ...]:
    seconds = reader.one("check-timeout", _parse_period, 30.0)
    texts = reader.many("check", str)
    commands = []
    if not texts and (entry := CATALOGUE.get(reader.one("for", _parse_program, ""))):
        commands = [split_command(entry.check)] if entry.check else []
    elif texts != ("none",):
        commands = list(reader.many("check", split_command))
    for number, table in enumerate(tables, start=1):
        if "check" in table:
            commands.append(_command(table["check"], f"{rules_file}: rule {number}: check"))
    return tuple(Check(command, seconds) for command in commands)


def _flag_rules(
    reader: _Reader,
    directories: tuple[str, ...],
    env_from: tuple[EnvFrom, ...],
    application: tuple[str, ...],
    *,
    told: bool,
) -> tuple[Rule, ...]:
    actions = _flag_actions(reader, application)
    probes = reader.many("verify", parse_probe)
    files: tuple[str, ...] = ("*",)
    entry = CATALOGUE.get(reader.one("for", _parse_program, ""))
    if entry is not None:
        files = entry.files
        if not actions:
            actions = _entry_actions(entry.signal, entry.process, entry.command, application)
        if not probes:
            probes = tuple(parse_probe(text) for text in entry.verify)
            if application:
                probes = tuple(
                    one._replace(target="child") if one.kind == "workers" else one for one in probes
                )
    supervised = Action("restart", way="supervised")
    rules = []
    if not actions and application and not told:
        actions = (supervised,)
    own = tuple(one.directory for one in env_from)
    if actions or probes or not told:
        together = actions == (supervised,)
        where = () if together else directories
        if directories or together:
            rules.append(Rule("default", files, where, actions or (Action("none"),), probes))
        own = () if together else own
    if own:
        rules.append(Rule("environment", ("*",), tuple(dict.fromkeys(own)), (supervised,), ()))
    if reader.one("restart-on", _parse_frozen, ""):
        way = reader.one("restart", _parse_way, "supervised" if application else "all-containers")
        drains = (
            (Action("http", call=Call(reader.one("drain-url", parse_url, parse_url("http://-")))),)
            if reader.has("drain-url")
            else ()
        )
        restart = Action("restart", way=way, target=_process(reader, application, way))
        rules.append(Rule(FROZEN, (), (), (*drains, restart), ()))
    return tuple(rules)


def _entry_actions(
    signal: str, process: str, command: str, application: tuple[str, ...]
) -> tuple[Action, ...]:
    if command:
        return (Action("exec", command=split_command(command)),)
    target = "child" if application else process
    return (Action("signal", signal=parse_signal(signal), target=target),)


def _flag_actions(reader: _Reader, application: tuple[str, ...]) -> tuple[Action, ...]:
    actions: list[Action] = []
    if reader.has("signal"):
        number = reader.one("signal", parse_signal, 0)
        target = reader.one("process", parse_target, "child" if application else "")
        _require(bool(target), "--signal needs --process, which says whom it is for")
        actions.append(Action("signal", signal=number, target=target))
    for url in reader.many("url", parse_url):
        call = Call(
            url,
            method=reader.one("method", _parse_method, "POST"),
            headers=reader.many("header", _parse_header),
            body=reader.one("body", str, ""),
            statuses=reader.one("status", parse_statuses, (200,)),
            ca=reader.path("ca"),
            certificate=reader.path("client-cert"),
            private_key=reader.path("client-key"),
            credentials=reader.path("credentials"),
            token=reader.path("token"),
        )
        actions.append(Action("http", call=call))
    actions += [Action("exec", command=one) for one in reader.many("exec", split_command)]
    actions += [Action("touch", path=one) for one in reader.many("touch", _parse_path)]
    if reader.has("restart") and not reader.has("restart-on"):
        way = reader.one("restart", _parse_way, "")
        actions.append(Action("restart", way=way, target=_process(reader, application, way)))
    return tuple(actions)


def _process(reader: _Reader, application: tuple[str, ...], way: str) -> str:
    _require(
        way != "supervised" or bool(application),
        "--restart supervised needs an application: put it after --",
    )
    if way != "term":
        return ""
    _require(reader.has("process"), "--restart term needs --process, which says whom it is for")
    return reader.one("process", parse_target, "")


def _notes(reader: _Reader) -> tuple[str, ...]:
    if reader.has("webhook-retries"):
        reader.one("webhook-retries", _parse_count, 0)
        return (
            f"{reader.spelled('webhook-retries')} bounds nothing here: a call is repeated until "
            "it succeeds or the content is newer",
        )
    return ()


# The rules file: top-level keys are flags without their dashes, [[rule]] tables are rules.


def _load(path: str) -> dict[str, Any]:
    import tomllib

    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise SettingsError(f"--rules: {path} cannot be read: {reason}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"--rules: {path} is no TOML: {error}") from None


def _with_document(words: Words, document: Mapping[str, Any], path: str) -> Words:
    """Put the file's top-level keys beneath the flags that were typed."""
    values = {name: list(texts) for name, texts in words.values.items()}
    given = dict(words.given)
    for key, value in document.items():
        flag = FLAGS.get(key)
        if flag is None or key in ("rules", "help", "help-verify", "version", "check-config"):
            raise SettingsError(f"{path}: there is no setting {key!r}")
        if key in values:
            continue
        found = value if isinstance(value, list) else [value]
        if len(found) > 1 and not flag.many:
            raise SettingsError(f"{path}: {key} takes one value")
        values[key] = [_text(one, f"{path}: {key}") for one in found]
        given[key] = f"{path}: {key}"
    return Words(values, given, words.application)


def _text(value: object, where: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    raise SettingsError(f"{where}: {value!r} is no text; put it in quotes, with its unit")


_RULE_KEYS = ("name", "files", "directories", "actions", "verify", "check")

_ACTION_KEYS: dict[str, tuple[str, ...]] = {
    "signal": ("process",),
    "http": (
        *("method", "headers", "body", "status", "ca", "client-cert", "client-key"),
        *("credentials", "token"),
    ),
    "exec": (),
    "touch": (),
    "restart": ("process",),
    "none": (),
}


def _table_rules(
    tables: object, path: str, reader: _Reader, application: tuple[str, ...]
) -> tuple[Rule, ...]:
    if not isinstance(tables, list):
        raise SettingsError(f"{path}: rules are written [[rule]], with two brackets")
    rules = []
    for number, table in enumerate(tables, start=1):
        where = f"{path}: rule {number}"
        for key in table:
            _require(key in _RULE_KEYS, f"{where}: there is no field {key!r}")
        name = _text(table.get("name", f"rule-{number}"), f"{where}: name")
        _require(name != FROZEN, f"{where}: the name {FROZEN} is taken")
        actions = tuple(
            _table_action(one, f"{where}: action {place}", application)
            for place, one in enumerate(_list(table.get("actions", []), f"{where}: actions"), 1)
        )
        _require(bool(actions), f'{where}: it has no actions; write actions = ["none"] for none')
        rules.append(
            Rule(
                name,
                tuple(_texts(table.get("files", ["*"]), f"{where}: files")),
                tuple(_texts(table.get("directories", []), f"{where}: directories")),
                actions,
                tuple(
                    _typed(text, parse_probe, f"{where}: verify")
                    for text in _texts(table.get("verify", []), f"{where}: verify")
                ),
            )
        )
        known = reader.paths("dir")
        for directory in rules[-1].directories:
            _require(directory in known, f"{where}: {directory} is not among the directories")
    return tuple(rules)


def _table_action(value: Any, where: str, application: tuple[str, ...]) -> Action:
    if value == "none":
        return Action("none")
    _require(isinstance(value, dict), f'{where}: write a table such as {{ signal = "HUP" }}')
    kinds = [kind for kind in _ACTION_KEYS if kind in value]
    _require(len(kinds) == 1, f"{where}: write exactly one of {', '.join(_ACTION_KEYS)}")
    kind = kinds[0]
    for key in value:
        _require(key == kind or key in _ACTION_KEYS[kind], f"{where}: there is no field {key!r}")
    if kind == "exec":
        return Action("exec", command=_command(value["exec"], f"{where}: exec"))
    text = _text(value[kind], f"{where}: {kind}")
    if kind == "touch":
        return Action("touch", path=_typed(text, _parse_path, f"{where}: touch"))
    if kind == "http":
        return Action("http", call=_table_call(text, value, where))
    target = _typed(
        _text(value.get("process", "child" if application else "-"), f"{where}: process"),
        _parse_target_or_none,
        f"{where}: process",
    )
    if kind == "signal":
        _require(bool(target), f"{where}: process is missing, which says whom the signal is for")
        number = _typed(text, parse_signal, f"{where}: signal")
        return Action("signal", signal=number, target=target)
    way = _typed(text, _parse_way, f"{where}: restart")
    _require(way != "term" or bool(target), f"{where}: process is missing")
    _require(way != "supervised" or bool(application), f"{where}: it needs an application after --")
    return Action("restart", way=way, target=target if way == "term" else "")


def _table_call(text: str, value: Mapping[str, Any], where: str) -> Call:
    def path(key: str) -> str:
        if key not in value:
            return ""
        return _typed(_text(value[key], f"{where}: {key}"), _parse_path, f"{where}: {key}")

    headers = value.get("headers", {})
    _require(isinstance(headers, dict), f"{where}: headers is no table")
    return Call(
        _typed(text, parse_url, f"{where}: http", hidden=True),
        method=_typed(_text(value.get("method", "POST"), where), _parse_method, f"{where}: method"),
        headers=tuple(
            _typed(f"{n}: {_text(v, where)}", _parse_header, f"{where}: headers", hidden=True)
            for n, v in headers.items()
        ),
        body=_text(value.get("body", ""), f"{where}: body"),
        statuses=_typed(
            _text(value.get("status", "200"), where), parse_statuses, f"{where}: status"
        ),
        ca=path("ca"),
        certificate=path("client-cert"),
        private_key=path("client-key"),
        credentials=path("credentials"),
        token=path("token"),
    )


def _typed(text: str, parse: Callable[[str], T], where: str, *, hidden: bool = False) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise SettingsError(f"{where}:{'' if hidden else f' {text!r}'} {error}") from None


def _list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise SettingsError(f"{where}: {value!r} is no list; put it in brackets")
    return value


def _texts(value: object, where: str) -> list[str]:
    return [_text(one, where) for one in _list(value, where)]


def _command(value: object, where: str) -> tuple[str, ...]:
    if isinstance(value, list) and value:
        return tuple(_texts(value, where))
    return _typed(_text(value, where), split_command, where)


# Values that only make sense here.


def _parse_path(text: str) -> str:
    if not text or "\0" in text:
        raise ValueError("is no path")
    return os.path.abspath(text)


def _parse_period(text: str) -> float:
    seconds = parse_duration(text)
    if seconds <= 0:
        raise ValueError("has to be more than 0")
    return seconds


def _parse_switch(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("is neither true nor false")
    return text == "true"


def _parse_count(text: str) -> int:
    if not text.lstrip("-").isdecimal():
        raise ValueError("is no number")
    return int(text)


def _parse_method(text: str) -> str:
    if not (text.isascii() and text.isalpha()):
        raise ValueError("is no HTTP method; write POST, PUT or GET")
    return text.upper()


def _parse_header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name or not text.isprintable() or set(name) & set(' \t()<>@,;\\"/[]?={}'):
        raise ValueError("is no header; write 'Name: value'")
    return name, value.strip()


def _parse_path_of_url(text: str) -> str:
    if not text.startswith("/"):
        raise ValueError("is no path of a URL; write /metrics")
    return text


def _parse_syntax(text: str) -> tuple[str, str]:
    pattern, equals, language = text.rpartition("=")
    if not equals or not pattern or language not in ("json", "toml"):
        raise ValueError("is no syntax; write '*.json=json' or '*.toml=toml'")
    return pattern, language


def _parse_format(text: str) -> str:
    if text not in ("text", "json"):
        raise ValueError("is no log format; write text or json")
    return text


def _parse_frozen(text: str) -> str:
    if text != "frozen":
        raise ValueError("is nothing to restart on; write frozen")
    return text


def _parse_way(text: str) -> str:
    if text not in WAYS:
        raise ValueError(f"is no way to restart; write {', '.join(WAYS[:-1])} or {WAYS[-1]}")
    return text


def _parse_program(text: str) -> str:
    if text and text not in CATALOGUE:
        raise ValueError(f"is not in the catalogue, which has {', '.join(sorted(CATALOGUE))}")
    return text


def _parse_target_or_none(text: str) -> str:
    return "" if text == "-" else parse_target(text)


def _parse_env_from(text: str) -> EnvFrom:
    prefix, equals, directory = text.partition("=")
    if not equals:
        prefix, directory = "", text
    if not (prefix.isascii() and (prefix.isprintable() or not prefix)):
        raise ValueError("has a prefix that no variable can have")
    return EnvFrom(prefix, _parse_path(directory))


def _parse_env(text: str) -> EnvSetting:
    name, equals, value = text.partition("=")
    if not name or not (name.isascii() and name.isprintable()):
        raise ValueError("names no variable; write NAME=VALUE or NAME")
    return EnvSetting(name, value if equals else None)
