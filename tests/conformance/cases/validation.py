"""Objects that are refused, with Kubernetes' sentences."""

from __future__ import annotations

import base64
from typing import Any

from tests.conformance.cases.call import Call, configmap, core, deployment, group, pod, template


def subjects() -> dict[str, list[Call]]:
    """Return the subjects of this module."""
    return {
        "validation": [*_data(), *_metadata()],
        "pod-validation": _pods(),
        "workload-validation": _workloads(),
        "pod-warnings": _pod_warnings(),
        "selector-validation": [*_policies(), *_job_selectors()],
    }


def _secret(name: str, kind: str, **content: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "type": kind,
        **content,
    }


def _data() -> list[Call]:
    maps, secrets = core("validation", "configmaps"), core("validation", "secrets")

    def encode(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    return [
        maps.post("wrong key", configmap("a", {"a/b": "1"})),
        maps.post("dot key", configmap("a", {"..": "1"})),
        maps.post("dots key", configmap("a", {"..data": "1"})),
        maps.post("long key", configmap("a", {"k" * 254: "1"})),
        maps.post("same key twice", {**configmap("a"), "binaryData": {"key": "AA=="}}),
        maps.post("binary", {**configmap("binary"), "binaryData": {"b": "AAEC/w=="}}),
        maps.post("too large", configmap("a", {"a": "x" * (1024 * 1024 + 1)})),
        maps.post("immutable", {**configmap("fixed"), "immutable": True}),
        maps.put("change immutable", "fixed", {**configmap("fixed", {"a": "b"}), "immutable": True}),
        maps.put("drop immutable", "fixed", configmap("fixed")),
        secrets.post("string data", _secret("plain", "Opaque", stringData={"a": "b"}, data={"c": "ZA=="})),
        secrets.post("untyped", _secret("untyped", "")),
        secrets.post("no base64", _secret("a", "Opaque", data={"a": "b"})),
        secrets.post("tls", _secret("a", "kubernetes.io/tls", data={})),
        secrets.post("tls complete", _secret("tls", "kubernetes.io/tls", data={"tls.crt": "", "tls.key": ""})),
        secrets.post("basic", _secret("a", "kubernetes.io/basic-auth")),
        secrets.post("ssh", _secret("a", "kubernetes.io/ssh-auth")),
        secrets.post("docker", _secret("a", "kubernetes.io/dockerconfigjson")),
        secrets.post("docker json", _secret("a", "kubernetes.io/dockerconfigjson", data={".dockerconfigjson": encode("{")})),
        secrets.post("old docker", _secret("a", "kubernetes.io/dockercfg")),
        secrets.post("token", _secret("a", "kubernetes.io/service-account-token")),
        secrets.patch("type", "plain", {"type": "other"}),
        secrets.patch("string patch", "plain", {"stringData": {"a": "z"}}),
        secrets.patch("immutable secret", "plain", {"immutable": True}),
        secrets.patch("change immutable secret", "plain", {"stringData": {"a": "y"}}),
    ]  # fmt: skip


def _metadata() -> list[Call]:
    maps = core("validation", "configmaps")

    def post(name: str, **metadata: Any) -> Call:
        return maps.post(name, configmap("m", **metadata))

    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}
    return [
        maps.post("capital", configmap("A")),
        maps.post("long name", configmap("a" * 254)),
        maps.post("longest name", configmap("a" * 253)),
        maps.post("dot name", configmap("a.b")),
        maps.post("dash name", configmap("-a")),
        maps.post("slash name", configmap("a/b")),
        maps.post("percent name", configmap("a%b")),
        post("label value", labels={"a": "b c"}),
        post("long label", labels={"a": "b" * 64}),
        post("label prefix", labels={"-/a": "b"}),
        post("two prefixes", labels={"a/b/c": "b"}),
        post("annotation key", annotations={"a b": "c"}),
        post("large annotations", annotations={"a": "b" * (256 * 1024)}),
        post("finalizer", finalizers=["plain"]),
        post("finalizer name", finalizers=["a b/c"]),
        post("owner", ownerReferences=[{**owner, "uid": ""}]),
        post("owner kind", ownerReferences=[{**owner, "kind": ""}]),
        post("two controllers", ownerReferences=[{**owner, "controller": True}, {**owner, "uid": "2", "controller": True}]),
        post("owner event", ownerReferences=[{**owner, "kind": "Event"}]),
        post("negative generation", generation=-1),
        post("managed fields", managedFields=[{"manager": "x", "operation": "Maybe"}]),
        post("own managed fields", managedFields=[{"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}]),
        maps.post("own uid", configmap("uid", uid="mine", creationTimestamp="2020-01-01T00:00:00Z")),
    ]  # fmt: skip


def _pods() -> list[Call]:
    pods = core("pod-validation", "pods")

    def container(**more: Any) -> dict[str, Any]:
        return {"containers": [{"name": "main", "image": "i", **more}]}

    def post(name: str, **spec: Any) -> Call:
        return pods.post(name, pod("p", **spec))

    def probe(**more: Any) -> dict[str, Any]:
        return container(readinessProbe=more)

    def volume(**source: Any) -> dict[str, Any]:
        return {"volumes": [{"name": "v", **source}]}

    return [
        post("volume source as text", volumes=[{"name": "v", "configMap": "app"}]),
        post("source name as number", volumes=[{"name": "v", "projected": {"sources": [{"secret": {"name": 1}}]}}]),
        post("probe as text", containers=[{"name": "c", "livenessProbe": {"httpGet": "/"}}]),
        post("key name as list", containers=[{"name": "c", "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": []}}}]}]),
        post("no containers", containers=[]),
        post("no image", containers=[{"name": "main"}]),
        post("no name", containers=[{"image": "i"}]),
        post("same name", containers=[{"name": "a", "image": "i"}, {"name": "a", "image": "j"}]),
        post("wrong name", containers=[{"name": "A", "image": "i"}]),
        post("policy", restartPolicy="Sometimes"),
        post("pull policy", **container(imagePullPolicy="Maybe")),
        post("port", **container(ports=[{"containerPort": 70000}])),
        post("same ports", **container(ports=[{"name": "a", "containerPort": 80}, {"name": "a", "containerPort": 81}])),
        post("env name", **container(env=[{"name": "", "value": "1"}])),
        post("env name char", **container(env=[{"name": "a=b", "value": "1"}])),
        post("env two sources", **container(env=[{"name": "A", "value": "1", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}])),
        post("env no source", **container(env=[{"name": "A", "valueFrom": {}}])),
        post("env field", **container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nothing"}}}])),
        post("env key", **container(env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "a/b"}}}])),
        post("env from", **container(envFrom=[{"prefix": "A"}])),
        post("mount without volume", **container(volumeMounts=[{"name": "v", "mountPath": "/v"}])),
        post("mount twice", **container(volumeMounts=[{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/v"}]), **volume(emptyDir={})),
        post("mount path", **container(volumeMounts=[{"name": "v", "mountPath": ""}]), **volume(emptyDir={})),
        post("sub path", **container(volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "../a"}]), **volume(emptyDir={})),
        post("two sub paths", **container(volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "a", "subPathExpr": "b"}]), **volume(emptyDir={})),
        post("volume without source", **volume()),
        post("volume without name", volumes=[{"emptyDir": {}}]),
        post("two volumes", volumes=[{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]),
        post("two sources", **volume(emptyDir={}, configMap={"name": "c"})),
        post("config map without name", **volume(configMap={})),
        post("secret without name", **volume(secret={})),
        post("mode", **volume(configMap={"name": "c", "defaultMode": 1000})),
        post("item path", **volume(configMap={"name": "c", "items": [{"key": "a", "path": "/a"}]})),
        post("item dots", **volume(configMap={"name": "c", "items": [{"key": "a", "path": "../a"}]})),
        post("item key", **volume(configMap={"name": "c", "items": [{"key": "", "path": "a"}]})),
        post("projected conflict", **volume(projected={"sources": [{"configMap": {"name": "a", "items": [{"key": "a", "path": "x"}]}}, {"secret": {"name": "b", "items": [{"key": "a", "path": "x"}]}}]})),
        post("projected empty", **volume(projected={"sources": [{}]})),
        post("token", **volume(projected={"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 10}}]})),
        post("downward", **volume(downwardAPI={"items": [{"path": "a", "fieldRef": {"fieldPath": "spec.nodeName"}}]})),
        post("probe without handler", **probe(periodSeconds=1)),
        post("probe two handlers", **probe(exec={"command": ["a"]}, tcpSocket={"port": 1})),
        post("probe negative", **probe(exec={"command": ["a"]}, periodSeconds=-1)),
        post("probe success", **container(livenessProbe={"exec": {"command": ["a"]}, "successThreshold": 2})),
        post("probe port", **probe(httpGet={"port": 0})),
        post("requests over limits", **container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})),
        post("wrong quantity", **container(resources={"requests": {"cpu": "abc"}})),
        post("negative quantity", **container(resources={"requests": {"cpu": "-1"}})),
        post("deadline", activeDeadlineSeconds=0),
        post("grace", terminationGracePeriodSeconds=-1),
        post("dns", dnsPolicy="Maybe"),
        post("host aliases", hostAliases=[{"ip": "x"}]),
        post("user", securityContext={"runAsUser": -1}),
        post("sysctl", securityContext={"sysctls": [{"name": "a b", "value": "1"}]}),
        post("toleration", tolerations=[{"operator": "Maybe"}]),
        post("node selector", nodeSelector={"a b": "c"}),
        post("lifecycle", **container(lifecycle={"preStop": {}})),
        post("init", initContainers=[{"name": "main", "image": "i"}]),
        post("termination policy", **container(terminationMessagePolicy="Never")),
        post("service account", serviceAccountName="none"),
        post("everything defaulted", volumes=[{"name": "c", "configMap": {"name": "c"}}, {"name": "s", "secret": {"secretName": "s"}}, {"name": "p", "projected": {"sources": [{"configMap": {"name": "c"}}, {"serviceAccountToken": {"path": "t"}}]}}, {"name": "d", "downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}}, {"name": "e", "emptyDir": {}}, {"name": "h", "hostPath": {"path": "/tmp"}}], **container(ports=[{"containerPort": 80}], livenessProbe={"httpGet": {"port": 80}}, env=[{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}], resources={"limits": {"cpu": "100m", "memory": "64Mi"}})),
        pods.patch("change command", "p", {"spec": {"containers": [{"name": "main", "image": "i", "command": ["a"]}]}}),
        pods.patch("change image", "p", [{"op": "replace", "path": "/spec/containers/0/image", "value": "j"}], "application/json-patch+json"),
        pods.patch("change restart policy", "p", {"spec": {"restartPolicy": "Never"}}),
        pods.patch("remove tolerations", "p", {"spec": {"tolerations": None}}),
        pods.patch("add toleration", "p", [{"op": "add", "path": "/spec/tolerations/-", "value": {"key": "x", "operator": "Exists"}}], "application/json-patch+json"),
        pods.patch("set node", "p", {"spec": {"nodeName": "n"}}),
    ]  # fmt: skip


def _workloads() -> list[Call]:
    def post(name: str, plural: str, body: dict[str, Any], version: str = "apps/v1") -> Call:
        return group("workload-validation", version, plural).post(name, body)

    def deploy(name: str, **spec: Any) -> Call:
        return post(name, "deployments", deployment("web", **spec))

    def other(kind: str, spec: dict[str, Any], version: str = "apps/v1") -> dict[str, Any]:
        return {"apiVersion": version, "kind": kind, "metadata": {"name": "w"}, "spec": spec}

    full = {"selector": {"matchLabels": {"app": "w"}}, "template": template("w")}
    never = {**template("w"), "spec": {**template("w")["spec"], "restartPolicy": "Never"}}
    cron = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": never}}}
    return [
        deploy("no selector", selector=None),
        deploy("empty selector", selector={}),
        deploy("selector differs", selector={"matchLabels": {"app": "z"}}),
        deploy("expression", selector={"matchExpressions": [{"key": "app", "operator": "In"}]}),
        deploy("operator", selector={"matchExpressions": [{"key": "app", "operator": "Is", "values": ["a"]}]}),
        deploy("replicas", replicas=-1),
        deploy("strategy", strategy={"type": "Other"}),
        deploy("recreate with rolling", strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
        deploy("both zero", strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
        deploy("percent", strategy={"rollingUpdate": {"maxSurge": "x%"}}),
        deploy("over hundred", strategy={"rollingUpdate": {"maxUnavailable": "120%"}}),
        deploy("deadline", minReadySeconds=10, progressDeadlineSeconds=5),
        deploy("history", revisionHistoryLimit=-1),
        deploy("restart policy", template=never | {"metadata": {"labels": {"app": "web"}}}),
        deploy("no template", template={}),
        post("stateful no selector", "statefulsets", other("StatefulSet", {"template": template("w")})),
        post("stateful policy", "statefulsets", other("StatefulSet", {**full, "podManagementPolicy": "Other"})),
        post("stateful strategy", "statefulsets", other("StatefulSet", {**full, "updateStrategy": {"type": "Other"}})),
        post("daemon selector", "daemonsets", other("DaemonSet", {**full, "selector": {"matchLabels": {"a": "b"}}})),
        post("daemon strategy", "daemonsets", other("DaemonSet", {**full, "updateStrategy": {"type": "Other"}})),
        post("job policy", "jobs", other("Job", {"template": template("w")}, "batch/v1"), "batch/v1"),
        post("job parallelism", "jobs", other("Job", {"template": never, "parallelism": -1}, "batch/v1"), "batch/v1"),
        post("job selector", "jobs", other("Job", {"template": never, "selector": {"matchLabels": {"a": "b"}}}, "batch/v1"), "batch/v1"),
        post("job complete", "jobs", other("Job", {"template": never, "completions": 3, "backoffLimit": 2}, "batch/v1"), "batch/v1"),
        post("cron schedule", "cronjobs", other("CronJob", {**cron, "schedule": "often"}, "batch/v1"), "batch/v1"),
        post("cron zone", "cronjobs", other("CronJob", {**cron, "timeZone": "Mars"}, "batch/v1"), "batch/v1"),
        post("cron policy", "cronjobs", other("CronJob", {**cron, "concurrencyPolicy": "Never"}, "batch/v1"), "batch/v1"),
        post("cron name", "cronjobs", {**other("CronJob", cron, "batch/v1"), "metadata": {"name": "w" * 53}}, "batch/v1"),
        post("stateful", "statefulsets", other("StatefulSet", full)),
        group("workload-validation", "apps/v1", "statefulsets").patch("stateful service", "w", {"spec": {"serviceName": "x"}}),
        group("workload-validation", "apps/v1", "statefulsets").patch("stateful image", "w", {"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}}),
        post("daemon", "daemonsets", other("DaemonSet", full)),
        group("workload-validation", "apps/v1", "daemonsets").patch("daemon generation", "w", {"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}}),
    ]  # fmt: skip


def _policies() -> list[Call]:
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmission"
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    wrong = {"matchExpressions": [{"key": "app", "operator": "x"}]}
    unknown = {"apiGroups": [], "operations": ["x"], "apiVersions": ["*", "v1"], "resources": ["a"]}

    def post(name: str, kind: str, **spec: Any) -> Call:
        body = {"metadata": {"name": "conformance"}, "spec": spec}
        return Call(name, "POST", f"{path}{kind}?dryRun=All", body)

    def policy(name: str, **match: Any) -> Call:
        constraints = {"resourceRules": [rule], **match}
        validations = [{"expression": "true"}]
        return post(name, "policies", validations=validations, matchConstraints=constraints)

    def binding(name: str, **spec: Any) -> Call:
        return post(name, "policybindings", policyName="x", validationActions=["Deny"], **spec)

    excluded = {**rule, "scope": "x", "resourceNames": ["a", "a"]}
    return [
        policy("policy selectors", namespaceSelector=wrong, objectSelector=wrong),
        policy("policy match", matchPolicy="x"),
        policy("policy rule", resourceRules=[unknown]),
        policy("policy exclusion", excludeResourceRules=[excluded]),
        binding("binding", matchResources={"namespaceSelector": wrong, "objectSelector": {}}),
        binding("binding rule", matchResources={"resourceRules": [{}], "matchPolicy": "x"}),
        binding(
            "binding parameters", paramRef={"selector": wrong, "parameterNotFoundAction": "Deny"}
        ),
    ]


def _job_selectors() -> list[Call]:
    pods = core("selector-validation", "pods")
    jobs = group("selector-validation", "batch/v1", "jobs")
    never = template("w")
    never["spec"]["restartPolicy"] = "Never"
    selectors: tuple[dict[str, Any], ...] = (
        {"matchExpressions": [{"key": "app", "operator": "x"}]},
        {"matchExpressions": [{"key": "app", "operator": "In"}]},
        {"matchLabels": {"a b": "c"}},
        {"matchLabels": {"a": "b"}},
    )
    return [
        *(
            jobs.post(
                f"job selector {number} {manual}",
                {
                    "metadata": {"name": "j"},
                    "spec": {"selector": selector, "template": never, "manualSelector": manual},
                },
            )
            for number, selector in enumerate(selectors)
            for manual in (False, True)
        ),
        pods.post("negative grace", pod("p", terminationGracePeriodSeconds=-5)),
    ]


def _pod_warnings() -> list[Call]:
    pods = core("pod-warnings", "pods")
    sets = group("pod-warnings", "apps/v1", "deployments")

    def items(*paths: str) -> dict[str, Any]:
        return {"items": [{"key": f"k{index}", "path": path} for index, path in enumerate(paths)]}

    def config(*paths: str) -> dict[str, Any]:
        return {"configMap": {"name": "c", **items(*paths)}}

    def secret(*paths: str) -> dict[str, Any]:
        return {"secret": {"name": "s", **items(*paths)}}

    def fields(*paths: str) -> dict[str, Any]:
        name = {"fieldPath": "metadata.name"}
        return {"downwardAPI": {"items": [{"path": path, "fieldRef": name} for path in paths]}}

    def token(path: str, seconds: int = 600) -> dict[str, Any]:
        return {"serviceAccountToken": {"path": path, "expirationSeconds": seconds}}

    def volume(name: str, **source: Any) -> Call:
        body = pod("p", volumes=[{"name": "v", **source}])
        return pods.post(name, body, dryRun="All")

    def projected(name: str, *sources: dict[str, Any]) -> Call:
        return volume(f"projected {name}", projected={"sources": list(sources)})

    many = deployment("d")
    many["spec"]["template"]["spec"] |= {
        "containers": [
            {
                "name": "main",
                "image": "i",
                "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
                "resources": {"limits": {"memory": "1500m"}, "requests": {"memory": "100m"}},
                "ports": [{"containerPort": 80, "name": "a"}, {"containerPort": 80, "name": "b"}],
            }
        ],
        "hostAliases": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.4"}],
        "imagePullSecrets": [{"name": "b"}, {"name": "a"}, {"name": "a"}],
        "volumes": [
            {"name": "v", **config("p", "p")},
            {"name": "w", "projected": {"sources": [{}]}},
        ],
        "terminationGracePeriodSeconds": -1,
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}
        ],
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a"}],
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "podAffinityTerm": {"topologyKey": "a"}}
                ],
            }
        },
    }
    return [
        volume("equal", **config("p", "p", "p")),
        volume("inside", **config("a", "a/b", "a/b/c")),
        volume("outside", **config("a/b/c", "a/b", "a", "x")),
        volume("similar", **config("a/", "ab", "a-b", "a")),
        volume("secret", secret={"secretName": "s", **items("a", "a/b")}),
        volume("fields", **fields("a", "a/b")),
        projected("inside", config("p"), secret("p/q")),
        projected("token after", config("token"), token("token")),
        projected("token before", token("token"), config("token")),
        projected("two tokens", token("t"), token("t")),
        projected("equal", config("p"), secret("p")),
        projected("many", config("a"), secret("a/b"), fields("a/b/c"), token("a/b/c/d")),
        projected("nothing", {}, {}),
        projected("empty token path", token("")),
        projected("token outside", token("../a")),
        projected("absolute token", token("/a")),
        projected("long token", token("a", 1 << 33)),
        sets.post("many", many, dryRun="All"),
    ]
