"""What the pods of a workload are to have, and since when, from one snapshot."""

from __future__ import annotations

from math import inf
from typing import Any

import msgspec
import pytest
from tests.core.freshness import app, applied_record, assess_change, record_after
from tests.support.objects import ENV, ENV_AND_FILES, FILES, config_map, deployment, snapshot

from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.decide.source_snapshot import StartBound
from hotmap.core.policy.policy import Agent, Policy, Strategy
from hotmap.core.status.desired import desired_content, has_current_template

CHANGED = 1000.0
REREADS = Policy(opted_in=True, rereads=True)


def taken(spec: str, policy: Policy = REREADS, *, written_at: float | None = None) -> Snapshot:
    """Snapshot a Deployment with one ConfigMap, which changed at CHANGED."""
    source = config_map(data={"LEVEL": "info", "app.yaml": "a: 1"}, changed_at=CHANGED)
    return snapshot(deployment(spec, written_at=written_at, revision="k.r"), source, policy=policy)


def agent(restart: str, container: str) -> Agent:
    return Agent(restart, containers=frozenset((container,)), unnamed=0)


def with_source(snapshot: Snapshot, **fields: Any) -> Snapshot:
    (source,) = snapshot.sources
    return snapshot._replace(sources=(source._replace(**fields),))


@pytest.mark.parametrize("replaced", ["edited", "modified"])
def test_replaced_content_is_noted_for_all_uses(replaced: str) -> None:
    """An observed edit, or a write after the creation, at the first sight of a source."""
    content = desired_content(with_source(taken(ENV_AND_FILES), **{replaced: True}))
    assert content.edited
    assert [source.name for source in content.live_edited] == ["app"]
    ((_, change),) = content.start_changes
    assert change.edited


def test_content_that_replaced_nothing_is_noted_as_that() -> None:
    content = desired_content(taken(ENV_AND_FILES))
    assert (content.edited, content.live_edited) == (False, frozenset())
    ((_, change),) = content.start_changes
    assert not change.edited


@pytest.mark.parametrize(
    ("spec", "edited", "since"),
    [
        pytest.param(FILES, True, CHANGED, id="edited"),
        pytest.param(FILES, False, -inf, id="created"),
        pytest.param(ENV, True, -inf, id="no files"),
    ],
)
def test_edit_of_files_has_a_time(spec: str, edited: bool, since: float) -> None:
    content = desired_content(with_source(taken(spec), edited=edited))
    assert content.files_edited_since == since


@pytest.mark.parametrize(
    ("agent", "strategy", "in_place"),
    [
        pytest.param(agent("term", "web"), Strategy.AUTO, True, id="by its agent"),
        pytest.param(agent("none", "web"), Strategy.AUTO, False, id="it only reloads"),
        pytest.param(agent("term", "log"), Strategy.AUTO, False, id="of another container"),
        pytest.param(agent("term", "web"), Strategy.ROLLOUT, False, id="rolled out instead"),
        pytest.param(None, Strategy.AUTO, False, id="no agent"),
    ],
)
def test_agent_that_restarts_a_container_is_evidence_for_it(
    agent: Agent | None, strategy: Strategy, in_place: bool
) -> None:
    policy = Policy(opted_in=True, agent=agent, strategy=strategy)
    ((_, change),) = desired_content(taken(ENV, policy)).start_changes
    assert change.in_place is in_place


@pytest.mark.parametrize(
    ("policy", "current"),
    [
        pytest.param(REREADS, True, id="the application re-reads its files"),
        pytest.param(Policy(opted_in=True), False, id="it reads them at start"),
    ],
)
def test_template_is_compared_with_what_pods_read_at_start(policy: Policy, current: bool) -> None:
    """It was written for the environment, and the file was edited later."""
    found = with_source(
        taken(ENV_AND_FILES, policy, written_at=950.0), start=StartBound(900.0, None, True, False)
    )
    assert has_current_template(found) is current


@pytest.mark.parametrize(
    ("spec", "adopted", "is_awaited"),
    [
        pytest.param(FILES, False, True, id="created while its pods waited"),
        pytest.param(FILES, True, False, id="adopted as it was"),
        pytest.param(
            FILES.replace("name: app}", "name: app, optional: true}"),
            False,
            False,
            id="optional",
        ),
    ],
)
def test_created_source_was_awaited(spec: str, adopted: bool, is_awaited: bool) -> None:
    """Containers that require it have not started before; one that was adopted may be a return."""
    who, item = deployment(spec), app(changed_at=900.0)
    record = record_after(who, applied_record(who), assess_change(who, [], [item], started=[905]))
    if adopted:
        sources = tuple(msgspec.structs.replace(each, adopted="1") for each in record.sources)
        record = msgspec.structs.replace(record, sources=sources)
    content = desired_content(snapshot(who, item, record=record))
    expected = (900.0, -inf) if is_awaited else (-inf, 900.0)
    assert (content.files_awaited, content.files_not_awaited) == expected
