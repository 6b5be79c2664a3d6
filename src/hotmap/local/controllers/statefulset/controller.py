"""Keeps the pods of StatefulSets, their revisions and their status."""

from __future__ import annotations

from typing import NamedTuple

from hotmap.core.errors import AlreadyExists, ApiError
from hotmap.local.controllers.controller import ControllerContext, OwnerController
from hotmap.local.controllers.creation_pace import CreationPace
from hotmap.local.controllers.history import (
    ControllerHistory,
    find_equal,
    next_number,
    revision_name,
    surplus_revisions,
    template_hash,
    template_patch,
)
from hotmap.local.controllers.pods import seconds_to_availability
from hotmap.local.controllers.statefulset.identity import (
    claim_templates,
    is_member,
    revision_of,
)
from hotmap.local.controllers.statefulset.plan import StatefulSetView, Step, plan_steps
from hotmap.local.controllers.statefulset.pod_control import StatefulPodControl
from hotmap.local.controllers.statefulset.status import is_status_outdated, stateful_set_status
from hotmap.local.informer import by_namespace
from hotmap.local.meta import (
    MANAGER,
    Object,
    ObjectName,
    annotations_of,
    is_deleted,
    name_of,
    uid_of,
)

__all__ = ["StatefulSetController"]

#: On revisions: the hash in their names.
_HASH_LABEL = "controller.kubernetes.io/hash"


class _Revisions(NamedTuple):
    current: Object
    update: Object
    #: How often the name of a revision was taken.
    collisions: int


class StatefulSetController(OwnerController):
    """Reconcile StatefulSets with their pods."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(
            context, "statefulset", owners="statefulsets", dependents="pods", is_member=is_member
        )
        self._history = ControllerHistory(
            self._client,
            self._informers["controllerrevisions"],
            self._client.scheme.resource("statefulsets"),
        )
        self._pod_control = StatefulPodControl(self._client, self._informers, self._recorder)
        self._sets_in_namespace = self._owners.index(by_namespace)
        self._pace = CreationPace()
        self._informers["persistentvolumeclaims"].subscribe(self._on_claim)

    async def sync(self, key: ObjectName) -> None:
        """Take the next steps of one StatefulSet (kubernetes: UpdateStatefulSet).

        1. Adopt and release revisions and pods; find or make the revision of the template.
        2. Carry out the plan, up to the first failure.
        3. Write the status, delete revisions beyond the limit.
        4. Sync again when a pod will have been ready for minReadySeconds.
        """
        owner = self._owners.objects.get(key)
        if owner is None:
            return
        revisions = await self._history.claim(owner)
        await self._ownership.claim(owner)
        if is_deleted(owner) and not find_equal(revisions, owner["spec"]["template"]):
            # The garbage collector has taken them; a new one would keep it busy.
            return
        found = await self._find_revisions(owner, revisions)
        failure: ApiError | None = None
        try:
            await self._carry_out(owner, plan_steps(self._view(owner, found)))
        except ApiError as error:
            failure = error
        view = self._view(owner, found)
        await self._report(view, found)
        live = {revision_of(pod) for pod in view.pods}
        live |= {revision["metadata"]["name"] for revision in (found.current, found.update)}
        limit = owner["spec"].get("revisionHistoryLimit")
        await self._history.delete(surplus_revisions(revisions, live, limit))
        self._recheck_availability(view)
        if failure is not None:
            raise failure

    # -- events and caches -----------------------------------------------------------------------

    def _on_claim(self, old: Object | None, new: Object | None) -> None:
        """Sync the sets of a namespace in which a claim is gone: one may wait for that."""
        if old is None or new is not None:
            return
        for owner in self._sets_in_namespace.get(old["metadata"]["namespace"]):
            if claim_templates(owner):
                self._loop.add(name_of(owner))

    def _view(self, owner: Object, revisions: _Revisions) -> StatefulSetView:
        return StatefulSetView(
            owner,
            [pod for pod in self._ownership.owned_by(owner) if is_member(owner, pod)],
            revisions.current,
            revisions.update,
            self._pod_control.claims_for(owner),
            self._ownership.reference(owner),
            self._clock(),
        )

    # -- revisions -------------------------------------------------------------------------------

    async def _find_revisions(self, owner: Object, revisions: list[Object]) -> _Revisions:
        """Find the revision of the template, or make it; an earlier one becomes the latest."""
        status = owner.get("status") or {}
        collisions = status.get("collisionCount") or 0
        template = owner["spec"]["template"]
        equal = find_equal(revisions, template)
        if not equal:
            update, collisions = await self._create_revision(owner, revisions, collisions)
        elif equal[-1] is revisions[-1]:
            update = revisions[-1]
        else:
            update = await self._history.renumber(equal[-1], next_number(revisions))
        name = status.get("currentRevision")
        current = next((rev for rev in revisions if rev["metadata"]["name"] == name), update)
        return _Revisions(current, update, collisions)

    async def _create_revision(
        self, owner: Object, revisions: list[Object], collisions: int
    ) -> tuple[Object, int]:
        """Create the revision of the template; return it and the count of collisions."""
        template = owner["spec"]["template"]
        labels = (template.get("metadata") or {}).get("labels") or {}
        label = {_HASH_LABEL: template_hash(template, collisions)}
        while True:
            revision = {
                "metadata": {
                    "name": revision_name(owner, template_hash(template, collisions)),
                    "labels": {**labels, **label},
                    "annotations": annotations_of(owner),
                    "ownerReferences": [self._history.ownership.reference(owner)],
                },
                "data": template_patch(template),
                "revision": next_number(revisions),
            }
            try:
                return await self._history.create(owner, revision), collisions
            except AlreadyExists:
                collisions += 1

    # -- writing ---------------------------------------------------------------------------------

    async def _carry_out(self, owner: Object, steps: list[Step]) -> None:
        reference = self._ownership.reference(owner)
        wanted = sum(step.action == "create" for step in steps)
        allowed = self._pace.take(uid_of(owner), wanted)
        if allowed < wanted:
            self._loop.add_after(name_of(owner), self._pace.pause(uid_of(owner)))
        for action, pod in steps:
            if action == "create":
                if allowed == 0:
                    return
                allowed -= 1
                await self._pod_control.create(owner, pod, reference=reference)
            elif action == "delete":
                await self._pod_control.delete(owner, pod)
            elif action == "update":
                await self._pod_control.update(owner, pod, reference=reference)
            else:
                await self._pod_control.update_claims(owner, pod, reference=reference)

    async def _report(self, view: StatefulSetView, revisions: _Revisions) -> None:
        owner = view.owner
        status = stateful_set_status(view, collision_count=revisions.collisions)
        if not is_status_outdated(owner.get("status") or {}, status):
            return
        written = await self._client.modify(
            "statefulsets",
            *name_of(owner),
            lambda obj: {**obj, "status": status} if uid_of(obj) == uid_of(owner) else None,
            subresource="status",
            manager=MANAGER,
        )
        await self._owners.wait_for_version(written["metadata"]["resourceVersion"])

    def _recheck_availability(self, view: StatefulSetView) -> None:
        min_ready = view.owner["spec"].get("minReadySeconds") or 0
        wait = seconds_to_availability(view.pods, min_ready, now=view.now)
        if wait is not None:
            self._loop.add_after(name_of(view.owner), wait)
