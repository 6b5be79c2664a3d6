"""The files of the lines of `manifests`: right and wrong manifests of many kinds."""

from __future__ import annotations

_JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}}}
spec:
  {spec}
  template:
    spec: {{restartPolicy: {policy}, containers: [{{name: c, image: i}}]}}
"""


def _pod(name: str, spec: str) -> str:
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n{spec}"


_DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {plural}.example.com}}
spec:
  group: example.com
  names: {{plural: {plural}, kind: {kind}}}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {{a: {{type: integer}}}}
            x-kubernetes-validations: [{rules}]
"""

FILES = {
    "definition-syntax.yaml": _DEFINITION.format(
        plural="syntaxes", kind="Syntax", rules='{rule: self = 42, message: m}, {rule: "(self.a"}'
    ),
    "definition-rules.yaml": _DEFINITION.format(
        plural="rules",
        kind="Rule",
        rules='{rule: " "}, {rule: self.a > 1, message: " ", reason: X}, {rule: "a\\n> 1"}',
    ),
    "tree/a.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata: {name: tree-a, labels: {tree: "yes"}}
""",
    "tree/below/b.yml": """\
apiVersion: v1
kind: Secret
metadata: {name: tree-b, labels: {tree: "yes"}}
""",
    "tree/below/notes.txt": "not a manifest\n",
    "list.yaml": """\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: listed-a}, data: {a: "1"}}
- {apiVersion: v1, kind: ServiceAccount, metadata: {name: listed-b}}
""",
    "partly.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata: {name: partly}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: Wrong_}
---
apiVersion: none.example.com/v1
kind: None
metadata: {name: none}
---
# Nothing but a comment.
---
""",
    "generated.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata: {generateName: gen-, labels: {generated: "yes"}}
""",
    "other-namespace.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata: {name: here, namespace: default}
""",
    "stateful.yaml": """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 0
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: main, image: nginx}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
""",
    "daemon.yaml": """\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {nodeSelector: {none: here}, containers: [{name: main, image: nginx}]}
""",
    "pod-mounts.yaml": _pod(
        "mounts",
        """\
  containers:
  - name: a
    image: i
    volumeMounts:
    - {name: none, mountPath: /a}
    - {name: v, mountPath: ""}
    - {name: v, mountPath: /a, subPath: ../b}
    - {name: v, mountPath: /c, subPath: a, subPathExpr: b}
  volumes: [{name: v, emptyDir: {}}]
""",
    ),
    "pod-mounted.yaml": _pod(
        "mounted",
        """\
  containers: [{name: a, image: i, volumeMounts: [{name: v, mountPath: /v}]}]
  volumes: [{name: v, secret: {}}]
""",
    ),
    "pod-ports.yaml": _pod(
        "ports",
        """\
  hostNetwork: true
  containers:
  - name: a
    image: i
    ports:
    - {containerPort: 0}
    - {containerPort: 80, hostPort: 81}
    - {containerPort: 80, name: UPPER}
    - {containerPort: 80, protocol: ICMP}
    - {containerPort: 81, name: same}
    - {containerPort: 82, name: same}
""",
    ),
    "pod-probes.yaml": _pod(
        "probes",
        """\
  containers:
  - name: a
    image: i
    livenessProbe: {successThreshold: 2, httpGet: {port: 0}}
    readinessProbe: {exec: {command: []}}
    startupProbe: {}
    lifecycle: {preStop: {}}
""",
    ),
    "pod-env.yaml": _pod(
        "env",
        """\
  containers:
  - name: a
    image: i
    env:
    - {name: "", value: a}
    - {name: a=b, value: a}
    - {name: both, value: a, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: none, valueFrom: {}}
    - {name: path, valueFrom: {fieldRef: {fieldPath: metadata.wrong}}}
    - {name: map, valueFrom: {configMapKeyRef: {name: x}}}
    envFrom: [{prefix: a=b, configMapRef: {name: x}}, {}]
""",
    ),
    "pod-names.yaml": _pod(
        "names",
        """\
  restartPolicy: Sometimes
  dnsPolicy: None
  nodeName: Wrong_
  terminationGracePeriodSeconds: -1
  containers:
  - {name: A, image: i}
  - {name: b, image: " i"}
  - {name: b, image: i, imagePullPolicy: Rarely, terminationMessagePolicy: Never}
  initContainers: [{name: b, image: i, restartPolicy: OnFailure}]
""",
    ),
    "pod-security.yaml": _pod(
        "security",
        """\
  hostPID: true
  shareProcessNamespace: true
  securityContext: {runAsUser: -1, fsGroup: -1, sysctls: [{name: a b, value: x}]}
  containers:
  - name: a
    image: i
    securityContext: {privileged: true, allowPrivilegeEscalation: false, runAsUser: -2}
""",
    ),
    "pod-volumes.yaml": _pod(
        "volumes",
        """\
  containers: [{name: a, image: i}]
  volumes:
  - {name: V, emptyDir: {}}
  - {name: two, emptyDir: {}, configMap: {name: a}}
  - {name: path, hostPath: {path: ../a, type: Wrong}}
  - {name: items, configMap: {name: a, items: [{key: "", path: /abs}]}}
  - {name: mode, secret: {secretName: "", defaultMode: 1000}}
  - {name: both, projected: {sources: [{secret: {}, configMap: {}}]}}
  - {name: same, emptyDir: {sizeLimit: -1}}
  - {name: same, downwardAPI: {items: [{path: a}]}}
""",
    ),
    "pod-affinity.yaml": _pod(
        "affinity",
        """\
  containers: [{name: a, image: i}]
  tolerations: [{operator: Exists, value: a}, {operator: Wrong}, {effect: Wrong, key: a}]
  topologySpreadConstraints: [{maxSkew: 0, topologyKey: "", whenUnsatisfiable: Wrong}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: []
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 101, podAffinityTerm: {topologyKey: ""}}
""",
    ),
    "pod-resources.yaml": _pod(
        "resources",
        """\
  overhead: {cpu: 1}
  priorityClassName: none
  containers:
  - name: a
    image: i
    resources: {requests: {cpu: 2, memory: 1m, gpu: 1}, limits: {cpu: 1, example.com/x: 1.5}}
""",
    ),
    "pod-good.yaml": """\
apiVersion: v1
kind: Pod
metadata: {name: good, labels: {app: good}}
spec:
  automountServiceAccountToken: false
  containers:
  - name: main
    image: nginx:latest
    resources: {requests: {cpu: 100m}}
    readinessProbe: {httpGet: {port: 80}}
  volumes: [{name: config, configMap: {name: a}}]
""",
    "service-ports.yaml": """\
apiVersion: v1
kind: Service
metadata: {name: ports}
spec:
  ports: [{port: 0}, {port: 80, name: a, targetPort: 0}, {port: 80, name: a, protocol: X}]
""",
    "service-names.yaml": """\
apiVersion: v1
kind: Service
metadata: {name: 1-name}
spec: {selector: {a b: c}, ports: [{port: 80, targetPort: UPPER}]}
""",
    "service-family.yaml": """\
apiVersion: v1
kind: Service
metadata: {name: family}
spec: {clusterIP: 1.2.3, ipFamilyPolicy: Wrong, externalIPs: [x], ports: [{port: 80}]}
""",
    "service-session.yaml": """\
apiVersion: v1
kind: Service
metadata: {name: session}
spec: {sessionAffinity: ClientIP, ports: [{port: 80}]}
""",
    "job-wrong.yaml": _JOB.format(name="wrong", spec="parallelism: -1", policy="Always"),
    "job-selector.yaml": _JOB.format(
        name="selector", spec="selector: {matchLabels: {a: b}}", policy="Never"
    ),
    "job-indexed.yaml": _JOB.format(
        name="indexed",
        spec="completionMode: Indexed\n  completions: 2\n  suspend: true",
        policy="Never",
    ),
    "cron-wrong.yaml": """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: a-name-that-is-longer-than-the-fifty-two-characters-of-it}
spec:
  schedule: "TZ=UTC * * * * *"
  timeZone: Nowhere/None
  concurrencyPolicy: Sometimes
  successfulJobsHistoryLimit: -1
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: []}}}}
""",
    "hpa-wrong.yaml": """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: wrong}
spec: {minReplicas: 0, maxReplicas: 0, scaleTargetRef: {kind: "", name: ""}, metrics: [{type: X}]}
""",
    "pdb-wrong.yaml": """\
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: wrong}
spec: {minAvailable: -1, maxUnavailable: 1, selector: {matchLabels: {a b: c}}}
""",
    "endpoints-wrong.yaml": """\
apiVersion: v1
kind: Endpoints
metadata: {name: wrong}
subsets: [{addresses: [{ip: 0.0.0.0}, {ip: x}], ports: [{port: 0}]}]
""",
    "slice-wrong.yaml": """\
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: wrong}
addressType: IPv5
endpoints: [{addresses: []}]
ports: [{name: UPPER, port: 0}]
""",
    "lease.yaml": """\
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: mine}
spec: {holderIdentity: me, leaseDurationSeconds: 15}
""",
    "event.yaml": """\
apiVersion: v1
kind: Event
metadata: {name: thing.1}
involvedObject: {kind: ConfigMap, name: thing, namespace: lines-manifests}
reason: Tested
message: it was tested
type: Normal
count: 3
""",
    "binding-wrong.yaml": """\
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: wrong}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Group, name: ""}
subjects: [{kind: User, name: ""}, {kind: ServiceAccount, name: x}, {kind: X, name: y}]
""",
    "role-wrong.yaml": """\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: wrong}
rules: [{verbs: []}, {verbs: [get], nonResourceURLs: [/a]}, {verbs: [get], resources: [a]}]
""",
    "webhook-wrong.yaml": """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: lines-wrong}
webhooks:
- {name: short, clientConfig: {}, sideEffects: Some, admissionReviewVersions: []}
""",
    "limits-wrong.yaml": """\
apiVersion: v1
kind: LimitRange
metadata: {name: wrong}
spec: {limits: [{type: Container, min: {cpu: 2}, max: {cpu: 1}}, {type: Pod, default: {cpu: 1}}]}
""",
    "quota-wrong.yaml": """\
apiVersion: v1
kind: ResourceQuota
metadata: {name: wrong}
spec: {hard: {pods: -1, x/y/z: 1, cpu: 1m}, scopes: [BestEffort, NotBestEffort]}
""",
    "ingress-wrong.yaml": """\
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: wrong}
spec:
  rules:
  - host: 1.2.3.4
    http: {paths: [{path: a, backend: {service: {name: s}}}]}
  - host: "*.*"
    http: {paths: [{path: /a/../b, pathType: Prefix, backend: {}}]}
""",
    "secret-wrong.yaml": """\
apiVersion: v1
kind: Secret
metadata: {name: wrong}
data: {a: "not base64!", b: YQ==}
""",
    "configmap-wrong.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata: {name: wrong}
data: {a: b, "c d": e, ..: f}
binaryData: {a: YQ==}
""",
    "numbers.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata: {name: numbers}
data: {port: 80, on: true}
""",
    "twice.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata: {name: twice}
data: {a: "1", a: "2"}
extra: {b: 1}
""",
    "wrong.json": '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": ',
    "configmap.json": (
        '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "raw"}, "data": {}}'
    ),
    "columns.txt": "NAME COLOR\n.metadata.name .data.color\n",
}
