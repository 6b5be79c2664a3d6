"""The files that the command lines of `lines` use, beside those of the transcripts."""

from __future__ import annotations

_DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: applied}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {app}}}}}
  template:
    metadata: {{labels: {{app: {app}}}}}
    spec:
      containers:
      - {{name: main, image: nginx, env: [{{name: A, value: "1"}}]}}
"""

# A certificate signing request with a key of its own that was not kept.
REQUEST = (
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlHUE1FTUNBUUF3RURFT01Bd0dBMVVF"
    "QXd3RmJHbHVaWE13S2pBRkJnTXJaWEFESVFBVWV3MVBXTjArcy9PTQptSHRVd1ExYjdxUjFLa0tLZ2Ji"
    "MkFWeGd4Q3J2cWFBQU1BVUdBeXRsY0FOQkFCZndKRHpaajdZUXVCakpsVWg0CjhRRWFzNmg0TG9TZ3Zh"
    "bFFOd0FlNVBQYklIS25SczY5Z1RzaGR0dHdZK1QvQnJLL2MzNVpiLzdqSk8yaDhCSUUKakFrPQotLS0t"
    "LUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K"
)

FILES = {
    "secret.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: app}\ndata: {a: YQ==}\n",
    "broken.yaml": "a: [\n",
    "no-kind.yaml": "metadata: {name: a}\n",
    "unknown-kind.yaml": "apiVersion: nowhere.io/v1\nkind: Nothing\nmetadata: {name: a}\n",
    "one.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata: {name: one, labels: {part: one, group: both}}
data: {k: "1"}
""",
    "two.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata: {name: one, labels: {part: one, group: both}}
data: {k: "1"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: two, labels: {part: two, group: both}}
data: {k: "2"}
""",
    "kustomized/kustomization.yaml": """\
namePrefix: pre-
commonAnnotations: {from: kustomize}
configMapGenerator:
- {name: made, literals: [a=b]}
resources: [map.yaml]
""",
    "kustomized/map.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\ndata: {x: y}\n",
    "deployment.yaml": _DEPLOYMENT.format(replicas=1, app="applied"),
    "deployment-wrong.yaml": _DEPLOYMENT.format(replicas=-1, app="applied"),
    "deployment-selector.yaml": _DEPLOYMENT.format(replicas=1, app="other"),
    "role.yaml": """\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch]}
""",
    "csr.yaml": """\
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: lines-request}
spec:
  request: REQUEST
  signerName: example.com/none
  usages: [client auth]
""".replace("REQUEST", REQUEST),
    "claim.yaml": """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: claim}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, storageClassName: x}
""",
    "claim-wrong.yaml": """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: wrong}
spec: {accessModes: [ReadSometimes]}
""",
    "policy.yaml": """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny}
spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress]}
""",
    "policy-wrong.yaml": """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: wrong}
spec: {podSelector: {}, policyTypes: [Sideways], ingress: [{from: [{}], ports: [{port: 99999}]}]}
""",
    "volume.yaml": """\
apiVersion: v1
kind: PersistentVolume
metadata: {name: lines-volume}
spec: {accessModes: [ReadWriteMany], capacity: {storage: 5Gi}, hostPath: {path: /x}}
""",
    "class.yaml": """\
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: lines-class, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: example.com/a
""",
    "node.yaml": "apiVersion: v1\nkind: Node\nmetadata: {name: lines-node}\n",
}
