"""Random histories of edits, users and controllers: whose pause it is decides who ends it."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.support.objects import ENV, config_map, snapshot, with_changes, workload

from hotmap.core.decide.decide import decide
from hotmap.core.decide.plan import ActionType
from hotmap.core.decide.record import Outcome, next_record
from hotmap.core.decide.source_snapshot import ChangeSummary
from hotmap.core.model.consumer import REVISION, Consumer
from hotmap.core.model.consumer_conversion import consumer_from_workload
from hotmap.core.model.state import Record
from hotmap.core.patch.rollout import end_pause_patch, pause_in, template_patch
from hotmap.core.policy.annotations import read_policy
from hotmap.core.policy.policy import Defaults
from hotmap.core.reloader.annotations import DialectSettings

PERIOD = "deployment.reloader.stakater.com/pause-period"
PAUSED_AT = "deployment.reloader.stakater.com/paused-at"
DEFAULTS = Defaults(settle=0.0, settle_max=0.0, dialect=DialectSettings(pauses=True))
#: Seconds of the pause period.
PAUSE = 300.0
#: More than a controller needs between two reconciles, and for a whole second.
TOLERANCE = 2.0


class PausedDeployments(RuleBasedStateMachine):
    """One Deployment as an API server keeps it, and controllers that decide on it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 10_000.0
        self.level = 0
        self.generation = 1
        self.paused = False
        #: Who owns `spec.paused`: "", "Reloader" or "kubectl".
        self.owner = ""
        self.annotations = {"reloader.stakater.com/auto": "true", PERIOD: f"{PAUSE:g}s"}
        self.revision = ""
        self.record: Record | None = None
        #: When hotmap has paused it; None: it has not, or a user has ended that.
        self.paused_at: float | None = None

    # -- the API server ------------------------------------------------------------------------

    def consumer(self) -> Consumer:
        item = workload(
            ENV,
            generation=self.generation,
            annotations=self.annotations,
            paused=self.paused,
            revision=self.revision,
        )
        who = consumer_from_workload("Deployment", item, DEFAULTS.dialect)
        other = self.paused and self.owner == "kubectl"
        return msgspec.structs.replace(who, paused_by_other=other)

    def write(self, body: dict[str, Any], *, manager: str) -> None:
        spec = body.get("spec", {})
        for name, value in body.get("metadata", {}).get("annotations", {}).items():
            self.annotations.pop(name, None)
            if value is not None:
                self.annotations[name] = value
        if "paused" in spec and spec["paused"] != self.paused:
            self.paused, self.owner = spec["paused"], manager
        annotations = spec.get("template", {}).get("metadata", {}).get("annotations", {})
        self.revision = annotations.get(REVISION, self.revision)
        self.generation += 1 if spec else 0

    # -- controllers ---------------------------------------------------------------------------

    @initialize()
    def start(self) -> None:
        self.reconcile()

    @rule()
    def reconcile(self) -> None:
        """Decide and act until nothing is due."""
        for _ in range(5):
            if not self._reconcile_once():
                return
        raise AssertionError("it never comes to rest")

    def _reconcile_once(self) -> bool:
        who = self.consumer()
        policy = read_policy(who, defaults=DEFAULTS)
        source = config_map("app", {"LEVEL": str(self.level)}, version=self.level + 1, changed_at=1)
        taken = snapshot(who, source, record=self.record, policy=policy, now=self.now, flap_limit=0)
        seen = ChangeSummary(frozenset(("LEVEL",)), self.now, self.now)
        taken = with_changes(taken, seen)
        decision = decide(taken)
        if decision.needs_pod_starts:
            decision = decide(taken, [])
        before = self.paused
        for action in decision.plan.actions:
            if action.type is ActionType.ROLLOUT:
                patch = template_patch(
                    who,
                    taken.revision,
                    writing=policy.writing,
                    stamps=action.stamps,
                    distinct=action.distinct,
                    now=self.now,
                )
                if action.pauses:
                    assert not before, "only what runs is paused"
                    patch = pause_in(patch, PAUSED_AT, now=self.now)
                    self.paused_at = self.now
                assert isinstance(patch.body, dict)
                self.write(patch.body, manager="Reloader")
            else:
                resumes = action.type is ActionType.RESUME
                if resumes:
                    assert self.owner == "Reloader", "a user's pause is never ended"
                    assert self.paused_at is not None
                    assert self.now >= self.paused_at + PAUSE, "the period is not over"
                    self.paused_at = None
                self.write(end_pause_patch(who, PAUSED_AT, resumes=resumes), manager="Reloader")
        outcome = Outcome(self.generation, self.revision, self.now)
        self.record = next_record(decision, outcome)
        return bool(decision.plan.actions)

    # -- users and time ------------------------------------------------------------------------

    @rule(seconds=st.sampled_from((0.4, 1.0, 20.0, 280.0, 301.0, 90_000.0)))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def edit(self) -> None:
        self.level += 1

    @rule()
    def user_resumes(self) -> None:
        self.write({"spec": {"paused": False}}, manager="kubectl")
        self.paused_at = None

    @rule()
    def user_pauses(self) -> None:
        self.write({"spec": {"paused": True}}, manager="kubectl")

    @rule()
    def user_changes_the_template(self) -> None:
        self.generation += 1

    @rule()
    def record_is_lost(self) -> None:
        """A crash before it was written."""
        self.record = None

    # -- what always holds ---------------------------------------------------------------------

    @invariant()
    def a_pause_of_hotmap_ends(self) -> None:
        """After its period, once a controller has looked; nothing else is touched."""
        before = self.paused, self.owner
        due = self.paused_at is not None and self.now >= self.paused_at + PAUSE + TOLERANCE
        if not due:
            return
        self.reconcile()
        if before == (True, "Reloader"):
            # An edit that was waiting may have begun the next one.
            assert not self.paused or self.paused_at == self.now

    @invariant()
    def a_pause_of_a_user_stays(self) -> None:
        if self.paused and self.owner == "kubectl":
            self.reconcile()
            assert (self.paused, self.owner) == (True, "kubectl")


PausedDeployments.TestCase.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None
)
test_pause_is_ended_by_its_owner = PausedDeployments.TestCase
