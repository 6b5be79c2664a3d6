"""What the owner of one namespace may create who wants to stop the controller for everybody.

Each attack is a list of objects; nothing in them needs more than the right to edit a namespace.
The suite of tests and the benchmark `tenants` play the same ones.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any

__all__ = ["ATTACKS", "LEFT_OUT", "SHORT_LIVED", "Object"]

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
    """100 Pods of 0.9 MB that 21 workloads select: each lists them to see when they started."""
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
    one = deployment("evil", small, replicas=1)
    others = [{**one, "metadata": {"name": f"evil-{n}", "annotations": FOLLOW}} for n in range(20)]
    return [config_map("app", {"LEVEL": "0"}), *pods, one, *others]


def many_pods() -> list[Object]:
    """5,000 small Pods of one workload: each may have started before a change."""
    spec = pod_spec(env=[variable("LEVEL", "app")])
    labels = {"app": "evil"}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"evil-{n}", "labels": labels},
            "spec": spec,
        }
        for n in range(5_000)
    ]
    return [config_map("app", {"LEVEL": "0"}), deployment("evil", spec), *pods]


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


def giant_selectors() -> list[Object]:
    """20 workloads whose selectors have 10,000 values each, and one that is short."""
    values = [f"value-{number:050}" for number in range(9_999)]
    expression = {"key": "app", "operator": "In", "values": ["evil", *values]}
    body = deployment("evil", pod_spec(env=[variable("LEVEL", "app")]))
    template = {**body["spec"]["template"], "metadata": {"labels": {"app": "evil"}}}
    selector = {"matchExpressions": [expression]}
    spec = {**body["spec"], "selector": selector, "template": template, "replicas": 1}
    return [
        {**body, "metadata": {**body["metadata"], "name": name}, "spec": spec}
        for name in ("evil", *(f"evil-{number}" for number in range(20)))
    ]


def owner_circles() -> list[Object]:
    """Deployments, ReplicaSets and Pods that each own the next, in a circle, and themselves."""
    kinds = ("Deployment", "ReplicaSet", "Pod")
    labels = {"app": "evil", "hotmap.dev/watch": "true"}
    spec = pod_spec(env=[variable("LEVEL", "app")])
    made = []
    for number in range(30):
        kind, owner = kinds[number % 3], kinds[(number + 1) % 3]
        name, owned_by = f"evil-{number}", f"evil-{(number + 1) % 30}"
        body = deployment(name, spec)
        owners = [
            {"apiVersion": "apps/v1", "kind": owner, "name": owned_by, "uid": f"uid-{owned_by}"},
            {"apiVersion": "v1", "kind": kind, "name": name, "uid": f"uid-{name}"},
        ]
        metadata = {
            **body["metadata"],
            "uid": f"uid-{name}",
            "labels": labels,
            "ownerReferences": [
                {**each, "controller": not place} for place, each in enumerate(owners)
            ],
        }
        version = "v1" if kind == "Pod" else "apps/v1"
        made.append(
            {
                **body,
                "apiVersion": version,
                "kind": kind,
                "metadata": metadata,
                "spec": spec if kind == "Pod" else body["spec"],
            }
        )
    return [*made, deployment("evil", spec)]


def odd_characters() -> list[Object]:
    """NUL, controls and directions of text, in every place that takes any text."""
    odd = "\x00\ufffd\u202e\x1b]0;x\x07\n"
    annotations = {**FOLLOW, "hotmap.dev/settle": odd, "hotmap.dev/exclude": odd}
    env = [variable("LEVEL", "app"), {"name": "X", "value": odd}]
    return [
        config_map("app", {"LEVEL": odd}, {"hotmap.dev/ignore": odd}),
        deployment("evil", pod_spec(args=[odd, f"$({odd})"], env=env), annotations),
    ]


def odd_numbers() -> list[Object]:
    """Integers at the ends of 32 and 64 bits and beyond, where an integer belongs."""
    numbers = (2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**40, -1, -(2**63) - 1)
    spec = pod_spec(env=[variable("LEVEL", "app")])
    rolling: Object = {
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "²%"}}
    }
    return [
        deployment("evil", spec, replicas=2**31 - 1),
        deployment("evil-percent", spec, **rolling),
        *(
            deployment(f"evil-{place}", spec, replicas=number)
            for place, number in enumerate(numbers)
        ),
        *(
            deployment(f"evil-budget-{place}", spec, revisionHistoryLimit=number)
            for place, number in enumerate(numbers)
        ),
    ]


def absurd_annotations() -> list[Object]:
    """Every annotation of hotmap's own and of Reloader's with values that it never writes."""
    texts = ("-1s", "1e999s", "9" * 4000, "inf", "²", "{}", "[" * 4000, "9999-12-31T23:59:59Z", "/")
    names = (
        *("follow", "exclude", "ignore", "rereads", "strategy", "settle", "settle-max"),
        *("catch-up", "on-change", "agent", "target", "revision", "release", "flap-limit"),
    )
    reloader = (
        *("reloader.stakater.com/auto", "reloader.stakater.com/search"),
        *("deployment.reloader.stakater.com/pause-period",),
        *("deployment.reloader.stakater.com/paused-at",),
        *("reloader.stakater.com/last-reloaded-from", "kubectl.kubernetes.io/restartedAt"),
    )
    spec = pod_spec(env=[variable("LEVEL", "app")])
    made = [config_map("app", {"LEVEL": "0"}, {f"hotmap.dev/{name}": "\n" for name in names})]
    for place, text in enumerate(texts):
        values = {f"hotmap.dev/{name}": text for name in names} | dict.fromkeys(reloader, text)
        body = deployment(f"evil-{place}" if place else "evil", spec, {**values, **FOLLOW})
        template = {
            "metadata": {"labels": {"app": body["metadata"]["name"]}, "annotations": values}
        }
        made.append({**body, "spec": {**body["spec"], "template": {**template, "spec": spec}}})
    return made


def many_annotations() -> list[Object]:
    """10,000 annotations on each of ten workloads and ConfigMaps, most of hotmap's domain."""
    many = {f"hotmap.dev/a-{number}": "x" for number in range(10_000)}
    spec = pod_spec(env=[variable("LEVEL", "app")])
    return [
        *(config_map(f"app-{number}", {"LEVEL": "0"}, many) for number in range(10)),
        *(deployment(f"evil-{number}", spec, {**many, **FOLLOW}) for number in range(10)),
    ]


def longest_names() -> list[Object]:
    """Names of 253 characters, of objects and of data keys, each of which is worth a Warning."""
    name, key = "a" * 253, "k" * 253
    refs = [
        {"name": f"V{number}", "valueFrom": {"configMapKeyRef": {"name": name, "key": key}}}
        for number in range(200)
    ]
    annotations = {**FOLLOW, "hotmap.dev/settle": "no time"}
    return [
        config_map(name, {key: "0", "..": "1", "a.b-c_d": "2"}),
        deployment("evil", pod_spec(env=refs), annotations),
        deployment(name, pod_spec(env=refs), annotations),
    ]


def giant_templates() -> list[Object]:
    """Twice to four times the containers, volumes and variables that are read.

    More of them cost the local API server seconds, and are not read either
    (tests/core/test_object_limits.py).
    """
    uses = [variable("A", "a")]
    containers = [{"name": f"c{n}", "image": "a", "env": uses} for n in range(1_000)]
    volumes = [{"name": f"v{n}", "configMap": {"name": f"c{n}"}} for n in range(4_000)]
    env = [{"name": f"V{n}"} for n in range(20_000)]
    return [
        deployment("evil", {"containers": containers}),
        deployment("evil-volumes", {**pod_spec(), "volumes": volumes}),
        deployment("evil-env", pod_spec(env=env)),
    ]


def ambiguous_names() -> list[Object]:
    """Data keys that look like separators, and names that occur twice in a template."""
    data = dict.fromkeys(("-", "_", "a.", "a..b", "null", "0", "a-b", "a.b", "a_b"), "0")
    twice = [{"name": "main", "image": "a", "env": [variable("A", "app")] * 2}] * 2
    volumes = [{"name": "v", "configMap": {"name": name}} for name in ("app", "other")]
    mounts = [{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/v"}]
    return [
        config_map("app", data),
        deployment("evil-containers", {"containers": twice}),
        deployment("evil", {**pod_spec(volumeMounts=mounts, env=[variable("A", "app")] * 50)}),
        deployment("evil-volumes", {**pod_spec(volumeMounts=mounts), "volumes": volumes}),
    ]


def copied_state() -> list[Object]:
    """Secrets that look like hotmap's own: records, keys and Jobs, also as sources."""
    made: list[Object] = []
    names: list[str] = []
    for kind, name, data_key in (
        ("state", "hotmap-state-00", "state"),
        ("key", "hotmap-key", "key"),
        ("pending", "hotmap-pending", "jobs"),
    ):
        for content in (b"", b"\x00" * 100_000, b"[" * 100_000, b"2 uid 9 9 9\n" * 50_000):
            copy = f"{name}-{len(names)}" if len(names) % 4 else name
            names.append(copy)
            made.append(
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {"name": copy},
                    "type": f"hotmap.dev/{kind}",
                    "data": {data_key: b64encode(content).decode()},
                }
            )
    refs = [{"secretRef": {"name": copy, "optional": True}} for copy in names]
    return [*made, deployment("evil", pod_spec(envFrom=refs))]


def largest_objects() -> list[Object]:
    """13 workloads of 1 MB, two thirds of what an API server stores, each with a use."""
    text = "x" * 1_000_000
    env = [variable("LEVEL", "app"), {"name": "X", "value": text}]
    return [
        config_map("app", {"LEVEL": "0"}),
        deployment("evil", pod_spec(env=env)),
        *(deployment(f"evil-{n}", pod_spec(env=env[:1], args=[text])) for n in range(12)),
    ]


def endless_deletions() -> list[Object]:
    """Workloads and sources with a finalizer: once deleted, they stay as they are forever."""
    spec = pod_spec(env=[variable("LEVEL", "app")])
    made = [config_map(f"app-{n}" if n else "app", {"LEVEL": "0"}) for n in range(100)]
    made += [deployment(f"evil-{n}" if n else "evil", spec) for n in range(100)]
    for body in made:
        body["metadata"]["finalizers"] = ["example.com/never"]
    return made


def many_replica_sets() -> list[Object]:
    """10,000 ReplicaSets without an owner, each of which follows a source."""
    spec = pod_spec(env=[variable("LEVEL", "app")])
    sets = [{**deployment(f"evil-{n}", spec), "kind": "ReplicaSet"} for n in range(10_000)]
    return [config_map("app", {"LEVEL": "0"}), deployment("evil", spec), *sets]


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
        many_pods,
        forged_lines,
        many_events,
        short_lived,
        giant_selectors,
        owner_circles,
        odd_characters,
        odd_numbers,
        absurd_annotations,
        many_annotations,
        longest_names,
        giant_templates,
        ambiguous_names,
        copied_state,
        largest_objects,
        endless_deletions,
        many_replica_sets,
    )
}

#: Attacks of which the workload "evil" is left out, with one Warning Event that names the bound.
LEFT_OUT = (
    *("long chain", "many imports", "many mounts", "many containers", "large records"),
    *("giant selectors", "giant templates"),
)

#: Attacks whose objects are deleted as soon as they were created.
SHORT_LIVED = ("short lived", "endless deletions")
