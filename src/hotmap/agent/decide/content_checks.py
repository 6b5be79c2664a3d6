"""Checks that need no command: size, presence, JSON and TOML syntax.

Only an application's own checker knows whether its configuration is valid (`nginx -t`).
"""

from __future__ import annotations

from hotmap.agent.decide.patterns import matches

__all__ = ["find_error"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotmap.agent.settings.settings import ContentLimits


def find_error(contents: Mapping[str, Mapping[str, bytes]], limits: ContentLimits) -> str:
    """Describe the first error in content, in one sentence; "" without one.

    Names files, never their content.
    """
    files = {
        f"{directory}/{path}": (path, data)
        for directory, found in contents.items()
        for path, data in found.items()
    }
    for name, (_, data) in sorted(files.items()):
        if limits.max_size and len(data) > limits.max_size:
            return f"{name} has {len(data)} bytes, the maximum is {limits.max_size}"
    for pattern in limits.not_empty:
        found = [data for name, (path, data) in files.items() if _selects(pattern, name, path)]
        if not found:
            return f"no file matches {pattern}"
        if not all(data.strip() for data in found):
            return f"{pattern} is empty"
    for pattern, language in limits.syntax:
        for name, (path, data) in sorted(files.items()):
            if _selects(pattern, name, path) and (error := _syntax_error(data, language)):
                return f"{name} is not valid {language.upper()}: {error}"
    return ""


def _selects(pattern: str, name: str, path: str) -> bool:
    return matches(pattern, name if pattern.startswith("/") else path)


class _NoJson(Exception):
    """Raised for what Python's parser accepts, and no other."""


def _refuse_constant(name: str) -> None:
    raise _NoJson(f"{name} is not a JSON number (RFC 8259)")


def _syntax_error(data: bytes, language: str) -> str:
    """Describe where the error is; a parser's own message could quote the content."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return f"byte {error.start} is not UTF-8"
    if language == "json":
        import json

        try:
            json.loads(text, parse_constant=_refuse_constant)
        except json.JSONDecodeError as error:
            return f"line {error.lineno}, column {error.colno}"
        except _NoJson as error:
            return str(error)
        except RecursionError:
            return "nested too deeply"
        return ""
    import tomllib

    try:
        tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        _, found, place = str(error).rpartition("(at ")
        return place.rstrip(")") if found else "unexpected end"
    return ""
