"""What a consumer permits and asks for: annotations and defaults become one Policy.

Each annotation is looked for on the consumer, then on its pod template, then (as far as it may
stand there) on the Namespace, then in the flags' defaults. A value that cannot be read is a
Problem, for one Warning Event on the object, and takes the safe reading that stands beside it in
the table. Reloader's dialect is read by `reloader.annotations` into the same Policy.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import translate
from typing import NamedTuple, TypeVar

from hotmap.core.duration import parse_duration
from hotmap.core.model.annotations import (
    AGENT,
    CATCH_UP,
    EXCLUDE,
    FOLLOW,
    IGNORE,
    ON_CHANGE,
    REREADS,
    SETTLE,
    SETTLE_MAX,
    STRATEGY,
)
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.references import EVERY_KEY, Life, Use
from hotmap.core.model.source import parse_time
from hotmap.core.policy.lint import Problem, misplaced_annotations
from hotmap.core.reloader import annotations as reloader_annotations
from hotmap.core.reloader.annotations import (
    DEFAULT_SETTINGS,
    Dialect,
    DialectSettings,
    Expression,
    Writing,
)

__all__ = [
    "DEFAULTS",
    "ROLLABLE",
    "Agent",
    "Defaults",
    "LeftPaused",
    "OnChange",
    "Pattern",
    "Policy",
    "Strategy",
    "followed_uses",
    "live_change_rolls",
    "namespace_problems",
    "parse_duration",
    "parse_follow",
    "read_policy",
    "source_ignored",
    "source_offered",
]


#: Kinds whose controller replaces pods when the pod template changes.
ROLLABLE = frozenset(("Deployment", "StatefulSet", "DaemonSet", "Rollout"))


class Strategy(enum.Enum):
    """Which actions a consumer permits."""

    #: The least disruptive one that is sufficient.
    AUTO = "auto"
    #: New pods for every change.
    ROLLOUT = "rollout"
    #: Files refreshed at once, nothing else.
    NUDGE = "nudge"
    #: An Event, nothing else.
    NOTIFY = "notify"


class OnChange(enum.Enum):
    """What a kind without rollouts may have done to it."""

    REPORT = ""
    #: CronJob: start a Job now.
    RUN_NOW = "run-now"
    #: Job: delete it and create it again.
    RECREATE = "recreate"
    #: Bare Pod: evict it.
    EVICT = "evict"


_ON_CHANGE_KINDS = {OnChange.RUN_NOW: "CronJob", OnChange.RECREATE: "Job", OnChange.EVICT: "Pod"}


class Pattern(NamedTuple):
    """A kind and a name, or an expression that names have to match as a whole."""

    #: "ConfigMap" or "Secret".
    kind: str
    text: str
    #: Whether `text` is a plain name, so that a source can be named before it exists.
    literal: bool
    matches: Callable[[str], bool]

    def covers(self, source: ObjectKey) -> bool:
        """Tell whether a source is meant."""
        return self.kind == source.kind and self.matches(source.name)


class Agent(NamedTuple):
    """An agent that injection put into the pods."""

    port: int = 9533
    #: How it may take a frozen change: supervised, all-containers, term; "none": it may not.
    restart: str = "none"


class LeftPaused(NamedTuple):
    """How somebody else left a Deployment."""

    #: The annotation that says so.
    annotation: str
    #: POSIX seconds.
    until: float


class Policy(NamedTuple):
    """What one consumer permits and asks for."""

    #: Whether it is hotmap's business at all.
    opted_in: bool = False
    #: Kinds of sources that are followed wherever the pod template references one.
    auto: frozenset[str] = frozenset()
    #: Follow sources by name, referenced or not.
    named: tuple[Pattern, ...] = ()
    #: Follow the sources that the pod template references and that offer themselves.
    searches: bool = False
    excluded: tuple[Pattern, ...] = ()
    strategy: Strategy = Strategy.AUTO
    #: What makes it report only whatever its own strategy, in words; "" when nothing does.
    muted: str = ""
    rereads: bool = False
    #: Seconds of quiet before a rollout, and its bound.
    settle: float = 0.5
    settle_max: float = 5.0
    catch_up: bool = False
    on_change: OnChange = OnChange.REPORT
    agent: Agent | None = None
    #: Argo Rollout: its pods are restarted instead of its template being changed.
    restarts: bool = False
    #: Set where Reloader has paused it, and may not be there any more to resume it.
    left_paused: LeftPaused | None = None
    #: How its rollouts are written.
    writing: Writing = Writing.REVISION
    #: Whether the first appearance of a source, and its deletion, are changes that it wants.
    wants_created: bool = True
    wants_deleted: bool = False
    #: What opted it in, in words, or why it is not opted in.
    origin: str = "no annotation opts it in"
    problems: tuple[Problem, ...] = ()

    def follows(self, source: ObjectKey, *, referenced: bool, offered: bool = False) -> bool:
        """Tell whether a change of a source is this consumer's business.

        `offered` says that the source wants to be found by those who search.
        """
        if not self.opted_in or any(pattern.covers(source) for pattern in self.excluded):
            return False
        if referenced and (source.kind in self.auto or (offered and self.searches)):
            return True
        return any(pattern.covers(source) for pattern in self.named)

    def takes_live_changes(self) -> bool:
        """Tell whether a live change needs no new pods."""
        if self.strategy is Strategy.ROLLOUT:
            return False
        return self.agent is not None or self.rereads or self.strategy is Strategy.NUDGE


def live_change_rolls(consumer: Consumer, policy: Policy) -> bool:
    """Tell whether a live change of a consumer needs new pods, since nothing re-reads files."""
    return consumer.key.kind in ROLLABLE and not policy.takes_live_changes()


class Defaults(NamedTuple):
    """What flags say where annotations are silent."""

    follow: str = "off"
    settle: float = 0.5
    settle_max: float = 5.0
    catch_up: bool = False
    #: What kinds without a rollout may have done to them.
    on_change: frozenset[OnChange] = frozenset()
    #: What allows no more than a report, whatever annotations ask for, in words.
    muted: str = ""
    dialect: DialectSettings = DEFAULT_SETTINGS


DEFAULTS = Defaults()

T = TypeVar("T")
C = TypeVar("C", bound=enum.Enum)


def read_policy(
    consumer: Consumer,
    *,
    namespace_annotations: Mapping[str, str] | None = None,
    defaults: Defaults = DEFAULTS,
) -> Policy:
    """Read one consumer's policy; never fails, problems stand in the result."""
    reader = _Reader(consumer, namespace_annotations or {})
    settings = defaults.dialect
    dialect = reloader_annotations.read(
        reader.lookup,
        kind=consumer.key.kind,
        is_rollout=consumer.argo is not None,
        settings=settings,
    )
    reader.problems += [Problem(*problem) for problem in dialect.problems]
    follow, origin = _read_follow(reader, dialect, defaults)
    if consumer.key.kind in settings.ignored_workloads:
        follow, origin = _NOTHING, f"flags ignore every {consumer.key.kind}"
    strategy = reader.read(STRATEGY, _one_of(Strategy), "notify", Strategy.NOTIFY)
    settle = reader.read(SETTLE, parse_duration, f"{defaults.settle:g}s", defaults.settle)
    settle_max = reader.read(
        SETTLE_MAX, parse_duration, f"{defaults.settle_max:g}s", defaults.settle_max
    )
    if settle is None and dialect.pause is not None:
        # A fixed time from the first change on, as Reloader pauses a Deployment.
        settle = settle_max = dialect.pause
    quiet = defaults.settle if settle is None else settle
    if settle_max is not None and settle_max < quiet:
        reader.complain(SETTLE_MAX, f"is shorter than the settle time; taken as {quiet:g}s")
    catch_up = reader.read(CATCH_UP, _parse_bool, "false", False)
    return Policy(
        opted_in=follow != _NOTHING,
        auto=follow.auto,
        named=follow.named,
        searches=follow.searches,
        excluded=(
            *(reader.read(EXCLUDE, _parse_patterns, "every source", _EVERY_SOURCE) or ()),
            *(Pattern(kind, name, True, name.__eq__) for kind, name in dialect.excluded),
            *(one for one in _EVERY_SOURCE if one.kind in settings.ignored_sources),
        ),
        strategy=Strategy.NOTIFY if defaults.muted else strategy or Strategy.AUTO,
        muted=defaults.muted,
        rereads=reader.read(REREADS, _parse_bool, "false", False) or False,
        settle=quiet,
        settle_max=max(quiet, defaults.settle_max if settle_max is None else settle_max),
        catch_up=defaults.catch_up if catch_up is None else catch_up,
        on_change=_on_change(reader, consumer.key.kind, defaults),
        agent=reader.read(AGENT, _parse_agent, "no agent", None),
        restarts=dialect.restarts,
        left_paused=_left_paused(consumer, dialect, settings.names.paused_at),
        writing=settings.writing,
        wants_created=settings.reload_on_create,
        wants_deleted=settings.reload_on_delete,
        origin=origin or Policy().origin,
        problems=(
            *reader.problems,
            *_misplaced(consumer, settings),
            *_foreign_template(consumer, follow),
        ),
    )


def _foreign_template(consumer: Consumer, follow: Follow) -> Iterable[Problem]:
    """Say where an Argo Rollout's template lies if nobody follows it there."""
    template_in = consumer.argo.template_in if consumer.argo else None
    if template_in and consumer.key.kind == "Rollout" and not consumer.owned and follow != _NOTHING:
        yield Problem(
            FOLLOW,
            f"its pod template is that of {template_in}, and only a Deployment's is followed; "
            "nothing is done when a source changes",
        )


class Follow(NamedTuple):
    """What a consumer follows."""

    #: Kinds of sources, wherever they are referenced.
    auto: frozenset[str] = frozenset()
    named: tuple[Pattern, ...] = ()
    #: Referenced sources that offer themselves.
    searches: bool = False


_NOTHING = Follow()
_EVERY_REFERENCE = Follow(auto=frozenset(("ConfigMap", "Secret")))


def _read_follow(reader: _Reader, dialect: Dialect, defaults: Defaults) -> tuple[Follow, str]:
    """Find what a consumer follows, and who says so.

    Itself, in either dialect; then its Namespace; then the flags.
    """
    follow = reader.read(FOLLOW, parse_follow, "off", _NOTHING)
    if follow is not None:
        return follow, reader.origin(FOLLOW)
    if dialect.spoken:
        named = tuple(_expression(one) for one in dialect.named)
        return Follow(dialect.auto, named, dialect.search), dialect.origin
    follow = reader.read(FOLLOW, parse_follow, "off", _NOTHING, inherit=True)
    if follow is not None:
        return follow, reader.origin(FOLLOW)
    if dialect.auto:
        return Follow(dialect.auto), "the default --auto-reload-all"
    follow = parse_follow(defaults.follow)
    return follow, f"the default follow={defaults.follow}" if follow != _NOTHING else ""


class _Reader:
    """Looks annotations up in their places and collects what cannot be read."""

    def __init__(self, consumer: Consumer, inherited: Mapping[str, str]) -> None:
        self._consumer = consumer
        self._inherited = inherited
        self.problems: list[Problem] = []

    def lookup(self, name: str) -> tuple[str, str] | None:
        """Find an annotation on the consumer or its pod template: (value, place)."""
        for place, said in (
            ("", self._consumer.annotations),
            (" on the pod template", self._consumer.template_annotations),
        ):
            if name in said:
                return said[name], place
        return None

    def read(
        self,
        name: str,
        parse: Callable[[str], T],
        safe_text: str,
        safe: T,
        *,
        inherit: bool = False,
    ) -> T | None:
        """Parse an annotation; None when it stands nowhere, `safe` when it cannot be read."""
        found = self.lookup(name)
        inherited = found is None and inherit and name in self._inherited
        if inherited:
            found = self._inherited[name], " on the Namespace"
        if found is None:
            return None
        text, place = found
        try:
            return parse(text.strip())
        except ValueError as error:
            if inherited:
                return safe  # told once, of the Namespace, and not of everybody in it
            message = f"annotation {name}{place}: {error}; taken as {safe_text}"
            self.problems.append(Problem(name, message))
            return safe

    def complain(self, name: str, message: str) -> None:
        """Note what is wrong with an annotation in its context, unless it is unreadable anyway."""
        found = self.lookup(name)
        if found is not None and all(problem.annotation != name for problem in self.problems):
            text, place = found
            self.problems.append(Problem(name, f"annotation {name}{place}: {text!r} {message}"))

    def origin(self, name: str) -> str:
        """Say in words where an annotation stands and what it says."""
        found = self.lookup(name)
        if found is not None:
            return f"{name}: {found[0]}{found[1]}"
        if name in self._inherited:
            return f"{name}: {self._inherited[name]} on the Namespace"
        return ""


def _misplaced(consumer: Consumer, settings: DialectSettings) -> list[Problem]:
    said = {*consumer.annotations, *consumer.template_annotations}
    return misplaced_annotations(said, consumer.key.kind, settings.names)


def namespace_problems(annotations: Mapping[str, str]) -> tuple[Problem, ...]:
    """Find what a Namespace says and nobody can read."""
    problems = misplaced_annotations(annotations, "Namespace")
    try:
        parse_follow(annotations.get(FOLLOW, "").strip())
    except ValueError as error:
        problems.append(Problem(FOLLOW, f"annotation {FOLLOW}: {error}; taken as off"))
    return tuple(problems)


# -- values ------------------------------------------------------------------------------------


def parse_follow(text: str) -> Follow:
    """Read `auto`, `off` or a list such as `configmap/app, secret/db-*`.

    Raises:
        ValueError: it is none of these; the message names the item.
    """
    if text in ("auto", "true"):
        return _EVERY_REFERENCE
    if text in ("off", "false", ""):
        return _NOTHING
    return Follow(named=_parse_patterns(text))


_KINDS = {
    "configmap": "ConfigMap",
    "configmaps": "ConfigMap",
    "cm": "ConfigMap",
    "secret": "Secret",
    "secrets": "Secret",
}

_NAME_CHARACTERS = re.compile(r"[-.a-z0-9*?\[\]!]+")


def _parse_patterns(text: str) -> tuple[Pattern, ...]:
    """Read a list such as `configmap/app, secret/db-*`."""
    patterns = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        kind, slash, name = item.partition("/")
        if not slash or kind.lower() not in _KINDS:
            raise ValueError(f"{item!r} is not configmap/NAME or secret/NAME")
        if not _NAME_CHARACTERS.fullmatch(name):
            raise ValueError(f"{item!r} has no name that an object could have")
        literal = not any(sign in name for sign in "*?[")
        patterns.append(Pattern(_KINDS[kind.lower()], name, literal, _glob(name)))
    return tuple(patterns)


def _glob(text: str) -> Callable[[str], bool]:
    pattern = re.compile(translate(text))
    return lambda name: pattern.match(name) is not None


_EVERY_SOURCE = _parse_patterns("configmap/*, secret/*")

_PLAIN_NAME = re.compile(r"[-.a-z0-9]+")


def _expression(one: Expression) -> Pattern:
    return Pattern(one.kind, one.text, _PLAIN_NAME.fullmatch(one.text) is not None, one.matches)


def _one_of(choices: type[C]) -> Callable[[str], C]:
    """Make a parser of an enumeration's values."""

    def parse(text: str) -> C:
        try:
            return choices(text)
        except ValueError:
            known = ", ".join(choice.value for choice in choices if choice.value)
            raise ValueError(f"{text!r} is none of {known}") from None

    return parse


def _parse_bool(text: str) -> bool:
    if text in ("true", "false"):
        return text == "true"
    raise ValueError(f"{text!r} is neither true nor false")


_RESTARTS = ("supervised", "all-containers", "term", "none")


def _parse_agent(text: str) -> Agent | None:
    agent = Agent()
    for item in filter(None, (part.strip() for part in text.split(";"))):
        name, _, value = item.partition("=")
        if name == "port" and value.isdigit() and 0 < int(value) < 65536:
            agent = agent._replace(port=int(value))
        elif name == "restart" and value in _RESTARTS:
            agent = agent._replace(restart=value)
        else:
            raise ValueError(f"{item!r} is not port=1…65535 or restart={'|'.join(_RESTARTS)}")
    return agent


def _left_paused(consumer: Consumer, dialect: Dialect, paused_at: str) -> LeftPaused | None:
    """Say how long a Deployment that Reloader paused was to be paused.

    Reloader keeps the time in memory only, so after its end nobody would resume it.
    """
    if consumer.key.kind != "Deployment" or consumer.argo or not consumer.paused:
        return None
    if (text := consumer.annotations.get(paused_at)) is None:
        return None
    return LeftPaused(paused_at, (parse_time(text) or 0.0) + (dialect.pause or 0.0))


def _on_change(reader: _Reader, kind: str, defaults: Defaults) -> OnChange:
    value = reader.read(ON_CHANGE, _one_of(OnChange), "reporting only", OnChange.REPORT)
    if value is None:
        fitting = (one for one in defaults.on_change if _ON_CHANGE_KINDS[one] == kind)
        return next(fitting, OnChange.REPORT)
    if value is OnChange.REPORT:
        return OnChange.REPORT
    if _ON_CHANGE_KINDS[value] != kind:
        needed = _ON_CHANGE_KINDS[value]
        reader.problems.append(
            Problem(
                ON_CHANGE,
                f"annotation {ON_CHANGE}: {value.value} is for a {needed}, this is a {kind}; "
                "taken as reporting only",
            )
        )
        return OnChange.REPORT
    return value


# -- which uses count --------------------------------------------------------------------------


def source_ignored(annotations: Mapping[str, str] | None, defaults: Defaults = DEFAULTS) -> bool:
    """Tell whether a source says that it never causes an action, in either dialect."""
    said = annotations or {}
    names = defaults.dialect.names
    return said.get(IGNORE, "").strip() == "true" or reloader_annotations.source_ignored(
        said, names
    )


def source_offered(annotations: Mapping[str, str] | None, defaults: Defaults = DEFAULTS) -> bool:
    """Tell whether a source wants to be found by consumers that search."""
    return reloader_annotations.source_matches(annotations or {}, defaults.dialect.names)


def followed_uses(
    consumer: Consumer,
    policy: Policy,
    sources: Iterable[ObjectKey],
    *,
    offered: Callable[[ObjectKey], bool] = lambda source: False,
) -> tuple[Use, ...]:
    """Select the uses that count under a policy.

    A source that is named but not referenced counts as a frozen use of everything in it: nobody
    knows how it is read. `sources` are the sources of the namespace that exist, for patterns.
    `offered` is asked of referenced sources where the policy searches.
    """
    kept = [
        use
        for use in consumer.uses
        if policy.follows(
            use.source, referenced=True, offered=policy.searches and offered(use.source)
        )
    ]
    referenced = {use.source for use in kept}
    named = {
        ObjectKey(pattern.kind, consumer.key.namespace, pattern.text)
        for pattern in policy.named
        if pattern.literal
    }
    if policy.named:
        named.update(s for s in sources if policy.follows(s, referenced=False))
    kept.extend(
        Use(source, Life.FROZEN, EVERY_KEY, "named by annotation", optional=True)
        for source in sorted(named - referenced)
        if policy.follows(source, referenced=False)
    )
    return tuple(kept)
