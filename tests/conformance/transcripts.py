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
NAME   CLASS    HOSTS         AGE
web    <none>   example.com   ...s
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
