"""Subresources: status, scale, binding, eviction, tokens, logs."""

from __future__ import annotations

from tests.conformance.cases.call import TABLE, Call, core, deployment, group, pod


def subjects() -> dict[str, list[Call]]:
    """Return the subjects of this module."""
    return {"subresources": [*_workload(), *_pod(), *_account()]}


def _workload() -> list[Call]:
    sets = group("subresources", "apps/v1", "deployments")
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"}}
    status = {**deployment("web"), "status": {"replicas": 1, "readyReplicas": 1}}
    return [
        sets.post("deployment", deployment("web")),
        sets.get("scale", "web/scale"),
        sets.get("scale table", "web/scale", TABLE),
        sets.put("put scale", "web/scale", {**scale, "spec": {"replicas": 4}}),
        sets.patch("patch scale", "web/scale", {"spec": {"replicas": 5}}),
        sets.put("negative scale", "web/scale", {**scale, "spec": {"replicas": -4}}),
        sets.put("scale of deployment", "web/scale", deployment("web")),
        sets.get("missing scale", "none/scale"),
        sets.get("status", "web/status"),
        sets.put("put status", "web/status", status),
        sets.patch("patch status", "web/status", {"status": {"observedGeneration": 1}}),
        sets.patch("spec by status", "web/status", {"spec": {"replicas": 9}}),
        sets.put("negative status", "web/status", {**status, "status": {"replicas": -1}}),
        sets.post("post to scale", scale, "web/scale"),
        sets.delete("delete status", "web/status"),
    ]


def _pod() -> list[Call]:
    pods = core("subresources", "pods")
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}}
    budget = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "p"}}},
    }  # fmt: skip
    node = {"kind": "Node", "name": "n1"}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    return [
        pods.post("pod", pod("p")),
        pods.get("pod status", "p/status"),
        pods.get("log of pending", "p/log"),
        pods.get("log of missing", "none/log"),
        pods.get("log container", "p/log", container="none"),
        pods.get("log negative", "p/log", tailLines="-1"),
        pods.get("exec of pending", "p/exec", command="true"),
        pods.get("exec without command", "p/exec"),
        pods.post("binding without target", {**binding, "target": {}}, "p/binding"),
        pods.post("bind", {**binding, "target": node}, "p/binding"),
        pods.post("bind again", {**binding, "target": node}, "p/binding"),
        pods.get("bound", "p"),
        pods.patch("phase", "p/status", ready),
        pods.patch("wrong phase", "p/status", {"status": {"phase": "Dancing"}}),
        group("subresources", "policy/v1", "poddisruptionbudgets").post("budget", budget),
        pods.post("evict against budget", eviction, "p/eviction"),
        pods.post("evict missing", {**eviction, "metadata": {"name": "none"}}, "none/eviction"),
        pods.post("evict another", {**eviction, "metadata": {"name": "q"}}, "p/eviction"),
        group("subresources", "policy/v1", "poddisruptionbudgets").delete("no budget", "b"),
        pods.post("evict dry run", {**eviction, "deleteOptions": {"dryRun": ["All"]}}, "p/eviction"),
        pods.post("evict", eviction, "p/eviction"),
        pods.patch(
            "ephemeral", "p/ephemeralcontainers",
            {"spec": {"ephemeralContainers": [{"name": "debug", "image": "i"}]}},
            "application/strategic-merge-patch+json",
        ),
        pods.get("ephemeral by get", "p/ephemeralcontainers"),
    ]  # fmt: skip


def _account() -> list[Call]:
    accounts = core("subresources", "serviceaccounts")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return [
        accounts.post("token", request, "default/token"),
        accounts.post("short token", {**request, "spec": {"expirationSeconds": 10}}, "default/token"),
        accounts.post("token of missing", request, "none/token"),
        accounts.post(
            "token for missing pod",
            {**request, "spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "x"}}},
            "default/token",
        ),
        accounts.post(
            "token for deployment",
            {**request, "spec": {"boundObjectRef": {"kind": "Deployment", "name": "x"}}},
            "default/token",
        ),
        accounts.get("get token", "default/token"),
        Call("component status", "GET", "/api/v1/namespaces/subresources/status"),
    ]  # fmt: skip
