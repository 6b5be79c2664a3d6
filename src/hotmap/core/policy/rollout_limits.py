"""How many workloads are rolled out at a time for one source, by annotations and the default."""

from __future__ import annotations

from collections.abc import Mapping

from hotmap.core.model.annotations import MAX_ROLLOUTS
from hotmap.core.text import parse_number, quote_short

__all__ = ["HIGHEST_ROLLOUT_LIMIT", "parse_rollout_limit", "read_rollout_limit"]

HIGHEST_ROLLOUT_LIMIT = 10_000

#: For a value that cannot be read: its author wanted fewer rollouts than without a limit.
_SAFE = 1


def parse_rollout_limit(text: str) -> int:
    """Read a limit; 0 is none.

    Raises:
        ValueError: it is not a number, or is too high.
    """
    limit = parse_number(text.strip())
    if limit is None or limit > HIGHEST_ROLLOUT_LIMIT:
        raise ValueError(
            f"invalid number {quote_short(text)}: "
            f"expected 0 (no limit) to {HIGHEST_ROLLOUT_LIMIT}; treating as {_SAFE}"
        )
    return limit


def read_rollout_limit(
    source: Mapping[str, str] | None, namespace: Mapping[str, str] | None, *, default: int
) -> int:
    """Return the limit of a source: its own, else its Namespace's, else the default; 0: none."""
    for present in (source, namespace):
        if present and (text := present.get(MAX_ROLLOUTS)) is not None:
            try:
                return parse_rollout_limit(text)
            except ValueError:  # reported on that object
                return _SAFE
    return default
