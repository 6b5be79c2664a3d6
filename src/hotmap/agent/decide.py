"""What is to be done next about content that changed; decides only, and knows no clock.

Content is known by digests. A digest goes through three hands:

    Settle     changes in quick succession are one: when has it been quiet long enough?
    Gate       seen → checked → good, or refused until it changes again
    Progress   good → wanted → tried → loaded; one for each rule

What was last *tried* is kept beside what was last loaded: once something else was tried, the
process may hold anything, so going back to the earlier content has to be loaded again.

Times are seconds on the caller's clock and are compared only with each other.
"""

from __future__ import annotations

__all__ = ["Gate", "Progress", "Settle", "pause"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def pause(failures: int, *, first: float, last: float, random: Callable[[], float]) -> float:
    """Choose how long to wait after the n-th failure in a row, in seconds.

    Doubles from `first` up to `last`; then `random()`, between 0 and 1, takes up to half of it
    away, so that many pods that failed together do not come back together.
    """
    longest = min(last, first * 2.0 ** min(failures - 1, 30))
    return longest * (1 - random() / 2)


class Settle:
    """Says when a series of changes is over: `quiet` after the last, `longest` after the first."""

    __slots__ = ("_first", "_last", "longest", "quiet")

    def __init__(self, quiet: float, longest: float) -> None:
        self.quiet = quiet
        self.longest = max(quiet, longest)
        self._first: float | None = None
        self._last = 0.0

    def touch(self, now: float) -> None:
        """Take note of a change."""
        if self._first is None:
            self._first = now
        self._last = now

    def due_at(self) -> float | None:
        """Tell when to look at the content; None while nothing changed."""
        if self._first is None:
            return None
        return min(self._first + self.longest, self._last + self.quiet)

    def clear(self) -> None:
        """Forget the changes so far: they have been looked at."""
        self._first = None


class Gate:
    """Lets content through that passed its check, and remembers what it refused.

    A refusal holds until the content changes. Trouble with the checker itself (it did not end, it
    could not be started) is no verdict, so it is tried again.
    """

    __slots__ = ("checking", "error", "failures", "good", "refused", "retry_at", "seen")

    def __init__(self) -> None:
        self.seen: str | None = None
        self.checking: str | None = None
        self.good: str | None = None
        self.refused: str | None = None
        self.error = ""
        self.failures = 0
        self.retry_at = 0.0

    def see(self, digest: str) -> None:
        """Take note of what the directories hold now."""
        if digest != self.seen:
            self.seen = digest
            self.retry_at = 0.0
            self.failures = 0
            if digest == self.good:
                self.error = ""

    @property
    def undecided(self) -> bool:
        """Whether the present content still needs a verdict."""
        return self.seen is not None and self.seen not in (self.good, self.refused)

    @property
    def state(self) -> str:
        """The present content's standing: waiting, running, passed, failed or trouble."""
        if self.seen is None:
            return "waiting"
        if self.seen == self.good:
            return "passed"
        if self.seen == self.refused:
            return "failed"
        if self.checking is not None:
            return "running"
        return "trouble" if self.error else "waiting"

    def due(self, now: float) -> bool:
        """Tell whether a check should begin."""
        return self.undecided and self.checking is None and now >= self.retry_at

    def begin(self) -> None:
        """Take note that the present content is being checked."""
        self.checking = self.seen

    def passed(self) -> str | None:
        """Take note that what was checked is good; give its digest."""
        self.good, self.checking = self.checking, None
        self.refused = None
        self.failures = 0
        self.error = ""
        return self.good

    def refuse(self, error: str) -> None:
        """Take note that what was checked is not good, and why."""
        self.refused, self.checking = self.checking, None
        self.error = error

    def trouble(self, error: str, *, now: float, wait: Callable[[int], float]) -> None:
        """Take note that there was no verdict; `wait(failures)` gives the pause."""
        self.checking = None
        self.failures += 1
        self.error = error
        self.retry_at = now + wait(self.failures)

    def postpone(self, until: float) -> None:
        """Take note that there is nothing to check before a time."""
        self.retry_at = until

    def forget(self) -> None:
        """Ask for another verdict on what was refused."""
        self.refused = None
        self.retry_at = 0.0


class Progress:
    """How far one rule has come with the content that it is to make its process load."""

    __slots__ = (
        "done", "error", "failures", "loaded", "pending_since", "position", "retry_at",
        "running", "tried", "wanted", "wanted_since",
    )  # fmt: skip

    def __init__(self, *, tried: str | None = None, done: bool = False) -> None:
        self.wanted: str | None = None
        #: What the last attempt was about, and whether it was confirmed.
        self.tried = tried
        self.done = done
        self.loaded = tried if done else None
        #: An attempt is under way.
        self.running = False
        #: Number of the action to begin with: those before it have been done for this content.
        self.position = 0
        self.failures = 0
        self.retry_at = 0.0
        #: Since when just this content is wanted; since when there is something to do at all.
        self.wanted_since = 0.0
        self.pending_since: float | None = None
        self.error = ""

    @property
    def pending(self) -> bool:
        """Whether the wanted content is not known to be loaded."""
        return self.wanted is not None and not (self.done and self.tried == self.wanted)

    def want(self, digest: str, now: float) -> None:
        """Take note of good content; another one than before starts afresh, without a pause."""
        if digest == self.wanted:
            return
        self.wanted = digest
        self.wanted_since = now
        self.failures = 0
        self.retry_at = now
        self.position = 0
        self._note(now)

    def adopt(self, digest: str) -> None:
        """Take note that the process is known to have loaded this content by itself."""
        self.wanted = self.tried = self.loaded = digest
        self.done = True
        self.pending_since = None
        self.error = ""

    def due(self, now: float) -> bool:
        """Tell whether an attempt should begin."""
        return self.pending and not self.running and now >= self.retry_at

    def begin(self) -> int:
        """Take note that an attempt begins; give the number of its first action."""
        if self.tried != self.wanted:
            self.position = 0
        self.tried, self.done, self.running = self.wanted, False, True
        return self.position

    def succeeded(self, now: float) -> None:
        """Take note that what was tried is loaded; meanwhile something newer may be wanted."""
        self.running = False
        self.done = True
        self.loaded = self.tried
        self.failures = 0
        self.position = 0
        self.retry_at = now
        self.error = ""
        self._note(now)

    def failed(
        self, error: str, *, position: int, now: float, wait: Callable[[int], float]
    ) -> None:
        """Take note that action number `position` failed; `wait(failures)` gives the pause."""
        self.running = False
        self.error = error
        if self.tried != self.wanted:
            self.failures, self.position, self.retry_at = 0, 0, now
            return
        self.failures += 1
        self.position = position
        self.retry_at = now + wait(self.failures)

    def hurry(self) -> None:
        """Drop the pause after a failure."""
        self.retry_at = 0.0

    def _note(self, now: float) -> None:
        if not self.pending:
            self.pending_since = None
        elif self.pending_since is None:
            self.pending_since = now
