"""Reads Reloader's annotations for a Policy; no other module knows them.

The rules are those of stakater/Reloader 1.4.21 (pkg/common/common.go ShouldReload), in its order:

1. a kind of workload or of source that a flag ignores, a source annotated with `ignore` → no
2. the source is in the consumer's exclude list → no
3. its name is in the named list → yes, referenced or not
4. the consumer has `search`, the source has `match` → yes, if it is referenced
5. `auto`, or `auto` for the source's kind, or neither is set and everything is auto → yes, if
   it is referenced

`Policy.follows` answers 2 to 5, the callers check 1. Each annotation is read from the workload or
else from the pod template; Reloader reads some of them in one place only.

Expressions are matched by RE2, Go's own engine, within the bounds of `model.patterns` (Reloader
1.4.21 exits on an invalid one). They are anchored as a whole, where Reloader's `^a|b$` lets `a…`
and `…b` through.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from hotmap.core.duration import parse_duration
from hotmap.core.model.patterns import (
    LONGEST_VALUE,
    MAX_ITEMS,
    NO_SOURCES,
    SourcePatterns,
    is_plain_name,
    merge_patterns,
    name_patterns,
    split_items,
)
from hotmap.core.reloader.go_values import parse_bool
from hotmap.core.text import printable, quote_short

__all__ = [
    "DEFAULT_SETTINGS",
    "EXCLUDES",
    "LAST_RELOADED_FROM",
    "LONGEST_PAUSE",
    "ROLLOUT_STRATEGY",
    "Dialect",
    "DialectSettings",
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
    "SecretProviderClass": "secretproviderclasses.exclude.reloader.stakater.com/reload",
}
ROLLOUT_STRATEGY = "reloader.stakater.com/rollout-strategy"

#: Written into pod templates by the strategy `annotations`.
LAST_RELOADED_FROM = "reloader.stakater.com/last-reloaded-from"

KINDS = ("ConfigMap", "Secret", "SecretProviderClass")

#: Seconds. Longer than any maintenance window, and short enough to be noticed.
LONGEST_PAUSE = 24 * 3600.0

_TOO_LONG = f"the value is longer than {LONGEST_VALUE:,} characters"

#: Maximum number of invalid items of a list that are reported; there may be 64.
_MOST_TOLD = 3


class Names(NamedTuple):
    """The annotations that flags may rename; those of SecretProviderClasses since Reloader 2."""

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
    provider_class: str = "secretproviderclass.reloader.stakater.com/reload"
    provider_class_auto: str = "secretproviderclass.reloader.stakater.com/auto"

    def list_annotation(self, kind: str) -> str:
        """The annotation that lists sources of a kind by name."""
        lists = (self.config_map, self.secret, self.provider_class)
        return dict(zip(KINDS, lists, strict=True))[kind]

    def typed_auto(self, kind: str) -> str:
        """The annotation that is `auto` for one kind of source."""
        autos = (self.config_map_auto, self.secret_auto, self.provider_class_auto)
        return dict(zip(KINDS, autos, strict=True))[kind]


class Writing(enum.Enum):
    """How a rollout is written into a pod template."""

    #: hotmap's own annotation.
    REVISION = "revision"
    #: Reloader's default strategy: a variable with the source's digest in one container.
    ENV_VARS = "env-vars"
    #: Reloader's other strategy: an annotation that names the source, its digest and the time.
    ANNOTATIONS = "annotations"


class DialectSettings(NamedTuple):
    """Flags for Reloader's dialect; the defaults are hotmap's own behaviour."""

    names: Names = Names()
    #: Treat consumers without the `auto` annotation as auto.
    auto_reload_all: bool = False
    #: Kinds of sources and of workloads that never cause or take an action, and are not watched.
    #: SecretProviderClasses are followed on demand.
    ignored_sources: frozenset[str] = frozenset(("SecretProviderClass",))
    ignored_workloads: frozenset[str] = frozenset()
    writing: Writing = Writing.REVISION
    #: Pause a Deployment for its pause period on a change, instead of waiting that long.
    pauses: bool = False
    #: Read Reloader's marks although hotmap writes its own, to compare the two.
    compares: bool = False
    #: Whether the creation and the deletion of a source cause a rollout. For hotmap, the creation
    #: of an optional source is a change.
    reload_on_create: bool = True
    reload_on_delete: bool = False


DEFAULT_SETTINGS = DialectSettings()


class Dialect(NamedTuple):
    """The settings of Reloader's annotations on one consumer."""

    #: Whether an annotation sets what to follow; otherwise flags set `auto`.
    present: bool = False
    #: The kinds of sources that are followed where they are referenced.
    auto: frozenset[str] = frozenset()
    named: SourcePatterns = NO_SOURCES
    #: Follow the referenced sources with `match`.
    search: bool = False
    #: The sources that are never followed.
    excluded: SourcePatterns = NO_SOURCES
    #: Seconds that a Deployment waits after the first change; None: not set.
    pause: float | None = None
    #: Argo Rollout: restart its pods instead of changing its template.
    restarts: bool = False
    #: The annotations found, as text.
    origin: str = ""
    #: (annotation, message) of invalid values.
    problems: tuple[tuple[str, str], ...] = ()


#: The value of each annotation that is set, and a description of its place.
Annotations: TypeAlias = Mapping[str, tuple[str, str]]


def read(
    annotations: Annotations,
    *,
    kind: str,
    is_rollout: bool = False,
    settings: DialectSettings = DEFAULT_SETTINGS,
) -> Dialect:
    """Read the dialect for a consumer of a kind; never fails, problems are returned.

    `is_rollout` means that an Argo Rollout runs it, whether the template is its own or not.
    """
    names = settings.names
    if _names_read(names).isdisjoint(annotations):  # most have none
        return Dialect(auto=_auto_kinds(None, {}, everything=settings.auto_reload_all))
    reader = _Reader(annotations)
    auto = reader.boolean(names.auto)
    typed = {source: reader.boolean(names.typed_auto(source)) for source in KINDS}
    named = [reader.expressions(source, names) for source in KINDS]
    search = reader.exactly_true(names.search)
    return Dialect(
        present=bool(reader.origins),
        auto=_auto_kinds(auto, typed, everything=settings.auto_reload_all),
        named=merge_patterns(*named),
        search=search,
        excluded=merge_patterns(*(reader.exact_names(source) for source in KINDS)),
        pause=(
            reader.duration(names.pause_period)
            if reader.fits(names.pause_period, kind, "Deployment")
            else None
        ),
        restarts=reader.fits(ROLLOUT_STRATEGY, "Rollout" if is_rollout else kind, "Rollout")
        and reader.restarts(),
        origin=", ".join(reader.origins),
        problems=tuple(reader.problems),
    )


def _auto_kinds(
    auto: bool | None, typed: Mapping[str, bool | None], *, everything: bool
) -> frozenset[str]:
    """Step 5: either is sufficient, so `auto` for one kind beats a plain `auto: "false"`."""
    return frozenset(
        kind
        for kind in KINDS
        if auto or typed.get(kind) or (everything and auto is None and typed.get(kind) is None)
    )


@lru_cache(maxsize=8)
def _names_read(names: Names) -> frozenset[str]:
    return frozenset((*names, *EXCLUDES.values(), ROLLOUT_STRATEGY))


class _Reader:
    """Looks annotations up and collects those found and the problems."""

    def __init__(self, annotations: Annotations) -> None:
        self._annotations = annotations
        self.origins: list[str] = []
        self.problems: list[tuple[str, str]] = []

    def text(self, name: str) -> str | None:
        """Return an annotation that opts in or out, and record that it was set."""
        if (found := self._annotations.get(name)) is None:
            return None
        text, place = found
        self.origins.append(f"{name}: {printable(text, 80)}{place}")
        return text

    def quietly(self, name: str) -> str | None:
        """Return an annotation that does not affect opting in."""
        found = self._annotations.get(name)
        return found[0] if found else None

    def boolean(self, name: str) -> bool | None:
        """Read a boolean; None if it is absent or blank."""
        text = self.text(name)
        if text is None or not text:
            return None
        try:
            return parse_bool(text)
        except ValueError as error:
            self._problem(name, f"{error}; treating as false")
            return False

    def exactly_true(self, name: str) -> bool:
        """Read a value that only `true` enables; report other booleans."""
        text = self.text(name)
        if text is not None and text not in ("", "true", "false"):
            self._problem(
                name,
                f"invalid boolean {quote_short(text)}: expected true or false; treating as false",
            )
        return text == "true"

    def fits(self, name: str, kind: str, wanted: str) -> bool:
        """Return whether an annotation applies to the kind; report it if not."""
        if kind != wanted and self.quietly(name) is not None:
            self._problem(name, f"only applies to a {wanted}, not to a {kind}; ignoring it")
        return kind == wanted

    def expressions(self, kind: str, names: Names) -> SourcePatterns:
        """Read a list of expressions; beyond the bounds only the first ones."""
        name = names.list_annotation(kind)
        text = self.text(name) or ""
        items = split_items(text[:LONGEST_VALUE])
        if len(text) > LONGEST_VALUE:
            items = items[:-1]  # cut somewhere
            self._problem(name, f"{_TOO_LONG}; ignoring the items beyond")
        elif len(items) > MAX_ITEMS:
            self._problem(
                name,
                f"the list has {len(items)} items (limit {MAX_ITEMS}); ignoring the items beyond",
            )
        patterns, refused = name_patterns(kind, items[:MAX_ITEMS])
        for item, reason in refused[:_MOST_TOLD]:
            self._problem(
                name,
                f"invalid regular expression {quote_short(item)}: {printable(reason, 80)}; "
                "the other items still count",
            )
        return patterns

    def exact_names(self, kind: str) -> SourcePatterns:
        """Read a list of plain names; a pattern among them excludes nothing, and is reported.

        Beyond the bounds all sources of the kind are excluded, which is the safe reading.
        """
        name = EXCLUDES[kind]
        text = self.quietly(name) or ""
        items = split_items(text)
        if len(text) > LONGEST_VALUE or len(items) > MAX_ITEMS:
            many = f"the list has {len(items)} items (limit {MAX_ITEMS})"
            what = _TOO_LONG if len(text) > LONGEST_VALUE else many
            self._problem(name, f"{what}; excluding every {kind}")
            return SourcePatterns(kinds=frozenset((kind,)))
        wrong = [item for item in items if not is_plain_name(item)]
        for item in wrong[:_MOST_TOLD]:
            self._problem(
                name, f"invalid name {quote_short(item)}: expected the exact name of an object"
            )
        return SourcePatterns(names=frozenset((kind, item) for item in items if item not in wrong))

    def duration(self, name: str) -> float | None:
        """Read a duration that is not negative, up to LONGEST_PAUSE."""
        text = self.quietly(name)
        if text is None:
            return None
        try:
            seconds = parse_duration(text)
        except ValueError as error:
            self._problem(name, f"{error}; treating as none")
            return None
        if seconds > LONGEST_PAUSE:
            self._problem(
                name, f"invalid duration {quote_short(text)}: must not exceed 24h; treating as 24h"
            )
        return min(seconds, LONGEST_PAUSE)

    def restarts(self) -> bool:
        """Read how an Argo Rollout is to be rolled."""
        text = self.quietly(ROLLOUT_STRATEGY)
        if text is not None and text not in ("", "rollout", "restart"):
            self._problem(
                ROLLOUT_STRATEGY,
                f"invalid value {quote_short(text)}: expected rollout or restart; "
                "treating as rollout",
            )
        return text == "restart"

    def _problem(self, name: str, message: str) -> None:
        found = self._annotations.get(name)
        place = found[1] if found else ""
        self.problems.append((name, f"annotation {name}{place}: {message}"))


def source_ignored(annotations: Mapping[str, str], names: Names = DEFAULT_SETTINGS.names) -> bool:
    """Return whether a source carries Reloader's ignore annotation."""
    return annotations.get(names.ignore) == "true"


def source_matches(annotations: Mapping[str, str], names: Names) -> bool:
    """Return whether a source is offered to consumers that search."""
    return annotations.get(names.match) == "true"
