"""The rules file: a TOML document whose top-level keys are flags and whose tables are rules."""

from __future__ import annotations

from hotmap.agent.flags import FLAGS, Words
from hotmap.agent.http import Call
from hotmap.agent.probes import parse_probe, parse_target
from hotmap.agent.settings import FROZEN, WAYS, Action, Rule
from hotmap.agent.values import (
    parse_header,
    parse_method,
    parse_path,
    parse_signal,
    parse_statuses,
    parse_url,
    quoted,
    split_command,
)
from hotmap.core.errors import SettingsError

__all__ = ["load_rules", "parse_way", "read_command", "read_rules", "require", "with_document"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    T = TypeVar("T")


def load_rules(path: str) -> dict[str, Any]:
    """Read a rules file; gives its tables.

    Raises:
        SettingsError: it cannot be read, or is no TOML.
    """
    import tomllib

    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise SettingsError(f"--rules: {path} cannot be read: {reason}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"--rules: {path} is no TOML: {error}") from None


def with_document(words: Words, document: Mapping[str, Any], path: str) -> Words:
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


def read_rules(
    tables: object, path: str, directories: tuple[str, ...], application: tuple[str, ...]
) -> tuple[Rule, ...]:
    """Read the [[rule]] tables of a rules file, in order."""
    if not isinstance(tables, list):
        raise SettingsError(f"{path}: rules are written [[rule]], with two brackets")
    rules = []
    for number, table in enumerate(tables, start=1):
        where = f"{path}: rule {number}"
        for key in table:
            require(key in _RULE_KEYS, f"{where}: there is no field {key!r}")
        name = _text(table.get("name", f"rule-{number}"), f"{where}: name")
        require(name != FROZEN, f"{where}: the name {FROZEN} is taken")
        actions = tuple(
            _table_action(one, f"{where}: action {place}", application)
            for place, one in enumerate(_list(table.get("actions", []), f"{where}: actions"), 1)
        )
        require(bool(actions), f'{where}: it has no actions; write actions = ["none"] for none')
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
        for directory in rules[-1].directories:
            require(directory in directories, f"{where}: {directory} is not among the directories")
    return tuple(rules)


def _table_action(value: Any, where: str, application: tuple[str, ...]) -> Action:
    if value == "none":
        return Action("none")
    require(isinstance(value, dict), f'{where}: write a table such as {{ signal = "HUP" }}')
    kinds = [kind for kind in _ACTION_KEYS if kind in value]
    require(len(kinds) == 1, f"{where}: write exactly one of {', '.join(_ACTION_KEYS)}")
    kind = kinds[0]
    for key in value:
        require(key == kind or key in _ACTION_KEYS[kind], f"{where}: there is no field {key!r}")
    if kind == "exec":
        return Action("exec", command=read_command(value["exec"], f"{where}: exec"))
    text = _text(value[kind], f"{where}: {kind}")
    if kind == "touch":
        return Action("touch", path=_typed(text, parse_path, f"{where}: touch"))
    if kind == "http":
        return Action("http", call=_table_call(text, value, where))
    target = _typed(
        _text(value.get("process", "child" if application else "-"), f"{where}: process"),
        _parse_target_or_none,
        f"{where}: process",
    )
    if kind == "signal":
        require(bool(target), f"{where}: process is missing, which says whom the signal is for")
        number = _typed(text, parse_signal, f"{where}: signal")
        return Action("signal", signal=number, target=target)
    way = _typed(text, parse_way, f"{where}: restart")
    require(way != "term" or bool(target), f"{where}: process is missing")
    require(way != "supervised" or bool(application), f"{where}: it needs an application after --")
    return Action("restart", way=way, target=target if way == "term" else "")


def _table_call(text: str, value: Mapping[str, Any], where: str) -> Call:
    def path(key: str) -> str:
        if key not in value:
            return ""
        return _typed(_text(value[key], f"{where}: {key}"), parse_path, f"{where}: {key}")

    headers = value.get("headers", {})
    require(isinstance(headers, dict), f"{where}: headers is no table")
    return Call(
        _typed(text, parse_url, f"{where}: http", hidden=True),
        method=_typed(_text(value.get("method", "POST"), where), parse_method, f"{where}: method"),
        headers=tuple(
            _typed(f"{n}: {_text(v, where)}", parse_header, f"{where}: headers", hidden=True)
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
        raise SettingsError(f"{where}:{'' if hidden else f' {quoted(text)}'} {error}") from None


def _list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise SettingsError(f"{where}: {value!r} is no list; put it in brackets")
    return value


def _texts(value: object, where: str) -> list[str]:
    return [_text(one, where) for one in _list(value, where)]


def read_command(value: object, where: str) -> tuple[str, ...]:
    """Read a command: words, or one text that is split as a shell does."""
    if isinstance(value, list) and value:
        return tuple(_texts(value, where))
    return _typed(_text(value, where), split_command, where)


def require(condition: bool, complaint: str) -> None:
    """Complain, by SettingsError, unless a condition holds."""
    if not condition:
        raise SettingsError(complaint)


def parse_way(text: str) -> str:
    """Read a way to restart."""
    if text not in WAYS:
        raise ValueError(f"is no way to restart; write {', '.join(WAYS[:-1])} or {WAYS[-1]}")
    return text


def _parse_target_or_none(text: str) -> str:
    return "" if text == "-" else parse_target(text)
