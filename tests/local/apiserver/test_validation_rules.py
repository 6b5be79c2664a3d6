"""Validation rules in CEL: what holds, what is said of what does not, and what is too costly."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import pytest

from hotmap.local.apiserver.custom.kind import CustomStrategy
from hotmap.local.apiserver.custom.rules import rule_errors

STRING, INTEGER = {"type": "string"}, {"type": "integer"}


def spec(*rules: dict[str, Any] | str, **properties: Any) -> dict[str, Any]:
    """A schema with rules at `spec`."""
    described = [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]
    inner = {"type": "object", "properties": properties, "x-kubernetes-validations": described}
    return {"type": "object", "properties": {"spec": inner}}


def texts(value: Any, schema: dict[str, Any], old: Any = None) -> list[str]:
    before = None if old is None else {"spec": old}
    return [str(error) for error in rule_errors({"spec": value}, before, schema)]


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ("self.min <= self.max", {"min": 1, "max": 2}, {"min": 3, "max": 2}),
        ("!has(self.s) || self.s.startsWith('a')", {}, {"s": "b"}),
        ("self.s in ['a', 'b']", {"s": "a"}, {"s": "c"}),
        ("self.l.all(x, x > 0) && size(self.l) < 3", {"l": [1, 2]}, {"l": [0]}),
        ("self.l.exists_one(x, x == 1)", {"l": [1, 2]}, {"l": [1, 1]}),
        ("self.l.isSorted() && self.l.sum() < 9", {"l": [1, 2]}, {"l": [2, 1]}),
        ("self.s.find('[0-9]+') == '12'", {"s": "a12b"}, {"s": "ab"}),
        ("self.s.matches('^a+$')", {"s": "aa"}, {"s": "ab"}),
        ("quantity(self.s).isLessThan(quantity('1Gi'))", {"s": "5Mi"}, {"s": "2Gi"}),
        ("self.d < duration('1h')", {"d": "59m"}, {"d": "61m"}),
        ("self.t > timestamp('2020-01-01T00:00:00Z')",
         {"t": "2021-01-01T00:00:00Z"}, {"t": "2019-01-01T00:00:00Z"}),
        ("self.n < 1.5", {"n": 1}, {"n": 2}),
        ("self.a__dash__b == 1 && self.__in__ == 2", {"a-b": 1, "in": 2}, {"a-b": 1, "in": 3}),
        ("self.m.all(k, self.m[k].size() > 1)", {"m": {"a-b": "xx"}}, {"m": {"a-b": "x"}}),
    ],
)  # fmt: skip
def test_rule_distinguishes_good_from_bad(rule: str, good: Any, bad: Any) -> None:
    schema = spec(
        {"rule": rule, "message": "is wrong"},
        min=INTEGER, max=INTEGER, s=STRING, n={"type": "number"},
        l={"type": "array", "items": INTEGER},
        d={"type": "string", "format": "duration"}, t={"type": "string", "format": "date-time"},
        m={"type": "object", "additionalProperties": STRING},
        **{"a-b": INTEGER, "in": INTEGER},
    )  # fmt: skip
    assert texts(good, schema) == []
    assert texts(bad, schema) == ["spec: Invalid value: is wrong"]


def test_rule_on_change_needs_a_value_before() -> None:
    schema = spec({"rule": "self.n >= oldSelf.n", "message": "may not fall"}, n=INTEGER)
    assert texts({"n": 1}, schema) == []
    assert texts({"n": 2}, schema, {"n": 1}) == []
    assert texts({"n": 1}, schema, {"n": 2}) == ["spec: Invalid value: may not fall"]


def test_items_of_lists_with_keys_have_a_value_before() -> None:
    item = {
        "type": "object",
        "properties": {"k": STRING, "v": INTEGER},
        "x-kubernetes-validations": [{"rule": "self.v == oldSelf.v", "message": "is immutable"}],
    }
    items = {"type": "array", "items": item, "x-kubernetes-list-map-keys": ["k"]}
    before = {"items": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]}
    after = {"items": [{"k": "c", "v": 9}, {"k": "b", "v": 3}]}
    assert texts(after, spec(items=items), before) == ["spec.items[1]: Invalid value: is immutable"]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({"rule": "self.n > 1"}, "spec: Invalid value: failed rule: self.n > 1"),
        (
            {"rule": "self.n > 1", "messageExpression": "'is ' + string(self.n)", "message": "m"},
            "spec: Invalid value: is 1",
        ),
        (
            {"rule": "self.n > 1", "messageExpression": "self.none", "message": "m"},
            "spec: Invalid value: m",
        ),
        (
            {"rule": "self.n > 1", "message": "m", "reason": "FieldValueForbidden",
             "fieldPath": ".n"},
            "spec.n: Forbidden: m",
        ),
        ({"rule": "self.none > 1", "message": "m"}, 'spec: Invalid value: "object": '),
        ({"rule": "1 / (self.n - 1) > 0", "message": "m"}, 'spec: Invalid value: "object": '),
    ],
)  # fmt: skip
def test_broken_rule_is_reported_as_by_kubernetes(rule: dict[str, Any], text: str) -> None:
    (found,) = texts({"n": 1}, spec(rule, n=INTEGER))
    assert found.startswith(text)
    assert found == text or found.endswith(" evaluating rule: m")


def test_scalar_is_shown() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {**INTEGER, "x-kubernetes-validations": [{"rule": "self > 1"}]}},
    }
    found = rule_errors({"n": 1}, None, schema)
    assert [str(error) for error in found] == ["n: Invalid value: 1: failed rule: self > 1"]


def test_costly_rule_is_not_run() -> None:
    """Loops in loops over a long list would keep the server for minutes."""
    loops = "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))"
    schema = spec({"rule": loops}, l={"type": "array", "items": INTEGER})
    assert texts({"l": list(range(20))}, schema) == []
    (found,) = texts({"l": list(range(1_000))}, schema)
    assert "call cost exceeds limit" in found


@pytest.mark.parametrize(
    "rule", ["self.?n.orValue(1) == 1", "self.nonsense(", "url(self.s).getHost() == 'a'"]
)
def test_rule_that_cannot_be_compiled_is_logged(
    rule: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert texts({"n": 1, "s": "a"}, spec(rule, n=INTEGER, s=STRING)) == []
    assert caplog.text.count("a validation rule is not evaluated") == 1


def test_rules_wait_for_valid_types() -> None:
    """A rule could not make sense of a value of another type."""
    strategy = CustomStrategy({"schema": {"openAPIV3Schema": spec("self.n > 1", n=INTEGER)}})
    found = [str(error) for error in strategy.validate({"spec": {"n": "x"}})]
    assert found[-1].startswith(
        "<nil>: Invalid value: null: some validation rules were not checked"
    )
    assert len(found) == 2
    assert [str(e) for e in strategy.validate_update({"spec": {"n": 2}}, {"spec": {"n": 1}})] == [
        "spec: Invalid value: failed rule: self.n > 1"
    ]


def test_control_plane_starts_without_language_of_rules() -> None:
    """Its import is slow, and few clusters have rules."""
    code = "import sys, hotmap.local.cluster; sys.exit('cel' in sys.modules)"
    assert subprocess.run((sys.executable, "-c", code), check=False).returncode == 0
