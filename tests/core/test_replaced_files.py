"""Of the sources of a projected volume a later one wins: what it replaces does not count."""

from __future__ import annotations

import pytest
from tests.core.freshness import assess_change, record_after
from tests.support.objects import (
    KEY,
    config_map,
    deployment,
    pod,
    snapshot,
    sources,
    with_changes,
)

from hotmap.core.decide.assessment import Assessment, Verdict
from hotmap.core.decide.decide import decide
from hotmap.core.decide.freshness import assess
from hotmap.core.decide.pod_starts import pod_starts
from hotmap.core.decide.snapshot import take_snapshot
from hotmap.core.decide.source_snapshot import ChangeSummary
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ConfigMap
from hotmap.core.model.state import Record
from hotmap.core.policy.policy import Policy

BASE, OVER = {"a": "1", "b": "1"}, {"a": "9"}


def volume(*parts: str, sub_path: str = "") -> Consumer:
    """Make a Deployment with a projected volume of these sources."""
    mount = f"{{name: v, mountPath: /v{', subPath: ' + sub_path if sub_path else ''}}}"
    sources = ", ".join(f"{{configMap: {{{part}}}}}" for part in parts)
    return deployment(
        f"""
        containers: [{{name: web, volumeMounts: [{mount}]}}]
        volumes: [{{name: v, projected: {{sources: [{sources}]}}}}]
        """
    )


def base(data: dict[str, str] = BASE, version: int = 1) -> ConfigMap:
    return config_map("base", data, version=version)


def over(data: dict[str, str] = OVER, version: int = 1) -> ConfigMap:
    return config_map("over", data, version=version)


WHOLE, LATER, OPTIONAL = "name: base", "name: over", "name: over, optional: true"
ITEM = "name: over, items: [{key: a, path: b}]"
OPTIONAL_ITEM = "name: over, optional: true, items: [{key: a, path: b}]"
NESTED = "name: over, items: [{key: a, path: d/b}]"


@pytest.mark.parametrize(
    ("parts", "edited", "counts"),
    [
        pytest.param([WHOLE, LATER], "a", False, id="the later one has it"),
        pytest.param([WHOLE, LATER], "b", True, id="the later one does not have it"),
        pytest.param([WHOLE, OPTIONAL], "a", False, id="an optional one has it"),
        pytest.param([LATER, WHOLE], "a", True, id="an earlier one has it"),
        pytest.param([WHOLE, ITEM], "b", False, id="an item has its path"),
        pytest.param([WHOLE, ITEM], "a", True, id="an item of its data key has another path"),
        pytest.param([WHOLE, OPTIONAL_ITEM], "b", True, id="an optional item may be missing"),
        pytest.param([WHOLE, NESTED], "b", True, id="an item has a path in a directory"),
        pytest.param([WHOLE, LATER, WHOLE], "a", True, id="it comes again after that"),
    ],
)
def test_replaced_file_does_not_count(parts: list[str], edited: str, counts: bool) -> None:
    """Files of the same path are written in the order of the sources."""
    who = volume(*parts)
    found = assess_change(who, [base(), over()], [base(BASE | {edited: "2"}, 2), over()])
    assert found.verdict is (Verdict.LIVE if counts else Verdict.UP_TO_DATE)


def test_file_counts_again_when_the_later_source_ceases_to_replace_it() -> None:
    """The kubelet writes the file of the earlier one."""
    who = volume(WHOLE, LATER)
    found = assess_change(who, [base(), over()], [base(), over({"c": "1"}, 2)])
    assert {f.current.source.name for f in found.changed()} == {"base", "over"}


def assess_as_recorded(
    who: Consumer, record: Record | None, *items: ConfigMap, rereads: bool
) -> Assessment:
    """Assess a consumer that has this record; its pods started before all changes."""
    policy = Policy(opted_in=True, rereads=rereads)
    taken = take_snapshot(
        who, policy, record, uses=tuple(who.uses), sources=sources(*items), keys=[KEY], now=1000
    )
    starts = pod_starts(who, [pod(started=-1000)])
    return assess(taken._replace(live_needs_rollout=not rereads), starts, {})


@pytest.mark.parametrize("rereads", [True, False])
def test_deleted_later_source_uncovers_files(rereads: bool) -> None:
    """Processes that do not re-read files keep what they read; an edit after that counts."""
    who = volume(WHOLE, OPTIONAL)
    record = record_after(who, None, assess_as_recorded(who, None, base(), over(), rereads=rereads))
    gone = assess_as_recorded(who, record, base(), rereads=rereads)
    assert gone.verdict is (Verdict.LIVE if rereads else Verdict.UP_TO_DATE)
    record = record_after(who, record, gone)
    same = assess_as_recorded(who, record, base(), rereads=rereads)
    assert same.verdict is Verdict.UP_TO_DATE
    record = record_after(who, record, same)
    edited = base(BASE | {"a": "2"}, 2)
    found = assess_as_recorded(who, record, edited, rereads=rereads)
    assert found.verdict is (Verdict.LIVE if rereads else Verdict.FROZEN)


def test_sub_path_counts_whatever_replaces_it() -> None:
    """One rollout too many, and never one too few."""
    who = volume(WHOLE, LATER, sub_path="a")
    found = assess_change(who, [base(), over()], [base(BASE | {"a": "2"}, 2), over()])
    assert found.verdict is Verdict.FROZEN


@pytest.mark.parametrize(
    ("created", "verdict"),
    [
        pytest.param(950.0, Verdict.FROZEN, id="a pod started in between"),
        pytest.param(990.0, Verdict.UP_TO_DATE, id="a pod started after it"),
    ],
)
def test_file_that_was_not_replaced_for_a_while_is_a_window(
    created: float, verdict: Verdict
) -> None:
    """The later source lost its data key, which has come back there, and is gone in both now."""
    who = volume(WHOLE, LATER)
    before, both = base(), over({"a": "9", "b": "9"})
    policy = Policy(opted_in=True)
    first = decide(snapshot(who, before, both, policy=policy))
    record = record_after(who, None, first.assessment)
    now = base({"a": "1"}, 2), over({"a": "9", "b": "9"}, 3)
    taken = snapshot(who, *now, record=record, policy=policy)
    seen = ChangeSummary(first=980.0, last=980.0), ChangeSummary(first=940.0, last=985.0)
    starts = pod_starts(who, [pod("web-1", created=created - 1, started=created)])
    assert decide(with_changes(taken, *seen), starts).assessment.verdict is verdict
