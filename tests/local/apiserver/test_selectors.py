"""Label and field selectors: what they mean, and what is not a selector."""

from __future__ import annotations

import pytest

from hotmap.core.errors import BadRequest
from hotmap.local.apiserver.kinds.core.configmap import CONFIGMAPS
from hotmap.local.apiserver.kinds.core.event import EVENTS
from hotmap.local.apiserver.kinds.core.pod import PODS
from hotmap.local.selectors import (
    matches_label_selector,
    parse_fields,
    parse_labels,
)

LABELS = {"app": "web", "tier": "front", "n": "5", "empty": ""}
MATCHING = [
    "",
    "app=web",
    "app==web",
    "app!=db",
    "absent!=x",
    "app",
    "!absent",
    "app in (web, db)",
    "app in (web,)",
    "tier notin (back)",
    "absent notin (x)",
    "app=web,tier=front",
    " app = web , tier in ( front ) ",
    "empty=",
    "empty in ()",
    "n>4",
    "n<6",
]
OTHERS = [
    "app=db",
    "app!=web",
    "absent",
    "!app",
    "app in (db)",
    "app notin (web)",
    "app=web,tier=back",
    "absent=",
    "n>5",
    "n<5",
    "app>1",
    "absent in (x)",
]


@pytest.mark.parametrize("text", MATCHING)
def test_selectors_match_as_kubectls_do(text: str) -> None:
    """The grammar of kubectl's -l."""
    assert all(requirement.matches(LABELS) for requirement in parse_labels(text))


@pytest.mark.parametrize("text", OTHERS)
def test_selectors_exclude_as_kubectls_do(text: str) -> None:
    """Each of them excludes the labels."""
    assert not all(requirement.matches(LABELS) for requirement in parse_labels(text))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a in", "found '' expected: '('"),
        ("a in (b", "found '', expected: ',' or ')'"),
        ("a in (b c)", "found 'c', expected: ',' or ')'"),
        ("a===b", "found '=', expected: identifier"),
        ("a,", "found '', expected: identifier after ','"),
        ("a,=", "found '=', expected: identifier after ','"),
        ("a b", "found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("-a", 'Invalid value: "-a": name part must consist of alphanumeric characters'),
        ("a=-b", 'values[0][a]: Invalid value: "-b": a valid label must be an empty string'),
        ("a>b", "for 'Gt', 'Lt' operators, the value must be an integer"),
        ("a>99999999999999999999", "for 'Gt', 'Lt' operators, the value must be an integer"),
        ("a>-1", 'values[0][a]: Invalid value: "-1": a valid label must be an empty string'),
        ("a>+", 'the value must be an integer, values[0][a]: Invalid value: "+": a valid label'),
        ("a<(", "found '(', expected: identifier"),
        ("/é", "prefix part must be non-empty; name part must consist of alphanumeric"),
        ('"', '<nil>: Invalid value: "\\"": name part must consist of alphanumeric characters'),
    ],
)
def test_invalid_selectors_are_refused(text: str, why: str) -> None:
    """400 with upstream's explanation."""
    with pytest.raises(BadRequest) as caught:
        parse_labels(text)
    assert why in caught.value.message


@pytest.mark.parametrize("value", ["1_0", "\u0661\u0660", "9" * 20, ""])
def test_value_that_is_not_a_number_is_not_compared(value: str) -> None:
    """Python reads more as numbers than Go."""
    assert not parse_labels("a>1")[0].matches({"a": value})


def test_selector_that_does_not_end_is_not_an_invalid_requirement() -> None:
    with pytest.raises(BadRequest) as caught:
        parse_labels("a=b=c")
    assert caught.value.message == "found '=', expected: ',' or 'end of string'"


def test_label_selector_objects() -> None:
    """matchLabels and matchExpressions all have to hold; an empty selector means everything."""
    assert matches_label_selector({}, LABELS)
    assert matches_label_selector({"matchLabels": {"app": "web"}}, LABELS)
    expressions = [
        {"key": "app", "operator": "In", "values": ["web", "db"]},
        {"key": "absent", "operator": "DoesNotExist"},
        {"key": "tier", "operator": "Exists"},
        {"key": "tier", "operator": "NotIn", "values": ["back"]},
    ]
    assert matches_label_selector({"matchExpressions": expressions}, LABELS)
    assert not matches_label_selector(
        {"matchLabels": {"app": "db"}, "matchExpressions": expressions}, LABELS
    )


def test_field_selector_compares_text() -> None:
    """Booleans and absent fields too; a comma in a value is escaped."""
    pod = {"spec": {"hostNetwork": True, "nodeName": "a,b"}, "metadata": {"name": "p"}}
    for text in (
        "spec.hostNetwork=true",
        "spec.nodeName=a\\,b",
        "status.phase=",
        "status.phase!=Failed,metadata.name==p",
    ):
        assert all(r.matches(pod) for r in parse_fields(PODS, text)), text


def test_events_are_selected_by_source_or_reporting_controller() -> None:
    """Events of the newer API have no source."""
    (requirement,) = parse_fields(EVENTS, "source=web")
    assert requirement.matches({"source": {"component": "web"}})
    assert requirement.matches({"reportingComponent": "web"})
    assert not requirement.matches({"source": {"component": "db"}, "reportingComponent": "web"})


def test_unknown_field_label_is_refused() -> None:
    """What a kind can be selected by is part of the answer."""
    with pytest.raises(BadRequest, match=r'only "metadata\.name", "metadata\.namespace"'):
        parse_fields(CONFIGMAPS, "data.k=1")
    with pytest.raises(BadRequest, match=r"field label not supported: spec\.foo"):
        parse_fields(PODS, "spec.foo=1")
    with pytest.raises(BadRequest, match="can't understand"):
        parse_fields(PODS, "metadata.name")
