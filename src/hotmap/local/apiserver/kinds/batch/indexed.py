"""What only Indexed Jobs may ask for: limits for each index, and a success policy.

pkg/apis/batch/validation: validateJobSpec, validateSuccessPolicy
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hotmap.local.field_errors import NOT_NEGATIVE, FieldError, invalid_value, required, too_long
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["indexed_errors"]


_MOST = 100_000
_MOST_OF_MANY = 10_000  # beyond 100,000 completions
_MOST_RULES = 20
_LONGEST_INDEXES = 64 << 10
_NOT_INDEXED = "requires indexed completion mode"
_NUMBER = re.compile(r"[+-]?\d+", re.ASCII)


def indexed_errors(spec: JsonObject, path: str) -> Iterator[FieldError]:
    """Check limits for each index, and the success policy, of a Job's spec at a path."""
    policy, failed = spec.get("successPolicy"), spec.get("maxFailedIndexes")
    if failed is not None and spec.get("backoffLimitPerIndex") is None:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    mode = spec.get("completionMode", "NonIndexed")
    if mode != "Indexed":
        limits = ("backoffLimitPerIndex", "maxFailedIndexes") if mode == "NonIndexed" else ()
        for field in (*limits, "successPolicy"):
            if spec.get(field) is not None:
                shown = _go_policy(spec[field]) if field == "successPolicy" else spec[field]
                yield invalid_value(f"{path}.{field}", shown, _NOT_INDEXED)
        return
    yield from _limit_errors(spec, path)
    if policy is not None:
        yield from _policy_errors(policy, spec.get("completions", 0), f"{path}.successPolicy.rules")


def _go_policy(policy: JsonObject) -> JsonObject:
    """Show a success policy as Go's messages do."""
    fields = {"SucceededIndexes": "succeededIndexes", "SucceededCount": "succeededCount"}
    rules = policy.get("rules")
    return {
        "Rules": rules and [{go: rule.get(name) for go, name in fields.items()} for rule in rules]
    }


def _limit_errors(spec: JsonObject, path: str) -> Iterator[FieldError]:
    parallelism = spec.get("parallelism", 1)
    completions, failed = spec.get("completions"), spec.get("maxFailedIndexes")
    if parallelism > _MOST:
        why = f"must be less than or equal to {_MOST} when completion mode is Indexed"
        yield invalid_value(f"{path}.parallelism", parallelism, why)
    if completions is not None and failed is not None and failed > completions:
        why = "must be less than or equal to completions"
        yield invalid_value(f"{path}.maxFailedIndexes", failed, why)
    if failed is not None and failed > _MOST:
        why = f"must be less than or equal to {_MOST}"
        yield invalid_value(f"{path}.maxFailedIndexes", failed, why)
    if (completions or 0) <= _MOST or spec.get("backoffLimitPerIndex") is None:
        return
    if failed is None:
        why = f"must be specified when completions is above {_MOST}"
        yield required(f"{path}.maxFailedIndexes", why)
    for field, value in (("parallelism", parallelism), ("maxFailedIndexes", failed or 0)):
        if value > _MOST_OF_MANY:
            why = (
                f"must be less than or equal to {_MOST_OF_MANY} when completions are above "
                f"{_MOST} and used with backoff limit per index"
            )
            yield invalid_value(f"{path}.{field}", value, why)


def _policy_errors(policy: JsonObject, completions: int, path: str) -> Iterator[FieldError]:
    rules = policy.get("rules") or ()
    if not rules:
        why = "at least one rules must be specified when the successPolicy is specified"
        yield required(path, why)
    if len(rules) > _MOST_RULES:
        text = f"Too many: {len(rules)}: must have at most {_MOST_RULES} items"
        yield FieldError("FieldValueTooMany", path, text)
    for number, rule in enumerate(rules):
        yield from _rule_errors(rule, completions, f"{path}[{number}]")


def _rule_errors(rule: JsonObject, completions: int, path: str) -> Iterator[FieldError]:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and indexes is None:
        why = "at least one of succeededCount or succeededIndexes must be specified"
        yield required(path, why)
    total = 0
    if indexes is not None:
        if len(indexes) > _LONGEST_INDEXES:
            yield too_long(f"{path}.succeededIndexes", _LONGEST_INDEXES)
        try:
            total = _count_indexes(indexes, completions)
        except ValueError as error:
            why = f"error parsing succeededIndexes: {error}"
            yield invalid_value(f"{path}.succeededIndexes", indexes, why)
    if count is None:
        return
    at = f"{path}.succeededCount"
    if count < 0:
        yield invalid_value(at, count, NOT_NEGATIVE)
    limits = [(completions, "the number of specified completions")]
    if indexes is not None:
        limits.append((total, "the number of indexes in the specified succeededIndexes field"))
    for most, what in limits:
        if count > most:
            yield invalid_value(at, count, f"must be less than or equal to {most} ({what})")


def _count_indexes(text: str, completions: int) -> int:
    """Count what a list of indexes and intervals names, such as `0,2-4`.

    Raises:
        ValueError: it is none, or names an index that the Job does not have.
    """
    total, last = 0, -1
    for part in text.split(",") if text else ():
        limits = part.split("-")
        if len(limits) > 2:
            raise ValueError(
                f'the fragment "{part}" violates the requirement that an index interval can have '
                "at most two parts separated by '-'"
            )
        first = _index(limits[0], completions)
        end = _index(limits[-1], completions)
        if len(limits) > 1:
            _check_order(first, end)
        _check_order(last, first)
        total, last = total + end - first + 1, end
    return total


def _check_order(previous: int, current: int) -> None:
    if previous >= current:
        raise ValueError(f"non-increasing order, previous: {previous}, current: {current}")


def _index(text: str, completions: int) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(f'cannot convert string to integer for index: "{text}"')
    if int(text) >= completions:
        raise ValueError(f'too large index: "{text}"')
    return int(text)
