"""Whether a consumer is behind its sources, before that was decided on."""

from __future__ import annotations

import pytest
from tests.core.freshness import B_FROZEN, OPTIONAL_ENV, A, app, applied_record, deployment
from tests.support.objects import ENV, config_map, snapshot

from hotmap.core.model.objects import ConfigMap, ObjectKey

APP = ObjectKey("ConfigMap", "shop", "app")


@pytest.mark.parametrize(
    ("spec", "now", "behind", "behind_if_gone_count"),
    [
        pytest.param(ENV, [app()], False, False, id="the applied content"),
        pytest.param(ENV, [app(B_FROZEN)], True, True, id="other content"),
        pytest.param(ENV, [app({**A, "more": "1"})], False, False, id="a data key without a use"),
        pytest.param(ENV, [], False, True, id="a required source is gone"),
        pytest.param(OPTIONAL_ENV, [], True, True, id="an optional source is gone"),
    ],
)
def test_consumer_is_behind_other_content(
    spec: str, now: list[ConfigMap], behind: bool, behind_if_gone_count: bool
) -> None:
    """Once a decision was made on a required source that is gone, nothing follows from it."""
    who = deployment(spec)
    taken = snapshot(who, *now, record=applied_record(who, app()))
    assert taken.is_behind(gone_count=False) is behind
    assert taken.is_behind(gone_count=True) is behind_if_gone_count


@pytest.mark.parametrize(
    ("spec", "now", "missing"),
    [
        (ENV, [app()], ()),
        (ENV, [], (APP,)),
        (ENV, [config_map("other")], (APP,)),
        (OPTIONAL_ENV, [], ()),
    ],
)
def test_missing_sources_are_those_that_containers_require(
    spec: str, now: list[ConfigMap], missing: tuple[ObjectKey, ...]
) -> None:
    """An optional source that does not exist is as its user wants it."""
    assert snapshot(deployment(spec), *now).missing_sources == missing


def test_hidden_source_is_not_missing() -> None:
    """It may exist: hotmap may not list it, or a selector leaves it out."""
    taken = snapshot(deployment(ENV))
    hidden = tuple(source._replace(visible=False) for source in taken.sources)
    assert taken._replace(sources=hidden).missing_sources == ()
