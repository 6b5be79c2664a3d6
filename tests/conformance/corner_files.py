"""The files of the lines of `corners`: bounds, odd encodings, and objects to look at."""

from __future__ import annotations


def _map(name: str, rest: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n{rest}"


_FULL = 1 << 20

FILES = {
    # Bounds: 1 MiB of data, with the keys.
    "corner-full.yaml": _map("full", f"data: {{k: {'x' * (_FULL - 1)}}}\n"),
    "corner-over.yaml": _map("over", f"data: {{k: {'x' * (_FULL + 1)}}}\n"),
    "corner-secret-over.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: over}\n"
    f"stringData: {{k: {'x' * (_FULL + 1)}}}\n",
    "corner-key.yaml": _map("key", f"data: {{{'k' * 253}: v, {'k' * 254}: v}}\n"),
    "corner-name.yaml": _map("n" * 254, "data: {}\n"),
    "corner-label.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: label\n"
    f"  labels: {{{'l' * 64}: v, a: {'v' * 64}, {'p' * 254}/x: v}}\n",
    "corner-annotation.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: note\n"
    f"  annotations: {{a: {'v' * 262144}}}\n",
    # Data of all kinds.
    "corner-binary.yaml": _map("binary", "binaryData: {k: AAECAw==}\ndata: {t: text}\n"),
    "corner-both.yaml": _map("both", "binaryData: {k: AAECAw==}\ndata: {k: text}\n"),
    "corner-base64.yaml": _map("base64", "binaryData: {k: '***'}\n"),
    "corner-immutable.yaml": _map("fixed", "immutable: true\ndata: {k: '1'}\n"),
    "corner-immutable-changed.yaml": _map("fixed", "immutable: true\ndata: {k: '2'}\n"),
    "corner-mutable.yaml": _map("fixed", "immutable: false\ndata: {k: '1'}\n"),
    "corner-number.yaml": _map("number", "data: {k: 1}\n"),
    "corner-null.yaml": _map("null", "data: {k: null}\n"),
    "corner-nested.yaml": _map("nested", "data: {k: {a: b}}\n"),
    "corner-list.yaml": _map("listed", "data: [a]\n"),
    "corner-types.yaml": _map("types", "data: {a: yes, b: 0x10, c: 1e3, d: 2001-01-01, e: ~}\n"),
    "corner-quoted.yaml": _map("quoted", "data: {a: 'yes', b: '0x10', c: '~', d: ''}\n"),
    "corner-lines.yaml": _map("lines", "data:\n  a: |\n    one\n    two\n  b: >-\n    x\n    y\n"),
    "corner-unicode.yaml": _map("unicode", 'data: {a: "ü→😀", b: "\\u0000", c: "\\t"}\n'),
    "corner-name-number.yaml": _map("1", "data: {}\n"),
    "corner-name-dots.yaml": _map("a..b", "data: {}\n"),
    "corner-name-empty.yaml": _map('""', "data: {}\n"),
    "corner-ns-number.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: 1}\n",
    # Malformed documents.
    "corner-tab.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n\tname: a\n",
    "corner-twice.yaml": _map("twice", "data: {k: a, k: b}\n"),
    "corner-empty.yaml": "",
    "corner-comment.yaml": "# nothing\n---\n# more\n",
    "corner-scalar.yaml": "just text\n",
    "corner-array.yaml": "- a\n- b\n",
    "corner-anchor.yaml": _map("anchor", "data: {a: &x one, b: *x}\n"),
    "corner-kind.yaml": "apiVersion: v1\nkind: configmap\nmetadata: {name: a}\n",
    "corner-version.yaml": "apiVersion: v2\nkind: ConfigMap\nmetadata: {name: a}\n",
    "corner-no-name.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n",
    "corner-no-metadata.yaml": "apiVersion: v1\nkind: ConfigMap\n",
    "corner-metadata.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: wrong\n",
    "corner.json": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"json"},'
    '"data":{"a":"b"}}',
    "corner-broken.json": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"json"}',
    "corner-twice.json": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"t"},'
    '"data":{"a":"b","a":"c"}}',
    "corner-unknown.json": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"u"},'
    '"dta":{"a":"b"},"spec":{"x":[{"y":1}]}}',
    # Objects that are looked at.
    "corner-web.yaml": """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: duo, labels: {app: duo}}
spec:
  replicas: 0
  selector: {matchLabels: {app: duo}}
  template:
    metadata: {labels: {app: duo}, annotations: {a.b/c: d}}
    spec:
      initContainers: [{name: init, image: "busybox:1"}]
      containers:
      - name: one
        image: "nginx:1"
        ports: [{name: http, containerPort: 80}, {name: https, containerPort: 443}]
        env: [{name: A, value: "1"}, {name: B, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        resources: {requests: {cpu: 100m, memory: 64Mi}}
      - name: two
        image: "redis:7"
        args: [--save, ""]
        envFrom: [{configMapRef: {name: none, optional: true}}]
""",
    "corner-quiet.yaml": """\
apiVersion: v1
kind: Pod
metadata: {name: quiet, labels: {app: quiet, tier: back}}
spec:
  containers: [{name: main, image: "busybox:1", command: [sleep, "1"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: loud, labels: {app: loud, tier: back}}
spec:
  priority: 0
  containers: [{name: main, image: "busybox:2"}, {name: side, image: "busybox:3"}]
""",
    "corner-merge-patch.yaml": "data: {from: file}\n",
    "corner-json-patch.json": '[{"op": "add", "path": "/data/from", "value": "patch"}]',
    "corner-crd.yaml": """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: corners.lines.example.com}
spec:
  group: lines.example.com
  names: {plural: corners, singular: corner, kind: Corner, shortNames: [crn], categories: [all]}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.num, statusReplicasPath: .status.num}
    additionalPrinterColumns:
    - {name: Count, type: integer, jsonPath: .spec.num}
    - {name: Born, type: date, jsonPath: .metadata.creationTimestamp, priority: 1}
    selectableFields: [{jsonPath: .spec.colour}]
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [num]
            properties:
              num: {type: integer, minimum: 0, maximum: 9, default: 1}
              colour: {type: string, enum: [red, blue], default: red}
              parts: {type: array, maxItems: 2, items: {type: string, pattern: "^[a-z]+$"}}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, properties: {num: {type: integer}}}
""",
    # YAML reads the name of a column as a boolean.
    "corner-crd-wrong.yaml": """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: wrongs.lines.example.com}
spec:
  group: lines.example.com
  names: {plural: wrongs, kind: Wrong}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns: [{name: N, type: integer, jsonPath: .spec.n}]
    schema: {openAPIV3Schema: {type: object}}
""",
    "corner-one.yaml": """\
apiVersion: lines.example.com/v1
kind: Corner
metadata: {name: one}
spec: {num: 2, colour: blue, parts: [a, b], free: {x: {deep: z}}}
""",
    "corner-wrong.yaml": """\
apiVersion: lines.example.com/v1
kind: Corner
metadata: {name: wrong}
spec: {num: 12, colour: green, parts: [a, B, c], more: 1}
""",
    "corner-layer/kustomization.yaml": """\
resources: [map.yaml, web.yaml]
namePrefix: k-
nameSuffix: -z
labels: [{pairs: {team: lines}, includeSelectors: true}]
images: [{name: nginx, newName: example.com/nginx, newTag: "9"}]
replicas: [{name: web, count: 0}]
patches:
- target: {kind: Deployment}
  patch: |-
    - {op: add, path: /spec/paused, value: true}
configMapGenerator: [{name: gen, literals: [a=1, b=2]}]
secretGenerator: [{name: sec, literals: [p=q], type: example.com/t}]
generatorOptions: {disableNameSuffixHash: true}
""",
    "corner-layer/map.yaml": _map("map", "data: {x: y}\n"),
    "corner-layer/web.yaml": """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: nginx, envFrom: [{configMapRef: {name: gen}}]}]}
""",
}
