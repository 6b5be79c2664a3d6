"""Completion indexes of Indexed Jobs, as sets and as text.

kubernetes: pkg/controller/job/indexed_job_utils.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from hotmap.local.meta import Object, annotations_of

__all__ = ["completion_index", "format_indexes", "parse_indexes"]

#: Indexes above are ignored, so that the text of a status cannot take all memory.
_HIGHEST = 1_000_000
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


def parse_indexes(text: str, completions: int) -> set[int]:
    """Read text such as `0,2-4`; ignore anything else, and indexes beyond the completions."""
    found: set[int] = set()
    for interval in filter(None, text.split(",")):
        first, _, last = interval.partition("-")
        try:
            start, end = int(first), int(last or first)
        except ValueError:
            continue
        found.update(range(max(start, 0), min(end, completions - 1, _HIGHEST) + 1))
    return found


def format_indexes(indexes: Iterable[int]) -> str:
    """Write indexes as the intervals that they form; two neighbours are written apart."""
    intervals: list[list[int]] = []
    for index in sorted(set(indexes)):
        if intervals and index == intervals[-1][1] + 1:
            intervals[-1][1] = index
        else:
            intervals.append([index, index])
    return ",".join(
        str(first) if first == last else f"{first}{',' if last == first + 1 else '-'}{last}"
        for first, last in intervals
    )


def completion_index(pod: Object) -> int | None:
    """Return the index that a pod works on; None without a valid one."""
    text = annotations_of(pod).get(COMPLETION_INDEX, "")
    is_index = text.isascii() and text.isdigit() and len(text) <= len(str(_HIGHEST))
    return int(text) if is_index else None
