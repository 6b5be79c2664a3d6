"""Rule 11: a class whose versions its pods mount is decided by what each pod has mounted."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.core.freshness import assess_sources
from tests.support.objects import KEY, deployment, pod
from tests.support.provider_classes import class_volume

from hotmap.core.decide.assessment import Assessment, Verdict
from hotmap.core.decide.pod_starts import pod_starts
from hotmap.core.decide.record import record_applied
from hotmap.core.decide.revisions import desired_target
from hotmap.core.decide.source_snapshot import SourceSnapshot, take_snapshots
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.provider_class import (
    PROVIDER_CLASS,
    ClassContent,
    ClassMounts,
    MountedPod,
    class_source,
)
from hotmap.core.policy.policy import Policy, followed_uses

VAULT = ObjectKey(PROVIDER_CLASS, "shop", "vault")
#: When the versions changed, and when pods started after and before that.
CHANGED, AFTER, BEFORE = 500.0, 600.0, 400.0
#: What pods have mounted: the versions now, since their start or by an update, or earlier ones.
SINCE_START = MountedPod("web-1", current=True)
BY_UPDATE = MountedPod("web-1", current=True, updated=True, updated_at=CHANGED)
EARLIER = MountedPod("web-1", current=False)


def web(**options: Any) -> Consumer:
    """A Deployment that mounts the class; its record is of generation 1."""
    spec = msgspec.json.encode(class_volume()).decode()
    return deployment(spec, **options)


def vault(version: str, mounts: ClassMounts) -> tuple[SourceSnapshot, ...]:
    """The snapshot of the class with one object of a version."""
    content = ClassContent((("db/password", version),), since=int(version), changed_at=CHANGED)
    sources = {VAULT: class_source(VAULT, content, None, [KEY])}
    uses = followed_uses(web(), Policy(opted_in=True, auto=frozenset((PROVIDER_CLASS,))), sources)
    return tuple(each._replace(mounts=mounts) for each in take_snapshots(uses, sources, KEY))


def assess_versions(
    who: Consumer,
    *mounted: MountedPod,
    started: float | None = None,
    by_update: bool = True,
    **known: Any,
) -> Assessment:
    """Assess a Deployment whose class has version 2, and was applied with version 1.

    `started` is the start of its only pod; None: its pods were not listed.
    """
    before = vault("1", ClassMounts(is_known=True))
    first = assess_sources(web(), None, before, now=0)
    record = record_applied(web(), None, first.findings, key_id=KEY.id, generation=1)
    if started is not None:
        known["starts"] = pod_starts(who, [pod("web-1", started=started)])
    now = vault("2", ClassMounts(True, by_update, mounted))
    return assess_sources(who, record, now, **known)


@pytest.mark.parametrize(
    ("who", "waited", "verdict"),
    [
        pytest.param({}, 0, Verdict.CHECK_PODS, id="pods are looked at whatever the generation is"),
        pytest.param({"generation": 0}, 59, Verdict.WAIT, id="a lagging watch"),
        pytest.param({"generation": 0}, 60, Verdict.CHECK_PODS, id="lagging for a minute"),
        pytest.param({"generation": 2}, 0, Verdict.CHECK_PODS, id="another rollout that is over"),
        pytest.param(
            {"generation": 2, "rolling": True}, 59, Verdict.WAIT, id="another rollout in progress"
        ),
        pytest.param(
            {"generation": 2, "rolling": True},
            60,
            Verdict.CHECK_PODS,
            id="in progress for a minute",
        ),
        pytest.param({"rolling": True}, 0, Verdict.CHECK_PODS, id="its own rollout in progress"),
    ],
)
def test_pods_are_listed_when_no_rollout_replaces_them(
    who: dict[str, Any], waited: float, verdict: Verdict
) -> None:
    """Pods that another rollout is replacing need not be looked at yet, for a minute at most."""
    assert assess_versions(web(**who), waited=waited).verdict is verdict


@pytest.mark.parametrize(
    ("mounted", "started", "verdict"),
    [
        pytest.param((SINCE_START,), BEFORE, Verdict.ADOPT, id="mounted the versions"),
        pytest.param((EARLIER,), AFTER, Verdict.FROZEN, id="mounted earlier versions"),
        pytest.param((BY_UPDATE,), BEFORE, Verdict.FROZEN, id="updated after the start"),
        pytest.param((BY_UPDATE,), CHANGED + 1, Verdict.FROZEN, id="updated just before the start"),
        pytest.param((BY_UPDATE,), CHANGED + 2, Verdict.ADOPT, id="updated before the start"),
        pytest.param((), AFTER, Verdict.ADOPT, id="unreported, and started after the change"),
        pytest.param((), BEFORE, Verdict.WAIT, id="unreported, and started before the change"),
    ],
)
def test_mounted_versions_decide(
    mounted: tuple[MountedPod, ...], started: float, verdict: Verdict
) -> None:
    """Times count only for pods of which the driver reports nothing."""
    assert assess_versions(web(), *mounted, started=started).verdict is verdict


@pytest.mark.parametrize(
    ("by_update", "verdict"),
    [
        pytest.param(True, Verdict.FROZEN, id="the driver updates mounted files"),
        pytest.param(False, Verdict.ADOPT, id="new pods alone get new versions"),
    ],
)
def test_unreported_pod_is_waited_for_a_minute(by_update: bool, verdict: Verdict) -> None:
    """Then it counts as older if the versions came by an update, as its own may have."""
    options: dict[str, Any] = {"started": BEFORE, "by_update": by_update}
    assert assess_versions(web(), waited=59, **options).verdict is Verdict.WAIT
    assert assess_versions(web(), waited=60, **options).verdict is verdict


def test_without_pods_an_update_is_applied_at_once() -> None:
    """There is nothing to look at, and the next pods are made by the new template."""
    none = web(replicas=0)
    assert assess_versions(none).verdict is Verdict.FROZEN
    assert assess_versions(none, by_update=False).verdict is Verdict.CHECK_PODS


@pytest.mark.parametrize(
    ("uses", "verdict"),
    [
        pytest.param(None, Verdict.UP_TO_DATE, id="used as before"),
        pytest.param("another digest", Verdict.ADOPT, id="used in another way"),
    ],
)
def test_class_of_unknown_versions_concludes_nothing(uses: str | None, verdict: Verdict) -> None:
    """Pods have mounted different ones, or none has mounted any."""
    before = vault("1", ClassMounts(is_known=True))
    first = assess_sources(web(), None, before, now=0)
    record = record_applied(web(), None, first.findings, key_id=KEY.id, generation=1)
    if uses is not None:
        (source,) = record.sources
        record = msgspec.structs.replace(
            record, sources=(msgspec.structs.replace(source, uses=uses),)
        )
    now = vault("2", ClassMounts(is_known=False))
    assert assess_sources(web(), record, now).verdict is verdict


def test_class_is_not_announced_to_agents() -> None:
    """Their kubelet does not write what a driver mounts."""
    snapshots = vault("2", ClassMounts(True, False, (SINCE_START,)))
    target = desired_target(snapshots, KEY, uid=web().uid)
    assert (target.live, target.frozen) == ("-", "-")
