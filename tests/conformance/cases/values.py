"""Values that Go reads in more than one form, and those that it refuses."""

from __future__ import annotations

from typing import Any

from tests.conformance.cases.call import (
    APPLY,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Call,
    configmap,
    core,
    deployment,
    group,
    pod,
)

_NEW_TIME = "2020-01-01T00:00:00.000000Z"


def subjects() -> dict[str, list[Call]]:
    """Return the subjects of this module."""
    return {
        "values": [*_base64(), *_times()],
        "versions": [*_namespaces(), *_versions(), *_lease_versions()],
        "options": [*_delete_options(), *_other_options()],
        "configurations": [*_escapes(), *_unread(), *_copies(), *_evictions()],
        "references": [*_owners(), *_accounts()],
        "event-rules": [*_events(), *_new_events()],
    }


def _base64() -> list[Call]:
    maps, secrets = core("values", "configmaps"), core("values", "secrets")

    def secret(number: int, value: str) -> Call:
        body = {"metadata": {"name": f"s{number}"}, "data": {"a": value}}
        return secrets.post(f"base64 {number}", body)

    values = (
        "Zg==\n", "Z\r\ng==", "Zg", "_-8=", "Zh==", "Zg==Zg==", "Z g==", " Zg==", "=", "Zg=",
        "====", "Z", "Zm9v\n\nZm9v", "ZgB=", "Zg=\n=", "Zg==\nx", "Zm9v\nZ", "",
    )  # fmt: skip
    overwritten = {"data": {"a": "A"}, "stringData": {"a": "x"}}
    binary = {"metadata": {"name": "b"}, "binaryData": {"a": "Zg==\n"}}
    return [
        *(secret(number, value) for number, value in enumerate(values)),
        secrets.post("overwritten", {"metadata": {"name": "o"}, **overwritten}),
        maps.post("binary data", binary),
        maps.patch("binary patch", "b", {"binaryData": {"a": "Zh\n=="}}),
        maps.get("get binary", "b"),
    ]


def _times() -> list[Call]:
    maps, events = core("values", "configmaps"), core("values", "events")
    leases = group("values", "coordination.k8s.io/v1", "leases")
    micro = (
        "2020-01-01T00:00:00.000000Z", "2020-01-01T00:00:00Z", "2020-01-01T00:00:00.1Z",
        "2020-01-01T00:00:00.1234567Z", "2020-01-01T01:30:00.123456+02:00", "", "x",
        "2020-13-01T00:00:00.000000Z", "2020-01-01T25:00:00.000000Z",
    )  # fmt: skip
    seconds = (
        "2020-13-01T00:00:00Z", "2020-00-01T00:00:00Z", "2020-01-01T00:00:00.5Z",
        "2020-01-01T24:00:00Z", "2020-02-30T00:00:00Z", "", "2020-01-01T00:00:00z",
        "2020-01-01t00:00:00Z", "2020-01-01T00:00:00+25:00", "2020-01-01T00:00:60Z",
        "2020-1-01T00:00:00Z", "2019-02-29T00:00:00Z",
    )  # fmt: skip

    def lease(number: int, time: str) -> Call:
        body = {"metadata": {"name": f"l{number}"}, "spec": {"renewTime": time}}
        return leases.post(f"micro time {number}", body)

    def event(name: str, first: Any, last: Any) -> Call:
        body: dict[str, Any] = {
            "metadata": {"name": "e"},
            "involvedObject": {"namespace": "values"},
        }
        return events.post(name, {**body, "firstTimestamp": first, "lastTimestamp": last})

    return [
        *(lease(number, time) for number, time in enumerate(micro)),
        leases.list("leases"),
        *(
            maps.post(f"time {number}", configmap(f"t{number}", creationTimestamp=time))
            for number, time in enumerate(seconds)
        ),
        maps.post("time as number", configmap("t", creationTimestamp=5)),
        event("times", "2020-01-01T00:00:00.9+01:00", "2020-02-29T05:00:00,5Z"),
        Call("get times", "GET", f"{events.path}/e"),
    ]


def _namespaces() -> list[Call]:
    maps = core("versions", "configmaps")
    empty = configmap("a", namespace="")
    path = [{"op": "replace", "path": "/metadata/namespace", "value": ""}]
    return [
        maps.post("empty namespace", empty),
        maps.put("put empty namespace", "a", empty),
        maps.patch("merge empty namespace", "a", {"metadata": {"namespace": ""}}, MERGE),
        maps.patch("strategic empty namespace", "a", {"metadata": {"namespace": ""}}, STRATEGIC),
        maps.patch("replace namespace", "a", path, JSON_PATCH),
        maps.apply("apply empty namespace", "b", configmap("b", namespace="")),
    ]


def _versions() -> list[Call]:
    maps = core("versions", "configmaps")
    texts = ("0", "00", "abc", "-1", "", "18446744073709551616")
    large = "99999999999999999999"
    calls = [
        maps.post(f"create {number}", configmap(f"c{number}", resourceVersion=text))
        for number, text in enumerate((*texts, "1"))
    ]
    calls += [
        maps.put(f"put {number}", "c0", configmap("c0", {"n": str(number)}, resourceVersion=text))
        for number, text in enumerate(texts)
    ]
    for kind in (MERGE, STRATEGIC):
        calls += [
            maps.patch(
                f"patch {number} {kind}", "c0",
                {"data": {"n": f"{number} {kind}"}, "metadata": {"resourceVersion": text}}, kind,
            )
            for number, text in enumerate((*texts, None))
        ]  # fmt: skip
    return [
        *calls,
        maps.post("bad name and version", configmap("A", resourceVersion="1")),
        maps.apply("apply with version", "d", configmap("d", resourceVersion="5")),
        maps.apply("apply over zero", "d", configmap("d", {}, resourceVersion="0")),
        maps.get("get of large version", "d", resourceVersion=large),
        maps.list("list of large version", resourceVersion=large),
        maps.watch("watch of large version", resourceVersion=large),
        maps.watch("watch of larger than signed", resourceVersion=str(1 << 63)),
    ]


def _lease_versions() -> list[Call]:
    leases = group("versions", "coordination.k8s.io/v1", "leases")
    body: dict[str, Any] = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}

    def lease(name: str, **metadata: Any) -> dict[str, Any]:
        return {**body, "metadata": {"name": name, **metadata}}

    return [
        leases.put("put creates", "x", lease("x", resourceVersion="5")),
        leases.put("put dry creates", "y", lease("y"), dryRun="All"),
        leases.put("put without version", "x", lease("x")),
        leases.put("put of version zero", "x", lease("x", resourceVersion="0")),
        leases.patch("drop version", "x", {"metadata": {"resourceVersion": None}}),
        leases.apply("labels", "z", lease("z", labels={"a": "b"})),
        leases.apply("no labels", "z", lease("z")),
        leases.apply("empty version", "z", lease("z", resourceVersion="")),
    ]


def _delete_options() -> list[Call]:
    maps = core("options", "configmaps")
    names = [f"d{number}" for number in range(16)]

    def delete(name: str, target: int, body: Any = None, **query: str) -> Call:
        return maps.delete(name, f"d{target}", body, **query)

    return [
        *(maps.post(f"create {name}", configmap(name)) for name in names),
        delete("orphans", 0, orphanDependents="true"),
        delete("no orphans", 1, orphanDependents="false"),
        delete("both", 2, orphanDependents="true", propagationPolicy="Background"),
        delete("policy beside body", 3, {}, propagationPolicy="Orphan"),
        delete("dry run beside body", 4, {}, dryRun="All"),
        delete("uid", 5, uid="x"),
        delete("version", 5, resourceVersion="1"),
        delete("uid beside body", 5, {}, uid="x"),
        delete("grace", 6, gracePeriodSeconds="x"),
        delete("grace beside body", 6, {}, gracePeriodSeconds="x"),
        delete("unknown policy", 7, propagationPolicy="x"),
        delete("empty policy", 7, propagationPolicy=""),
        delete("empty policy in body", 7, {"propagationPolicy": ""}),
        delete("dry run", 8, dryRun="All"),
        delete("empty dry run", 8, dryRun=""),
        delete("dry run twice", 9, {"dryRun": ["All", "All"]}),
        delete("unknown dry run", 9, {"dryRun": [""]}),
        maps.delete("missing beside body", "none", {}, propagationPolicy="x"),
        maps.list("left", fieldSelector="metadata.name!=kube-root-ca.crt"),
    ]


def _other_options() -> list[Call]:
    maps, sets = core("options", "configmaps"), group("options", "apps/v1", "deployments")
    wrong = {"dryRun": "x", "fieldValidation": "x", "fieldManager": "a" * 129}
    return [
        maps.post("empty dry create", configmap("e"), dryRun=""),
        maps.put("empty dry put", "d15", configmap("d15"), dryRun=""),
        maps.patch("empty dry patch", "d15", {}, dryRun=""),
        maps.post("three wrong", configmap("e"), **wrong),
        maps.put("put missing", "none", configmap("none")),
        *(
            maps.patch(f"malformed for missing {kind}", "none", body, kind)
            for kind, body in ((MERGE, "x"), (STRATEGIC, "[]"), (JSON_PATCH, "{}"), ("a/b", "{}"))
        ),
        maps.patch("malformed apply for missing", "none?fieldManager=a", "a: [", APPLY),
        sets.patch("malformed scale of missing", "none/scale", "x"),
        group("options", "batch/v1", "jobs").delete("all jobs"),
        group("options", "batch/v1", "jobs").delete("jobs", "", {"propagationPolicy": "Orphan"}),
        sets.patch("malformed status of missing", "none/status", "x"),
        maps.post("nothing", configmap("n", {})),
        maps.patch("forget managers", "n", {"metadata": {"managedFields": [{}]}}),
        maps.apply("apply to nothing", "n", configmap("n")),
    ]


def _owners() -> list[Call]:
    maps = core("references", "configmaps")

    def owner(number: int, version: str, kind: str = "X") -> Call:
        reference = {"apiVersion": version, "kind": kind, "name": "a", "uid": "1"}
        body = configmap(f"o{number}", ownerReferences=[reference])
        return maps.post(f"owner {number}", body)

    versions = ("x/y/z", "", "apps/v1", "/v1", "apps/", "v1", "/")
    return [
        *(owner(number, version) for number, version in enumerate(versions)),
        owner(10, "/v1", "Event"),
    ]


def _accounts() -> list[Call]:
    pods, sets = core("references", "pods"), group("references", "apps/v1", "deployments")
    body = deployment("d")
    body["spec"]["template"]["spec"]["serviceAccount"] = "foo"

    def patch(name: str, **spec: str) -> Call:
        return sets.patch(name, "d", {"spec": {"template": {"spec": spec}}}, STRATEGIC)

    return [
        pods.post("missing account", pod("a", serviceAccount="none")),
        pods.post("two accounts", pod("b", serviceAccount="none", serviceAccountName="default")),
        pods.post("account", pod("c", serviceAccount="default")),
        sets.post("template", body),
        patch("twin", serviceAccount="bar"),
        patch("name", serviceAccountName="baz"),
    ]


def _events() -> list[Call]:
    events = core("event-rules", "events")
    complete = {
        "eventTime": _NEW_TIME, "reportingComponent": "x/y", "reportingInstance": "i",
        "action": "a", "reason": "r",
    }  # fmt: skip

    def event(name: str, **more: Any) -> dict[str, Any]:
        involved = {"namespace": "event-rules"}
        return {"metadata": {"name": name}, "involvedObject": involved, **more}

    def post(name: str, **more: Any) -> Call:
        return events.post(name, event(name.replace(" ", "-"), **more))

    long = {"action": "x" * 129, "reason": "y" * 129, "message": "m" * 1025}
    return [
        post("time alone", eventTime=_NEW_TIME),
        post("complete", **complete),
        post("controller", **{**complete, "reportingComponent": "a b"}),
        post("long", **{**complete, **long, "reportingInstance": "x" * 129}),
        post("other namespace", **{**complete, "involvedObject": {"namespace": "other"}}),
        post("no namespace", **{**complete, "involvedObject": {}}),
        post("old other namespace", involvedObject={"namespace": "other"}),
        post("old long", **long, type="q"),
        events.put("change", "complete", event("complete", **{**complete, "action": "b"})),
        events.patch("no action", "complete", {"action": ""}),
        post("Capital"),
        events.post("finalizer", {**event("f"), "metadata": {"name": "f", "finalizers": ["a"]}}),
        events.put("put creates", "p", event("p")),
        events.put("put again", "p", event("p", reason="x")),
    ]


def _new_events() -> list[Call]:
    events = group("event-rules", "events.k8s.io/v1", "events")
    complete = {
        "eventTime": _NEW_TIME, "reportingController": "x/y", "reportingInstance": "i",
        "action": "a", "reason": "r", "type": "Normal", "regarding": {"namespace": "event-rules"},
    }  # fmt: skip

    def post(name: str, **more: Any) -> Call:
        return events.post(f"new {name}", {"metadata": {"name": name}, **complete, **more})

    return [
        post("n"),
        post("other", regarding={"namespace": "other"}),
        events.patch("new series", "n", {"series": {"count": 2, "lastObservedTime": _NEW_TIME}}),
    ]


def _escapes() -> list[Call]:
    maps = core("configurations", "configmaps")
    start = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"y"},\n"data":'

    def apply(name: str, value: str) -> Call:
        return maps.apply(name, "y", f'{start}{{"a":"{value}"}}}}')

    sent = start.partition(",")[2]
    return [
        apply("surrogates", r"\ud83d\ude00"),
        apply("upper case", r"\uD83D"),
        apply("escaped escape", r"\\ud83d"),
        apply("other escapes", r"\u00fc\n\""),
        Call(
            "surrogates in yaml", "POST", maps.path, r'{"data":{"a":"\ud83d"}}', "application/yaml"
        ),
        Call("surrogates in json", "POST", maps.path, f'{{{sent}{{"a":"x"}}}}'),
        maps.apply("no name", "none", {"apiVersion": "v1", "kind": "ConfigMap"}),
    ]


def _unread() -> list[Call]:
    secrets, pods = core("configurations", "secrets"), core("configurations", "pods")
    leases = group("configurations", "coordination.k8s.io/v1", "leases")
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "data": {"a": "A"}}
    named = {**body, "metadata": {"name": "s", "namespace": "configurations"}}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
    limited = pod("p", containers=[{"name": "m", "resources": {"limits": {"cpu": "x"}}}])
    return [
        secrets.apply("base64 without name", "s", body),
        secrets.post("secret", {"metadata": {"name": "s"}, "data": {"a": "QQ=="}}),
        secrets.apply("base64", "s", named, force="true"),
        secrets.patch("strategic base64", "s", {"data": {"a": "A"}}, STRATEGIC),
        leases.apply("time", "l", {**lease, "spec": {"renewTime": "x"}}),
        pods.apply("quantity", "p", limited),
        leases.post("gated", {**lease, "spec": {"strategy": "x", "preferredHolder": "y"}}),
    ]


def _copies() -> list[Call]:
    maps = core("configurations", "configmaps")

    def copy(name: str, source: str, path: str = "/data/a", op: str = "copy") -> Call:
        return maps.patch(name, "c", [{"op": op, "path": path, "from": source}], JSON_PATCH)

    return [
        maps.post("to copy", configmap("c")),
        copy("copy missing", "/none"),
        copy("copy missing of missing", "/none/none"),
        copy("copy missing of map", "/data/none"),
        copy("copy missing of list", "/metadata/managedFields/9"),
        copy("copy document", ""),
        copy("copy over data", "/none", "/data"),
        copy("move missing", "/none", op="move"),
    ]


def _evictions() -> list[Call]:
    pods = core("configurations", "pods")

    def evict(title: str, **metadata: str) -> Call:
        return pods.post(title, {"metadata": metadata}, "e/eviction", dryRun="All")

    return [
        pods.post("to evict", pod("e")),
        evict("evict without name"),
        evict("evict another", name="x"),
        evict("evict in another namespace", name="e", namespace="x"),
        evict("evict", name="e"),
    ]
