"""Label selectors, wherever objects have them (apimachinery: meta/v1/validation)."""

from __future__ import annotations

from hotmap.local.field_errors import FieldError, forbidden_field, invalid_value, required
from hotmap.local.json_object import JsonObject
from hotmap.local.names import label_value_errors, qualified_name_errors

__all__ = ["selector_errors"]


def selector_errors(selector: JsonObject | None, path: str) -> list[FieldError]:
    """Check a LabelSelector (ValidateLabelSelector)."""
    errors: list[FieldError] = []
    if selector is None:
        return errors
    for key, value in (selector.get("matchLabels") or {}).items():
        at = f"{path}.matchLabels"
        errors += [invalid_value(at, key, why) for why in qualified_name_errors(key)]
        errors += [invalid_value(at, value, why) for why in label_value_errors(value)]
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        errors += _expression_errors(expression, f"{path}.matchExpressions[{index}]")
    return errors


def _expression_errors(expression: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, values = expression.get("operator", ""), expression.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            why = "must be specified when `operator` is 'In' or 'NotIn'"
            errors.append(required(f"{path}.values", why))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden_field(f"{path}.values", why))
    else:
        why = "not a valid selector operator"
        errors.append(invalid_value(f"{path}.operator", operator, why))
    key = expression.get("key", "")
    errors += [invalid_value(f"{path}.key", key, why) for why in qualified_name_errors(key)]
    for index, value in enumerate(values):
        at = f"{path}.values[{index}]"
        errors += [invalid_value(at, value, why) for why in label_value_errors(value)]
    return errors
