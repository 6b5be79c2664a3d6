"""The workload controllers of the local control plane, named like those of kube-controller-manager.

What belongs here makes the Registry's objects agree with each other; what runs pods is the
kubelet's, what answers requests the API server's. The way of one change:

1. `informer` (one room up) takes a write out of the Registry's watch and tells listeners.
2. A controller turns (old, new) into keys for its `loop`.
3. Its sync reads the caches and asks the pure modules what to do: `rolling`, `revisions`,
   `progress`, `template` for Deployments, `pods` for ReplicaSets, `conditions` for both.
4. It writes to the Registry, waits until the caches have seen that, and tells `recorder` (one
   room up).

`run` starts them all.
"""
