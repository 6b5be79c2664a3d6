"""Checks of size, presence and syntax, on content as values."""

from __future__ import annotations

import pytest

from hotmap.agent.decide.content_checks import find_error
from hotmap.agent.settings.settings import ContentLimits

SIZE = ContentLimits(max_size=4)
PRESENT = ContentLimits(not_empty=("text",))
IN_ONE = ContentLimits(not_empty=("/b/text",))
JSON = ContentLimits(syntax=(("*.json", "json"),))
TOML = ContentLimits(syntax=(("*.toml", "toml"),))


@pytest.mark.parametrize(
    ("limits", "files", "error"),
    [
        pytest.param(SIZE, {"/a/text": b"1234"}, "", id="as large as permitted"),
        pytest.param(SIZE, {"/a/text": b"12345"}, "/a/text has 5 bytes, the maximum is 4",
                     id="too large"),
        pytest.param(ContentLimits(), {"/a/text": b"1" * 5000}, "", id="no limit"),
        pytest.param(PRESENT, {"/a/text": b"1"}, "", id="present"),
        pytest.param(PRESENT, {"/a/text": b" \n"}, "text is empty", id="empty"),
        pytest.param(PRESENT, {"/a/text": b"1", "/b/text": b""}, "text is empty",
                     id="empty in one of two directories"),
        pytest.param(PRESENT, {"/a/other": b"1"}, "no file matches text", id="absent"),
        pytest.param(IN_ONE, {"/a/text": b"", "/b/text": b"1"}, "", id="present there"),
        pytest.param(IN_ONE, {"/a/text": b"1"}, "no file matches /b/text", id="elsewhere"),
        pytest.param(JSON, {"/a/a.json": b'{"key": 1}'}, "", id="JSON"),
        pytest.param(JSON, {"/a/a.json": b'{"key": hunter2}'},
                     "/a/a.json is not valid JSON: line 1, column 9", id="not JSON"),
        pytest.param(JSON, {"/a/a.json": b'{"key": [-Infinity]}'},
                     "/a/a.json is not valid JSON: -Infinity is not a JSON number (RFC 8259)",
                     id="a number of Python's"),
        pytest.param(JSON, {"/a/a.json": b"[" * 100_000},
                     "/a/a.json is not valid JSON: nested too deeply", id="deep"),
        pytest.param(JSON, {"/a/a.json": b'"\xff"'},
                     "/a/a.json is not valid JSON: byte 1 is not UTF-8", id="not UTF-8"),
        pytest.param(JSON, {"/a/a.txt": b"hunter2"}, "", id="another file"),
        pytest.param(TOML, {"/a/a.toml": b"key = 1"}, "", id="TOML"),
        pytest.param(TOML, {"/a/a.toml": b"key = hunter2"},
                     "/a/a.toml is not valid TOML: line 1, column 7", id="not TOML"),
    ],
)  # fmt: skip
def test_first_error_is_described_without_quoting_content(
    limits: ContentLimits, files: dict[str, bytes], error: str
) -> None:
    contents: dict[str, dict[str, bytes]] = {}
    for name, data in files.items():
        _, directory, path = name.split("/")
        contents.setdefault(f"/{directory}", {})[path] = data
    assert find_error(contents, limits) == error
