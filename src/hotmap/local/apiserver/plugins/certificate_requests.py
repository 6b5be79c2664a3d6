"""Certificate signing requests say who has sent them.

pkg/registry/certificates/certificates/strategy.go, PrepareForCreate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotmap.local.apiserver.plugins import AdmissionRequest

__all__ = ["CertificateRequestPlugin"]

JsonObject = dict[str, Any]

_FIELDS = ("username", "uid", "groups", "extra")


class CertificateRequestPlugin:
    """Write the sender of a request into it; what a client says of that is dropped."""

    def admit(self, request: AdmissionRequest) -> None:
        if request.kind.kind != "CertificateSigningRequest" or request.old is not None:
            return
        spec = request.obj.setdefault("spec", {})
        for field in _FIELDS:
            spec.pop(field, None)
        user = request.user.document()
        spec |= {field: user[field] for field in _FIELDS if user.get(field)}

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse nothing."""
