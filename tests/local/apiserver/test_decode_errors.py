"""What is wrong with a body is said as Go's decoders say it (recorded from encoding/json)."""

from __future__ import annotations

import pytest

from hotmap.local.apiserver.decode_errors import json_error, time_error
from hotmap.local.apiserver.negotiation import decode_patch, in_meta_version
from hotmap.local.apiserver.yaml_reader import YamlError, read_yaml


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "unexpected end of JSON input"),
        (b"{", "unexpected end of JSON input"),
        (b"hello", "invalid character 'h' looking for beginning of value"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"{a}", "invalid character 'a' looking for beginning of object key string"),
        (b"\x1f", r"invalid character '\x1f' looking for beginning of value"),
        (b"\x07", r"invalid character '\a' looking for beginning of value"),
        (b"\x80", r"invalid character '\u0080' looking for beginning of value"),
        (b"{} x", "invalid character 'x' after top-level value"),
        (b"tru'", r"invalid character '\'' in literal true (expecting 'e')"),
        (b"-x", "invalid character 'x' in numeric literal"),
        (b"1.x", "invalid character 'x' after decimal point in numeric literal"),
        (b"1ex", "invalid character 'x' in exponent of numeric literal"),
        (rb'"\x"', "invalid character 'x' in string escape code"),
        (rb'"\u00g0"', r"invalid character 'g' in \u hexadecimal character escape"),
        (
            b'[{"a": [1, {"b": null}]}, "c",]',
            "invalid character ']' looking for beginning of value",
        ),
    ],
)
def test_json_error_is_that_of_go(body: bytes, text: str) -> None:
    assert json_error(body) == text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"a: [", "yaml: line 1: did not find expected node content"),
        (b"a: b: c", "yaml: mapping values are not allowed in this context"),
        (b"- x\n y: [}", "yaml: line 2: mapping values are not allowed in this context"),
    ],
)
def test_yaml_error_is_that_of_go(body: bytes, text: str) -> None:
    with pytest.raises(YamlError) as error:
        read_yaml(body)
    assert str(error.value) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2026-01-02T03:04:05Z", ""),
        ("2026-01-02T03:04:05.678+01:00", ""),
        (
            "soon",
            'parsing time "soon" as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006"',
        ),
        ("2026-01-02T03:04:05Zx", 'parsing time "2026-01-02T03:04:05Zx": extra text: "x"'),
    ],
)
def test_time_error_is_that_of_go(text: str, why: str) -> None:
    assert time_error(text) == why


def test_configuration_may_have_tabs_and_trailing_commas() -> None:
    body = b'{\n\t"a": {\n\t\t"b":\t"c",\n\t}\n}'
    assert decode_patch(body, "application/apply-patch+yaml") == ("apply", {"a": {"b": "c"}}, "")


def test_table_has_the_version_that_was_asked_for() -> None:
    body = b'{"kind":"Table","apiVersion":"meta.k8s.io/v1"}'
    older = "application/json;as=Table;v=v1beta1;g=meta.k8s.io"
    assert in_meta_version(body, older) == body.replace(b"/v1", b"/v1beta1")
    assert in_meta_version(body, f"{older.replace('v1beta1', 'v1')},{older}") == body
