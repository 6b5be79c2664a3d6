"""The status document: everything that the agent reports, as JSON values."""

from __future__ import annotations

__all__ = ["make_status"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hotmap.agent.decide.directory_states import DirectoryState
    from hotmap.agent.decide.reconciler import Reconciler
    from hotmap.agent.decide.rule_state import RuleState
    from hotmap.agent.process.application import ApplicationStatus
    from hotmap.agent.watch.observer import ObserverStatus


def make_status(
    now: float,
    observer: ObserverStatus,
    reconciler: Reconciler,
    application: ApplicationStatus,
    problems: list[str],
) -> dict[str, Any]:
    """Make the document; `now` is seconds since boot."""
    state, message = _overall_state(observer, reconciler)
    gate, directories = reconciler.gate, reconciler.directories
    announcement = directories.announcement
    detector = observer.detector
    return {
        "state": state,
        "message": message,
        "directories": _directories(now, observer, reconciler),
        "rules": [_rule(now, rule, observer, reconciler) for rule in reconciler.rules],
        "check": {"state": gate.state, "error": gate.error, "counts": dict(reconciler.checks)},
        "target": {
            "state": directories.target_state,
            "sequence": announcement.sequence if announcement else None,
            "live": announcement.live if announcement else None,
            "frozen": announcement.frozen if announcement else None,
        },
        "detector": {
            "mode": detector.mode,
            "reason": detector.reason,
            "watched": detector.watched,
            "updates": detector.updates,
            "updates_by_poll": detector.updates_by_poll,
            "watches_lost": detector.watches_lost,
            "overflows": detector.overflows,
        },
        "application": {"pid": application.pid, "starts": application.starts},
        "last_poll_age_seconds": round(observer.poll_age, 3),
        "problems": problems,
    }


def _overall_state(observer: ObserverStatus, reconciler: Reconciler) -> tuple[str, str]:
    """Summarize everything in one word and, unless all is well, one sentence.

    waiting, refused, failing, pending, told, loaded; the first one that applies.
    """
    gate = reconciler.gate
    if observer.unreadable:
        return "waiting", observer.unreadable
    if gate.state == "refused":
        return "refused", "the current content did not pass its check and is not loaded"
    if gate.state == "error":
        return "waiting", gate.error
    for rule in reconciler.rules:
        if rule.state == "failing":
            return "failing", f"{rule.rule.name}: {rule.progress.error}"
    changing = reconciler.undecided or observer.changing
    if changing or any(rule.state == "pending" for rule in reconciler.rules):
        return "pending", ""
    for rule in reconciler.rules:
        if rule.state == "told" and rule.doubt:
            return "told", f"{rule.rule.name}: {rule.doubt}"
    if any(rule.state == "told" for rule in reconciler.rules):
        return "told", ""
    for directory, row in reconciler.directories.rows.items():
        if row.changed_without_rule:
            return "told", f"files in {directory} have changed, and no rule covers them"
    return "loaded", ""


def _directories(
    now: float, observer: ObserverStatus, reconciler: Reconciler
) -> list[dict[str, Any]]:
    found = []
    for path, row in reconciler.directories.rows.items():
        about = observer.directories[path]
        found.append(
            {
                "directory": path,
                "kind": about.kind,
                "note": about.note,
                "detector": about.detector,
                "target": row.target.state,
                "evidence": row.target.evidence,
                "projected": row.projected,
                "passed": row.passed,
                "loaded": row.loaded,
                "pending_seconds": _seconds_since(_pending_since(path, row, observer), now),
                "error": _directory_error(path, observer, reconciler),
            }
        )
    return found


def _pending_since(path: str, row: DirectoryState, observer: ObserverStatus) -> float | None:
    """Return since when a directory has content that is not loaded, or that cannot be read."""
    if observer.unreadable_directory != path or observer.unread_since is None:
        return row.pending_since
    since = row.pending_since
    return observer.unread_since if since is None else min(since, observer.unread_since)


def _directory_error(path: str, observer: ObserverStatus, reconciler: Reconciler) -> str:
    """Return what keeps one directory's content from being loaded; "" when nothing does."""
    if observer.unreadable_directory == path:
        return observer.unreadable
    if reconciler.gate.error:
        return reconciler.gate.error
    errors = (rule.progress.error for rule in reconciler.rules if path in rule.directories)
    return next((error for error in errors if error), "")


def _rule(
    now: float, rule: RuleState, observer: ObserverStatus, reconciler: Reconciler
) -> dict[str, Any]:
    progress = rule.progress
    state, since = rule.state, progress.pending_since
    unread = None if rule.is_frozen else observer.unread_since
    for unknown in (_unchecked_since(rule, reconciler), unread):
        # What the process should load is not known before it is read and passes its check.
        if unknown is not None:
            state = "pending" if state in ("loaded", "told") else state
            since = unknown if since is None else min(since, unknown)
    return {
        "name": rule.rule.name,
        "state": state,
        "desired": progress.desired,
        "loaded": progress.loaded,
        "pending_seconds": _seconds_since(since, now),
        "consecutive_failures": progress.failures,
        "error": progress.error,
        "loads": rule.loads,
        "failures": rule.failures,
        "superseded": rule.superseded,
        "loaded_at": round(rule.loaded_at, 3),
    }


def _unchecked_since(rule: RuleState, reconciler: Reconciler) -> float | None:
    """Return since when a rule's directories have had content that did not pass; None: it did."""
    rows = [reconciler.directories.rows[path] for path in rule.directories]
    times = [
        row.pending_since
        for row in rows
        if row.projected != row.passed and row.pending_since is not None
    ]
    return min(times, default=None)


def _seconds_since(then: float | None, now: float) -> float:
    return round(now - then, 3) if then is not None else 0
