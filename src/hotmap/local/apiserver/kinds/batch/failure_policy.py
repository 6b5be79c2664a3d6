"""The pod failure policy of Jobs (pkg/apis/batch/validation: validatePodFailurePolicy)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.field_errors import FieldError, duplicate, invalid_value, required, unsupported
from hotmap.local.json_object import JsonObject
from hotmap.local.names import qualified_name_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["default_failure_policy", "failure_policy_errors"]


_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_MOST_RULES, _MOST_PATTERNS, _MOST_CODES = 20, 20, 255


def default_failure_policy(spec: JsonObject) -> None:
    """Fill in what the policy of a Job leaves out, in place (SetDefaults_Job)."""
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern["status"] = pattern.get("status") or "True"


def failure_policy_errors(spec: JsonObject, path: str) -> Iterator[FieldError]:
    """Check the policy of a Job whose spec is at a path, and what it asks of the template."""
    policy = spec.get("podFailurePolicy")
    if policy is None:
        return
    rules, at = policy.get("rules") or (), f"{path}.podFailurePolicy.rules"
    yield from _too_many(rules, _MOST_RULES, at)
    pod = (spec.get("template") or {}).get("spec") or {}
    for index, rule in enumerate(rules):
        yield from _rule_errors(rule, spec, pod, f"{at}[{index}]")
    restarts = pod.get("restartPolicy")
    if restarts == "OnFailure":
        why = 'only "Never" is supported when podFailurePolicy is specified'
        yield invalid_value(f"{path}.template.spec.restartPolicy", restarts, why)


def _rule_errors(
    rule: JsonObject, spec: JsonObject, pod: JsonObject, path: str
) -> Iterator[FieldError]:
    yield from _choice_errors(rule.get("action"), _ACTIONS, f"{path}.action")
    if rule.get("action") == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        why = "requires the backoffLimitPerIndex to be set"
        yield invalid_value(f"{path}.action", "FailIndex", why)
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or ()
    if codes is not None:
        containers = [*(pod.get("containers") or ()), *(pod.get("initContainers") or ())]
        names = {container.get("name") for container in containers}
        yield from _exit_code_errors(codes, names, f"{path}.onExitCodes")
    yield from _too_many(conditions, _MOST_PATTERNS, f"{path}.onPodConditions")
    for index, pattern in enumerate(conditions):
        at = f"{path}.onPodConditions[{index}]"
        for why in qualified_name_errors(pattern.get("type", "")):
            yield invalid_value(f"{at}.type", pattern.get("type", ""), why)
        yield from _choice_errors(pattern.get("status"), _STATUSES, f"{at}.status")
    if codes is not None and conditions:
        yield _omitted(path, "specifying both OnExitCodes and OnPodConditions is not supported")
    if codes is None and not conditions:
        yield _omitted(path, "specifying one of OnExitCodes and OnPodConditions is required")


def _exit_code_errors(codes: JsonObject, names: set[Any], path: str) -> Iterator[FieldError]:
    yield from _choice_errors(codes.get("operator"), _OPERATORS, f"{path}.operator")
    name = codes.get("containerName")
    if name is not None and name not in names:
        why = "must be one of the container or initContainer names in the pod template"
        yield invalid_value(f"{path}.containerName", name, why)
    values, at = codes.get("values") or [], f"{path}.values"
    if not values:
        yield invalid_value(at, codes.get("values"), "at least one value is required")
    yield from _too_many(values, _MOST_CODES, at)
    seen: set[int] = set()
    for index, value in enumerate(values):
        if value == 0 and codes.get("operator") == "In":
            yield invalid_value(f"{at}[{index}]", value, "must not be 0 for the In operator")
        if value in seen:
            yield duplicate(f"{at}[{index}]", value)
        seen.add(value)
    if sorted(values) != values:
        yield invalid_value(at, values, "must be ordered")


def _omitted(path: str, why: str) -> FieldError:
    """Build the error of an invalid value that is not shown (field.OmitValueType)."""
    return FieldError("FieldValueInvalid", path, f"Invalid value: {why}")


def _choice_errors(value: Any, known: tuple[str, ...], path: str) -> Iterator[FieldError]:
    if not value:
        shown = " ".join(f'"{name}"' for name in known)
        yield required(path, f"valid values: [{shown}]")
    elif value not in known:
        yield unsupported(path, value, known)


def _too_many(items: Sequence[Any], most: int, path: str) -> Iterator[FieldError]:
    if len(items) > most:
        text = f"Too many: {len(items)}: must have at most {most} items"
        yield FieldError("FieldValueTooMany", path, text)
