"""Pure functions, compared with the standard library's and the local kubelet's."""

from __future__ import annotations

import fnmatch
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotmap.agent.act.http import EndpointError, Response, parse_response
from hotmap.agent.decide.digest import digest_of, tree_digest
from hotmap.agent.decide.patterns import matches, select_files
from hotmap.agent.process import environment
from hotmap.agent.report.metric import Metric, format_metrics
from hotmap.agent.settings.settings import Call, EnvFrom, EnvSetting
from hotmap.agent.settings.values import parse_url
from hotmap.core.expansion import expand
from hotmap.local.kubelet import environment as kubelet

KEY = b"0123456789abcdef"
CALL = Call(parse_url("http://127.0.0.1/"))


@given(st.text("ab*?/", max_size=8), st.text("ab/", max_size=8))
def test_pattern_matches_as_in_a_shell(pattern: str, text: str) -> None:
    """`*` and `?` as fnmatch has them."""
    assert matches(pattern, text) == bool(re.match(fnmatch.translate(pattern), text))


@pytest.mark.parametrize("value", [1, 0.25, 1234567, 1795773843.123])
def test_metric_is_exact(value: float) -> None:
    """A time to the millisecond, and a counter that has passed a million."""
    text = format_metrics([Metric("some", "gauge", "Some.", [({}, value), ({"a": "b"}, value)])])
    assert text.splitlines()[2:] == [f"some {value}", f'some{{a="b"}} {value}']


def test_pattern_selects_by_relative_or_absolute_path() -> None:
    """Without a leading slash a pattern is about the path in its directory."""
    files = dict.fromkeys(["/etc/a/tls.crt", "/etc/a/sub/tls.crt", "/etc/b/tls.crt"], "")
    roots = ["/etc/a", "/etc/b"]
    assert select_files(files, ["tls.*"], roots) == {"/etc/a/tls.crt", "/etc/b/tls.crt"}
    assert select_files(files, ["/etc/a/*"], roots) == {"/etc/a/tls.crt", "/etc/a/sub/tls.crt"}
    assert select_files(files, ["*"], roots) == set(files)


#: Data keys, and texts that refer to some of them.
NAMES = st.sampled_from(["A", "B", "P_A", "my.key", "1st"])
TEXTS = st.text("$()AB_P x", max_size=8)
SOURCES = st.lists(
    st.tuples(st.sampled_from(["", "P_"]), st.dictionaries(NAMES, TEXTS, max_size=3)), max_size=3
)


@given(SOURCES, st.lists(st.tuples(NAMES, TEXTS), max_size=4))
def test_environment_equals_the_kubelets(
    sources: list[tuple[str, dict[str, str]]], variables: list[tuple[str, str]]
) -> None:
    """From the same ConfigMaps by envFrom, and the same env: the same variables and arguments.

    Held against the local plane's kubelet, which is held against a real one elsewhere.
    """
    container = {
        "envFrom": [
            {"prefix": prefix, "configMapRef": {"name": f"source-{number}"}}
            for number, (prefix, _) in enumerate(sources)
        ],
        "env": [{"name": name, "value": value} for name, value in variables],
        "command": ["app"],
        "args": ["$(A)-$(B)", "$$(A)", "$(P_A)$(none)"],
    }
    objects = {
        kubelet.SourceName("ConfigMap", f"source-{number}"): {"data": data}
        for number, (_, data) in enumerate(sources)
    }
    wanted = kubelet.make_environment({}, container, objects)
    found = environment.make_environment(
        {},
        {
            f"/source-{number}": {name: text.encode() for name, text in data.items()}
            for number, (_, data) in enumerate(sources)
        },
        [EnvFrom(prefix, f"/source-{number}") for number, (prefix, _) in enumerate(sources)],
        [EnvSetting(name, value) for name, value in variables],
    )
    assert found == wanted
    words = ["app", "$(A)-$(B)", "$$(A)", "$(P_A)$(none)"]
    assert [expand(word, found.get) for word in words] == kubelet.expand_command(container, wanted)


def test_environment_ignores_invalid_names() -> None:
    """Nested paths, "=" and NUL bytes; bytes that are not valid UTF-8 are kept."""
    contents = {"/a": {"x/y": b"1", "x=y": b"1", "nul": b"\0", "raw": b"\xff", "ok": b"2"}}
    found = environment.make_environment({}, contents, [EnvFrom("", "/a")], [])
    assert found == {"raw": os.fsdecode(b"\xff"), "ok": "2"}
    assert environment.find_impossible_values(contents, [EnvFrom("P_", "/a")]) == ["P_nul"]


@given(st.dictionaries(st.text(min_size=1), st.binary(max_size=20), max_size=5))
def test_tree_digest_differs_for_different_trees(files: dict[str, bytes]) -> None:
    """Order does not matter; another byte, name or key does."""

    def digest(tree: dict[str, bytes], key: bytes = KEY) -> str:
        return tree_digest({path: digest_of(data, key) for path, data in tree.items()}, key)

    reordered = dict(reversed(files.items()))
    assert digest(files) == digest(reordered)
    assert digest(files) != digest({**files, "another file": b""})
    assert not files or digest(files) != digest(files, b"another key")
    for path, data in files.items():
        assert digest(files) != digest({**files, path: data + b"x"})


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", Response(200, "OK", b"hi")),
        (b"HTTP/1.1 204 No Content\r\n\r\n", Response(204, "No Content", b"")),
        (b"HTTP/1.0 503 \r\nContent-Length: 0\r\n\r\n", Response(503, "", b"")),
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
            Response(200, "OK", b"x"),
        ),
        (b"HTTP/1.1 200 OK\nContent-Length: 4\n\na\n\nb", Response(200, "OK", b"a\n\nb")),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\n\r\nhi", Response(200, "OK", b"hi")),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"2\r\nab\r\n1;e\r\nc\r\n0\r\n\r\n",
            Response(200, "OK", b"abc"),
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"5\r\n0\r\n\r\n\r\n0\r\nTrailer: x\r\n\r\n",
            Response(200, "OK", b"0\r\n\r\n"),
        ),
    ],
    ids=["length", "no content", "no reason", "continue", "bare LF", "both", "chunked", "trailer"],
)
def test_response_is_parsed_from_any_pieces(data: bytes, answer: Response) -> None:
    """Every beginning is incomplete, the whole is the answer."""
    assert all(parse_response(data[:end], CALL, ended=False) is None for end in range(len(data)))
    assert parse_response(data, CALL, ended=False) == answer


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (b"Content-Length: 9", b"abc"),
        (b"Transfer-Encoding: chunked", b"9\r\nabc"),
        (b"Transfer-Encoding: chunked", b"3\r\nabc\r\n"),
        (b"Transfer-Encoding: chunked", b"3\r\nabc\r\nrubbish\r\n\r\n"),
    ],
)
def test_response_that_is_cut_says_so(head: bytes, body: bytes) -> None:
    """What has arrived is part of what the endpoint meant to send."""
    found = parse_response(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n" + body, CALL, ended=True)
    assert found == Response(200, "OK", b"abc", is_cut=True)


def test_response_with_numbers_of_any_length_is_handled() -> None:
    """Also with more digits than Python converts."""
    digits = b"9" * 5000
    with pytest.raises(EndpointError, match="does not speak HTTP"):
        parse_response(b"HTTP/1.1 " + digits + b" OK\r\n\r\n", CALL, ended=True)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: " + digits + b"\r\n\r\n"
    assert parse_response(head + b"abc", CALL, ended=True) == Response(200, "OK", b"abc")


@given(st.binary(max_size=200), st.booleans())
def test_response_of_any_bytes_is_handled(data: bytes, ended: bool) -> None:
    """Whatever an endpoint sends is an answer, an incomplete one, or one sentence."""
    for head in (b"", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"):
        try:
            parse_response(head + data, CALL, ended=ended)
        except EndpointError as error:
            assert "\n" not in str(error)
