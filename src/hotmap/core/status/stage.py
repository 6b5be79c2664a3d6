"""The stages that content reaches in a pod, the confidence in each, and the state of a pod."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from hotmap.core.decide.evidence import MARGIN
from hotmap.core.duration import format_age

__all__ = ["Confidence", "PodState", "Stage", "stage_by_time", "weakest"]


class Confidence(enum.Enum):
    """How it is known that a pod has the desired content; strongest first."""

    PROVEN = "proven"
    PROBABLE = "probable"
    INFERRED = "inferred"
    UNKNOWN = "unknown"


_STRENGTH = tuple(Confidence)


class PodState(enum.Enum):
    """Whether a pod has the desired content; all but the first three values say why it does not."""

    CURRENT = "current"
    #: The process was told to reload, and nothing confirms that it did.
    TOLD = "told"
    #: The files are there, and nothing shows whether the process has read them since.
    DELIVERED = "delivered"
    NOT_READY = "not-ready"
    #: Files or the announcement have not reached the pod yet.
    WAITING = "waiting"
    #: Steps of its agent.
    SETTLING = "settling"
    CHECKING = "checking"
    LOADING = "loading"
    RESTARTING = "restarting"
    #: Its agent's check did not pass the content.
    REFUSED = "refused"
    #: Its agent's check could not run, or the process did not load the content; it is retried.
    FAILED = "failed"
    #: There is no evidence.
    UNKNOWN = "unknown"


class Stage(NamedTuple):
    """Whether the desired content has reached one stage of a pod, and why."""

    confidence: Confidence
    reason: str
    #: The state that its agent reports; None: it was not queried.
    state: PodState | None = None
    #: Whether retrying cannot help, since the cause is in the pod.
    permanent: bool = False
    #: When it is reached by the passing of time alone, POSIX seconds; inf: it is not.
    reached_at: float = inf

    @property
    def reached(self) -> bool:
        """Whether there is any evidence for it."""
        return self.confidence is not Confidence.UNKNOWN


def weakest(stages: Sequence[Stage]) -> Stage:
    """Choose the stage with the least evidence; none at all need no evidence.

    Of two that are reached with the same confidence, the one that nothing confirms is weaker.
    """
    if not stages:
        return Stage(Confidence.PROVEN, "uses no source that is followed")
    return max(
        stages,
        key=lambda stage: (
            _STRENGTH.index(stage.confidence),
            stage.reached and stage.state is not None,
        ),
    )


def stage_by_time(at: float, changed: float | None, *, edited: bool) -> Stage:
    """Compare a start with the last change, both POSIX seconds of the API server.

    `edited`: the change replaced content that a pod may have that started within the same second.
    """
    if changed is None:
        return Stage(Confidence.UNKNOWN, "last change time unknown")
    if changed == -inf:
        return Stage(Confidence.PROVEN, "uses no source that is followed")
    after = at - changed
    if after >= MARGIN:
        return Stage(Confidence.PROVEN, f"started {format_age(after)} after the last change")
    if after >= 1:
        return Stage(Confidence.PROBABLE, f"started {format_age(after)} after the last change")
    if after >= 0:
        confidence = Confidence.UNKNOWN if edited else Confidence.PROBABLE
        return Stage(confidence, "started in the same second as the last change")
    return Stage(Confidence.UNKNOWN, f"started {format_age(-after)} before the last change")
