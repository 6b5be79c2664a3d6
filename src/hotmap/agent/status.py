"""The status document: everything that the agent may show of itself, as JSON values."""

from __future__ import annotations

from hotmap.agent.report import overall

__all__ = ["make_status"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from hotmap.agent.decide import Gate
    from hotmap.agent.directories import Directories
    from hotmap.agent.following import Followed
    from hotmap.agent.observe import Observer


def make_status(
    now: float,
    *,
    observer: Observer,
    gate: Gate,
    checks: Mapping[str, int],
    rules: Iterable[Followed],
    directories: Directories,
    application: Mapping[str, Any],
    undecided: bool,
    problems: list[str],
) -> dict[str, Any]:
    """Put together what is known; `now` is of the loop's clock."""
    followed = list(rules)
    described = [one.status(now) for one in followed]
    state, message = overall(
        unreadable=observer.unreadable,
        check=gate.state,
        check_error=gate.error,
        rules=described,
        moving=undecided or observer.settling,
    )
    announcement = directories.announcement
    detector = observer.statistics()
    about = observer.about()
    return {
        "state": state,
        "message": message,
        "directories": directories.status(
            now, about, {one: _last_error(one, observer, gate, followed) for one in about}
        ),
        "rules": described,
        "check": {"state": gate.state, "error": gate.error, "counts": dict(checks)},
        "target": {
            "announced": announcement.live if announcement else None,
            "frozen": announcement.frozen if announcement else None,
            "sequence": announcement.sequence if announcement else None,
            "relation": directories.relation,
        },
        "detector": {
            "mode": detector.mode,
            "reason": detector.reason,
            "watched": detector.watched,
            "swaps": detector.swaps,
            "swaps_by_poll": detector.swaps_by_poll,
            "watches_lost": detector.watches_lost,
            "overflows": detector.overflows,
        },
        "application": application,
        "last_pass_age_seconds": round(observer.since_last_pass, 3),
        "problems": problems,
    }


def _last_error(directory: str, observer: Observer, gate: Gate, rules: Iterable[Followed]) -> str:
    """Say what keeps one directory's content from being loaded; "" when nothing does."""
    if observer.unreadable_directory == directory:
        return observer.unreadable
    if gate.error:
        return gate.error
    errors = (one.progress.error for one in rules if directory in one.directories)
    return next((error for error in errors if error), "")
