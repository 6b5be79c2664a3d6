"""Restart policies and rules of containers.

kubernetes: pkg/apis/core/validation/validation.go, validateContainerRestartPolicy. Paths and texts
are upstream's.
"""

from __future__ import annotations

from typing import Any

from hotmap.local.field_errors import FieldError, required, too_many, unsupported

__all__ = ["restart_errors"]

_POLICIES = ("Always", "Never", "OnFailure")
_ACTIONS = ("Restart", "RestartAllContainers")
_MAX_RULES = 20
_MAX_EXIT_CODES = 255


def restart_errors(container: dict[str, Any], path: str) -> list[FieldError]:
    """Check the restart policy of a container, which may have none, and its rules."""
    errors: list[FieldError] = []
    rules = container.get("restartPolicyRules") or ()
    policy = container.get("restartPolicy")
    if policy is None and rules:
        why = "must specify restartPolicy when restart rules are used"
        errors.append(required(f"{path}.restartPolicy", why))
    elif policy is not None and policy not in _POLICIES:
        errors.append(unsupported(f"{path}.restartPolicy", policy, _POLICIES))
    at = f"{path}.restartPolicyRules"
    if len(rules) > _MAX_RULES:
        errors.append(too_many(at, len(rules), _MAX_RULES))
    for index, rule in enumerate(rules):
        errors += _rule_errors(rule, f"{at}[{index}]")
    return errors


def _rule_errors(rule: dict[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    action = rule.get("action", "")
    if action not in _ACTIONS:
        errors.append(unsupported(f"{path}.action", action, _ACTIONS))
    codes = rule.get("exitCodes")
    if codes is None:
        return [*errors, required(f"{path}.exitCodes", "must be specified")]
    operator, values = codes.get("operator", ""), codes.get("values") or ()
    if operator not in ("In", "NotIn"):
        errors.append(unsupported(f"{path}.exitCodes.operator", operator, ("In", "NotIn")))
    if len(values) > _MAX_EXIT_CODES:
        errors.append(too_many(f"{path}.exitCodes.values", len(values), _MAX_EXIT_CODES))
    return errors
