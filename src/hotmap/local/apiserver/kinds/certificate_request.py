"""CertificateSigningRequests: what may be requested, approved, denied and issued.

pkg/registry/certificates/certificates/strategy.go, pkg/apis/certificates/validation.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.kinds.stored_strategies import StoredStrategy
from hotmap.local.certificate_authority import USAGES, certificate_error, parse_request
from hotmap.local.field_errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
    too_long,
    unsupported,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.names import label_name_errors, subdomain_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CertificateRequestStrategy"]


LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
_APPROVALS = ("Approved", "Denied")
_FINAL = (*_APPROVALS, "Failed")
_STATUSES = ("False", "True", "Unknown")
_LEAST_SECONDS = 600
_SUBDOMAIN_LIMIT, _LABEL_LIMIT = 253, 63
_CONDITIONS = "status.conditions"
_EXCLUSIVE = "Approved and Denied conditions are mutually exclusive"


class CertificateRequestStrategy(StoredStrategy):
    """Only subresources change a request after its creation."""

    def __init__(self) -> None:
        super().__init__(selectable=("spec.signerName",))

    def name_errors(self, name: str) -> list[str]:
        return []

    def validate(self, obj: JsonObject) -> list[FieldError]:
        return [*_spec_errors(obj, None), *_condition_errors(obj, None)]

    def reset(self, old: JsonObject, new: JsonObject) -> None:
        new["spec"] = old["spec"]

    def validate_update(self, old: JsonObject, new: JsonObject) -> list[FieldError]:
        return list(_update_errors(old, new, ""))

    def prepare_subresource(self, old: JsonObject, new: JsonObject, subresource: str) -> None:
        before, after = old.get("status") or {}, new.get("status") or {}
        if subresource == "approval":
            after = {**before, "conditions": after.get("conditions") or []}
        elif subresource == "status":
            conditions = [dict(condition) for condition in after.get("conditions") or ()]
            for kind in _APPROVALS:
                _preserve(conditions, before.get("conditions") or (), kind)
            after = {**after, "conditions": conditions}
        if not after.get("conditions"):
            after = {field: value for field, value in after.items() if field != "conditions"}
        new["status"] = after

    def validate_subresource(
        self, old: JsonObject, new: JsonObject, subresource: str
    ) -> list[FieldError]:
        return list(_update_errors(old, new, subresource))


def _preserve(conditions: list[JsonObject], before: Any, kind: str) -> None:
    """Put back the conditions of one type, if there are as many as before, in place."""
    old = [condition for condition in before if condition.get("type") == kind]
    places = [place for place, each in enumerate(conditions) if each.get("type") == kind]
    if len(old) == len(places):
        for place, condition in zip(places, old, strict=True):
            conditions[place] = condition


def _spec_errors(request: JsonObject, old: JsonObject | None) -> Iterator[FieldError]:
    spec = request.get("spec") or {}
    text, usages = spec.get("request", ""), spec.get("usages") or []
    why = _request_error(text)
    if why:
        yield invalid_value("spec.request", text, why)
    if not usages:
        yield required("spec.usages")
    before = [] if old is None else (old.get("spec") or {}).get("usages") or []
    if set(before) <= set(USAGES):
        for index, usage in enumerate(usages):
            if usage not in USAGES:
                yield unsupported(f"spec.usages[{index}]", usage, USAGES)
    if len(set(before)) == len(before):
        for index, usage in enumerate(usages):
            if usage in usages[:index]:
                yield duplicate(f"spec.usages[{index}]", usage)
    signer = spec.get("signerName", "")
    if signer == LEGACY_SIGNER and old is None:
        why = "the legacy signerName is not allowed via this API version"
        yield invalid_value("spec.signerName", signer, why)
    else:
        yield from signer_name_errors(signer, "spec.signerName")
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _LEAST_SECONDS:
        why = "may not specify a duration less than 600 seconds (10 minutes)"
        yield invalid_value("spec.expirationSeconds", seconds, why)


def _request_error(text: str) -> str:
    try:
        return parse_request(base64.b64decode(text)).signature_error
    except (ValueError, binascii.Error) as error:
        return str(error)


def signer_name_errors(name: str, path: str) -> Iterator[FieldError]:
    """Check the name of a signer (pkg/apis/core/validation, ValidateSignerName)."""
    if not name:
        yield required(path)
        return
    segments = name.split("/")
    if len(segments) != 2:
        why = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        yield invalid_value(path, name, why)
        return
    domain, rest = segments
    labels = domain.split(".")
    if len(domain) > _SUBDOMAIN_LIMIT:
        yield too_long(path, _SUBDOMAIN_LIMIT)
    for value, parts, rule in (
        (domain, labels, label_name_errors),
        (rest, rest.split("."), subdomain_errors),
    ):
        wrong = next((part for part in parts if rule(part)), None)
        if wrong is not None:
            for why in rule(wrong):
                yield invalid_value(path, value, f'validating label "{wrong}": {why}')
        if value is domain and len(labels) < 2:
            why = "should be a domain with at least two segments separated by dots"
            yield invalid_value(path, domain, why)
    limit = 2 * _SUBDOMAIN_LIMIT + _LABEL_LIMIT + 2
    if len(name) > limit:
        yield too_long(path, limit)


def _condition_errors(request: JsonObject, old: JsonObject | None) -> Iterator[FieldError]:
    before = [str(condition.get("type", "")) for condition in _conditions(old)]
    seen: list[str] = []
    for index, condition in enumerate(_conditions(request)):
        at, kind = f"{_CONDITIONS}[{index}]", condition.get("type", "")
        status = condition.get("status", "")
        if not kind and "" not in before:
            yield required(f"{at}.type")
        allowed = ("True",) if kind in _FINAL else _STATUSES
        if not status:
            yield required(f"{at}.status")
        elif status not in allowed:
            yield unsupported(f"{at}.status", status, allowed)
        if kind in _APPROVALS and not set(_APPROVALS) <= set(before):
            other = _APPROVALS[kind == _APPROVALS[0]]
            if other in seen:
                yield invalid_value(_CONDITIONS, kind, _EXCLUSIVE)
        if kind in seen and len(set(before)) == len(before):
            yield duplicate(f"{at}.type", kind)
        seen.append(kind)


def _conditions(request: JsonObject | None) -> list[JsonObject]:
    return list(((request or {}).get("status") or {}).get("conditions") or ())


def _update_errors(old: JsonObject, new: JsonObject, subresource: str) -> Iterator[FieldError]:
    yield from _spec_errors(new, old)
    yield from _condition_errors(new, old)
    before, after = _certificate(old), _certificate(new)
    if before != after and not _malformed(before):
        why = _malformed(after)
        if why:
            yield invalid_value("status.certificate", "<certificate data>", why)
    for kind in _FINAL:
        was, becomes = _of_type(old, kind), _of_type(new, kind)
        if len(becomes) < len(was):
            why = f'updates may not remove a condition of type "{kind}"'
            yield forbidden_field(_CONDITIONS, why)
    for kind in _APPROVALS if subresource != "approval" else ():
        was, becomes = _of_type(old, kind), _of_type(new, kind)
        if len(becomes) > len(was):
            why = f'updates may not add a condition of type "{kind}"'
            yield forbidden_field(_CONDITIONS, why)
    if before != after:
        if subresource != "status":
            why = "updates may not set certificate content"
            yield forbidden_field("status.certificate", why)
        elif before:
            why = "updates may not modify existing certificate content"
            yield forbidden_field("status.certificate", why)


def _certificate(request: JsonObject) -> str:
    return (request.get("status") or {}).get("certificate") or ""


def _malformed(certificate: str) -> str:
    try:
        return certificate_error(base64.b64decode(certificate))
    except binascii.Error:
        return "must contain at least one CERTIFICATE PEM block"


def _of_type(request: JsonObject, kind: str) -> list[JsonObject]:
    return [condition for condition in _conditions(request) if condition.get("type") == kind]
