"""What the server offers: explanations, resources, kinds that are only stored."""

from __future__ import annotations

FILES: dict[str, str] = {}

PLANE = {
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
