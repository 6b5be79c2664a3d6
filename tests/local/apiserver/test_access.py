"""Who may do what: tokens, roles and bindings, impersonation, and their reviews."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
import pytest
from tests.local.cluster.clients import KubeconfigClient

from hotmap.core.errors import ApiError, Forbidden
from hotmap.local.access import SYSTEM, Attributes, user_named
from hotmap.local.apiserver.bootstrap import create_bootstrap_roles, create_system_namespaces
from hotmap.local.apiserver.kinds import built_in_scheme
from hotmap.local.apiserver.plugins import AdmissionChain
from hotmap.local.apiserver.plugins.escalation import EscalationPlugin
from hotmap.local.apiserver.rbac import RBACAuthorizer, allows
from hotmap.local.apiserver.registry import Registry
from hotmap.local.cluster import LocalCluster, PlaneSettings
from hotmap.local.pki import create_pki
from hotmap.local.service_tokens import ISSUER, BoundObject, Claims, TokenSigner
from hotmap.local.store import MVCCStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

JANE = user_named("jane")


def attributes(verb: str, resource: str, **more: str) -> Attributes:
    plural, _, subresource = resource.partition("/")
    return Attributes(JANE, verb, "", plural, subresource, **more)


@pytest.mark.parametrize(
    ("rule", "wanted", "allowed"),
    [
        ({"resources": ["pods"]}, attributes("get", "pods"), True),
        ({"resources": ["pods"]}, attributes("list", "pods"), False),
        ({"resources": ["pods"]}, attributes("get", "pods/log"), False),
        ({"resources": ["pods/log"]}, attributes("get", "pods/log"), True),
        ({"resources": ["*/log"]}, attributes("get", "pods/log"), True),
        ({"resources": ["*"]}, attributes("get", "pods/log"), True),
        ({"resources": ["pods"], "resourceNames": ["a"]}, attributes("get", "pods"), False),
        (
            {"resources": ["pods"], "resourceNames": ["a"]},
            attributes("get", "pods", name="a"),
            True,
        ),
        ({"nonResourceURLs": ["/a"]}, Attributes(JANE, "get", path="/a/b"), False),
        ({"nonResourceURLs": ["/a/*"]}, Attributes(JANE, "get", path="/a/b"), True),
        ({"nonResourceURLs": ["*"]}, attributes("get", "pods"), False),
        ({"resources": ["*"]}, Attributes(JANE, "get", path="/a"), False),
    ],
)
def test_rule_allows_what_it_names(rule: Any, wanted: Attributes, allowed: bool) -> None:
    assert allows({"verbs": ["get"], "apiGroups": [""], **rule}, wanted) is allowed


@pytest.fixture
async def registry() -> Registry:
    registry = Registry(MVCCStore(), scheme=built_in_scheme())
    await create_system_namespaces(registry)
    await create_bootstrap_roles(registry)
    return registry


async def test_rules_of_the_administrator_are_those_of_all_bindings(registry: Registry) -> None:
    """Of its own group, and of all users; `kubectl auth can-i --list` shows them."""
    authorizer = RBACAuthorizer(registry.store, registry.scheme)
    resources, paths = authorizer.rules_for(user_named("system:masters"), "default")
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    assert everything in resources
    assert any("selfsubjectreviews" in rule["resources"] for rule in resources)
    assert {"verbs": ["*"], "nonResourceURLs": ["*"]} in paths
    assert any("/livez" in rule["nonResourceURLs"] for rule in paths)


async def bind(registry: Registry, role: str, user: str) -> None:
    binding = {
        "metadata": {"name": f"{role}-{user}"},
        "roleRef": {"kind": "ClusterRole", "name": role, "apiGroup": "rbac.authorization.k8s.io"},
        "subjects": [{"kind": "User", "name": user}],
    }
    await registry.create("rolebindings", "default", binding, manager="t")


async def test_binding_counts_at_once_and_until_it_is_deleted(registry: Registry) -> None:
    authorizer = RBACAuthorizer(registry.store, registry.scheme)
    wanted = attributes("list", "pods", namespace="default")
    assert not authorizer.authorize(wanted).allowed
    await bind(registry, "cluster-admin", "jane")
    decision = authorizer.authorize(wanted)
    assert decision.reason == (
        'RBAC: allowed by RoleBinding "cluster-admin-jane/default" of ClusterRole '
        '"cluster-admin" to User "jane"'
    )
    assert not authorizer.authorize(wanted._replace(namespace="kube-system")).allowed
    assert not authorizer.authorize(wanted._replace(namespace="")).allowed
    await registry.delete("rolebindings", "default", "cluster-admin-jane")
    assert not authorizer.authorize(wanted).allowed
    await bind(registry, "missing", "jane")
    assert authorizer.authorize(wanted).reason == (
        'RBAC: clusterrole.rbac.authorization.k8s.io "missing" not found'
    )


async def test_role_with_more_rights_than_its_author_is_refused(registry: Registry) -> None:
    authorizer = RBACAuthorizer(registry.store, registry.scheme)
    registry.writer.plugins = AdmissionChain([EscalationPlugin(authorizer)])
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    role = {"metadata": {"name": "r"}, "rules": rules}
    with pytest.raises(Forbidden, match=r'\{APIGroups:\[""\], Resources:\["pods"\], Verbs:\["get"'):
        await registry.create("roles", "default", role, manager="t", user=JANE)
    await registry.create("roles", "default", role, manager="t", user=SYSTEM)
    binding = {"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"}}
    with pytest.raises(Forbidden, match='"b" is forbidden'):
        await registry.create("rolebindings", "default", binding, manager="t", user=JANE)
    # A change that grants nothing is not a grant.
    patch = {"metadata": {"labels": {"a": "b"}}}
    await registry.patch("roles", "default", "r", patch, kind="merge", manager="t", user=JANE)
    await bind(registry, "cluster-admin", "jane")
    await registry.create("rolebindings", "default", binding, manager="t", user=JANE)


@pytest.fixture
def signer(tmp_path: Path) -> TokenSigner:
    return TokenSigner(create_pki(tmp_path).account_key, clock=lambda: 1_000_000.0)


def test_token_has_its_claims(signer: TokenSigner) -> None:
    bound = BoundObject("Pod", "web-1", "uid-1")
    claims = Claims("default", "bot", "uid-2", (ISSUER,), 1_003_600, "", bound)
    found = signer.verify(signer.sign(claims))
    assert found is not None
    assert found._replace(token_id="") == claims
    assert found.token_id


def test_forged_and_expired_tokens_are_refused(signer: TokenSigner, tmp_path: Path) -> None:
    claims = Claims("default", "bot", "uid", (ISSUER,), 1_003_600, "")
    token = signer.sign(claims)
    head, body, signature = token.split(".")
    other = TokenSigner(create_pki(tmp_path / "other").account_key, clock=lambda: 1_000_000.0)
    assert other.verify(token) is None
    late = TokenSigner(tmp_path / "sa.key", clock=lambda: 1_003_600.0)
    assert late.verify(token) is None
    for forged in (
        "",
        "a.b.c",
        f"{head}.{body}.",
        f"{head}.{body}.{signature[:-4]}AAAA",
        f"{head}.{body[:-4]}AAAA.{signature}",
        f"eyJhbGciOiJub25lIn0.{body}.",
        f"bnVsbA.{body}.{signature}",
        f"{head}.bnVsbA.{signature}",
        "é.é.é",
    ):
        assert signer.verify(forged) is None


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LocalCluster]:
    settings = PlaneSettings(rbac=True)
    async with LocalCluster(tmp_path / "p", start_node=False, settings=settings) as cluster:
        await cluster.registry.create(
            "serviceaccounts", "default", {"metadata": {"name": "bot"}}, manager="t"
        )
        yield cluster


_TOKEN = "/api/v1/namespaces/default/serviceaccounts/bot/token"
_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
_SECRETS = "/api/v1/namespaces/default/secrets"
_PODS = "/api/v1/namespaces/default/pods"


async def request_token(client: KubeconfigClient, **spec: Any) -> str:
    answer = await client.post(_TOKEN, {"spec": spec})
    return str(answer["status"]["token"])


async def review(client: KubeconfigClient, token: str, **spec: Any) -> dict[str, Any]:
    answer = await client.post(_TOKEN_REVIEWS, {"spec": {"token": token, **spec}})
    status: dict[str, Any] = answer["status"]
    return status


async def test_token_is_reviewed_until_account_is_gone(cluster: LocalCluster) -> None:
    client = KubeconfigClient(cluster.kubeconfig)
    token = await request_token(client)
    status = await review(client, token)
    assert status["authenticated"]
    assert status["user"]["username"] == "system:serviceaccount:default:bot"
    assert status["audiences"] == [ISSUER]
    assert "authenticated" not in await review(client, token, audiences=["vault"])
    other = await request_token(client, audiences=["vault"])
    assert "authenticated" not in await review(client, other)
    assert (await review(client, other, audiences=["vault", "x"]))["authenticated"]
    listed = await client.request(
        "GET", _PODS, headers={"Authorization": f"Bearer {token}"}, check=False
    )
    assert listed["reason"] == "Forbidden"
    await cluster.registry.delete("serviceaccounts", "default", "bot")
    assert "authenticated" not in await review(client, token)
    listed = await client.request(
        "GET", _PODS, headers={"Authorization": f"Bearer {token}"}, check=False
    )
    assert listed["reason"] == "Unauthorized"


async def test_keys_of_tokens_are_where_the_configuration_says(cluster: LocalCluster) -> None:
    client = KubeconfigClient(cluster.kubeconfig)
    configuration = await client.request("GET", "/.well-known/openid-configuration")
    where = urlsplit(configuration["jwks_uri"])
    keys = await KubeconfigClient(
        cluster.kubeconfig, server=f"{where.scheme}://{where.netloc}"
    ).request("GET", where.path)
    assert [key["alg"] for key in keys["keys"]] == ["ES256"]


async def test_token_dies_with_its_pod(cluster: LocalCluster) -> None:
    client = KubeconfigClient(cluster.kubeconfig)
    spec = {"serviceAccountName": "bot", "containers": [{"name": "c", "image": "i"}]}
    pod = await client.post(_PODS, {"metadata": {"name": "p"}, "spec": spec})
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    wrong = {**reference, "uid": "x"}
    answer = await client.post(_TOKEN, {"spec": {"boundObjectRef": wrong}})
    assert answer["reason"] == "Conflict"
    token = await request_token(client, boundObjectRef=reference)
    extra = (await review(client, token))["user"]["extra"]
    assert extra["authentication.kubernetes.io/pod-uid"] == [pod["metadata"]["uid"]]
    await client.request("DELETE", f"{_PODS}/p")
    assert "authenticated" not in await review(client, token)


async def test_secret_gets_a_token_of_its_account(cluster: LocalCluster) -> None:
    """Token, CA and namespace; the token is valid as long as the Secret has it."""
    client = KubeconfigClient(cluster.kubeconfig)
    kind = "kubernetes.io/service-account-token"
    annotations = {"kubernetes.io/service-account.name": "bot"}
    body = {"metadata": {"name": "s", "annotations": annotations}, "type": kind}
    await client.post(_SECRETS, body)
    data = await filled_data(cluster, "s")
    assert base64.b64decode(data["ca.crt"]) == cluster.ca_certificate.read_bytes()
    assert base64.b64decode(data["namespace"]) == b"default"
    token = base64.b64decode(data["token"]).decode()
    user = (await review(client, token))["user"]
    assert user["username"] == "system:serviceaccount:default:bot"
    assert "extra" not in user
    await cluster.registry.delete("secrets", "default", "s")
    assert "authenticated" not in await review(client, token)
    await client.post(_SECRETS, {**body, "data": {"token": "b3RoZXI="}})
    assert "authenticated" not in await review(client, token)


async def test_secret_is_deleted_with_its_account(cluster: LocalCluster) -> None:
    """Also where there never was such an account."""
    client = KubeconfigClient(cluster.kubeconfig)
    for name, account in (("s", "bot"), ("other", "nobody")):
        annotations = {"kubernetes.io/service-account.name": account}
        body = {"metadata": {"name": name, "annotations": annotations}}
        await client.post(_SECRETS, {**body, "type": "kubernetes.io/service-account-token"})
    await filled_data(cluster, "s")
    await cluster.registry.delete("serviceaccounts", "default", "bot")
    async with asyncio.timeout(30):
        while (await cluster.registry.list("secrets", "default")).items:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def filled_data(cluster: LocalCluster, name: str) -> dict[str, str]:
    async with asyncio.timeout(30):
        while True:
            secret = await cluster.registry.get("secrets", "default", name)
            if "token" in secret.get("data", {}):
                return dict(secret["data"])
            await asyncio.sleep(0.01)


async def test_impersonation_needs_right_and_user(cluster: LocalCluster) -> None:
    client = KubeconfigClient(cluster.kubeconfig)
    token = await request_token(client)
    headers = {"Authorization": f"Bearer {token}", "Impersonate-User": "jane"}
    answer = await client.request("GET", _PODS, headers=headers, check=False)
    assert answer["message"] == (
        'users "jane" is forbidden: User "system:serviceaccount:default:bot" cannot impersonate '
        'resource "users" in API group "" at the cluster scope'
    )
    answer = await client.request("GET", _PODS, headers={"Impersonate-Group": "g"}, check=False)
    assert answer["code"] == 400


async def test_proxied_requests_need_the_verb_of_their_method(cluster: LocalCluster) -> None:
    """For the name as it is asked, with its port."""
    client = KubeconfigClient(cluster.kubeconfig)
    rule = {"apiGroups": [""], "resources": ["pods/proxy"], "resourceNames": ["web:80"]}
    group = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    role = {"metadata": {"name": "reads"}, "rules": [{**rule, "verbs": ["get", "create"]}]}
    await client.post(f"{group}/roles", role)
    binding = {
        "metadata": {"name": "reads"},
        "roleRef": {"kind": "Role", "name": "reads", "apiGroup": "rbac.authorization.k8s.io"},
        "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    await client.post(f"{group}/rolebindings", binding)
    jane = {"Impersonate-User": "jane"}

    async def code(method: str, name: str) -> int:
        path = f"/api/v1/namespaces/default/pods/{name}/proxy/"
        answer = await client.request(method, path, headers=jane, check=False)
        return int(answer["code"])

    # There is no such pod, which only who may ask learns.
    assert [await code(method, "web:80") for method in ("GET", "POST")] == [404, 404]
    refused = [await code(method, "web:80") for method in ("PUT", "PATCH", "DELETE", "OPTIONS")]
    assert refused == [403] * 4
    assert [await code("GET", name) for name in ("web", "http:web:80", "web:81")] == [403] * 3


async def test_apply_that_creates_needs_both_rights(cluster: LocalCluster) -> None:
    client = KubeconfigClient(cluster.kubeconfig)
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}]
    role = {"metadata": {"name": "patchers"}, "rules": rules}
    await cluster.registry.create("clusterroles", None, role, manager="t")
    await bind(cluster.registry, "patchers", "jane")
    path = "/api/v1/namespaces/default/configmaps/a?fieldManager=t"
    headers = {"Impersonate-User": "jane", "Content-Type": "application/apply-patch+yaml"}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    answer = await client.request("PATCH", path, config, headers=headers, check=False)
    assert 'User "jane" cannot create resource "configmaps"' in answer["message"]
    del headers["Impersonate-User"]
    await client.request("PATCH", path, config, headers=headers)
    headers["Impersonate-User"] = "jane"
    await client.request("PATCH", path, config, headers=headers)


async def test_update_that_creates_needs_both_rights(cluster: LocalCluster) -> None:
    """Only for kinds that a PUT creates; others are simply not found."""
    client = KubeconfigClient(cluster.kubeconfig)
    rules = [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["update"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["update"]},
    ]
    role = {"metadata": {"name": "updaters"}, "rules": rules}
    await cluster.registry.create("clusterroles", None, role, manager="t")
    await bind(cluster.registry, "updaters", "jane")
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/a"
    lease, jane = {"metadata": {"name": "a"}}, {"Impersonate-User": "jane"}
    answer = await client.request("PUT", path, lease, headers=jane, check=False)
    assert 'User "jane" cannot create resource "leases"' in answer["message"]
    made = await client.request("PUT", path, lease)
    await client.request("PUT", path, made, headers=jane)
    path = "/api/v1/namespaces/default/configmaps/a"
    answer = await client.request("PUT", path, lease, headers=jane, check=False)
    assert answer["code"] == 404


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        ("selfsubjectaccessreviews", {}, "exactly one of nonResourceAttributes or"),
        ("subjectaccessreviews", {"resourceAttributes": {}}, "at least one of user or group"),
        ("selfsubjectrulesreviews", {}, "spec.namespace: Required value"),
    ],
)
async def test_incomplete_review_is_invalid(
    cluster: LocalCluster, kind: str, spec: Any, message: str
) -> None:
    client = KubeconfigClient(cluster.kubeconfig)
    answer = await client.post(f"/apis/authorization.k8s.io/v1/{kind}", {"spec": spec})
    assert answer["code"] == 422
    assert message in answer["message"]


def test_bootstrap_roles_are_readable() -> None:
    from importlib.resources import files

    text = files("hotmap.local.apiserver").joinpath("bootstrap_rbac.json").read_bytes()
    names = {obj["metadata"]["name"] for obj in msgspec.json.decode(text)}
    assert {"cluster-admin", "admin", "edit", "view", "system:discovery"} <= names


async def test_pod_cannot_use_missing_account(cluster: LocalCluster) -> None:
    pod = {
        "metadata": {"name": "p"},
        "spec": {"serviceAccountName": "x", "containers": [{"name": "c", "image": "i"}]},
    }
    with pytest.raises(
        ApiError, match="error looking up service account default/x: serviceaccount"
    ):
        await cluster.registry.create("pods", "default", pod, manager="t")
