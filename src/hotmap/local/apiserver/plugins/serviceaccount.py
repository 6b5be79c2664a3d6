"""Gives pods the token of their service account.

plugin/pkg/admission/serviceaccount. Unlike upstream a missing account `default` refuses no pod:
it is created a moment after its namespace.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from hotmap.core.errors import NotFound
from hotmap.local.apiserver.encoding import decode
from hotmap.local.apiserver.status import forbidden
from hotmap.local.json_object import JsonObject
from hotmap.local.meta import annotations_of

if TYPE_CHECKING:
    from hotmap.local.apiserver.plugins import AdmissionRequest
    from hotmap.local.apiserver.reader import ObjectReader

MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_DEFAULT = "default"
_VOLUME_PREFIX = "kube-api-access-"
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
# One second more than an hour: the token's life is extended by the API server, and the seven
# seconds distinguish such tokens from others (claims.go).
_EXPIRATION = 3607


class ServiceAccountPlugin:
    """Mounts a token volume into the containers of a new pod."""

    def __init__(self, reader: ObjectReader) -> None:
        self._reader = reader

    def admit(self, request: AdmissionRequest) -> None:
        kind = request.kind
        if (kind.group, kind.plural) != ("", "pods") or request.old is not None:
            return
        pod = request.obj
        if request.subresource or "kubernetes.io/config.mirror" in annotations_of(pod):
            return
        spec = pod["spec"]
        account = self._account(request, spec.get("serviceAccountName") or _DEFAULT)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = account["imagePullSecrets"]
        mounts = spec.get("automountServiceAccountToken")
        if mounts is None:
            mounts = account.get("automountServiceAccountToken", True)
        if mounts:
            _mount_token(spec)

    def validate(self, request: AdmissionRequest) -> None:
        pass

    def _account(self, request: AdmissionRequest, name: str) -> JsonObject:
        kind = self._reader.scheme.resource("serviceaccounts")
        try:
            return decode(self._reader.entry(kind, request.namespace, name))
        except NotFound:
            if name == _DEFAULT:
                return {}
            where = f"{request.namespace}/{name}"
            text = f'error looking up service account {where}: serviceaccount "{name}" not found'
            raise forbidden(request.kind, request.name, text) from None


def _mount_token(spec: JsonObject) -> None:
    volumes = spec.setdefault("volumes", [])
    names = {volume.get("name") for volume in volumes}
    known = next((name for name in names if (name or "").startswith(_VOLUME_PREFIX)), None)
    name = known or _VOLUME_PREFIX + "".join(random.choices(_SUFFIX_ALPHABET, k=5))
    mounted = False
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or ():
            mounts = container.setdefault("volumeMounts", [])
            if all(mount.get("mountPath") != MOUNT_PATH for mount in mounts):
                mounts.append({"name": name, "readOnly": True, "mountPath": MOUNT_PATH})
                mounted = True
    if mounted and known is None:
        volumes.append({"name": name, "projected": {"defaultMode": 0o644, "sources": _sources()}})


def _sources() -> list[JsonObject]:
    namespace = {
        "path": "namespace",
        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
    }
    return [
        {"serviceAccountToken": {"expirationSeconds": _EXPIRATION, "path": "token"}},
        {
            "configMap": {
                "name": "kube-root-ca.crt",
                "items": [{"key": "ca.crt", "path": "ca.crt"}],
            }
        },
        {"downwardAPI": {"items": [namespace]}},
    ]
