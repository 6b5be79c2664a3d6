"""From words to settings: flags, a rules file and the catalogue, typed and checked as a whole.

Each complaint names the flag (as it was typed) or the field of the rules file, and the value.
"""

from __future__ import annotations

import os

from hotmap.agent.catalogue import CATALOGUE, Entry
from hotmap.agent.check import Bounds
from hotmap.agent.environment import EnvFrom, EnvSetting
from hotmap.agent.flags import Words
from hotmap.agent.http import Call
from hotmap.agent.probes import parse_probe, parse_target
from hotmap.agent.rules_file import (
    load_rules,
    parse_way,
    read_command,
    read_rules,
    require,
    with_document,
)
from hotmap.agent.settings import FROZEN, Action, Check, Rule, Settings
from hotmap.agent.values import (
    parse_address,
    parse_header,
    parse_method,
    parse_mode,
    parse_path,
    parse_signal,
    parse_size,
    parse_statuses,
    parse_url,
    quoted,
    split_command,
)
from hotmap.core.duration import InvalidDuration, parse_duration
from hotmap.core.errors import SettingsError

__all__ = ["read_settings"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    T = TypeVar("T")


def read_settings(words: Words) -> Settings:
    """Work out the settings, or say in one sentence what is wrong with them.

    Raises:
        SettingsError: a value is ill-typed, two flags do not go together, or nothing is asked for.
    """
    rules_file = words.values.get("rules", [""])[0]
    document = load_rules(rules_file) if rules_file else {}
    tables = document.pop("rule", [])
    reader = _Reader(with_document(words, document, rules_file))
    directories = reader.paths("dir")
    env_from = reader.many("env-from", _parse_env_from)
    application = words.application
    require(bool(directories or env_from), "no directory is given; write --dir DIR")
    _together(reader, application, env_from)
    rules = (
        *read_rules(tables, rules_file, directories, application),
        *_flag_rules(reader, directories, env_from, application, told=bool(tables)),
    )
    names = [rule.name for rule in rules]
    for name in names:
        require(names.count(name) == 1, f"two rules have the name {name!r}")
    everything = tuple(dict.fromkeys((*directories, *(one.directory for one in env_from))))
    _require_stageable(reader, everything)
    return Settings(
        directories=everything,
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
        return self.one(name, parse_path, "")

    def paths(self, name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.many(name, parse_path)))

    def switch(self, name: str) -> bool:
        return self.one(name, _parse_switch, False)

    def _parsed(self, name: str, text: str, parse: Callable[[str], T]) -> T:
        try:
            return parse(text)
        except InvalidDuration as error:
            raise SettingsError(
                f"{self.spelled(name)}: invalid duration {quoted(text)}: {error.reason}"
            ) from None
        except ValueError as error:
            hidden = name in ("url", "drain-url", "body", "header", "env")
            shown = "" if hidden else f" {quoted(text)}"
            raise SettingsError(f"{self.spelled(name)}:{shown} {error}") from None


def _together(reader: _Reader, application: tuple[str, ...], env_from: tuple[EnvFrom, ...]) -> None:
    for name in ("env-from", "env", "forward-hup"):
        require(
            bool(application) or not reader.has(name),
            f"{reader.spelled(name)} needs an application: put it after --",
        )
    require(
        not (reader.switch("once") and application), "--once and an application exclude each other"
    )
    require(
        not reader.has("restart-on") or reader.has("target-file"),
        "--restart-on needs --target-file, where the announcement is read",
    )
    require(
        not reader.has("drain-url") or reader.has("restart-on"),
        "--drain-url goes with --restart-on frozen",
    )
    asks = ("signal", "restart", "for")
    require(
        not reader.has("process") or any(reader.has(one) for one in asks),
        "--process goes with --signal, --restart term or --for",
    )
    for needed, flag in (("client-cert", "client-key"), ("url", "method"), ("url", "body")):
        require(reader.has(needed) or not reader.has(flag), f"--{flag} goes with --{needed}")
    for flag in ("header", "status", "ca", "client-cert", "credentials", "token"):
        require(reader.has("url") or not reader.has(flag), f"--{flag} goes with --url")


def _require_stageable(reader: _Reader, directories: tuple[str, ...]) -> None:
    stage = reader.path("stage")
    if not stage:
        return
    names = [os.path.basename(one) for one in directories]
    require(
        len(set(names)) == len(names),
        "--stage: two directories end in the same name; mount one of them elsewhere",
    )
    for one in directories:
        require(
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
            commands.append(read_command(table["check"], f"{rules_file}: rule {number}: check"))
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
            actions = _entry_actions(reader, entry, application)
        if not probes:
            target = _entry_target(reader, entry, application)
            probes = tuple(
                one._replace(target=target) if one.kind == "workers" else one
                for one in map(parse_probe, entry.verify)
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
        way = reader.one("restart", parse_way, "supervised" if application else "all-containers")
        drains = (
            (Action("http", call=Call(reader.one("drain-url", parse_url, parse_url("http://-")))),)
            if reader.has("drain-url")
            else ()
        )
        restart = Action("restart", way=way, target=_process(reader, application, way))
        rules.append(Rule(FROZEN, (), (), (*drains, restart), ()))
    return tuple(rules)


def _entry_actions(
    reader: _Reader, entry: Entry, application: tuple[str, ...]
) -> tuple[Action, ...]:
    if entry.command:
        return (Action("exec", command=split_command(entry.command)),)
    target = _entry_target(reader, entry, application)
    return (Action("signal", signal=parse_signal(entry.signal), target=target),)


def _entry_target(reader: _Reader, entry: Entry, application: tuple[str, ...]) -> str:
    """Name the process of a catalogue's entry: as typed, else our own child, else by its name."""
    return reader.one("process", parse_target, "child" if application else entry.process)


def _flag_actions(reader: _Reader, application: tuple[str, ...]) -> tuple[Action, ...]:
    actions: list[Action] = []
    if reader.has("signal"):
        number = reader.one("signal", parse_signal, 0)
        target = reader.one("process", parse_target, "child" if application else "")
        require(bool(target), "--signal needs --process, which says whom it is for")
        actions.append(Action("signal", signal=number, target=target))
    for url in reader.many("url", parse_url):
        call = Call(
            url,
            method=reader.one("method", parse_method, "POST"),
            headers=reader.many("header", parse_header),
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
    actions += [Action("touch", path=one) for one in reader.many("touch", parse_path)]
    if reader.has("restart") and not reader.has("restart-on"):
        way = reader.one("restart", parse_way, "")
        actions.append(Action("restart", way=way, target=_process(reader, application, way)))
    return tuple(actions)


def _process(reader: _Reader, application: tuple[str, ...], way: str) -> str:
    require(
        way != "supervised" or bool(application),
        "--restart supervised needs an application: put it after --",
    )
    if way != "term":
        return ""
    require(reader.has("process"), "--restart term needs --process, which says whom it is for")
    return reader.one("process", parse_target, "")


def _notes(reader: _Reader) -> tuple[str, ...]:
    if reader.has("webhook-retries"):
        reader.one("webhook-retries", _parse_count, 0)
        return (
            f"{reader.spelled('webhook-retries')} bounds nothing here: a call is repeated until "
            "it succeeds or the content is newer",
        )
    return ()


# Values that only make sense here.


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


def _parse_program(text: str) -> str:
    if text and text not in CATALOGUE:
        raise ValueError(f"is not in the catalogue, which has {', '.join(sorted(CATALOGUE))}")
    return text


def _parse_env_from(text: str) -> EnvFrom:
    prefix, equals, directory = text.partition("=")
    if not equals:
        prefix, directory = "", text
    if not (prefix.isascii() and (prefix.isprintable() or not prefix)):
        raise ValueError("has a prefix that no variable can have")
    return EnvFrom(prefix, parse_path(directory))


def _parse_env(text: str) -> EnvSetting:
    name, equals, value = text.partition("=")
    if not name or not (name.isascii() and name.isprintable()):
        raise ValueError("names no variable; write NAME=VALUE or NAME")
    return EnvSetting(name, value if equals else None)
