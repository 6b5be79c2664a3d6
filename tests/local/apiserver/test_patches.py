"""The three dialects of patches, and where strategic merge puts what."""

from __future__ import annotations

import time
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
from tests.local.apiserver.api import (
    CONFIGMAPS,
    DEPLOYMENTS,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    configmap,
    deployment,
)

from hotmap.core.errors import ApiError, BadRequest
from hotmap.local.apiserver.patch import json_patch, merge_patch
from hotmap.local.apiserver.strategic import strategic_merge_patch

if TYPE_CHECKING:
    from tests.local.apiserver.api import Api

# RFC 7386, appendix A.
MERGES = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "wanted"), MERGES)
def test_merge_patch_follows_the_examples_of_the_rfc(target: Any, patch: Any, wanted: Any) -> None:
    """The examples of the RFC."""
    assert merge_patch(target, patch) == wanted


def test_merge_patch_leaves_no_null_in_maps_of_lists() -> None:
    patch = {"a": [{"b": None, "c": {"d": None}}, None, [{"e": None}]]}
    assert merge_patch({"a": [{"b": 1}]}, patch) == {"a": [{"c": {}}, None, [{}]]}


OPERATIONS = [
    ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
    ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
    ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
    ({"a": [1]}, [{"op": "add", "path": "/a/-1", "value": 2}], {"a": [1, 2]}),
    ({"a": 1}, [{"op": "remove", "path": "/a"}], {}),
    ({"a": [1, 2]}, [{"op": "remove", "path": "/a/-1"}], {"a": [1]}),
    ({"a": 1}, [{"op": "replace", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
    ({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
    ({"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1], "b": [1]}),
    ({"a/b": {"c~d": 1}}, [{"op": "remove", "path": "/a~1b/c~0d"}], {"a/b": {}}),
    ({"a": 1}, [{"op": "test", "path": "/a", "value": 1}], {"a": 1}),
    ({"a": 1}, [{"op": "test", "path": "/b", "value": None}], {"a": 1}),
    ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
    ({"a": {}}, [{"op": "add", "path": "a/x", "value": 1}], {"a": {}, "x": 1}),
]


@pytest.mark.parametrize(("target", "patch", "wanted"), OPERATIONS)
def test_json_patch_is_applied_as_evanphx_does(target: Any, patch: Any, wanted: Any) -> None:
    """RFC 6902, with evanphx's reading of missing members and negative indices."""
    assert json_patch(target, patch) == wanted


FAILING = [
    [{"op": "remove", "path": "/b"}],
    [{"op": "test", "path": "/a", "value": 2}],
    [{"op": "test", "path": "/a", "value": True}],
    [{"op": "add", "path": "/x/y", "value": 1}],
    [{"op": "add", "path": "/l/7", "value": 1}],
    [{"op": "replace", "path": "/l/1", "value": 1}],
    [{"op": "add", "path": "/a/b", "value": 1}],
    [{"op": "remove", "path": "/a/b"}],
    [{"op": "shout", "path": "/a"}],
    [{"op": "add", "path": "a", "value": 1}],
    [{"op": "add", "path": "", "value": {}}],
    [{"op": "remove", "path": ""}],
    [{"path": "/a"}],
    [{"op": "replace", "path": None, "value": 1}],
    [{"op": "copy", "path": "/b", "from": None}],
    [{"op": "remove", "path": 1}],
]


@pytest.mark.parametrize("patch", FAILING)
def test_inapplicable_json_patch_operation_is_refused(patch: Any) -> None:
    """422 without a word about which one it was, as upstream."""
    with pytest.raises(ApiError) as caught:
        json_patch({"a": 1, "l": [0]}, patch)
    assert caught.value.code == 422
    text = "the server rejected our request due to an error in our request"
    assert caught.value.message == text


def test_json_patch_must_be_bounded_list() -> None:
    """Another form is a bad request, too many operations are too large."""
    with pytest.raises(BadRequest):
        json_patch({}, {"op": "add"})
    text = "Request entity too large: The allowed maximum operations in a JSON patch is 10000"
    with pytest.raises(ApiError, match=text):
        json_patch({}, [{"op": "add", "path": "/a", "value": 1}] * 10_001)


def test_json_patch_bounds_what_it_copies() -> None:
    """A document that is copied into itself doubles with each step."""
    step = {"op": "copy", "from": "/data", "path": "/data/x"}
    patch = [{**step, "path": f"/data/{index}"} for index in range(64)]
    with pytest.raises(ApiError, match="exceeding the limit 3145728"):
        json_patch({"data": {"k": "v" * 100}}, patch)


POD_TYPE = "io.k8s.api.core.v1.Pod"
POD = {
    "spec": {
        "containers": [
            {"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}], "args": ["1", "2"]},
            {"name": "b", "image": "2"},
        ],
        "volumes": [{"name": "v", "configMap": {"name": "c"}}],
        "tolerations": [{"key": "t"}],
        "nodeSelector": {"n": "1"},
    },
    "metadata": {"finalizers": ["x/a", "x/b"]},
}


def spec_patched(patch: dict[str, Any]) -> dict[str, Any]:
    patched = strategic_merge_patch(deepcopy(POD), {"spec": patch}, type_name=POD_TYPE)
    spec: dict[str, Any] = patched["spec"]
    return spec


def container_names(patch: list[Any], **more: Any) -> list[str]:
    return [c["name"] for c in spec_patched({"containers": patch, **more})["containers"]]


# Each of these was compared with kube-apiserver 1.36.
def test_strategic_patch_merges_lists_by_key() -> None:
    """What the element does not mention stays, deeper lists merge too, others are replaced."""
    merged = spec_patched(
        {
            "containers": [
                {"name": "a", "env": [{"name": "Y", "value": "2"}], "args": ["3"]},
            ]
        }
    )["containers"][0]
    assert merged["image"] == "1"
    assert merged["env"] == [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]
    assert merged["args"] == ["3"]


def test_strategic_patch_puts_new_elements_first() -> None:
    """$setElementOrder names the places; elements it leaves out keep the server's order."""
    assert container_names([{"name": "n"}, {"name": "m"}]) == ["n", "m", "a", "b"]
    assert container_names([{"name": "b", "image": "3"}]) == ["a", "b"]
    order = [{"name": "b"}, {"name": "n"}, {"name": "a"}]
    set_order = {"$setElementOrder/containers": order}
    assert container_names([{"name": "n"}], **set_order) == ["b", "n", "a"]


def test_strategic_patch_directives() -> None:
    """In elements, in lists and in maps."""
    assert container_names([{"name": "a", "$patch": "delete"}]) == ["b"]
    assert container_names([{"$patch": "replace"}, {"name": "z"}]) == ["z"]
    assert spec_patched({"nodeSelector": {"$patch": "replace", "m": "2"}})["nodeSelector"] == {
        "m": "2"
    }
    assert "nodeSelector" not in spec_patched({"nodeSelector": None})
    # A directive that meets nothing takes its map along.
    assert "securityContext" not in spec_patched({"securityContext": {"$patch": "replace", "a": 1}})
    assert spec_patched({"tolerations": [{"key": "u"}]})["tolerations"] == [{"key": "u"}]


def test_strategic_patch_retain_keys() -> None:
    """A volume changes its type without keeping the old one's source."""
    retain = {"name": "v", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}
    volumes = spec_patched({"volumes": [retain]})["volumes"]
    assert volumes == [{"name": "v", "secret": {"secretName": "s"}}]


def test_strategic_patch_replaces_the_selector_of_a_disruption_budget() -> None:
    """Its patch strategy is replace: kubectl apply sends the whole selector."""
    budget = {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a", "old": "x"}}}}
    patch = {"spec": {"selector": {"matchLabels": {"app": "a"}}}}
    name = "io.k8s.api.policy.v1.PodDisruptionBudget"
    assert strategic_merge_patch(budget, patch, type_name=name) == {
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}
    }


def test_what_a_strategic_patch_adds_is_taken_as_it_is() -> None:
    """Nothing in it is merged, neither in a new element nor in a list that was not there."""
    twice = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    added = spec_patched({"containers": [{"name": "new", "env": twice}]})["containers"]
    assert {"name": "new", "env": twice} in added
    assert spec_patched({"hostAliases": twice})["hostAliases"] == twice


def test_cost_of_a_strategic_patch_grows_with_its_lists_only() -> None:
    """Lists of 20,000 items take a second each; searched item by item they took minutes."""
    names = [f"V{number}" for number in range(20_000)]
    items = [{"name": name} for name in names]
    pod = {
        "metadata": {"finalizers": [f"a.b/{name}" for name in names]},
        "spec": {"containers": [{"name": "a", "env": items}]},
    }
    changed = [{"name": name, "value": "x"} for name in reversed(names)]
    gone = [{"name": name, "$patch": "delete"} for name in names]
    began = time.process_time()
    for env in (changed, gone):
        patch = {
            "metadata": {"finalizers": [f"c.d/{name}" for name in names]},
            "spec": {"containers": [{"name": "a", "env": env}]},
        }
        patched = strategic_merge_patch(deepcopy(pod), patch, type_name=POD_TYPE)
        assert len(patched["metadata"]["finalizers"]) == 40_000
    assert time.process_time() - began < 20


def test_directive_of_a_map_is_replace_or_delete() -> None:
    with pytest.raises(ApiError, match="unknown patch type: merge in map"):
        spec_patched({"$patch": "merge", "nodeName": "n"})
    assert spec_patched({"$patch": "replace", "nodeName": "n"}) == {"nodeName": "n"}


@pytest.mark.parametrize("keys", [["name"], "name", None])
def test_retained_keys_have_to_name_what_is_sent(keys: Any) -> None:
    """What is sent and not retained would be lost (applyRetainKeysDirective)."""
    element = {"name": "v", "$retainKeys": keys, "secret": {"secretName": "s"}}
    with pytest.raises(BadRequest, match="invalid patch format of retainKeys"):
        spec_patched({"volumes": [element]})


CONTAINERS = "$setElementOrder/containers"


@pytest.mark.parametrize(
    ("spec", "code", "text"),
    [
        ({"containers": ["x"]}, 500, "list element types are not identical: [[map["),
        ({CONTAINERS: "a"}, 500, "expected a []interface {}, but received a string"),
        (
            {CONTAINERS: ["a"], "containers": [{"name": "a"}]},
            500,
            "expected a map[string]interface {}, but received a string",
        ),
        (
            {CONTAINERS: [{"name": "a"}], "containers": [{"name": "a"}, {"name": "b"}]},
            500,
            "The order in patch list:\n[map[name:a] map[name:b]]\n doesn't match $setElementOrder "
            "list:\n[map[name:a]]\n",
        ),
        (
            {"containers": [{"$patch": "merge", "name": "a"}]},
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        ({"$deleteFromPrimitiveList/x": 1}, 500, "expected a []interface {}, but received a int64"),
    ],
)
def test_malformed_strategic_patch_is_reported_as_upstream(
    spec: dict[str, Any], code: int, text: str
) -> None:
    with pytest.raises(ApiError) as error:
        spec_patched(spec)
    assert (error.value.code, text in error.value.message) == (code, True)


def test_order_of_deleted_elements_is_free() -> None:
    gone = {"$patch": "delete", "name": "b"}
    patch = {CONTAINERS: [{"name": "a"}], "containers": [gone, {"name": "a", "image": "2"}]}
    assert [c["name"] for c in spec_patched(patch)["containers"]] == ["a"]


def test_strategic_patch_merges_plain_lists_as_sets() -> None:
    """Finalizers are added and deleted one by one."""
    patch = {
        "metadata": {
            "finalizers": ["x/c"],
            "$deleteFromPrimitiveList/finalizers": ["x/a"],
            "$setElementOrder/finalizers": ["x/c", "x/b"],
        }
    }
    patched = strategic_merge_patch(deepcopy(POD), patch, type_name=POD_TYPE)
    assert patched["metadata"]["finalizers"] == ["x/c", "x/b"]


async def test_strategic_merge_over_http(api: Api) -> None:
    """The errors that users meet."""
    await api.post(DEPLOYMENTS, deployment("web"))
    nameless = {"spec": {"template": {"spec": {"containers": [{"image": "y"}]}}}}
    reply = await api.patch(f"{DEPLOYMENTS}/web", nameless, STRATEGIC)
    assert (reply.status, reply.message) == (
        500,
        "map: map[image:y] does not contain declared merge key: name",
    )
    recreate: dict[str, Any] = {"type": "Recreate"}
    reply = await api.patch(f"{DEPLOYMENTS}/web", {"spec": {"strategy": recreate}}, STRATEGIC)
    assert reply.status == 422
    assert "may not be specified when strategy `type` is 'Recreate'" in reply.message
    recreate["$retainKeys"] = ["type"]
    reply = await api.patch(f"{DEPLOYMENTS}/web", {"spec": {"strategy": recreate}}, STRATEGIC)
    assert reply.body["spec"]["strategy"] == {"type": "Recreate"}


async def test_patch_without_revision_never_conflicts(api: Api) -> None:
    """One with a stale resourceVersion does."""
    stale = (await api.post(CONFIGMAPS, configmap("a", k="1"))).body["metadata"]
    path = f"{CONFIGMAPS}/a"
    assert (await api.patch(path, {"data": {"k": "2"}})).status == 200
    conflicting = {"metadata": {"resourceVersion": stale["resourceVersion"]}, "data": {"k": "3"}}
    assert (await api.patch(path, conflicting)).status == 409
    operations = [{"op": "replace", "path": "/data/k", "value": "4"}]
    assert (await api.patch(path, operations, JSON_PATCH)).body["data"] == {"k": "4"}


async def test_unknown_patch_type_is_refused(api: Api) -> None:
    """415, and names may not be patched."""
    await api.post(CONFIGMAPS, configmap("a"))
    reply = await api.patch(f"{CONFIGMAPS}/a", {}, "application/json")
    assert (reply.status, reply.message) == (415, "415: Unsupported Media Type")
    renamed = await api.patch(f"{CONFIGMAPS}/a", {"metadata": {"name": "b"}})
    assert renamed.status == 400


async def test_json_patch_warns_of_unknown_fields(api: Api) -> None:
    """Those of the object that it makes; upstream reads nothing before the first slash."""
    await api.post(CONFIGMAPS, configmap("a", {}))
    change = [{"op": "add", "path": "data/wrong", "value": "1"}]
    reply = await api.patch(f"{CONFIGMAPS}/a", change, JSON_PATCH, fieldValidation="Warn")
    assert reply.status == 200
    assert reply.headers["Warning"] == '299 - "unknown field \\"wrong\\""'
    refused = await api.patch(f"{CONFIGMAPS}/a", change, JSON_PATCH, fieldValidation="Strict")
    assert (refused.status, 'unknown field "wrong"' in refused.message) == (422, True)


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC])
async def test_null_of_an_unknown_field_removes_nothing(api: Api, kind: str) -> None:
    """Strict validation looks at the result, in which a null is not."""
    await api.post(CONFIGMAPS, configmap("a"))
    patch = {"foo": None, "metadata": {"bar": None}}
    reply = await api.patch(f"{CONFIGMAPS}/a", patch, kind, fieldValidation="Strict")
    assert (reply.status, reply.headers.get("Warning")) == (200, None)
    left = {"metadata": {"bar": {"x": None}}}
    refused = await api.patch(f"{CONFIGMAPS}/a", left, kind, fieldValidation="Strict")
    assert refused.message.endswith('strict decoding error: unknown field "metadata.bar"')


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC])
async def test_unknown_fields_of_a_patch_are_in_order(api: Api, kind: str) -> None:
    await api.post(CONFIGMAPS, configmap("a"))
    patch = {"metadata": {"annotations": {"a": '"b"'}, "lables": {}}, "dta": {}}
    reply = await api.patch(f"{CONFIGMAPS}/a", patch, kind, fieldValidation="Strict")
    assert reply.message.endswith('error: unknown field "dta", unknown field "metadata.lables"')


async def test_patch_in_a_message_is_quoted(api: Api) -> None:
    """As by Go's %q: texts of kubectl apply have quotes and line ends."""
    await api.post(CONFIGMAPS, configmap("a"))
    patch = {"metadata": {"annotations": {"a": '"b"\n'}, "lables": {}}}
    reply = await api.patch(f"{CONFIGMAPS}/a", patch, STRATEGIC, fieldValidation="Strict")
    shown = r'"map[metadata:map[annotations:map[a:\"b\"\n] lables:map[]]]"'
    assert f"Invalid value: {shown}: strict decoding error: " in reply.message


async def test_fields_that_a_patch_has_twice_are_named(api: Api) -> None:
    await api.post(CONFIGMAPS, configmap("a"))
    twice = b'{"data": {"a": "1", "a": "2"}, "data": {}}'
    reply = await api.patch(f"{CONFIGMAPS}/a", twice, MERGE, fieldValidation="Strict")
    assert 'duplicate field "data.a", duplicate field "data"' in reply.message
    steps = b'[{"op": "test", "path": "/kind", "value": "ConfigMap", "x": 1, "x": 2}]'
    reply = await api.patch(f"{CONFIGMAPS}/a", steps, JSON_PATCH, fieldValidation="Strict")
    assert 'json patch duplicate field "[0].x", json patch unknown field "[0].x"' in reply.message
