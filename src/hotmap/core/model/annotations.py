"""hotmap's own annotations and its label, and which annotations of an object are kept.

docs/reference/annotations.md explains each. Reloader's names are in
`reloader.annotations`, since flags may rename them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from hotmap.core.model.patterns import LONGEST_VALUE
from hotmap.core.reloader.annotations import (
    DEFAULT_SETTINGS,
    EXCLUDES,
    LAST_RELOADED_FROM,
    ROLLOUT_STRATEGY,
    Names,
)

__all__ = [
    "AGENT",
    "ANNOTATIONS",
    "CATCH_UP",
    "CONTENT",
    "EXCLUDE",
    "FLAP_LIMIT",
    "FOLLOW",
    "IGNORE",
    "MAX_ROLLOUTS",
    "ON_CHANGE",
    "OURS",
    "RELEASE",
    "REQUIRE_READY",
    "REREADS",
    "SETTLE",
    "SETTLE_MAX",
    "STRATEGY",
    "SUSPEND",
    "WATCH_LABEL",
    "known_annotations",
]

FOLLOW = "hotmap.dev/follow"
EXCLUDE = "hotmap.dev/exclude"
IGNORE = "hotmap.dev/ignore"
REREADS = "hotmap.dev/rereads"
REQUIRE_READY = "hotmap.dev/require-ready"
STRATEGY = "hotmap.dev/strategy"
SETTLE = "hotmap.dev/settle"
SETTLE_MAX = "hotmap.dev/settle-max"
CATCH_UP = "hotmap.dev/catch-up"
ON_CHANGE = "hotmap.dev/on-change"
FLAP_LIMIT = "hotmap.dev/flap-limit"
MAX_ROLLOUTS = "hotmap.dev/max-concurrent-rollouts"
RELEASE = "hotmap.dev/release"
SUSPEND = "hotmap.dev/suspend"
AGENT = "hotmap.dev/agent"

#: Every annotation for users.
ANNOTATIONS = (
    FOLLOW,
    EXCLUDE,
    IGNORE,
    REREADS,
    REQUIRE_READY,
    STRATEGY,
    SETTLE,
    SETTLE_MAX,
    CATCH_UP,
    ON_CHANGE,
    FLAP_LIMIT,
    MAX_ROLLOUTS,
    RELEASE,
    SUSPEND,
    AGENT,
)

#: Written by `hotmap stamp` into manifests; the controller does not read it.
CONTENT = "hotmap.dev/content"

#: Written by hotmap itself; see docs/reference/annotations.md.
OURS = ("hotmap.dev/revision", "hotmap.dev/target", CONTENT)

#: The label that makes hotmap watch a bare ReplicaSet or Pod. Nearly all ReplicaSets and Pods have
#: a workload, and there may be a hundred thousand of them, so the API server selects by this label.
WATCH_LABEL = "hotmap.dev/watch"

#: Maximum number of unknown names in hotmap's or Reloader's domain that are kept for a warning.
_MISSPELLED = 8


def known_annotations(
    annotations: Mapping[str, str] | None, names: Names = DEFAULT_SETTINGS.names
) -> dict[str, str]:
    """Select the annotations that hotmap reads, its own and Reloader's.

    Values are cut one character beyond LONGEST_VALUE, so that their readers can detect it. Of other
    names in the two domains, which are misspelled, the first few are kept without values.
    """
    if not annotations:
        return {}
    known = _known_names(names)
    kept: dict[str, str] = {}
    misspelled = []
    for name, value in annotations.items():
        if name in known:
            kept[name] = value[: LONGEST_VALUE + 1]
        elif name.startswith("hotmap.dev/") or "reloader.stakater.com/" in name:
            misspelled.append(name)
    return kept | dict.fromkeys(sorted(misspelled)[:_MISSPELLED], "") if misspelled else kept


@lru_cache(maxsize=8)
def _known_names(names: Names) -> frozenset[str]:
    reloader = (*names, *EXCLUDES.values(), ROLLOUT_STRATEGY, LAST_RELOADED_FROM)
    return frozenset((*ANNOTATIONS, *OURS, *reloader))
