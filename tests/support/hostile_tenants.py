"""What the owner of one namespace may create who wants to stop the controller for everybody.

Each attack is a list of objects; nothing in them needs more than the right to edit a namespace.
The suite of tests and the benchmark `tenants` play the same ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["ATTACKS", "SHORT_LIVED", "Object"]

Object = dict[str, Any]

FOLLOW = {"hotmap.dev/follow": "auto"}


def deployment(
    name: str, spec: Object, annotations: dict[str, str] | None = None, **fields: Any
) -> Object:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "annotations": FOLLOW if annotations is None else annotations},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
            **fields,
        },
    }


def pod_spec(**container: Any) -> Object:
    return {"containers": [{"name": "main", "image": "app:1", **container}]}


def config_map(
    name: str, data: dict[str, str], annotations: dict[str, str] | None = None
) -> Object:
    metadata = {"name": name, "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def variable(name: str, source: str, *, optional: bool = True) -> Object:
    ref = {"name": source, "key": "LEVEL", "optional": optional}
    return {"name": name, "valueFrom": {"configMapKeyRef": ref}}


def invalid_time() -> list[Object]:
    """A pause that began in the thirteenth month."""
    said = {
        **FOLLOW,
        "deployment.reloader.stakater.com/paused-at": "2026-13-01T00:00:00Z",
        "deployment.reloader.stakater.com/pause-period": "1m",
    }
    spec = pod_spec(env=[variable("LEVEL", "app")])
    return [deployment("evil", spec, said, paused=True)]


def long_chain() -> list[Object]:
    """6,000 variables, each made of the one before it."""
    chain = [{"name": f"V{n}", "value": f"$(V{n - 1})"} for n in range(1, 6000)]
    return [deployment("evil", pod_spec(env=[variable("V0", "app"), *chain]))]


def many_imports() -> list[Object]:
    """3,000 variables that each of 6,000 imports is compared with."""
    env = [{"name": f"V{n}", "value": "x"} for n in range(3000)]
    sources = [{"configMapRef": {"name": f"c{n}", "optional": True}} for n in range(6000)]
    return [deployment("evil", pod_spec(env=env, envFrom=sources))]


def many_mounts() -> list[Object]:
    """1,000 mounts of a volume with 2,000 projections."""
    mounts = [{"name": "v", "mountPath": f"/m{n}", "subPath": f"f{n}"} for n in range(1000)]
    sources = [{"configMap": {"name": f"c{n}", "optional": True}} for n in range(2000)]
    spec = pod_spec(volumeMounts=mounts)
    return [
        deployment("evil", {**spec, "volumes": [{"name": "v", "projected": {"sources": sources}}]})
    ]


def many_containers() -> list[Object]:
    """10,000 containers, of which the last one has a use."""
    containers: list[Object] = [{"name": f"c{n}", "image": "a"} for n in range(10_000)]
    containers[-1]["env"] = [variable("LEVEL", "app")]
    return [deployment("evil", {"containers": containers})]


def many_globs() -> list[Object]:
    """A list of 31,258 globs beside 300 ConfigMaps."""
    globs = ",".join(["cm/*?"] * 31_258)
    return [
        *(config_map(f"app-{n}", {"LEVEL": "0"}) for n in range(300)),
        deployment("evil", pod_spec(), {"hotmap.dev/follow": globs}),
    ]


def slow_expressions() -> list[Object]:
    """64 expressions that take 10 ms for each of 300 long names, on 20 workloads."""
    expressions = ",".join(rf".*(a|b)[ab-]{{12}}x{n}" for n in range(64))
    said = {"configmap.reloader.stakater.com/reload": expressions}
    long = "a" * 50 + "b-" * 90
    return [
        *(config_map(f"{long}{n}", {"LEVEL": "0"}) for n in range(300)),
        *(
            deployment(f"evil-{n}", pod_spec(), {**said, "example.com/n": str(n)})
            for n in range(20)
        ),
    ]


def large_classes() -> list[Object]:
    """300 expressions of which each becomes a program of megabytes."""
    said = {"configmap.reloader.stakater.com/reload": ",".join([r"\pL{900}x"] * 300)}
    return [deployment("evil", pod_spec(), said)]


def large_records() -> list[Object]:
    """Eight workloads with 900 sources each, and one with 4,500."""

    def one(name: str, count: int) -> Object:
        return deployment(name, pod_spec(env=[variable(f"V{n}", f"c{n}") for n in range(count)]))

    return [one("evil", 4500), *(one(f"evil-{n}", 900) for n in range(8))]


def large_annotations() -> list[Object]:
    """40 workloads with 200 KB of annotations."""
    said = {**FOLLOW, "hotmap.dev/settle": "x" * 100_000, "example.com/note": "y" * 100_000}
    return [deployment(f"evil-{n}", pod_spec(), said) for n in range(40)]


def foreign_content() -> list[Object]:
    """ConfigMaps of megabytes without a consumer, in one key or in very many."""
    return [
        *(config_map(f"large-{n}", {"a": "x" * 900_000}) for n in range(3)),
        *(config_map(f"many-{n}", {f"k{k}": "" for k in range(5_000)}) for n in range(10)),
    ]


def many_data_keys() -> list[Object]:
    """Three ConfigMaps with four times the data keys that are read, of which one is used."""
    data = {f"{number:x}": "" for number in range(20_000)}
    used = deployment("evil", pod_spec(envFrom=[{"configMapRef": {"name": "app-0"}}]))
    return [*(config_map(f"app-{number}", data) for number in range(3)), used]


def large_pods() -> list[Object]:
    """100 Pods of 0.9 MB that a workload selects, which are listed to see when they started."""
    spec = pod_spec(env=[variable("LEVEL", "app"), {"name": "X", "value": "x" * 900_000}])
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"evil-{n}", "labels": {"app": "evil"}},
            "spec": spec,
        }
        for n in range(100)
    ]
    small = pod_spec(env=[variable("LEVEL", "app")])
    return [config_map("app", {"LEVEL": "0"}), *pods, deployment("evil", small, replicas=1)]


def forged_lines() -> list[Object]:
    """Paths that begin a line of their own, and speak to the terminal."""
    path = "/etc\n2026-01-01T00:00:00Z ERROR forged\x1b[31m\u202e"
    spec = pod_spec(volumeMounts=[{"name": "v", "mountPath": path}])
    volumes = [{"name": "v", "configMap": {"name": "app"}}]
    return [config_map("app", {"LEVEL": "0"}), deployment("evil", {**spec, "volumes": volumes})]


def many_events() -> list[Object]:
    """300 workloads that each are worth a Warning."""
    said = {"hotmap.dev/follow": "auto", "hotmap.dev/settle": "no time", "hotmap.dev/folow": "x"}
    return [deployment(f"evil-{n}", pod_spec(), said) for n in range(300)]


def short_lived() -> list[Object]:
    """ConfigMaps that are deleted at once."""
    return [config_map(f"gone-{n}", {"LEVEL": str(n)}) for n in range(2000)]


ATTACKS: dict[str, Callable[[], list[Object]]] = {
    item.__name__.replace("_", " "): item
    for item in (
        invalid_time,
        long_chain,
        many_imports,
        many_mounts,
        many_containers,
        many_globs,
        slow_expressions,
        large_classes,
        large_records,
        large_annotations,
        foreign_content,
        many_data_keys,
        large_pods,
        forged_lines,
        many_events,
        short_lived,
    )
}

#: Attacks whose objects are deleted as soon as they were created.
SHORT_LIVED = ("short lived",)
