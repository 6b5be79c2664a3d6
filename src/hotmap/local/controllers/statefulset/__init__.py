"""Runs StatefulSets (kubernetes: pkg/controller/statefulset).

`plan` decides what a sync does, from the set, its pods, revisions and claims alone; `identity`
builds pods, `claims` their PersistentVolumeClaims, `status` counts; `pod_control` and
`controller` carry out.
"""
