"""Command lines of kubectl with what they print, and the files that they use.

`$ ` begins a command line; what follows is its output, `...` stands for anything, and `[1]` at its
end for the exit status, which is 0 otherwise.
"""

from __future__ import annotations

FILES = {
    "app.env": "LEVEL=debug\n# a comment\nCOLOR=red\n",
    "app.txt": "hello\n",
    "configmap.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata: {name: app}
data: {level: info, colour: red}
""",
    "configmap-changed.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata: {name: app}
data: {level: debug}
""",
    "unknown-field.yaml": """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: wrong}
spec:
  replica: 2
  selector: {matchLabels: {app: wrong}}
  template:
    metadata: {labels: {app: wrong}}
    spec: {containers: [{name: main, image: host}]}
""",
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
    "limits.yaml": """\
apiVersion: v1
kind: LimitRange
metadata: {name: limits}
spec:
  limits:
  - type: Container
    max: {cpu: "1", memory: 1Gi}
    min: {cpu: 100m}
    default: {cpu: 500m}
    defaultRequest: {cpu: 200m}
    maxLimitRequestRatio: {cpu: "4"}
  - type: Pod
    max: {cpu: "1500m"}
""",
    "small.yaml": """\
apiVersion: v1
kind: Pod
metadata: {name: small}
spec:
  containers: [{name: c, image: i, resources: {requests: {cpu: 50m}}}]
""",
    "large.yaml": """\
apiVersion: v1
kind: Pod
metadata: {name: large}
spec:
  containers:
  - {name: c, image: i, resources: {limits: {cpu: "2", memory: 2Gi}}}
  - {name: d, image: i, resources: {limits: {cpu: "1"}, requests: {cpu: 100m}}}
""",
    "quota.yaml": """\
apiVersion: v1
kind: ResourceQuota
metadata: {name: quota}
spec:
  hard: {pods: "1", configmaps: "2", requests.cpu: "1", limits.memory: 1Gi, count/deployments.apps: "1"}
""",
    "counted.yaml": """\
apiVersion: v1
kind: Pod
metadata: {name: counted}
spec:
  containers:
  - {name: c, image: i, resources: {requests: {cpu: 600m}, limits: {memory: 512Mi}}}
""",
    "web.yaml": """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: host
        command: [sh, -c, "echo started; exec sleep 1000"]
""",
}

#: Subject → transcript against a cluster without a node.
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
    "changes": """
$ create deployment more --image=nginx --replicas=3
deployment.apps/more created
$ get deployment more -o jsonpath={.spec.replicas}
3
$ expose deployment more --port=80 --target-port=8080
service/more exposed
$ get service more -o jsonpath={.spec.ports[0].targetPort}
8080
$ autoscale deployment more --min=1 --max=5 --cpu=50%
horizontalpodautoscaler.autoscaling/more autoscaled
$ get hpa more -o jsonpath={.spec.minReplicas}/{.spec.maxReplicas}
1/5
$ set image deployment/more nginx=nginx:2
deployment.apps/more image updated
$ set resources deployment/more --limits=cpu=100m
deployment.apps/more resource requirements updated
$ get deployment more -o jsonpath={.spec.template.spec.containers[0].resources}
{"limits":{"cpu":"100m"}}
$ set env deployment/more COLOR=red
deployment.apps/more env updated
$ set env deployment/more --list
# Deployment more, container nginx
COLOR=red
$ set serviceaccount deployment/more default
deployment.apps/more serviceaccount updated
$ set selector service more app=other
service/more selector updated
$ annotate deployment more a=b --overwrite
deployment.apps/more annotated
$ label deployment more x=z
deployment.apps/more labeled
$ label deployment more x=z --overwrite
deployment.apps/more not labeled
$ scale deployment more --replicas=2 --current-replicas=5
error: Expected replicas to be 5, was 3
[1]
$ patch deployment more --subresource=scale --type=merge -p {"spec":{"replicas":1}}
scale.autoscaling/more patched
$ get deployment more -o jsonpath={.spec.replicas}
1
$ get deploy,svc -o name
deployment.apps/more
service/more
$ wait --for=jsonpath={.spec.replicas}=1 deployment/more --timeout=5s
deployment.apps/more condition met
$ wait --for=delete configmap/none --timeout=1s
$ create configmap later --from-literal=a=b --dry-run=client -o name
configmap/later
$ get pods nothing
Error from server (NotFound): pods "nothing" not found
[1]
$ get deployments nothing --ignore-not-found
$ delete deployment more --cascade=orphan
deployment.apps "more" deleted from changes namespace
$ delete service,hpa more
service "more" deleted from changes namespace
horizontalpodautoscaler.autoscaling "more" deleted from changes namespace
$ create secret tls bad --cert=app.txt --key=app.txt
error: tls: failed to find any PEM data in certificate input
[1]
$ create secret docker-registry reg --docker-server=x --docker-username=u --docker-password=p
secret/reg created
$ get secret reg -o jsonpath={.type}
kubernetes.io/dockerconfigjson
$ create namespace Wrong
The Namespace "Wrong" is invalid: metadata.name: Invalid value: "Wrong": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
[1]
$ delete namespace default
Warning: deleting cluster-scoped resources, not scoped to the provided namespace
Error from server (Forbidden): namespaces "default" is forbidden: this namespace may not be deleted
[1]
$ get configmaps -l a in (
error: name cannot be provided when a selector is specified
[1]
$ get configmaps --field-selector=data=x
Error from server (BadRequest): Unable to find "/v1, Resource=configmaps" that match label selector "", field selector "data=x": "data" is not a known field selector: only "metadata.name", "metadata.namespace"
[1]
""",
    "service": """
$ create service clusterip web --tcp=80:8080
service/web created
$ get service web -o jsonpath={.spec.type}/{.spec.ipFamilies}/{.spec.ipFamilyPolicy}/{.spec.internalTrafficPolicy}/{.spec.sessionAffinity}/{.spec.ports}/{.spec.selector}
ClusterIP/["IPv4"]/SingleStack/Cluster/None/[{"name":"80-8080","port":80,"protocol":"TCP","targetPort":8080}]/{"app":"web"}
$ create service clusterip none --tcp=80:80 --clusterip=None
service/none created
$ create service clusterip far --tcp=80:80 --clusterip=192.168.1.1
error: failed to create ClusterIP service: Service "far" is invalid: spec.clusterIPs: Invalid value: ["192.168.1.1"]: failed to allocate IP 192.168.1.1: the provided network does not match the current range
[1]
$ create service clusterip wrong --tcp=80:80 --clusterip=x
error: failed to create ClusterIP service: Service "wrong" is invalid: spec.clusterIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
[1]
$ create service nodeport outside --tcp=80:80 --node-port=30123
service/outside created
$ create service nodeport again --tcp=80:80 --node-port=30123
error: failed to create NodePort service: Service "again" is invalid: spec.ports[0].nodePort: Invalid value: 30123: provided port is already allocated
[1]
$ create service nodeport range --tcp=80:80 --node-port=80
error: failed to create NodePort service: Service "range" is invalid: spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767
[1]
$ create service loadbalancer balanced --tcp=80:80
service/balanced created
$ create service externalname away --external-name=example.com
service/away created
$ get services
NAME...TYPE...CLUSTER-IP...EXTERNAL-IP...PORT(S)...AGE
away...ExternalName...<none>...example.com...<none>...
balanced...LoadBalancer...<pending>...80:.../TCP...
none...ClusterIP...None...<none>...80/TCP...
outside...NodePort...<none>...80:30123/TCP...
web...ClusterIP...<none>...80/TCP...
$ get services -o wide
NAME...TYPE...CLUSTER-IP...EXTERNAL-IP...PORT(S)...AGE...SELECTOR
away...ExternalName...<none>...example.com...<none>...app=away
balanced...LoadBalancer...<pending>...80:.../TCP...app=balanced
none...ClusterIP...None...<none>...80/TCP...app=none
outside...NodePort...<none>...80:30123/TCP...app=outside
web...ClusterIP...<none>...80/TCP...app=web
$ create service clusterip ports
error: at least one tcp port specifier must be provided
[1]
$ create service clusterip ports --tcp=70000:80
error: strconv.ParseUint: parsing "70000": value out of range
[1]
$ create service clusterip Ports --tcp=80:80
error: failed to create ClusterIP service: Service "Ports" is invalid: metadata.name: Invalid value: "Ports": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
[1]
$ patch service web -p {"spec":{"clusterIP":"10.96.77.77"}}
The Service "web" is invalid: spec.clusterIPs[0]: Invalid value: ["10.96.77.77"]: may not change once set
[1]
$ patch service web -p {"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":30124}]}}
service/web patched
$ get service web -o jsonpath={.spec.type}/{.spec.ports}
NodePort/[{"name":"80-8080","nodePort":30124,"port":80,"protocol":"TCP","targetPort":8080}]
$ patch service web -p {"spec":{"type":"ClusterIP"}}
service/web patched
$ patch service web -p {"spec":{"type":"ClusterIP","ports":[{"port":80,"nodePort":0}]}}
service/web patched (no change)
$ get service web -o jsonpath={.spec.type}/{.spec.ports}
ClusterIP/[{"name":"80-8080","port":80,"protocol":"TCP","targetPort":8080}]
$ patch service web --type=json -p [{"op":"add","path":"/spec/ports/-","value":{"port":81}}]
The Service "web" is invalid: spec.ports[1].name: Required value
[1]
$ patch service web --type=json -p [{"op":"replace","path":"/spec/ports","value":[]}]
The Service "web" is invalid: spec.ports: Required value
[1]
$ patch service web -p {"spec":{"sessionAffinity":"Maybe"}}
The Service "web" is invalid: spec.sessionAffinity: Unsupported value: "Maybe": supported values: "ClientIP", "None"
[1]
$ patch service web -p {"spec":{"type":"Other"}}
The Service "web" is invalid: spec.type: Unsupported value: "Other": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"
[1]
$ patch service web -p {"spec":{"type":"ExternalName"}}
The Service "web" is invalid: spec.externalName: Required value
[1]
$ delete service web
service "web" deleted from service namespace
""",
    "limits": """
$ create -f limits.yaml
limitrange/limits created
$ get limitrange limits -o jsonpath={.spec.limits[0]}
{"default":{"cpu":"500m","memory":"1Gi"},"defaultRequest":{"cpu":"200m","memory":"1Gi"},"max":{"cpu":"1","memory":"1Gi"},"maxLimitRequestRatio":{"cpu":"4"},"min":{"cpu":"100m"},"type":"Container"}
$ run plain --image=i
pod/plain created
$ get pod plain -o jsonpath={.spec.containers[0].resources}{.metadata.annotations}
{"limits":{"cpu":"500m","memory":"1Gi"},"requests":{"cpu":"200m","memory":"1Gi"}}{"kubernetes.io/limit-ranger":"LimitRanger plugin set: cpu, memory request for container plain; cpu, memory limit for container plain"}
$ create -f small.yaml
Error from server (Forbidden): error when creating "small.yaml": pods "small" is forbidden: [minimum cpu usage per Container is 100m, but request is 50m, cpu max limit to request ratio per Container is 4, but provided ratio is 10.000000]
[1]
$ create -f large.yaml
Error from server (Forbidden): error when creating "large.yaml": pods "large" is forbidden: [maximum cpu usage per Container is 1, but limit is 2, maximum memory usage per Container is 1Gi, but limit is 2Gi, cpu max limit to request ratio per Container is 4, but provided ratio is 10.000000, maximum cpu usage per Pod is 1500m, but limit is 3]
[1]
$ delete limitrange limits
limitrange "limits" deleted from limits namespace
$ create priorityclass high --value=1000 --description=x
priorityclass.scheduling.k8s.io/high created
$ get priorityclasses
NAME                      VALUE        GLOBAL-DEFAULT   AGE...PREEMPTIONPOLICY
high                      1000         false...PreemptLowerPriority
system-cluster-critical   2000000000   false...PreemptLowerPriority
system-node-critical      2000001000   false...PreemptLowerPriority
$ run urgent --image=i --overrides={"spec":{"priorityClassName":"high"}}
pod/urgent created
$ get pod urgent -o jsonpath={.spec.priority}/{.spec.preemptionPolicy}
1000/PreemptLowerPriority
$ run wrong --image=i --overrides={"spec":{"priorityClassName":"nope"}}
Error from server (Forbidden): pods "wrong" is forbidden: no PriorityClass with name nope was found
[1]
$ run wrong --image=i --overrides={"spec":{"priority":5}}
Error from server (Forbidden): pods "wrong" is forbidden: the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 0 from the given PriorityClass name
[1]
$ run critical --image=i --overrides={"spec":{"priorityClassName":"system-node-critical"}}
pod/critical created
$ create priorityclass low --value=-5 --global-default=true
priorityclass.scheduling.k8s.io/low created
$ run lowest --image=i
pod/lowest created
$ get pod lowest -o jsonpath={.spec.priority}/{.spec.priorityClassName}
-5/low
$ delete priorityclass low high
priorityclass.scheduling.k8s.io "low" deleted
priorityclass.scheduling.k8s.io "high" deleted
Warning: deleting cluster-scoped resources, not scoped to the provided namespace
$ create quota plain --hard=pods=2,services=1
resourcequota/plain created
$ get quota
NAME    REQUEST...LIMIT   AGE
plain...
$ get limitranges
No resources found in limits namespace.
""",
    "quota": """
$ create -f quota.yaml
resourcequota/quota created
$ get quota quota -o jsonpath={.status.hard.pods}/{.status.used.configmaps}
1/1
$ run plain --image=i
Error from server (Forbidden): pods "plain" is forbidden: failed quota: quota: must specify limits.memory for: plain; requests.cpu for: plain
[1]
$ create -f counted.yaml
pod/counted created
$ create configmap one
configmap/one created
$ create configmap two
error: failed to create configmap: configmaps "two" is forbidden: exceeded quota: quota, requested: configmaps=1, used: configmaps=2, limited: configmaps=2
[1]
$ create deployment web --image=i
deployment.apps/web created
$ create deployment api --image=i
error: failed to create deployment: deployments.apps "api" is forbidden: exceeded quota: quota, requested: count/deployments.apps=1, used: count/deployments.apps=1, limited: count/deployments.apps=1
[1]
$ get quota
NAME    REQUEST                                                                         LIMIT                      AGE
quota   configmaps: 2/2, count/deployments.apps: 1/1, pods: 1/1, requests.cpu: 600m/1   limits.memory: 512Mi/1Gi   ...
$ describe quota quota
Name:                   quota
Namespace:              quota
Resource                Used   Hard
--------                ----   ----
configmaps              2      2
count/deployments.apps  1      1
limits.memory           512Mi  1Gi
pods                    1      1
requests.cpu            600m   1
$ delete pod counted --now
pod "counted" deleted from quota namespace
$ patch quota quota -p {"spec":{"hard":{"pods":"0"}}}
resourcequota/quota patched
$ create -f counted.yaml
Error from server (Forbidden): error when creating "counted.yaml": pods "counted" is forbidden: exceeded quota: quota, requested: pods=1, used: pods=0, limited: pods=0
[1]
$ delete quota quota
resourcequota "quota" deleted from quota namespace
$ create -f counted.yaml
pod/counted created
""",
    "rbac": """
$ get pods --as jane
Error from server (Forbidden): pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "rbac"
[1]
$ get deployments.apps web --as jane
Error from server (Forbidden): deployments.apps "web" is forbidden: User "jane" cannot get resource "deployments" in API group "apps" in the namespace "rbac"
[1]
$ get nodes --as jane
Error from server (Forbidden): nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope
[1]
$ auth can-i list pods --as jane
no
[1]
$ create rolebinding view --clusterrole=view --user=jane
rolebinding.rbac.authorization.k8s.io/view created
$ auth can-i list pods --as jane
yes
$ auth can-i list pods --as jane -A
no
[1]
$ auth can-i list secrets --as jane
no
[1]
$ auth can-i get pods/log --as jane
yes
$ get pods --as jane
No resources found in rbac namespace.
$ get configmaps --as joe --as-group=system:masters
NAME               DATA   AGE
kube-root-ca.crt   1      ...
$ create role readers --verb=get,list --resource=configmaps --as jane
Error from server (Forbidden): roles.rbac.authorization.k8s.io is forbidden: User "jane" cannot create resource "roles" in API group "rbac.authorization.k8s.io" in the namespace "rbac"
[1]
$ create rolebinding admin --clusterrole=admin --user=adam
rolebinding.rbac.authorization.k8s.io/admin created
$ create role readers --verb=get,list --resource=configmaps --as adam
role.rbac.authorization.k8s.io/readers created
$ create role nodes --verb=get --resource=nodes --as adam
Error from server (Forbidden): roles.rbac.authorization.k8s.io "nodes" is forbidden: user "adam" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:
{APIGroups:[""], Resources:["nodes"], Verbs:["get"]}
[1]
$ create rolebinding other --clusterrole=cluster-admin --user=adam --as adam
error: failed to create rolebinding: rolebindings.rbac.authorization.k8s.io "other" is forbidden: user "adam" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:
{APIGroups:["*"], Resources:["*"], Verbs:["*"]}
{NonResourceURLs:["*"], Verbs:["*"]}
[1]
$ get configmaps --as-group=developers --as joe
Error from server (Forbidden): configmaps is forbidden: User "joe" cannot list resource "configmaps" in API group "" in the namespace "rbac"
[1]
$ create rolebinding group --role=readers --group=developers
rolebinding.rbac.authorization.k8s.io/group created
$ get configmaps kube-root-ca.crt -o name --as joe --as-group=developers
configmap/kube-root-ca.crt
$ get configmaps --as jane --as-user-extra=a=b --as-group=g -o name
configmap/kube-root-ca.crt
$ get --raw /metrics --as jane
Error from server (Forbidden): forbidden: User "jane" cannot get path "/metrics"
[1]
$ auth whoami --as system:serviceaccount:rbac:bot
ATTRIBUTE   VALUE
Username    system:serviceaccount:rbac:bot
Groups      [system:serviceaccounts system:serviceaccounts:rbac system:authenticated]
$ get clusterrole view -o jsonpath={.aggregationRule.clusterRoleSelectors[0].matchLabels}
{"rbac.authorization.k8s.io/aggregate-to-view":"true"}
""",
    "serviceaccount": """
$ create serviceaccount bot
serviceaccount/bot created
$ create token bot
eyJ...
$ create token bot --duration=1m
error: failed to create token: TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 60: may not specify a duration less than 10 minutes
[1]
$ create token nobody
error: failed to create token: serviceaccounts "nobody" not found
[1]
$ get configmaps --as=system:serviceaccount:serviceaccount:bot
Error from server (Forbidden): configmaps is forbidden: User "system:serviceaccount:serviceaccount:bot" cannot list resource "configmaps" in API group "" in the namespace "serviceaccount"
[1]
$ create rolebinding bot --clusterrole=edit --serviceaccount=serviceaccount:bot
rolebinding.rbac.authorization.k8s.io/bot created
$ get configmaps -o name --as=system:serviceaccount:serviceaccount:bot
configmap/kube-root-ca.crt
$ run nobody --image=host --overrides={"spec":{"serviceAccountName":"nobody"}}
Error from server (Forbidden): pods "nobody" is forbidden: error looking up service account serviceaccount/nobody: serviceaccount "nobody" not found
[1]
$ run plain --image=host --overrides={"spec":{"automountServiceAccountToken":false}}
pod/plain created
$ get pod plain -o jsonpath={.spec.volumes}
$ run token --image=host
pod/token created
$ get pod token -o jsonpath={.spec.containers[0].volumeMounts[0].mountPath}
/var/run/secrets/kubernetes.io/serviceaccount
$ get pod token -o jsonpath={.spec.volumes[0].projected.sources[0]}
{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}}
""",
    "configmap": """
$ create configmap literal --from-literal=k=v --from-literal=m=w
configmap/literal created
$ create configmap file --from-file=app.txt
configmap/file created
$ create configmap env --from-env-file=app.env
configmap/env created
$ get configmap literal -o jsonpath={.data.m}
w
$ get configmap env -o json
{
    "apiVersion": "v1",
    "data": {
        "COLOR": "red",
        "LEVEL": "debug"
    },
    "kind": "ConfigMap",...
$ get configmap file -o yaml
apiVersion: v1
data:
  app.txt: |
    hello
kind: ConfigMap
metadata:...
$ get configmap literal file -o custom-columns=NAME:.metadata.name,K:.data.k
NAME      K
literal   v
file      <none>
$ get configmap literal -o name
configmap/literal
$ get configmap literal -o wide
NAME      DATA   AGE
literal   2      ...s
$ describe configmap literal
Name:         literal
Namespace:    ...
Labels:       <none>
Annotations:  <none>

Data
====
k:
----
v...
$ create configmap literal --from-literal=k=v
error: failed to create configmap: configmaps "literal" already exists
[1]
$ create configmap Wrong_Name
error: failed to create configmap: ConfigMap "Wrong_Name" is invalid: metadata.name: ...
[1]
$ create configmap tried --from-literal=k=v --dry-run=server
configmap/tried created (server dry run)
$ get configmap tried
Error from server (NotFound): configmaps "tried" not found
[1]
$ delete configmap literal
configmap "literal" deleted...
""",
    "secret": """
$ create secret generic plain --from-literal=password=x
secret/plain created
$ get secret plain -o jsonpath={.data.password}
eA==
$ get secret plain
NAME    TYPE     DATA   AGE
plain   Opaque   1      ...s
$ describe secret plain
Name:         plain
...
Type:  Opaque

Data
====
password:  1 bytes
""",
    "apply": """
$ apply -f configmap.yaml
configmap/app created
$ apply -f configmap.yaml
configmap/app unchanged
$ diff -f configmap.yaml
$ diff -f configmap-changed.yaml
...
-  colour: red
-  level: info
+  level: debug
...
[1]
$ apply -f configmap-changed.yaml
configmap/app configured
$ get configmap app -o jsonpath={.data}
{"level":"debug"}
$ apply view-last-applied configmap app
...
  level: debug
...
$ apply -f unknown-field.yaml
Error from server (BadRequest): error when creating "unknown-field.yaml": Deployment in version ...
[1]
$ apply -f unknown-field.yaml --validate=warn
deployment.apps/wrong created
Warning: unknown field "spec.replica"
$ delete -f configmap.yaml
configmap "app" deleted...
""",
    "server-side-apply": """
$ apply --server-side -f configmap.yaml
configmap/app serverside-applied
$ apply --server-side -f configmap-changed.yaml --field-manager=other
error: Apply failed with 1 conflict: conflict with "kubectl": .data.level
...
[1]
$ apply --server-side -f configmap-changed.yaml --field-manager=other --force-conflicts
configmap/app serverside-applied
$ get configmap app -o jsonpath={.data}
{"colour":"red","level":"debug"}
$ get configmap app -o jsonpath={.metadata.managedFields[*].manager} --show-managed-fields
kubectl other
$ diff --server-side -f configmap-changed.yaml --field-manager=other
""",
    "apply-migration": """
$ apply -f configmap.yaml
configmap/app created
$ apply --server-side -f configmap-changed.yaml
configmap/app serverside-applied
$ get configmap app -o jsonpath={.data}
{"level":"debug"}
""",
    "edits": """
$ create -f configmap.yaml
configmap/app created
$ label configmap app tier=front
configmap/app labeled
$ annotate configmap app note=x
configmap/app annotated
$ get configmap -l tier=front -o name
configmap/app
$ patch configmap app -p {"data":{"level":"warn"}}
configmap/app patched
$ patch configmap app --type=merge -p {"data":{"size":"1"}}
configmap/app patched
$ patch configmap app --type=json -p [{"op":"remove","path":"/data/size"}]
configmap/app patched
$ patch configmap app --type=merge -p {"data":{"level":"warn"}}
configmap/app patched (no change)
$ edit configmap app
configmap/app edited
$ get configmap app -o jsonpath={.data}
{"color":"red","level":"warn"}
$ replace -f configmap-changed.yaml
configmap/app replaced
$ label configmap app tier-
...
configmap/app ...labeled
""",
    "explain": """
$ explain configmap
KIND:       ConfigMap
VERSION:    v1
...
  binaryData	<map[string]string>
...
$ explain deployment.spec.template.spec.containers.ports
GROUP:      apps
KIND:       Deployment
VERSION:    v1

FIELD: ports <[]ContainerPort>
...
  containerPort	<integer> -required-
...
$ explain pod.spec.nothing
...
error: field "nothing" does not exist
[1]
$ explain cronjob --recursive
GROUP:      batch
...
""",
    "discovery": """
$ api-resources --api-group=apps
NAME                  SHORTNAMES   APIVERSION   NAMESPACED   KIND
controllerrevisions                apps/v1      true         ControllerRevision
daemonsets            ds           apps/v1      true         DaemonSet
deployments           deploy       apps/v1      true         Deployment
replicasets           rs           apps/v1      true         ReplicaSet
statefulsets          sts          apps/v1      true         StatefulSet
$ api-versions
admissionregistration.k8s.io/v1
apiextensions.k8s.io/v1
apiregistration.k8s.io/v1
apps/v1
authentication.k8s.io/v1
...
$ auth can-i create pods
yes
$ auth whoami
ATTRIBUTE...
Username ...
$ version
Client Version: ...
Server Version: v1.36...
$ cluster-info
Kubernetes control plane is running at https://127.0.0.1:...
$ get --raw /readyz
ok
$ get --raw /livez
ok
$ get nothing
error: the server doesn't have a resource type "nothing"
[1]
""",
    "stored-kinds": """
$ create role reader --verb=get --resource=pods
role.rbac.authorization.k8s.io/reader created
$ create rolebinding readers --role=reader --user=jane
rolebinding.rbac.authorization.k8s.io/readers created
$ get rolebinding readers
NAME      ROLE          AGE
readers   Role/reader   ...s
$ create ingress web --rule=example.com/=web:80
ingress.networking.k8s.io/web created
$ get ing
NAME   CLASS    HOSTS         ADDRESS   PORTS   AGE
web    <none>   example.com             80      ...s
$ create poddisruptionbudget web --selector=app=web --min-available=1
poddisruptionbudget.policy/web created
$ create quota small --hard=pods=2
resourcequota/small created
$ create service clusterip web --tcp=80:8080
service/web created
$ create job once --image=host -- true
job.batch/once created
$ create cronjob often --schedule=*/5\\ *\\ *\\ *\\ * --image=host -- true
cronjob.batch/often created
$ create serviceaccount robot
serviceaccount/robot created
""",
}

#: Against a cluster whose node runs pods; the lines follow one another.
CLUSTER = """
$ apply -f web.yaml
deployment.apps/web created
$ rollout status deployment/web --timeout=60s
...deployment "web" successfully rolled out
$ wait --for=condition=Available deployment/web --timeout=60s
deployment.apps/web condition met
$ get deployment web
NAME   READY   UP-TO-DATE   AVAILABLE   AGE
web    2/2     2            2           ...s
$ describe deployment web
Name:                   web
...
Replicas:               2 desired | 2 updated | 2 total | 2 available | 0 unavailable
...
$ logs deployment/web
...started...
$ exec deployment/web -- echo inside
inside
$ exec deployment/web -- false
command terminated with exit code 1
[1]
$ set env deployment/web LEVEL=debug
deployment.apps/web env updated
$ rollout status deployment/web --timeout=60s
...deployment "web" successfully rolled out
$ rollout history deployment/web
deployment.apps/web...
REVISION  CHANGE-CAUSE
1         <none>
2         <none>
$ rollout undo deployment/web
...deployment.apps/web rolled back...
$ rollout restart deployment/web
deployment.apps/web restarted
$ set image deployment/web main=other
deployment.apps/web image updated
$ rollout pause deployment/web
deployment.apps/web paused
$ rollout resume deployment/web
deployment.apps/web resumed
$ scale deployment web --replicas=1
deployment.apps/web scaled
$ rollout status deployment/web --timeout=60s
...deployment "web" successfully rolled out
$ events --for deployment/web
LAST SEEN ...
...ScalingReplicaSet...
$ get events
LAST SEEN ...
$ run single --image=host --restart=Never --command -- sh -c exec\\ sleep\\ 1000
pod/single created
$ wait --for=condition=Ready pod/single --timeout=60s
pod/single condition met
$ cp app.txt single:/tmp/app.txt
$ exec single -- cat /tmp/app.txt
hello
$ delete pod single --grace-period=1
pod "single" deleted...
$ delete deployment web
deployment.apps "web" deleted...
"""
