"""The status document in words, for a terminal."""

from __future__ import annotations

from hotmap.core.text import printable

__all__ = ["format_status"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Mapping
    from typing import Any


def format_status(status: Mapping[str, Any]) -> str:
    """Format the status, a fact on each line, errors first; control characters are escaped."""
    return "\n".join(map(printable, _lines(status)))


def _lines(status: Mapping[str, Any]) -> list[str]:
    lines = [f"{status['state']}: {status['message']}" if status["message"] else status["state"]]
    check = status["check"]
    if check["error"]:
        lines += _indented("  ", f"check {check['state']}: {check['error']}")
    lines += [f"  problem: {problem}" for problem in status["problems"]]
    shown = {check["error"], *(rule["error"] for rule in status["rules"])}
    for directory in status["directories"]:
        lines += _directory_lines(directory, shown)
    for rule in status["rules"]:
        waiting = f" for {rule['pending_seconds']:.0f}s" if rule["pending_seconds"] else ""
        error = f": {rule['error']}" if rule["error"] else ""
        lines += _indented("  ", f"rule {rule['name']}: {rule['state']}{waiting}{error}")
    target = status["target"]
    if target["state"] != "none":
        lines.append(f"  target: {target['live']}, {target['state']}")
    detector = status["detector"]
    reason = f" ({detector['reason']})" if detector["reason"] else ""
    lines.append(f"  detector: {detector['mode']}{reason}")
    return [line for text in lines for line in text.split("\n")]


def _directory_lines(directory: Mapping[str, Any], shown: Container[str]) -> list[str]:
    """Format one directory; `shown` are errors that other lines have."""
    seconds = directory["pending_seconds"]
    pending = f", pending for {seconds:.0f}s" if seconds else ""
    lines = [
        f"  {directory['directory']}: {directory['kind']}, detected by {directory['detector']}",
        f"    projected {directory['projected'] or '-'}",
        f"    loaded    {directory['loaded'] or '-'}{pending}",
    ]
    if directory["evidence"]:
        lines.append(f"    target    {directory['target']} ({directory['evidence']})")
    for text in (directory["note"], directory["error"]):
        if text and text not in shown:
            lines += _indented("    ", text)
    return lines


def _indented(margin: str, text: str) -> list[str]:
    """Indent a text of several lines, those after the first a bit further."""
    first, *rest = text.splitlines() or [""]
    return [margin + first, *(f"{margin}  {line}" for line in rest)]
