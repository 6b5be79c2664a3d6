"""What follows from the check of a consumer's pods: its status, its record, Events, and nudges.

A result is stored in the record, so that nothing is checked twice for the same cause. An Event is
written once for a cause. Pods that have proven the content need no second nudge, and others
may need a first.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from hotmap.controller.report.consumer_states import ConsumerStates
from hotmap.controller.report.object_events import EventType, write_consumer_event
from hotmap.controller.report.reasons import Reason
from hotmap.controller.storage.records import Records
from hotmap.controller.watch.observation import Observer
from hotmap.core.decide.decide import decide
from hotmap.core.decide.record_evidence import with_older_pods
from hotmap.core.errors import HotmapError
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import PodCheck, Record
from hotmap.core.patch.nudge import needs_repetition
from hotmap.core.status.consumer import (
    ConsumerStatus,
    State,
    describe_agents,
    status_before_replacement,
)
from hotmap.core.status.pod_check import PodCheckResult
from hotmap.core.status.stage import Confidence, PodState
from hotmap.core.target import Target
from hotmap.core.text import printable
from hotmap.kube.recorder import Recorder

__all__ = ["REACHED", "FollowUps", "PodCheckResults"]

#: Recorded results after which pods are not checked again.
REACHED = (PodCheck.CURRENT, PodCheck.DELIVERED)

#: How results are recorded after which nothing more happens.
_RECORDED = {State.CURRENT: PodCheck.CURRENT, State.DELIVERED: PodCheck.DELIVERED}

#: States of pods that end by themselves within seconds.
_AT_WORK = frozenset(
    (
        PodState.WAITING,
        PodState.SETTLING,
        PodState.CHECKING,
        PodState.LOADING,
        PodState.RESTARTING,
    )
)

#: The Events about the reports of agents.
_AGENT_REASONS = {PodState.REFUSED: Reason.REFUSED, PodState.FAILED: Reason.LOAD_FAILED}

_log = logging.getLogger(__name__)


class FollowUps(NamedTuple):
    """What a result may cause."""

    #: Schedules a reconcile of a consumer whose pods may have to be replaced.
    reconcile: Callable[[ObjectKey], None]
    #: Gets the pods whose agents have proven the content that they were nudged with, by uid.
    confirm_nudges: Callable[[ObjectKey, Target, Sequence[str]], None] = lambda *_: None
    #: Gets the pods that may have older files and were not nudged with the desired content, or only
    #: in the second of the change, by uid.
    request_nudges: Callable[[ObjectKey, Target, Sequence[str]], None] = lambda *_: None


class PodCheckResults:
    """Applies the results of one term as leader."""

    def __init__(
        self,
        *,
        observer: Observer,
        records: Records,
        consumer_states: ConsumerStates,
        recorder: Recorder,
        follow_ups: FollowUps,
    ) -> None:
        self._observer = observer
        self._records = records
        self._consumer_states = consumer_states
        self._recorder = recorder
        self._follow_ups = follow_ups
        #: uids of records with a check result that is not written yet.
        self._unwritten: set[str] = set()
        #: The content of the last Event about the reports of agents.
        self._reported_agents: dict[tuple[ObjectKey, Reason], str] = {}

    @property
    def has_unwritten(self) -> bool:
        """Whether there are results for `write`."""
        return bool(self._unwritten)

    def write(self) -> None:
        """Schedule check results to be written with the records."""
        self._records.write(self._unwritten)
        self._unwritten.clear()

    def apply(
        self,
        consumer: Consumer,
        record: Record,
        status: ConsumerStatus,
        result: PodCheckResult | None = None,
    ) -> None:
        """Record a check result, and report what is new about it; None: no pods were listed."""
        key, state = consumer.key, status.state
        self._consumer_states.set_pod_states(
            key, Counter(proof.state for proof in result.pods) if result else {}
        )
        if result is not None:
            record = self._record_older_pods(record, result)
            self.confirm_nudges(key, result)
            if missed := _without_nudge(result):
                self._follow_ups.request_nudges(key, result.desired.target, missed)
            self._report_agents(consumer, result)
        if status.is_reached:
            self._record_result(record, _RECORDED[state])
            self._consumer_states.set_pod_check(key, None)
            return
        if state is State.LATENT and record.pods_checked is not PodCheck.LATENT:
            self._record_result(record, PodCheck.LATENT)
            if self._may_be_replaced(key):
                status = status_before_replacement(status)
                self._follow_ups.reconcile(key)
            else:
                self._report(consumer, Reason.LATENT, status.reason, "Normal")
        elif state is State.STUCK and not self._is_known(key, status):
            self._report(consumer, Reason.STUCK, status.reason, "Warning")
        if record.pods_checked in REACHED and state is not State.LATENT:
            self._record_result(record, PodCheck.NOT_YET)
        self._consumer_states.set_pod_check(key, status)

    def show_latent(self, key: ObjectKey, status: ConsumerStatus) -> None:
        """Show pods that were found to be latent, and leave what follows to the next check."""
        if self._may_be_replaced(key):
            status = status_before_replacement(status)
        self._consumer_states.set_pod_check(key, status)

    def show_unverified(self, consumer: Consumer, error: HotmapError) -> None:
        """Show why pods are not verified, unless something else is known of them."""
        key = consumer.key
        known = self._consumer_states.pod_check(key)
        if not consumer.rolling and (known is None or known.state is State.UNVERIFIED):
            reason = printable(f"its pods cannot be listed: {error}")
            self._consumer_states.set_pod_check(key, ConsumerStatus(State.UNVERIFIED, reason))

    def confirm_nudges(self, key: ObjectKey, result: PodCheckResult) -> None:
        """Cancel the second nudges of pods that have proven the content of the first."""
        target = result.desired.target
        self._follow_ups.confirm_nudges(key, target, _confirmed(result))

    def forget_reports(self, key: ObjectKey) -> None:
        """Report again what the agents of a consumer refuse or fail to load."""
        for reason in _AGENT_REASONS.values():
            self._reported_agents.pop((key, reason), None)

    def _is_known(self, key: ObjectKey, status: ConsumerStatus) -> bool:
        known = self._consumer_states.pod_check(key)
        return known is not None and (known.state, known.reason) == (status.state, status.reason)

    def _may_be_replaced(self, key: ObjectKey) -> bool:
        """Return whether a decision may replace pods that were just found to be latent."""
        snapshot = self._observer.snapshot(key)
        if snapshot is None or snapshot.record is None:
            return False
        latent = msgspec.structs.replace(snapshot.record, pods_checked=PodCheck.LATENT)
        return decide(snapshot._replace(record=latent)).needs_pod_starts

    def _report_agents(self, consumer: Consumer, result: PodCheckResult) -> None:
        """Write a Warning Event if agents refused or failed to load content, once per change.

        The Event counts pods, so it is written once all agents have finished.
        """
        if any(proof.state in _AT_WORK for proof in result.pods):
            return
        change = result.desired.revision
        for state, reason in _AGENT_REASONS.items():
            found = [proof for proof in result.pods if proof.state is state]
            if found and self._reported_agents.get((consumer.key, reason)) != change:
                self._reported_agents[consumer.key, reason] = change
                message = describe_agents(found, len(result.pods))
                self._report(consumer, reason, message, "Warning")

    def _record_older_pods(self, record: Record, result: PodCheckResult) -> Record:
        """Record which pods are older than an adopted source: later checks do not show it.

        Nor would those of the next controller after a crash, so that is written soon.
        """
        noted = with_older_pods(record, [proof.pod.start for proof in result.pods])
        if noted is not record:
            self._records.put(noted)
        return noted

    def _record_result(self, record: Record, pods_checked: PodCheck) -> None:
        if record.pods_checked is not pods_checked:
            self._put(msgspec.structs.replace(record, pods_checked=pods_checked))

    def _put(self, record: Record) -> None:
        self._records.put_in_memory(record)
        self._unwritten.add(record.uid)

    def _report(self, consumer: Consumer, reason: Reason, message: str, type_: EventType) -> None:
        level = logging.WARNING if type_ == "Warning" else logging.INFO
        _log.log(level, message, extra={"workload": str(consumer.key)})
        write_consumer_event(self._recorder, consumer, reason, message, type_=type_)


def _without_nudge(result: PodCheckResult) -> list[str]:
    """List the pods whose files a kubelet may update only at its next sync.

    The second nudge of a pod may be missing if another leader has sent the first one.
    """
    target, changed = result.desired.target, result.desired.files_changed
    missing = []
    for proof in result.pods:
        nudged = proof.pod.nudged
        if nudged is None or nudged.live != target.live:
            is_missing = proof.files_pending
        else:
            is_waiting = proof.files_pending or proof.state is PodState.WAITING
            is_missing = is_waiting and needs_repetition(proof.pod.nudged_at, changed)
        if is_missing:
            missing.append(proof.pod.uid)
    return missing


def _confirmed(result: PodCheckResult) -> list[str]:
    """List the pods that were nudged with the desired content, and have proven it."""
    target = result.desired.target
    return [
        proof.pod.uid
        for proof in result.pods
        if proof.state is PodState.CURRENT
        and proof.loaded.confidence is Confidence.PROVEN
        and proof.pod.nudged is not None
        and proof.pod.nudged.names_same_content(target)
    ]
