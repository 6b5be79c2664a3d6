"""When sources had other content than the applied one."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.freshness import B_FROZEN, A, app, applied_record
from tests.support.objects import ENV, KEY, deployment, sources

from hotmap.core.decide.snapshot import Snapshot, take_snapshot
from hotmap.core.decide.source_snapshot import ChangeSummary
from hotmap.core.decide.windows import find_windows
from hotmap.core.model.consumer import REVISION
from hotmap.core.model.provider_class import ClassMounts
from hotmap.core.model.state import Window
from hotmap.core.policy.policy import Policy

WINDOW = Window(450.0, 460.0)
SEEN = ChangeSummary(first=450.0, last=460.0, window=WINDOW)


def taken(data: dict[str, str], *, immutable: bool = False, uid: str = "uid-1") -> Snapshot:
    """Take the snapshot of a Deployment to which A was applied, and whose source has this now."""
    who = deployment(ENV)
    record = applied_record(who, app(immutable=immutable, uid="uid-1"))
    found = sources(app(data, version=3, uid=uid, changed_at=460.0))
    policy, uses = Policy(opted_in=True), tuple(who.uses)
    made = take_snapshot(who, policy, record, uses=uses, sources=found, keys=[KEY], now=500.0)
    (source,) = made.sources
    return made._replace(sources=(source._replace(changes=SEEN),))


@pytest.mark.parametrize(
    ("data", "immutable", "uid", "counts"),
    [
        pytest.param(A, False, "uid-1", True, id="an edit and its revert"),
        pytest.param(B_FROZEN, False, "uid-2", True, id="recreated with other content"),
        pytest.param(A, True, "uid-2", True, id="immutable, and recreated with its content"),
        pytest.param(B_FROZEN, True, "uid-2", False, id="kubelets may serve the old content"),
    ],
)
def test_windows_of_a_source(data: dict[str, str], immutable: bool, uid: str, counts: bool) -> None:
    snapshot = taken(data, immutable=immutable, uid=uid)
    assert find_windows(snapshot) == ((WINDOW,) if counts else ())


@pytest.mark.parametrize(
    ("data", "written_at", "counts"),
    [
        pytest.param(B_FROZEN, 459.0, True, id="a rollout before the last change"),
        pytest.param(B_FROZEN, 461.0, False, id="a rollout that a crash left unrecorded"),
        pytest.param(A, 461.0, True, id="a rollout of what was applied before"),
    ],
)
def test_rollout_that_was_not_recorded_ends_the_window(
    data: dict[str, str], written_at: float, counts: bool
) -> None:
    """No pod of its revision has read other content."""
    made = taken(data)
    who = msgspec.structs.replace(
        made.consumer, template_annotations={REVISION: made.revision}, written_at=written_at
    )
    assert find_windows(made._replace(consumer=who)) == ((WINDOW,) if counts else ())


@pytest.mark.parametrize("mounts", [None, ClassMounts()])
def test_class_has_no_window_without_observed_content(mounts: ClassMounts | None) -> None:
    """What its pods have mounted decides; no source replaces data keys of it."""
    made = taken(A)
    source = made.sources[0]._replace(changes=SEEN._replace(window=None), mounts=mounts)
    found = find_windows(made._replace(sources=(source,)))
    assert found == ((WINDOW,) if mounts is None else ())
