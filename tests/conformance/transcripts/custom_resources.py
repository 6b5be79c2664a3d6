"""CustomResourceDefinitions and custom resources."""

from __future__ import annotations

FILES = {
    "crd.yaml": """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {plural: widgets, kind: Widget, shortNames: [wd], categories: [all]}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    - {name: Since, type: date, jsonPath: .metadata.creationTimestamp}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [color]
            properties:
              size: {type: integer, default: 3, minimum: 1, maximum: 10}
              replicas: {type: integer}
              color: {type: string, enum: [red, green]}
              title: {type: string, pattern: ^a+$, maxLength: 5, minLength: 2}
              items:
                type: array
                maxItems: 4
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [k]
                items:
                  type: object
                  required: [k]
                  properties: {k: {type: string}, v: {type: string}}
              tags: {type: array, minItems: 2, x-kubernetes-list-type: set, items: {type: string}}
              port: {x-kubernetes-int-or-string: true}
              when: {type: string, format: date-time}
              step: {type: integer, multipleOf: 5}
              any: {type: object, x-kubernetes-preserve-unknown-fields: true}
              one:
                type: object
                properties: {a: {type: string}, b: {type: string}}
                oneOf: [{required: [a]}, {required: [b]}]
          status:
            type: object
            properties:
              replicas: {type: integer}
              conditions:
                type: array
                items:
                  type: object
                  properties: {type: {type: string}, status: {type: string}}
  - name: v1beta1
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
""",
    "crd-wrong.yaml": """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.org
  names: {plural: things, kind: Thing}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {properties: {a: {}}}}}
""",
    "widget.yaml": """\
apiVersion: example.com/v1
kind: Widget
metadata: {name: a}
spec: {color: red, any: {nothing: null, list: []}}
""",
    "widget-unknown.yaml": """\
apiVersion: example.com/v1
kind: Widget
metadata: {name: b}
spec: {color: red, junk: 1}
""",
    "widget-type.yaml": """\
apiVersion: example.com/v1
kind: Widget
metadata: {name: b}
spec: {color: red, size: "5"}
""",
    "widget-range.yaml": """\
apiVersion: example.com/v1
kind: Widget
metadata: {name: b}
spec: {color: red, size: 11}
""",
    "widget-required.yaml": """\
apiVersion: example.com/v1
kind: Widget
metadata: {name: b}
spec: {items: [{k: a}, {v: b}]}
""",
    "widget-duplicate.yaml": """\
apiVersion: example.com/v1
kind: Widget
metadata: {name: b}
spec: {color: red, items: [{k: a}, {k: a, v: b}], tags: [x, y, x]}
""",
    "widget-text.yaml": """\
apiVersion: example.com/v1
kind: Widget
metadata: {name: b}
spec: {color: blue, title: abcdef, port: true, when: tomorrow, step: 7}
""",
    "widget-short.yaml": """\
apiVersion: example.com/v1
kind: Widget
metadata: {name: b}
spec: {color: red, title: a, tags: [x], one: {}, size: 0}
""",
    "widget-many.yaml": """\
apiVersion: example.com/v1
kind: Widget
metadata: {name: b}
spec: {color: red, items: [{k: a}, {k: b}, {k: c}, {k: d}, {k: e}], one: {a: x, b: y}}
""",
}

PLANE = {
    "crd": """
$ create -f crd-wrong.yaml
The CustomResourceDefinition "things.example.com" is invalid: ...
[1]
$ apply -f crd.yaml
customresourcedefinition.apiextensions.k8s.io/widgets.example.com created
$ wait --for=condition=Established crd/widgets.example.com
customresourcedefinition.apiextensions.k8s.io/widgets.example.com condition met
$ get crd widgets.example.com -o jsonpath={.status.storedVersions}{.status.conditions[*].reason}{.spec.names}
["v1"]NoConflicts InitialNamesAccepted{"categories":["all"],"kind":"Widget","listKind":"WidgetList","plural":"widgets","shortNames":["wd"],"singular":"widget"}
$ apply -f widget.yaml
widget.example.com/a created
$ get wd
NAME   SIZE   READY   SINCE
a      3              ...
$ get widget a -o jsonpath={.spec}
{"any":{"list":[]},"color":"red","size":3}
$ apply -f widget.yaml
widget.example.com/a unchanged
$ create -f widget-unknown.yaml
Error from server (BadRequest): error when creating "widget-unknown.yaml": Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "spec.junk"
[1]
$ create -f widget-unknown.yaml --validate=warn -o jsonpath={.spec}
{"color":"red","size":3}Warning: unknown field "spec.junk"
$ create -f widget-type.yaml --validate=false
The Widget "b" is invalid: spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"
[1]
$ create -f widget-range.yaml --validate=false
The Widget "b" is invalid: spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10
[1]
$ create -f widget-required.yaml --validate=false
The Widget "b" is invalid: ...
[1]
$ create -f widget-duplicate.yaml --validate=false
The Widget "b" is invalid: ...
[1]
$ create -f widget-text.yaml --validate=false
The Widget "b" is invalid: ...
[1]
$ create -f widget-short.yaml --validate=false
The Widget "b" is invalid: ...
[1]
$ create -f widget-many.yaml --validate=false
The Widget "b" is invalid: ...
[1]
$ scale widget/a --replicas=4
widget.example.com/a scaled
$ get widget a -o jsonpath={.spec.replicas}/{.metadata.generation}
4/2
$ get --raw /apis/example.com/v1/namespaces/crd/widgets/a/scale
{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"a","namespace":"crd","uid":"...","resourceVersion":"...","creationTimestamp":"..."},"spec":{"replicas":4},"status":{"replicas":0}}
$ patch widget a --subresource=status --type=merge -p {"status":{"replicas":4,"conditions":[{"type":"Ready","status":"True"}]},"spec":{"size":9}}
widget.example.com/a patched
$ get wd
NAME   SIZE   READY   SINCE
a      3      True    ...
b      3              ...
$ get wd -o wide
NAME   SIZE   READY   SINCE
a      3      True    ...
b      3              ...
$ get widget a -o jsonpath={.metadata.generation}
2
$ patch widget a --type=merge -p {"status":{"replicas":9}}
widget.example.com/a patched (no change)
$ patch widget a --type=merge -p {"metadata":{"labels":{"a":"b"}}}
widget.example.com/a patched
$ patch widget a --type=strategic -p {}
error: application/strategic-merge-patch+json is not supported by example.com/v1, Kind=Widget: the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml
[1]
$ patch widget a --type=json -p [{"op":"replace","path":"/spec/size","value":20}]
The Widget "a" is invalid: spec.size: Invalid value: 20: spec.size in body should be less than or equal to 10
[1]
$ get widgets.v1beta1.example.com a -o jsonpath={.apiVersion}
example.com/v1beta1
$ get all
NAME                   SIZE   READY   SINCE
widget.example.com/a   3      True    ...
widget.example.com/b   3              ...
$ get widget a --field-selector=spec.size=3
error: name cannot be provided when a selector is specified
[1]
$ explain widget.spec.size
GROUP:      example.com
KIND:       Widget
VERSION:    v1

FIELD: size <integer>


DESCRIPTION:
    <empty>
$ explain widget.spec.one
GROUP:      example.com
KIND:       Widget
VERSION:    v1

FIELD: one <Object>


DESCRIPTION:
    <empty>
FIELDS:
  a	<string>
    <no description>

  b	<string>
    <no description>
$ api-resources --api-group=example.com
NAME      SHORTNAMES   APIVERSION       NAMESPACED   KIND
widgets   wd           example.com/v1   true         Widget
$ get --raw /apis/example.com
{"kind":"APIGroup","apiVersion":"v1","name":"example.com","versions":[{"groupVersion":"example.com/v1","version":"v1"},{"groupVersion":"example.com/v1beta1","version":"v1beta1"}],"preferredVersion":{"groupVersion":"example.com/v1","version":"v1"}}
$ get --raw /apis/example.com/v1
{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"example.com/v1",...
$ apply --server-side -f widget.yaml --field-manager=other
widget.example.com/a serverside-applied
$ delete widget a
widget.example.com "a" deleted from crd namespace
$ delete crd widgets.example.com
customresourcedefinition.apiextensions.k8s.io "widgets.example.com" deleted
Warning: deleting cluster-scoped resources, not scoped to the provided namespace
$ get crd widgets.example.com
Error from server (NotFound): customresourcedefinitions.apiextensions.k8s.io "widgets.example.com" not found
[1]
""",
}
