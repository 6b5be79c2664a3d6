"""Deletion: options, finalizers, propagation, collections."""

from __future__ import annotations

from tests.conformance.cases.call import Call, configmap, core, deployment, group, pod


def subjects() -> dict[str, list[Call]]:
    """Return the subjects of this module."""
    maps, pods = core("deletion", "configmaps"), core("deletion", "pods")
    sets = group("deletion", "apps/v1", "deployments")
    return {
        "deletion": [
            maps.post("create", configmap("a")),
            maps.delete("wrong uid", "a", {"preconditions": {"uid": "x"}}),
            maps.delete("wrong version", "a", {"preconditions": {"resourceVersion": "1"}}),
            maps.delete("wrong policy", "a", propagationPolicy="Maybe"),
            maps.delete("both options", "a", {"orphanDependents": True, "propagationPolicy": "Orphan"}),
            maps.delete("negative grace", "a", gracePeriodSeconds="-1"),
            maps.delete("wrong grace", "a", gracePeriodSeconds="x"),
            maps.delete("malformed", "a", "{"),
            maps.delete("wrong kind", "a", {"kind": "ConfigMap", "apiVersion": "v1"}),
            maps.delete("right uid", "a", {"preconditions": {"uid": "${create:metadata.uid}"}}),
            maps.post("finalizer", configmap("f", finalizers=["example.com/wait"])),
            maps.delete("wait", "f"),
            maps.delete("wait again", "f"),
            maps.patch("change while deleted", "f", {"data": {"a": "b"}}),
            maps.patch("add finalizer", "f", {"metadata": {"finalizers": ["example.com/wait", "a.b/c"]}}),
            maps.post("create while deleted", configmap("f")),
            maps.patch("finish", "f", {"metadata": {"finalizers": None}}),
            maps.get("gone", "f"),
            maps.post("foreground", configmap("g")),
            maps.delete("in foreground", "g", propagationPolicy="Foreground"),
            maps.get("foreground finalizer", "g"),
            maps.post("orphan", configmap("o")),
            maps.delete("orphan dependents", "o", propagationPolicy="Orphan"),
            maps.get("orphan finalizer", "o"),
            maps.post("one of many", configmap("m1", labels={"many": "1"})),
            maps.post("two of many", configmap("m2", labels={"many": "1"})),
            maps.delete("collection dry run", labelSelector="many", dryRun="All"),
            maps.delete("collection", labelSelector="many"),
            maps.list("collection gone", labelSelector="many"),
            pods.post("pod", pod("p")),
            pods.delete("pod dry run", "p", dryRun="All"),
            pods.delete("pod without node", "p"),
            pods.get("pod gone", "p"),
            pods.post("bound pod", pod("bound", nodeName="none")),
            pods.delete("bound pod waits", "bound"),
            pods.delete("shorter", "bound", gracePeriodSeconds="5"),
            pods.delete("force", "bound", gracePeriodSeconds="0"),
            pods.get("bound pod gone", "bound"),
            sets.post("deployment", deployment("web")),
            sets.delete("in background", "web"),
            Call("namespace", "POST", "/api/v1/namespaces", {"metadata": {"name": "deletion-2"}}),
            Call("terminate", "DELETE", "/api/v1/namespaces/deletion-2"),
            Call("create in terminating", "POST", "/api/v1/namespaces/deletion-2/configmaps", configmap("a")),
            Call("namespace again", "POST", "/api/v1/namespaces", {"metadata": {"name": "deletion-2"}}),
            Call("finalize", "PUT", "/api/v1/namespaces/deletion-2/finalize", {"metadata": {"name": "deletion-2"}, "spec": {"finalizers": []}}),
            Call("namespace gone", "GET", "/api/v1/namespaces/deletion-2"),
            Call("wrong namespace", "POST", "/api/v1/namespaces", {"metadata": {"name": "a.b"}}),
            Call("system namespace", "DELETE", "/api/v1/namespaces/kube-system?dryRun=All"),
            Call("default namespace", "DELETE", "/api/v1/namespaces/default"),
        ]
    }  # fmt: skip
