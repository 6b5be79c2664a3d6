"""Items of a list that have the same key: an update can make them, and an apply keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.local.apiserver.api import DEPLOYMENTS, PODS, deployment
from tests.local.apiserver.test_server_side_apply import apply, web

from hotmap.local.apiserver.api_types import Field
from hotmap.local.apiserver.field_sets import compare
from hotmap.local.apiserver.pod_warnings import pod_warnings

if TYPE_CHECKING:
    from tests.local.apiserver.api import Api

CONTAINER = Field("#io.k8s.api.core.v1.Container")
A, OTHER_A = {"name": "A", "value": "1"}, {"name": "A", "value": "2"}
B = {"name": "B", "value": "3"}


def variables(*listed: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"name": "main", "image": "host", "env": list(listed), **more}


async def created(api: Api, *listed: dict[str, str]) -> None:
    body = deployment("web", {"containers": [variables(*listed)]})
    assert (await api.post(DEPLOYMENTS, body, fieldManager="creator")).status == 201


def env_of(body: dict[str, Any]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = body["spec"]["template"]["spec"]["containers"][0]["env"]
    return found


async def test_items_of_others_stay(api: Api) -> None:
    """Another manager's variables are kept, also those that are there twice."""
    await created(api, A, B, OTHER_A)
    c = {"name": "C", "value": "1"}
    reply = await apply(api, f"{DEPLOYMENTS}/web", web(variables(c)))
    assert reply.status == 200
    assert env_of(reply.body) == [A, B, OTHER_A, c]


async def test_applied_item_replaces_all_that_have_its_key(api: Api) -> None:
    """It cannot be merged into one of several, so it takes the place of all."""
    await created(api, A, B, OTHER_A)
    wanted = {"name": "A", "value": "applied"}
    refused = await apply(api, f"{DEPLOYMENTS}/web", web(variables(wanted)))
    assert refused.status == 409
    reply = await apply(api, f"{DEPLOYMENTS}/web", web(variables(wanted)), force="true")
    assert env_of(reply.body) == [wanted, B]
    gone = await apply(api, f"{DEPLOYMENTS}/web", web(variables()))
    assert env_of(gone.body) == [B]


async def test_repeated_items_are_owned_together(api: Api) -> None:
    await created(api, A, B, OTHER_A)
    reply = await api.get(f"{DEPLOYMENTS}/web")
    (entry,) = reply.body["metadata"]["managedFields"]
    template = entry["fieldsV1"]["f:spec"]["f:template"]["f:spec"]
    owned = template["f:containers"]['k:{"name":"main"}']["f:env"]
    assert owned == {
        ".": {},
        'k:{"name":"A"}': {},
        'k:{"name":"B"}': {".": {}, "f:name": {}, "f:value": {}},
    }


async def test_applied_configuration_has_each_key_once(api: Api) -> None:
    reply = await apply(api, f"{DEPLOYMENTS}/web", web(variables(A, OTHER_A)))
    assert reply.status == 500
    assert 'duplicate entries for key [name="A"]' in reply.message


@pytest.mark.parametrize(
    ("before", "after", "changed", "removed"),
    [
        ([A, OTHER_A], [A, OTHER_A], set(), set()),
        ([A, OTHER_A], [OTHER_A, A], {()}, set()),
        ([A, OTHER_A], [A], {(), ("f:name",), ("f:value",)}, {()}),
        ([A], [A, OTHER_A], {()}, {(), ("f:name",), ("f:value",)}),
        ([A, OTHER_A], [], set(), {()}),
    ],
)
def test_repeated_items_are_compared_as_a_whole(
    before: list[Any], after: list[Any], changed: set[Any], removed: set[Any]
) -> None:
    """structured-merge-diff: typed/compare.go, visitListItems."""
    at = ("f:env", 'k:{"name":"A"}')
    found = compare(CONTAINER, {"env": [*before, B]}, {"env": [*after, B]})
    assert found.changed == {(*at, *path) for path in changed}
    assert found.removed == {(*at, *path) for path in removed}


def port(number: int, **more: Any) -> dict[str, Any]:
    return {"containerPort": number, "protocol": "TCP", **more}


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"hostAliases": [{"ip": "::1"}] * 2}, 'spec.hostAliases[1].ip: duplicate ip "::1"'),
        (
            {"imagePullSecrets": [{"name": "s"}] * 2},
            'spec.imagePullSecrets[1].name: duplicate name "s"',
        ),
        (
            {"containers": [{"env": [{"name": "A"}, {"name": "A", "value": "$(A)"}]}]},
            'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped '
            "when using apply",
        ),
        (
            {"containers": [{"ports": [port(1)]}, {"ports": [port(1)]}]},
            "spec.containers[1].ports[0]: duplicate port definition with "
            "spec.containers[0].ports[0]",
        ),
        (
            {"containers": [{"ports": [port(1), port(1, hostPort=2)]}]},
            "spec.containers[0].ports[1]: overlapping port definition with "
            "spec.containers[0].ports[0]",
        ),
        (
            {"containers": [{"ports": [port(1, hostPort=2), port(1, hostPort=2, hostIP="::1")]}]},
            "spec.containers[0].ports[1]: dangerously ambiguous port definition with "
            "spec.containers[0].ports[0]",
        ),
        (
            {"containers": [{"ports": [port(1, name="a")]}, {"ports": [port(2, name="a")]}]},
            'spec.containers[1].ports[0]: duplicate port name "a" with '
            "spec.containers[0].ports[0], services and probes that select ports by name will use "
            "spec.containers[0].ports[0]",
        ),
    ],
)
def test_repetitions_in_pods_are_warned_of(spec: dict[str, Any], text: str) -> None:
    """kubernetes: pkg/api/pod/warnings.go"""
    assert pod_warnings(spec, "spec") == [text]


WARNING = (
    '299 - "{0}.spec.containers[0].ports[1]: duplicate port definition with '
    '{0}.spec.containers[0].ports[0]"'
)
POD_SPEC = {
    "containers": [{"name": "c", "image": "x", "ports": [port(1), port(1)]}],
    "restartPolicy": "Always",
}
TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": POD_SPEC}
JOB = {"template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}}
WORKLOAD = {"selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}


@pytest.mark.parametrize(
    ("path", "spec", "change", "at"),
    [
        (DEPLOYMENTS, WORKLOAD, "replicas", "spec.template"),
        ("/apis/apps/v1/namespaces/default/statefulsets", WORKLOAD, "replicas", "spec.template"),
        (
            "/api/v1/namespaces/default/replicationcontrollers",
            {"template": TEMPLATE},
            "replicas",
            "spec.template",
        ),
        ("/apis/batch/v1/namespaces/default/jobs", JOB, "parallelism", "spec.template"),
        (
            "/apis/batch/v1/namespaces/default/cronjobs",
            {"schedule": "@daily", "jobTemplate": {"spec": JOB}},
            "successfulJobsHistoryLimit",
            "spec.jobTemplate.spec.template",
        ),
    ],
)
async def test_repetitions_in_templates_are_warned_of(
    api: Api, path: str, spec: dict[str, Any], change: str, at: str
) -> None:
    """As kubectl shows it of a new workload, and of each update of its spec."""
    made = await api.post(path, {"metadata": {"name": "a"}, "spec": spec})
    assert made.headers["Warning"] == WARNING.format(at), made.body
    labeled = await api.patch(f"{path}/a", {"metadata": {"labels": {"l": "1"}}})
    assert (labeled.status, labeled.headers.get("Warning")) == (200, None)
    changed = await api.patch(f"{path}/a", {"spec": {change: 4}})
    assert changed.headers["Warning"] == WARNING.format(at)


async def test_updates_of_pods_are_not_warned_of(api: Api) -> None:
    made = await api.post(PODS, {"metadata": {"name": "a"}, "spec": POD_SPEC})
    assert "duplicate port definition" in made.headers["Warning"]
    labeled = await api.patch(f"{PODS}/a", {"metadata": {"labels": {"l": "1"}}})
    assert (labeled.status, labeled.headers.get("Warning")) == (200, None)
