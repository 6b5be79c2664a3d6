"""The three kinds of patch, right and wrong."""

from __future__ import annotations

from typing import Any

from tests.conformance.cases.call import (
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Call,
    configmap,
    core,
    deployment,
    group,
)


def subjects() -> dict[str, list[Call]]:
    """Return the subjects of this module."""
    return {"json-patches": _json(), "merge-patches": _merge(), "strategic-patches": _strategic()}


def _json() -> list[Call]:
    maps = core("json-patches", "configmaps")

    def patch(name: str, *operations: Any) -> Call:
        return maps.patch(name, "a", list(operations), JSON_PATCH)

    def operation(op: str, path: str, **more: Any) -> dict[str, Any]:
        return {"op": op, "path": path, **more}

    return [
        maps.post("create", configmap("a", {"a": "1", "b": "2"})),
        patch("add", operation("add", "/data/c", value="3")),
        patch("add over", operation("add", "/data/c", value="4")),
        patch("replace", operation("replace", "/data/c", value="5")),
        patch("replace missing", operation("replace", "/data/x", value="5")),
        patch("remove missing", operation("remove", "/data/x")),
        patch("test", operation("test", "/data/c", value="5"), operation("remove", "/data/c")),
        patch("test fails", operation("test", "/data/a", value="5")),
        patch("test missing", operation("test", "/data/x", value="5")),
        patch("move", operation("move", "/data/d", **{"from": "/data/b"})),
        patch("copy", operation("copy", "/data/e", **{"from": "/data/d"})),
        patch("move missing", operation("move", "/data/d", **{"from": "/data/x"})),
        patch("escaped", operation("add", "/data/a~1b", value="1")),
        patch("unknown operation", operation("invert", "/data/a")),
        patch("no path", {"op": "add", "value": 1}),
        patch("path without slash", operation("add", "data", value={})),
        patch("wrong type", operation("add", "/data/n", value=1)),
        patch("list index", operation("add", "/metadata/finalizers", value=["a.b/c"])),
        patch("append", operation("add", "/metadata/finalizers/-", value="d.e/f")),
        patch("insert", operation("add", "/metadata/finalizers/0", value="g.h/i")),
        patch("beyond", operation("add", "/metadata/finalizers/9", value="j.k/l")),
        patch("drop finalizers", operation("remove", "/metadata/finalizers")),
        patch("empty"),
        patch("rename", operation("replace", "/metadata/name", value="z")),
        patch("no kind", operation("remove", "/kind"), operation("add", "/data/k", value="1")),
        maps.patch("no version", "a", [operation("remove", "/apiVersion")], JSON_PATCH, fieldValidation="Ignore"),
        patch("kind null", operation("replace", "/kind", value=None)),
        patch("kind number", operation("replace", "/kind", value=1)),
        patch("unknown kind", operation("replace", "/kind", value="Other")),
        patch("unknown version", operation("replace", "/apiVersion", value="v9")),
        patch("whole", operation("replace", "", value=configmap("a", {"w": "1"}))),
        maps.patch("object", "a", {"op": "add"}, JSON_PATCH),
        maps.patch("malformed", "a", "[{", JSON_PATCH),
        maps.patch("dry run", "a", [operation("add", "/data/z", value="1")], JSON_PATCH, dryRun="All"),
        maps.get("get", "a"),
    ]  # fmt: skip


def _merge() -> list[Call]:
    maps = core("merge-patches", "configmaps")
    sets = group("merge-patches", "apps/v1", "deployments")
    return [
        maps.post("create", configmap("a", {"a": "1", "b": "2"})),
        maps.patch("remove key", "a", {"data": {"b": None}}),
        maps.patch("set", "a", {"data": {"c": "3"}}),
        maps.patch("replace data", "a", {"data": None}),
        maps.patch("empty", "a", {}),
        maps.patch("malformed", "a", "{", MERGE),
        maps.patch("list", "a", [], MERGE),
        maps.patch("null", "a", "null", MERGE),
        maps.patch("wrong type", "a", {"data": {"n": 1}}),
        maps.patch("wrong kind", "a", {"kind": "Secret"}),
        maps.patch("unknown field and wrong type", "a", {"wrong": 1, "data": {"n": 1}}),
        maps.patch("unknown kind", "a", {"kind": "Other"}),
        maps.patch("no kind", "a", {"kind": None, "data": {"d": "4"}}),
        maps.patch("empty kind", "a", {"kind": "", "data": {"d": "5"}}),
        maps.patch("no version", "a", {"apiVersion": None}, fieldValidation="Ignore"),
        maps.patch("unknown version", "a", {"apiVersion": "v9"}),
        maps.patch("version", "a", {"metadata": {"resourceVersion": "1"}}),
        maps.patch("uid", "a", {"metadata": {"uid": "x"}}),
        maps.patch("name", "a", {"metadata": {"name": "z"}}),
        maps.patch("namespace", "a", {"metadata": {"namespace": "z"}}),
        maps.patch("immutable", "a", {"immutable": True, "data": {"k": "v"}}),
        maps.patch("change immutable", "a", {"data": {"k": "w"}}),
        maps.patch("make mutable", "a", {"immutable": False}),
        maps.patch("label immutable", "a", {"metadata": {"labels": {"a": "b"}}}),
        maps.patch("manager", "a", {"metadata": {"labels": {"a": "c"}}}, fieldManager="mine"),
        maps.patch("dry run", "a", {"metadata": {"labels": {"a": "d"}}}, dryRun="All"),
        maps.patch("force", "a", {}, force="true"),
        sets.post("deployment", deployment("web")),
        sets.patch(
            "replace list", "web",
            {"spec": {"template": {"spec": {"containers": [{"name": "other", "image": "i"}]}}}},
        ),
        sets.patch("selector", "web", {"spec": {"selector": {"matchLabels": {"app": "z"}}}}),
        sets.patch("template labels", "web", {"spec": {"template": {"metadata": {"labels": None}}}}),
        sets.patch("replicas as text", "web", {"spec": {"replicas": "3"}}),
        sets.patch("negative", "web", {"spec": {"replicas": -1}}),
        sets.patch("status is ignored", "web", {"status": {"replicas": 7}}),
        sets.patch("fraction", "web", {"spec": {"replicas": 1.5}}),
    ]  # fmt: skip


def _strategic() -> list[Call]:
    sets = group("strategic-patches", "apps/v1", "deployments")

    def patch(name: str, pod_spec: dict[str, Any]) -> Call:
        return sets.patch(name, "web", {"spec": {"template": {"spec": pod_spec}}}, STRATEGIC)

    return [
        sets.post("create", deployment("web")),
        patch("add container", {"containers": [{"name": "side", "image": "i"}]}),
        patch("change container", {"containers": [{"name": "main", "image": "j"}]}),
        patch("add env", {"containers": [{"name": "main", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}]}),
        patch("change env", {"containers": [{"name": "main", "env": [{"name": "A", "value": "3"}]}]}),
        patch("delete env", {"containers": [{"name": "main", "env": [{"name": "A", "$patch": "delete"}]}]}),
        patch("replace env", {"containers": [{"name": "main", "env": [{"$patch": "replace"}, {"name": "C", "value": "1"}]}]}),
        patch("order", {"$setElementOrder/containers": [{"name": "side"}, {"name": "main"}]}),
        patch("delete container", {"containers": [{"name": "side", "$patch": "delete"}]}),
        patch("add volume", {"volumes": [{"name": "v", "configMap": {"name": "c"}}]}),
        patch("retain keys", {"volumes": [{"$retainKeys": ["name", "secret"], "name": "v", "secret": {"secretName": "s"}}]}),
        patch("two sources", {"volumes": [{"name": "v", "emptyDir": {}}]}),
        patch("remove volumes", {"volumes": None}),
        patch("number as text", {"schedulerName": 1}),
        patch("number as named text", {"dnsPolicy": 1}),
        patch("boolean as named text", {"dnsPolicy": True}),
        patch("fraction as number", {"terminationGracePeriodSeconds": 1.5}),
        patch("number as boolean", {"hostNetwork": 1}),
        patch("list as struct", {"securityContext": [1]}),
        patch("map as list", {"tolerations": {"a": "b"}}),
        patch("list as map", {"nodeSelector": ["a"]}),
        patch("no merge key", {"containers": [{"image": "j"}]}),
        patch("unknown directive", {"containers": [{"name": "main", "$patch": "invert"}]}),
        patch("add ports", {"containers": [{"name": "main", "ports": [{"containerPort": 80}, {"containerPort": 81}]}]}),
        patch("delete port", {"containers": [{"name": "main", "ports": [{"containerPort": 81, "$patch": "delete"}]}]}),
        patch("tolerations are atomic", {"tolerations": [{"key": "a", "operator": "Exists"}]}),
        patch("tolerations again", {"tolerations": [{"key": "b", "operator": "Exists"}]}),
        patch("replace object", {"securityContext": {"$patch": "replace", "runAsUser": 1}}),
        sets.patch("strategy", "web", {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}, STRATEGIC),
        sets.patch("finalizers", "web", {"metadata": {"finalizers": ["a.b/c", "d.e/f"]}}, STRATEGIC),
        sets.patch("delete finalizer", "web", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/c"]}}, STRATEGIC),
        sets.patch("finalizers away", "web", {"metadata": {"finalizers": None}}, STRATEGIC),
        sets.patch("malformed", "web", "{", STRATEGIC),
        sets.patch("list", "web", [], STRATEGIC),
        sets.patch("wrong type", "web", {"spec": {"replicas": "x"}}, STRATEGIC),
        sets.get("get", "web"),
    ]  # fmt: skip
