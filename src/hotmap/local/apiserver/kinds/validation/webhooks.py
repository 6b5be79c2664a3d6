"""Configurations of webhooks (pkg/apis/admissionregistration/validation)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hotmap.local.apiserver.kinds.validation.admission_policies import condition_errors
from hotmap.local.apiserver.kinds.validation.admission_rules import asked_errors
from hotmap.local.apiserver.selector_validation import selector_errors
from hotmap.local.field_errors import (
    PORT_RANGE,
    FieldError,
    choice_errors,
    duplicate,
    invalid_value,
    name_errors,
    required,
    rule_errors,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.names import label_1035_errors, subdomain_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

_VERSIONS = ("v1", "v1beta1")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_FORM = "; desired format: https://host[/path]"


def webhooks_errors(obj: JsonObject) -> Iterator[FieldError]:
    """Check a MutatingWebhookConfiguration or ValidatingWebhookConfiguration."""
    seen: set[str] = set()
    for index, webhook in enumerate(obj.get("webhooks") or ()):
        path, name = f"webhooks[{index}]", webhook["name"]
        yield from _webhook_errors(webhook, path)
        versions = webhook.get("admissionReviewVersions") or []
        yield from _version_errors(versions, f"{path}.admissionReviewVersions")
        if name and name in seen:
            yield duplicate(f"{path}.name", name)
        seen.add(name)


def _webhook_errors(webhook: JsonObject, path: str) -> Iterator[FieldError]:
    yield from name_errors(webhook["name"], f"{path}.name", _full_name_errors)
    for index, rule in enumerate(webhook.get("rules") or ()):
        yield from asked_errors(rule, f"{path}.rules[{index}]")
    yield from choice_errors(webhook, path, "failurePolicy", ("Fail", "Ignore"))
    yield from choice_errors(webhook, path, "matchPolicy", ("Equivalent", "Exact"))
    if "sideEffects" in webhook:
        yield from choice_errors(webhook, path, "sideEffects", _SIDE_EFFECTS)
    else:
        yield required(f"{path}.sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}")
    seconds = webhook["timeoutSeconds"]
    if not 1 <= seconds <= 30:
        why = "the timeout value must be between 1 and 30 seconds"
        yield invalid_value(f"{path}.timeoutSeconds", seconds, why)
    for field in ("namespaceSelector", "objectSelector"):
        yield from selector_errors(webhook[field], f"{path}.{field}")
    if "reinvocationPolicy" in webhook:
        yield from choice_errors(webhook, path, "reinvocationPolicy", ("IfNeeded", "Never"))
    client, at = webhook["clientConfig"], f"{path}.clientConfig"
    if ("url" in client) is ("service" in client):
        yield required(at, "exactly one of url or service is required")
    elif "url" in client:
        yield from _url_errors(client["url"], f"{at}.url")
    else:
        yield from _service_errors(client["service"], f"{at}.service")
    yield from condition_errors(webhook.get("matchConditions"), f"{path}.matchConditions")


def _full_name_errors(name: str) -> list[str]:
    """Check that a name is fully qualified (IsFullyQualifiedName)."""
    errors = subdomain_errors(name)
    if not errors and name.count(".") < 2:
        return ["should be a domain with at least three segments separated by dots"]
    return errors


def _version_errors(versions: list[str], path: str) -> Iterator[FieldError]:
    """Check in which versions a webhook is asked (validateAdmissionReviewVersions)."""
    known = ", ".join(_VERSIONS)
    for index, version in enumerate(versions):
        if version in versions[:index]:
            yield invalid_value(f"{path}[{index}]", version, "duplicate version")
        else:
            yield from rule_errors(f"{path}[{index}]", version, label_1035_errors)
    if not versions:
        yield required(path, f"must specify one of {known}")
    elif not set(versions) & set(_VERSIONS):
        yield invalid_value(path, versions, f"must include at least one of {known}")


def _url_errors(text: str, path: str) -> Iterator[FieldError]:
    """Check where a webhook is (ValidateWebhookURL)."""
    try:
        url = urlsplit(text)
    except ValueError as error:
        yield required(path, f"url must be a valid URL: {error}{_FORM}")
        return
    user, _, host = url.netloc.rpartition("@")
    if url.scheme != "https":
        yield invalid_value(path, url.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    if not host:
        yield invalid_value(path, host, f"host must be specified{_FORM}")
    for part, called in (
        (user, "user information is"),
        (url.fragment, "fragments are"),
        (url.query, "query parameters are"),
    ):
        if part:
            yield invalid_value(path, part, f"{called} not permitted in the URL")


def _service_errors(service: JsonObject, path: str) -> Iterator[FieldError]:
    """Check which Service a webhook is (ValidateWebhookService)."""
    # Upstream mistakes the one for the other.
    for field, other in (("namespace", "name"), ("name", "namespace")):
        if not service[field]:
            yield required(f"{path}.{other}")
    port, text = service["port"], service.get("path") or "/"
    if not 0 < port < 1 << 16:
        yield invalid_value(f"{path}.port", port, f"port is not valid: {PORT_RANGE}")
    if text == "/":
        return
    if not text.startswith("/"):
        yield invalid_value(f"{path}.path", text, "must start with a '/'")
    for index, step in enumerate(text[1:].removesuffix("/").split("/")):
        whys = [f": {why}" for why in subdomain_errors(step)] if step else [" may not be empty"]
        for why in whys:
            yield invalid_value(f"{path}.path", text, f"segment[{index}]{why}")
