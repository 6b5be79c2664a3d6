"""`hotmap demo`: a ConfigMap edit reaches running processes, on the local control plane.

`scenario` makes the edits and checks the results, `cluster` runs the control plane and the
controller, `timeline` prints.
"""
