"""Carries out actions: one function per action, with few requests and no decisions."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import msgspec

from hotmap.controller.reconcile.job_recreation import JobRecreations
from hotmap.controller.reconcile.nudges import Nudges
from hotmap.core.decide.decision import Decision
from hotmap.core.decide.plan import Action, ActionType
from hotmap.core.decide.record import Outcome
from hotmap.core.decide.rollout_records import distinct_revision, was_unmarked
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.errors import AlreadyExists, Conflict, Invalid
from hotmap.core.model.consumer import Consumer
from hotmap.core.patch.jobs import job_again, job_of_cron_job
from hotmap.core.patch.rollout import (
    TemplatePatch,
    end_pause_patch,
    pause_in,
    restart_time,
    template_patch,
)
from hotmap.core.reloader.annotations import Writing
from hotmap.core.reloader.patch import FIELD_MANAGER
from hotmap.kube.client import Client
from hotmap.kube.partial_metadata import PartialObjectMetadata
from hotmap.kube.resources import BY_KIND, CRONJOBS, JOBS, PODS, ROLLOUTS

__all__ = ["ClusterExecutor", "Executor", "restart_at", "rollout_patch"]


class Executor(Protocol):
    """Carries out decisions."""

    async def execute(self, decision: Decision) -> Outcome:
        """Carry out a plan; returns the consumer's state after that.

        Raises:
            Conflict, NotFound: the consumer changed; decide again.
            Invalid: another object has its name now (wrong uid), or admission refuses.
            ApiError, Unreachable: as the client raises them.
        """
        ...


class ClusterExecutor:
    """Writes to the cluster, with a precondition on the state that was decided on."""

    def __init__(
        self,
        client: Client,
        *,
        nudges: Nudges,
        job_recreations: JobRecreations,
        check_leading: Callable[[], None],
    ) -> None:
        """`check_leading` raises NotLeading once another replica may lead."""
        self._client = client
        self._nudges = nudges
        self._recreations = job_recreations
        self._check_leading = check_leading

    async def execute(self, decision: Decision) -> Outcome:
        """Carry out a plan; returns the consumer's state after that."""
        consumer = decision.snapshot.consumer
        generation, revision = consumer.generation, consumer.revision
        for action in decision.plan.actions:
            match action.type:
                case ActionType.NUDGE:
                    await self._nudges.send(decision)
                case ActionType.ROLLOUT:
                    patch = rollout_patch(decision, action)
                    generation = await self._roll_out(consumer, patch)
                    revision = patch.revision
                case ActionType.RESTART_PODS:
                    generation = await self._restart_pods(consumer, restart_at(decision))
                case ActionType.RUN_NOW:
                    await self._run_now(decision)
                case ActionType.RECREATE:
                    await self._recreate(consumer, decision.plan.reason)
                case ActionType.EVICT:
                    await self._evict(consumer)
                case ActionType.RESUME | ActionType.END_PAUSE:
                    resumes = action.type is ActionType.RESUME
                    generation = await self._end_pause(decision, resumes=resumes)
                case ActionType.NOTIFY:
                    pass  # the report of the decision does that
        if not decision.plan.actions and decision.corrects_nudge:
            await self._nudges.send(decision)
        elif all(action.type is not ActionType.NUDGE for action in decision.plan.actions):
            self._nudges.end_restarts(consumer.key)
        return Outcome(generation, revision, self._client.server_time())

    async def _roll_out(self, consumer: Consumer, patch: TemplatePatch) -> int:
        """Write a rollout into a consumer's pod template; returns the new generation.

        Raises:
            Conflict: the consumer changed; decide again.
            Invalid: another object has its name now (wrong uid), or admission refuses or undoes it.
            NotFound: it was deleted.
            ApiError, Unreachable: as the client raises them.
        """
        self._check_leading()
        answer = await self._client.patch(
            BY_KIND[consumer.key.kind],
            consumer.key.namespace,
            consumer.key.name,
            patch.body,
            type=PartialObjectMetadata,
            content_type=patch.content_type,
            field_manager=patch.field_manager,
        )
        return _new_generation(consumer.generation, answer)

    async def _end_pause(self, decision: Decision, *, resumes: bool) -> int:
        """Remove the annotation of a pause, and resume the Deployment if that is still paused.

        Returns the consumer's generation after that.
        """
        consumer, pause = decision.snapshot.consumer, decision.snapshot.policy.pause
        assert pause is not None, "a plan ends only the pause of a policy"
        self._check_leading()
        answer = await self._client.patch(
            BY_KIND[consumer.key.kind],
            consumer.key.namespace,
            consumer.key.name,
            end_pause_patch(consumer, pause.annotation, resumes=resumes),
            type=PartialObjectMetadata,
            field_manager=FIELD_MANAGER,
        )
        return answer.metadata.generation

    async def _restart_pods(self, consumer: Consumer, at: int) -> int:
        """Make an Argo Rollout replace the pods that were created before a time.

        `at` is POSIX seconds; returns the consumer's generation after that. Argo compares whole
        seconds and waits for a time to come (argo-rollouts: rollout/restart.go).
        """
        argo = consumer.argo
        assert argo is not None, "a plan asks this of Rollouts only"
        self._check_leading()
        answer = await self._client.patch(
            ROLLOUTS,
            argo.key.namespace,
            argo.key.name,
            {
                "metadata": {"uid": argo.uid, "resourceVersion": argo.resource_version},
                "spec": {"restartAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))},
            },
            type=PartialObjectMetadata,
        )
        return answer.metadata.generation if consumer.key == argo.key else consumer.generation

    async def _run_now(self, decision: Decision) -> None:
        """Start a Job of a CronJob; if its name exists, it was created before.

        Raises:
            Conflict: the CronJob changed (it may be suspended now); decide again.
            NotFound: it was deleted.
            ApiError, Unreachable: as the client raises them.
        """
        snapshot, consumer = decision.snapshot, decision.snapshot.consumer
        cron_job = await self._read_same(consumer)
        self._check_leading()
        is_named = snapshot.policy.writing is Writing.REVISION
        revision = snapshot.revision if is_named else ""
        with suppress(AlreadyExists):
            await self._client.create(
                JOBS,
                consumer.key.namespace,
                job_of_cron_job(cron_job, decision.run_name, revision),
                type=PartialObjectMetadata,
                idempotent=True,
            )

    async def _recreate(self, consumer: Consumer, why: str) -> None:
        """Delete a Job and recreate it; see `job_recreation`.

        It is created as a dry run first, so that an admission policy refuses it while the Job still
        exists. The name is checked after everything else (kubernetes:
        apiserver/pkg/registry/generic/registry/store.go Create).

        Raises:
            Conflict, NotFound: it is another one now; decide again.
            ApiError, Unreachable: as the client raises them; the Job may be in progress.
        """
        again = job_again(await self._read_same(consumer))
        with suppress(AlreadyExists):
            await self._client.create(
                JOBS,
                consumer.key.namespace,
                again,
                type=PartialObjectMetadata,
                dry_run=True,
                idempotent=True,
            )
        self._check_leading()
        await self._recreations.again(consumer.uid, consumer.resource_version, again, why)

    async def _evict(self, consumer: Consumer) -> None:
        """Evict a Pod; PodDisruptionBudgets are respected.

        Raises:
            Throttled: a budget does not allow it now; retry later.
            Conflict, NotFound: it is another one now, or was deleted.
            ApiError, Unreachable: as the client raises them.
        """
        self._check_leading()
        namespace, name = consumer.key.namespace, consumer.key.name
        precondition = {"uid": consumer.uid, "resourceVersion": consumer.resource_version}
        await self._client.create(
            PODS,
            namespace,
            {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"namespace": namespace, "name": name},
                "deleteOptions": {"preconditions": precondition},
            },
            type=msgspec.Raw,
            subresource=(name, "eviction"),
            idempotent=True,
            attempts=1,  # a budget may need minutes; the queue retries
        )

    async def _read_same(self, consumer: Consumer) -> dict[str, Any]:
        """Read a whole object in the version that was decided on.

        Raises:
            Conflict: it has another version.
        """
        resource = CRONJOBS if consumer.key.kind == "CronJob" else JOBS
        obj: dict[str, Any] = await self._client.get(
            resource, consumer.key.namespace, consumer.key.name, type=dict
        )
        metadata = obj["metadata"]
        saw = (consumer.uid, consumer.resource_version)
        if (metadata["uid"], metadata["resourceVersion"]) != saw:
            raise Conflict(f"{consumer.key} was modified since the decision")
        return obj


def _new_generation(before: int, answer: PartialObjectMetadata) -> int:
    """Return the generation after a rollout was written, each of which changes the spec.

    Raises:
        Invalid: it is as before, so no pods are replaced.
    """
    after = answer.metadata.generation
    if after and after == before:
        raise Invalid(
            "the API server accepted it, but an admission policy or webhook removed the change"
        )
    return after


def rollout_patch(decision: Decision, action: Action) -> TemplatePatch:
    """Build the patch of a pod template for a rollout."""
    snapshot = decision.snapshot
    revision = snapshot.revision
    if action.distinct:
        previous = decision.previous_revision
        revision = distinct_revision(revision, snapshot.record, previous=previous)
    elif _returns_to_first_pods(snapshot):
        revision = ""
    patch = template_patch(
        snapshot.consumer,
        revision,
        writing=snapshot.policy.writing,
        stamps=action.stamps,
        distinct=action.distinct,
        now=snapshot.now,
    )
    if action.pauses and snapshot.policy.pause is not None:
        return pause_in(patch, snapshot.policy.pause.annotation, now=snapshot.now)
    return patch


def _returns_to_first_pods(snapshot: Snapshot) -> bool:
    """Return whether a rollout returns to pods from before the first one, some of which may run on.

    Their template had no revision: without it the workload's own controller keeps them. Where they
    are all gone, the revision says more.
    """
    consumer = snapshot.consumer
    return (
        snapshot.policy.writing is Writing.REVISION
        and consumer.rolling
        and bool(consumer.revision)
        and was_unmarked(snapshot.record, snapshot.revision)
    )


def restart_at(decision: Decision) -> int:
    """Choose an Argo Rollout's `restartAt`, POSIX seconds: after every change decided on."""
    changes = [finding.current.changed_at for finding in decision.assessment.changed()]
    return restart_time(changes, now=decision.snapshot.now)
