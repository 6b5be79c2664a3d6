"""The rules of a definition are checked before they are used; texts read from kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from hotmap.local.apiserver.custom.rule_validation import compile_errors, rule_errors

AT = "x-kubernetes-validations[0]"


def schema(**rule: Any) -> dict[str, Any]:
    return {"type": "object", "x-kubernetes-validations": [rule]}


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ({"rule": " "}, f"s.{AT}.rule: Required value: rule is not specified"),
        (
            {"rule": "self.a", "message": " "},
            f's.{AT}.message: Invalid value: " ": must be non-empty if specified',
        ),
        (
            {"rule": "self.a", "message": "a\nb"},
            f's.{AT}.message: Invalid value: "a\\nb": must not contain line breaks',
        ),
        (
            {"rule": "self.a\n> 1"},
            f"s.{AT}.message: Required value: message must be specified if rule contains line "
            "breaks",
        ),
        (
            {"rule": "self.a", "messageExpression": " "},
            f"s.{AT}.messageExpression: Required value: messageExpression must be non-empty if "
            "specified",
        ),
        (
            {"rule": "self.a", "reason": "X"},
            f's.{AT}.reason: Unsupported value: "X": supported values: "FieldValueDuplicate", '
            '"FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"',
        ),
    ],
)
def test_rule_without_a_part_is_wrong(rule: dict[str, Any], error: str) -> None:
    assert [str(found) for found in rule_errors(schema(**rule), "s")] == [error]


@pytest.mark.parametrize("place", ["items", "additionalProperties", "properties"])
def test_rule_that_is_not_cel_is_found_at_any_depth(place: str) -> None:
    pytest.importorskip("cel")
    inner: Any = schema(rule="self = 42", message="m")
    path = "s.properties[a]" if place == "properties" else f"s.{place}"
    outer = {place: {"a": inner} if place == "properties" else inner}
    assert [str(found) for found in compile_errors(outer, "s")] == [
        f'{path}.{AT}.rule: Invalid value: {{"Rule":"self = 42","Message":"m",'
        '"MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: '
        "compilation failed: ERROR: <input>:1:6: Syntax error: token recognition error at: '= '\n"
        " | self = 42\n | .....^\n"
        "ERROR: <input>:1:8: Syntax error: extraneous input '42' expecting <EOF>\n"
        " | self = 42\n | .......^"
    ]


@pytest.mark.parametrize(
    "rule",
    ["self.all(x, y, x < y)", "self[?0].orValue(1) == 1", "self.?a.hasValue()", "self.`a-b` == 1"],
)
def test_rule_that_only_this_parser_does_not_know_is_kept(rule: str) -> None:
    assert list(compile_errors(schema(rule=rule), "s")) == []
