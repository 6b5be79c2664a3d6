"""The workload controllers of the local control plane, named like those of kube-controller-manager.

They make the objects of the API server agree with each other. The way of one change:

1. An `informer` receives a write from its watch and calls its listeners.
2. A controller turns (old, new) into keys for its `loop`.
3. Its sync reads the caches and decides by the pure modules: `rolling`, `revisions`,
   `progress`, `template` for Deployments, `pods` for ReplicaSets, `conditions` for both;
   `statefulset.plan` and `daemonset.plan` for those kinds, whose revisions `history` keeps.
4. It writes to the API server, waits until the caches have seen that, and records Events.

`run` starts them all.
"""
