"""Rule 10: pods that were found to have older content are replaced once, although all is equal."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.objects import ENV, ENV_AND_FILES, FILES, config_map, deployment, snapshot

from hotmap.core.decide.assessment import Verdict
from hotmap.core.decide.decide import decide
from hotmap.core.decide.evidence import PodStart, Span
from hotmap.core.decide.record import Outcome, next_record
from hotmap.core.decide.record_evidence import keep_older_pods, may_be_older, with_older_pods
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.decide.source_snapshot import StartBound
from hotmap.core.model.state import PodCheck, Record, RolloutTimes, Window
from hotmap.core.policy.policy import Agent, Policy, Strategy

#: When the source was edited, as was observed.
EDITED = 990.0
APP = config_map("app", {"LEVEL": "debug", "app.yaml": "a: 2"}, version=2, changed_at=EDITED)
FOLLOWED, REREADS = Policy(opted_in=True), Policy(opted_in=True, rereads=True)


def started(at: float, *, created: float | None = None, revision: str = "") -> PodStart:
    return PodStart("web-1", at, revision, created=at if created is None else created)


def after_check(
    spec: str = ENV,
    policy: Policy = FOLLOWED,
    *,
    edited: bool = True,
    start: StartBound | None = None,
    rolling: bool = False,
    **record: Any,
) -> Snapshot:
    """Snapshot a Deployment that has the content by its record, and older pods by a pod check."""
    who = deployment(spec, rolling=rolling)
    first = next_record(
        decide(snapshot(who, APP, policy=policy)), Outcome(who.generation, "", EDITED)
    )
    assert first is not None
    (source,) = first.sources
    fields = {
        "pods_checked": PodCheck.LATENT,
        "sources": (msgspec.structs.replace(source, adopted=""),),
        "generation": who.generation,
        **record,
    }
    taken = snapshot(who, APP, record=msgspec.structs.replace(first, **fields), policy=policy)
    (current,) = taken.sources
    return taken._replace(sources=(current._replace(edited=edited, start=start),))


def of_kind(kind: str) -> Snapshot:
    """Snapshot a consumer of another kind, in the same state."""
    taken = after_check()
    key = taken.consumer.key._replace(kind=kind)
    return taken._replace(consumer=msgspec.structs.replace(taken.consumer, key=key))


@pytest.mark.parametrize(
    ("pod", "record", "verdict"),
    [
        pytest.param(started(980), {}, Verdict.FROZEN, id="before the edit"),
        pytest.param(started(992), {}, Verdict.UP_TO_DATE, id="after it"),
        pytest.param(
            started(980, created=975),
            {"proven_since": 970.0},
            Verdict.UP_TO_DATE,
            id="created since the content is proven",
        ),
        pytest.param(
            started(980, created=970),
            {"proven_since": 970.8},
            Verdict.UP_TO_DATE,
            id="created in that second",
        ),
        pytest.param(
            started(991, revision="k.b"),
            {"revision": "k.b", "rollouts": RolloutTimes((950.0, 990.5))},
            Verdict.UP_TO_DATE,
            id="of a rollout after the edit",
        ),
        pytest.param(
            started(991, revision="k.b"),
            {"revision": "k.b", "rollouts": RolloutTimes((950.0, 989.5))},
            Verdict.FROZEN,
            id="of a rollout before it",
        ),
        pytest.param(
            started(991, revision="k.a"),
            {"revision": "k.b", "rollouts": RolloutTimes((950.0, 990.5))},
            Verdict.FROZEN,
            id="of another revision",
        ),
        pytest.param(
            started(980, created=965),
            {"proven_since": 970.0},
            Verdict.FROZEN,
            id="created before that",
        ),
    ],
)
def test_pods_that_may_be_older_are_replaced(
    pod: PodStart, record: dict[str, Any], verdict: Verdict
) -> None:
    taken = after_check(**record)
    assert decide(taken).assessment.verdict is Verdict.CHECK_PODS
    assessment = decide(taken, [pod]).assessment
    assert assessment.verdict is verdict
    assert assessment.heals is (verdict is Verdict.FROZEN)


def test_pod_whose_template_was_written_for_the_content_is_left() -> None:
    taken = after_check()
    assert decide(taken, [started(980, revision=taken.revision)]).assessment.heals is False


@pytest.mark.parametrize(
    ("spec", "mounted", "at", "heals"),
    [
        pytest.param(FILES, 970, 995, True, id="files, and a container has started again"),
        pytest.param(FILES, 970, 975, False, id="files, and none has"),
        pytest.param(FILES, 993, 995, False, id="files, written since the edit"),
        pytest.param(FILES, 989, 995, True, id="files, written a second before it"),
        pytest.param(FILES, 989.5, 995, False, id="files, perhaps written after it"),
        pytest.param(FILES, None, 995, False, id="files that are not written yet"),
        pytest.param(ENV, 970, 995, False, id="the environment"),
    ],
)
def test_restarted_pod_may_have_files_of_a_reverted_edit(
    spec: str, mounted: float | None, at: float, heals: bool
) -> None:
    """It has the template of the content, and its kubelet may have restored the files later."""
    taken = after_check(spec)
    start = PodStart(
        "web-1",
        971,
        taken.revision,
        containers=(Span(at, at + 1), Span(971, 972)),
        created=970,
        mounted=mounted,
        restarted=True,
    )
    assert decide(taken, [start]).assessment.heals is heals
    (current,) = taken.sources
    unknown = current._replace(changed_at=None, changed_after=None)
    assert not decide(taken._replace(sources=(unknown,)), [start]).assessment.heals
    none = start._replace(containers=())
    assert not decide(taken, [none]).assessment.heals


@pytest.mark.parametrize(
    "taken",
    [
        pytest.param(after_check(pods_checked=PodCheck.CURRENT), id="all were found current"),
        pytest.param(after_check(edited=False), id="no edit was observed"),
        pytest.param(after_check(rolling=True), id="they are being replaced"),
        pytest.param(
            after_check(windows=(Window(998.0, 999.0),)), id="it is too early for what was reverted"
        ),
        pytest.param(after_check(FILES, REREADS), id="the application re-reads its files"),
        pytest.param(
            after_check(policy=Policy(opted_in=True, strategy=Strategy.NOTIFY)),
            id="the policy permits no rollout",
        ),
        pytest.param(
            after_check(policy=Policy(opted_in=True, agent=Agent())),
            id="an agent in the pods applies changes",
        ),
        pytest.param(of_kind("Job"), id="the kind has no rollouts"),
    ],
)
def test_older_pods_are_left_alone(taken: Snapshot) -> None:
    assert decide(taken).assessment.verdict is Verdict.UP_TO_DATE


def test_older_pods_are_replaced_once_for_the_same_content() -> None:
    """What is left has another reason."""
    taken = after_check()
    decision = decide(taken, [started(980)])
    record = next_record(decision, Outcome(2, decision.snapshot.revision, 1000.0))
    assert record is not None
    assert record.healed == taken.revision
    assert taken.record is not None
    again = msgspec.structs.replace(taken.record, healed=record.healed)
    assert decide(taken._replace(record=again)).assessment.verdict is Verdict.UP_TO_DATE


def test_content_with_which_a_source_was_adopted_is_left_alone() -> None:
    """A first start of hotmap replaces no pods."""
    taken = after_check()
    assert taken.record is not None
    (source,) = taken.record.sources
    adopted = msgspec.structs.replace(source, adopted="2")
    record = msgspec.structs.replace(taken.record, sources=(adopted,))
    assert decide(taken._replace(record=record)).assessment.verdict is Verdict.UP_TO_DATE


@pytest.mark.parametrize(
    ("start", "verdict"),
    [
        pytest.param(StartBound(900.0, None, False, False), Verdict.UP_TO_DATE, id="files alone"),
        pytest.param(StartBound(EDITED, None, True, False), Verdict.FROZEN, id="the environment"),
    ],
)
def test_edit_of_reread_files_leaves_the_environment_as_old_as_it_is(
    start: StartBound, verdict: Verdict
) -> None:
    taken = after_check(ENV_AND_FILES, REREADS, start=start)
    assert decide(taken, [started(980)]).assessment.verdict is verdict


def test_files_are_updated_before_older_pods_are_replaced() -> None:
    """A nudge takes no pods; what they have read at their start is looked at after it."""
    taken = after_check(ENV_AND_FILES, REREADS, start=StartBound(EDITED, None, True, False))
    (current,) = taken.sources
    changed = taken._replace(sources=(current._replace(live="other"),))
    assert decide(changed).assessment.verdict is Verdict.LIVE


def test_pod_that_is_younger_than_one_change_may_be_older_than_another() -> None:
    taken = after_check()
    assert taken.record is not None
    (current,), (recorded,) = taken.sources, taken.record.sources
    other = current._replace(source=current.source._replace(name="other"), changed_at=900.0)
    both = recorded, msgspec.structs.replace(recorded, name="other")
    record = msgspec.structs.replace(taken.record, sources=both)
    assessment = decide(
        taken._replace(sources=(current, other), record=record), [started(980)]
    ).assessment
    assert assessment.verdict is Verdict.FROZEN


@pytest.mark.parametrize(
    ("adopted", "found", "kept"),
    [
        pytest.param("2", "2", 970.0, id="of the version that was adopted"),
        pytest.param("3", "2", 0.0, id="of another one"),
        pytest.param("", "2", 0.0, id="it has changed since"),
    ],
)
def test_pods_found_older_during_a_decision_are_kept(adopted: str, found: str, kept: float) -> None:
    """A decision takes a while, and its record is made from the one at its beginning."""
    before = after_check().record
    assert before is not None

    def record(adopted: str, until: float) -> Record:
        (source,) = before.sources
        source = msgspec.structs.replace(source, adopted=adopted, older_starts_until=until)
        return msgspec.structs.replace(before, sources=(source,))

    made = record(adopted, 0.0)
    assert keep_older_pods(made, record(found, 970.0)) == record(adopted, kept)
    assert keep_older_pods(record(adopted, 980.0), record(found, 970.0)) == record(adopted, 980.0)
    assert keep_older_pods(made, None) is made


@pytest.mark.parametrize(
    ("version", "adopted", "estimated", "expected"),
    [
        pytest.param("19", "20", True, True, id="older"),
        pytest.param("20", "20", True, False, id="as old"),
        pytest.param("21", "20", True, False, id="younger, such as one that was nudged"),
        pytest.param("19", "", True, False, id="the source has changed since"),
        pytest.param("19", "20", False, False, id="the time of the last change is known"),
        pytest.param("", "20", True, False, id="unknown"),
    ],
)
def test_only_pods_that_may_be_older_are_noted(
    version: str, adopted: str, estimated: bool, expected: bool
) -> None:
    before = after_check().record
    assert before is not None
    (source,) = before.sources
    source = msgspec.structs.replace(source, adopted=adopted, estimated=estimated)
    record = msgspec.structs.replace(before, sources=(source,))
    pod = started(980)._replace(version=int(version or 0))
    assert may_be_older(record, version) == expected
    assert (with_older_pods(record, [pod]) != record) == expected
