"""Writes Events on the objects that hotmap reports about.

Their messages may quote what users and admission webhooks wrote, so control characters are escaped.
"""

from __future__ import annotations

from typing import Literal

from hotmap.controller.report.reasons import Reason
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.text import printable
from hotmap.kube.recorder import Recorder
from hotmap.kube.resources import BY_KIND

__all__ = ["EventType", "write_consumer_event", "write_event"]

EventType = Literal["Normal", "Warning"]


def write_event(
    recorder: Recorder,
    regarding: ObjectKey,
    reason: Reason,
    message: str,
    *,
    uid: str,
    type_: EventType = "Normal",
    once: bool = False,
) -> bool:
    """Write an Event on an object with a uid; `once` and the result are as in `Recorder.event`."""
    return recorder.event(
        regarding,
        api_version=BY_KIND[regarding.kind].api_version,
        uid=uid,
        type=type_,
        reason=reason,
        message=printable(message),
        once=once,
    )


def write_consumer_event(
    recorder: Recorder,
    consumer: Consumer,
    reason: Reason,
    message: str,
    *,
    type_: EventType = "Normal",
    once: bool = False,
) -> bool:
    """Write an Event on a consumer, as `write_event` does."""
    return write_event(
        recorder, consumer.key, reason, message, uid=consumer.uid, type_=type_, once=once
    )
