"""How objects of the stored kinds are defaulted, validated and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.kinds import stored_validation as validation
from hotmap.local.apiserver.kinds.policy_validation import condition_errors
from hotmap.local.field_errors import FieldError, invalid_value, required, unsupported
from hotmap.local.names import subdomain_errors
from hotmap.local.strategy import Strategy, field_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

JsonObject = dict[str, Any]


class StoredStrategy(Strategy):
    """Store as sent; count generations where the kind has them."""

    def __init__(
        self,
        *,
        has_generation: bool = False,
        status: JsonObject | None = None,
        defaults: JsonObject | None = None,
        default: Callable[[JsonObject], None] | None = None,
        check: Callable[[JsonObject], Iterable[FieldError]] | None = None,
        check_update: Callable[[JsonObject, JsonObject], Iterable[FieldError]] | None = None,
        selectable: tuple[str, ...] = (),
    ) -> None:
        self.selectable_fields = field_labels(*selectable)
        self._default = default
        self.has_generation = has_generation
        self._status = {} if status is None else status
        self._defaults = {} if defaults is None else defaults
        self._check = check
        self._check_update = check_update

    def initial_status(self, obj: JsonObject) -> JsonObject | None:
        return dict(self._status)

    def default(self, obj: JsonObject) -> None:
        for field, value in self._defaults.items():
            obj.setdefault(field, value)
        if self._default is not None:
            self._default(obj)

    def validate(self, obj: JsonObject) -> list[FieldError]:
        return [] if self._check is None else list(self._check(obj))

    def validate_update(self, old: JsonObject, new: JsonObject) -> list[FieldError]:
        errors = self.validate(new)
        if self._check_update is not None:
            errors += self._check_update(old, new)
        return errors


class RBACStrategy(StoredStrategy):
    """Names of RBAC objects are path segments (ValidateRBACName)."""

    def __init__(self, *, namespaced: bool) -> None:
        super().__init__()
        self._namespaced = namespaced

    def name_errors(self, name: str) -> list[str]:
        if name in (".", ".."):
            return [f"may not be '{name}'"]
        return [f"may not contain '{char}'" for char in "/%" if char in name]

    def default(self, obj: JsonObject) -> None:
        reference = obj.get("roleRef")
        if reference is not None and not reference.get("apiGroup"):
            reference["apiGroup"] = "rbac.authorization.k8s.io"
        for subject in obj.get("subjects") or ():
            if subject.get("kind") in ("User", "Group"):
                subject.setdefault("apiGroup", "rbac.authorization.k8s.io")

    def validate(self, obj: JsonObject) -> list[FieldError]:
        if obj["kind"].endswith("Binding"):
            return list(validation.binding_errors(obj, namespaced=self._namespaced))
        return list(validation.rule_errors(obj.get("rules"), namespaced=self._namespaced))

    def validate_update(self, old: JsonObject, new: JsonObject) -> list[FieldError]:
        return [*self.validate(new), *validation.binding_update_errors(old, new)]


class ReturningStrategy(StoredStrategy):
    """Answers a deletion with the object (ReturnDeletedObject)."""

    returns_deleted = True


class UntypedStrategy(StoredStrategy):
    """Objects whose types no table describes."""

    typed = False


class BudgetStrategy(StoredStrategy):
    unconditional_update = False


class ReplicationControllerStrategy(StoredStrategy):
    default_propagation = "Orphan"


class SliceStrategy(StoredStrategy):
    """EndpointSlices have no spec: any change of their content counts."""

    def changes_generation(self, old: JsonObject, new: JsonObject) -> bool:
        return any(
            old.get(field) != new.get(field) for field in ("endpoints", "ports", "addressType")
        ) or (old["metadata"].get("labels") != new["metadata"].get("labels"))


class LimitRangeStrategy(StoredStrategy):
    """Limits follow from each other (pkg/apis/core/v1/defaults.go, SetDefaults_LimitRangeItem)."""

    def default(self, obj: JsonObject) -> None:
        for limits in (obj.get("spec") or {}).get("limits") or ():
            if limits.get("type") != "Container":
                continue
            defaults = limits.setdefault("default", {})
            for name, amount in (limits.get("max") or {}).items():
                defaults.setdefault(name, amount)
            requests = limits.setdefault("defaultRequest", {})
            for name, amount in {**(limits.get("min") or {}), **defaults}.items():
                requests.setdefault(name, amount)
            for field in ("default", "defaultRequest"):
                if not limits[field]:
                    del limits[field]


def _webhook_name_errors(name: str, path: str) -> list[FieldError]:
    """Check that a name is fully qualified (IsFullyQualifiedName)."""
    if not name:
        return [required(path)]
    errors = [invalid_value(path, name, why) for why in subdomain_errors(name)]
    if not errors and name.count(".") < 2:
        why = "should be a domain with at least three segments separated by dots"
        errors.append(invalid_value(path, name, why))
    return errors


class WebhooksStrategy(StoredStrategy):
    """Webhooks are called within ten seconds and must answer, unless they say otherwise."""

    def default(self, obj: JsonObject) -> None:
        for webhook in obj.get("webhooks") or ():
            webhook.setdefault("failurePolicy", "Fail")
            webhook.setdefault("matchPolicy", "Equivalent")
            webhook.setdefault("namespaceSelector", {})
            webhook.setdefault("objectSelector", {})
            webhook.setdefault("timeoutSeconds", 10)
            if obj.get("kind") == "MutatingWebhookConfiguration":
                webhook.setdefault("reinvocationPolicy", "Never")
            for rule in webhook.get("rules") or ():
                rule.setdefault("scope", "*")
            service = (webhook.get("clientConfig") or {}).get("service")
            if service is not None:
                service.setdefault("port", 443)

    def validate(self, obj: JsonObject) -> list[FieldError]:
        errors: list[FieldError] = []
        for index, webhook in enumerate(obj.get("webhooks") or ()):
            path = f"webhooks[{index}]"
            errors += _webhook_name_errors(webhook.get("name", ""), f"{path}.name")
            if not webhook.get("admissionReviewVersions"):
                why = "must specify one of v1, v1beta1"
                errors.append(required(f"{path}.admissionReviewVersions", why))
            errors += condition_errors(webhook.get("matchConditions"), f"{path}.matchConditions")
            if webhook.get("sideEffects") not in ("None", "NoneOnDryRun"):
                known = ("None", "NoneOnDryRun")
                errors.append(
                    unsupported(f"{path}.sideEffects", webhook.get("sideEffects", ""), known)
                )
            client = webhook.get("clientConfig") or {}
            if ("url" in client) is ("service" in client):
                errors.append(
                    required(f"{path}.clientConfig", "exactly one of url or service is required")
                )
            elif "url" in client and not str(client["url"]).startswith("https://"):
                text = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
                errors.append(invalid_value(f"{path}.clientConfig.url", client["url"], text))
        return errors
