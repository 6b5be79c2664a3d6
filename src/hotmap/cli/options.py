"""Command-line options, each declared once: on the field of a class that holds its value.

    class ClusterOptions(NamedTuple):
        context: Annotated[str | None, Flag("Context of the kubeconfig to use.", "NAME")] = None

    @click.command()
    @add_options(ClusterOptions, "cluster")
    def status(cluster: ClusterOptions) -> int: ...

The field's name gives the flag, its type what the flag takes, its default the flag's default.
Help, reference page (docs/reference/cli.md) and error messages read the same declaration.
Modules with such classes do without `from __future__ import annotations`: as texts, the types of a
hundred flags would be compiled and evaluated at each start.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from hotmap.core.errors import SettingsError
from hotmap.core.reloader.go_values import unquote
from hotmap.core.text import quote_short

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = [
    "Flag", "HotmapCommand", "HotmapGroup", "HotmapOption", "NamespaceName", "QuotedChoice",
    "Rate", "SectionedCommand", "add_options", "declared", "flag_name", "invalid_value",
    "namespace_flag",
]  # fmt: skip

Command = Callable[..., Any]

#: What the name of a namespace consists of.
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")

#: What a shell completes for a value of a flag, by the word for it in the help.
_PATHS = {"FILE": "file", "DIR": "dir"}


class Flag(NamedTuple):
    """What a field's type and default do not say about its flag."""

    help: str
    #: Written as docs/reference/cli.md shows it: `NAME`, `FILE`, `text|json`.
    metavar: str = ""
    #: The flag, where it is not the field's name with hyphens.
    name: str = ""
    #: One letter, such as `-n`.
    short: str = ""
    #: A click type; without one the flag takes text.
    type: Any = None
    #: The default in words, where the field's default does not show it; called when it is printed.
    default: str | Callable[[], str] = ""
    #: The default with --reloader-compat, where it is another one.
    compat_default: str = ""
    #: What the flag means without a value, where it may stand without one.
    bare_value: str = ""
    #: The heading of the help under which it stands.
    section: str = "Options"


def flag_name(field: str, flag: Flag) -> str:
    """Return the long flag of a field, such as `--log-format`."""
    return flag.name or f"--{field.replace('_', '-')}"


def declared(holder: type[Any]) -> dict[str, Flag]:
    """List the flags of a class by field, in the order of the class."""
    return {field: flag for field, (flag, _) in _typed_flags(holder).items()}


def _typed_flags(holder: type[Any]) -> dict[str, tuple[Flag, Any]]:
    """List flag and type of each field."""
    return {
        field: (flag, hint.__origin__)
        for field, hint in holder.__annotations__.items()
        for flag in getattr(hint, "__metadata__", ())
        if isinstance(flag, Flag)
    }


def add_options(holder: type[Any], name: str) -> Callable[[Command], Command]:
    """Add the flags of a class to a command, which gets an instance of it as keyword `name`."""

    def decorate(command: Command) -> Command:
        fields = _typed_flags(holder)

        @functools.wraps(command)
        def with_holder(**values: Any) -> Any:
            own = {field: values.pop(field) for field in fields}
            return command(**values, **{name: holder(**own)})

        decorated: Command = with_holder
        for field, (flag, kind) in reversed(fields.items()):
            default = holder._field_defaults.get(field)
            decorated = _option(field, flag, kind, default)(decorated)
        return decorated

    return decorate


def _option(field: str, flag: Flag, kind: Any, default: Any) -> Callable[[Command], Command]:
    name = flag_name(field, flag)
    settings: dict[str, Any] = {"default": default, "type": flag.type}
    if kind is bool:
        settings = {"is_flag": True}
    elif kind == (bool | None):
        settings = {"default": None}
        name = f"{name}/--no-{name.removeprefix('--')}"
    elif kind == tuple[str, ...]:
        settings = {"multiple": True, "required": flag.default == "required"}
    elif flag.bare_value:
        settings = {"default": default, "is_flag": False, "flag_value": flag.bare_value}
    if flag.metavar:
        settings["metavar"] = flag.metavar
    names = (name, *([flag.short] if flag.short else ()), field)
    return click.option(*names, cls=HotmapOption, help=flag.help, flag=flag, **settings)


class HotmapOption(click.Option):
    """An option that was declared by a `Flag`."""

    def __init__(self, *names: Any, flag: Flag, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.flag = flag

    @property
    def default_text(self) -> str:
        """The default as it is shown; empty if there is none."""
        text = self.flag.default
        if callable(text):
            return text()
        if not text and not self.is_flag and isinstance(self.default, str | int | float):
            return str(self.default)
        return "" if text == "required" else text

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return names and help, with the default at its end."""
        record = super().get_help_record(ctx)
        if record is None or not self.default_text:
            return record
        return record[0], f"{record[1]}  [default: {self.default_text}]"

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a value: names of files, of directories, or what the type permits."""
        from click.shell_completion import CompletionItem  # a millisecond of each command

        if isinstance(self.metavar, str) and self.metavar in _PATHS:
            return [CompletionItem(incomplete, type=_PATHS[self.metavar])]
        return super().shell_complete(ctx, incomplete)


class HotmapCommand(click.Command):
    """A command whose epilog is a list of example command lines, one a line."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; each error names the command, also if a value is missing, where click does not."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples as they are: a command line that is wrapped cannot be copied."""
        if not self.epilog:
            return
        with formatter.section("Examples"):
            for line in self.epilog.strip().splitlines():
                formatter.write(f"{'':{formatter.current_indent}}{line.strip()}\n")


class HotmapGroup(click.Group):
    """A group of such commands."""

    command_class = HotmapCommand
    group_class = type


class SectionedCommand(HotmapCommand):
    """A command whose help shows its options under the headings that they declare."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for param in self.get_params(ctx):
            if record := param.get_help_record(ctx):
                title = param.flag.section if isinstance(param, HotmapOption) else "Options"
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class QuotedChoice(click.Choice[str]):
    """A choice whose value may stand in quotes that a manifest left."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Remove the quotes, then choose."""
        return super().convert(unquote(value), param, ctx)


class NamespaceName(click.types.StringParamType):
    """The name of a namespace; "" where none is named."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse what no namespace is called, such as a text that no request can have."""
        text = str(value)
        if text and (len(text) > 63 or set(text) - _LETTERS or "-" in (text[0], text[-1])):
            self.fail(
                f"{quote_short(text)} is not the name of a namespace: expected at most 63 "
                "lowercase letters, digits and hyphens.",
                param,
                ctx,
            )
        return text


def namespace_flag(help: str) -> Flag:
    """Declare `-n`, which is the context's namespace where it is not given or empty."""
    return Flag(help, "NAME", short="-n", type=NamespaceName(), default="the context's namespace")


class Rate(click.FloatRange):
    """A number within bounds; nan, which click accepts, is outside of all bounds."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read it as a number."""
        number: float = super().convert(value, param, ctx)
        if number != number:
            self.fail(f"{number} is not in the range 0<=x<={self.max:g}.", param, ctx)
        return number


def invalid_value(flag: str, kind: str, text: str, expected: str) -> SettingsError:
    """Make the error for a value that cannot be read.

    `flag` is the flag or environment variable, `kind` what its value should have been.
    """
    return SettingsError(f"{flag}: invalid {kind} {quote_short(text)}: expected {expected}")
