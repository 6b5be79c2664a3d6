"""Reads the annotations of a consumer and the flags into a Policy.

Each annotation is looked for on the consumer, then on its pod template, then (if allowed there) on
the Namespace, then in the flags' defaults. A value that cannot be read is a Problem, for one
Warning Event on the object, and the safe value of the table is used.
Reloader's dialect is read by `reloader.annotations` into the same Policy.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from hotmap.core.duration import InvalidDuration, parse_duration
from hotmap.core.model.annotations import (
    AGENT,
    CATCH_UP,
    EXCLUDE,
    FLAP_LIMIT,
    FOLLOW,
    IGNORE,
    ON_CHANGE,
    REQUIRE_READY,
    REREADS,
    SETTLE,
    SETTLE_MAX,
    STRATEGY,
    SUSPEND,
)
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.limits import too_large_message
from hotmap.core.model.patterns import (
    NO_SOURCES,
    SourcePatterns,
    glob_patterns,
    merge_patterns,
)
from hotmap.core.model.provider_class import PROVIDER_CLASS
from hotmap.core.policy.lint import Problem, limit_problems, misplaced_annotations
from hotmap.core.policy.pause import pause_problems, read_pause
from hotmap.core.policy.policy import (
    DEFAULTS,
    Defaults,
    OnChange,
    Policy,
    Strategy,
)
from hotmap.core.policy.values import (
    EVERY_SOURCE,
    NOTHING,
    Follow,
    check_length,
    one_of,
    parse_agent,
    parse_bool,
    parse_flap_limit,
    parse_follow,
    parse_rereads,
)
from hotmap.core.reloader import annotations as reloader_annotations
from hotmap.core.reloader.annotations import EXCLUDES, Dialect, DialectSettings
from hotmap.core.text import printable

__all__ = [
    "LONGEST_SETTLE",
    "namespace_problems",
    "read_policy",
    "source_ignored",
    "source_offered",
]

T = TypeVar("T")
C = TypeVar("C", bound=enum.Enum)

#: Seconds. A settle time, and its bound, is for edits that follow one another; beyond an hour a
#: change would appear lost.
LONGEST_SETTLE = 3600.0


#: Its fields are what holds without any annotation or flag.
_NO_POLICY = Policy()

_OF_ANOTHER = Policy(origin="its pod template is that of another workload")


def read_policy(
    consumer: Consumer,
    *,
    namespace_annotations: Mapping[str, str] | None = None,
    defaults: Defaults = DEFAULTS,
) -> Policy:
    """Read one consumer's policy; never fails, problems are in the result.

    A consumer whose pod template is another object's is never opted in: to write into it would
    be undone, or break it (an Argo Rollout with `workloadRef` has to have none).
    """
    if consumer.owned:
        return _OF_ANOTHER
    reader = _Reader(consumer, namespace_annotations or {})
    settings = defaults.dialect
    dialect = _read_dialect(reader, settings)
    followed = _find_followed(reader, dialect, defaults)
    strategy = reader.read(STRATEGY, one_of(Strategy), "notify", Strategy.NOTIFY)
    pause = read_pause(consumer, dialect, settings)
    # A change that pauses the Deployment waits there, and is written at once.
    waits = None if pause is not None and pause.own else dialect.pause
    settle, settle_max = _read_settle(reader, waits, defaults)
    rereads = reader.read(REREADS, parse_rereads, "false", None)
    excluded = merge_patterns(
        reader.read(EXCLUDE, glob_patterns, "every source", EVERY_SOURCE) or NO_SOURCES,
        dialect.excluded,
    )
    return Policy(
        opted_in=followed.opted_in,
        auto=followed.sources.auto,
        named=followed.sources.named,
        searches=followed.sources.searches,
        excluded=merge_patterns(excluded, SourcePatterns(kinds=settings.ignored_sources)),
        strategy=Strategy.NOTIFY if defaults.muted else strategy or Strategy.AUTO,
        muted=defaults.muted,
        suspended_by=_read_suspended_by(reader),
        rereads=rereads is not None,
        rereads_within=rereads or 0.0,
        require_ready=_read_require_ready(reader),
        settle=settle,
        settle_max=settle_max,
        catch_up=_read_catch_up(reader, defaults),
        flap_limit=reader.read(FLAP_LIMIT, parse_flap_limit, "the default", None, inherit=True),
        on_change=_on_change(reader, consumer.key.kind, defaults),
        agent=reader.read(AGENT, parse_agent, "no agent", None),
        restarts=dialect.restarts,
        pause=pause,
        writing=settings.writing,
        reload_on_create=settings.reload_on_create,
        reload_on_delete=settings.reload_on_delete,
        origin=followed.origin or _NO_POLICY.origin,
        problems=(
            *reader.problems,
            *pause_problems(consumer, pause),
            *misplaced_annotations(reader.annotations, consumer.key.kind, settings.names),
            *followed.foreign_template,
            *_unwatched_classes(reader, followed.sources, excluded, settings),
        ),
        over_budget=followed.over_budget,
    )


def _read_dialect(reader: _Reader, settings: DialectSettings) -> Dialect:
    consumer = reader.consumer
    dialect = reloader_annotations.read(
        reader.annotations,
        kind=consumer.key.kind,
        is_rollout=consumer.argo is not None,
        settings=settings,
    )
    reader.problems += [Problem(*problem) for problem in dialect.problems]
    return dialect


class _Followed(NamedTuple):
    """What a consumer follows, and what prevents that."""

    sources: Follow
    #: Where it is set.
    origin: str
    #: Why the consumer is too large.
    over_budget: str
    #: Where its template is if that object is not watched.
    foreign_template: tuple[Problem, ...]

    @property
    def opted_in(self) -> bool:
        return self.sources != NOTHING and not self.over_budget and not self.foreign_template


def _find_followed(reader: _Reader, dialect: Dialect, defaults: Defaults) -> _Followed:
    consumer = reader.consumer
    sources, origin = _read_follow(reader, dialect, defaults)
    if consumer.key.kind in defaults.dialect.ignored_workloads:
        sources, origin = NOTHING, f"flags ignore every {consumer.key.kind}"
    # Only of a workload that is followed: its uses have to be found for that.
    over_budget = consumer.over_budget if sources != NOTHING else ""
    if over_budget:
        origin = too_large_message(over_budget)
    return _Followed(sources, origin, over_budget, tuple(_foreign_template(consumer, sources)))


def _read_catch_up(reader: _Reader, defaults: Defaults) -> bool:
    found = reader.read(CATCH_UP, parse_bool, "false", False)
    return defaults.catch_up if found is None else found


def _read_suspended_by(reader: _Reader) -> str:
    is_suspended = reader.read(SUSPEND, parse_bool, "true", True, inherit=True)
    return reader.origin(SUSPEND) if is_suspended else ""


def _read_require_ready(reader: _Reader) -> bool:
    found = reader.read(REQUIRE_READY, parse_bool, "true", True)
    return found is None or found


def _read_settle(reader: _Reader, pause: float | None, defaults: Defaults) -> tuple[float, float]:
    """Read the settle time and its bound, which is never shorter, in seconds.

    `pause` is the pause period that is waited for.
    """
    settle = reader.read(SETTLE, parse_duration, f"{defaults.settle:g}s", defaults.settle)
    most = reader.read(SETTLE_MAX, parse_duration, f"{defaults.settle_max:g}s", defaults.settle_max)
    settle, most = reader.limit_settle(SETTLE, settle), reader.limit_settle(SETTLE_MAX, most)
    if settle is None and pause is not None:
        # A fixed time from the first change on, as Reloader pauses a Deployment.
        settle = most = pause
    quiet = defaults.settle if settle is None else settle
    if most is not None and most < quiet:
        reader.complain(
            SETTLE_MAX, f"must not be shorter than the settle time; treating as {quiet:g}s"
        )
    return quiet, max(quiet, defaults.settle_max if most is None else most)


def _foreign_template(consumer: Consumer, follow: Follow) -> Iterable[Problem]:
    """Return where an Argo Rollout's template is if that object is not watched."""
    template_in = consumer.argo.template_in if consumer.argo else None
    if template_in and consumer.key.kind == "Rollout" and follow != NOTHING:
        yield Problem(
            FOLLOW,
            f"its pod template is that of {template_in}, which is not a Deployment; "
            "not acting on changes of its sources",
        )


def _unwatched_classes(
    reader: _Reader, follow: Follow, excluded: SourcePatterns, settings: DialectSettings
) -> Iterable[Problem]:
    """Return what asks for SecretProviderClasses while a flag is missing that has them watched."""
    if PROVIDER_CLASS not in settings.ignored_sources:
        return
    names = settings.names
    asked = False
    for name in (names.provider_class, names.provider_class_auto, EXCLUDES[PROVIDER_CLASS]):
        if name in reader.annotations:
            asked = True
            yield Problem(name, f"annotation {name} has no effect: {_NOT_WATCHED}")
    named = {kind for kind, _ in (*follow.named.names, *follow.named.expressions)}
    if PROVIDER_CLASS in named and not asked:
        yield Problem(FOLLOW, f"follows a SecretProviderClass by name: {_NOT_WATCHED}")
    uses = reader.consumer.uses
    if PROVIDER_CLASS not in follow.auto or PROVIDER_CLASS.encode() not in uses.packed:
        return
    used = sorted(source for source in uses.sources() if source.kind == PROVIDER_CLASS)
    if wanted := [str(source) for source in used if source.kind_and_name not in excluded.names]:
        more = f" and {len(wanted) - 1} more" if len(wanted) > 1 else ""
        yield Problem(FOLLOW, f"changes of {wanted[0]}{more} are missed: {_NOT_WATCHED}")


_NOT_WATCHED = (
    "SecretProviderClass is not watched; start the controller with --enable-csi-integration"
)


def _read_follow(reader: _Reader, dialect: Dialect, defaults: Defaults) -> tuple[Follow, str]:
    """Find what a consumer follows, and where that is set.

    On the consumer, in either dialect; then on its Namespace; then by flags.
    """
    follow = reader.read(FOLLOW, parse_follow, "off", NOTHING)
    if follow is not None:
        return follow, reader.origin(FOLLOW)
    if dialect.present:
        return Follow(dialect.auto, dialect.named, dialect.search), dialect.origin
    follow = reader.read(FOLLOW, parse_follow, "off", NOTHING, inherit=True)
    if follow is not None:
        return follow, reader.origin(FOLLOW)
    if dialect.auto:
        return Follow(dialect.auto), "the default --auto-reload-all"
    follow = parse_follow(defaults.follow)
    return follow, f"the default follow={defaults.follow}" if follow != NOTHING else ""


_ON_TEMPLATE = " on the pod template"


class _Reader:
    """Looks annotations up in their places and collects what cannot be read."""

    def __init__(self, consumer: Consumer, inherited: Mapping[str, str]) -> None:
        self.consumer = consumer
        #: (value, place) of each annotation of the consumer, or else of its pod template.
        self.annotations = {
            **{name: (text, _ON_TEMPLATE) for name, text in consumer.template_annotations.items()},
            **{name: (text, "") for name, text in consumer.annotations.items()},
        }
        self._inherited = inherited
        self.problems: list[Problem] = []

    def read(
        self,
        name: str,
        parse: Callable[[str], T],
        safe_text: str,
        safe: T,
        *,
        inherit: bool = False,
    ) -> T | None:
        """Parse an annotation; None if it is not set, `safe` if it cannot be read."""
        found = self.annotations.get(name)
        inherited = found is None and inherit and name in self._inherited
        if inherited:
            found = self._inherited[name], " on the Namespace"
        if found is None:
            return None
        text, place = found
        try:
            return parse(check_length(text).strip())
        except ValueError as error:
            if inherited:
                return safe  # reported once, for the Namespace, and not for every consumer in it
            message = f"annotation {name}{place}: {error}; treating as {safe_text}"
            self.problems.append(Problem(name, message))
            return safe

    def limit_settle(self, name: str, seconds: float | None) -> float | None:
        """Bound a settle time, and report it."""
        if seconds is None or seconds <= LONGEST_SETTLE:
            return seconds
        self.complain(name, "must not exceed 1h; treating as 1h")
        return LONGEST_SETTLE

    def complain(self, name: str, reason: str) -> None:
        """Record why a duration is out of range, unless it cannot be read anyway."""
        found = self.annotations.get(name)
        if found is not None and all(problem.annotation != name for problem in self.problems):
            text, place = found
            error = InvalidDuration(text, reason)
            self.problems.append(Problem(name, f"annotation {name}{place}: {error}"))

    def origin(self, name: str) -> str:
        """Describe where an annotation is set, and its value."""
        found = self.annotations.get(name)
        if found is not None:
            return f"{name}: {printable(found[0], 80)}{found[1]}"
        if name in self._inherited:
            return f"{name}: {printable(self._inherited[name], 80)} on the Namespace"
        return ""


def namespace_problems(annotations: Mapping[str, str]) -> tuple[Problem, ...]:
    """Find invalid annotations of a Namespace."""
    problems = [*misplaced_annotations(annotations, "Namespace"), *limit_problems(annotations)]
    parsers: tuple[tuple[str, Callable[[str], object], str], ...] = (
        (FOLLOW, parse_follow, "off"),
        (FLAP_LIMIT, parse_flap_limit, "the default"),
        (SUSPEND, parse_bool, "true"),
    )
    for name, parse, safe_text in parsers:
        if name not in annotations:
            continue
        try:
            parse(check_length(annotations[name]).strip())
        except ValueError as error:
            problems.append(Problem(name, f"annotation {name}: {error}; treating as {safe_text}"))
    return tuple(problems)


_ON_CHANGE_KINDS = {OnChange.RUN_NOW: "CronJob", OnChange.RECREATE: "Job", OnChange.EVICT: "Pod"}


def _on_change(reader: _Reader, kind: str, defaults: Defaults) -> OnChange:
    value = reader.read(ON_CHANGE, one_of(OnChange), "report only", OnChange.REPORT)
    if value is None:
        fitting = (item for item in defaults.on_change if _ON_CHANGE_KINDS[item] == kind)
        return next(fitting, OnChange.REPORT)
    if value is OnChange.REPORT:
        return OnChange.REPORT
    if _ON_CHANGE_KINDS[value] != kind:
        needed = _ON_CHANGE_KINDS[value]
        reader.problems.append(
            Problem(
                ON_CHANGE,
                f"annotation {ON_CHANGE}: {value.value} only applies to a {needed}, "
                f"not to a {kind}; treating as report only",
            )
        )
        return OnChange.REPORT
    return value


# -- sources ------------------------------------------------------------------------------------


def source_ignored(annotations: Mapping[str, str] | None, defaults: Defaults = DEFAULTS) -> bool:
    """Return whether a source is annotated to be ignored, in either dialect."""
    present = annotations or {}
    names = defaults.dialect.names
    return present.get(IGNORE, "").strip() == "true" or reloader_annotations.source_ignored(
        present, names
    )


def source_offered(annotations: Mapping[str, str] | None, defaults: Defaults = DEFAULTS) -> bool:
    """Return whether a source wants to be found by consumers that search."""
    return reloader_annotations.source_matches(annotations or {}, defaults.dialect.names)
