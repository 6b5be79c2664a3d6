"""The rules file: a TOML document whose top-level keys are flags and whose tables are rules."""

from __future__ import annotations

from hotmap.agent.settings.flags import FLAGS, Arguments
from hotmap.agent.settings.probes import parse_probe, parse_process
from hotmap.agent.settings.settings import FROZEN, RESTART_MODES, Action, Call, Rule
from hotmap.agent.settings.values import (
    InvalidValue,
    parse_header,
    parse_method,
    parse_path,
    parse_pattern,
    parse_secret_path,
    parse_signal,
    parse_statuses,
    parse_url,
    parse_value,
    require,
    split_command,
)
from hotmap.core.errors import SettingsError, os_reason

__all__ = [
    "add_document",
    "load_rules",
    "parse_command",
    "parse_restart_mode",
    "parse_rules",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


#: Bytes of a rules file: what a ConfigMap can hold.
_MAX_SIZE = 1 << 20


def load_rules(path: str) -> dict[str, Any]:
    """Read the tables of a rules file.

    Raises:
        SettingsError: it cannot be read, is too large, or is not valid UTF-8 or TOML.
    """
    import tomllib

    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_SIZE + 1)
        require(len(data) <= _MAX_SIZE, f"--rules: {path} is larger than 1 MiB")
        return tomllib.loads(data.decode("utf-8-sig"))  # editors may write a byte order mark
    except OSError as error:
        reason = os_reason(error)
        raise SettingsError(f"--rules: cannot read {path}: {reason}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"--rules: {path} is not valid UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"--rules: {path} is not valid TOML: {error}") from None


def add_document(arguments: Arguments, document: Mapping[str, Any], path: str) -> Arguments:
    """Add the file's top-level keys to the command line, which takes precedence."""
    values = {name: list(texts) for name, texts in arguments.values.items()}
    spelling = dict(arguments.spelling)
    for key, value in document.items():
        flag = FLAGS.get(key)
        if flag is None or key in ("rules", "help", "help-verify", "version", "check-config"):
            hint = ": write each rule as [[rule]]" if key == "rules" else ""
            raise SettingsError(f"{path}: unknown setting {key!r}{hint}")
        if key in values:
            continue
        found = value if isinstance(value, list) else [value]
        if len(found) != 1 and not flag.repeatable:
            raise SettingsError(f"{path}: {key} takes one value")
        values[key] = [_text(each, f"{path}: {key}", ", with its unit") for each in found]
        spelling[key] = f"{path}: {key}"
    return Arguments(values, spelling, arguments.application)


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


def parse_rules(
    tables: object, path: str, directories: tuple[str, ...], *, supervised: bool
) -> tuple[Rule, ...]:
    """Parse the [[rule]] tables of a rules file, in order.

    `supervised`: there is an application of the agent's own.

    Raises:
        SettingsError: names the file, the rule and the field.
    """
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SettingsError(f"{path}: write rules as [[rule]], with two brackets")
    return tuple(
        _parse_rule(table, number, f"{path}: rule {number}", directories, supervised=supervised)
        for number, table in enumerate(tables, start=1)
    )


def _parse_rule(
    table: Mapping[str, Any],
    number: int,
    where: str,
    directories: tuple[str, ...],
    *,
    supervised: bool,
) -> Rule:
    for key in table:
        require(key in _RULE_KEYS, f"{where}: unknown field {key!r}")
    name = _text(table.get("name", f"rule-{number}"), f"{where}: name")
    require(bool(name.strip()), f"{where}: name: must not be empty")
    require(name != FROZEN, f"{where}: the name {FROZEN} is reserved")
    actions = tuple(
        _parse_action(each, f"{where}: action {place}", supervised=supervised)
        for place, each in enumerate(_list(table.get("actions", []), f"{where}: actions"), 1)
    )
    require(bool(actions), f'{where}: actions are required; use actions = ["none"] for none')
    files = _texts(table.get("files", ["*"]), f"{where}: files")
    require(bool(files), f"{where}: files: must not be empty; without it, all files are meant")
    own = tuple(_texts(table.get("directories", []), f"{where}: directories"))
    for directory in own:
        require(directory in directories, f"{where}: {directory} is not a watched directory")
    return Rule(
        name,
        tuple(parse_value(text, parse_pattern, f"{where}: files") for text in files),
        own,
        actions,
        tuple(
            parse_value(text, parse_probe, f"{where}: verify")
            for text in _texts(table.get("verify", []), f"{where}: verify")
        ),
    )


def _parse_action(value: Any, where: str, *, supervised: bool) -> Action:
    if value == "none":
        return Action("none")
    require(isinstance(value, dict), f'{where}: expected a table such as {{ signal = "HUP" }}')
    kinds = [kind for kind in _ACTION_KEYS if kind in value]
    require(len(kinds) == 1, f"{where}: expected exactly one of {', '.join(_ACTION_KEYS)}")
    kind = kinds[0]
    for key in value:
        require(key == kind or key in _ACTION_KEYS[kind], f"{where}: unknown field {key!r}")
    if kind == "exec":
        return Action("exec", command=parse_command(value["exec"], f"{where}: exec"))
    text = _text(value[kind], f"{where}: {kind}")
    if kind == "touch":
        return Action("touch", path=parse_value(text, parse_path, f"{where}: touch"))
    if kind == "http":
        return Action("http", call=_parse_call(text, value, where))
    target = "child" if supervised else ""
    if "process" in value:
        process = _text(value["process"], f"{where}: process")
        target = parse_value(process, parse_process, f"{where}: process")
    if kind == "signal":
        require(bool(target), f"{where}: process is required: the process that gets the signal")
        number = parse_value(text, parse_signal, f"{where}: signal")
        return Action("signal", signal=number, target=target)
    mode = parse_value(text, parse_restart_mode, f"{where}: restart")
    require(mode != "term" or bool(target), f"{where}: process is required")
    require(mode != "supervised" or supervised, f"{where}: requires an application after --")
    return Action("restart", restart_mode=mode, target=target if mode == "term" else "")


def _parse_call(url: str, fields: Mapping[str, Any], where: str) -> Call:
    def path(key: str) -> str:
        if key not in fields:
            return ""
        is_secret = key in ("client-key", "credentials", "token")
        parse = parse_secret_path if is_secret else parse_path
        text = _text(fields[key], f"{where}: {key}")
        return parse_value(text, parse, f"{where}: {key}", is_secret=is_secret)

    headers = fields.get("headers", {})
    require(isinstance(headers, dict), f"{where}: headers: not a table")
    if "credentials" in fields and "token" in fields:
        raise SettingsError(f"{where}: credentials and token cannot be used together")
    return Call(
        parse_value(url, parse_url, f"{where}: http", is_secret=True),
        method=parse_value(
            _text(fields.get("method", "POST"), f"{where}: method"),
            parse_method,
            f"{where}: method",
        ),
        headers=tuple(
            parse_value(
                f"{name}: {_text(text, f'{where}: headers')}",
                parse_header,
                f"{where}: headers",
                is_secret=True,
            )
            for name, text in headers.items()
        ),
        body=_text(fields.get("body", ""), f"{where}: body"),
        statuses=parse_value(
            _text(fields.get("status", "200"), f"{where}: status"),
            parse_statuses,
            f"{where}: status",
        ),
        ca=path("ca"),
        certificate=path("client-cert"),
        private_key=path("client-key"),
        credentials=path("credentials"),
        token=path("token"),
    )


def parse_command(value: object, where: str) -> tuple[str, ...]:
    """Parse a command: a list of words, or one text that is split as a shell does."""
    if isinstance(value, list) and value:
        words = tuple(_texts(value, where))
        require(bool(words[0]), f"{where}: must begin with a program")
        return words
    return parse_value(_text(value, where), split_command, where)


def parse_restart_mode(text: str) -> str:
    """Parse how to restart."""
    if text not in RESTART_MODES:
        expected = f"{', '.join(RESTART_MODES[:-1])} or {RESTART_MODES[-1]}"
        raise InvalidValue("restart mode", f"expected {expected}")
    return text


def _text(value: object, where: str, hint: str = "") -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # No flag can have one, and the system takes none in a path, a word or a variable.
        require("\0" not in value, f"{where}: must not contain a NUL byte")
        return value
    if isinstance(value, dict | list):  # it may contain a credential
        kind = "table" if isinstance(value, dict) else "list"
        raise SettingsError(f"{where}: expected a string, not a {kind}")
    raise SettingsError(f"{where}: {value!r} is not a string: put it in quotes{hint}")


def _texts(value: object, where: str) -> list[str]:
    return [_text(each, where) for each in _list(value, where)]


def _list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise SettingsError(f"{where}: {value!r} is not a list: put it in brackets")
    return value
