"""Bytes of a watch stream into watch events, wherever the bytes are cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotmap.core.errors import Expired, Unavailable
from hotmap.core.model.objects import ConfigMap, ObjectMeta, Workload
from hotmap.kube.watch import (
    LONGEST_LINE,
    Added,
    Bookmark,
    Deleted,
    Failure,
    Modified,
    Unreadable,
    WatchDecoder,
)


def line(event: str, made: Any) -> bytes:
    return json.dumps({"type": event, "object": made}).encode() + b"\n"


def configmap(name: str, version: int, data: str = "") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "resourceVersion": str(version)}
    return {"kind": "ConfigMap", "metadata": metadata, "data": {"value": data}}


def decoded(name: str, version: int, data: str = "") -> ConfigMap:
    metadata = ObjectMeta(name=name, namespace="default", resource_version=str(version))
    return ConfigMap(metadata=metadata, data={"value": data})


STREAM = (
    line("ADDED", configmap("a", 1, "line one\nline two ☃"))
    + line("MODIFIED", configmap("a", 2))
    + line("BOOKMARK", {"metadata": {"resourceVersion": "3"}})
    + b"\n"
    + line("DELETED", configmap("a", 4))
)
EVENTS = [
    Added(decoded("a", 1, "line one\nline two ☃")),
    Modified(decoded("a", 2)),
    Bookmark("3", initial_events_end=False),
    Deleted(decoded("a", 4)),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12).map(sorted))
def test_result_is_independent_of_chunk_borders(cuts: list[int]) -> None:
    """Any chunks of the same bytes give the same watch events, and leave nothing over."""
    decoder = WatchDecoder(ConfigMap)
    events = []
    for start, end in zip([0, *cuts], [*cuts, len(STREAM)], strict=True):
        events += decoder.feed(STREAM[start:end])
    assert [(type(event), event) for event in events] == [(type(event), event) for event in EVENTS]
    assert decoder.close() == 0


def test_half_a_line_is_dropped_at_the_end() -> None:
    """It may be an object cut short, so it is not a watch event; its bytes are told."""
    decoder = WatchDecoder(ConfigMap)
    assert len(decoder.feed(STREAM + b'{"type":"ADDED"')) == 4
    assert decoder.close() == 15
    assert decoder.feed(STREAM) == EVENTS


def test_marker_of_the_initial_objects_is_seen() -> None:
    """KEP-3157: a bookmark with the annotation k8s.io/initial-events-end."""
    marker = {
        "metadata": {"resourceVersion": "5", "annotations": {"k8s.io/initial-events-end": "true"}}
    }
    [event] = WatchDecoder(ConfigMap).feed(line("BOOKMARK", marker))
    assert event == Bookmark("5", initial_events_end=True)


@pytest.mark.parametrize("kind", [ConfigMap, Workload])
def test_error_is_a_failure_whatever_the_kind(kind: type) -> None:
    """A Status decodes as an empty ConfigMap but contradicts a workload; both are told apart."""
    status = {
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "message": "too old resource version: 1 (7679)",
        "reason": "Expired",
        "code": 410,
    }
    event: object
    [event] = WatchDecoder(kind).feed(line("ERROR", status))
    assert isinstance(event, Failure)
    assert isinstance(event.error, Expired)
    assert str(event.error) == "too old resource version: 1 (7679)"


def test_retry_wish_in_an_error_is_kept() -> None:
    """details.retryAfterSeconds, as a server that is behind sends it."""
    status = {"kind": "Status", "code": 504, "details": {"retryAfterSeconds": 1}}
    [event] = WatchDecoder(ConfigMap).feed(line("ERROR", status))
    assert isinstance(event, Failure)
    assert isinstance(event.error, Unavailable)
    assert event.error.retry_after == 1.0


def test_malformed_object_is_named_and_skipped() -> None:
    """Its resourceVersion is known, so the stream can be resumed behind it."""
    broken = configmap("a", 7)
    broken["data"] = {"value": 5}
    events = WatchDecoder(ConfigMap).feed(line("ADDED", broken) + line("ADDED", configmap("b", 8)))
    assert isinstance(events[0], Unreadable)
    assert (events[0].metadata.name, events[0].metadata.resource_version) == ("a", "7")
    assert events[1] == Added(decoded("b", 8))


def test_invalid_json_ends_the_watch() -> None:
    """A proxy's error page in the stream, for example."""
    [event] = WatchDecoder(ConfigMap).feed(b"<html>Bad Gateway</html>\n")
    assert isinstance(event, Failure)
    assert isinstance(event.error, Unavailable)


def test_endless_line_is_rejected() -> None:
    """Memory stays bounded, however much a broken server sends."""
    decoder = WatchDecoder(ConfigMap)
    chunk = b"x" * (1 << 20)
    events = [event for _ in range(LONGEST_LINE // len(chunk) + 1) for event in decoder.feed(chunk)]
    assert [type(event) for event in events] == [Failure]
    assert decoder.close() == 0
