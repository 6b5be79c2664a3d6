"""How far one rule is: desired → tried → loaded.

What was last *tried* is kept beside what was last loaded: once other content was tried, the process
may have loaded anything, so the earlier content has to be loaded again.
"""

from __future__ import annotations

from math import inf

from hotmap.core.value import Value

__all__ = ["KeptAttempt", "Progress"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


#: Seconds that newer content waits for the end of an attempt: the default settle time.
_SUPERSEDE_AFTER = 0.1


class KeptAttempt(Value):
    """What an agent keeps of the last attempt of a rule, for the next agent in the pod.

    tried: digest of what was tried, or the announced fingerprint
    done: whether the process has loaded it
    is_adopted: the containers are assumed to have started with this fingerprint, so no agent has
        restarted anything for it
    exposed_since: since when the process may have read other content, in seconds since boot
    """

    tried: str
    done: bool
    is_adopted: bool = False
    exposed_since: float | None = None


class Progress:
    """How far one rule is with the content that its process should load."""

    def __init__(
        self,
        *,
        tried: str | None = None,
        done: bool = False,
        exposed_since: float | None = None,
    ) -> None:
        #: Digests: what should be loaded, what the last attempt was about, what is loaded.
        self.desired: str | None = None
        self.tried = tried
        #: Whether the last attempt succeeded.
        self.done = done
        self.loaded = tried if done else None
        #: Since when the process may have read other content than was tried last: it was visible,
        #: though it did not pass. None while it may not.
        self.exposed_since = exposed_since
        #: What was tried last is visible again after that, so it has to be loaded again. 0 where a
        #: process of any age may have read it, since an attempt made it read something.
        self.doubted_since: float | None = None
        #: Other content was visible during the attempt that is running, or that ran last. A process
        #: of any age has read it if the attempt makes one read anything.
        self._exposed_in_attempt = False
        #: No other content was seen for that: there was no agent that could have; or the files
        #: could not be read.
        self.is_presumed = self.was_unreadable = False
        #: What a process reads now; None where that is what passed, whatever is mounted.
        self.visible: str | None = None
        #: An attempt is running; until when the last one that did anything made a process read.
        self.running = False
        self.read_until = -inf
        #: From when on it is given up for newer content; None while there is none.
        self.superseded_at: float | None = None
        #: Index of the next action: those before it succeeded for this content.
        self.position = 0
        self.failures = 0
        self.retry_at = 0.0
        #: What was tried cannot be loaded, so nothing is tried until it changes. What the attempt
        #: that is running has done was undone, so it has failed however it ends.
        self.held = self.undone = False
        #: Since when a process that starts reads this content; since when anything is pending.
        self.desired_since = 0.0
        self.pending_since: float | None = None
        self.error = ""

    @property
    def pending(self) -> bool:
        """Whether the desired content is not known to be loaded."""
        loaded = self.done and self.tried == self.desired and self.doubted_since is None
        return self.desired is not None and not loaded

    @property
    def is_other_visible(self) -> bool:
        """Whether a process that reads its files now reads other content than is desired."""
        return self.visible not in (None, self.desired)

    @property
    def is_certain(self) -> bool:
        """Whether what was tried last is loaded, whatever the process may have read since."""
        return self.done and self.unsure_since is None

    @property
    def unsure_since(self) -> float | None:
        """Since when the process may have read other content than was tried last; None if never."""
        found = [each for each in (self.exposed_since, self.doubted_since) if each is not None]
        return min(found, default=None)

    def set_desired(
        self, digest: str, now: float, *, since: float | None = None, delay: float = 0.0
    ) -> None:
        """Record what should be loaded; other content than before is tried after `delay`.

        `since`: a process that started after that has read it; by default, `now`.
        Content that replaces other content which is still waiting for that does not wait longer.
        """
        if digest == self.desired:
            return
        waits = self.pending and not self.failures and not self.running
        self.desired = digest
        self.desired_since = now if since is None else since
        if not self.running or self.tried == digest:
            self.superseded_at = None
        elif self.superseded_at is None:
            self.superseded_at = now + _SUPERSEDE_AFTER
        if self.tried is None:
            self.retry_at = now
        else:
            self.retry_at = min(now + delay, max(now, self.retry_at)) if waits else now + delay
        self.failures = 0
        self.position = 0
        self.held = False
        self._update_pending_since(now)

    def hold(self, error: str, now: float) -> None:
        """Record that what was tried cannot be loaded; nothing is tried until it changes."""
        self.done = False
        self.position = 0
        self.undone = self.running
        self.held = self.tried == self.desired
        self.failures += 1
        self.error = error
        self.retry_at = inf if self.held else now
        self._update_pending_since(now)

    def see(self, visible: str | None, now: float) -> None:
        """Record what a process that starts now reads, which may have been other content before."""
        if visible == self.desired != self.visible:
            self.desired_since = now
        self.visible = visible

    def expose(
        self, since: float, *, is_running: bool = False, was_unreadable: bool = False
    ) -> None:
        """Record that other content was visible to processes that started after `since`.

        0: to any process, whenever it started.
        is_running: to any process as well if the attempt that is running makes it read.
        was_unreadable: the files could not be read, so it may have been the same.
        """
        self.is_presumed = False
        self.was_unreadable = was_unreadable and (self.exposed_since is None or self.was_unreadable)
        self._exposed_in_attempt |= is_running
        if self.exposed_since is None or since == 0:
            self.exposed_since = since

    def presume(self, since: float) -> None:
        """Record that there was no agent `since` then that could have seen other content."""
        was_exposed = self.exposed_since is not None
        self.expose(since)
        self.is_presumed = not was_exposed

    def acted_since(self, when: float) -> bool:
        """Return whether an attempt has made a process read what is there since then."""
        return self.read_until >= when

    def restore(self, now: float, since: float) -> None:
        """Record that the desired content is visible `since` then.

        If other content was before, and this had been tried already, it is loaded again. Where no
        attempt has succeeded or is running, no process has it that could still have it. While other
        content than what was tried waits for its attempt, what was tried may still come back.
        """
        if self.exposed_since is None:
            return
        self.desired_since = max(self.desired_since, since)
        if self.tried != self.desired:
            return
        if self.done or self.running:
            if self.doubted_since is None or self.exposed_since == 0:  # the earliest counts
                self.doubted_since = self.exposed_since
            self.desired_since = now
        self.retry_at = now
        self.position = 0
        self.exposed_since = None
        self._update_pending_since(now)

    def adopt(self, digest: str) -> None:
        """Record that the process has loaded this content without an action of ours."""
        self.desired = self.tried = self.loaded = digest
        self.done = True
        self.exposed_since = None
        self.doubted_since = None
        self.pending_since = None
        self.held = False
        self.failures = 0
        self.error = ""

    def due(self, now: float) -> bool:
        """Whether an attempt should start."""
        return self.next_time() <= now

    def next_time(self) -> float:
        """When an attempt should start; inf while none is to.

        One for other content that is running may end first, for `_SUPERSEDE_AFTER` at most. None
        starts while other content is mounted, since that is what it would make the process read.
        """
        if not self.pending or self.held or (self.running and self.superseded_at is None):
            return inf
        if self.is_other_visible:
            return inf
        return max(self.retry_at, self.superseded_at or 0.0) if self.running else self.retry_at

    def begin(self) -> int:
        """Record that an attempt starts; return the index of its first action."""
        if self.tried != self.desired:
            self.position = 0
            self.exposed_since = None
        self._exposed_in_attempt = False
        self.tried, self.done, self.running = self.desired, False, True
        self.undone = self.is_presumed = False
        self.superseded_at = None
        self.doubted_since = None
        return self.position

    def end_undone(self, now: float) -> None:
        """Record the end of an attempt that was undone; why it has failed is known already."""
        self.undone = False
        self._end_reading(now)

    def record_success(
        self, now: float, *, by_itself: bool = False, reads_for: float = 0.0
    ) -> None:
        """Record that what was tried is loaded; other content may be desired by now.

        by_itself: nothing was done, so this attempt made no process read anything
        reads_for: seconds that a process may still take to read, where nothing shows that it has
        """
        if by_itself:
            self.running = False
        else:
            self._end_reading(now + reads_for)
        self.done = True
        self.loaded = self.tried
        self.failures = 0
        self.position = 0
        self.retry_at = now
        self.error = ""
        self._update_pending_since(now)

    def record_failure(
        self, error: str, *, position: int, now: float, delay: Callable[[int], float]
    ) -> None:
        """Record that action `position` failed; the next attempt is due after `delay(failures)`."""
        self._end_reading(now)
        self.error = error
        self.doubted_since = None  # no process has it that could still have it
        if self.tried != self.desired:
            self.failures, self.position, self.retry_at = 0, 0, now
            return
        self.failures += 1
        self.position = position
        self.retry_at = now + delay(self.failures)

    def retry_now(self) -> None:
        """Retry without waiting."""
        self.retry_at = 0.0
        self.held = False

    def _end_reading(self, until: float) -> None:
        """Record the end of an attempt that made a process read what was visible `until` then."""
        self.running = False
        self.read_until = until
        if self._exposed_in_attempt:
            self.exposed_since = None if self.exposed_since is None else 0.0
            self.doubted_since = None if self.doubted_since is None else 0.0

    def _update_pending_since(self, now: float) -> None:
        if not self.pending:
            self.pending_since = None
        elif self.pending_since is None:
            self.pending_since = now
