"""Configurations of webhooks (pkg/apis/admissionregistration/validation)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.kinds.validation.admission_policies import condition_errors
from hotmap.local.field_errors import FieldError, invalid_value, required, unsupported
from hotmap.local.names import subdomain_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

JsonObject = dict[str, Any]


def webhooks_errors(obj: JsonObject) -> Iterator[FieldError]:
    """Check a MutatingWebhookConfiguration or ValidatingWebhookConfiguration."""
    for index, webhook in enumerate(obj.get("webhooks") or ()):
        path = f"webhooks[{index}]"
        yield from _webhook_name_errors(webhook.get("name", ""), f"{path}.name")
        if not webhook.get("admissionReviewVersions"):
            why = "must specify one of v1, v1beta1"
            yield required(f"{path}.admissionReviewVersions", why)
        yield from condition_errors(webhook.get("matchConditions"), f"{path}.matchConditions")
        if webhook.get("sideEffects") not in ("None", "NoneOnDryRun"):
            known = ("None", "NoneOnDryRun")
            yield unsupported(f"{path}.sideEffects", webhook.get("sideEffects", ""), known)
        client = webhook.get("clientConfig") or {}
        if ("url" in client) is ("service" in client):
            yield required(f"{path}.clientConfig", "exactly one of url or service is required")
        elif "url" in client and not str(client["url"]).startswith("https://"):
            text = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
            yield invalid_value(f"{path}.clientConfig.url", client["url"], text)


def _webhook_name_errors(name: str, path: str) -> list[FieldError]:
    """Check that a name is fully qualified (IsFullyQualifiedName)."""
    if not name:
        return [required(path)]
    errors = [invalid_value(path, name, why) for why in subdomain_errors(name)]
    if not errors and name.count(".") < 2:
        why = "should be a domain with at least three segments separated by dots"
        errors.append(invalid_value(path, name, why))
    return errors
