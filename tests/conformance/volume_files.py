"""The files of the lines of `volumes`."""

from __future__ import annotations


def _class(name: str, mode: str, provisioner: str = "example.com/later") -> str:
    return f"""\
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: {name}}}
provisioner: {provisioner}
volumeBindingMode: {mode}
"""


def _volume(name: str, size: str, *, modes: str = "[ReadWriteOnce]", more: str = "") -> str:
    return f"""\
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}, labels: {{size: {size.lower()}}}}}
spec: {{capacity: {{storage: {size}}}, accessModes: {modes}, hostPath: {{path: /x}}, {more}}}
"""


def _claim(name: str, size: str = "1Gi", *, modes: str = "[ReadWriteOnce]", more: str = "") -> str:
    return f"""\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}}}
spec: {{accessModes: {modes}, resources: {{requests: {{storage: {size}}}}}, {more}}}
"""


_NONE = 'storageClassName: ""'

FILES = {
    "vol-classes.yaml": _class("lines-later", "WaitForFirstConsumer")
    + "---\n"
    + _class("lines-static", "Immediate", "example.com/none"),
    "vol-class-wrong.yaml": _class("lines-wrong", "Sometimes", "a/b/c"),
    "vol-small.yaml": _volume("lines-small", "2Gi"),
    "vol-large.yaml": _volume("lines-large", "50Gi", modes="[ReadWriteOnce, ReadWriteMany]"),
    "vol-reserved.yaml": _volume(
        "lines-reserved", "1Gi", more="claimRef: {namespace: lines-volumes, name: reserved}"
    ),
    "vol-wrong.yaml": _volume("Lines_Wrong", "-1Gi", modes="[]"),
    "vol-two-sources.yaml": _volume("lines-two", "1Gi", more="nfs: {server: a, path: /b}"),
    "vol-modes.yaml": _volume("lines-modes", "1Gi", modes="[Wrong, ReadWriteOncePod]"),
    "claim-plain.yaml": _claim("plain", more=_NONE),
    "claim-none.yaml": _claim("unfit", "80Gi", more=_NONE),
    "claim-later.yaml": _claim("later", more="storageClassName: lines-later"),
    "claim-absent.yaml": _claim("absent", more="storageClassName: lines-absent"),
    "claim-external.yaml": _claim("external", more="storageClassName: lines-static"),
    "claim-named.yaml": _claim("named", "90Gi", more=f"volumeName: lines-large, {_NONE}"),
    "claim-taken.yaml": _claim("taken", more=f"volumeName: lines-small, {_NONE}"),
    "claim-selecting.yaml": _claim(
        "selecting", more=f"selector: {{matchLabels: {{size: 50gi}}}}, {_NONE}"
    ),
    "claim-reserved.yaml": _claim("reserved", more=_NONE),
    "claim-invalid.yaml": _claim(
        "invalid",
        "0",
        modes="[ReadWriteOnce, Wrong]",
        more="storageClassName: A_, volumeMode: Tape, "
        "selector: {matchExpressions: [{key: a, operator: Near}]}",
    ),
}
