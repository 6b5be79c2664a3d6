"""The policy of a consumer, as values; `annotations` reads them.

No texts are parsed here: patterns are in `model.patterns`, Reloader's dialect in
`reloader.annotations`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.patterns import NO_SOURCES, SourcePatterns
from hotmap.core.model.references import EVERY_KEY, Use, UseKind
from hotmap.core.policy.lint import Problem
from hotmap.core.reloader.annotations import DEFAULT_SETTINGS, DialectSettings, Writing

__all__ = [
    "DEFAULTS",
    "MAX_FLAP_LIMIT",
    "ROLLABLE",
    "Agent",
    "Defaults",
    "OnChange",
    "Pause",
    "Policy",
    "Strategy",
    "followed_uses",
    "live_change_needs_rollout",
    "unfollowed_sources",
]


#: Kinds whose controller replaces pods when the pod template changes.
ROLLABLE = ("Deployment", "StatefulSet", "DaemonSet", "Rollout")


#: The maximum of `hotmap.dev/flap-limit`: the times of that many rollouts are stored.
MAX_FLAP_LIMIT = 100


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
    """Permitted actions for kinds without rollouts."""

    REPORT = ""
    #: CronJob: start a Job now.
    RUN_NOW = "run-now"
    #: Job: delete and recreate it.
    RECREATE = "recreate"
    #: Bare Pod: evict it.
    EVICT = "evict"


class Agent(NamedTuple):
    """The agents that injection put into the pods: one, or one for each of several containers."""

    #: How they may apply a frozen change: supervised, all-containers, term; "none": one may not.
    restart: str = "none"
    #: Whether one restarts its application for changed files, too.
    restarts_for_files: bool = False
    #: The containers that they reload, as far as they are named, and how many others there are.
    containers: frozenset[str] = frozenset()
    unnamed: int = 1
    #: Whether one restarts all containers of its pod, init containers too.
    restarts_pod: bool = False

    def restarts_all(
        self, uses: Iterable[Use], followed: Iterable[Use], applications: Sequence[str]
    ) -> bool:
        """Return whether a restart in place takes what some of the `followed` uses read at start.

        Unless an agent restarts the whole pod, only the containers that agents reload start again,
        and no init container does. Any of the `applications` may have read a source that is
        followed by name. An agent that names no container reloads the only one that uses a source;
        if several do, it is not known which.
        """
        if self.restarts_pod:
            return True
        frozen = [use for use in uses if use.kind is UseKind.FROZEN]
        if any(use.init for use in frozen):
            return False
        by_name = any(not use.container for use in frozen)
        readers = {use.container for use in frozen if use.container}
        readers |= set(applications) if by_name else set()
        if readers <= self.containers:
            return True
        users = {use.container for use in followed}.intersection(applications)
        return len((readers | users) - self.containers) <= self.unnamed


class Pause(NamedTuple):
    """How a Deployment is paused as Reloader pauses one."""

    #: The annotation with the time.
    annotation: str
    #: Seconds from the first change on.
    period: float = 0.0
    #: Whether changes pause it; otherwise only what Reloader has paused is resumed.
    own: bool = False
    #: When it was paused, POSIX seconds; None: it is not, or by another writer.
    paused_at: float | None = None
    #: Whether another writer has resumed it: only the annotation is left.
    ended_early: bool = False


class Policy(NamedTuple):
    """The policy of one consumer."""

    #: Whether the consumer is followed.
    opted_in: bool = False
    #: Kinds of sources that are followed wherever the pod template references one.
    auto: frozenset[str] = frozenset()
    #: Follow sources by name, referenced or not.
    named: SourcePatterns = NO_SOURCES
    #: Follow the sources that the pod template references and that are offered.
    searches: bool = False
    excluded: SourcePatterns = NO_SOURCES
    strategy: Strategy = Strategy.AUTO
    #: Why it is only reported regardless of its own strategy; "" if it is not.
    muted: str = ""
    #: The annotation that suspends all actions, and its place; "" if none does.
    suspended_by: str = ""
    rereads: bool = False
    #: Seconds within which the application re-reads its files; 0: that is not said.
    rereads_within: float = 0.0
    #: Whether a pod has to be Ready to count as current; some never are, by design.
    require_ready: bool = True
    #: Seconds of quiet before a rollout, and its bound.
    settle: float = 0.5
    settle_max: float = 5.0
    catch_up: bool = False
    #: Rollouts that the flap breaker allows; 0 allows any number, None is what flags say.
    flap_limit: int | None = None
    on_change: OnChange = OnChange.REPORT
    agent: Agent | None = None
    #: Argo Rollout: its pods are restarted instead of its template being changed.
    restarts: bool = False
    #: Set if changes pause it, or if it is paused and has to be resumed.
    pause: Pause | None = None
    #: How its rollouts are written.
    writing: Writing = Writing.REVISION
    #: Whether the creation and the deletion of a source count as changes.
    reload_on_create: bool = True
    reload_on_delete: bool = False
    #: What opted it in, or why it is not opted in.
    origin: str = "no annotation opts it in, such as hotmap.dev/follow: auto"
    problems: tuple[Problem, ...] = ()
    #: The bound that it exceeds although it would be opted in; reported by a Warning Event.
    over_budget: str = ""

    def follows(self, source: ObjectKey, *, referenced: bool, offered: bool = False) -> bool:
        """Return whether this consumer follows a source.

        `offered` says that the source wants to be found by those who search.
        """
        if not self.opted_in or self.excluded.covers(source):
            return False
        if referenced and (source.kind in self.auto or (offered and self.searches)):
            return True
        return self.named.covers(source)

    @property
    def pauses(self) -> bool:
        """Whether a change pauses it."""
        return self.pause is not None and self.pause.own and self.pause.period > 0

    @property
    def is_paused(self) -> bool:
        """Whether it is paused until the end of its pause period."""
        return self.pause is not None and self.pause.paused_at is not None

    @property
    def agent_restarts(self) -> bool:
        """Whether an agent in the pods restarts in place when frozen content changes."""
        return (
            self.strategy is Strategy.AUTO
            and self.agent is not None
            and self.agent.restart != "none"
        )

    def takes_live_changes(self) -> bool:
        """Return whether a live change needs no new pods."""
        if self.strategy is Strategy.ROLLOUT:
            return False
        return self.agent is not None or self.rereads or self.strategy is Strategy.NUDGE


def live_change_needs_rollout(consumer: Consumer, policy: Policy) -> bool:
    """Return whether a live change of a consumer needs new pods, since nothing re-reads files."""
    return consumer.key.kind in ROLLABLE and not policy.takes_live_changes()


class Defaults(NamedTuple):
    """Defaults from flags, for absent annotations."""

    follow: str = "off"
    settle: float = 0.5
    settle_max: float = 5.0
    catch_up: bool = False
    #: Permitted actions for kinds without rollouts.
    on_change: frozenset[OnChange] = frozenset()
    #: Why changes are only reported regardless of annotations; "" if they are not.
    muted: str = ""
    dialect: DialectSettings = DEFAULT_SETTINGS


DEFAULTS = Defaults()


def followed_uses(
    consumer: Consumer,
    policy: Policy,
    sources: Iterable[ObjectKey],
    *,
    offered: Callable[[ObjectKey], bool] = lambda source: False,
) -> tuple[Use, ...]:
    """Select the uses that count under a policy.

    A source that is named but not referenced counts as a frozen use of all its data keys, since it
    is unknown how it is read. A mounted SecretProviderClass is a frozen use, unless the application
    re-reads its files: drivers update them pod by pod, or not at all, and agents do not watch them.
    `sources` are the sources of the namespace that exist, for patterns.
    `offered` is called for referenced sources if the policy searches.
    """
    kept = [
        _mounted_use(use, policy) if use.kind is UseKind.FOREIGN else use
        for use in consumer.uses
        if policy.follows(
            use.source, referenced=True, offered=policy.searches and offered(use.source)
        )
    ]
    if policy.named:
        namespace, referenced = consumer.key.namespace, {use.source for use in kept}
        by_name = {ObjectKey(kind, namespace, name) for kind, name in policy.named.names}
        kept.extend(
            Use(source, UseKind.FROZEN, EVERY_KEY, "named by annotation", optional=True)
            for source in sorted(by_name.union(sources) - referenced)
            if policy.follows(source, referenced=False)
        )
    return tuple(kept)


def unfollowed_sources(consumer: Consumer, followed: Iterable[Use]) -> tuple[ObjectKey, ...]:
    """Return the sources that a consumer uses and does not follow."""
    known = {use.source for use in followed}
    return tuple(sorted({use.source for use in consumer.uses if use.source not in known}))


def _mounted_use(use: Use, policy: Policy) -> Use:
    is_live = (policy.rereads or policy.strategy is Strategy.NUDGE) and not use.init
    return use._replace(kind=UseKind.LIVE if is_live else UseKind.FROZEN)
