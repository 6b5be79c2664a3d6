"""Rolls a Deployment's pods from one template to the next by sizing ReplicaSets.

kubernetes: pkg/controller/deployment. Decisions are in `rolling`, `revisions`, `progress`
and `template`; here it is carried out, one step per sync. Each write is seen by the caches
before the sync goes on, and a ReplicaSet is written only as it was decided upon (its
resourceVersion is a precondition), so a step is never repeated and never based on stale counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hotmap.core.errors import AlreadyExists, ApiError, NotFound, is_namespace_terminating
from hotmap.local.controllers.conditions import find_condition, set_condition
from hotmap.local.controllers.controller import ControllerContext, OwnerController
from hotmap.local.controllers.ownership import by_controller
from hotmap.local.controllers.progress import (
    is_complete,
    next_check,
    plain_status,
    progress_deadline,
    progressing,
    rollout_status,
    with_pause,
)
from hotmap.local.controllers.revisions import (
    REVISION,
    latest_revision,
    outdated_replica_sets,
    revision_annotations,
    revision_number,
)
from hotmap.local.controllers.rolling import (
    Scale,
    active,
    bounds_of,
    has_scaling_pending,
    is_recreate,
    new_replica_set_size,
    plan_recreate,
    plan_rolling,
    plan_scaling,
    replicas_annotations,
    spec_replicas,
    status_replicas,
)
from hotmap.local.controllers.template import (
    HASH_LABEL,
    equal_ignoring_hash,
    find_new_replica_set,
    pod_template_hash,
    without_hash,
)
from hotmap.local.meta import (
    MANAGER,
    Object,
    ObjectName,
    annotations_of,
    controller_of,
    is_deleted,
    name_of,
    uid_of,
    with_metadata,
)

__all__ = ["DeploymentController"]

# Characters of an object's name (DNS-1123 subdomain).
_MAX_NAME = 253


class _Rollout(NamedTuple):
    """A Deployment and its ReplicaSets as one sync sees them, after its own writes."""

    deployment: Object
    #: The ReplicaSet with the Deployment's template; None until it is made.
    new: Object | None
    old: list[Object]

    @property
    def replica_sets(self) -> list[Object]:
        return [*self.old, *([self.new] if self.new is not None else [])]


class DeploymentController(OwnerController):
    """Reconcile Deployments with their ReplicaSets."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, "deployment", owners="deployments", dependents="replicasets")
        pods = self._informers["pods"]
        self._pods_by_controller = pods.index(by_controller)
        pods.subscribe(self._on_pod)

    async def sync(self, key: ObjectName) -> None:
        """Take the next step of one Deployment (kubernetes: syncDeployment).

        1. Adopt and release ReplicaSets, find the new one, update its revision.
        2. Being deleted: report only.
        3. Paused, or `spec.replicas` changed: scale without a rollout.
        4. Otherwise the strategy's next step, and a report of the progress.
        """
        deployment = self._owners.objects.get(key)
        if deployment is None:
            return
        await self._ownership.claim(deployment)
        if is_deleted(deployment):
            rollout = self._split_replica_sets(deployment)
            status = plain_status(deployment, rollout.new, rollout.old, now=self._clock())
            await self._write_status(deployment, status)
            return
        rollout = await self._sync_revision(
            self._split_replica_sets(await self._sync_paused_condition(deployment))
        )
        if deployment["spec"].get("paused") or self._is_scaling(rollout):
            await self._sync_size(rollout)
        elif is_recreate(deployment):
            await self._recreate(rollout)
        else:
            await self._roll(rollout)

    # -- events and caches -----------------------------------------------------------------------

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        """Sync a Deployment that waits for its last old pod (Recreate)."""
        if old is None or new is not None:
            return
        owner = controller_of(old)
        if owner is None or owner["kind"] != "ReplicaSet":
            return
        replica_set = self._dependents.objects.get((old["metadata"]["namespace"], owner["name"]))
        self._on_dependent(None, replica_set)

    def _split_replica_sets(self, deployment: Object) -> _Rollout:
        replica_sets = self._ownership.owned_by(deployment)
        new = find_new_replica_set(deployment["spec"]["template"], replica_sets)
        old = [rs for rs in replica_sets if new is None or uid_of(rs) != uid_of(new)]
        return _Rollout(deployment, new, old)

    def _is_scaling(self, rollout: _Rollout) -> bool:
        return has_scaling_pending(rollout.replica_sets, spec_replicas(rollout.deployment))

    # -- the situations ------------------------------------------------------------------------

    async def _sync_size(self, rollout: _Rollout) -> None:
        deployment = rollout.deployment
        plan = plan_scaling(
            bounds_of(deployment),
            rollout.new,
            rollout.old,
            rolling=not is_recreate(deployment),
            status_total=deployment.get("status", {}).get("replicas") or 0,
        )
        rollout = await self._scale(rollout, plan)
        if deployment["spec"].get("paused"):
            await self._clean_up(rollout)
        status = plain_status(rollout.deployment, rollout.new, rollout.old, now=self._clock())
        await self._write_status(rollout.deployment, status)

    async def _roll(self, rollout: _Rollout) -> None:
        rollout, new = await self._ensure_new_replica_set(rollout)
        plan = plan_rolling(bounds_of(rollout.deployment), new, rollout.old)
        await self._report_progress(await self._scale(rollout, plan))

    async def _recreate(self, rollout: _Rollout) -> None:
        bounds = bounds_of(rollout.deployment)
        if not active(rollout.old) and not self._has_old_pods(rollout):
            rollout, _ = await self._ensure_new_replica_set(rollout)
            rollout = await self._scale(rollout, plan_recreate(bounds, rollout.new, rollout.old))
        else:
            rollout = await self._scale(rollout, plan_recreate(bounds, None, rollout.old))
        await self._report_progress(rollout)

    def _has_old_pods(self, rollout: _Rollout) -> bool:
        """Return whether an old pod may still be running; one of a lost node does not count."""
        if any(map(status_replicas, rollout.old)):
            return True
        return any(
            pod.get("status", {}).get("phase") not in ("Failed", "Succeeded", "Unknown")
            for replica_set in rollout.old
            for pod in self._pods_by_controller.get(uid_of(replica_set))
        )

    # -- the new ReplicaSet --------------------------------------------------------------------

    async def _sync_revision(self, rollout: _Rollout) -> _Rollout:
        """Keep the new ReplicaSet's annotations and the Deployment's revision up to date."""
        deployment, new, old = rollout
        if new is None:
            return rollout
        revision = latest_revision(old) + 1
        annotations = revision_annotations(deployment, annotations_of(new), revision)
        min_ready = deployment["spec"].get("minReadySeconds") or 0
        if (
            annotations != annotations_of(new)
            or (new["spec"].get("minReadySeconds") or 0) != min_ready
        ):
            changed = with_metadata(new, annotations=annotations)
            changed = {**changed, "spec": {**new["spec"], "minReadySeconds": min_ready}}
            new = await self._write_replica_set(changed)
        conditions = deployment.get("status", {}).get("conditions") or []
        if find_condition(conditions, "Progressing") is None:
            found = ("True", "FoundNewReplicaSet", new["metadata"]["name"])
            deployment = await self._write_progress(deployment, revision_number(new), found)
        else:
            deployment = await self._write_progress(deployment, revision_number(new), None)
        return _Rollout(deployment, new, old)

    async def _ensure_new_replica_set(self, rollout: _Rollout) -> tuple[_Rollout, Object]:
        """Return the rollout with its new ReplicaSet, which is made if need be."""
        if rollout.new is not None:
            return rollout, rollout.new
        deployment, _, old = rollout
        wanted = self._new_replica_set(deployment, old)
        name = wanted["metadata"]["name"]
        try:
            new = await self._client.create(
                "replicasets", deployment["metadata"]["namespace"], wanted, manager=MANAGER
            )
        except AlreadyExists:
            await self._resolve_collision(deployment, name)
            raise
        except ApiError as error:
            if is_namespace_terminating(error):
                raise
            text = f'Failed to create new replica set "{name}": {error}'
            self._recorder.event(deployment, "Warning", "ReplicaSetCreateError", text)
            await self._write_progress(deployment, None, ("False", "ReplicaSetCreateError", text))
            raise
        await self._dependents.wait_for_version(new["metadata"]["resourceVersion"])
        if size := spec_replicas(new):
            text = f"Scaled up replica set {name} from 0 to {size}"
            self._recorder.event(deployment, "Normal", "ScalingReplicaSet", text)
        created = ("True", "NewReplicaSetCreated", name)
        deployment = await self._write_progress(deployment, revision_number(new), created)
        return _Rollout(deployment, new, old), new

    def _new_replica_set(self, deployment: Object, old: Sequence[Object]) -> Object:
        spec = deployment["spec"]
        bounds = bounds_of(deployment)
        count = deployment.get("status", {}).get("collisionCount")
        label = {HASH_LABEL: pod_template_hash(spec["template"], count)}
        template = without_hash(spec["template"])
        metadata = template.get("metadata") or {}
        labels = (metadata.get("labels") or {}) | label
        selector = spec["selector"]
        size = bounds.replicas
        if not is_recreate(deployment):
            size = new_replica_set_size(bounds, old, 0)
        stem = deployment["metadata"]["name"][: _MAX_NAME - 1 - len(label[HASH_LABEL])]
        annotations = revision_annotations(deployment, {}, latest_revision(old) + 1)
        min_ready = spec.get("minReadySeconds")
        return {
            "metadata": {
                "name": f"{stem}-{label[HASH_LABEL]}",
                "labels": labels,
                "annotations": annotations | replicas_annotations(bounds),
                "ownerReferences": [self._ownership.reference(deployment)],
            },
            "spec": {
                "replicas": size,
                **({"minReadySeconds": min_ready} if min_ready else {}),
                "selector": {
                    **selector,
                    "matchLabels": (selector.get("matchLabels") or {}) | label,
                },
                "template": {**template, "metadata": {**metadata, "labels": labels}},
            },
        }

    async def _resolve_collision(self, deployment: Object, name: str) -> None:
        """Make the next attempt use another name, unless the taken one is ours after all.

        The caller lets AlreadyExists pass, so the sync is tried again either way: by then the
        cache shows our ReplicaSet, or the higher count gives another name.
        """
        try:
            taken = await self._client.get("replicasets", deployment["metadata"]["namespace"], name)
        except NotFound:
            return
        owner = controller_of(taken)
        ours = owner is not None and owner["uid"] == uid_of(deployment)
        if ours and equal_ignoring_hash(deployment["spec"]["template"], taken["spec"]["template"]):
            return
        status = deployment.get("status", {})
        count = (status.get("collisionCount") or 0) + 1
        await self._write_status(deployment, {**status, "collisionCount": count})

    # -- writing -------------------------------------------------------------------------------

    async def _scale(self, rollout: _Rollout, plan: Sequence[Scale]) -> _Rollout:
        """Carry a plan out, and return what is true after it."""
        notes = replicas_annotations(bounds_of(rollout.deployment))
        written: dict[str, Object] = {}
        for replica_set, replicas in plan:
            before = spec_replicas(replica_set)
            annotations = annotations_of(replica_set)
            if replicas == before and notes.items() <= annotations.items():
                continue
            scaled = with_metadata(replica_set, annotations=annotations | notes)
            scaled = {**scaled, "spec": {**scaled["spec"], "replicas": replicas}}
            written[uid_of(replica_set)] = await self._write_replica_set(scaled)
            if replicas != before:
                direction = "up" if replicas > before else "down"
                name = replica_set["metadata"]["name"]
                text = f"Scaled {direction} replica set {name} from {before} to {replicas}"
                self._recorder.event(rollout.deployment, "Normal", "ScalingReplicaSet", text)
        new = rollout.new
        return _Rollout(
            rollout.deployment,
            new if new is None else written.get(uid_of(new), new),
            [written.get(uid_of(rs), rs) for rs in rollout.old],
        )

    async def _write_replica_set(self, replica_set: Object) -> Object:
        written = await self._client.update(
            "replicasets", *name_of(replica_set), replica_set, manager=MANAGER
        )
        await self._dependents.wait_for_version(written["metadata"]["resourceVersion"])
        return written

    async def _report_progress(self, rollout: _Rollout) -> None:
        deployment, new, old = rollout
        now = self._clock()
        status = rollout_status(deployment, new, old, now=now)
        if is_complete(deployment, status):
            await self._clean_up(rollout)
        deployment = await self._write_status(deployment, status)
        after = next_check(deployment, status, now=now)
        if after is not None:
            self._loop.add_after(name_of(deployment), after)

    async def _clean_up(self, rollout: _Rollout) -> None:
        limit = rollout.deployment["spec"].get("revisionHistoryLimit")
        for replica_set in outdated_replica_sets(rollout.old, limit):
            try:
                await self._client.delete(
                    "replicasets", *name_of(replica_set), uid=uid_of(replica_set)
                )
            except NotFound:
                continue

    async def _sync_paused_condition(self, deployment: Object) -> Object:
        conditions = with_pause(deployment, now=self._clock())
        if conditions is None:
            return deployment
        status = {**deployment.get("status", {}), "conditions": conditions}
        return await self._write_status(deployment, status)

    async def _write_progress(
        self, deployment: Object, revision: int | None, progress: tuple[str, str, str] | None
    ) -> Object:
        """Write the revision and a Progressing condition, both where they are news.

        Through the status, as upstream does: a change of annotations by the main resource would
        count up the generation, and observedGeneration would never catch up.
        """
        annotations = annotations_of(deployment)
        if revision is not None:
            annotations = {**annotations, REVISION: str(revision)}
        status = deployment.get("status", {})
        if progress is not None and progress_deadline(deployment) is not None:
            condition = progressing(*progress, now=self._clock())
            conditions = set_condition(list(status.get("conditions") or []), condition)
            status = {**status, "conditions": conditions}
        return await self._write_status(
            with_metadata(deployment, annotations=annotations or None), status
        )

    async def _write_status(self, deployment: Object, status: Object) -> Object:
        """Write the status, and the annotations as *deployment* has them, if they are news."""
        present = self._owners.objects.get(name_of(deployment))
        wanted = {**deployment, "status": status}
        if present is not None and wanted == {"status": {}, **present}:
            return deployment
        written = await self._client.update(
            "deployments", *name_of(deployment), wanted, subresource="status", manager=MANAGER
        )
        await self._owners.wait_for_version(written["metadata"]["resourceVersion"])
        return written
