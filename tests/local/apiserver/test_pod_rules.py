"""What upstream refuses of pods and Jobs, in its words."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.local.apiserver.api import PODS, pod

from hotmap.local.apiserver.plugins import AdmissionChain
from hotmap.local.apiserver.plugins.priority import PriorityPlugin

if TYPE_CHECKING:
    from tests.local.apiserver.api import Api

    from hotmap.local.apiserver.registry import Registry

JOBS = "/apis/batch/v1/namespaces/default/jobs"
CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"
SUBSCRIPT = "error converting fieldPath: field label does not support subscript: "
ALWAYS = "may not be set for init containers without restartPolicy=Always"
DIVISORS = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", **fields}]}


def mount(**more: Any) -> dict[str, Any]:
    return {"name": "v", "mountPath": "/v", **more}


def variable(**source: Any) -> dict[str, Any]:
    return container(env=[{"name": "A", "valueFrom": source}])


def field_ref(path: str) -> dict[str, Any]:
    return variable(fieldRef={"fieldPath": path})


def divided(resource: str, divisor: str) -> dict[str, Any]:
    return variable(resourceFieldRef={"resource": resource, "divisor": divisor})


def initial(**fields: Any) -> dict[str, Any]:
    return {"initContainers": [{"name": "i", "image": "i", **fields}]}


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            volume(persistentVolumeClaim={"claimName": ""}),
            "spec.volumes[0].persistentVolumeClaim.claimName: Required value",
        ),
        (
            volume(ephemeral={}),
            "spec.volumes[0].ephemeral.volumeClaimTemplate: Required value",
        ),
        (
            volume(ephemeral={"volumeClaimTemplate": {"spec": {}}}),
            "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Required value: "
            "at least 1 access mode is required",
        ),
        (
            field_ref("metadata.name['a']"),
            "valueFrom.fieldRef.fieldPath: Invalid value: \"metadata.name['a']\": "
            f"{SUBSCRIPT}metadata.name['a']",
        ),
        (
            field_ref("metadata.labels[a]"),
            'valueFrom.fieldRef.fieldPath: Invalid value: "metadata.labels[a]": error converting '
            "fieldPath: field label not supported: metadata.labels[a]",
        ),
        (
            field_ref("metadata.labels['a b']"),
            'valueFrom.fieldRef: Invalid value: "a b": name part must consist of',
        ),
        (
            field_ref("status.phase"),
            'valueFrom.fieldRef.fieldPath: Unsupported value: "status.phase"',
        ),
        (
            volume(downwardAPI={"items": [{"path": "p", "fieldRef": {"fieldPath": "x.y"}}]}),
            'downwardAPI.fieldRef.fieldPath: Invalid value: "x.y": error converting fieldPath: '
            "field label not supported: x.y",
        ),
        (
            divided("limits.cpu", "2"),
            'divisor: Invalid value: "limits.cpu": only divisor\'s values 1m and 1 are supported '
            "with the cpu resource",
        ),
        (
            divided("requests.memory", "1m"),
            'resourceFieldRef.divisor: Invalid value: "requests.memory": only divisor\'s values '
            f"{DIVISORS} are supported with the memory resource",
        ),
        (
            divided("limits.ephemeral-storage", "3"),
            f"values {DIVISORS} are supported with the local ephemeral storage resource",
        ),
        (
            container(lifecycle={"preStop": {"sleep": {"seconds": 31}}}),
            "spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: must be non-negative "
            "and less than terminationGracePeriodSeconds (30)",
        ),
        (
            initial(readinessProbe={"tcpSocket": {"port": 1}}),
            f"spec.initContainers[0].readinessProbe: Forbidden: {ALWAYS}",
        ),
        (
            initial(lifecycle={"preStop": {"sleep": {"seconds": 1}}}),
            f"spec.initContainers[0].lifecycle: Forbidden: {ALWAYS}",
        ),
        (
            container(
                readinessProbe={"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 1}
            ),
            "readinessProbe.terminationGracePeriodSeconds: Invalid value: 1: must not be set for "
            "readinessProbes",
        ),
        ({"hostname": "A.b"}, 'spec.hostname: Invalid value: "A.b": a lowercase RFC 1123 label'),
        ({"subdomain": "-a"}, 'spec.subdomain: Invalid value: "-a": a lowercase RFC 1123 label'),
    ],
)
async def test_pod_is_refused(api: Api, spec: dict[str, Any], text: str) -> None:
    reply = await api.post(PODS, pod("p", **spec))
    assert reply.status == 422
    assert text in reply.message


@pytest.mark.parametrize(
    "spec",
    [
        volume(persistentVolumeClaim={"claimName": "c"}),
        field_ref("metadata.annotations['example.com/A']"),
        divided("limits.cpu", "1000m"),
        divided("limits.memory", "1Mi"),
        divided("limits.hugepages-2Mi", "1"),
        container(lifecycle={"preStop": {"sleep": {"seconds": 30}}}),
        initial(readinessProbe={"tcpSocket": {"port": 1}}, restartPolicy="Always"),
        {"hostname": "a", "subdomain": "b"},
    ],
)
async def test_pod_is_accepted(api: Api, spec: dict[str, Any]) -> None:
    assert (await api.post(PODS, pod("p", **spec))).status == 201


@pytest.mark.parametrize(
    ("ref", "text"),
    [
        ({"volumeName": "x"}, '.volumeName: Not found: "x"'),
        ({"path": "a/../b"}, ".path: Invalid value: \"a/../b\": must not contain '..'"),
        (
            {"volumeName": "cm"},
            '.volumeName: Invalid value: "cm": referenced volume must be',
        ),
        ({"key": ""}, ".key: Required value"),
    ],
)
async def test_variable_from_a_file_is_checked(api: Api, ref: dict[str, Any], text: str) -> None:
    """Its volume is an emptyDir; `optional` has a default."""
    volumes = [{"name": "v", "emptyDir": {}}, {"name": "cm", "configMap": {"name": "cm"}}]
    complete = {"volumeName": "v", "path": "/a", "key": "A"}
    accepted = await api.post(PODS, pod("p", volumes=volumes, **variable(fileKeyRef=complete)))
    source = accepted.body["spec"]["containers"][0]["env"][0]["valueFrom"]
    assert source == {"fileKeyRef": {**complete, "optional": False}}
    broken = variable(fileKeyRef={**complete, **ref})
    refused = await api.post(PODS, pod("q", volumes=volumes, **broken))
    at = "spec.containers[0].env[0].valueFrom.fileKeyRef"
    assert (refused.status, at + text in refused.message) == (422, True), refused.message


def rules(*found: dict[str, Any], policy: str | None = "Never") -> dict[str, Any]:
    own = {} if policy is None else {"restartPolicy": policy}
    return container(restartPolicyRules=list(found), **own)


def restart_rule(action: str = "Restart", operator: str = "In", count: int = 1) -> dict[str, Any]:
    exit_codes = {"operator": operator, "values": list(range(count))}
    return {"action": action, "exitCodes": exit_codes}


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"dnsConfig": {"nameservers": ["Bogus"]}},
            'dnsConfig.nameservers[0]: Invalid value: "Bogus": must be a valid IP address, (e.g. ',
        ),
        ({"dnsConfig": {"searches": ["-a"]}}, 'dnsConfig.searches[0]: Invalid value: "-a": a low'),
        (
            {"dnsConfig": {"searches": ["x" * 254]}},
            "must be no more than 253 characters",
        ),
        (
            {"dnsConfig": {"options": [{"value": "1"}]}},
            "dnsConfig.options[0]: Required value: must not be empty",
        ),
        (
            {"dnsPolicy": "None", "dnsConfig": {}},
            "dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when",
        ),
        (
            {"readinessGates": [{"conditionType": "a b"}]},
            'readinessGates[0].conditionType: Invalid value: "a b": name part must consist of',
        ),
        (
            container(ports=[{"containerPort": 80, "hostPort": 70000}]),
            "containers[0].ports[0].hostPort: Invalid value: 70000: must be between 1 and 65535",
        ),
        (
            container(livenessProbe={"httpGet": {"port": 80, "scheme": "http"}}),
            'containers[0].livenessProbe.httpGet.scheme: Unsupported value: "http": supported val',
        ),
        (
            container(volumeMounts=[mount(mountPropagation="All")]),
            'containers[0].volumeMounts.mountPropagation: Unsupported value: "All": supported val',
        ),
        (
            container(volumeMounts=[mount(mountPropagation="Bidirectional")]),
            "containers[0].volumeMounts.mountPropagation: Forbidden: Bidirectional mount "
            "propagation is available only to privileged containers",
        ),
        (
            container(volumeMounts=[mount(recursiveReadOnly="Always")]),
            'containers[0].volumeMounts.recursiveReadOnly: Unsupported value: "Always": supported',
        ),
        (
            container(volumeMounts=[mount(recursiveReadOnly="Enabled")]),
            "containers[0].volumeMounts.recursiveReadOnly: Forbidden: may only be specified when "
            "readOnly is true",
        ),
        (
            container(
                volumeMounts=[
                    mount(
                        readOnly=True,
                        recursiveReadOnly="IfPossible",
                        mountPropagation="HostToContainer",
                    )
                ]
            ),
            "containers[0].volumeMounts.recursiveReadOnly: Forbidden: may only be specified when "
            "mountPropagation is None or not specified",
        ),
    ],
)
async def test_further_field_of_a_pod_is_refused(api: Api, spec: dict[str, Any], text: str) -> None:
    """In the words of kube-apiserver 1.36.3."""
    refused = await api.post(PODS, pod("p", volumes=[{"name": "v", "emptyDir": {}}], **spec))
    assert (refused.status, text in refused.message) == (422, True), refused.message


async def test_dns_settings_are_accepted(api: Api) -> None:
    searches = [".", "a.b.", "_tcp.a_b.c"]
    config = {"nameservers": ["1.2.3.4", "::1"], "searches": searches, "options": [{"name": "n"}]}
    assert (await api.post(PODS, pod("p", dnsPolicy="None", dnsConfig=config))).status == 201


RESTARTS = "spec.containers[0].restartPolicy"


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            rules(restart_rule(), policy=None),
            f"{RESTARTS}: Required value: must specify restartPolicy when restart rules are used",
        ),
        (
            rules(policy=""),
            f'{RESTARTS}: Unsupported value: "": supported values: "Always", "Never", "OnFailure"',
        ),
        (
            rules(restart_rule("Stop")),
            f'{RESTARTS}Rules[0].action: Unsupported value: "Stop": supported values: "Restart", '
            '"RestartAllContainers"',
        ),
        (
            rules({"action": "Restart"}),
            f"{RESTARTS}Rules[0].exitCodes: Required value: must be specified",
        ),
        (
            rules(restart_rule(operator="Is")),
            f'{RESTARTS}Rules[0].exitCodes.operator: Unsupported value: "Is": supported values: '
            '"In", "NotIn"',
        ),
        (
            rules(restart_rule(count=256)),
            f"{RESTARTS}Rules[0].exitCodes.values: Too many: 256: must have at most 255 items",
        ),
        (
            rules(*[restart_rule()] * 21),
            f"{RESTARTS}Rules: Too many: 21: must have at most 20 items",
        ),
        (
            {"ephemeralContainers": [{"name": "e", "image": "i"}]},
            "spec.ephemeralContainers: Forbidden: cannot be set on create",
        ),
    ],
)
async def test_restart_policies_of_containers_are_checked(
    api: Api, spec: dict[str, Any], text: str
) -> None:
    """Without a policy of its own a container can have no rules."""
    refused = await api.post(PODS, pod("p", **spec))
    assert (refused.status, text in refused.message) == (422, True), refused.message


async def test_ephemeral_containers_are_checked(api: Api) -> None:
    """They are containers without what only an application has."""
    await api.post(PODS, pod("p"))
    added = {
        "name": "e",
        "image": " i",
        "targetContainerName": "nobody",
        "ports": [{"containerPort": 1}],
        "restartPolicy": "Always",
        "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "s"}],
    }
    change = {"spec": {"ephemeralContainers": [added]}}
    refused = await api.patch(f"{PODS}/p/ephemeralcontainers", change)
    at, why = "spec.ephemeralContainers[0]", "cannot be set for an Ephemeral Container"
    for text in (
        f'{at}.volumeMounts[0].name: Not found: "v"',
        f'{at}.image: Invalid value: " i": must not have leading or trailing whitespace',
        f'{at}.targetContainerName: Not found: "nobody"',
        f"{at}.ports: Forbidden: {why}",
        f"{at}.restartPolicy: Forbidden: {why}",
        f"{at}.volumeMounts[0].subPath: Forbidden: {why}",
    ):
        assert text in refused.message


def job(*rules: dict[str, Any], restarts: str = "Never", **spec: Any) -> dict[str, Any]:
    template = {"spec": {**container(), "restartPolicy": restarts}}
    return {"podFailurePolicy": {"rules": list(rules)}, "template": template, **spec}


def codes(*values: int, operator: str = "In", **more: Any) -> dict[str, Any]:
    found = {"operator": operator, "values": list(values), **more}
    return {"action": "FailJob", "onExitCodes": found}


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            job(codes(1), restarts="OnFailure"),
            'template.spec.restartPolicy: Invalid value: "OnFailure": only "Never" is supported '
            "when podFailurePolicy is specified",
        ),
        (job({"action": "Ignore"}), "specifying one of OnExitCodes and OnPodConditions"),
        (
            job({**codes(1), "onPodConditions": [{"type": "A"}]}),
            "rules[0]: Invalid value: specifying both OnExitCodes and OnPodConditions is not",
        ),
        (job({**codes(1), "action": "X"}), 'rules[0].action: Unsupported value: "X"'),
        (
            job({**codes(1), "action": ""}),
            'action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]',
        ),
        (job({**codes(1), "action": "FailIndex"}), "requires the backoffLimitPerIndex to be set"),
        (job(codes(0)), "onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In"),
        (job(codes(2, 1)), "must be ordered"),
        (job(codes(1, 1)), "onExitCodes.values[1]: Duplicate value: 1"),
        (job(codes(1, containerName="x")), "must be one of the container or initContainer names"),
        (job(*[codes(1)] * 21), "rules: Too many: 21: must have at most 20 items"),
        (
            job(codes(1), podReplacementPolicy="TerminatingOrFailed"),
            'podReplacementPolicy: Unsupported value: "TerminatingOrFailed"',
        ),
    ],
)
async def test_failure_policy_is_refused(api: Api, spec: dict[str, Any], text: str) -> None:
    reply = await api.post(JOBS, {"metadata": {"name": "j"}, "spec": spec})
    assert reply.status == 422
    assert text in reply.message


async def test_failure_policy_has_defaults(api: Api) -> None:
    """Conditions that hold are meant, and failed pods are replaced only when they are gone."""
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    reply = await api.post(JOBS, {"metadata": {"name": "j"}, "spec": job(rule)})
    spec = reply.body["spec"]
    assert spec["podReplacementPolicy"] == "Failed"
    assert spec["podFailurePolicy"]["rules"][0]["onPodConditions"][0]["status"] == "True"


async def test_failure_policy_of_a_cron_job_is_checked(api: Api) -> None:
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": job(codes(0))}}
    reply = await api.post(CRON_JOBS, {"metadata": {"name": "j"}, "spec": spec})
    assert "spec.jobTemplate.spec.podFailurePolicy.rules[0].onExitCodes" in reply.message


async def test_job_with_limits_for_each_index_is_checked(api: Api) -> None:
    """And its own backoff limit is none then."""
    pods = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    spec = {
        "completionMode": "Indexed",
        "completions": 2,
        "maxFailedIndexes": 3,
        "successPolicy": {"rules": [{"succeededIndexes": "0-2"}, {"succeededCount": 3}, {}]},
        "template": {"spec": pods},
    }
    job: dict[str, Any] = {"metadata": {"name": "j"}, "spec": spec}
    reply = await api.post(JOBS, job)
    rules = "spec.successPolicy.rules"
    assert [(c["field"], c["message"]) for c in reply.body["details"]["causes"]] == [
        ("spec.backoffLimitPerIndex", "Required value: when maxFailedIndexes is specified"),
        (
            "spec.maxFailedIndexes",
            "Invalid value: 3: must be less than or equal to completions",
        ),
        (
            f"{rules}[0].succeededIndexes",
            'Invalid value: "0-2": error parsing succeededIndexes: too large index: "2"',
        ),
        (
            f"{rules}[1].succeededCount",
            "Invalid value: 3: must be less than or equal to 2 (the number of specified "
            "completions)",
        ),
        (
            f"{rules}[2]",
            "Required value: at least one of succeededCount or succeededIndexes must be specified",
        ),
    ]
    spec |= {"maxFailedIndexes": 1, "backoffLimitPerIndex": 1}
    spec["successPolicy"] = {"rules": [{"succeededIndexes": "0,1", "succeededCount": 1}]}
    reply = await api.post(JOBS, job)
    assert reply.body["spec"]["backoffLimit"] == 2**31 - 1
    assert reply.body["metadata"]["labels"]["job-name"] == "j"
    spec["completionMode"] = "NonIndexed"
    reply = await api.post(JOBS, job, dryRun="All")
    assert [cause["field"] for cause in reply.body["details"]["causes"]] == [
        "spec.backoffLimitPerIndex",
        "spec.maxFailedIndexes",
        "spec.successPolicy",
    ]


async def test_hook_by_http_has_the_defaults_of_a_probe(api: Api) -> None:
    hooks = {"preStop": {"httpGet": {"port": 80}}}
    reply = await api.post(PODS, pod("p", **container(lifecycle=hooks)))
    assert reply.body["spec"]["containers"][0]["lifecycle"]["preStop"]["httpGet"] == {
        "path": "/",
        "port": 80,
        "scheme": "HTTP",
    }


async def test_empty_optional_fields_are_as_if_they_were_not_there(api: Api) -> None:
    """Templates of manifests often leave values empty; the defaults apply."""
    port = {"containerPort": 80, "protocol": "", "name": "", "hostPort": 0}
    empty = {
        "imagePullPolicy": "",
        "terminationMessagePolicy": "",
        "workingDir": "",
        "stdin": False,
        "ports": [port],
        "env": [{"name": "A", "value": ""}],
    }
    spec = {**container(**empty), "restartPolicy": "", "dnsPolicy": "", "hostNetwork": False}
    bare = {"ports": [{"containerPort": 80}], "env": [{"name": "A"}]}
    first = await api.post(PODS, pod("p", **spec))
    second = await api.post(PODS, pod("q", **container(**bare)))
    assert first.status == 201, first.body
    assert first.body["spec"] == second.body["spec"]
    assert first.body["spec"]["containers"][0]["imagePullPolicy"] == "Always"


async def test_null_is_the_zero_value_in_a_map_and_nothing_elsewhere(api: Api) -> None:
    """`note:` without a value in YAML is an empty annotation."""
    obj = pod("p", **container(env=None), nodeSelector=None)
    obj["metadata"]["annotations"] = {"note": None}
    obj["metadata"]["labels"] = {"a": None}
    reply = await api.post(PODS, obj)
    assert reply.body["metadata"]["annotations"] == {"note": ""}
    assert reply.body["metadata"]["labels"] == {"a": ""}
    assert "env" not in reply.body["spec"]["containers"][0]


async def test_wrong_types_that_are_empty_are_refused(api: Api) -> None:
    refused = await api.post(PODS, {**pod("p"), "kind": []})
    assert (refused.status, "Go struct field .kind of type string" in refused.message) == (
        400,
        True,
    )
    refused = await api.post(PODS, pod("p", **container(workingDir=[])))
    assert (refused.status, "of type string" in refused.message) == (400, True)


async def test_cost_of_checking_grows_with_the_lists_only(api: Api) -> None:
    """12,000 constraints and tolerations took a quarter of a minute, item against item."""
    numbers = range(12_000)
    constraint = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    constraints = [{**constraint, "topologyKey": f"a{number}"} for number in numbers]
    tolerations = [{"key": f"a{number}", "operator": "Exists"} for number in numbers]
    obj = pod("p", topologySpreadConstraints=constraints, tolerations=tolerations)
    began = time.process_time()
    assert (await api.post(PODS, obj)).status == 201
    labelled = await api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
    assert labelled.status == 200
    assert time.process_time() - began < 7


async def test_update_keeps_the_priority_that_it_leaves_out(api: Api, registry: Registry) -> None:
    """As the admission plugin Priority does."""
    priorities = PriorityPlugin(registry.store, registry.reader)
    registry.writer.plugins = AdmissionChain([priorities])
    await api.post(PODS, pod("p"))
    change: dict[str, Any] = {"spec": {"priority": None, "preemptionPolicy": None}}
    kept = await api.patch(f"{PODS}/p", change)
    assert (kept.status, kept.body["spec"]["priority"]) == (200, 0)
    assert kept.body["spec"]["preemptionPolicy"] == "PreemptLowerPriority"
    refused = await api.patch(f"{PODS}/p", {"spec": {"priority": 5}})
    assert refused.status == 422


async def test_invalid_spec_is_reported_before_immutable_fields(api: Api) -> None:
    await api.post(PODS, pod("p"))
    change = {"spec": {"volumes": [{"name": "v", "configMap": {}}]}}
    refused = await api.patch(f"{PODS}/p", change)
    assert [cause["field"] for cause in refused.body["details"]["causes"]] == [
        "spec.volumes[0].configMap.name",
        "spec",
    ]


async def test_status_update_keeps_the_quality_of_service(api: Api) -> None:
    await api.post(PODS, pod("p"))
    kept = await api.patch(f"{PODS}/p/status", {"status": {"qosClass": None, "phase": "Failed"}})
    assert kept.body["status"]["qosClass"] == "BestEffort"


@pytest.mark.parametrize(
    ("requests", "limits", "text"),
    [
        (
            {"example.com/gpu": "1"},
            {},
            "resources.limits: Required value: Limit must be set for non overcommitable resources",
        ),
        (
            {"example.com/gpu": "1"},
            {"example.com/gpu": "2"},
            'Invalid value: "1": must be equal to example.com/gpu limit of 2',
        ),
        ({}, {"example.com/gpu": "1500m"}, 'Invalid value: "1500m": must be an integer'),
        (
            {},
            {"hugepages-2Mi": "2Mi"},
            "spec.containers[0].resources: Forbidden: HugePages require cpu or memory",
        ),
        ({"example.com/gpu": "1"}, {"example.com/gpu": "1"}, ""),
        ({"memory": "1Gi"}, {"hugepages-2Mi": "2Mi"}, ""),
    ],
)
async def test_resources_that_cannot_be_overcommitted_are_checked(
    api: Api, requests: dict[str, str], limits: dict[str, str], text: str
) -> None:
    """Devices and huge pages are given in whole, so a request is its limit."""
    resources = {"requests": requests, "limits": limits}
    reply = await api.post(PODS, pod("p", **container(resources=resources)))
    if text:
        assert (reply.status, text in reply.message) == (422, True), reply.message
    else:
        assert reply.status == 201, reply.message
