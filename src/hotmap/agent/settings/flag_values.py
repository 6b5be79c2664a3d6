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
    """Parses values of flags.

    Each method that parses raises SettingsError for an invalid value; the message names the flag as
    it was written, and the text unless it may hold a credential.
    """

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments
        self.application = arguments.application

    def has(self, name: str) -> bool:
        """Return whether a flag was given."""
        return name in self._arguments.values

    def spelling_of(self, name: str) -> str:
        """Return a flag as it was written, such as `-t`, for messages."""
        return self._arguments.spelling.get(name, f"--{name}")

    def last(self, name: str, parse: Callable[[str], T], default: T) -> T:
        """Parse a flag of which the last value counts."""
        found = self.all(name, parse)
        return found[-1] if found else default

    def all(self, name: str, parse: Callable[[str], T]) -> tuple[T, ...]:
        """Parse a flag of which each value counts, in their order."""
        where, is_secret = self.spelling_of(name), name in _SECRET_FLAGS
        return tuple(
            parse_value(text, parse, where, is_secret=is_secret)
            for text in self._arguments.values.get(name, ())
        )

    def path(self, name: str) -> str:
        """Parse a flag with an absolute path; "" where it was not given."""
        return self.last(name, parse_path, "")

    def paths(self, name: str) -> tuple[str, ...]:
        """Parse a flag with absolute paths, each of them once."""
        return tuple(dict.fromkeys(self.all(name, parse_path)))

    def switch(self, name: str) -> bool:
        """Parse a flag that is true or false; false where it was not given."""
        return self.last(name, _parse_switch, False)

    def process(self, default: str) -> str:
        """Parse --process; without it the own application, else `default`."""
        return self.last("process", parse_process, "child" if self.application else default)

    def program(self) -> KnownProgram | None:
        """Parse --for."""
        return KNOWN_PROGRAMS.get(self.last("for", _parse_program, ""))


def _parse_switch(text: str) -> bool:
    if text not in ("true", "false"):
        raise InvalidValue("boolean", "expected true or false")
    return text == "true"


def _parse_program(text: str) -> str:
    if text not in KNOWN_PROGRAMS:
        raise InvalidValue("program", f"expected one of {', '.join(sorted(KNOWN_PROGRAMS))}")
    return text
