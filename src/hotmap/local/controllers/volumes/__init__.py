"""PersistentVolumes and their claims, as kube-controller-manager and a provisioner treat them.

`matching` decides which volume a claim may have, `binder` binds and releases, `protection` delays
deletions, and `provisioner` makes directories for claims of the class `local-path`. Which node a
claim waits for is the scheduler's.
"""
