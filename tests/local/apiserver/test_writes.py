"""Creates, updates and deletes answer as kube-apiserver does, down to the texts."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from tests.local.apiserver.api import (
    CONFIGMAPS,
    DEPLOYMENTS,
    JSON_PATCH,
    MERGE,
    PODS,
    STRATEGIC,
    configmap,
    deployment,
)

from hotmap.core.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from hotmap.local.apiserver.responses import add_warnings
from hotmap.local.http_server import web
from hotmap.local.store import StaleRead

if TYPE_CHECKING:
    from tests.local.apiserver.api import Api
    from tests.support.clocks import Clock

    from hotmap.local.apiserver.options import DeleteOptions
    from hotmap.local.apiserver.registry import Registry
    from hotmap.local.apiserver.routes import ResourcePath


async def test_create_returns_complete_object(api: Api) -> None:
    """The server gives uid, creation time, resourceVersion and the namespace of the URL."""
    reply = await api.post(CONFIGMAPS, configmap("a", k="v"))
    assert reply.status == 201
    metadata = reply.body["metadata"]
    assert list(reply.body) == ["kind", "apiVersion", "metadata", "data"]
    assert metadata["namespace"] == "default"
    assert metadata["creationTimestamp"] == "2023-11-14T22:13:20Z"
    assert metadata["resourceVersion"] and metadata["uid"]
    assert (await api.get(f"{CONFIGMAPS}/a")).body == reply.body


REFUSED: list[tuple[Any, ...]] = [
    ("POST", CONFIGMAPS, configmap("taken"), 409, 'configmaps "taken" already exists'),
    (
        "POST",
        "/api/v1/namespaces/nons/configmaps",
        configmap("a"),
        404,
        'namespaces "nons" not found',
    ),
    (
        "POST",
        CONFIGMAPS,
        {"metadata": {"name": "a", "namespace": "other"}},
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    (
        "POST",
        CONFIGMAPS,
        {"metadata": {"name": "a", "resourceVersion": "5"}},
        500,
        "resourceVersion should not be set on objects to be created",
    ),
    ("PUT", f"{CONFIGMAPS}/nope", configmap("nope"), 404, 'configmaps "nope" not found'),
    (
        "PUT",
        f"{CONFIGMAPS}/taken",
        configmap("other"),
        400,
        "the name of the object (other) does not match the name on the URL (taken)",
    ),
    (
        "PUT",
        f"{CONFIGMAPS}/taken",
        {"metadata": {"name": "taken", "resourceVersion": "1"}},
        409,
        'Operation cannot be fulfilled on configmaps "taken": the object has been modified; '
        "please apply your changes to the latest version and try again",
    ),
    ("GET", f"{DEPLOYMENTS}/x", None, 404, 'deployments.apps "x" not found'),
    ("DELETE", f"{CONFIGMAPS}/nope", None, 404, 'configmaps "nope" not found'),
    ("POST", f"{CONFIGMAPS}/taken", {}, 405, None),
    ("POST", CONFIGMAPS, b"{", 400, None),
    ("POST", CONFIGMAPS, [], 400, None),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "message"), REFUSED)
async def test_errors_have_kubernetes_status(
    api: Api, method: str, path: str, body: object, status: int, message: str | None
) -> None:
    """Code, body and code in the body agree, and nothing is written."""
    await api.post(CONFIGMAPS, configmap("taken"))
    before = (await api.get(CONFIGMAPS)).body["metadata"]["resourceVersion"]
    reply = await api.request(method, path, body)
    assert reply.status == status == reply.body["code"]
    assert reply.body["kind"] == "Status"
    assert reply.body["status"] == "Failure"
    if message is not None:
        assert reply.message == message
    assert (await api.get(CONFIGMAPS)).body["metadata"]["resourceVersion"] == before


async def test_update_without_resource_version_overwrites(api: Api) -> None:
    """ConfigMaps allow unconditional updates."""
    await api.post(CONFIGMAPS, configmap("a", k="1"))
    reply = await api.request("PUT", f"{CONFIGMAPS}/a", configmap("a", k="2"))
    assert (reply.status, reply.body["data"]) == (200, {"k": "2"})


async def test_lease_update_requires_resource_version(registry: Registry) -> None:
    """Kinds without unconditional updates refuse a PUT that says nothing."""
    lease = {"metadata": {"name": "l"}, "spec": {}}
    await registry.create("leases", "default", lease, manager="t")
    with pytest.raises(Invalid, match=r"metadata\.resourceVersion: .* must be specified"):
        await registry.update("leases", "default", "l", lease, manager="t")


async def test_unchanged_write_keeps_revision(api: Api, clock: Clock) -> None:
    """Same resourceVersion, no watch event; a later managedFields time alone is not a change."""
    created = (await api.post(CONFIGMAPS, configmap("a", k="v"))).body
    clock.now += 60
    async with api.watch(CONFIGMAPS, resourceVersion=created["metadata"]["resourceVersion"]) as w:
        again = await api.request("PUT", f"{CONFIGMAPS}/a", configmap("a", k="v"))
        patched = await api.patch(f"{CONFIGMAPS}/a", {"data": {"k": "v"}})
        assert again.body == patched.body == created
        await api.patch(f"{CONFIGMAPS}/a", {"data": {"k": "w"}})
        line = await w.next()
    assert line is not None
    assert line["object"]["data"] == {"k": "w"}


async def test_names_are_generated(registry: Registry) -> None:
    """generateName gets five characters without vowels; long bases are cut."""
    made = [
        await registry.create(
            "configmaps", "default", {"metadata": {"generateName": "web-" * 20}}, manager="t"
        )
        for _ in range(20)
    ]
    names = {obj["metadata"]["name"] for obj in made}
    assert len(names) == 20
    assert all(len(name) == 63 and not set(name[58:]) & set("aeiou013") for name in names)


async def test_generated_names_run_out(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """After eight taken names the server gives up, and says when to try again."""
    monkeypatch.setattr(registry.writer, "_random", random.Random(0))
    monkeypatch.setattr(registry.writer._random, "choices", lambda *_, k: "b" * k)
    wanted = {"metadata": {"generateName": "a-"}}
    await registry.create("configmaps", "default", wanted, manager="t")
    with pytest.raises(AlreadyExists, match="was not able to generate a unique name") as caught:
        await registry.create("configmaps", "default", wanted, manager="t")
    assert caught.value.retry_after == 1


async def test_dry_run_writes_nothing(api: Api) -> None:
    """The answer is complete but for a resourceVersion."""
    reply = await api.post(CONFIGMAPS, configmap("a"), dryRun="All")
    assert reply.status == 201
    assert reply.body["metadata"]["uid"]
    assert "resourceVersion" not in reply.body["metadata"]
    assert (await api.get(f"{CONFIGMAPS}/a")).status == 404


@pytest.mark.parametrize(
    "path",
    [
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/api/v1/namespaces/default/limitranges",
    ],
)
async def test_put_creates_some_kinds(api: Api, path: str) -> None:
    made = await api.request("PUT", f"{path}/a", {"metadata": {"name": "a"}})
    assert made.status == 201
    assert (await api.get(f"{path}/a")).body == made.body


async def test_put_with_a_uid_creates_nothing(api: Api) -> None:
    """It is a precondition, which no object meets that does not exist; a resourceVersion is not."""
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
    deleted = {"name": "a", "uid": "1", "resourceVersion": "7"}
    refused = await api.request("PUT", f"{roles}/a", {"metadata": deleted})
    assert refused.status == 409
    words = "Precondition failed: UID in precondition: 1, UID in object meta: "
    assert refused.body["message"].endswith(words)
    assert (await api.get(f"{roles}/a")).status == 404
    made = await api.request("PUT", f"{roles}/a", {"metadata": {**deleted, "uid": ""}})
    assert made.status == 201


async def test_repeated_owner_references_are_left_once(api: Api) -> None:
    """With a warning, which is another one for patches; references are compared as a whole."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "1"}
    other = {**owner, "name": "p"}
    sent = {"metadata": {"name": "a", "ownerReferences": [owner, other, owner, owner]}}
    warning = (
        '299 - ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner '
        "references in 1.20+, and may reject such requests as early as 1.24; please fix your "
        'requests; duplicate UID(s) observed: 1, 1"'
    )
    created = await api.post(CONFIGMAPS, sent)
    replaced = await api.request("PUT", f"{CONFIGMAPS}/a", sent)
    patch = [
        {"op": "add", "path": "/metadata/ownerReferences", "value": [owner, other] + [owner] * 2}
    ]
    patched = await api.request("PATCH", f"{CONFIGMAPS}/a", patch, content_type=JSON_PATCH)
    for reply, when in (
        (created, ""),
        (replaced, ""),
        (patched, " after mutating admission happens"),
    ):
        assert reply.body["metadata"]["ownerReferences"] == [owner, other]
        assert reply.headers["Warning"] == warning.format(when)


async def test_field_validation_warns_refuses_or_ignores(api: Api) -> None:
    """fieldValidation decides; in any case they are not stored."""
    odd = {"metadata": {"name": "a", "foo": 1}, "bar": 2}
    strict = await api.post(CONFIGMAPS, odd, fieldValidation="Strict")
    assert strict.status == 400
    assert strict.message == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
        'unknown field "metadata.foo", unknown field "bar"'
    )
    warned = await api.post(CONFIGMAPS, odd)
    assert warned.status == 201
    assert "bar" not in warned.body
    assert "foo" not in warned.body["metadata"]
    assert warned.headers["Warning"].startswith('299 - "unknown field')
    ignored = await api.post(
        CONFIGMAPS, {**odd, "metadata": {"name": "b"}}, fieldValidation="Ignore"
    )
    assert "Warning" not in ignored.headers


async def test_strict_validation_finds_fields_at_any_depth(api: Api) -> None:
    """Unknown and duplicate fields, by their paths, in the order of the body."""
    body = (
        b'{"metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"a":"1","a":"1"}},'
        b'"replica":1,"replicas":1,"replicas":2,"template":{"metadata":{"labels":{"a":"1"}},'
        b'"spec":{"containers":[{"name":"m","image":"i","env":[{"name":"A","valeu":"1"}]}]}}}}'
    )
    found = [
        'duplicate field "spec.selector.matchLabels.a"',
        'unknown field "spec.replica"',
        'duplicate field "spec.replicas"',
        'unknown field "spec.template.spec.containers[0].env[0].valeu"',
    ]
    strict = await api.request("POST", DEPLOYMENTS, body, fieldValidation="Strict")
    assert (strict.status, strict.body["reason"]) == (400, "BadRequest")
    assert strict.message == (
        'Deployment in version "v1" cannot be handled as a Deployment: '
        f"strict decoding error: {', '.join(found)}"
    )
    warned = await api.request("POST", DEPLOYMENTS, body)
    spec = warned.body["spec"]
    assert spec["replicas"] == 2
    assert "replica" not in spec
    assert spec["template"]["spec"]["containers"][0]["env"] == [{"name": "A"}]


@pytest.mark.parametrize("directive", ["$patch", "$retainKeys", "$setElementOrder/env"])
async def test_directives_are_unknown_fields_of_an_object(api: Api, directive: str) -> None:
    """Only a strategic merge patch has them: a manifest or a merge patch does not act on them."""
    sent = deployment("a")
    sent["spec"]["template"]["spec"]["containers"][0][directive] = "delete"
    at = f'unknown field "spec.template.spec.containers[0].{directive}"'
    refused = await api.post(DEPLOYMENTS, sent, fieldValidation="Strict")
    assert (refused.status, at in refused.message) == (400, True)
    await api.post(DEPLOYMENTS, deployment("a"))
    refused = await api.patch(f"{DEPLOYMENTS}/a", sent, MERGE, fieldValidation="Strict")
    assert (refused.status, at in refused.message) == (422, True)


async def test_strict_validation_of_patch_refuses_unknown_field(api: Api) -> None:
    await api.post(DEPLOYMENTS, deployment("a"))
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "imgae": "x"}]}}}}
    reply = await api.patch(f"{DEPLOYMENTS}/a", patch, STRATEGIC, fieldValidation="Strict")
    assert reply.status == 422
    assert 'unknown field "spec.template.spec.containers[0].imgae"' in reply.message


async def test_yaml_body_is_accepted(api: Api) -> None:
    """A body may be YAML."""
    reply = await api.request(
        "POST", CONFIGMAPS, b"metadata: {name: a}\ndata: {k: v}", content_type="application/yaml"
    )
    assert (reply.status, reply.body["data"]) == (201, {"k": "v"})


async def test_delete_returns_status_with_uid(api: Api) -> None:
    """A deletion that is complete answers with a Status."""
    uid = (await api.post(CONFIGMAPS, configmap("a"))).body["metadata"]["uid"]
    reply = await api.request("DELETE", f"{CONFIGMAPS}/a")
    assert reply.status == 200
    assert reply.body["status"] == "Success"
    assert reply.body["details"] == {"name": "a", "kind": "configmaps", "uid": uid}


async def test_delete_checks_preconditions(registry: Registry) -> None:
    """A wrong uid or resourceVersion is a conflict that says what does not match."""
    made = await registry.create("configmaps", "default", configmap("a"), manager="t")
    with pytest.raises(Conflict, match=r'on ConfigMap "a": the UID in the precondition \(other\)'):
        await registry.delete("configmaps", "default", "a", uid="other")
    with pytest.raises(Conflict, match="the ResourceVersion in the precondition"):
        await registry.delete("configmaps", "default", "a", resource_version="1")
    await registry.delete("configmaps", "default", "a", uid=made["metadata"]["uid"])


async def test_finalizers_delay_deletion(registry: Registry) -> None:
    """It is marked, takes no new finalizers, and goes with the last one."""
    held = configmap("a")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await registry.create("configmaps", "default", held, manager="t")
    marked = await registry.delete("configmaps", "default", "a")
    assert marked["metadata"]["deletionTimestamp"]

    def hold_more(obj: dict[str, Any]) -> dict[str, Any]:
        obj["metadata"]["finalizers"].append("example.com/more")
        return obj

    with pytest.raises(Invalid, match="no new finalizers can be added"):
        await registry.modify("configmaps", "default", "a", hold_more, manager="t")

    def let_go(obj: dict[str, Any]) -> dict[str, Any]:
        del obj["metadata"]["finalizers"]
        return obj

    await registry.modify("configmaps", "default", "a", let_go, manager="t")
    with pytest.raises(NotFound):
        await registry.get("configmaps", "default", "a")


async def test_finalizers_of_both_propagations_are_refused(registry: Registry) -> None:
    """Dependents cannot be kept and be waited for."""
    both = configmap("a")
    both["metadata"]["finalizers"] = ["foregroundDeletion", "orphan"]
    with pytest.raises(Invalid, match="orphan and foregroundDeletion cannot be both set"):
        await registry.create("configmaps", "default", both, manager="t")


@pytest.mark.parametrize(
    ("propagation", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")]
)
async def test_propagation_policy_adds_finalizer(
    api: Api, propagation: str, finalizer: str
) -> None:
    """Foreground and Orphan leave the object with the finalizer that says what to do."""
    await api.post(DEPLOYMENTS, deployment("web"))
    reply = await api.request("DELETE", f"{DEPLOYMENTS}/web", {"propagationPolicy": propagation})
    assert reply.body["metadata"]["finalizers"] == [finalizer]
    assert reply.body["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize(
    ("first", "then", "finalizers"),
    [
        ("Foreground", "Orphan", ["example.com/hold", "orphan"]),
        ("Orphan", "Foreground", ["example.com/hold", "foregroundDeletion"]),
        ("Orphan", "Background", ["example.com/hold"]),
        ("Orphan", None, ["example.com/hold", "orphan"]),
        ("Foreground", None, ["example.com/hold", "foregroundDeletion"]),
    ],
)
async def test_later_deletion_says_what_becomes_of_dependents(
    api: Api, first: str, then: str | None, finalizers: list[str]
) -> None:
    """As `kubectl delete --cascade=orphan` does while a foreground deletion waits."""
    held = deployment("web")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await api.post(DEPLOYMENTS, held)
    for propagation in (first, then):
        body = {"propagationPolicy": propagation} if propagation else None
        reply = await api.request("DELETE", f"{DEPLOYMENTS}/web", body)
    assert reply.body["metadata"]["finalizers"] == finalizers


async def test_delete_collection_by_selector_deletes_what_it_shows(api: Api) -> None:
    """Only what the selector shows goes; the answer lists it."""
    await api.post(CONFIGMAPS, configmap("a", {"q": "1"}))
    await api.post(CONFIGMAPS, configmap("b", {"q": "2"}))
    reply = await api.request("DELETE", CONFIGMAPS, labelSelector="q=1")
    assert [item["metadata"]["name"] for item in reply.body["items"]] == ["a"]
    left = (await api.get(CONFIGMAPS)).body["items"]
    assert [item["metadata"]["name"] for item in left] == ["b"]


async def test_delete_collection_beside_another_server_deletes_what_it_shows(
    api: Api, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each object that another server writes meanwhile is read again, and is in the answer."""
    delete, seen = registry.deleter.delete, set()

    def delete_later(path: ResourcePath, options: DeleteOptions) -> Any:
        if path.name not in seen:
            seen.add(path.name)
            raise StaleRead("another server wrote it since")
        return delete(path, options)

    monkeypatch.setattr(registry.deleter, "delete", delete_later)
    names = {f"a{number}" for number in range(20)}
    for name in names:
        await api.post(CONFIGMAPS, configmap(name))
    deleted = await api.request("DELETE", CONFIGMAPS)
    assert (deleted.status, deleted.body.get("message")) == (200, None)
    assert names <= {item["metadata"]["name"] for item in deleted.body["items"]}
    assert (await api.get(CONFIGMAPS)).body["items"] == []


async def test_delete_collection_of_a_page_deletes_that_page(api: Api) -> None:
    """`limit` and `continue` mean what they mean in a list; the answer tells what is left."""
    for name in ("a", "b", "c"):
        await api.post(CONFIGMAPS, configmap(name))
    reply = await api.request("DELETE", CONFIGMAPS, limit="2")
    assert [item["metadata"]["name"] for item in reply.body["items"]] == ["a", "b"]
    metadata = reply.body["metadata"]
    assert metadata["remainingItemCount"] == 1
    left = (await api.get(CONFIGMAPS)).body["items"]
    assert [item["metadata"]["name"] for item in left] == ["c"]
    await api.request("DELETE", CONFIGMAPS, **{"limit": "2", "continue": metadata["continue"]})
    assert (await api.get(CONFIGMAPS)).body["items"] == []


async def test_replaced_object_has_the_generate_name_that_is_sent(api: Api) -> None:
    """It is not kept where the update leaves it out."""
    made = (await api.post(CONFIGMAPS, {"metadata": {"generateName": "web-"}})).body
    name = made["metadata"]["name"]
    replaced = await api.request("PUT", f"{CONFIGMAPS}/{name}", {"metadata": {"name": name}})
    assert "generateName" not in replaced.body["metadata"]


async def test_namespace_is_deleted_with_its_finalizer(registry: Registry) -> None:
    """Deleting begins it, nothing new may be made in it, finalizing ends it."""
    await registry.create("namespaces", None, {"metadata": {"name": "team"}}, manager="t")
    begun = await registry.delete("namespaces", None, "team")
    assert begun["status"]["phase"] == "Terminating"
    with pytest.raises(Forbidden, match="because it is being terminated"):
        await registry.create("configmaps", "team", configmap("a"), manager="t")
    begun["spec"]["finalizers"] = []
    await registry.update("namespaces", None, "team", begun, subresource="finalize", manager="t")
    with pytest.raises(NotFound):
        await registry.get("namespaces", None, "team")


async def test_registry_copies_objects(registry: Registry) -> None:
    """What goes in is copied, what comes out is a copy of its own."""
    sent = configmap("a", k="v")
    made = await registry.create("configmaps", "default", sent, manager="t")
    sent["data"]["k"] = made["data"]["k"] = "changed"
    stored = await registry.get("configmaps", "default", "a")
    assert stored["data"] == {"k": "v"}
    stored["data"]["k"] = "changed"
    assert (await registry.get("configmaps", "default", "a"))["data"] == {"k": "v"}


async def test_modify_without_change_writes_nothing(registry: Registry) -> None:
    """`modify` with None leaves the object as it is."""
    made = await registry.create("configmaps", "default", configmap("a"), manager="t")
    assert await registry.modify("configmaps", "default", "a", lambda _: None, manager="t") == made


async def test_create_of_existing_name_raises_in_process(registry: Registry) -> None:
    """In-process callers catch the classes that the HTTP client raises."""
    await registry.create("configmaps", "default", configmap("a"), manager="t")
    with pytest.raises(AlreadyExists) as caught:
        await registry.create("configmaps", "default", configmap("a"), manager="t")
    assert (caught.value.code, caught.value.reason) == (409, "AlreadyExists")


async def test_update_deletes_nothing(api: Api) -> None:
    """The time of deletion is written by a deletion only; one that is there stays."""
    body = configmap("a")
    body["metadata"]["finalizers"] = ["example.com/f"]
    await api.post(CONFIGMAPS, body)
    path = f"{CONFIGMAPS}/a"
    time = {"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"}}
    reply = await api.patch(path, time)
    assert reply.status == 422
    assert (
        "metadata.deletionTimestamp: Invalid value: 2026-01-02 03:04:05 +0000 UTC: field is "
        "immutable"
    ) in reply.message
    grace = {"metadata": {"deletionGracePeriodSeconds": 7}}
    assert (
        "deletionGracePeriodSeconds: Invalid value: 7: field"
        in (await api.patch(path, grace)).message
    )
    deleted = (await api.request("DELETE", path)).body["metadata"]["deletionTimestamp"]
    kept = await api.patch(path, time)
    assert (kept.status, kept.body["metadata"]["deletionTimestamp"]) == (200, deleted)


@pytest.mark.parametrize(
    ("number", "length", "expected"),
    [(20, 200, [200] * 20), (3, 2000, [256] * 3), (99, 50, [50] * 82)],
)
def test_warnings_are_cut_where_they_are_too_long(
    number: int, length: int, expected: list[int]
) -> None:
    """As upstream cuts them: clients refuse an answer with thousands of headers."""
    response = web.Response()
    add_warnings(response, ["x" * length] * number)
    texts = response.headers.getall("Warning")
    assert [len(text) - len('299 - ""') for text in texts] == expected


async def test_object_that_breaks_a_newer_rule_can_be_changed(api: Api, registry: Registry) -> None:
    """It was stored before there was the rule; what a change adds is checked."""
    containers = [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]
    await api.post(
        PODS,
        {"metadata": {"name": "old", "finalizers": ["a.io/b"]}, "spec": {"containers": containers}},
    )
    key = registry.scheme.resource("pods").key("default", "old")
    entry = registry.store.get(key)
    assert entry is not None and entry.value is not None
    stored = entry.value.replace(b'"cpu"', b'"example.com/gpu"')
    registry.store.update(key, stored, expected=entry.mod_revision)
    labelled = await api.patch(f"{PODS}/old", {"metadata": {"labels": {"a": "b"}}})
    assert labelled.status == 200
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": " y"}]
    refused = await api.patch(f"{PODS}/old", image, JSON_PATCH)
    assert [cause["field"] for cause in refused.body["details"]["causes"]] == [
        "spec.containers[0].image"
    ]
    freed = await api.patch(f"{PODS}/old", {"metadata": {"finalizers": None}})
    assert freed.status == 200
