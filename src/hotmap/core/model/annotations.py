"""hotmap's own annotations and its label; docs/reference/annotations.md says what each means.

Reloader's stand in `reloader.annotations`, since flags may rename them.
"""

from __future__ import annotations

__all__ = [
    "AGENT",
    "ANNOTATIONS",
    "CATCH_UP",
    "EXCLUDE",
    "FOLLOW",
    "IGNORE",
    "ON_CHANGE",
    "OURS",
    "REREADS",
    "SETTLE",
    "SETTLE_MAX",
    "STRATEGY",
    "WATCH_LABEL",
]

FOLLOW = "hotmap.dev/follow"
EXCLUDE = "hotmap.dev/exclude"
IGNORE = "hotmap.dev/ignore"
REREADS = "hotmap.dev/rereads"
STRATEGY = "hotmap.dev/strategy"
SETTLE = "hotmap.dev/settle"
SETTLE_MAX = "hotmap.dev/settle-max"
CATCH_UP = "hotmap.dev/catch-up"
ON_CHANGE = "hotmap.dev/on-change"
AGENT = "hotmap.dev/agent"

#: Every annotation that a person writes.
ANNOTATIONS = (
    FOLLOW,
    EXCLUDE,
    IGNORE,
    REREADS,
    STRATEGY,
    SETTLE,
    SETTLE_MAX,
    CATCH_UP,
    ON_CHANGE,
    AGENT,
)

#: Written by hotmap itself; see docs/reference/annotations.md.
OURS = ("hotmap.dev/revision", "hotmap.dev/target")

#: The label with which a ReplicaSet or Pod without a workload asks to be watched. Almost all of
#: them have one, and there are a hundred thousand of them, so the API server picks these out.
WATCH_LABEL = "hotmap.dev/watch"
