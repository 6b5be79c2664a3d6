"""One of several candidates leads: who, from when, until when.

Each test ends with the demand that two never led at a time, whatever happened in it.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from typing import Any, cast

import pytest
from tests.support.leader_election import NAME, NAMESPACE, Candidate, election, unchanged_for

from hotmap.core.errors import NotFound
from hotmap.core.model.objects import ObjectKey
from hotmap.kube.client import Client
from hotmap.kube.config import BearerToken, ClusterConfig
from hotmap.kube.leaderelection import LeaderElector, LeaseTiming
from hotmap.kube.lease import LeaseClient

#: The wires are threads.
pytestmark = pytest.mark.real_time

#: A loss is seen in a second.
FAST = LeaseTiming(duration=1, renew_deadline=0.7, retry=0.1)
#: A busy machine is not taken for a dead one.
CALM = LeaseTiming(duration=4, renew_deadline=3, retry=0.1)
#: No period ends and no read is started by itself while a test lasts.
PATIENT = LeaseTiming(duration=60, renew_deadline=50, retry=40)

MICRO_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"


async def test_first_candidate_creates_the_lease() -> None:
    """It says what a Lease of Kubernetes' own components says."""
    async with election(CALM) as held:
        await held.started("a")
        spec = await held.spec()
    assert spec["holderIdentity"] == "a"
    assert spec["leaseDurationSeconds"] == 4
    assert spec["leaseTransitions"] == 0
    assert re.fullmatch(MICRO_TIME, spec["acquireTime"])
    assert re.fullmatch(MICRO_TIME, spec["renewTime"])


async def test_standbys_wait_while_the_leader_renews() -> None:
    """The Lease is renewed again and again; acquireTime and leaseTransitions stay."""
    async with election(CALM) as held:
        [leader, *standbys] = await held.started("a", "b", "c")
        before = await held.spec()
        await held.until(lambda: leader.elector.statistics().attempts >= 20)
        after = await held.spec()
        assert held.successions() == ["a"]
        for standby in standbys:
            statistics = standby.elector.statistics()
            assert not statistics.is_leader
            assert statistics.holder == "a"
            assert statistics.terms == 0
    assert after["renewTime"] > before["renewTime"]
    assert {**after, "renewTime": ""} == {**before, "renewTime": ""}


async def test_leader_that_stops_hands_over_at_once() -> None:
    """A standby sees the release by its watch, not by looking."""
    async with election(PATIENT) as held:
        first, second = await held.started("a", "b")
        await held.until(lambda: second.elector.statistics().watching)
        await held.known_to(second, holder="a")
        stopped = time.monotonic()
        await first.stop()
        await held.leader(second)
        took = time.monotonic() - stopped
        spec = await held.spec()
    assert took < PATIENT.retry
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("b", 1)
    assert spec["leaseDurationSeconds"] == 60


async def test_released_lease_has_no_holder() -> None:
    """It can be taken at once by any implementation, also one that only looks at times."""
    async with election(CALM) as held:
        [leader] = await held.started("a")
        await leader.stop()
        spec = await held.spec()
        assert not leader.elector.is_leader
    assert spec["holderIdentity"] == ""
    assert spec["leaseDurationSeconds"] == 1
    assert spec["leaseTransitions"] == 0


async def test_standby_takes_over_from_a_leader_that_vanished() -> None:
    """Not before the duration is over, and not much later."""
    async with election(FAST) as held:
        first, second, third = await held.started("a", "b", "c")
        await held.known_to(second, holder="a")
        await held.known_to(third, holder="a")
        await first.vanish()
        before = await held.spec()
        reads = {item: item.elector.statistics().attempts for item in (second, third)}
        heir = await held.leader(second, third)
        reads[heir] = heir.elector.statistics().attempts - reads[heir]
        after = await held.spec()
        assert after["leaseTransitions"] == 1
        await held.until(lambda: heir.elector.statistics().attempts > 20)
        assert heir.elector.is_leader
    assert unchanged_for(before, after) >= FAST.duration
    assert reads[heir] <= held.most_reads(FAST.duration)


@pytest.mark.parametrize("count", [3, 8])
async def test_one_of_many_candidates_leads(count: int) -> None:
    """Both at a Lease that does not exist and at one without a holder."""
    async with election(CALM) as held:
        candidates = [await held.candidate(f"c{number}") for number in range(count)]
        for candidate in candidates:
            candidate.start()
        while candidates:
            leader = await held.leader(*candidates)
            await held.known_to(*candidates, holder=leader.identity)
            candidates.remove(leader)
            await leader.stop()
        spec = await held.spec()
    assert len(held.successions()) == count
    assert spec["leaseTransitions"] == count - 1


@pytest.mark.parametrize("skew", [-600, 600])
async def test_wall_clock_skew_does_not_matter(skew: int) -> None:
    """A leader whose clock is ten minutes off is neither succeeded early nor late."""
    async with election(FAST) as held:
        off = await held.candidate("off", wall_clock=lambda: time.time() + skew)
        off.start()
        await held.leader(off)
        right = await held.candidate("right")
        right.start()
        await held.until(lambda: right.elector.statistics().attempts >= 20)
        assert held.successions() == ["off"]
        await off.vanish()
        before, reads = await held.spec(), right.elector.statistics().attempts
        await held.leader(right)
        reads = right.elector.statistics().attempts - reads
        after = await held.spec()
    assert unchanged_for(before, after, ahead=skew) >= FAST.duration
    assert reads <= held.most_reads(FAST.duration)


async def test_duration_in_the_lease_counts() -> None:
    """A holder was promised what the Lease says, not what a candidate was started with."""
    async with election(FAST) as held:
        await held.put({"holderIdentity": "ghost", "leaseDurationSeconds": 2})
        candidate = await held.candidate("a")
        started = time.monotonic()
        candidate.start()
        await held.leader(candidate)
        took = time.monotonic() - started
        reads = candidate.elector.statistics().attempts
    assert took >= 2
    assert reads <= held.most_reads(2)


async def test_deleted_lease_is_created_again() -> None:
    """Its leader goes on, and the standbys keep waiting for what it was promised."""
    async with election(CALM) as held:
        leader, _ = await held.started("a", "b")
        for _ in range(3):
            await held.registry.delete("leases", NAMESPACE, NAME)
            await held.attempts(leader, more=2)
        assert held.successions() == ["a"]
        assert (await held.spec())["holderIdentity"] == "a"
        assert leader.elector.statistics().terms == 1


async def test_deleting_a_lease_does_not_end_what_its_holder_was_promised() -> None:
    """The standby creates it when the vanished leader must have noticed its loss."""
    async with election(FAST) as held:
        first, second = await held.started("a", "b")
        await held.known_to(second, holder="a")
        await first.vanish()
        before, reads = await held.spec(), second.elector.statistics().attempts
        await held.registry.delete("leases", NAMESPACE, NAME)
        await held.leader(second)
        reads = second.elector.statistics().attempts - reads
        after = await held.spec()
    assert unchanged_for(before, after) >= FAST.duration
    assert reads <= held.most_reads(FAST.duration) + 1  # one when it is deleted


@pytest.mark.parametrize(
    "spec",
    [
        {},
        None,
        {"holderIdentity": ""},
        {"holderIdentity": "ghost"},
        {"holderIdentity": "ghost", "leaseDurationSeconds": 1, "renewTime": None},
        {
            "holderIdentity": "ghost",
            "leaseDurationSeconds": 1,
            "leaseTransitions": (1 << 31) - 1,
            "acquireTime": "9999-12-31T23:59:59.999999Z",
            "renewTime": "9999-12-31T23:59:59.999999Z",
        },
        {"leaseTransitions": 7, "renewTime": "1970-01-01T00:00:00.000000Z"},
        {"holderIdentity": " \n/ghost/{}'\"", "leaseDurationSeconds": 1},
        {"holderIdentity": "g" * 1_000_000, "leaseDurationSeconds": 1},
    ],
)
async def test_lease_with_invalid_content_is_acquired_after_expiry(spec: Any) -> None:
    """Whatever was written into it."""
    async with election(FAST) as held:
        await held.put(spec)
        [candidate] = await held.started("a")
        after = await held.spec()
        assert candidate.elector.statistics().last_error == ""
    assert after["holderIdentity"] == "a"
    assert 0 <= after["leaseTransitions"] < 1 << 31


@pytest.mark.parametrize(
    ("spec", "record"),
    [
        pytest.param(
            {"holderIdentity": "g" * 1_000_000}, ("g" * 253 + "…", 10, 0), id="a long holder"
        ),
        pytest.param({"leaseDurationSeconds": 2**31 - 1}, ("", 600, 0), id="68 years"),
        pytest.param({"leaseDurationSeconds": 10**30}, ("", 600, 0), id="beyond 64 bits"),
        pytest.param(
            {"holderIdentity": ["a"], "leaseDurationSeconds": "1", "leaseTransitions": {}},
            ("", 10, 0),
            id="other types",
        ),
        pytest.param(["no", "object"], ("", 10, 0), id="no object"),
        pytest.param({"leaseDurationSeconds": 1.5}, ("", 10, 0), id="a fraction"),
        pytest.param({"leaseDurationSeconds": True}, ("", 10, 0), id="a boolean"),
        pytest.param(
            {"leaseDurationSeconds": -5, "leaseTransitions": -(1 << 31)}, ("", 10, 0), id="negative"
        ),
        pytest.param({"leaseDurationSeconds": 15, "leaseTransitions": 3}, ("", 15, 3), id="valid"),
    ],
)
def test_lease_values_are_bounded(spec: Any, record: tuple[str, float, int]) -> None:
    """A Lease that is not renewed ends, and what standbys log of it is short."""
    leases = LeaseClient(
        cast(Client, None), ObjectKey("Lease", NAMESPACE, NAME), default_duration=10
    )
    assert leases.read_record(spec) == record


async def test_foreign_lease_metadata_is_kept() -> None:
    """Labels and annotations, as a tool that owns the manifest sets them."""
    async with election(CALM) as held:
        await held.put({}, labels={"app": "x"}, annotations={"note": "y"})
        await held.started("a")
        metadata = (await held.lease())["metadata"]
    assert metadata["labels"] == {"app": "x"}
    assert metadata["annotations"] == {"note": "y"}


async def test_leader_stops_after_another_holder_was_written() -> None:
    """It does not write over the new holder, and leads again only when that one is gone."""
    async with election(PATIENT) as held:
        [leader] = await held.started("a")
        await held.until(lambda: leader.elector.statistics().watching)
        await held.edit(holderIdentity="usurper", leaseDurationSeconds=1)
        await held.until(lambda: not leader.elector.is_leader)
        assert (await held.spec())["holderIdentity"] == "usurper"
        await held.until(lambda: leader.at_work == 0)
        await held.leader(leader)
        assert leader.elector.statistics().terms == 2


async def test_edit_by_others_keeps_the_leader() -> None:
    """A renewal that meets a conflict looks again and goes on."""
    async with election(CALM) as held:
        [leader] = await held.started("a")
        for number in range(5):
            await held.annotate({"n": str(number)})
            await held.attempts(leader, more=1)
        assert leader.elector.statistics().terms == 1
        assert (await held.lease())["metadata"]["annotations"] == {"n": "4"}


async def test_process_with_the_identity_of_a_dead_one_leads_at_once() -> None:
    """A container that was restarted need not wait for its own Lease."""
    async with election(PATIENT) as held:
        [before] = await held.started("a")
        await before.vanish()
        after = await held.candidate("a")
        started = time.monotonic()
        after.start()
        await held.leader(after)
        assert time.monotonic() - started < PATIENT.retry
        assert (await held.spec())["leaseTransitions"] == 0


# -- the work of a leader ----------------------------------------------------------------------


async def test_work_that_ends_releases_the_lease() -> None:
    """And `run` returns."""
    async with election(CALM) as held:
        candidate = await held.candidate("a")

        async def lead() -> None:
            assert candidate.elector.is_leader

        async with asyncio.timeout(60):
            await candidate.elector.run(lead)
        assert (await held.spec())["holderIdentity"] == ""


async def test_work_that_fails_releases_the_lease() -> None:
    """And `run` raises what it raised."""
    async with election(CALM) as held:
        candidate = await held.candidate("a")

        async def lead() -> None:
            raise LookupError("nothing to do")

        with pytest.raises(LookupError, match="nothing to do"):
            await candidate.elector.run(lead)
        assert (await held.spec())["holderIdentity"] == ""


async def test_lease_is_held_until_the_work_is_cleaned_up() -> None:
    """However long that takes: no other process works meanwhile."""
    async with election(FAST) as held:
        first, second = await held.started("a", "b")
        await held.known_to(second, holder="a")
        first.cleaning = 2.0 * FAST.duration
        stopping = asyncio.create_task(first.stop())
        await held.until(lambda: not first.leads.is_set())
        while first.at_work:
            assert first.elector.is_leader
            assert not second.elector.is_leader
            await asyncio.sleep(0.01)
        await held.leader(second)
        await stopping


async def test_lease_that_is_lost_during_the_cleaning_up_is_not_ours() -> None:
    """A leader that is ending takes notice all the same, and does not release it then."""
    async with election(CALM) as held:
        [leader] = await held.started("a")
        leader.cleaning = 1.0
        stopping = asyncio.create_task(leader.stop())
        await held.until(lambda: not leader.leads.is_set())
        assert leader.elector.is_leader
        await held.edit(holderIdentity="usurper")
        await held.until(lambda: not leader.elector.is_leader)
        assert leader.at_work == 1
        await stopping
        assert (await held.spec())["holderIdentity"] == "usurper"


async def test_lease_that_was_lost_unnoticed_is_not_released() -> None:
    """A leader that ends reads the Lease first: the new holder goes on."""
    async with election(PATIENT) as held:
        held.registry.withheld = {"watch"}
        [leader] = await held.started("a")
        await held.edit(holderIdentity="usurper")
        assert leader.elector.is_leader
        await leader.stop()
        assert (await held.spec())["holderIdentity"] == "usurper"


async def test_former_leader_competes_again_after_cleanup() -> None:
    """Until then it is not a candidate, even when there is no other."""
    async with election(FAST) as held:
        [leader] = await held.started("a")
        leader.cleaning = 3.0 * FAST.duration
        await held.edit(holderIdentity="usurper", leaseDurationSeconds=1)
        await held.until(lambda: not leader.leads.is_set())
        looks = leader.elector.statistics().attempts
        # Long after the usurper's time is over, and well before the work is cleaned up.
        await asyncio.sleep(1.5 * FAST.duration)
        assert leader.at_work == 1
        assert leader.elector.statistics().attempts <= looks + 1
        await held.leader(leader)


async def test_suspended_leader_steps_down_at_once() -> None:
    """By the clock alone, before any request; its work is then cancelled and begun again."""
    ahead = 0.0
    async with election(CALM) as held:
        [leader] = await held.started("a", clock=lambda: time.monotonic() + ahead)
        ahead = CALM.renew_deadline + 1
        assert not leader.elector.is_leader
        await held.until(lambda: leader.elector.statistics().terms == 2)
        await held.leader(leader)


# -- rights and settings -----------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["get", "create", "update"])
async def test_missing_right_is_named(verb: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is said once, and the candidate leads when the right is given."""
    async with election(FAST) as held:
        if verb == "update":
            await held.put({})
        held.registry.withheld = {verb}
        candidate = await held.candidate("a")
        candidate.start()
        await held.until(lambda: candidate.elector.statistics().failures >= 3)
        statistics = candidate.elector.statistics()
        assert not statistics.is_leader
        assert f"cannot {verb} it" in statistics.last_error
        assert "needs the permissions get, create, update, list and watch on leases" in (
            statistics.last_error
        )
        held.registry.withheld = set()
        await held.leader(candidate)
        assert candidate.elector.statistics().last_error == ""
    told = [record for record in caplog.records if "leader election needs" in record.getMessage()]
    assert [item.levelname for item in told].count("WARNING") == 1


async def test_standbys_poll_without_the_right_to_watch() -> None:
    """A release is then seen at the next look."""
    async with election(CALM) as held:
        held.registry.withheld = {"watch"}
        first, second = await held.started("a", "b")
        await held.known_to(second, holder="a")
        assert not second.elector.statistics().watching
        await first.stop()
        await held.leader(second)


@pytest.mark.parametrize(
    "timing",
    [
        LeaseTiming(duration=7, renew_deadline=7.0, retry=2.0),
        LeaseTiming(duration=10, renew_deadline=2.4, retry=2.0),
        LeaseTiming(duration=10, renew_deadline=7.0, retry=0.0),
        LeaseTiming(duration=601, renew_deadline=600.5, retry=2.0),
    ],
)
def test_durations_that_cannot_work_are_refused(timing: LeaseTiming) -> None:
    """The deadline lies before the end of the Lease, and there is time for a second try.

    A standby waits for ten minutes, whatever duration a Lease has.
    """
    client = Client(ClusterConfig("http://127.0.0.1:1", "the test", BearerToken("t")))
    with pytest.raises(ValueError, match=r"must hold|at most"):
        LeaderElector(client, ObjectKey("Lease", "default", "x"), identity="a", timing=timing)


def test_empty_identity_is_refused() -> None:
    """In a Lease it would say that there is no leader."""
    client = Client(ClusterConfig("http://127.0.0.1:1", "the test", BearerToken("t")))
    with pytest.raises(ValueError, match="identity"):
        LeaderElector(client, ObjectKey("Lease", "default", "x"), identity="")


async def test_leader_logs_once_that_it_leads(caplog: pytest.LogCaptureFixture) -> None:
    """A standby names the leader; the leader itself says only that it became leader."""
    caplog.set_level(logging.INFO)
    async with election(CALM) as held:
        _, standby = await held.started("a", "b")
        await held.known_to(standby, holder="a")
        said = [message for message in caplog.messages if message.startswith("Lease ")]
    lease = said[0].partition(":")[0]
    assert said == [f"{lease}: a became leader", f"{lease}: the leader is a"]


async def test_standby_that_stops_leaves_the_lease_alone() -> None:
    """Only who holds it may release it."""
    async with election(CALM) as held:
        leader, standby = await held.started("a", "b")
        await held.known_to(standby, holder="a")
        await standby.stop()
        assert (await held.spec())["holderIdentity"] == "a"
        assert leader.elector.is_leader


async def test_candidate_that_never_led_creates_nothing() -> None:
    """One that is stopped before it could ask leaves no Lease behind."""
    async with election(CALM) as held:
        held.registry.withheld = {"get"}
        candidate: Candidate = await held.candidate("a")
        candidate.start()
        await held.until(lambda: candidate.elector.statistics().failures >= 1)
        await candidate.stop()
        with pytest.raises(NotFound):
            await held.lease()
