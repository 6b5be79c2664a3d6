"""Writes Events on the objects that hotmap reports about, in the background."""

from __future__ import annotations

from typing import Literal

from hotmap.controller.report.reasons import Reason
from hotmap.core.model.consumer import Consumer
from hotmap.core.text import printable
from hotmap.kube.recorder import Recorder
from hotmap.kube.resources import BY_KIND

__all__ = ["EventType", "write_consumer_event"]

EventType = Literal["Normal", "Warning"]


def write_consumer_event(
    recorder: Recorder,
    consumer: Consumer,
    reason: Reason,
    message: str,
    *,
    type_: EventType = "Normal",
    once: bool = False,
) -> bool:
    """Write an Event on a consumer; control characters in the message are escaped.

    `once` and the result are those of `Recorder.event`.
    """
    return recorder.event(
        consumer.key,
        api_version=BY_KIND[consumer.key.kind].api_version,
        uid=consumer.uid,
        type=type_,
        reason=reason,
        message=printable(message),
        once=once,
    )
