"""Reloader's annotations, read into what a Policy needs; no other module knows them.

The rules are those of stakater/Reloader 1.4.21 (pkg/common/common.go ShouldReload), in its order:

1. a kind of workload or of source that a flag ignores, a source that says `ignore` → no
2. the source is in the consumer's exclude list → no
3. its name is in the named list → yes, referenced or not
4. the consumer says `search`, the source says `match` → yes, if it is referenced
5. `auto`, or `auto` for the source's kind, or neither is said and everything is auto → yes, if
   it is referenced

`Policy.follows` answers 2 to 5, the callers know 1. Each annotation is looked for on the workload
and, where it stands not there, on the pod template; Reloader reads some of them in one place only.

Expressions are matched by RE2, Go's own engine: linear time, so that nobody's annotation can
stall or crash the controller (Reloader 1.4.21 dies of an invalid one). They are anchored as a
whole, where Reloader's `^a|b$` lets `a…` and `…b` through.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

import re2

from hotmap.core.duration import parse_signed_duration
from hotmap.core.reloader.go_values import parse_bool

__all__ = [
    "DEFAULT_SETTINGS",
    "EXCLUDES",
    "LAST_RELOADED_FROM",
    "ROLLOUT_STRATEGY",
    "Dialect",
    "DialectSettings",
    "Expression",
    "Names",
    "Writing",
    "read",
    "source_ignored",
    "source_matches",
]

#: The annotations without a flag that renames them: exact names that are never followed, by kind.
EXCLUDES = {
    "ConfigMap": "configmaps.exclude.reloader.stakater.com/reload",
    "Secret": "secrets.exclude.reloader.stakater.com/reload",
}
ROLLOUT_STRATEGY = "reloader.stakater.com/rollout-strategy"

#: Written into pod templates by the strategy `annotations`.
LAST_RELOADED_FROM = "reloader.stakater.com/last-reloaded-from"

KINDS = ("ConfigMap", "Secret")


class Names(NamedTuple):
    """The annotations that flags may rename."""

    config_map: str = "configmap.reloader.stakater.com/reload"
    secret: str = "secret.reloader.stakater.com/reload"
    auto: str = "reloader.stakater.com/auto"
    config_map_auto: str = "configmap.reloader.stakater.com/auto"
    secret_auto: str = "secret.reloader.stakater.com/auto"
    ignore: str = "reloader.stakater.com/ignore"
    search: str = "reloader.stakater.com/search"
    match: str = "reloader.stakater.com/match"
    pause_period: str = "deployment.reloader.stakater.com/pause-period"
    paused_at: str = "deployment.reloader.stakater.com/paused-at"

    def named(self, kind: str) -> str:
        """The annotation that lists sources of a kind by name."""
        return self.config_map if kind == "ConfigMap" else self.secret

    def typed_auto(self, kind: str) -> str:
        """The annotation that is `auto` for one kind of source."""
        return self.config_map_auto if kind == "ConfigMap" else self.secret_auto

    def renamed(self) -> frozenset[str]:
        """The names that are not Reloader's own."""
        return _renamed(self)


@lru_cache(maxsize=8)
def _renamed(names: Names) -> frozenset[str]:
    return frozenset(names) - frozenset(Names())


class Writing(enum.Enum):
    """How a rollout is written into a pod template."""

    #: hotmap's own annotation.
    REVISION = "revision"
    #: Reloader's default strategy: a variable with the source's digest in one container.
    ENV_VARS = "env-vars"
    #: Reloader's other one: an annotation that names the source, its digest and the time.
    ANNOTATIONS = "annotations"


class DialectSettings(NamedTuple):
    """What flags say about Reloader's dialect; the defaults are hotmap's own behaviour."""

    names: Names = Names()
    #: Consumers that do not speak of `auto` are auto.
    auto_reload_all: bool = False
    #: Kinds of sources and of workloads that never cause or take an action.
    ignored_sources: frozenset[str] = frozenset()
    ignored_workloads: frozenset[str] = frozenset()
    writing: Writing = Writing.REVISION
    #: Read what Reloader writes although hotmap writes in its own way, to compare the two.
    compares: bool = False
    #: Whether a source that appears, and one that goes, calls for new pods. hotmap takes the first
    #: appearance of what is optional as the change that it is.
    reload_on_create: bool = True
    reload_on_delete: bool = False


DEFAULT_SETTINGS = DialectSettings()


class Expression(NamedTuple):
    """One item of a named list."""

    kind: str
    text: str
    matches: Callable[[str], bool]


class Dialect(NamedTuple):
    """What Reloader's annotations on one consumer ask for."""

    #: Whether an annotation says what to follow; otherwise `auto` is what flags say.
    spoken: bool = False
    #: The kinds of sources that are followed where they are referenced.
    auto: frozenset[str] = frozenset()
    named: tuple[Expression, ...] = ()
    #: Follow the referenced sources that say `match`.
    search: bool = False
    #: (kind, name) of each source that is never followed.
    excluded: tuple[tuple[str, str], ...] = ()
    #: Seconds that a Deployment waits from the first change on; None: not said.
    pause: float | None = None
    #: Argo Rollout: restart its pods instead of changing its template.
    restarts: bool = False
    #: What was found, in words.
    origin: str = ""
    #: (annotation, message) of what could not be read.
    problems: tuple[tuple[str, str], ...] = ()


#: How an annotation is looked up: its value and place in words, or None.
Lookup = Callable[[str], tuple[str, str] | None]


def read(
    lookup: Lookup,
    *,
    kind: str,
    is_rollout: bool = False,
    settings: DialectSettings = DEFAULT_SETTINGS,
) -> Dialect:
    """Read the dialect as a consumer of a kind speaks it; never fails, problems are told.

    `is_rollout` says that an Argo Rollout runs it, whether its template is its own or not.
    """
    reader = _Reader(lookup)
    names = settings.names
    auto = reader.boolean(names.auto)
    typed = {source: reader.boolean(names.typed_auto(source)) for source in KINDS}
    named = [expression for source in KINDS for expression in reader.expressions(source, names)]
    search = reader.exactly_true(names.search)
    return Dialect(
        spoken=bool(reader.said),
        auto=_auto_kinds(auto, typed, everything=settings.auto_reload_all),
        named=tuple(named),
        search=search,
        excluded=tuple(
            (source, name) for source in KINDS for name in reader.exact_names(EXCLUDES[source])
        ),
        pause=(
            reader.duration(names.pause_period)
            if reader.fits(names.pause_period, kind, "Deployment")
            else None
        ),
        restarts=reader.fits(ROLLOUT_STRATEGY, "Rollout" if is_rollout else kind, "Rollout")
        and reader.restarts(),
        origin=", ".join(reader.said),
        problems=tuple(reader.problems),
    )


def _auto_kinds(
    auto: bool | None, typed: Mapping[str, bool | None], *, everything: bool
) -> frozenset[str]:
    """Step 5: either says yes, so `auto` for one kind beats a plain `auto: "false"`."""
    return frozenset(
        kind
        for kind, said in typed.items()
        if auto or said or (everything and auto is None and said is None)
    )


class _Reader:
    """Looks annotations up and collects what was found and what cannot be read."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self.said: list[str] = []
        self.problems: list[tuple[str, str]] = []

    def text(self, name: str) -> str | None:
        """Return an annotation that opts in or out, and remember that it was said."""
        if (found := self._lookup(name)) is None:
            return None
        text, place = found
        self.said.append(f"{name}: {text}{place}")
        return text

    def quietly(self, name: str) -> str | None:
        """Return an annotation that says nothing about opting in."""
        found = self._lookup(name)
        return found[0] if found else None

    def boolean(self, name: str) -> bool | None:
        """Read a boolean; None where nothing or nothing but space stands."""
        text = self.text(name)
        if text is None or not text:
            return None
        try:
            return parse_bool(text)
        except ValueError as error:
            self._problem(name, f"{error}; taken as false")
            return False

    def exactly_true(self, name: str) -> bool:
        """Read what is on as `true` only; another word for it is told."""
        text = self.text(name)
        if text not in (None, "", "true", "false"):
            self._problem(name, f"{text!r} is neither true nor false; taken as false")
        return text == "true"

    def fits(self, name: str, kind: str, wanted: str) -> bool:
        """Tell whether an annotation stands on a kind that it is for; elsewhere it is told."""
        if kind != wanted and self.quietly(name) is not None:
            self._problem(name, f"it is for a {wanted}, this is a {kind}; it has no effect")
        return kind == wanted

    def expressions(self, kind: str, names: Names) -> Iterable[Expression]:
        """Read a list of names, each an expression of its own."""
        name = names.named(kind)
        for item in _items(self.text(name) or ""):
            try:
                yield Expression(kind, item, _matcher(item))
            except re2.error as error:
                told = error.args[0]
                reason = told.decode() if isinstance(told, bytes) else str(told)
                self._problem(
                    name,
                    f"{item!r} is no regular expression: {reason.removesuffix(f': {item}')}; "
                    "the others in the list still count",
                )

    def exact_names(self, name: str) -> list[str]:
        """Read a list of plain names; a pattern among them excludes nothing, and is told."""
        items = _items(self.quietly(name) or "")
        for item in items:
            if not _PLAIN_NAME.fullmatch(item):
                self._problem(
                    name, f"{item!r} is no name that an object could have; names here are exact"
                )
        return items

    def duration(self, name: str) -> float | None:
        """Read a duration that is not negative."""
        text = self.quietly(name)
        if text is None:
            return None
        try:
            seconds = parse_signed_duration(text)
        except ValueError as error:
            self._problem(name, f"{error}; taken as none")
            return None
        if seconds < 0:
            self._problem(name, f"{text!r} is in the past; taken as none")
            return None
        return seconds

    def restarts(self) -> bool:
        """Read how an Argo Rollout is to be rolled."""
        text = self.quietly(ROLLOUT_STRATEGY)
        if text not in (None, "", "rollout", "restart"):
            self._problem(
                ROLLOUT_STRATEGY, f"{text!r} is neither rollout nor restart; taken as rollout"
            )
        return text == "restart"

    def _problem(self, name: str, message: str) -> None:
        found = self._lookup(name)
        place = found[1] if found else ""
        self.problems.append((name, f"annotation {name}{place}: {message}"))


_PLAIN_NAME = re.compile(r"[-.a-z0-9]+")


def _items(text: str) -> list[str]:
    return [item for part in text.split(",") if (item := part.strip())]


@lru_cache(maxsize=4096)
def _matcher(item: str) -> Callable[[str], bool]:
    """Compile one list item to match whole names: `a|b` is anchored at both ends for both.

    It is compiled as it was written, so that `a)|(b` is refused and errors quote the item.
    """
    options = re2.Options()
    options.log_errors = False
    pattern = re2.compile(item, options)
    return lambda name: pattern.fullmatch(name) is not None


def source_ignored(annotations: Mapping[str, str], names: Names = DEFAULT_SETTINGS.names) -> bool:
    """Tell whether a source carries Reloader's ignore annotation."""
    return annotations.get(names.ignore) == "true"


def source_matches(annotations: Mapping[str, str], names: Names = DEFAULT_SETTINGS.names) -> bool:
    """Tell whether a source wants to be found by those who search."""
    return annotations.get(names.match) == "true"
