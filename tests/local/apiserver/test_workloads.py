"""Pods and Deployments: defaults, validation, generations, graceful deletion, scale, binding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.local.apiserver.api import DEPLOYMENTS, PODS, deployment, pod

from hotmap.core.errors import Conflict, Invalid, NotFound

if TYPE_CHECKING:
    from tests.local.apiserver.api import Api

    from hotmap.local.apiserver.registry import Registry

LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex "
    "used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "x", **fields}]}


def mounted(volume: dict[str, Any], **mount: Any) -> dict[str, Any]:
    mounts = [{"name": "v", "mountPath": "/v", **mount}]
    return {**container(volumeMounts=mounts), "volumes": [volume]}


# Pod spec → (path below the pod spec, text); all read from kube-apiserver 1.36.
INVALID_POD_SPECS = [
    ({}, "containers", "Required value"),
    (container(image=""), "containers[0].image", "Required value"),
    (container(name=""), "containers[0].name", "Required value"),
    (container(name="C_"), "containers[0].name", f'Invalid value: "C_": {LABEL_RULE}'),
    (
        {**container(), "initContainers": [{"name": "c", "image": "x"}]},
        "initContainers[0].name",
        'Duplicate value: "c"',
    ),
    (
        container(imagePullPolicy="Sometimes"),
        "containers[0].imagePullPolicy",
        'Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"',
    ),
    (
        container(ports=[{"containerPort": 0}]),
        "containers[0].ports[0].containerPort",
        "Required value",
    ),
    (container(env=[{"name": ""}]), "containers[0].env[0].name", "Required value"),
    (
        container(env=[{"name": "a=b"}]),
        "containers[0].env[0].name",
        'Invalid value: "a=b": a valid environment variable name must consist only of '
        "printable ASCII characters other than '='",
    ),
    (
        container(env=[{"name": "X", "valueFrom": {}}]),
        "containers[0].env[0].valueFrom",
        'Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, '
        "`configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
    ),
    (
        container(
            env=[
                {
                    "name": "X",
                    "value": "1",
                    "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
                }
            ]
        ),
        "containers[0].env[0].valueFrom",
        'Invalid value: "": may not be specified when `value` is not empty',
    ),
    (
        container(env=[{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "a"}}}]),
        "containers[0].env[0].valueFrom.configMapKeyRef.key",
        "Required value",
    ),
    (
        container(env=[{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "spec.foo"}}}]),
        "containers[0].env[0].valueFrom.fieldRef.fieldPath",
        'Invalid value: "spec.foo": error converting fieldPath: field label not supported: '
        "spec.foo",
    ),
    (
        container(envFrom=[{}]),
        "containers[0].envFrom",
        'Invalid value: "": must specify one of: `configMapRef` or `secretRef`',
    ),
    (
        container(envFrom=[{"configMapRef": {}}]),
        "containers[0].envFrom[0].configMapRef.name",
        "Required value",
    ),
    (
        container(volumeMounts=[{"name": "x", "mountPath": "/x"}]),
        "containers[0].volumeMounts[0].name",
        'Not found: "x"',
    ),
    (
        mounted({"name": "v"}, mountPath=""),
        "containers[0].volumeMounts[0].mountPath",
        "Required value",
    ),
    (
        mounted({"name": "v"}, subPath="../a"),
        "containers[0].volumeMounts.subPath",
        "Invalid value: \"../a\": must not contain '..'",
    ),
    (
        mounted({"name": "v"}, subPath="a", subPathExpr="b"),
        "containers[0].volumeMounts[0].subPathExpr",
        'Invalid value: "b": subPathExpr and subPath are mutually exclusive',
    ),
    (mounted({"name": "v", "configMap": {}}), "volumes[0].configMap.name", "Required value"),
    (mounted({"name": "v", "secret": {}}), "volumes[0].secret.secretName", "Required value"),
    (
        mounted({"name": "v", "configMap": {"name": "a"}, "secret": {"secretName": "b"}}),
        "volumes[0].configMap",
        "Forbidden: may not specify more than 1 volume type",
    ),
    (
        mounted({"name": "v", "configMap": {"name": "a", "defaultMode": 0o1000}}),
        "volumes[0].configMap.defaultMode",
        "Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
    ),
    (
        mounted({"name": "v", "configMap": {"name": "a", "items": [{"key": "k", "path": "/x"}]}}),
        "volumes[0].configMap.items[0].path",
        'Invalid value: "/x": must be a relative path',
    ),
    (
        mounted({"name": "v", "configMap": {"name": "a", "items": [{"key": "k", "path": "..x"}]}}),
        "volumes[0].configMap.items[0].path",
        "Invalid value: \"..x\": must not start with '..'",
    ),
    (
        mounted(
            {
                "name": "v",
                "projected": {
                    "sources": [
                        {"configMap": {"name": "a", "items": [{"key": "a", "path": "x"}]}},
                        {"secret": {"name": "a", "items": [{"key": "a", "path": "x"}]}},
                    ]
                },
            }
        ),
        "volumes[0].projected",
        'Invalid value: "a": conflicting duplicate paths',
    ),
    (
        mounted({"name": "v", "downwardAPI": {"items": [{"path": "x"}]}}),
        "volumes[0].downwardAPI",
        "Required value: one of fieldRef and resourceFieldRef is required",
    ),
    (
        {**container(), "volumes": [{"name": "v"}, {"name": "v"}]},
        "volumes[1].name",
        'Duplicate value: "v"',
    ),
    (
        {**container(), "restartPolicy": "Sometimes"},
        "restartPolicy",
        'Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
    ),
]


@pytest.mark.parametrize(("spec", "path", "text"), INVALID_POD_SPECS)
async def test_invalid_pod_is_refused(api: Api, spec: dict[str, Any], path: str, text: str) -> None:
    """422 with exactly this error; what mounts a volume that is wrong does not find it."""
    reply = await api.post(PODS, {"metadata": {"name": "p"}, "spec": spec})
    assert reply.status == 422
    found = f"spec.{path}: {text}"
    if path.startswith("volumes[") and "volumeMounts" in spec["containers"][0]:
        found = f'[{found}, spec.containers[0].volumeMounts[0].name: Not found: "v"]'
    assert reply.message == f'Pod "p" is invalid: {found}'


def template(**fields: Any) -> dict[str, Any]:
    return {**deployment("a")["spec"], **fields}


INVALID_DEPLOYMENTS = [
    (
        {},
        "[spec.selector: Required value, spec.template.metadata.labels: Invalid value: null: "
        "`selector` does not match template `labels`, "
        "spec.template.spec.containers: Required value]",
    ),
    (
        template(selector={}),
        "spec.selector: Invalid value: {}: empty selector is invalid for deployment",
    ),
    (
        template(selector={"matchLabels": {"app": "b"}}),
        'spec.template.metadata.labels: Invalid value: {"app":"a"}: '
        "`selector` does not match template `labels`",
    ),
    (
        template(replicas=-1),
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
    ),
    (
        template(strategy={"type": "Recreate", "rollingUpdate": {}}),
        "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is "
        "'Recreate'",
    ),
    (
        template(strategy={"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}),
        "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: "
        "may not be 0 when `maxSurge` is 0",
    ),
    (
        template(strategy={"rollingUpdate": {"maxUnavailable": "x"}}),
        'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "x": a valid percent string '
        "must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used "
        "for validation is '[0-9]+%')",
    ),
    (
        template(
            template={
                "metadata": {"labels": {"app": "a"}},
                "spec": {**container(), "restartPolicy": "Never"},
            }
        ),
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
    ),
]


@pytest.mark.parametrize(("spec", "error"), INVALID_DEPLOYMENTS)
async def test_invalid_deployment_is_refused(api: Api, spec: dict[str, Any], error: str) -> None:
    """422 with upstream's texts in upstream's order."""
    reply = await api.post(DEPLOYMENTS, {"metadata": {"name": "a"}, "spec": spec})
    assert reply.message == f'Deployment.apps "a" is invalid: {error}'


MALFORMED = [
    ({"replicas": "x"}, "string into Go struct field DeploymentSpec.spec.replicas of type int32"),
    ([], "array into Go struct field Deployment.spec of type v1.DeploymentSpec"),
    (
        template(template={"spec": {"containers": {}}}),
        "object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
    ),
    (
        template(template={"spec": {"containers": [{"env": [{"name": "a", "value": 1}]}]}}),
        "number into Go struct field EnvVar.spec.template.spec.containers.env.value of type string",
    ),
]


@pytest.mark.parametrize(("spec", "error"), MALFORMED)
async def test_deployment_with_wrong_json_type_is_refused(
    api: Api, spec: object, error: str
) -> None:
    """400 with the path of the field."""
    reply = await api.post(DEPLOYMENTS, {"metadata": {"name": "a"}, "spec": spec})
    assert (reply.status, reply.message) == (
        400,
        'Deployment in version "v1" cannot be handled as a Deployment: '
        f"json: cannot unmarshal {error}",
    )


async def test_deployment_gets_kubernetes_defaults(api: Api) -> None:
    """Defaults of the Deployment, its strategy, its pods, containers, probes and volumes."""
    spec = mounted({"name": "v", "configMap": {"name": "c"}})
    spec["containers"][0] |= {
        "ports": [{"containerPort": 80}],
        "readinessProbe": {"httpGet": {"port": 80}},
        "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    }
    spec["volumes"].append({"name": "scratch"})
    made = (await api.post(DEPLOYMENTS, deployment("web", spec))).body
    assert made["metadata"]["generation"] == 1
    assert made["status"] == {}
    shown = {k: v for k, v in made["spec"].items() if k not in ("selector", "template")}
    assert shown == {
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
        },
    }
    # As kube-apiserver 1.36 stored the same object.
    assert made["spec"]["template"]["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "x",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "env": [
                    {
                        "name": "N",
                        "valueFrom": {
                            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}
                        },
                    }
                ],
                "resources": {},
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                "readinessProbe": {
                    "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
                    "timeoutSeconds": 1,
                    "periodSeconds": 10,
                    "successThreshold": 1,
                    "failureThreshold": 3,
                },
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "Always",
            }
        ],
        "volumes": [
            {"name": "v", "configMap": {"name": "c", "defaultMode": 420}},
            {"name": "scratch", "emptyDir": {}},
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    }


async def test_generation_counts_spec_changes(registry: Registry) -> None:
    """Spec and annotations of a Deployment do; labels and status do not."""
    await registry.create("deployments", "default", deployment("web"), manager="t")

    async def generation(patch: dict[str, Any], subresource: str = "") -> int:
        patched = await registry.patch(
            "deployments", "default", "web", patch, kind="merge", manager="t",
            subresource=subresource,
        )  # fmt: skip
        return int(patched["metadata"]["generation"])

    assert await generation({"metadata": {"labels": {"a": "b"}}}) == 1
    assert await generation({"spec": {"replicas": 2}}) == 2
    assert await generation({"metadata": {"annotations": {"a": "b"}}}) == 3
    assert await generation({"status": {"replicas": 2}}, "status") == 3
    assert await generation({"status": {"replicas": 9}}) == 3


async def test_status_and_spec_are_updated_separately(registry: Registry) -> None:
    """The main resource keeps the status, /status keeps the spec."""
    await registry.create("deployments", "default", deployment("web"), manager="t")
    both = {"spec": {"replicas": 5}, "status": {"replicas": 3}}
    kept: dict[str, Any] = {"kind": "merge", "manager": "t"}
    main = await registry.patch("deployments", "default", "web", both, **kept)
    assert (main["spec"]["replicas"], main["status"]) == (5, {})
    both["spec"]["replicas"] = 7
    status = await registry.patch(
        "deployments", "default", "web", both, subresource="status", **kept
    )
    assert (status["spec"]["replicas"], status["status"]) == (5, {"replicas": 3})


async def test_workload_selector_is_immutable(api: Api) -> None:
    """Changing it is refused, even together with the template."""
    await api.post(DEPLOYMENTS, deployment("web"))
    change = {
        "selector": {"matchLabels": {"app": "b"}},
        "template": {"metadata": {"labels": {"app": "b"}}},
    }
    reply = await api.patch(f"{DEPLOYMENTS}/web", {"spec": change})
    assert reply.message == (
        'Deployment.apps "web" is invalid: spec.selector: Invalid value: '
        '{"matchLabels":{"app":"b"}}: field is immutable'
    )


async def test_scale_subresource_reads_and_writes_replicas(api: Api) -> None:
    """The subresource reads and writes the number of replicas."""
    await api.post(DEPLOYMENTS, deployment("web", replicas=2))
    scale = (await api.get(f"{DEPLOYMENTS}/web/scale")).body
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 0, "selector": "app=web"}
    reply = await api.patch(f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 5}})
    assert reply.body["spec"] == {"replicas": 5}
    assert (await api.get(f"{DEPLOYMENTS}/web")).body["spec"]["replicas"] == 5
    stale = {"metadata": {"name": "web", "resourceVersion": "1"}, "spec": {"replicas": 1}}
    assert (await api.request("PUT", f"{DEPLOYMENTS}/web/scale", stale)).status == 409


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        ({"metadata": {"name": "other"}}, 400, "the name of the object (other) does not match"),
        ({"metadata": {}}, 400, "the name of the object (web based on URL) was undeterminable"),
        ({"metadata": {"name": "web", "namespace": "other"}}, 400, "the namespace of the provided"),
        ({"metadata": {"name": "web", "uid": "other"}}, 409, "UID in precondition: other"),
        ({"spec": {"replicas": "x"}}, 400, "cannot unmarshal string into Go struct field Scale"),
        ({"spec": {"replicas": -1}}, 422, "must be greater than or equal to 0"),
        ({"spec": {"replica": 1}}, 400, 'strict decoding error: unknown field "spec.replica"'),
    ],
)
async def test_malformed_scale_is_refused(
    api: Api, change: dict[str, Any], status: int, text: str
) -> None:
    """As any other object."""
    await api.post(DEPLOYMENTS, deployment("web", replicas=2))
    scale = {"metadata": {"name": "web"}, "spec": {"replicas": 3}, **change}
    path = f"{DEPLOYMENTS}/web/scale"
    refused = await api.request("PUT", path, scale, fieldValidation="Strict")
    assert (refused.status, text in refused.message) == (status, True), refused.message
    assert (await api.get(path)).body["spec"] == {"replicas": 2}


async def test_pod_spec_is_mostly_immutable(api: Api) -> None:
    """Images and metadata may change, nothing else."""
    await api.post(PODS, pod("p"))
    refused = await api.patch(f"{PODS}/p", {"spec": {"restartPolicy": "Never"}})
    assert refused.status == 422
    assert "spec: Forbidden: pod updates may not change fields other than" in refused.message
    nudge = await api.patch(f"{PODS}/p", {"metadata": {"annotations": {"a": "b"}}})
    assert (nudge.status, nudge.body["metadata"]["generation"]) == (200, 1)


async def test_bound_pod_is_deleted_gracefully(registry: Registry) -> None:
    """It stays until it is deleted with no grace; a shorter grace counts, a longer not."""
    await registry.create("pods", "default", pod("p"), manager="t")
    await registry.bind("default", "p", "local")

    async def deleted(grace: int | None) -> tuple[int, str, int]:
        metadata = (await registry.delete("pods", "default", "p", grace_period=grace))["metadata"]
        return (
            metadata["deletionGracePeriodSeconds"],
            metadata["deletionTimestamp"],
            metadata["generation"],
        )

    assert await deleted(None) == (30, "2023-11-14T22:13:50Z", 2)
    assert await deleted(60) == (30, "2023-11-14T22:13:50Z", 2)
    assert await deleted(5) == (5, "2023-11-14T22:13:25Z", 2)
    await registry.delete("pods", "default", "p", grace_period=0)
    with pytest.raises(NotFound):
        await registry.get("pods", "default", "p")


async def test_unscheduled_pod_is_deleted_at_once(registry: Registry) -> None:
    """Without a node, or finished, there is nothing to wait for."""
    await registry.create("pods", "default", pod("p"), manager="t")
    await registry.delete("pods", "default", "p")
    with pytest.raises(NotFound):
        await registry.get("pods", "default", "p")


async def test_binding_assigns_node(api: Api, registry: Registry) -> None:
    """A pod is assigned once, and then shows it."""
    await api.post(PODS, pod("p"))
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "local"}}
    nameless = await api.post(f"{PODS}/p/binding", {"target": binding["target"]})
    why = "name in URL does not match name in Binding object"
    assert (nameless.status, nameless.message) == (400, why)
    assert (await api.post(f"{PODS}/p/binding", binding)).status == 201
    bound = await registry.get("pods", "default", "p")
    assert bound["spec"]["nodeName"] == "local"
    assert [c["type"] for c in bound["status"]["conditions"]] == ["PodScheduled"]
    with pytest.raises(Conflict, match='is already assigned to node "local"'):
        await registry.bind("default", "p", "other")


async def test_pod_quality_of_service_takes_limits_as_requests(registry: Registry) -> None:
    """Limits are requests where none are made."""
    limits = {"resources": {"limits": {"cpu": "1", "memory": "1Mi"}}}
    spec = {"containers": [{"name": "c", "image": "x", **limits}]}
    made = await registry.create(
        "pods", "default", {"metadata": {"name": "p"}, "spec": spec}, manager="t"
    )
    assert made["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([{}, {}], "BestEffort"),
        ([{"requests": {"ephemeral-storage": "1Gi"}, "limits": {"a.b/gpu": "1"}}], "BestEffort"),
        ([{"requests": {"cpu": "0"}}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        ([{"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}, {}], "Burstable"),
        (
            [{"requests": {"cpu": "1000m"}, "limits": {"cpu": "1", "memory": "1Gi", "a.b/x": "1"}}],
            "Guaranteed",
        ),
    ],
)
async def test_quality_of_service_counts_cpu_and_memory(
    api: Api, resources: list[dict[str, Any]], expected: str
) -> None:
    """Not storage and devices; amounts are compared, not texts."""
    containers = [
        {"name": f"c{number}", "image": "x", "resources": each}
        for number, each in enumerate(resources)
    ]
    made = await api.post(PODS, pod("p", containers=containers))
    assert made.body["status"]["qosClass"] == expected


async def test_resources_of_a_whole_pod_decide_its_quality_of_service(api: Api) -> None:
    same = {"cpu": "1", "memory": "1Gi"}
    made = await api.post(PODS, pod("p", resources={"requests": same, "limits": same}))
    assert made.body["status"]["qosClass"] == "Guaranteed"


async def test_status_of_a_deployment_leaves_its_labels(api: Api) -> None:
    """An update of the status that has no labels takes none away."""
    obj = deployment("web")
    obj["metadata"]["labels"] = {"a": "b"}
    await api.post(DEPLOYMENTS, obj, fieldManager="owner")
    status = {"metadata": {"name": "web"}, "status": {"replicas": 1}}
    written = await api.request("PUT", f"{DEPLOYMENTS}/web/status", status)
    assert written.body["status"] == {"replicas": 1}
    assert written.body["metadata"]["labels"] == {"a": "b"}
    managers = {entry["manager"]: entry for entry in written.body["metadata"]["managedFields"]}
    assert managers["owner"]["fieldsV1"]["f:metadata"] == {"f:labels": {".": {}, "f:a": {}}}


async def test_status_of_a_pod_leaves_its_owners(api: Api) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}
    made = pod("p")
    made["metadata"]["ownerReferences"] = [owner]
    await api.post(PODS, made)
    change = {"metadata": {"ownerReferences": None}, "status": {"message": "m"}}
    written = await api.patch(f"{PODS}/p/status", change)
    assert written.body["metadata"]["ownerReferences"] == [owner]


async def test_eviction_deletes_pod(api: Api, registry: Registry) -> None:
    """It deletes the pod that its preconditions name, and no other of that name."""
    there = await registry.create("pods", "default", pod("p"), manager="m")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    other = {"preconditions": {"uid": "another"}}
    refused = await api.post(f"{PODS}/p/eviction", {**eviction, "deleteOptions": other})
    assert (refused.status, refused.body["reason"]) == (409, "Conflict")
    assert (await api.post(f"{PODS}/q/eviction", eviction)).status == 400
    this = {"preconditions": {"uid": there["metadata"]["uid"]}}
    evicted = await api.post(f"{PODS}/p/eviction", {**eviction, "deleteOptions": this})
    assert (evicted.status, evicted.body["status"]) == (201, "Success")
    with pytest.raises(NotFound):
        await registry.get("pods", "default", "p")


async def test_grpc_probe_has_a_service(api: Api) -> None:
    """It is "" by default; kubectl describe ends with a panic where it is missing."""
    container = {"name": "c", "image": "i", "livenessProbe": {"grpc": {"port": 1}}}
    reply = await api.post(PODS, pod("p", containers=[container]))
    assert reply.body["spec"]["containers"][0]["livenessProbe"]["grpc"] == {
        "port": 1,
        "service": "",
    }
    container["livenessProbe"] = {"grpc": {"port": 0}}
    refused = await api.post(PODS, pod("q", containers=[container]))
    assert (
        "livenessProbe.grpc.port: Invalid value: 0: must be between 1 and 65535" in refused.message
    )


async def test_quantities_are_canonical_and_zero_values_written(api: Api) -> None:
    """As Go writes them: 1000m and 1 are the same template, and a sleep has its seconds."""
    limits = {"cpu": "1000m", "memory": "1024Mi", "ephemeral-storage": 0.5}
    container = {
        "name": "a",
        "image": "x",
        "resources": {"limits": limits},
        "lifecycle": {"preStop": {"sleep": {}}},
        "livenessProbe": {"httpGet": {"port": 80, "httpHeaders": [{"name": "h"}]}},
    }
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    reply = await api.post(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})
    (found,) = reply.body["spec"]["template"]["spec"]["containers"]
    assert found["resources"] == {
        "limits": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "500m"},
    }
    assert found["lifecycle"] == {"preStop": {"sleep": {"seconds": 0}}}
    assert found["livenessProbe"]["httpGet"]["httpHeaders"] == [{"name": "h", "value": ""}]
    limits["cpu"] = "1"
    again = await api.request(
        "PUT", f"{DEPLOYMENTS}/web", {"metadata": {"name": "web"}, "spec": spec}
    )
    assert again.body["metadata"]["generation"] == 1


async def patch_template(registry: Registry, spec: dict[str, Any]) -> dict[str, Any]:
    patch = {"spec": {"template": {"spec": spec}}}
    return await registry.patch("jobs", "default", "j", patch, kind="strategic", manager="t")


async def set_job_status(registry: Registry, **status: object) -> None:
    await registry.patch(
        "jobs", "default", "j", {"status": status},
        kind="merge", subresource="status", manager="t",
    )  # fmt: skip


async def test_suspended_job_may_change_where_and_with_what_its_pods_run(
    registry: Registry,
) -> None:
    """As long as it has no pods (MutablePodResourcesForSuspendedJobs is on in 1.36)."""
    template = {"spec": {"restartPolicy": "Never", **container(resources={})}}
    job = {"metadata": {"name": "j"}, "spec": {"suspend": True, "template": template}}
    await registry.create("jobs", "default", job, manager="t")
    asked = {"requests": {"cpu": "2"}}
    changed = await patch_template(registry, container(resources=asked))
    assert changed["spec"]["template"]["spec"]["containers"][0]["resources"] == asked
    await patch_template(registry, {"nodeSelector": {"a": "b"}})
    with pytest.raises(Invalid, match=r"spec\.template\.spec: .*: field is immutable"):
        await patch_template(registry, container(image="y"))
    times = {"startTime": "2026-01-01T00:00:00Z"}
    await set_job_status(registry, active=1, **times)
    with pytest.raises(Invalid, match=r"spec\.template: .*: field is immutable"):
        await patch_template(registry, {"nodeSelector": {"a": "c"}})


@pytest.mark.parametrize("first", [None, "other", "both"])
async def test_suspended_job_may_change_the_affinity_to_nodes_alone(
    registry: Registry, first: str | None
) -> None:
    term = {"matchExpressions": [{"key": "k", "operator": "Exists"}]}
    node = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    rule = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
    pods = {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}
    known: dict[str | None, dict[str, Any]] = {
        None: {},
        "other": {"podAffinity": pods},
        "both": {"nodeAffinity": node, "podAffinity": pods},
    }
    spec = {"restartPolicy": "Never", "affinity": known[first], **container()}
    job = {"metadata": {"name": "j"}, "spec": {"suspend": True, "template": {"spec": spec}}}
    await registry.create("jobs", "default", job, manager="t")
    await patch_template(registry, {"affinity": {"nodeAffinity": node}})
    await patch_template(registry, {"affinity": {"nodeAffinity": None}})
    with pytest.raises(Invalid, match=r"spec\.template\.spec: .*: field is immutable"):
        await patch_template(registry, {"affinity": {"podAntiAffinity": pods}})
    if first:
        with pytest.raises(Invalid, match=r"spec\.template\.spec: .*: field is immutable"):
            await patch_template(registry, {"affinity": {"podAffinity": None}})
