"""The reasons of our Events: stable names for filters and alerts; the message is prose."""

from __future__ import annotations

import enum

__all__ = ["Reason"]


class Reason(enum.StrEnum):
    """The reason of an Event; docs/reference/events.md explains each."""

    ROLLED_OUT = "RolledOut"
    REFRESHED = "Refreshed"
    RUN = "JobStarted"
    RECREATED = "JobRecreated"
    EVICTED = "Evicted"
    NOTIFIED = "Notified"
    RESUMED = "Resumed"
    LATENT = "Latent"
    STUCK = "Stuck"
    #: The API server has an older version of a source than was applied.
    SOURCE_RESTORED = "SourceRestored"
    #: A pod template exceeds a bound, so the workload is not tracked.
    OBJECT_TOO_LARGE = "ObjectTooLarge"
    #: An object cannot be decoded, or is larger than what is decoded.
    OBJECT_UNREADABLE = "ObjectUnreadable"
    HELD = "Held"
    FAILED = "Failed"
    NUDGE_REFUSED = "NudgeRefused"
    #: Agents in pods refused content, or could not load it.
    REFUSED = "Refused"
    LOAD_FAILED = "LoadFailed"
    #: A pod did not come back from a restart in place, so no other one is restarted.
    RESTART_STOPPED = "RestartStopped"
    SOURCE_MISSING = "SourceMissing"
    INVALID_ANNOTATION = "InvalidAnnotation"
    REVISION_CHANGED = "RevisionChanged"
    STATE_NOT_KEPT = "StateNotKept"
    OTHER_CONTROLLER = "OtherController"
