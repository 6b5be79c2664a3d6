"""`hotmap demo`: a ConfigMap edit reaches running processes, on the local control plane.

`story` tells what happens and checks it, `stage` holds the cluster and the controller it happens
on, `timeline` is what people and machines are shown.
"""
