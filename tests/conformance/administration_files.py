"""The files that the command lines of `lines.administration` use."""

from __future__ import annotations

from tests.conformance.line_files import FILES as LINE_FILES
from tests.conformance.line_files import REQUEST

_CSR = """\
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {{name: {name}}}
spec: {{request: {request}, signerName: {signer}, usages: [{usages}]{more}}}
"""

_RULES = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {plural}.lines.example.com}}
spec:
  group: lines.example.com
  scope: Namespaced
  names: {{plural: {plural}, singular: {singular}, kind: {kind}, listKind: {kind}List}}
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
            x-kubernetes-validations:
            - {{rule: '{rule}', message: "{message}"}}
            properties:
              num: {{type: integer}}
              text: {{type: string, maxLength: 20}}
              list: {{type: array, maxItems: 1000, items: {{type: integer}}}}
              free: {{type: array, items: {{type: string}}}}
"""

_POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: lines-policy}}
spec:
  matchConstraints:
    resourceRules:
    - {{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}}
  {fields}
"""


def _csr(name: str, signer: str, usages: str, more: str = "", request: str = REQUEST) -> str:
    return _CSR.format(name=name, signer=signer, usages=usages, more=more, request=request)


def _rules(rule: str, plural: str = "rules", message: str = "") -> str:
    kind = plural.title().rstrip("s")
    return _RULES.format(
        rule=rule, plural=plural, singular=kind.lower(), kind=kind, message=message or "m"
    )


FILES = {
    "csr-client.yaml": _csr("lines-client", "kubernetes.io/kube-apiserver-client", "client auth"),
    "csr-short.yaml": _csr(
        "lines-short",
        "kubernetes.io/kube-apiserver-client",
        "client auth",
        ", expirationSeconds: 3600",
    ),
    "csr-server.yaml": _csr("lines-server", "kubernetes.io/kubelet-serving", "server auth"),
    "csr-usage.yaml": _csr(
        "lines-usage", "kubernetes.io/kube-apiserver-client", "client auth, code signing"
    ),
    "csr-legacy.yaml": _csr("lines-legacy", "kubernetes.io/legacy-unknown", "client auth"),
    "csr-wrong.yaml": _csr(
        "lines-wrong", "a/b", "client auth, client auth, x", ", expirationSeconds: 1", "YQ=="
    ),
    "csr-empty.yaml": _csr("lines-empty", "''", ""),
    "rules.yaml": _rules("self.num > 1", message="too few"),
    "rules-field.yaml": _rules("self.none == 1", "others"),
    "rules-type.yaml": _rules("self.text", "others"),
    "rules-name.yaml": _rules("foo == 1", "others"),
    "rules-syntax.yaml": _rules("self.num >", "others"),
    "rules-cost.yaml": _rules("self.free.all(x, self.free.all(y, x == y))", "others"),
    "rule-good.yaml": "apiVersion: lines.example.com/v1\nkind: Rule\nmetadata: {name: good}\n"
    "spec: {num: 2}\n",
    "rule-bad.yaml": "apiVersion: lines.example.com/v1\nkind: Rule\nmetadata: {name: bad}\n"
    "spec: {num: 1}\n",
    "admission-policy.yaml": _POLICY.format(
        fields='validations: [{expression: "has(object.data)"}]'
    ),
    "policy-type.yaml": _POLICY.format(fields='validations: [{expression: "1"}]'),
    "policy-name.yaml": _POLICY.format(
        fields='validations: [{expression: "params.a == nothing", messageExpression: "1"}]'
    ),
    "policy-none.yaml": _POLICY.format(fields="validations: []"),
    "policy-binding.yaml": """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: lines-policy}
spec: {policyName: lines-policy, validationActions: [Warn]}
""",
    "affinity.yaml": """\
apiVersion: v1
kind: Pod
metadata: {name: affine, labels: {app: x}}
spec:
  containers: [{name: c, image: i}]
  affinity:
    podAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: a
        namespaces: [A_b]
        labelSelector:
          matchLabels: {a: "b c"}
          matchExpressions: [{key: k, operator: In}, {key: k, operator: X}]
      - {topologyKey: a, matchLabelKeys: [a]}
  topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: z
    whenUnsatisfiable: DoNotSchedule
    labelSelector: {matchExpressions: [{key: "!", operator: Exists, values: [a]}]}
""",
    "affinity-keys.yaml": """\
apiVersion: v1
kind: Pod
metadata: {name: affine, labels: {app: x, part: p}}
spec:
  containers: [{name: c, image: i}]
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 1
        podAffinityTerm:
          topologyKey: a
          labelSelector: {}
          matchLabelKeys: [app, none]
          mismatchLabelKeys: [part]
""",
    "led-lease.yaml": """\
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: led}
spec: {holderIdentity: me, leaseDurationSeconds: 15}
""",
    "seen-event.yaml": """\
apiVersion: v1
kind: Event
metadata: {name: seen}
involvedObject: {apiVersion: v1, kind: ConfigMap, name: thing, namespace: NAMESPACE}
reason: Seen
message: it was seen
type: Warning
firstTimestamp: "2020-01-01T00:00:00Z"
lastTimestamp: "2020-01-01T00:00:00Z"
count: 3
source: {component: lines}
""".replace("NAMESPACE", "lines-administration"),
    "runtime.yaml": "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\n"
    "metadata: {name: lines-runtime}\nhandler: runc\n",
    "hpa.yaml": """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: scaler}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: none}
  minReplicas: 2
  maxReplicas: 4
  metrics:
  - type: Resource
    resource: {name: memory, target: {type: AverageValue, averageValue: 1Gi}}
""",
    "layer/base.yaml": LINE_FILES["deployment.yaml"],
    "layer/kustomization.yaml": """\
nameSuffix: -x
labels: [{pairs: {layer: one}, includeSelectors: true}]
images: [{name: nginx, newTag: "2"}]
replicas: [{name: applied, count: 3}]
patches: [{target: {kind: Deployment}, patch: "- {op: add, path: /spec/paused, value: true}"}]
resources: [base.yaml]
""",
}
