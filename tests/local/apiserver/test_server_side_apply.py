"""Server-side apply: structured merge, ownership, conflicts, removal (KEP-555)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.local.apiserver.api import CONFIGMAPS, DEPLOYMENTS, MERGE, configmap

if TYPE_CHECKING:
    from tests.local.apiserver.api import Api, Reply

APPLY = "application/apply-patch+yaml"


async def apply(api: Api, path: str, config: Any, manager: str = "m1", **query: str) -> Reply:
    return await api.patch(path, config, APPLY, fieldManager=manager, **query)


def applied_configmap(**data: str) -> dict[str, Any]:
    return configmap("a", None, **data)


def web(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": list(containers)},
            },
            **spec,
        },
    }


async def test_apply_creates_and_owns_what_it_sent(api: Api) -> None:
    reply = await apply(api, f"{CONFIGMAPS}/a", applied_configmap(k="v"))
    assert reply.status == 201
    (entry,) = reply.body["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("m1", "Apply")
    assert entry["fieldsV1"] == {"f:data": {"f:k": {}}}
    again = await apply(api, f"{CONFIGMAPS}/a", applied_configmap(k="v"))
    assert again.status == 200
    assert again.body["metadata"]["resourceVersion"] == reply.body["metadata"]["resourceVersion"]


async def test_apply_takes_yaml(api: Api) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: v\n"
    assert (await apply(api, f"{CONFIGMAPS}/a", body)).body["data"] == {"k": "v"}


async def test_apply_removes_what_it_no_longer_sends(api: Api) -> None:
    path = f"{CONFIGMAPS}/a"
    await apply(api, path, applied_configmap(k="v", m="v"))
    await api.patch(path, {"data": {"other": "1"}}, MERGE, fieldManager="m2")
    assert (await apply(api, path, applied_configmap(k="v"))).body["data"] == {
        "k": "v",
        "other": "1",
    }


async def test_apply_keeps_field_that_another_manager_owns(api: Api) -> None:
    path = f"{CONFIGMAPS}/a"
    await apply(api, path, applied_configmap(k="v", m="v"))
    assert (await apply(api, path, applied_configmap(m="v"), "m2")).status == 200
    reply = await apply(api, path, applied_configmap(k="v"))
    assert reply.body["data"] == {"k": "v", "m": "v"}


async def test_apply_conflict_names_manager_and_field(api: Api) -> None:
    path = f"{CONFIGMAPS}/a"
    await apply(api, path, applied_configmap(k="v"))
    refused = await apply(api, path, applied_configmap(k="w"), "m2")
    assert refused.status == 409
    assert refused.message == 'Apply failed with 1 conflict: conflict with "m1": .data.k'
    assert refused.body["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "m1"', "field": ".data.k"}
    ]
    forced = await apply(api, path, applied_configmap(k="w"), "m2", force="true")
    assert forced.body["data"] == {"k": "w"}
    assert [e["manager"] for e in forced.body["metadata"]["managedFields"]] == ["m2"]


async def test_apply_conflicts_with_updates_are_listed_by_manager(api: Api) -> None:
    path = f"{CONFIGMAPS}/a"
    await api.post(CONFIGMAPS, applied_configmap(k="1", m="1"), fieldManager="u")
    refused = await apply(api, path, applied_configmap(k="2", m="2"))
    assert refused.message == (
        'Apply failed with 2 conflicts: conflicts with "u" using v1:\n- .data.k\n- .data.m'
    )


async def test_manager_may_empty_a_map_that_another_has_created(api: Api) -> None:
    """It takes away what it owns; that the map is empty then changes nothing of the other's."""
    path = f"{CONFIGMAPS}/a"
    await api.post(CONFIGMAPS, applied_configmap(k="1"), fieldManager="u")
    await apply(api, path, applied_configmap(k="2"), force="true")
    emptied = await apply(api, path, applied_configmap())
    assert emptied.status == 200, emptied.message
    assert "data" not in emptied.body


async def test_apply_merges_lists_by_their_keys(api: Api) -> None:
    path = f"{DEPLOYMENTS}/web"
    ports = [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]
    main = {"name": "main", "image": "a", "ports": ports}
    made = await apply(api, path, web(main))
    assert made.status == 201
    (entry,) = made.body["metadata"]["managedFields"]
    containers = entry["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert containers == {
        'k:{"name":"main"}': {
            ".": {},
            "f:image": {},
            "f:name": {},
            "f:ports": {
                'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}},
                'k:{"containerPort":80,"protocol":"UDP"}': {
                    ".": {},
                    "f:containerPort": {},
                    "f:protocol": {},
                },
            },
        }
    }
    side = await apply(api, path, web({"name": "side", "image": "b"}), "m2")
    names = [c["name"] for c in side.body["spec"]["template"]["spec"]["containers"]]
    assert sorted(names) == ["main", "side"]
    other = await apply(api, path, web({"name": "main", "image": "c"}), "m2")
    assert other.message == (
        'Apply failed with 1 conflict: conflict with "m1": '
        '.spec.template.spec.containers[name="main"].image'
    )
    without_side = await apply(api, path, web({"name": "main", "image": "a"}), "m2")
    (left,) = without_side.body["spec"]["template"]["spec"]["containers"]
    assert left["name"] == "main"
    assert len(left["ports"]) == 2


async def test_apply_removes_a_part_with_its_defaults(api: Api) -> None:
    """A probe that is no longer applied goes as a whole, or its defaults would stay without it."""
    path, probe = f"{DEPLOYMENTS}/web", {"httpGet": {"port": 80}, "periodSeconds": 5}
    container = {"name": "a", "image": "x"}
    await apply(api, path, web({**container, "livenessProbe": probe}))
    other = {"tcpSocket": {"port": 80}}
    changed = await apply(api, path, web({**container, "livenessProbe": other}))
    assert changed.status == 200
    (found,) = changed.body["spec"]["template"]["spec"]["containers"]
    assert found["livenessProbe"]["tcpSocket"] == {"port": 80}
    assert "httpGet" not in found["livenessProbe"]
    removed = await apply(api, path, web(container))
    (found,) = removed.body["spec"]["template"]["spec"]["containers"]
    assert "livenessProbe" not in found


async def test_apply_of_an_emptied_struct_leaves_none(api: Api) -> None:
    """The template is as it was before there was a security context: no rollout follows."""
    path = f"{DEPLOYMENTS}/web"
    container = {"name": "c", "image": "i"}
    first = await apply(api, path, web(container))
    await apply(api, path, web({**container, "securityContext": {"runAsUser": 1}}))
    emptied = await apply(api, path, web({**container, "securityContext": {}}))
    assert emptied.body["spec"] == first.body["spec"]


async def test_apply_of_an_empty_list_owns_nothing(api: Api) -> None:
    container = {"name": "a", "image": "x", "env": []}
    applied = await apply(api, f"{DEPLOYMENTS}/web", web(container))
    assert "f:env" not in json.dumps(applied.body["metadata"]["managedFields"])


async def test_update_keeps_owner_of_field_without_value(api: Api) -> None:
    """An applied empty list is not stored, so an update without it takes nothing away."""
    path = f"{DEPLOYMENTS}/web"
    empty: dict[str, Any] = {"securityContext": {"capabilities": {"add": []}}}
    await apply(api, path, web({"name": "c", "image": "a", **empty}))
    await api.request("PUT", path, web({"name": "c", "image": "b"}), fieldManager="m2")
    entries = (await api.get(path)).body["metadata"]["managedFields"]
    (applied,) = (entry for entry in entries if entry["manager"] == "m1")
    template = applied["fieldsV1"]["f:spec"]["f:template"]["f:spec"]
    container = template["f:containers"]['k:{"name":"c"}']
    assert container["f:securityContext"] == {"f:capabilities": {"f:add": {}}}


async def test_apply_conflicts_name_members_before_what_lies_deeper(api: Api) -> None:
    tolerations = [{"key": "a", "operator": "Exists"}]
    config = web({"name": "a", "image": "x"})
    config["spec"]["template"]["spec"]["tolerations"] = tolerations
    await api.post(DEPLOYMENTS, config)
    config = web({"name": "a", "image": "y"})
    config["spec"]["template"]["spec"]["tolerations"] = []
    refused = await apply(api, f"{DEPLOYMENTS}/web", config)
    assert [cause["field"] for cause in refused.body["details"]["causes"]] == [
        ".spec.template.spec.tolerations",
        '.spec.template.spec.containers[name="a"].image',
    ]


async def test_update_of_applied_object_moves_single_fields(api: Api) -> None:
    path = f"{DEPLOYMENTS}/web"
    await apply(api, path, web({"name": "main", "image": "a"}, replicas=1))
    reply = await api.patch(path, {"spec": {"replicas": 2}}, MERGE, fieldManager="hpa")
    entries = {e["manager"]: e["fieldsV1"] for e in reply.body["metadata"]["managedFields"]}
    assert entries["hpa"] == {"f:spec": {"f:replicas": {}}}
    assert "f:replicas" not in entries["m1"]["f:spec"]


async def test_apply_refuses_undeclared_field(api: Api) -> None:
    reply = await apply(api, f"{CONFIGMAPS}/a", {**applied_configmap(), "foo": 1})
    assert reply.status == 500
    assert reply.message == (
        "failed to create typed patch object (/a; /v1, Kind=ConfigMap): "
        ".foo: field not declared in schema"
    )


async def test_apply_checks_its_options(api: Api) -> None:
    path = f"{CONFIGMAPS}/a"
    reply = await api.patch(path, applied_configmap(), APPLY)
    assert reply.message == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: '
        "is required for apply patch"
    )
    reply = await apply(api, path, {"data": {"k": "v"}})
    assert reply.message == "invalid object type: /, Kind="
    await apply(api, path, applied_configmap())
    reply = await api.patch(path, {}, MERGE, force="true")
    assert reply.message.endswith("force: Forbidden: may not be specified for non-apply patch")


async def test_apply_of_kubectl_takes_over_from_client_side_apply(api: Api) -> None:
    """Fields that the annotation names with their present values are no conflicts."""
    path = f"{CONFIGMAPS}/a"
    note = "kubectl.kubernetes.io/last-applied-configuration"
    made = applied_configmap(k="1", m="1")
    made["metadata"]["annotations"] = {note: json.dumps(applied_configmap(k="1", m="1"))}
    await api.post(CONFIGMAPS, made, fieldManager="kubectl-client-side-apply")
    other = await apply(api, path, applied_configmap(k="2"), "other")
    assert other.status == 409
    reply = await apply(api, path, applied_configmap(k="2"), "kubectl")
    assert reply.body["data"] == {"k": "2", "m": "1"}
    last = json.loads(reply.body["metadata"]["annotations"][note])
    assert last["data"] == {"k": "2"}
    await api.patch(path, {"data": {"k": "3"}}, MERGE, fieldManager="someone")
    changed = await apply(api, path, applied_configmap(k="4"), "kubectl")
    assert 'conflict with "someone" using v1: .data.k' in changed.message


async def test_apply_with_managed_fields_is_refused(api: Api) -> None:
    config = applied_configmap(k="v")
    for entries in ([{"manager": "x"}], []):
        config["metadata"]["managedFields"] = entries
        reply = await apply(api, f"{CONFIGMAPS}/a", config)
        assert (reply.status, reply.message) == (400, "metadata.managedFields must be nil")


async def test_apply_dry_run_stores_nothing(api: Api) -> None:
    reply = await apply(api, f"{CONFIGMAPS}/a", applied_configmap(k="v"), dryRun="All")
    assert reply.status == 201
    assert (await api.get(f"{CONFIGMAPS}/a")).status == 404


async def test_apply_of_yaml_that_begins_like_json_is_read(api: Api) -> None:
    flow = (
        '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "flow"}, "data": {"k": v},}'
    )
    body = flow.encode()
    reply = await api.request(
        "PATCH",
        f"{CONFIGMAPS}/flow",
        body,
        content_type="application/apply-patch+yaml",
        fieldManager="one",
    )
    assert (reply.status, reply.body["data"]) == (201, {"k": "v"})


async def test_manager_may_apply_another_version(api: Api) -> None:
    """It has no conflict with itself, and owns what it sent last."""
    path = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers/web"
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}

    def autoscaler(version: str, replicas: int, **labels: str) -> dict[str, Any]:
        return {
            "apiVersion": f"autoscaling/{version}",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web", "labels": labels},
            "spec": {"maxReplicas": replicas, "scaleTargetRef": target},
        }

    await apply(api, path.format("v1"), autoscaler("v1", 3, a="1", b="2"))
    applied = await apply(api, path.format("v2"), autoscaler("v2", 4, a="2"))
    assert applied.status == 200, applied.body
    assert applied.body["spec"]["maxReplicas"] == 4
    assert applied.body["metadata"]["labels"] == {"a": "2"}
    (entry,) = applied.body["metadata"]["managedFields"]
    assert (entry["manager"], entry["apiVersion"]) == ("m1", "autoscaling/v2")


def scale(replicas: int) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas},
    }


async def test_applied_scale_conflicts_with_the_manager_of_the_replicas(api: Api) -> None:
    """Whether that manager has written the workload or its Scale."""
    await apply(api, f"{DEPLOYMENTS}/web", web({"name": "c", "image": "i"}, replicas=1))
    refused = await apply(api, f"{DEPLOYMENTS}/web/scale", scale(2), "m2")
    assert refused.status == 409
    assert refused.message == 'Apply failed with 1 conflict: conflict with "m1": .spec.replicas'
    taken = await apply(api, f"{DEPLOYMENTS}/web/scale", scale(2), "m2", force="true")
    assert taken.body["spec"] == {"replicas": 2}
    refused = await apply(api, f"{DEPLOYMENTS}/web/scale", scale(3), "m3")
    assert refused.message == (
        'Apply failed with 1 conflict: conflict with "m2" with subresource "scale": .spec.replicas'
    )
    await api.patch(f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 4}}, MERGE)
    config = web({"name": "c", "image": "i"}, replicas=1)
    refused = await apply(api, f"{DEPLOYMENTS}/web", config)
    assert 'with subresource "scale" using apps/v1: .spec.replicas' in refused.message


async def test_applied_scale_is_owned_in_the_workload(api: Api) -> None:
    """Its manager owns the replicas alone, and the one before has lost them."""
    await apply(api, f"{DEPLOYMENTS}/web", web({"name": "c", "image": "i"}, replicas=1))
    await apply(api, f"{DEPLOYMENTS}/web/scale", scale(2), "m2", force="true")
    before, after = (await api.get(f"{DEPLOYMENTS}/web")).body["metadata"]["managedFields"]
    assert (before["manager"], before["operation"]) == ("m2", "Apply")
    assert (before["apiVersion"], before["subresource"]) == ("apps/v1", "scale")
    assert before["fieldsV1"] == {"f:spec": {"f:replicas": {}}}
    assert "f:replicas" not in after["fieldsV1"]["f:spec"]


async def test_applied_scale_of_another_type_is_refused(api: Api) -> None:
    """A configuration of a scale is one of a Scale."""
    await apply(api, f"{DEPLOYMENTS}/web", web({"name": "c", "image": "i"}, replicas=1))
    sent = web({"name": "c", "image": "i"}, replicas=2)
    refused = await apply(api, f"{DEPLOYMENTS}/web/scale", sent)
    assert (refused.status, refused.message) == (
        400,
        "invalid object type: apps/v1, Kind=Deployment",
    )
    unknown = {**scale(2), "spec": {"replica": 2}}
    refused = await apply(api, f"{DEPLOYMENTS}/web/scale", unknown)
    assert refused.message.endswith(".spec.replica: field not declared in schema")


async def test_number_that_its_field_cannot_hold_is_refused(api: Api) -> None:
    for number in (2**31, -(2**31) - 1, 3e9):
        reply = await apply(api, f"{DEPLOYMENTS}/web", web({"name": "c"}, replicas=number))
        assert reply.status == 400
        assert reply.body["message"].endswith(
            f"json: cannot unmarshal number {number} into Go struct field "
            "DeploymentSpec.spec.replicas of type int32"
        )
