"""ControllerRevisions: their names, their order, and which old ones go."""

from __future__ import annotations

from typing import Any

import pytest

from hotmap.local.controllers.history import (
    find_equal,
    next_number,
    revision_name,
    sorted_revisions,
    surplus_revisions,
    template_hash,
    template_of,
    template_patch,
)

Object = dict[str, Any]

TEMPLATE: Object = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "volumes": [
            {"name": "x", "emptyDir": {}},
            {"name": "c", "configMap": {"name": "c", "optional": True, "defaultMode": 420}},
        ],
        "containers": [
            {
                "name": "main",
                "image": "hotmap.test/nginx:1",
                "args": ["a<b>&c", "é"],
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "env": [
                    {"name": "A", "value": "1"},
                    {
                        "name": "B",
                        "valueFrom": {
                            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}
                        },
                    },
                ],
                "resources": {"requests": {"cpu": "10m"}},
                "readinessProbe": {
                    "tcpSocket": {"port": 80},
                    "timeoutSeconds": 1,
                    "periodSeconds": 10,
                    "successThreshold": 1,
                    "failureThreshold": 3,
                },
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    },
}


def revision(number: int, *, name: str = "", template: Object | None = None) -> Object:
    return {
        "metadata": {"namespace": "default", "name": name or f"web-{number}"},
        "data": template_patch(template or {"metadata": {"labels": {"number": str(number)}}}),
        "revision": number,
    }


def names(revisions: list[Object]) -> list[str]:
    return [found["metadata"]["name"] for found in revisions]


@pytest.mark.parametrize(("grace", "name"), [(30, "7bbd6d6456"), (1, "5fd8984cbb")])
def test_hash_is_that_of_kubernetes(grace: int, name: str) -> None:
    """The names are those that kube-controller-manager 1.36 gave to this template."""
    spec = {**TEMPLATE["spec"], "terminationGracePeriodSeconds": grace}
    assert template_hash({**TEMPLATE, "spec": spec}, 0) == name


def test_hash_depends_on_template_and_collisions() -> None:
    hashes = {template_hash(TEMPLATE, count) for count in range(20)}
    hashes |= {template_hash({**TEMPLATE, "metadata": {}}, 0)}
    assert len(hashes) == 21


def test_long_names_are_shortened() -> None:
    assert len(revision_name({"metadata": {"name": "a" * 253}}, "7bbd6d6456")) == 234


def test_template_is_restored_from_its_patch() -> None:
    patch = template_patch(TEMPLATE)
    assert patch["spec"]["template"]["$patch"] == "replace"
    assert template_of({"data": patch}) == TEMPLATE
    assert list(patch["spec"]["template"]) == ["$patch", "metadata", "spec"]


@pytest.mark.parametrize(
    "data", [None, {}, {"spec": {}}, {"spec": {"template": None}}, "text", [1], {"spec": 7}]
)
def test_revision_of_something_else_has_no_template(data: Any) -> None:
    assert template_of({"data": data}) == {}


def test_revision_without_a_number_is_the_first() -> None:
    unnumbered = {"metadata": {"namespace": "default", "name": "web-none"}}
    assert names(sorted_revisions([revision(1), unnumbered])) == ["web-none", "web-1"]
    assert next_number([unnumbered]) == 1


def test_revisions_are_equal_whatever_is_spelled_out() -> None:
    spelled = {**TEMPLATE, "metadata": {**TEMPLATE["metadata"], "creationTimestamp": None}}
    revisions = [revision(1), revision(2, template=spelled), revision(3)]
    assert names(find_equal(revisions, TEMPLATE)) == ["web-2"]


def test_latest_revision_is_last_and_the_next_is_higher() -> None:
    revisions = [revision(3), revision(1), revision(2)]
    assert names(sorted_revisions(revisions)) == ["web-1", "web-2", "web-3"]
    assert next_number(revisions) == 4
    assert next_number([]) == 1


@pytest.mark.parametrize(
    ("limit", "live", "gone"),
    [
        (10, (), []),
        (2, (), ["web-1"]),
        (0, (), ["web-1", "web-2", "web-3"]),
        (0, ("web-1", "web-3"), ["web-2"]),
        (1, ("web-1",), ["web-2"]),
        (None, (), []),
    ],
)
def test_oldest_unused_revisions_beyond_the_limit_go(
    limit: int | None, live: tuple[str, ...], gone: list[str]
) -> None:
    revisions = [revision(number) for number in (2, 3, 1)]
    assert names(surplus_revisions(revisions, live, limit)) == gone
