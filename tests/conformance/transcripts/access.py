"""Roles, their bindings, and service accounts."""

from __future__ import annotations

FILES: dict[str, str] = {}

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
}
