"""Control characters of foreign texts are escaped wherever a text leaves: Events and decisions.

Most foreign texts are escaped when they are read; errors of an API server, and whatever is added to
a message one day, are not.
"""

from __future__ import annotations

from typing import Any, cast

from tests.support.objects import ENV, config_map, deployment, snapshot

from hotmap.controller.report.decision_log import DecisionLog
from hotmap.controller.report.object_events import write_consumer_event
from hotmap.controller.report.reasons import Reason
from hotmap.core.decide.decide import decide
from hotmap.kube.recorder import Recorder

FORGED = "denied\n2026-01-01T00:00:00Z ERROR forged\x1b[31m\u202e"
ESCAPED = r"denied\n2026-01-01T00:00:00Z ERROR forged\x1b[31m\u202e"


class Events:
    """Keeps the messages that are recorded."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def event(self, *_: object, message: str, **__: Any) -> bool:
        self.messages.append(message)
        return True


def test_event_message_is_escaped() -> None:
    events = Events()
    write_consumer_event(cast(Recorder, events), deployment(ENV), Reason.FAILED, FORGED)
    assert events.messages == [ESCAPED]


def test_reason_and_outcome_of_a_decision_are_escaped() -> None:
    """They are in the log and in the status."""
    decision = decide(snapshot(deployment(ENV), config_map("app", {"LEVEL": "info"})))
    forged = decision._replace(plan=decision.plan._replace(reason=FORGED))
    log = DecisionLog(wall_clock=lambda: 0.0)
    log.add(forged, outcome=f"failed: {FORGED}")
    entry = log.latest(forged.snapshot.consumer.key)
    assert entry is not None
    assert (entry.reason, entry.outcome) == (ESCAPED, f"failed: {ESCAPED}")
