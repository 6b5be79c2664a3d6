"""Bodies and headers that are wrong, or in another form."""

from __future__ import annotations

from tests.conformance.cases.call import Call, Resource, configmap, core

_YAML = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yaml}\ndata: {a: b}\n"


def subjects() -> dict[str, list[Call]]:
    """Return the subjects of this module."""
    maps = core("bodies", "configmaps")
    return {"bodies": [*_malformed(maps), *_forms(maps), *_paths(maps)]}


def _malformed(maps: Resource) -> list[Call]:
    def post(name: str, body: str) -> Call:
        return maps.post(name, body)

    return [
        post("empty", ""),
        post("no json", "{"),
        post("text", "hello"),
        post("list", "[]"),
        post("null", "null"),
        post("number", "1"),
        post("no kind", '{"metadata":{"name":"a"}}'),
        post("kind alone", '{"kind":"ConfigMap"}'),
        post("data as list", '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":[]}'),
        post(
            "data of numbers",
            '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":1}}',
        ),
        post("metadata as text", '{"apiVersion":"v1","kind":"ConfigMap","metadata":"a"}'),
        post("label as number", '{"metadata":{"name":"a","labels":{"a":1}}}'),
        post("binary data", '{"metadata":{"name":"a"},"binaryData":{"a":"%"}}'),
        post("time", '{"metadata":{"name":"a","deletionTimestamp":"soon"}}'),
        maps.post("duplicate", '{"metadata":{"name":"a","name":"b"}}', fieldValidation="Strict"),
        maps.post(
            "duplicate warned", '{"metadata":{"name":"a"},"data":{"k":"1","k":"2"}}',
            fieldValidation="Warn",
        ),
        post("null fields", '{"metadata":{"name":"nulls","labels":null},"data":null}'),
        post("list of items", '{"apiVersion":"v1","kind":"ConfigMapList","items":[]}'),
        post("wrong case", '{"metadata":{"name":"case"},"Data":{"a":"b"}}'),
        maps.post(
            "wrong case strict", '{"metadata":{"name":"case2"},"Data":{"a":"b"}}',
            fieldValidation="Strict",
        ),
        post("unknown field and wrong type", '{"metadata":{"name":"a"},"wrong":1,"data":{"a":1}}'),
        maps.post(
            "unknown field and wrong type strict",
            '{"metadata":{"name":"a"},"wrong":1,"data":{"a":1}}',
            fieldValidation="Strict",
        ),
        maps.post("wrong dry run", configmap("a"), dryRun="Maybe"),
        maps.post("wrong manager", configmap("a"), fieldManager="a" * 129),
        maps.post("own manager", configmap("managed"), fieldManager="mine"),
    ]  # fmt: skip


def _forms(maps: Resource) -> list[Call]:
    yaml = "application/yaml"
    return [
        Call("yaml", "POST", maps.path, _YAML, yaml),
        Call("broken yaml", "POST", maps.path, "a: [", yaml),
        Call("yaml answer", "GET", f"{maps.path}/yaml", accept=yaml),
        Call("xml", "POST", maps.path, "<a/>", "application/xml"),
        Call("no type", "POST", maps.path, '{"metadata":{"name":"untyped"}}', ""),
        Call("charset", "POST", maps.path, '{"metadata":{"name":"set"}}', "application/json; charset=utf-8"),
        Call("accept xml", "GET", f"{maps.path}/yaml", accept="application/xml"),
        Call("accept anything", "GET", f"{maps.path}/yaml", accept="*/*"),
        Call("accept several", "GET", f"{maps.path}/yaml", accept="text/html, application/*;q=0.5"),
        Call("accept table of v2", "GET", f"{maps.path}/yaml", accept="application/json;as=Table;v=v2;g=meta.k8s.io"),
        Call("unknown patch", "PATCH", f"{maps.path}/yaml", "{}", "application/json"),
        Call("unknown patch type", "PATCH", f"{maps.path}/yaml", "{}", "text/plain"),
        Call("pretty", "GET", f"{maps.path}/yaml?pretty=true"),
    ]  # fmt: skip


def _paths(maps: Resource) -> list[Call]:
    return [
        Call("unknown path", "GET", "/nothing"),
        Call("unknown group", "GET", "/apis/example.org/v1/things"),
        Call("unknown version", "GET", "/apis/apps/v9/deployments"),
        Call("unknown kind", "GET", "/api/v1/namespaces/bodies/things"),
        Call("unknown subresource", "GET", f"{maps.path}/yaml/nothing"),
        Call("put to a list", "PUT", maps.path, "{}"),
        Call("patch a list", "PATCH", maps.path, "{}", "application/merge-patch+json"),
        Call("post to an object", "POST", f"{maps.path}/yaml", "{}"),
        Call("unknown method", "FETCH", maps.path),
        Call("head", "HEAD", f"{maps.path}/yaml"),
        Call("options", "OPTIONS", maps.path),
        Call("create in no namespace", "POST", "/api/v1/configmaps", configmap("a")),
        Call(
            "create in missing namespace", "POST", "/api/v1/namespaces/none/configmaps",
            configmap("a"),
        ),
        Call("get in missing namespace", "GET", "/api/v1/namespaces/none/configmaps/a"),
        Call("list in missing namespace", "GET", "/api/v1/namespaces/none/configmaps"),
        Call("no token", "GET", maps.path, headers=(("Authorization", ""),)),
        Call("wrong token", "GET", maps.path, headers=(("Authorization", "Bearer wrong"),)),
        Call("double slash", "GET", "/api/v1//configmaps"),
        Call("trailing slash", "GET", f"{maps.path}/"),
    ]  # fmt: skip
