"""Objects that nest deeper than a JSON decoder can follow are read all the same."""

from __future__ import annotations

import msgspec
import pytest

from hotmap.core.model.limits import LimitExceeded
from hotmap.core.model.objects import ConfigMap
from hotmap.kube.decoding import MOST_TOKENS, decode, decoding_problem, without_deep_values
from hotmap.kube.status import read_status
from hotmap.kube.watch import Added, Unreadable, WatchDecoder

#: More than any version of Python decodes recursively.
LEVELS = 12_000


def nested(levels: int) -> bytes:
    return b'{"f:a":' * levels + b"{}" + b"}" * levels


def config_map(levels: int = LEVELS) -> bytes:
    """A ConfigMap whose managedFields nest so many levels."""
    return (
        b'{"metadata":{"name":"app","namespace":"default","resourceVersion":"7",'
        b'"managedFields":[{"manager":"m","time":"2026-01-01T00:00:00Z","fieldsV1":%b}]},'
        b'"data":{"LEVEL":"]}\\"{"}}' % nested(levels)
    )


def test_decode_reads_an_object_that_nests_deeply() -> None:
    item = decode(msgspec.json.Decoder(ConfigMap), config_map())
    assert (item.metadata.name, item.data) == ("app", {"LEVEL": ']}"{'})


def test_exceeded_limit_is_named_and_other_errors_are_not_quoted() -> None:
    """A limit's text has numbers alone; that of any other exception may have content."""
    limit = LimitExceeded("data keys", 5_000, 5_001)
    assert decoding_problem(limit) == "5,001 data keys (limit 5,000)"
    assert decoding_problem(ValueError("content")) == "ValueError while decoding it"


def test_watch_decoder_reads_an_object_that_nests_deeply() -> None:
    """One line of a watch, and the line after it."""
    decoder = WatchDecoder(ConfigMap)
    line = b'{"type":"ADDED","object":%b}\n'
    events = decoder.feed(line % config_map() + line % config_map(1))
    assert [type(event) for event in events] == [Added, Added]


@pytest.mark.parametrize("event", ["ADDED", "DELETED"])
def test_object_that_nests_deeply_with_very_many_values_is_unreadable(event: str) -> None:
    """It would hold up everything else for a quarter of a second; the next line is read."""
    many = b'{%s"d":%s}' % (b'"":{},' * MOST_TOKENS, nested(LEVELS))
    item = config_map().replace(nested(LEVELS), many)
    decoder = WatchDecoder(ConfigMap)
    line = b'{"type":"%b","object":%b}\n'
    [large, other] = decoder.feed(line % (event.encode(), item) + line % (b"ADDED", config_map(1)))
    assert isinstance(large, Unreadable)
    assert (large.metadata.name, large.metadata.resource_version) == ("app", "7")
    assert large.deleted is (event == "DELETED")
    assert large.problem == "values nested too deeply, and more than 50,000 of them"
    assert isinstance(other, Added)


def test_forged_managed_fields_do_not_end_the_watch() -> None:
    """A name of a field within a string is not a field."""
    forged = config_map().replace(b'"name":"app"', b'"name":"app\\"managedFields\\":"')
    item = forged.replace(nested(LEVELS), b"[%s%s]" % (b"[]," * MOST_TOKENS, nested(LEVELS)))
    [event] = WatchDecoder(ConfigMap).feed(b'{"type":"ADDED","object":%b}\n' % item)
    assert isinstance(event, Unreadable)
    assert event.metadata.name == 'app"managedFields":'


def test_status_that_nests_deeply_is_read() -> None:
    body = b'{"kind":"Status","message":"no","details":{"causes":%b}}' % nested(LEVELS)
    assert read_status(body).message == "no"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (b"{}", b"{}"),
        (b'{"a":[1,{"b":{"c":1}},"]}{["],"d":{"e":2}}', b'{"a":[1,null,"]}{["],"d":{"e":2}}'),
        (b'{"a":[[1],[2]],"b":3}', b'{"a":[null,null],"b":3}'),
        (b'{"a":[[["\\\\"]]]}', b'{"a":[null]}'),
        (b'{"a":[[1', b'{"a":[[1'),
    ],
)
def test_deep_values_are_cut_at_a_depth(text: bytes, kept: bytes) -> None:
    assert without_deep_values(text, deepest=2) == kept
