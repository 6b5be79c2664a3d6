"""CEL: types that are wrong are refused where they can be told, and no expression takes long."""

from __future__ import annotations

from typing import Any

import pytest

from hotmap.local.apiserver.custom import expression_cost, rules
from hotmap.local.apiserver.custom.expression_cost import exceeds_limit, is_oversized
from hotmap.local.apiserver.custom.expression_types import (
    NOT_BOOL,
    NOT_STRING,
    constant_type,
    rule_type_error,
    text_error,
)
from hotmap.local.apiserver.custom.rule_validation import cost_errors
from hotmap.local.apiserver.expressions import ExpressionError, evaluate_expression
from hotmap.local.apiserver.kinds.validation.admission_policies import admission_policy_errors

pytest.importorskip("cel")

SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "num": {"type": "integer"},
        "text": {"type": "string"},
        "date": {"type": "string", "format": "date-time"},
        "flag": {"type": "boolean"},
        "list": {"type": "array", "items": {"type": "string"}},
        "inner": {"type": "object", "properties": {"flag": {"type": "boolean"}}},
        "x-y": {"type": "integer"},
    },
}
OPEN: dict[str, Any] = {
    **SPEC,
    "properties": {
        **SPEC["properties"],
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        (
            "self.nope == 1",
            "ERROR: <input>:1:5: undefined field 'nope'\n | self.nope == 1\n | ....^",
        ),
        (
            "self.flag &&\n  self.inner.x",
            "ERROR: <input>:2:13: undefined field 'x'\n |   self.inner.x\n | ............^",
        ),
        ("self.num + 1", NOT_BOOL),
        ("self.text", NOT_BOOL),
        ("'true'", NOT_BOOL),
        ("self.list.map(x, x)", NOT_BOOL),
    ],
)
def test_rule_of_wrong_type_is_refused(rule: str, error: str) -> None:
    found = rule_type_error(rule, SPEC, is_root=False)
    assert found.removeprefix("compilation failed: ") == error


@pytest.mark.parametrize(
    "rule",
    [
        "self.flag",
        "self.inner.flag || self.num > 1",
        "self.x__dash__y == 1",
        "oldSelf.num <= self.num",
        "has(self.text) && self.text.size() < 3",
        "self.list.all(x, x != '') && self.list[0] == 'a'",
        "int(self.text) > 1",
        "timestamp('2024-01-01T00:00:00Z') < self.date",
        "self.date.getFullYear() > 2000",
        "{'nope': true}.nope",
        "self.list.exists(x, self.list.exists(y, x == y && y.startsWith('.nope')))",
        "self.unknownFunction(1)",
    ],
)
def test_rule_that_kubernetes_takes_is_kept(rule: str) -> None:
    assert rule_type_error(rule, SPEC, is_root=False) == ""
    assert text_error(rule, ("self", "oldSelf")) == ""


def test_message_is_a_text() -> None:
    assert rule_type_error("self.num", SPEC, is_root=False, is_message=True) == NOT_STRING
    assert rule_type_error("'a' + self.text", SPEC, is_root=False, is_message=True) == ""


def test_keys_of_maps_are_not_known() -> None:
    assert rule_type_error("self.map.a == 'b' && self.nope == 1", OPEN, is_root=False) == ""


def test_root_has_metadata() -> None:
    assert rule_type_error("self.metadata.name == 'a'", SPEC, is_root=True) == ""
    error = rule_type_error("self.metadata.name == 'a'", SPEC, is_root=False)
    assert "undefined field 'metadata'" in error


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("foo == 1", "ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')"),
        ("self.a == 'foo' + foo", "ERROR: <input>:1:19: undeclared reference to 'foo'"),
        ("self.a.all(x, y > x)", "ERROR: <input>:1:15: undeclared reference to 'y'"),
        ("self = 1", "ERROR: <input>:1:6: Syntax error: "),
    ],
)
def test_undeclared_names_are_found(text: str, error: str) -> None:
    assert text_error(text, ("self",)).startswith(error)


def test_types_of_constants_are_known() -> None:
    assert [constant_type(text) for text in ("1", "'a'", "true", "1.5", "self.a", "[1]")] == [
        "int", "string", "bool", "double", "", "list",
    ]  # fmt: skip


def test_policy_with_wrong_expressions_is_refused() -> None:
    """Texts as kube-apiserver's."""
    asked = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"]}
    rules_ = [{**asked, "resources": ["deployments"]}]
    policy = {
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": rules_},
            "matchConditions": [{"name": "a", "expression": "1"}],
            "variables": [{"name": "v", "expression": "1"}],
            "validations": [
                {"expression": "params.x == variables.v"},
                {"expression": "true", "messageExpression": "1"},
                {"expression": "object.a == request.b", "messageExpression": "foo."},
            ],
            "auditAnnotations": [{"key": "k", "valueExpression": "1"}],
        }
    }
    found = [str(error).partition("\n")[0] for error in admission_policy_errors(policy)]
    assert found == [
        'spec.matchConditions[0].expression: Invalid value: "1": must evaluate to bool but got int',
        'spec.validations[0].expression: Invalid value: "params.x == variables.v": compilation '
        "failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')",
        'spec.validations[1].messageExpression: Invalid value: "1": must evaluate to string but '
        "got int",
        'spec.validations[2].messageExpression: Invalid value: "foo.": compilation failed: ERROR: '
        "<input>:1:5: Syntax error: no viable alternative at input '.'",
        'spec.auditAnnotations[0].valueExpression: Invalid value: "1": must evaluate to one of '
        "[string null_type] but got int",
    ]


_TEN = "[1,2,3,4,5,6,7,8,9,10]"


def nested(depth: int) -> str:
    """Loops in one another over a list that the expression itself has."""
    body = "a0 > 0"
    for level in reversed(range(depth)):
        body = f"{_TEN}.all(a{level}, {body})"
    return body


@pytest.mark.parametrize(
    ("text", "size", "exceeds"),
    [
        ("self.all(x, self.all(y, x == y))", 725, True),
        ("self.all(x, self.all(y, x == y))", 500, False),
        (" && ".join(["self.all(x, x > 0)"] * 9), 3_000, False),
        ("self.all(x, '.all(.all(.all('.size() > x)", 3_000, False),
        (nested(8), 0, True),
        (nested(2), 0, False),
    ],
)
def test_cost_counts_loops_in_one_another(text: str, size: int, exceeds: bool) -> None:
    assert exceeds_limit(text, {"self": [1] * size}) is exceeds


def test_cost_counts_long_texts() -> None:
    text = "self.list.all(x, self.text.contains(x))"
    assert exceeds_limit(text, {"self": {"list": ["a"] * 1_000, "text": "a" * 1_000_000}})
    assert not exceeds_limit(text, {"self": {"list": ["a"] * 1_000, "text": "a" * 1_000}})
    split = "self.text.split('').all(x, self.text.split('').all(y, x != y))"
    assert exceeds_limit(split, {"self": {"text": "a" * 10_000}})


def test_costly_expression_of_policy_has_no_value() -> None:
    with pytest.raises(ExpressionError, match="actual cost limit exceeded"):
        evaluate_expression(nested(8), {})


def test_variables_do_not_grow_without_bound() -> None:
    """Each doubles the one before it."""
    variables: dict[str, Any] = {"v": "x" * 1_000}
    with pytest.raises(ExpressionError, match="actual cost limit exceeded"):
        for _ in range(40):
            variables["v"] = evaluate_expression("v + v", variables)
    assert not is_oversized(variables["v"])


def test_replacements_do_not_grow_without_bound() -> None:
    text = "'aaaaaaaaaa'" + ".replace('a', 'aaaaaaaaaa')" * 20
    with pytest.raises(ExpressionError, match="too long"):
        evaluate_expression(text, {})


def test_rules_of_one_write_share_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found before is told as well."""
    item = {"type": "integer", rules.RULES: [{"rule": "self > 1", "message": "too few"}]}
    schema = {"type": "object", "properties": {"list": {"type": "array", "items": item}}}
    checks = iter([False, True])
    monkeypatch.setattr(expression_cost.Budget, "is_spent", lambda _: next(checks))
    found = rules.rule_errors({"list": [1, 1, 1]}, None, schema)
    assert [str(error) for error in found] == [
        "list[0]: Invalid value: 1: too few",
        'list[1]: Invalid value: "integer": validation failed due to running out of cost budget, '
        "no further validation rules will be run",
    ]


def array(of: dict[str, Any], rule: str = "", **limits: Any) -> dict[str, Any]:
    validations = {rules.RULES: [{"rule": rule}]} if rule else {}
    return {"type": "array", "items": of, **limits, **validations}


TEXT = {"type": "string"}
COSTLY = (
    "estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule, or "
    "adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
)


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        (array(TEXT, "self.all(x, self.all(y, x == y))"), "s"),
        (array(array(TEXT, "self.all(x, x == 'a')")), "s.items"),
        (array(array(TEXT), "self.all(x, x.all(y, y == 'a'))"), "s"),
    ],
)
def test_rule_far_beyond_the_limit_is_refused(schema: dict[str, Any], path: str) -> None:
    """Loops over lists without a bound, in one another or for each item of another list."""
    first, second, total = cost_errors(schema, "s")
    at = f"{path}.{rules.RULES}[0].rule"
    assert str(first) == f"{at}: Forbidden: {COSTLY}"
    assert str(second).startswith(f"{at}: Forbidden: contributed to estimated rule cost total ")
    assert str(total).startswith("s: Forbidden: x-kubernetes-validations estimated rule cost tot")


@pytest.mark.parametrize(
    "schema",
    [
        array(TEXT, "self.all(x, x == 'a')"),
        array(TEXT, "self.all(x, self.all(y, x == y))", maxItems=100),
        array(TEXT, "self.all(x, x != '') && self.all(x, x != 'a')"),
        array(array(TEXT, "self.all(x, x == 'a')", maxItems=10)),
        {"type": "object", rules.RULES: [{"rule": "self.all(x, self.a.b.all(y, x == y))"}]},
    ],
)
def test_rule_within_the_limit_is_kept(schema: dict[str, Any]) -> None:
    assert list(cost_errors(schema, "s")) == []
