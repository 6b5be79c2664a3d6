"""The values of flags, parsed; an error names the flag as it was written."""

from __future__ import annotations

from hotmap.agent.settings.flags import Arguments
from hotmap.agent.settings.known_programs import KNOWN_PROGRAMS, KnownProgram
from hotmap.agent.settings.probes import parse_process
from hotmap.agent.settings.values import InvalidValue, parse_path, parse_value

__all__ = ["FlagValues"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

#: Flags whose value may contain a credential, so that it is in no message.
_SECRET_FLAGS = (
    "url", "drain-url", "body", "header", "env", "credentials", "token", "client-key",
)  # fmt: skip


class FlagValues:
    """Parses values of flags; an error names the flag."""

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments
        self.application = arguments.application

    def has(self, name: str) -> bool:
        return name in self._arguments.values

    def spelling_of(self, name: str) -> str:
        return self._arguments.spelling.get(name, f"--{name}")

    def one(self, name: str, parse: Callable[[str], T], default: T) -> T:
        found = self.many(name, parse)
        return found[-1] if found else default

    def many(self, name: str, parse: Callable[[str], T]) -> tuple[T, ...]:
        where, is_secret = self.spelling_of(name), name in _SECRET_FLAGS
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

    def program(self) -> KnownProgram | None:
        """Parse --for."""
        return KNOWN_PROGRAMS.get(self.one("for", _parse_program, ""))


def _parse_switch(text: str) -> bool:
    if text not in ("true", "false"):
        raise InvalidValue("boolean", "expected true or false")
    return text == "true"


def _parse_program(text: str) -> str:
    if text not in KNOWN_PROGRAMS:
        raise InvalidValue("program", f"expected one of {', '.join(sorted(KNOWN_PROGRAMS))}")
    return text
