"""What the template of a pod proves of its content, where times prove nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.core.pod_stages import (
    CHANGED,
    ENV_CONTENT,
    FILES_AT_START,
    WEB,
    observed_pod,
    stages_of,
    with_start_change,
)
from tests.support.objects import (
    ENV,
    config_map,
    consumer,
    cron_job,
    deployment,
    pod,
    snapshot,
    template,
)

from hotmap.core.decide.evidence import Span
from hotmap.core.decide.pod_starts import pod_starts
from hotmap.core.model.objects import PodSpec
from hotmap.core.policy.policy import Policy
from hotmap.core.status.desired import DesiredContent, desired_content, has_current_template
from hotmap.core.status.pod_facts import KUBELET_SYNC
from hotmap.core.status.stage import Confidence, Stage


@pytest.mark.parametrize(
    ("revision", "vouched", "known"),
    [
        pytest.param(ENV_CONTENT.template, False, Confidence.INFERRED, id="its template names it"),
        pytest.param(
            f"{ENV_CONTENT.template}.2", False, Confidence.INFERRED, id="… under its own name"
        ),
        pytest.param("kid.other", False, Confidence.UNKNOWN, id="its template names other content"),
        pytest.param("", False, Confidence.UNKNOWN, id="its template names nothing"),
        pytest.param("", True, Confidence.INFERRED, id="all pods have the applied template"),
    ],
)
def test_template_revision_is_evidence_for_its_pods(
    revision: str, vouched: bool, known: Confidence
) -> None:
    """Where clocks do not: a pod that seems older than the change was made for its content."""
    _, loaded = stages_of(
        ENV_CONTENT, observed_pod(990, revision=revision), template_current=vouched
    )
    assert loaded.confidence is known


@pytest.mark.parametrize("hidden", [True, False], ids=["by a selector", "not readable"])
def test_template_says_nothing_of_a_source_that_is_not_seen(hidden: bool) -> None:
    """It may have changed since; one that a selector hides is not followed, and is not judged."""
    taken = snapshot(WEB, config_map(data={"LEVEL": "info"}), policy=Policy(opted_in=True))
    (source,) = taken.sources
    unseen = source._replace(exists=False, visible=False, changed_at=None)
    unfollowed = (source.source,) if hidden else ()
    content = desired_content(taken._replace(sources=(unseen,), unfollowed=unfollowed))
    _, loaded = stages_of(
        content, observed_pod(990, revision=taken.revision), template_current=True
    )
    if hidden:
        assert loaded.reason == "uses no source that is followed"
    else:
        assert loaded == Stage(Confidence.UNKNOWN, "ConfigMap shop/app cannot be read")


@pytest.mark.parametrize(
    ("fields", "changed_at", "vouched"),
    [
        pytest.param({"written_at": 1000}, CHANGED, True, id="written in the second of the change"),
        pytest.param({"written_at": 1005}, CHANGED, True, id="written after the change"),
        pytest.param({"written_at": 999}, CHANGED, False, id="written before the change"),
        pytest.param({"written_at": 1005}, None, False, id="the time of the change is unknown"),
        pytest.param({"written_at": None}, CHANGED, False, id="not written by hotmap"),
        pytest.param(
            {"written_at": 1005, "rolling": True}, CHANGED, False, id="older pods are left"
        ),
    ],
)
def test_current_template_requires_our_write_after_the_change(
    fields: dict[str, Any], changed_at: float | None, vouched: bool
) -> None:
    """Our write came after the change, and its own controller has no other pod left."""
    web = deployment(ENV, revision="kid.any", **fields)
    source = config_map(data={"LEVEL": "info"}, changed_at=changed_at)
    assert has_current_template(snapshot(web, source)) is vouched


def test_no_template_is_written_for_a_deleted_source() -> None:
    """What it had last is not known, and it may have been edited before."""
    web = deployment(ENV, revision="kid.any", written_at=1005)
    assert not has_current_template(snapshot(web))


@pytest.mark.parametrize(
    ("kind", "used", "reached"),
    [
        ("ReplicaSet", ENV, True),
        ("ReplicaSet", ENV.replace("name: app", "name: earlier"), False),
        ("CronJob", ENV.replace("key: LEVEL", "key: OTHER"), False),
        ("Deployment", "", True),
    ],
)
def test_pod_of_an_earlier_template_is_unknown(kind: str, used: str, reached: bool) -> None:
    """A ReplicaSet and a CronJob keep it, whatever its start says of the present sources."""
    of = cron_job(ENV) if kind == "CronJob" else consumer(kind, ENV)
    spec = template(used).spec if used else PodSpec()
    started = msgspec.structs.replace(pod(started=CHANGED + 10), spec=spec)
    (start,) = pod_starts(of, [started])
    assert start.is_outdated is not reached


@pytest.mark.parametrize("revision", ["kid.other", ENV_CONTENT.template], ids=["other", "same"])
def test_proven_start_outweighs_template_revision(revision: str) -> None:
    """A proof does not depend on the template."""
    _, loaded = stages_of(ENV_CONTENT, observed_pod(1010, revision=revision))
    assert loaded.confidence is Confidence.PROVEN


@pytest.mark.parametrize("content", [ENV_CONTENT, FILES_AT_START], ids=["environment", "files"])
@pytest.mark.parametrize(
    ("started", "known"),
    [
        pytest.param(990.0, Confidence.UNKNOWN, id="certainly before the edit"),
        pytest.param(999.5, Confidence.INFERRED, id="maybe after it"),
    ],
)
def test_template_proves_nothing_of_pods_from_before_the_last_edit(
    content: DesiredContent, started: float, known: Confidence
) -> None:
    """A return to earlier content brings its revision back, which pods of the time between have."""
    if content.start_changes:
        content = with_start_change(content, edited_since=CHANGED)
    content = content._replace(edited=True, files_edited_since=CHANGED)
    span = Span(started, started + 1)
    observed = observed_pod(started, revision=content.template)
    observed = observed._replace(start=observed.start._replace(containers=(span,)))
    _, loaded = stages_of(content, observed)
    assert loaded.confidence is known
    unnamed = observed._replace(start=observed.start._replace(revision=""))
    _, loaded = stages_of(content, unnamed, template_current=True)  # as with Reloader's strategies
    assert loaded.confidence is known


@pytest.mark.parametrize("content", [ENV_CONTENT, FILES_AT_START], ids=["environment", "files"])
@pytest.mark.parametrize(
    ("ended", "fields", "known"),
    [
        pytest.param(898, {}, Confidence.INFERRED, id="before it was replaced"),
        pytest.param(899, {}, Confidence.UNKNOWN, id="perhaps when it was replaced"),
        pytest.param(898, {"replaced_at": 0.0}, Confidence.UNKNOWN, id="it never came back"),
        pytest.param(898, {"written": "k.a.1"}, Confidence.UNKNOWN, id="of another name"),
        pytest.param(898, {"written": ""}, Confidence.UNKNOWN, id="the template has none"),
    ],
)
def test_template_proves_content_that_its_pods_read_before_it_was_replaced(
    content: DesiredContent, ended: float, fields: dict[str, Any], known: Confidence
) -> None:
    """It has come back since, and with it the ReplicaSet of these pods."""
    if content.start_changes:
        content = with_start_change(content, edited_since=CHANGED)
    content = content._replace(edited=True, files_edited_since=CHANGED, replaced_at=900.0)
    content = content._replace(**{"written": content.template} | fields)
    observed = observed_pod(890, revision=content.template)
    start = observed.start._replace(containers=(Span(890, ended),))
    _, loaded = stages_of(content, observed._replace(start=start))
    assert loaded.confidence is known
    unmarked = observed._replace(start=start._replace(revision=""))
    _, loaded = stages_of(content._replace(written=""), unmarked)  # from before the first rollout
    is_before = ended == 898 and bool(content.replaced_at)
    assert loaded.confidence is (Confidence.INFERRED if is_before else Confidence.UNKNOWN)


@pytest.mark.parametrize(
    ("started", "known"),
    [(CHANGED + 10, Confidence.UNKNOWN), (CHANGED + KUBELET_SYNC, Confidence.INFERRED)],
)
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(FILES_AT_START, id="files"),
        pytest.param(
            with_start_change(ENV_CONTENT, edited_since=CHANGED, sub_path_at=CHANGED), id="subPath"
        ),
    ],
)
def test_template_proves_nothing_of_files_that_the_kubelet_may_not_have_updated(
    content: DesiredContent, started: float, known: Confidence
) -> None:
    """A pod that was kept after a revert, and whose container starts again, may read the edit."""
    content = content._replace(edited=True, files_edited_since=CHANGED, replaced_at=900.0)
    observed = observed_pod(890, revision=content.template)
    start = observed.start._replace(at=started, containers=(Span(started, started + 1),))
    _, loaded = stages_of(
        content._replace(written=content.template), observed._replace(start=start)
    )
    assert loaded.confidence is known
