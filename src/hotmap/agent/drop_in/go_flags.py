"""Command lines as Go's `flag` package and kingpin read them."""

from __future__ import annotations

from hotmap.agent.settings.values import quote_redacted
from hotmap.core.errors import SettingsError

__all__ = ["HelpRequested", "parse_go_flags", "parse_kingpin_flags"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


class HelpRequested(Exception):
    """Raised for -h, -help and --help."""


def parse_go_flags(words: Sequence[str], names: Collection[str]) -> dict[str, list[str]]:
    """Parse as Go's `flag`: one dash or two, `-name value` or `-name=value`, in any order.

    Ends at the first word that is not a flag, or after `--`; what follows is ignored, as the
    program does. Each value of a repeated flag is kept.

    Raises:
        SettingsError: a flag is unknown or has no value.
        HelpRequested: help is asked for.
    """
    values: dict[str, list[str]] = {}
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] not in ("-", "--"):
        spelled, equals, value = rest.pop(0).partition("=")
        name = spelled[2:] if spelled.startswith("--") else spelled[1:]
        if name in ("h", "help"):
            raise HelpRequested
        if name not in names:
            raise SettingsError(f"unknown flag {spelled}")
        if not equals:
            if not rest:
                raise SettingsError(f"{spelled} requires a value")
            value = rest.pop(0)
        values.setdefault(name, []).append(value)
    return values


def parse_kingpin_flags(
    words: Sequence[str],
    names: Collection[str],
    *,
    switches: Collection[str],
    many: Collection[str],
) -> dict[str, list[str]]:
    """Parse as kingpin: two dashes, `--flag value` or `--flag=value`; no other words.

    Raises:
        SettingsError: a flag is unknown, has no value, or is repeated and must not be.
        HelpRequested: help is asked for.
    """
    values: dict[str, list[str]] = {}
    rest = list(words)
    while rest:
        spelled, equals, value = rest.pop(0).partition("=")
        name = spelled[2:]
        if spelled == "--help":
            raise HelpRequested
        if not spelled.startswith("--") or not name:
            raise SettingsError(f"unexpected argument {quote_redacted(spelled)}")
        if name in switches:
            value = value or "true"
        elif name not in names:
            raise SettingsError(f"unknown flag {spelled}")
        elif not equals:
            if not rest:
                raise SettingsError(f"{spelled} requires a value")
            value = rest.pop(0)
        if name in values and name not in many:
            raise SettingsError(f"{spelled} must not be repeated")
        values.setdefault(name, []).append(value)
    return values
