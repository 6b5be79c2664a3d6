"""Which content may be loaded: seen → checked → passed, or refused until it changes again."""

from __future__ import annotations

__all__ = ["Gate"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Gate:
    """Which content passed its check, and which was refused.

    A refusal holds until the content changes. An error of the checker itself (it timed out, it
    could not be started) decides nothing, so the check is repeated.
    """

    def __init__(self) -> None:
        #: Digests: what is mounted, what is being checked, what passed last, what was refused.
        self.seen: str | None = None
        #: Since when that is mounted, by the clock of the caller.
        self.seen_since = 0.0
        self.checking: str | None = None
        self.passed: str | None = None
        self.refused: str | None = None
        self.error = ""
        #: Of the check command that led to the error; None where there was none.
        self.exit_status: int | None = None
        self.failures = 0
        self.retry_at = 0.0

    def see(self, digest: str, now: float, *, replaced: bool = False) -> None:
        """Record what is mounted now; `replaced`: it may have been other content in between."""
        if replaced:
            self.seen_since = now
        if digest != self.seen:
            self.seen = digest
            self.seen_since = now
            self.retry_at = 0.0
            self.failures = 0
            if digest == self.passed:
                self.error = ""

    @property
    def undecided(self) -> bool:
        """Whether the current content still has to be checked."""
        return self.seen is not None and self.seen not in (self.passed, self.refused)

    @property
    def state(self) -> str:
        """The current content's check: waiting, running, passed, refused or error.

        While a check is repeated it is the error of the one before: it may fail forever.
        """
        if self.seen is None:
            return "waiting"
        if self.seen == self.passed:
            return "passed"
        if self.seen == self.refused:
            return "refused"
        if self.failures:
            return "error"
        return "waiting" if self.checking is None else "running"

    def due(self, now: float) -> bool:
        """Whether a check should start."""
        return self.undecided and self.checking is None and now >= self.retry_at

    def begin(self) -> None:
        """Record that a check of the current content starts."""
        self.checking = self.seen

    def accept(self) -> None:
        """Record that the checked content passed."""
        self.passed, self.checking = self.checking, None
        self.refused = None
        self.failures = 0
        self.error = ""

    def refuse(self, error: str, exit_status: int | None = None) -> None:
        """Record that the checked content was refused, and why."""
        self.refused, self.checking = self.checking, None
        self.error = error
        self.exit_status = exit_status

    def fail(
        self,
        error: str,
        exit_status: int | None = None,
        *,
        now: float,
        delay: Callable[[int], float],
    ) -> None:
        """Record that the check itself failed; `delay(failures)` is the time to the next."""
        self.checking = None
        self.failures += 1
        self.error = error
        self.exit_status = exit_status
        self.retry_at = now + delay(self.failures)

    def postpone(self, until: float) -> None:
        """Start no check before a time."""
        self.retry_at = until

    def revoke(self) -> None:
        """Check content again that passed."""
        self.passed = None
        self.retry_at = 0.0

    def forget(self) -> None:
        """Check refused content again."""
        self.refused = None
        self.retry_at = 0.0
