"""Keeps a pod of each DaemonSet on its nodes, its revisions and its status."""

from __future__ import annotations

from typing import NamedTuple

from hotmap.core.errors import AlreadyExists, ApiError, NotFound
from hotmap.local.controllers.controller import ControllerContext, OwnerController
from hotmap.local.controllers.creation_pace import CreationPace
from hotmap.local.controllers.daemonset.backoff import FailedPodBackoff
from hotmap.local.controllers.daemonset.plan import (
    DaemonSetView,
    PodPlan,
    plan_pods,
    plan_update,
)
from hotmap.local.controllers.daemonset.pods import daemon_pod, target_node
from hotmap.local.controllers.daemonset.status import daemon_set_status
from hotmap.local.controllers.history import (
    REVISION_LABEL,
    ControllerHistory,
    find_equal,
    next_number,
    revision_number,
    sorted_revisions,
    surplus_revisions,
    template_patch,
)
from hotmap.local.controllers.pod_control import PodControl
from hotmap.local.controllers.pods import seconds_to_availability
from hotmap.local.controllers.template import pod_template_hash
from hotmap.local.meta import (
    MANAGER,
    Object,
    ObjectName,
    annotations_of,
    controller_of,
    is_deleted,
    labels_of,
    name_of,
    uid_of,
    with_metadata,
)

__all__ = ["DaemonSetController"]


class _Revisions(NamedTuple):
    latest: Object
    old: list[Object]

    @property
    def latest_hash(self) -> str:
        return labels_of(self.latest).get(REVISION_LABEL, "")


class DaemonSetController(OwnerController):
    """Reconcile DaemonSets with their pods."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, "daemonset", owners="daemonsets", dependents="pods")
        revisions = self._informers["controllerrevisions"]
        self._history = ControllerHistory(
            self._client, revisions, self._client.scheme.resource("daemonsets")
        )
        self._pod_control = PodControl(self._client, self._dependents, self._recorder)
        self._nodes = self._informers["nodes"]
        self._pace = CreationPace()
        self._backoff = FailedPodBackoff()
        revisions.subscribe(self._on_revision)
        self._nodes.subscribe(self._on_node)

    async def sync(self, key: ObjectName) -> None:
        """Bring one DaemonSet's pods, revisions and status up to date.

        1. Find the revision of the template, or make it.
        2. Create and delete pods so that each node has what it should have; then update.
        3. Delete revisions beyond the limit, write the status, also if 2 failed.
        4. Sync again when a pod will have been ready for minReadySeconds.

        One that is being deleted is left to the garbage collector: its revisions may be gone.
        """
        owner = self._owners.objects.get(key)
        if owner is None or is_deleted(owner):
            return
        await self._ownership.claim(owner)
        revisions = await self._find_revisions(owner)
        failure: ApiError | None = None
        try:
            await self._manage(owner, revisions)
            await self._clean_up(owner, revisions)
        except ApiError as error:
            failure = error
        await self._report(self._view(owner, revisions))
        if failure is not None:
            raise failure

    # -- events and caches -----------------------------------------------------------------------

    def _on_revision(self, old: Object | None, new: Object | None) -> None:
        """Sync a set whose revisions change; not for a new one that has an owner (addHistory)."""
        if old is not None or (new is not None and controller_of(new) is None):
            self._add_owners(self._history.ownership, old, new)

    def _on_node(self, old: Object | None, new: Object | None) -> None:
        """Sync all sets when a node comes, goes, or is another one for them; not at heartbeats."""
        if old is not None and new is not None and _placing_fields(old) == _placing_fields(new):
            return
        for name in self._owners.objects:
            self._loop.add(name)

    def _view(self, owner: Object, revisions: _Revisions) -> DaemonSetView:
        return DaemonSetView(
            owner,
            {name: node for (_, name), node in self._nodes.objects.items()},
            self._ownership.owned_by(owner),
            revisions.latest_hash,
            self._clock(),
        )

    # -- revisions -------------------------------------------------------------------------------

    async def _find_revisions(self, owner: Object) -> _Revisions:
        """Find the revision of the template, or make it; an earlier one becomes the latest."""
        template = owner["spec"]["template"]
        revisions = [
            revision
            if REVISION_LABEL in labels_of(revision)
            else await self._history.set_label(
                revision, REVISION_LABEL, revision["metadata"]["name"]
            )
            for revision in await self._history.claim(owner)
        ]
        equal = find_equal(revisions, template)
        names = {revision["metadata"]["name"] for revision in equal}
        old = [rev for rev in revisions if rev["metadata"]["name"] not in names]
        number = next_number(old)
        if not equal:
            return _Revisions(await self._create_revision(owner, number), old)
        *duplicates, latest = sorted_revisions(equal)
        if duplicates:
            await self._remove_duplicates(owner, duplicates, latest)
        if revision_number(latest) < number:
            latest = await self._history.renumber(latest, number)
        return _Revisions(latest, old)

    async def _create_revision(self, owner: Object, number: int) -> Object:
        template = owner["spec"]["template"]
        status = owner.get("status") or {}
        hash_text = pod_template_hash(template, status.get("collisionCount"))
        labels = (template.get("metadata") or {}).get("labels") or {}
        revision = {
            "metadata": {
                "name": f"{owner['metadata']['name']}-{hash_text}",
                "labels": {**labels, REVISION_LABEL: hash_text},
                "annotations": annotations_of(owner),
                "ownerReferences": [self._history.ownership.reference(owner)],
            },
            "data": template_patch(template),
            "revision": number,
        }
        try:
            return await self._history.create(owner, revision)
        except AlreadyExists:
            # The next attempt uses another name.
            collisions = (status.get("collisionCount") or 0) + 1
            await self._write_status(owner, {**status, "collisionCount": collisions})
            raise

    async def _remove_duplicates(
        self, owner: Object, duplicates: list[Object], latest: Object
    ) -> None:
        """Keep one of several revisions with the same template, and let pods name that one."""
        hashes = {labels_of(revision).get(REVISION_LABEL) for revision in duplicates}
        label = {REVISION_LABEL: labels_of(latest)[REVISION_LABEL]}
        for pod in self._ownership.owned_by(owner):
            if labels_of(pod).get(REVISION_LABEL) not in hashes:
                continue
            try:
                written = await self._client.modify(
                    "pods",
                    *name_of(pod),
                    lambda obj: with_metadata(obj, labels={**labels_of(obj), **label}),
                    manager=MANAGER,
                )
            except NotFound:
                continue
            await self._dependents.wait_for_version(written["metadata"]["resourceVersion"])
        await self._history.delete(duplicates)

    async def _clean_up(self, owner: Object, revisions: _Revisions) -> None:
        """Delete old revisions beyond the limit; those that pods have count, and stay."""
        limit = owner["spec"].get("revisionHistoryLimit")
        pods = self._ownership.owned_by(owner)
        live = {labels_of(pod).get(REVISION_LABEL) for pod in pods}
        used = [rev for rev in revisions.old if labels_of(rev).get(REVISION_LABEL) in live]
        names = [revision["metadata"]["name"] for revision in used]
        if limit is not None:
            limit = max(0, limit - len(used))
        await self._history.delete(surplus_revisions(revisions.old, names, limit))

    # -- pods ------------------------------------------------------------------------------------

    async def _manage(self, owner: Object, revisions: _Revisions) -> None:
        plan = plan_pods(self._view(owner, revisions))
        self._choose_ended(owner, plan)
        await self._carry_out(owner, revisions, plan)
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") == "RollingUpdate":
            await self._carry_out(owner, revisions, plan_update(self._view(owner, revisions)))

    def _choose_ended(self, owner: Object, plan: PodPlan) -> None:
        """Let pods that ended go, failed ones with a pause between one and the next of a node."""
        observed = (owner.get("status") or {}).get("observedGeneration") or 0
        for pod in plan.failed:
            node = target_node(pod) or ""
            pause = self._backoff.take((uid_of(owner), observed, node))
            if pause > 0:
                self._loop.add_after(name_of(owner), pause)
                continue
            text = (
                f"Found failed daemon pod {'/'.join(name_of(pod))} on node {node}, "
                "will try to kill it"
            )
            self._recorder.event(owner, "Warning", "FailedDaemonPod", text)
            plan.delete.append(pod)
        for pod in plan.succeeded:
            text = (
                f"Found succeeded daemon pod {'/'.join(name_of(pod))} on node "
                f"{target_node(pod)}, will try to delete it"
            )
            self._recorder.event(owner, "Normal", "SucceededDaemonPod", text)
            plan.delete.append(pod)

    async def _carry_out(self, owner: Object, revisions: _Revisions, plan: PodPlan) -> None:
        """Create and delete; what cannot be created does not keep the others."""
        count = self._pace.take(uid_of(owner), len(plan.create))
        if count < len(plan.create):
            self._loop.add_after(name_of(owner), self._pace.pause(uid_of(owner)))
        reference = self._ownership.reference(owner)
        pods = (
            daemon_pod(owner, node, revision_hash=revisions.latest_hash, reference=reference)
            for node in plan.create[:count]
        )
        failure: ApiError | None = None
        try:
            await self._pod_control.create(owner, pods)
        except ApiError as error:
            failure = error
        await self._pod_control.delete(owner, plan.delete)
        if failure is not None:
            raise failure

    # -- the status ------------------------------------------------------------------------------

    async def _report(self, view: DaemonSetView) -> None:
        owner = view.owner
        status = daemon_set_status(view)
        if status != owner.get("status"):
            await self._write_status(owner, status)
        min_ready = owner["spec"].get("minReadySeconds") or 0
        wait = seconds_to_availability(view.pods, min_ready, now=view.now)
        if wait is not None:
            self._loop.add_after(name_of(owner), wait)

    async def _write_status(self, owner: Object, status: Object) -> None:
        written = await self._client.modify(
            "daemonsets",
            *name_of(owner),
            lambda obj: {**obj, "status": status} if uid_of(obj) == uid_of(owner) else None,
            subresource="status",
            manager=MANAGER,
        )
        await self._owners.wait_for_version(written["metadata"]["resourceVersion"])


def _placing_fields(node: Object) -> tuple[object, ...]:
    return labels_of(node), node.get("spec", {}).get("taints") or []
