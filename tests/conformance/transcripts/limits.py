"""LimitRanges and ResourceQuotas."""

from __future__ import annotations

FILES = {
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
}

PLANE = {
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
$ run wrong --image=i --overrides={"spec":{"preemptionPolicy":"Never"}}
Error from server (Forbidden): pods "wrong" is forbidden: the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission controller computed PreemptLowerPriority from the given PriorityClass name
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
}
