"""How deep a body may be nested."""

from __future__ import annotations

__all__ = ["MAX_DEPTH", "is_too_deep"]

#: Objects and arrays around a value. Upstream takes 10,000 (apimachinery: util/json), and Go's
#: stack grows for them; what walks through objects here calls itself up to three times per level.
#: Kubernetes' own types need a few dozens.
MAX_DEPTH = 200


def is_too_deep(value: object) -> bool:
    """Return whether a decoded value is nested deeper than `MAX_DEPTH`."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        inner: list[object] = []
        for node in level:
            if isinstance(node, dict):
                inner.extend(node.values())
            elif isinstance(node, list):
                inner.extend(node)
        level = inner
        if not level:
            return False
    return True
