"""Server-side apply: owners, conflicts, removal, lists."""

from __future__ import annotations

from typing import Any

from tests.conformance.cases.call import APPLY, Call, configmap, core, deployment, group


def subjects() -> dict[str, list[Call]]:
    """Return the subjects of this module."""
    return {"apply": _maps(), "apply-lists": _lists()}


def _maps() -> list[Call]:
    maps = core("apply", "configmaps")

    def apply(name: str, data: dict[str, str], manager: str = "one", **query: str) -> Call:
        return maps.apply(name, "a", configmap("a", data), manager, **query)

    return [
        apply("create", {"a": "1", "b": "2"}),
        apply("again", {"a": "1", "b": "2"}),
        apply("remove", {"a": "1"}),
        apply("share", {"a": "1"}, "two"),
        apply("conflict", {"a": "3"}, "two"),
        apply("force", {"a": "3"}, "two", force="true"),
        apply("lost", {"c": "4"}),
        apply("two conflicts", {"a": "5", "c": "5"}, "three"),
        apply("dry run", {"a": "9", "c": "9"}, "three", force="true", dryRun="All"),
        maps.patch("update by others", "a", {"data": {"c": "6"}}, fieldManager="four"),
        apply("conflict with update", {"c": "4"}),
        apply("give up all", {}, "two"),
        maps.patch("no manager", "a", configmap("a"), APPLY),
        maps.apply("wrong name", "a", configmap("b")),
        maps.apply("wrong kind", "a", {**configmap("a"), "kind": "Secret"}),
        maps.apply("no kind", "a", {"metadata": {"name": "a"}}),
        maps.apply("no version", "a", {"kind": "ConfigMap", "metadata": {"name": "a"}}),
        maps.apply("wrong version", "a", {**configmap("a"), "apiVersion": "v2"}),
        maps.apply("no name", "a", {"apiVersion": "v1", "kind": "ConfigMap"}),
        maps.apply("managed fields", "a", configmap("a", managedFields=[{"manager": "x"}])),
        maps.apply("unknown field", "a", {**configmap("a"), "wrong": 1}),
        maps.apply("wrong type", "a", {**configmap("a"), "data": {"a": 1}}),
        maps.apply("malformed", "a", "a: ["),
        maps.apply("list", "a", "[]"),
        maps.apply("yaml", "yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yaml}\ndata: {k: v}\n"),
        maps.apply("uid of missing", "u", configmap("u", uid="x")),
        maps.apply("stale", "a", configmap("a", resourceVersion="1")),
        maps.apply("labels", "a", configmap("a", {}, labels={"l": "1"})),
        maps.apply("finalizers", "a", configmap("a", {}, finalizers=["a.b/c"])),
        maps.apply("no finalizers", "a", configmap("a", {})),
        maps.patch("forget managers", "a", {"metadata": {"managedFields": [{}]}}),
        apply("adopt", {"z": "1"}, "five"),
        maps.patch("force with merge", "a", {}, force="true"),
        maps.apply("wrong force", "a", configmap("a"), force="maybe"),
        maps.get("get", "a"),
    ]  # fmt: skip


def _lists() -> list[Call]:
    sets = group("apply-lists", "apps/v1", "deployments")

    def apply(name: str, spec: dict[str, Any], manager: str = "one", **query: str) -> Call:
        body = {
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"template": {"spec": spec}},
        }  # fmt: skip
        return sets.apply(name, "web", body, manager, **query)

    def main(**more: Any) -> dict[str, Any]:
        return {"containers": [{"name": "main", **more}]}

    return [
        sets.apply("create", "web", deployment("web", replicas=2)),
        apply("side", {"containers": [{"name": "side", "image": "s"}]}, "two"),
        apply("env", main(env=[{"name": "A", "value": "1"}]), "three"),
        apply("env of another", main(env=[{"name": "B", "value": "2"}]), "four"),
        apply("image conflict", main(image="other"), "three"),
        apply("env removed", main(), "three"),
        apply("ports", main(ports=[{"containerPort": 80}]), "three"),
        apply("port names", main(ports=[{"containerPort": 80, "name": "web"}, {"containerPort": 81, "protocol": "UDP"}]), "three"),
        apply("duplicate", main(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]), "three"),
        apply("no key", {"containers": [{"image": "x"}]}, "three"),
        apply("atomic list", main(command=["a", "b"]), "five"),
        apply("atomic conflict", main(command=["a", "c"]), "six"),
        apply("volumes", {"volumes": [{"name": "v", "configMap": {"name": "c"}}]}, "five", force="true"),
        apply("unknown", main(wrong=1), "five", force="true"),
        apply("null", main(image=None), "seven", force="true"),
        apply("side away", {}, "two"),
        sets.patch("scale", "web/scale", {"spec": {"replicas": 5}}, fieldManager="scaler"),
        sets.apply("replicas conflict", "web", deployment("web", replicas=2)),
        sets.apply("replicas given up", "web", deployment("web")),
        sets.apply("status", "web/status", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "status": {"replicas": 3}}, "controller"),
        sets.apply("selector", "web", deployment("web", selector={"matchLabels": {"app": "z"}}), force="true"),
        sets.get("get", "web"),
    ]  # fmt: skip
