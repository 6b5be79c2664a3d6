"""Runs DaemonSets (kubernetes: pkg/controller/daemon).

`plan` decides on which nodes pods are created and which pods are deleted, `pods` builds pods,
`nodes` says where they belong, `status` counts; `controller` carries out.
"""
