"""Lists: selectors, pages, revisions, columns."""

from __future__ import annotations

from tests.conformance.cases.call import PARTIAL_LIST, TABLE, Call, configmap, core, pod


def subjects() -> dict[str, list[Call]]:
    """Return the subjects of this module."""
    return {"selectors": _selectors(), "pages": _pages()}


def _selectors() -> list[Call]:
    maps, pods = core("selectors", "configmaps"), core("selectors", "pods")
    secrets = core("selectors", "secrets")

    def labels(name: str, selector: str) -> Call:
        return maps.list(name, labelSelector=selector)

    def fields(name: str, selector: str) -> Call:
        return maps.list(name, fieldSelector=selector)

    return [
        maps.post("a", configmap("a", labels={"tier": "front", "n": "1"})),
        maps.post("b", configmap("b", labels={"tier": "back", "n": "2"})),
        maps.post("c", configmap("c")),
        labels("equals", "tier=front"),
        labels("double equals", "tier==front"),
        labels("not equals", "tier!=front,n"),
        labels("exists", "tier"),
        labels("not exists", "!tier,!kubernetes"),
        labels("in", "tier in (front,back)"),
        labels("not in", "tier notin (front),n"),
        labels("greater", "n>1"),
        labels("less", "n<2"),
        labels("wrong number", "n>x"),
        labels("open", "tier in (front"),
        labels("empty in", "tier in ()"),
        labels("wrong key", "a b=c"),
        labels("wrong value", "a=-"),
        labels("operator alone", "="),
        fields("by name", "metadata.name=a"),
        fields("not by name", "metadata.name!=a,metadata.name!=b,metadata.name!=kube-root-ca.crt"),
        fields("by namespace", "metadata.namespace=selectors,metadata.name=a"),
        fields("unknown field", "data.key=value"),
        fields("broken field", "metadata.name"),
        fields("escape", "metadata.name=a\\"),
        pods.post("pod", pod("p")),
        pods.list("by phase", fieldSelector="status.phase=Pending"),
        pods.list("by other phase", fieldSelector="status.phase=Running"),
        pods.list("by node", fieldSelector="spec.nodeName="),
        pods.list("by policy", fieldSelector="spec.restartPolicy=Always"),
        pods.list("by account", fieldSelector="spec.serviceAccountName=default"),
        pods.list("unknown pod field", fieldSelector="spec.hostname=a"),
        pods.list("pod table", TABLE),
        secrets.post("secret", {"metadata": {"name": "s"}, "type": "mine"}),
        secrets.list("by type", fieldSelector="type=mine"),
        secrets.list("by other type", fieldSelector="type=Opaque"),
        Call("all namespaces", "GET", "/api/v1/configmaps?labelSelector=tier"),
        Call("metadata", "GET", f"{maps.path}?labelSelector=tier", accept=PARTIAL_LIST),
        Call("table of nothing", "GET", f"{maps.path}?labelSelector=none", accept=TABLE),
        Call("object in table", "GET", f"{maps.path}?labelSelector=n=1&includeObject=Object", accept=TABLE),
        Call("wrong include", "GET", f"{maps.path}?includeObject=All", accept=TABLE),
        Call("namespace by name", "GET", "/api/v1/namespaces?fieldSelector=metadata.name=selectors"),
        Call("namespace by phase", "GET", "/api/v1/namespaces?fieldSelector=status.phase=Terminating"),
        Call("event fields", "GET", "/api/v1/events?fieldSelector=involvedObject.name=none,reason=x,type=Normal"),
    ]  # fmt: skip


def _pages() -> list[Call]:
    maps = core("pages", "configmaps")
    some = {"labelSelector": "page"}
    return [
        *(maps.post(name, configmap(name, labels={"page": "1"})) for name in "abcde"),
        maps.list("first", limit="2"),
        maps.list("second", limit="2", **{"continue": "${first:metadata.continue}"}),
        maps.list("rest", **{"continue": "${second:metadata.continue}"}),
        maps.list("selected", limit="2", **some),
        maps.list("selected rest", limit="9", **some, **{"continue": "${selected:metadata.continue}"}),
        maps.list("exact", limit="5", **some),
        maps.list("table", TABLE, limit="1"),
        maps.list("metadata", PARTIAL_LIST, limit="1"),
        maps.list("zero limit", limit="0", **some),
        maps.list("negative limit", limit="-1"),
        maps.list("limit as text", limit="x"),
        maps.list("wrong token", limit="2", **{"continue": "abc"}),
        maps.list(
            "token with version", limit="2", resourceVersion="1",
            **{"continue": "${first:metadata.continue}"},
        ),
        maps.list("any version", resourceVersion="0", **some),
        maps.list("at least", resourceVersion="${e:metadata.resourceVersion}", **some),
        maps.list(
            "exact version", resourceVersion="${b:metadata.resourceVersion}",
            resourceVersionMatch="Exact", **some,
        ),
        maps.list(
            "not older", resourceVersion="${b:metadata.resourceVersion}",
            resourceVersionMatch="NotOlderThan", **some,
        ),
        maps.list("match without version", resourceVersionMatch="Exact"),
        maps.list("exact zero", resourceVersionMatch="Exact", resourceVersion="0"),
        maps.list("unknown match", resourceVersionMatch="Other", resourceVersion="1"),
        maps.list("version as text", resourceVersion="x"),
        maps.list("future", resourceVersion="99999999", timeoutSeconds="1"),
        maps.list("negative version", resourceVersion="-1"),
        maps.get("get any", "a", resourceVersion="0"),
        maps.get("get future", "a", resourceVersion="99999999"),
        maps.get("get text", "a", resourceVersion="x"),
        maps.list("boolean", watch="maybe", timeoutSeconds="1"),
        maps.list("unknown parameter", color="red", **some),
    ]  # fmt: skip
