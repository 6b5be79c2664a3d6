"""Watches: events since a revision, selectors, forms, errors."""

from __future__ import annotations

from tests.conformance.cases.call import JSON_PATCH, PARTIAL, TABLE, Call, configmap, core, pod


def subjects() -> dict[str, list[Call]]:
    """Return the subjects of this module."""
    maps, pods = core("watches", "configmaps"), core("watches", "pods")
    since = {"resourceVersion": "${a:metadata.resourceVersion}"}
    initial = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    return {
        "watches": [
            maps.post("a", configmap("a", labels={"w": "1"})),
            maps.patch("modify", "a", {"data": {"key": "other"}}),
            maps.patch("away", "a", {"metadata": {"labels": {"w": "2"}}}),
            maps.patch("back", "a", {"metadata": {"labels": {"w": "1"}}}),
            maps.post("b", configmap("b")),
            maps.delete("delete", "b"),
            maps.watch("all", **since),
            maps.watch("by label", labelSelector="w=1", **since),
            maps.watch("by name", fieldSelector="metadata.name=b", **since),
            maps.watch("table", TABLE, **since),
            maps.watch("metadata", PARTIAL, **since),
            maps.watch("from now", labelSelector="w"),
            maps.watch("any version", labelSelector="w", resourceVersion="0"),
            maps.watch("initial events", labelSelector="w", **initial),
            maps.watch("initial events without match", sendInitialEvents="true"),
            maps.watch("match without initial", resourceVersionMatch="NotOlderThan"),
            maps.watch("wrong version", resourceVersion="x"),
            maps.watch("wrong label", labelSelector="a in (", **since),
            maps.watch("wrong field", fieldSelector="data=x", **since),
            maps.get("one object", "a", watch="1", timeoutSeconds="1", **since),
            Call("old path", "GET", "/api/v1/watch/namespaces/watches/configmaps?timeoutSeconds=1&labelSelector=w"),
            maps.watch("limited", limit="1", labelSelector="w"),
            maps.watch("wrong time", timeoutSeconds="x"),
            pods.post("pod", pod("p")),
            pods.patch(
                "image", "p",
                [{"op": "replace", "path": "/spec/containers/0/image", "value": "j"}], JSON_PATCH,
            ),
            pods.delete("delete pod", "p"),
            pods.watch("pods", resourceVersion="${pod:metadata.resourceVersion}"),
            pods.watch(
                "pending pods", fieldSelector="status.phase=Pending",
                resourceVersion="${pod:metadata.resourceVersion}",
            ),
            pods.watch("pod table", TABLE, resourceVersion="${pod:metadata.resourceVersion}"),
        ]
    }  # fmt: skip
