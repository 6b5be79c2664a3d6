"""What is kept of a deleted workload for one that is created under its name."""

from __future__ import annotations

import pytest
from tests.support.objects import ENV, KEY, consumer

from hotmap.controller.storage.records import Records
from hotmap.controller.watch.index import Index
from hotmap.controller.watch.observation import Observer, ObserverSettings
from hotmap.core.model.state import Record, SourceRecord
from hotmap.core.policy.policy import Defaults


def record_of(sources: int, *, key_id: str = KEY.id) -> Record:
    """Make the record of a workload that used so many sources."""
    used = tuple(
        SourceRecord("ConfigMap", f"app-{number}", "uses", "uid", "1", "f", "", False)
        for number in range(sources)
    )
    return Record("uid-deleted", key_id, 1, used, namespace="shop")


@pytest.mark.parametrize(
    ("kind", "record", "kept"),
    [
        pytest.param("Deployment", record_of(3), True, id="an ordinary one"),
        pytest.param("StatefulSet", record_of(3), True, id="of any kind with rollouts"),
        pytest.param("CronJob", record_of(3), False, id="whose Jobs are deleted with it, mostly"),
        pytest.param("Deployment", record_of(33), False, id="one that would need much memory"),
        pytest.param("Deployment", record_of(3, key_id="lost"), False, id="with another key"),
    ],
)
def test_record_of_a_deleted_workload_is_kept(kind: str, record: Record, kept: bool) -> None:
    """Until the record of the new one is made."""
    index = Index(defaults=Defaults(follow="auto"))
    settings = ObserverSettings([KEY])
    observer = Observer(index=index, records=Records(), settings=settings, clock=lambda: 1000.0)
    new = consumer(kind, ENV)
    index.consumers[kind].put(new.key, new)
    observer.keep_record(new.key, record)
    snapshot = observer.snapshot(new.key)
    assert snapshot is not None
    assert (snapshot.predecessor == record) is kept


def test_records_of_deleted_workloads_are_bounded() -> None:
    """Those of the latest 1,024."""
    index = Index(defaults=Defaults(follow="auto"))
    settings = ObserverSettings([KEY])
    observer = Observer(index=index, records=Records(), settings=settings, clock=lambda: 1000.0)
    new = consumer("Deployment", ENV)
    index.consumers["Deployment"].put(new.key, new)
    observer.keep_record(new.key, record_of(3))
    for number in range(1024):
        observer.keep_record(new.key._replace(name=f"other-{number}"), record_of(3))
    snapshot = observer.snapshot(new.key)
    assert snapshot is not None
    assert snapshot.predecessor is None
