"""Expressions in CEL over a write: conditions of webhooks, and admission policies.

apiserver/pkg/admission/plugin/cel. The language is that of `custom.rules`; without its package no
expression can be evaluated, which counts as an error of the expression.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.custom.expression_cost import exceeds_limit, is_oversized
from hotmap.local.apiserver.custom.rules import compile_expression, evaluate
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from hotmap.local.apiserver.admission_match import Operation

__all__ = ["ExpressionError", "evaluate_expression", "first_false", "variables_of"]


class ExpressionError(Exception):
    """An expression has no value; the text says why."""


def variables_of(
    operation: Operation, request: JsonObject, namespace: JsonObject | None
) -> JsonObject:
    """Return what expressions see of a write."""
    shown = {name: v for name, v in request.items() if name not in ("object", "oldObject")}
    return {
        "object": operation.obj,
        "oldObject": operation.old,
        "request": shown,
        "namespaceObject": namespace,
    }


def evaluate_expression(text: str, variables: JsonObject) -> Any:
    """Evaluate an expression.

    Raises:
        ExpressionError: it cannot be compiled, or has no value for these variables.
    """
    program = compile_expression(text)
    if program is None:
        raise ExpressionError("compilation error: the expression cannot be evaluated here")
    if exceeds_limit(text, variables):
        raise ExpressionError("operation cancelled: actual cost limit exceeded")
    try:
        value = evaluate(program, variables)
    except Exception as error:
        raise ExpressionError(str(error)) from None
    if is_oversized(value):
        raise ExpressionError("operation cancelled: actual cost limit exceeded")
    return value


def first_false(conditions: Any, variables: JsonObject) -> str | None:
    """Return the name of the first condition that does not hold, None if all do.

    Raises:
        ExpressionError: one has no value, and none before it is false.
    """
    failure: ExpressionError | None = None
    for condition in conditions or ():
        try:
            if evaluate_expression(condition["expression"], variables) is not True:
                return str(condition.get("name", ""))
        except ExpressionError as error:
            failure = failure or ExpressionError(
                f"failed to evaluate match condition '{condition.get('name', '')}': {error}"
            )
    if failure is not None:
        raise failure
    return None
