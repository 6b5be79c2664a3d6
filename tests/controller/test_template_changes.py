"""When a pod template was edited, from what its own controller reports later."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.objects import ENV, consumer

from hotmap.controller.watch.changes import ChangeListener
from hotmap.controller.watch.index import Index
from hotmap.controller.watch.templates import TemplateChanges
from hotmap.core.model.consumer import Consumer
from hotmap.core.policy.policy import Defaults


class Watched:
    """A workload whose states are recorded one after the other, a second apart."""

    def __init__(self, kind: str = "Deployment") -> None:
        self.now = 0.0
        self.changes = TemplateChanges(lambda: self.now)
        state = {"generation": 1, "template_version": "1", "rolling": False}
        self.consumer: Consumer = msgspec.structs.replace(consumer(kind, ENV), **state)

    def becomes(self, **fields: object) -> None:
        self.now += 1
        new = msgspec.structs.replace(self.consumer, **fields)
        self.changes.record_change(self.consumer, new)
        self.consumer = new

    def edited_at(self) -> float | None:
        found = self.changes.last_change(self.consumer.key)
        return found.at if found else None


def test_edit_is_dated_by_its_generation_and_not_by_the_report() -> None:
    watched = Watched()
    watched.becomes(generation=2, rolling=True)
    watched.becomes(rolling=True)
    watched.becomes(template_version="2", rolling=True)
    assert watched.edited_at() == 1


def test_reported_generation_without_a_new_template_is_not_an_edit_of_it() -> None:
    """An annotation or a scale increases it; a later edit is dated by its own generation."""
    watched = Watched()
    watched.becomes(generation=2, rolling=True)
    watched.becomes(rolling=False)
    assert watched.edited_at() is None
    watched.becomes(generation=3, rolling=True)
    watched.becomes(template_version="2", rolling=True)
    assert watched.edited_at() == 3


def test_edits_during_a_rollout_are_dated_by_the_first() -> None:
    """Which of them changed the template is not known, and an early time is the safe one."""
    watched = Watched()
    watched.becomes(generation=2, rolling=True)
    watched.becomes(generation=3, rolling=True)
    watched.becomes(template_version="2", rolling=True)
    assert watched.edited_at() == 1


def test_edit_of_a_daemon_set_is_dated_by_itself() -> None:
    """The API server changes the version of its template with the template."""
    watched = Watched("DaemonSet")
    watched.becomes(generation=2, template_version="2", rolling=True)
    watched.becomes(rolling=False)
    assert watched.edited_at() == 1


@pytest.mark.parametrize(
    ("kind", "fields", "is_created"),
    [
        ("Deployment", {"template_version": ""}, True),
        ("Deployment", {"template_version": "1"}, False),
        ("DaemonSet", {"template_version": "1", "wanted": 0}, True),
        ("DaemonSet", {"template_version": "1", "wanted": 2}, False),
        ("DaemonSet", {"template_version": "2", "wanted": 0, "generation": 2}, False),
    ],
)
def test_new_workload_was_created_if_it_has_made_no_pods(
    kind: str, fields: dict[str, Any], is_created: bool
) -> None:
    """Others have come into sight, and their pods may be of any age."""
    changes = TemplateChanges(lambda: 1.0)
    new = msgspec.structs.replace(consumer(kind, ENV), **{"rolling": True, **fields})
    changes.record_creation(new)
    found = changes.last_change(new.key)
    assert (found is not None and found.created) is is_created


@pytest.mark.parametrize(("version", "edited_at"), [("2", 2), ("1", None)])
def test_version_that_a_replacement_removes_is_compared_with_the_next(
    version: str, edited_at: float | None
) -> None:
    """`kubectl replace` of a manifest removes the annotation; the template may be the same."""
    watched = Watched()
    watched.becomes(available=1)
    watched.becomes(generation=2, template_version="", rolling=True)
    watched.becomes(template_version="", rolling=True)
    watched.becomes(template_version=version, rolling=True)
    watched.becomes(rolling=False)
    assert watched.edited_at() == edited_at
    watched.becomes(generation=3, rolling=True)
    watched.becomes(template_version="3", rolling=True)
    assert watched.edited_at() == 6


def test_deleted_workload_is_forgotten() -> None:
    """Workloads are created and deleted for as long as a controller runs."""
    index = Index(defaults=Defaults())
    ChangeListener(index, clock=lambda: 1.0, monotonic=lambda: 0.0)
    store = index.consumers["DaemonSet"]
    new = msgspec.structs.replace(consumer("DaemonSet", ENV), generation=1, rolling=True, wanted=0)
    store.put(new.key, new)
    assert index.templates.last_change(new.key) is not None
    store.remove(new.key)
    assert index.templates.last_change(new.key) is None
