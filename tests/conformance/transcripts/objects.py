"""Creating and editing objects of the built-in kinds."""

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
}

PLANE = {
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
}
