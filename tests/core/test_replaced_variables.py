"""Of several `env` entries of one name the last one counts: an edit of the others is none."""

from __future__ import annotations

import pytest
from tests.core.freshness import A, app, assess_change
from tests.support.objects import config_map, deployment

from hotmap.core.decide.assessment import Verdict

APP = "{name: V, valueFrom: {configMapKeyRef: {name: app, key: LEVEL}}}"
OTHER = "{name: V, valueFrom: {configMapKeyRef: {name: other, key: K}}}"
OPTIONAL = "{name: V, valueFrom: {configMapKeyRef: {name: other, key: K, optional: true}}}"
LITERAL = "{name: V, value: x}"
READER = '{name: URL, value: "http://$(V)"}'
ITSELF = '{name: V, value: "$(V)2"}'
FIELD = "{name: V, valueFrom: {fieldRef: {fieldPath: metadata.name}}}"
RELOADER = "{name: STAKATER_APP_CONFIGMAP, value: abc}"


@pytest.mark.parametrize(
    ("entries", "counts"),
    [
        pytest.param([APP], True, id="a single one"),
        pytest.param([APP, LITERAL], False, id="a literal replaces it"),
        pytest.param([LITERAL, APP], True, id="it is the last one"),
        pytest.param([APP, OTHER], False, id="a required reference replaces it"),
        pytest.param([APP, OPTIONAL], True, id="an optional reference may set nothing"),
        pytest.param([APP, OPTIONAL, LITERAL], False, id="a literal after that replaces both"),
        pytest.param([APP, FIELD], False, id="a field replaces it"),
        pytest.param([APP, READER, LITERAL], True, id="it is read in between"),
        pytest.param([APP, LITERAL, READER], False, id="the literal is read"),
        pytest.param([APP, ITSELF], True, id="its successor reads it"),
        pytest.param([APP, ITSELF, LITERAL], True, id="its successor, which is replaced, reads it"),
        pytest.param([APP, RELOADER], True, id="another variable"),
    ],
)
def test_replaced_variable_does_not_count(entries: list[str], counts: bool) -> None:
    """The last entry wins (kubernetes: kubelet_pods.go makeEnvironmentVariables)."""
    who = deployment(f"containers: [{{name: web, env: [{', '.join(entries)}]}}]")
    other = config_map("other", {"K": "1"})
    edited = app(A | {"LEVEL": "debug"}, version=2)
    found = assess_change(who, [app(), other], [edited, other]).verdict
    assert found is (Verdict.FROZEN if counts else Verdict.UP_TO_DATE)


def test_replaced_variable_counts_in_another_container() -> None:
    """Each container has an environment of its own."""
    who = deployment(
        f"containers: [{{name: web, env: [{APP}, {LITERAL}]}}, {{name: side, env: [{APP}]}}]"
    )
    edited = app(A | {"LEVEL": "debug"}, version=2)
    assert assess_change(who, [app()], [edited]).verdict is Verdict.FROZEN


def test_data_key_of_a_replaced_variable_is_still_required() -> None:
    """A container does not start without it, so nothing is rolled out meanwhile."""
    who = deployment(f"containers: [{{name: web, env: [{APP}, {OTHER}]}}]")
    other = config_map("other", {"K": "1"})
    edited = config_map("other", {"K": "2"}, version=2)
    without = app({"app.yaml": "a: 1"}, version=2)
    held = assess_change(who, [app(), other], [without, edited])
    assert held.verdict is Verdict.HOLD
    assert "lacks LEVEL" in held.reason
