"""What is wrong with objects is told in the words of Kubernetes; texts read from kube-apiserver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.local.apiserver.api import STRATEGIC

if TYPE_CHECKING:
    from tests.local.apiserver.api import Api

PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NODES = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"


def pod(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "x"}], **fields}


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "x", **fields}]}


def node_affinity(**requirement: Any) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": "k", **requirement}]}]
    return pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})


def pod_affinity(**term: Any) -> dict[str, Any]:
    return pod(affinity={"podAffinity": {REQUIRED: [{"topologyKey": "a", **term}]}})


def spread(**constraint: Any) -> dict[str, Any]:
    fixed = {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}
    return pod(topologySpreadConstraints=[{**fixed, **constraint}])


AFFINITY = f"spec.affinity.podAffinity.{REQUIRED}[0]"

# Spec of a pod → one of the things that are wrong with it.
WRONG_PODS = [
    (pod_affinity(labelSelector={"matchLabels": {"a": "-"}}),
     f'{AFFINITY}.labelSelector.matchLabels: Invalid value: "-": a valid label must be an empty '),
    (pod_affinity(labelSelector={"matchExpressions": [{"key": "k", "operator": "In"}]}),
     f"{AFFINITY}.labelSelector.matchExpressions[0].values: Required value: must be specified "),
    (pod_affinity(namespaceSelector={"matchExpressions": [{"key": "k", "operator": "X"}]}),
     f'{AFFINITY}.namespaceSelector.matchExpressions[0].operator: Invalid value: "X": not a '),
    (pod_affinity(labelSelector={}, namespaces=["A"]),
     f'{AFFINITY}.namespace: Invalid value: "A": a lowercase RFC 1123 label must consist of '),
    (pod_affinity(matchLabelKeys=["a"]),
     f"{AFFINITY}.matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"),
    (pod_affinity(labelSelector={}, matchLabelKeys=["a"], mismatchLabelKeys=["a"]),
     f'{AFFINITY}.matchLabelKeys[0]: Invalid value: "a": exists in both matchLabelKeys and '
     "mismatchLabelKeys"),
    (spread(labelSelector={"matchExpressions": [{"key": "k", "operator": "In", "values": ["?"]}]}),
     "spec.topologySpreadConstraints[0].labelSelector.matchExpressions[0].values[0]: Invalid "
     'value: "?": a valid label must be '),
    (spread(matchLabelKeys=["b"]),
     "spec.topologySpreadConstraints[0].matchLabelKeys: Forbidden: must not be specified when "
     "labelSelector is not set"),
    (pod(containers=[{"name": "c", "image": " x"}]),
     'spec.containers[0].image: Invalid value: " x": must not have leading or trailing whitespace'),
    (pod(dnsPolicy="None"),
     "spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"),
    (pod(hostPID=True, shareProcessNamespace=True),
     "spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and "
     "HostPID cannot both be enabled"),
    (pod(hostUsers=False, hostNetwork=True, hostPID=True, hostIPC=True),
     "[spec.hostNetwork: Forbidden: when `hostUsers` is false, spec.HostPID: Forbidden: when "
     "`hostUsers` is false, spec.HostIPC: Forbidden: when `hostUsers` is false]"),
    (container(securityContext={"runAsGroup": -1}),
     "spec.containers[0].securityContext.runAsGroup: Invalid value: -1: must be between 0 and "
     "2147483647, inclusive"),
    (pod(securityContext={"supplementalGroups": [1, -4]}),
     "spec.securityContext.supplementalGroups[1]: Invalid value: -4: must be between 0 and "
     "2147483647, inclusive"),
    (container(securityContext={"allowPrivilegeEscalation": False, "privileged": True}),
     '"Privileged":true,"SELinuxOptions":null,"WindowsOptions":null,"RunAsUser":null,'
     '"RunAsGroup":null,"RunAsNonRoot":null,"ReadOnlyRootFilesystem":null,'
     '"AllowPrivilegeEscalation":false,"ProcMount":null,"SeccompProfile":null,'
     '"AppArmorProfile":null}: cannot set `allowPrivilegeEscalation` to false and `privileged` to '
     "true"),
    (container(ports=[{"containerPort": 80, "name": "a--b-"}]),
     'spec.containers[0].ports[0].name: Invalid value: "a--b-": must not contain consecutive '
     "hyphens"),
    (container(ports=[{"containerPort": 80, "hostPort": 1}, {"containerPort": 81, "hostPort": 1}]),
     'spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//1"'),
    (pod(volumes=[{"name": "v", "hostPath": {"path": "/a", "type": "Wrong"}}]),
     'spec.volumes[0].hostPath.type: Unsupported value: "Wrong": supported values: "", '
     '"BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", '
     '"Socket"'),
    (pod(volumes=[{"name": "v", "emptyDir": {"sizeLimit": "-1"}}]),
     "spec.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource "
     "quantity"),
    (pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}),
     f"{NODES}: Required value: must have at least one node selector term"),
    (node_affinity(operator="In"),
     f"{NODES}[0].matchExpressions[0].values: Required value: must be specified when `operator` "
     "is 'In' or 'NotIn'"),
    (node_affinity(operator="Exists", values=["a"]),
     f"{NODES}[0].matchExpressions[0].values: Forbidden: may not be specified when `operator` is "
     "'Exists' or 'DoesNotExist'"),
    (node_affinity(operator="Gt", values=["1", "2"]),
     f"{NODES}[0].matchExpressions[0].values: Required value: must be specified single value when "
     "`operator` is 'Lt' or 'Gt'"),
    (node_affinity(operator="Wrong"),
     f'{NODES}[0].matchExpressions[0].operator: Invalid value: "Wrong": not a valid selector '
     "operator"),
    (pod(affinity={"podAffinity": {PREFERRED: [{"weight": 0, "podAffinityTerm": {}}]}}),
     f"spec.affinity.podAffinity.{PREFERRED}[0].podAffinityTerm.topologyKey: Required value: can "
     "not be empty"),
    (container(resources={"requests": {"none": "1"}}),
     'spec.containers[0].resources.requests[none]: Invalid value: "none": must be a standard '
     "resource type or fully qualified"),
    (container(resources={"limits": {"pods": "1"}}),
     'spec.containers[0].resources.limits[pods]: Invalid value: "pods": must be a standard '
     "resource for containers"),
    (pod(topologySpreadConstraints=[
        {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}] * 2),
     "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "
     '"{z, DoNotSchedule}"'),
    (pod(topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "z", "minDomains": 1,
                                     "whenUnsatisfiable": "ScheduleAnyway"}]),
     "spec.topologySpreadConstraints[0].minDomains: Invalid value: 1: can only use minDomains if "
     "whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "text"), WRONG_PODS)
async def test_wrong_pod_is_refused(api: Api, spec: dict[str, Any], text: str) -> None:
    reply = await api.post(PODS, {"metadata": {"name": "wrong"}, "spec": spec})
    assert (reply.status, text in reply.message) == (422, True), reply.message


async def test_port_of_a_pod_in_the_network_of_its_node_is_one_of_the_node(api: Api) -> None:
    spec = {**container(ports=[{"containerPort": 8080}]), "hostNetwork": True}
    made = await api.post(PODS, {"metadata": {"name": "on-node"}, "spec": spec})
    assert made.body["spec"]["containers"][0]["ports"][0]["hostPort"] == 8080


@pytest.mark.parametrize(
    ("before", "change", "text"),
    [
        ({}, {"terminationGracePeriodSeconds": 5}, "spec: Forbidden: pod updates may not change"),
        (
            {"activeDeadlineSeconds": 50},
            {"activeDeadlineSeconds": 60},
            "spec.activeDeadlineSeconds: Invalid value: 60: must be less than or equal to previous "
            "value",
        ),
        (
            {"activeDeadlineSeconds": 50},
            {"activeDeadlineSeconds": None},
            "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive "
            "integer to nil value",
        ),
        (
            {},
            {"containers": [{"name": "d", "image": "x"}]},
            "spec.containers: Forbidden: pod updates may not add or remove containers",
        ),
    ],
)
async def test_pod_keeps_what_an_update_may_not_change(
    api: Api, before: dict[str, Any], change: dict[str, Any], text: str
) -> None:
    await api.post(PODS, {"metadata": {"name": "kept"}, "spec": pod(**before)})
    reply = await api.patch(f"{PODS}/kept", {"spec": change}, kind=STRATEGIC)
    assert (reply.status, text in reply.message) == (422, True), reply.message


async def test_deadline_of_a_pod_may_come_closer(api: Api) -> None:
    await api.post(PODS, {"metadata": {"name": "due"}, "spec": pod(activeDeadlineSeconds=50)})
    change = {"spec": {"activeDeadlineSeconds": 40}}
    assert (await api.patch(f"{PODS}/due", change)).status == 200


@pytest.mark.parametrize(
    ("path", "obj", "text"),
    [
        (
            SERVICES,
            {"spec": {"ports": [{"port": 80}], "ipFamilyPolicy": "Wrong", "clusterIP": "1.2"}},
            'spec.clusterIPs[0]: Invalid value: "1.2": must be a valid IP address',
        ),
        (
            SERVICES,
            {"spec": {"ports": [{"port": 80, "targetPort": "UPPER"}]}},
            'spec.ports[0].targetPort: Invalid value: "UPPER": must contain only alpha-numeric',
        ),
        (
            SERVICES,
            {"spec": {"ports": [{"port": 80}], "externalTrafficPolicy": "Local"}},
            'spec.externalTrafficPolicy: Invalid value: "Local": may only be set for '
            "externally-accessible services",
        ),
        (
            SERVICES,
            {
                "spec": {
                    "type": "NodePort",
                    "ports": [{"port": 80}],
                    "externalTrafficPolicy": "Node",
                }
            },
            'spec.externalTrafficPolicy: Unsupported value: "Node": supported values: "Cluster", ',
        ),
        (
            SERVICES,
            {"spec": {"ports": [{"port": 80}], "internalTrafficPolicy": "Node"}},
            'spec.internalTrafficPolicy: Unsupported value: "Node": supported values: "Cluster", ',
        ),
        (
            SERVICES,
            {"spec": {"ports": [{"port": 80, "appProtocol": "a b"}]}},
            'spec.ports[0].appProtocol: Invalid value: "a b": name part must consist of',
        ),
        (
            SERVICES,
            {
                "spec": {
                    "ports": [{"port": 80}],
                    "sessionAffinity": "ClientIP",
                    "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}},
                }
            },
            "clientIP.timeoutSeconds: Invalid value: 0: must be greater than 0 and less than 86400",
        ),
        (
            LEASES,
            {"spec": {"leaseDurationSeconds": 0}},
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        ),
        (
            "/api/v1/namespaces/default/endpoints",
            {"subsets": [{"addresses": [{"ip": "x"}], "ports": [{"port": 80}]}]},
            'subsets[0].addresses[0].ip: Invalid value: "x": must be a valid IP address',
        ),
        (
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
            {"addressType": "IPv6", "endpoints": [{"addresses": ["10.0.0.1"]}]},
            'endpoints[0].addresses: Invalid value: "10.0.0.1": must be an IPv6 address',
        ),
        (
            "/api/v1/namespaces/default/resourcequotas",
            {"spec": {"hard": {"cpu": "1"}, "scopes": ["BestEffort"]}},
            'spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource',
        ),
        (
            "/api/v1/nodes",
            {"spec": {"taints": [{"key": "a"}]}},
            "metadata.taints[0].effect: Required value",
        ),
        (
            "/api/v1/persistentvolumes",
            {"spec": {"accessModes": ["Wrong"], "capacity": {"storage": "1"}, "nfs": {}}},
            "spec.nfs.server: Required value",
        ),
        (
            "/api/v1/persistentvolumes",
            {
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "capacity": {"storage": "1"},
                    "hostPath": {"path": "/a"},
                    "nfs": {"server": "a", "path": "/b"},
                }
            },
            "spec.nfs: Forbidden: may not specify more than 1 volume type",
        ),
        (
            "/apis/storage.k8s.io/v1/storageclasses",
            {"provisioner": "a/b/c"},
            'provisioner: Invalid value: "a/b/c": a valid label key must consist of',
        ),
    ],
)
async def test_wrong_object_is_refused(api: Api, path: str, obj: dict[str, Any], text: str) -> None:
    reply = await api.post(path, {"metadata": {"name": "wrong"}, **obj})
    assert (reply.status, text in reply.message) == (422, True), reply.message


async def test_traffic_policy_goes_with_the_type_that_needs_it(api: Api) -> None:
    spec = {"type": "NodePort", "ports": [{"port": 80}]}
    made = await api.post(SERVICES, {"metadata": {"name": "inside"}, "spec": spec})
    assert made.body["spec"]["externalTrafficPolicy"] == "Cluster"
    reply = await api.patch(f"{SERVICES}/inside", {"spec": {"type": "ClusterIP"}})
    assert (reply.status, "externalTrafficPolicy" in reply.body["spec"]) == (200, False)


async def test_service_with_external_addresses_has_a_traffic_policy(api: Api) -> None:
    spec = {"ports": [{"port": 80}], "externalIPs": ["192.0.2.1"]}
    made = await api.post(SERVICES, {"metadata": {"name": "outside"}, "spec": spec})
    assert made.body["spec"]["externalTrafficPolicy"] == "Cluster"


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"loadBalancerIP": "192.0.2.1", "clusterIP": "None"},
         "spec.loadBalancerIP is ignored for headless services"),
        ({"externalIPs": ["192.0.2.1"], "clusterIP": "None"},
         "spec.externalIPs is ignored for headless services"),
        ({"sessionAffinity": "ClientIP", "clusterIP": "None"},
         "spec.SessionAffinity is ignored for headless services"),
        ({"externalIPs": ["192.0.2.1"]},
         "spec.externalIPs is deprecated and may no longer be implemented in some clusters"),
        ({"externalIPs": ["192.0.2.1"], "type": "ExternalName", "externalName": "a.b"},
         r'spec.externalIPs is ignored when spec.type is \"ExternalName\"'),
        ({"trafficDistribution": "PreferClose"},
         r'spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"'),
    ],
)  # fmt: skip
async def test_fields_of_services_without_effect_are_warned_of(
    api: Api, spec: dict[str, Any], text: str
) -> None:
    """At the creation and at each update."""
    body = {"metadata": {"name": "odd"}, "spec": {"ports": [{"port": 80}], **spec}}
    made = await api.post(SERVICES, body)
    assert (made.status, made.headers["Warning"]) == (201, f'299 - "{text}"')
    updated = await api.patch(f"{SERVICES}/odd", {"metadata": {"labels": {"a": "b"}}})
    assert (updated.status, updated.headers["Warning"]) == (200, f'299 - "{text}"')


async def test_list_of_addresses_has_no_manager(api: Api) -> None:
    """The server derives it from the clusterIP that the manager has written."""
    body = {"metadata": {"name": "headless"}, "spec": {"clusterIP": "None"}}
    made = (await api.post(SERVICES, body)).body
    assert made["spec"]["clusterIPs"] == ["None"]
    fields = made["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
    assert ("f:clusterIP" in fields, "f:clusterIPs" in fields) == (True, False)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (SERVICES, {"spec": {"ports": [{"port": 80}]}}),
        ("/apis/storage.k8s.io/v1/storageclasses", {"provisioner": "a/b"}),
        ("/apis/storage.k8s.io/v1/csidrivers", {"spec": {}}),
        ("/apis/storage.k8s.io/v1/csinodes", {"spec": {"drivers": []}}),
        ("/apis/storage.k8s.io/v1/volumeattachments",
         {"spec": {"attacher": "a", "nodeName": "b", "source": {"persistentVolumeName": "c"}}}),
        ("/apis/storage.k8s.io/v1/volumeattributesclasses",
         {"driverName": "a.b", "parameters": {"c": "d"}}),
    ],
)  # fmt: skip
async def test_deletion_of_these_kinds_returns_the_object(
    api: Api, path: str, body: dict[str, Any]
) -> None:
    made = await api.post(path, {"metadata": {"name": "gone"}, **body})
    deleted = await api.request("DELETE", f"{path}/gone")
    assert (made.status, deleted.status, deleted.body["kind"]) == (201, 200, made.body["kind"])
    assert deleted.body["metadata"]["uid"] == made.body["metadata"]["uid"]


async def test_subresource_without_get_is_not_read(api: Api) -> None:
    assert (await api.get("/api/v1/namespaces/default/finalize")).status == 405


async def test_root_lists_the_paths(api: Api) -> None:
    paths = (await api.get("/")).body["paths"]
    assert paths == sorted(paths)
    assert {"/api/v1", "/apis/apps", "/apis/apps/v1", "/healthz", "/openapi/v3"} <= set(paths)


@pytest.mark.parametrize(("token", "position"), [("x", 0), ("abc!", 3), ("abcde", 4)])
async def test_continue_token_that_is_not_base64_is_refused(
    api: Api, token: str, position: int
) -> None:
    reply = await api.get("/api/v1/namespaces/default/configmaps", **{"continue": token})
    assert (reply.status, reply.message) == (
        400,
        "invalid continue token: continue key is not valid: "
        f"illegal base64 data at input byte {position}",
    )


async def test_field_manager_that_cannot_be_printed_is_refused(api: Api) -> None:
    path = "/api/v1/namespaces/default/configmaps?fieldManager=a%01"
    reply = await api.post(path, {"metadata": {"name": "a"}})
    text = r'fieldManager: Invalid value: "a\x01": invalid character U+0001 (at position 1)'
    assert (reply.status, text in reply.message) == (422, True), reply.message


async def test_label_keys_join_the_selectors_of_a_pod(api: Api) -> None:
    """By the pod's own labels; a key that it does not have joins nothing."""
    term = {"topologyKey": "a", "labelSelector": {}, "matchLabelKeys": ["app", "none"],
            "mismatchLabelKeys": ["b"]}  # fmt: skip
    spec = pod(affinity={"podAntiAffinity": {REQUIRED: [term]}})
    body = {"metadata": {"name": "p", "labels": {"app": "x", "b": "c"}}, "spec": spec}
    made = (await api.post(PODS, body)).body["spec"]["affinity"]["podAntiAffinity"][REQUIRED][0]
    assert made["labelSelector"]["matchExpressions"] == [
        {"key": "app", "operator": "In", "values": ["x"]},
        {"key": "b", "operator": "NotIn", "values": ["c"]},
    ]


@pytest.mark.parametrize("kind", ["deployments", "daemonsets"])
async def test_only_daemon_sets_validate_a_template_beside_an_unreadable_selector(
    api: Api, kind: str
) -> None:
    """A Deployment's is not looked at, and that of a DaemonSet is."""
    selector = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["a b"]}]}
    template = {"metadata": {"labels": {"a": "x"}}, "spec": pod(dnsPolicy="X")}
    body = {"metadata": {"name": "a"}, "spec": {"selector": selector, "template": template}}
    reply = await api.post(f"/apis/apps/v1/namespaces/default/{kind}", body)
    fields = [cause["field"] for cause in reply.body["details"]["causes"]]
    assert fields[0] == "spec.selector.matchExpressions[0].values[0]"
    assert (
        fields[1:]
        == {
            "deployments": ["spec.selector"],
            "daemonsets": ["spec.template.spec.dnsPolicy"],
        }[kind]
    )


async def test_external_addresses_of_service_are_addresses(api: Api) -> None:
    spec = {"ports": [{"port": 80}], "externalIPs": ["1.2.3", "0.0.0.0", "10.0.0.1"]}
    reply = await api.post(SERVICES, {"metadata": {"name": "s"}, "spec": spec})
    assert [cause["message"] for cause in reply.body["details"]["causes"]] == [
        'Invalid value: "1.2.3": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
        'Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)',
    ]


async def test_handler_of_runtime_class_never_changes(api: Api) -> None:
    classes = "/apis/node.k8s.io/v1/runtimeclasses"
    wrong = await api.post(classes, {"metadata": {"name": "r"}, "handler": "A"})
    assert 'handler: Invalid value: "A": a lowercase RFC 1123 label must' in wrong.message
    await api.post(classes, {"metadata": {"name": "r"}, "handler": "runc"})
    reply = await api.patch(f"{classes}/r", {"handler": "other"})
    assert reply.message.endswith('handler: Invalid value: "other": field is immutable')


async def test_node_keeps_the_addresses_of_its_pods(api: Api) -> None:
    """Both fields agree, and neither changes once it is set."""
    spec = {"podCIDR": "10.0.0.0/24"}
    made = await api.post("/api/v1/nodes", {"metadata": {"name": "n"}, "spec": spec})
    assert made.body["spec"]["podCIDRs"] == ["10.0.0.0/24"]
    refused = await api.patch("/api/v1/nodes/n", {"spec": {"podCIDR": "10.1.0.0/24"}})
    why = 'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid'
    assert (refused.status, why in refused.message) == (422, True)


async def test_ephemeral_container_stays_as_it_is(api: Api) -> None:
    """Others may be added; nothing else of the pod changes with them."""
    await api.post(PODS, {"metadata": {"name": "p"}, "spec": pod()})
    path = f"{PODS}/p/ephemeralcontainers"
    added = {"name": "e", "image": "x"}
    change = {"spec": {"ephemeralContainers": [added], "hostNetwork": True}}
    assert "hostNetwork" not in (await api.patch(path, change)).body["spec"]
    for containers, what in (([{**added, "image": "y"}], "changed"), ([], "removed")):
        refused = await api.patch(path, {"spec": {"ephemeralContainers": containers}})
        why = f'existing ephemeral containers "e" may not be {what}'
        assert (refused.status, why in refused.message) == (422, True)


async def test_binding_names_its_pod_in_the_body(api: Api) -> None:
    """The older form of the subresource."""
    await api.post(PODS, {"metadata": {"name": "bound"}, "spec": pod()})
    binding = {"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "n"}}
    reply = await api.post("/api/v1/namespaces/default/bindings", binding)
    assert reply.status == 201
    assert (await api.get(f"{PODS}/bound")).body["spec"]["nodeName"] == "n"
