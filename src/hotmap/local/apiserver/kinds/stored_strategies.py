"""How objects of the stored kinds are defaulted, validated and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.kinds.workload import is_new_generation
from hotmap.local.apiserver.pod_warnings import pod_warnings
from hotmap.local.field_errors import FieldError
from hotmap.local.json_object import JsonObject
from hotmap.local.names import path_segment_errors
from hotmap.local.strategy import Strategy, field_labels

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotmap.local.apiserver.kinds.validation import Rules


class StoredStrategy(Strategy):
    """Check by the rules of the kind; count generations where the kind has them."""

    #: What is filled in and checked; None for nothing.
    fill_in: Callable[[JsonObject], None] | None = None
    rules: Rules | None = None

    def __init__(
        self,
        *,
        has_generation: bool = False,
        status: JsonObject | None = None,
        selectable: tuple[str, ...] = (),
    ) -> None:
        self.selectable_fields = field_labels(*selectable)
        self.has_generation = has_generation
        self._status = {} if status is None else status

    def initial_status(self, obj: JsonObject) -> JsonObject | None:
        return dict(self._status)

    def default(self, obj: JsonObject) -> None:
        if self.fill_in is not None:
            self.fill_in(obj)

    def validate(self, obj: JsonObject) -> list[FieldError]:
        if self.rules is None:
            return []
        return [*self.rules.check(obj), *self.rules.check_create(obj)]

    def validate_update(self, old: JsonObject, new: JsonObject) -> list[FieldError]:
        if self.rules is None:
            return []
        return [*self.rules.check(new), *self.rules.check_update(old, new)]


class UpsertedStrategy(StoredStrategy):
    """Objects that a PUT creates where they do not exist (AllowCreateOnUpdate)."""

    create_on_update = True


class RBACStrategy(StoredStrategy):
    """Names of RBAC objects are path segments (ValidateRBACName)."""

    create_on_update = True

    def name_errors(self, name: str) -> list[str]:
        return path_segment_errors(name)


class ReturningStrategy(StoredStrategy):
    """Answers a deletion with the object (ReturnDeletedObject)."""

    returns_deleted = True


class UntypedStrategy(StoredStrategy):
    """Objects whose types no table describes."""

    typed = False


class BudgetStrategy(RBACStrategy):
    """Their names are not checked beyond that (ValidatePodDisruptionBudget)."""

    create_on_update = False
    unconditional_update = False


class TemplateStrategy(StoredStrategy):
    """A stored kind with a pod template, at these fields."""

    template_fields: tuple[str, ...] = ()

    def warnings(self, obj: JsonObject) -> list[str]:
        template: Any = obj
        for field in self.template_fields:
            template = template.get(field) or {}
        return pod_warnings(template.get("spec") or {}, ".".join((*self.template_fields, "spec")))

    def update_warnings(self, old: JsonObject, new: JsonObject) -> list[str]:
        return self.warnings(new) if is_new_generation(old, new) else []


class ReplicationControllerStrategy(TemplateStrategy):
    default_propagation = "Orphan"
    template_fields = ("spec", "template")


class PodTemplateStrategy(TemplateStrategy):
    """Has no spec, and answers a deletion with the object (ReturnDeletedObject)."""

    returns_deleted = True
    template_fields = ("template",)

    def changes_generation(self, old: JsonObject, new: JsonObject) -> bool:
        return bool(old["template"] != new["template"])


class DriverStrategy(ReturningStrategy):
    """CSIDrivers have no generation before they are changed."""

    def changes_generation(self, old: JsonObject, new: JsonObject) -> bool:
        return bool(old["spec"] != new["spec"])


class WebhooksStrategy(StoredStrategy):
    """Their configurations have no spec."""

    def changes_generation(self, old: JsonObject, new: JsonObject) -> bool:
        return old.get("webhooks") != new.get("webhooks")


class SliceStrategy(StoredStrategy):
    """EndpointSlices have no spec: any change of their content counts."""

    def changes_generation(self, old: JsonObject, new: JsonObject) -> bool:
        return any(
            old.get(field) != new.get(field) for field in ("endpoints", "ports", "addressType")
        ) or (old["metadata"].get("labels") != new["metadata"].get("labels"))
