"""Leader election by a Lease that the leader renews and the standbys wait for.

The rules are client-go's (tools/leaderelection): a candidate acquires a Lease that has no holder,
or whose record has not changed for the duration that is written in it; a leader that could not
renew for the renew deadline, which is shorter, has stopped before. The caller defines what a leader
does.

Only the own clock is used, and only durations on it. Times in a Lease are informational and never
read, so clocks may differ by any amount. They may run at different speeds up to the ratio of
duration and renew deadline, by default 10 to 7.

Fencing is not guaranteed. `is_leader` is False before another process may lead, but a request that
was sent before may arrive after. So every write of a leader has a precondition or can be repeated
safely. If a user edits the Lease, or deletes it while a process starts that has never seen it, two
processes may lead for one retry period.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from enum import Enum
from math import inf
from typing import Final, NamedTuple

from hotmap.core.errors import Conflict, Forbidden, HotmapError, NotFound
from hotmap.core.model.objects import ObjectKey
from hotmap.kube.client import Client
from hotmap.kube.lease import LONGEST_DURATION, Lease, LeaseClient, LeaseRecord, StoredLease
from hotmap.kube.log_throttle import LogThrottle
from hotmap.kube.reflector import Reflector
from hotmap.kube.resources import LEASES, Selection
from hotmap.kube.store import Store
from hotmap.kube.store_writer import StoreWriter
from hotmap.kube.supervisor import Supervisor

__all__ = ["DEFAULT_TIMING", "JITTER", "LeaderElectionStatistics", "LeaderElector", "LeaseTiming"]

#: A standby reads the Lease after a random time up to this many retry periods (client-go:
#: JitterFactor, where the pauses reach 2.2 periods; the watch makes longer ones pointless).
JITTER: Final = 1.2

#: The duration in a record without a holder (client-go: LeaderElector.release).
RELEASED_DURATION: Final = 1

#: leaseTransitions is an int32.
MOST_TRANSITIONS: Final = (1 << 31) - 1

_log = logging.getLogger(__name__)


class LeaseTiming(NamedTuple):
    """When a Lease is renewed, given up and acquired; all times in seconds."""

    #: a Lease that was not renewed for this time may be acquired; whole seconds, as in a Lease
    duration: int = 10
    #: a leader that could not renew for this time has lost leadership
    renew_deadline: float = 7.0
    #: between two renewals, and between two reads of a standby
    retry: float = 2.0


#: A standby leads at most 12 s after a leader disappeared: it gets the last renewal by the watch at
#: once, or up to `retry` later without one, and acquires the Lease `duration` later. A leader has
#: three attempts before its deadline.
DEFAULT_TIMING: Final = LeaseTiming()


class LeaderElectionStatistics(NamedTuple):
    #: True while this process leads
    is_leader: bool
    #: the holder identity of the Lease when last observed; "" for none
    holder: str
    #: leaseTransitions of the Lease
    transitions: int
    #: how often this process became leader
    terms: int
    #: reads and renewals since the start
    attempts: int
    #: those without a response or with a failure
    failures: int
    #: True while a watch is open; without one, changes are observed up to `retry` later
    watching: bool
    #: the last error; "" after an attempt has succeeded
    last_error: str


class _Observation(NamedTuple):
    """A Lease, and when it was first observed on the own clock."""

    lease: StoredLease
    at: float

    @property
    def record(self) -> LeaseRecord:
        return self.lease.record


class _Outcome(Enum):
    """Result of an attempt to acquire or renew."""

    HELD = "this process holds the Lease"
    TAKEN = "another process holds the Lease"
    UNKNOWN = "the request failed, or another process updated the Lease first"


class _LeaseVersion(NamedTuple):
    """The part of a Lease that the watch decodes: enough to know that it changed."""

    holder: str
    resource_version: str


def _boot_time() -> float:
    """Return seconds since boot, including suspend; never decreases.

    Unlike CLOCK_MONOTONIC, so that a leader that was suspended knows at once that it has lost the
    Lease.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LeaderElector:
    """Competes for a Lease under `identity`.

    `identity` must differ between processes that may run at the same time: two with one identity
    would both lead. A process that starts with the identity of a dead one takes its Lease at once.
    `clock` returns seconds that never decrease, `wall_clock` POSIX seconds, which are only written
    into the Lease.

    Needs the verbs get, create and update on leases.coordination.k8s.io, and list and watch to
    see changes at once instead of `retry` seconds later.
    """

    def __init__(
        self,
        client: Client,
        lease: ObjectKey,
        *,
        identity: str,
        timing: LeaseTiming = DEFAULT_TIMING,
        clock: Callable[[], float] = _boot_time,
        wall_clock: Callable[[], float] = time.time,
        supervisor: Supervisor | None = None,
    ) -> None:
        if not identity:
            raise ValueError("the identity must not be empty: an empty holder releases the Lease")
        if not timing.duration > timing.renew_deadline > JITTER * timing.retry > 0:
            raise ValueError(f"duration > renew deadline > {JITTER} retry > 0 must hold: {timing}")
        if timing.duration > LONGEST_DURATION:
            raise ValueError(f"a standby waits for {LONGEST_DURATION}s at most: {timing}")
        self._client = client
        self._leases = LeaseClient(client, lease, default_duration=timing.duration)
        self._identity = identity
        self._timing = timing
        self._supervisor = supervisor or Supervisor()
        self._clock = clock
        self._wall_clock = wall_clock
        #: Until when no other process can lead, on our clock; in the past if this one does not
        #: lead.
        self._deadline = -inf
        #: The record when last observed, and since when it is unchanged. Kept when the Lease is
        #: deleted, since its holder may still lead.
        self._observed: _Observation | None = None
        #: The whole Lease after our last write; None if it may have changed since.
        self._lease: StoredLease | None = None
        #: True from before the first write with our identity until the Lease is known to have
        #: another: a write without a response may have succeeded.
        self._claimed = False
        self._acquired = ""
        #: When the latest attempt began, on our clock.
        self._attempted = -inf
        #: When our latest write was sent, on our clock.
        self._sent = -inf
        #: Set when the watch reported a change that we did not write.
        self._wake = asyncio.Event()
        versions: Store[_LeaseVersion] = Store()
        versions.subscribe(self._on_change)
        self._reflector = Reflector(
            client,
            Selection(LEASES, lease.namespace, field_selector=f"metadata.name={lease.name}"),
            type=Lease,
            writer=StoreWriter(versions, self._lease_version),
        )
        self._terms = self._attempts = self._failures = 0
        self._last_error = ""
        self._log_throttle = LogThrottle()
        #: Kinds of failures since the last successful attempt; the causes of unreachability
        #: alternate.
        self._failing: set[str] = set()

    @property
    def is_leader(self) -> bool:
        """True while this process leads: check before each write, after the last `await`.

        Becomes False by the clock alone, even if the event loop is blocked, and before another
        process may lead. Within one call of `lead` it never becomes True again.
        """
        return self._clock() < self._deadline

    @property
    def identity(self) -> str:
        """The identity that is written into the Lease."""
        return self._identity

    def statistics(self) -> LeaderElectionStatistics:
        """Return the known leader and the counts."""
        seen = self._observed
        return LeaderElectionStatistics(
            is_leader=self.is_leader,
            holder=seen.record.holder if seen else "",
            transitions=seen.record.transitions if seen else 0,
            terms=self._terms,
            attempts=self._attempts,
            failures=self._failures,
            watching=self._reflector.statistics().connected,
            last_error=self._last_error,
        )

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the Lease and run `lead` while it is held, again and again.

        1. wait as a standby until the Lease can be acquired
        2. run `lead`, and renew the Lease meanwhile
        3. when the Lease is lost: cancel `lead`, wait until it has ended, go on with 1
        4. when `lead` returns or raises, or `run` is cancelled: the same, then release the
           Lease, so that a standby acquires it within a second instead of after `duration`

        So `lead` never runs twice at a time, and the Lease is renewed until its clean-up has ended.
        An exception of `lead` is raised here. Failures of the API server are retried, logged once a
        minute at most, and shown by `statistics`. The release takes half a renew deadline at most,
        and not longer than with the default one; a second cancel interrupts it and the clean-up.
        """
        watch = self._supervisor.tasks()
        watch.start("watch leases", self._reflector.run)
        try:
            while True:
                await self._acquire()
                if await self._run_while_leading(lead):
                    return
        finally:
            await watch.stop()
            if self._claimed:
                await self._release()

    # -- the two roles -------------------------------------------------------------------------

    async def _acquire(self) -> None:
        """Wait until the Lease is acquired."""
        while True:
            outcome = await self._attempt()
            deadline = self._sent + self._timing.renew_deadline
            if outcome is _Outcome.HELD and self._clock() < deadline:
                break
            await self._pause(self._seconds_until_next_read())
        self._deadline = deadline
        self._terms += 1
        _log.info("%s: %s became leader", self._leases, self._identity)

    async def _run_while_leading(self, lead: Callable[[], Awaitable[None]]) -> bool:
        """Run `lead` while the Lease is held; return True if it ended by itself."""
        work = asyncio.ensure_future(lead())
        renewal = asyncio.create_task(self._renew())
        try:
            await asyncio.wait((work, renewal), return_when=asyncio.FIRST_COMPLETED)
            by_itself = work.done()
        finally:
            work.cancel()
            try:
                await asyncio.wait((work,))
            finally:
                renewal.cancel()
                await asyncio.wait((renewal,))
                self._deadline = -inf  # also when it was cancelled before its first step
        if by_itself or not work.cancelled():
            work.result()
        if not by_itself:
            _log.warning(
                "%s: %s lost leadership: %s", self._leases, self._identity, renewal.result()
            )
        return by_itself

    async def _renew(self) -> str:
        """Renew the Lease until it is lost; return why it was lost."""
        timing = self._timing
        try:
            while True:
                async with asyncio.timeout(self._deadline - self._clock()):
                    await self._pause(self._attempted + timing.retry - self._clock())
                    outcome = await self._attempt()
                if outcome is _Outcome.TAKEN and self._observed is not None:
                    return f"{self._observed.record.holder} acquired the Lease"
                if outcome is _Outcome.HELD:
                    if not self.is_leader:
                        break
                    self._deadline = self._sent + timing.renew_deadline
        except TimeoutError:
            pass
        finally:
            self._deadline = -inf
        return (
            f"could not renew the Lease within {timing.renew_deadline:g}s:"
            f" {self._last_error or 'the process was suspended or overloaded'}"
        )

    def _seconds_until_next_read(self) -> float:
        """Choose the seconds until a standby reads again, not beyond the expiry of the Lease."""
        pause = self._timing.retry * random.uniform(1, JITTER)
        left = self._seconds_until_expiry()
        return left if 0 < left < pause else pause

    async def _pause(self, seconds: float) -> None:
        """Wait, or return early if the Lease changes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    # -- one attempt ---------------------------------------------------------------------------

    async def _attempt(self) -> _Outcome:
        """Try once to acquire or renew the Lease; record a failure instead of raising it."""
        self._attempted = self._clock()
        self._attempts += 1
        try:
            outcome = await self._acquire_or_renew()
        except TimeoutError:
            text = f"{self._client.server} did not respond within {self._request_limit:g}s"
            self._record_error("timeout", text)
            return _Outcome.UNKNOWN
        except Conflict:
            return _Outcome.UNKNOWN  # another process was faster; the next read shows which
        except HotmapError as error:
            self._record_error(type(error).__name__, _explain(error))
            return _Outcome.UNKNOWN
        self._clear_errors()
        return outcome

    async def _acquire_or_renew(self) -> _Outcome:
        """Write our identity into the Lease if it may be acquired.

        A leader writes without reading, based on its last write. Each write has the resourceVersion
        of the Lease that was observed, so of several only the first succeeds.

        Raises:
            Conflict: another process wrote meanwhile.
            HotmapError: see `Client.request`.
            TimeoutError: a request had no response in time.
        """
        if self._lease is not None:
            try:
                await self._write(self._lease)
            except (Conflict, NotFound):
                self._lease = None
            else:
                return _Outcome.HELD
        lease = await self._read()
        if self._seconds_until_expiry() > 0:
            return _Outcome.TAKEN
        await self._write(lease)
        return _Outcome.HELD

    @property
    def _request_limit(self) -> float:
        """Seconds for one request: half the renew deadline.

        So a dead connection leaves time for a second attempt (client-go:
        resourcelock.NewFromKubeconfig).
        """
        return self._timing.renew_deadline / 2

    def _seconds_until_expiry(self) -> float:
        """Return the seconds until the Lease may be acquired, as far as known; 0 for now."""
        seen = self._observed
        if seen is None or seen.record.holder in ("", self._identity):
            return 0.0
        return max(0.0, seen.at + seen.record.duration - self._clock())

    async def _read(self) -> StoredLease | None:
        """Get and observe the Lease; None when there is none."""
        async with asyncio.timeout(self._request_limit):
            lease = await self._leases.get()
        if lease is not None:
            self._observe(lease)
            self._claimed = lease.record.holder == self._identity
        return lease

    async def _write(self, lease: StoredLease | None) -> None:
        """Write our identity as the holder into the current Lease, or into a new one."""
        now = self._now()
        record = self._observed.record if self._observed else None
        if record is None or record.holder != self._identity or not self._acquired:
            self._acquired = now
        transitions = record.transitions if record else 0
        if record is not None and record.holder != self._identity:
            transitions = min(transitions + 1, MOST_TRANSITIONS)
        self._claimed = True
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._timing.duration,
            "leaseTransitions": transitions,
            "acquireTime": self._acquired,
            "renewTime": now,
        }
        self._sent = self._clock()
        async with asyncio.timeout(self._request_limit):
            stored = await self._leases.put(lease, spec)
        self._lease = self._observe(stored)

    async def _release(self) -> None:
        """Remove the holder from the Lease, if we are the holder."""
        limit = min(self._timing.renew_deadline, DEFAULT_TIMING.renew_deadline) / 2
        try:
            # Not asyncio.timeout: this task may be cancelled already, and before Python 3.11.3 the
            # end of that time is then taken for the cancellation (python/cpython#102780).
            await asyncio.wait_for(self._clear_holder(), limit)
        except (TimeoutError, HotmapError) as error:
            _log.warning(
                "failed to release %s, which expires in %ds: %s",
                self._leases,
                self._timing.duration,
                str(error) or f"no response within {limit:g}s",
            )
        else:
            self._claimed = False
        self._lease = None

    async def _clear_holder(self) -> None:
        while (lease := await self._read()) is not None and self._claimed:
            now = self._now()
            with suppress(Conflict):
                released = {
                    "holderIdentity": "",
                    "leaseDurationSeconds": RELEASED_DURATION,
                    "acquireTime": now,
                    "renewTime": now,
                }
                self._observe(await self._leases.put(lease, released))
                return

    # -- what is seen --------------------------------------------------------------------------

    def _observe(self, lease: StoredLease) -> StoredLease:
        """Record since when the Lease is unchanged."""
        seen = self._observed
        if seen is None or seen.lease.resource_version != lease.resource_version:
            holder, before = lease.record.holder, seen.record.holder if seen else ""
            if holder not in (before, self._identity):  # of this process `_acquire` logs it
                vacant = "released" if before == self._identity else "there is no leader"
                state = f"the leader is {holder}" if holder else vacant
                _log.info("%s: %s", self._leases, state)
            self._observed = _Observation(lease, self._clock())
        return lease

    def _lease_version(self, lease: Lease) -> _LeaseVersion:
        record = self._leases.read_record(lease.spec)
        return _LeaseVersion(record.holder, lease.metadata.resource_version)

    def _on_change(
        self, key: ObjectKey, old: _LeaseVersion | None, new: _LeaseVersion | None
    ) -> None:
        """Read at once after another process changed or deleted the Lease.

        The watch event itself is not used, since it may be old after a reconnect.
        """
        if new is None or new.holder != self._identity:
            self._wake.set()

    def _record_error(self, kind: str, text: str) -> None:
        """Record a failure, and log it if it is new."""
        self._failures += 1
        self._last_error = text
        self._failing.add(kind)
        if self._log_throttle.should_log(kind, text, now=self._clock()):
            _log.warning("%s: %s", self._leases, text)

    def _clear_errors(self) -> None:
        self._last_error = ""
        for kind in self._failing:
            self._log_throttle.end(kind)
        self._failing.clear()

    def _now(self) -> str:
        """Return the time as a MicroTime (kubernetes: apimachinery/pkg/apis/meta/v1)."""
        now = datetime.fromtimestamp(self._wall_clock(), UTC)
        return now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _explain(error: HotmapError) -> str:
    """Describe an error, with the permissions that are needed if one is missing."""
    if isinstance(error, Forbidden):
        return (
            f"{error}; leader election needs the permissions get, create, update, list and watch on"
            " leases.coordination.k8s.io in that namespace"
        )
    return str(error)
