"""A lease is held by one worker; what a killed or late one did is told truthfully."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sexton.errors import LeaseLost
from sexton.job_transitions import MOST_HISTORY
from sexton.working import Answer, Delivery

from tests.fakes.recorder import Crash
from tests.fakes.world import LEASE
from tests.integration.crashing import LastingWorld
from tests.integration.given import CLAIM, OUTCOMES, REMOVAL, SETTLEMENT, SLOW, keys, planned, receive
from tests.integration.seen import job, tally


def work(world: LastingWorld) -> Answer:
    """One worker on the message that can be received; what ends it is raised."""
    message = receive(world)
    return world.working().work(Delivery(message.message_id, message.receipt, message.body))


def another_worker(world: LastingWorld) -> None:
    """The message comes again after its visibility, when the lease is long over."""
    world.clock.advance(world.queue.visibility)
    world.trace.calm()
    world.work()


def closed(world: LastingWorld) -> dict[str, int]:
    world.settle()
    run = world.run({"run_id": world.run_id})
    assert run.balanced
    return tally(world, world.run_id)


def test_a_lease_lost_between_deletion_and_settlement_refuses_the_late_write() -> None:
    """The second worker finds the items gone and says that it cannot prove who removed them."""
    world = planned(3)
    world.trace.at(OUTCOMES, lambda: another_worker(world))
    with pytest.raises(LeaseLost):
        work(world)
    done = job(world, world.run_id)
    assert (done.state, done.attempt) == ("succeeded", 2)
    assert len(done.outcome_files) == 1
    assert len([file for file in world.evidence.files if file.startswith("outcomes/")]) == 2
    assert closed(world) == {"deleted:absent_after_attempt": 3}


def test_a_lease_lost_before_the_settlement_refuses_it_while_the_second_worker_still_works() -> None:
    world = planned(3)
    world.trace.at(SETTLEMENT, lambda: claimed_by_another(world))
    with pytest.raises(LeaseLost):
        work(world)
    assert (job(world, world.run_id).state, job(world, world.run_id).attempt) == ("leased", 2)


def claimed_by_another(world: LastingWorld) -> None:
    """Another worker claims the job, when the lease is over, and is killed at once."""
    world.clock.advance(world.queue.visibility)
    world.trace.calm()
    world.trace.crash_after(CLAIM + 1)  # the claim is refused, the takeover is not
    world.work()
    assert world.trace.names == ["table.get", "table.query", "table.write", "table.write"]


def test_a_late_release_is_refused_too() -> None:
    world = planned(3)
    world.trace.lose_request(REMOVAL)
    world.trace.at(REMOVAL + 1, lambda: another_worker(world))
    with pytest.raises(LeaseLost):
        work(world)
    assert job(world, world.run_id).state == "succeeded"
    assert closed(world) == {"deleted": 3}


def test_a_lease_that_expired_but_was_not_taken_is_still_good_for_the_settlement() -> None:
    world = planned(3)
    world.trace.at(SETTLEMENT, lambda: world.clock.advance(LEASE + timedelta(seconds=1)))
    assert work(world) is Answer.ACK
    assert closed(world) == {"deleted": 3}


def test_killed_right_after_the_deletion_is_told_truthfully() -> None:
    world = planned(3)
    world.trace.crash_after(REMOVAL)
    with pytest.raises(Crash):
        work(world)
    assert world.bucket().keys() == []
    another_worker(world)
    done = job(world, world.run_id)
    assert (done.attempt, done.no_records, done.history[0].code) == (2, 1, "no_record")
    assert closed(world) == {"deleted:absent_after_attempt": 3}


def test_killed_right_after_the_deletion_on_a_versioned_bucket_places_no_second_marker() -> None:
    world = planned(3, "Enabled")
    world.trace.crash_after(REMOVAL)
    with pytest.raises(Crash):
        work(world)
    another_worker(world)
    assert closed(world) == {"deleted:absent_after_attempt": 3}
    assert [world.bucket().markers(key) for key in keys(3)] == [1, 1, 1]


def test_rewritten_after_a_killed_worker_is_skipped_as_changed_after_attempt() -> None:
    world = planned(3)
    world.trace.crash_after(REMOVAL)
    with pytest.raises(Crash):
        work(world)
    world.bucket().put("app/001", b"born again")
    another_worker(world)
    assert closed(world) == {"deleted:absent_after_attempt": 2, "skipped:changed_after_attempt": 1}
    assert world.bucket().keys() == ["app/001"]


def test_a_tick_finds_an_expired_lease_and_sends_the_job_again() -> None:
    world = planned(3)
    world.trace.crash_after(CLAIM)
    with pytest.raises(Crash):
        work(world)
    world.trace.calm()
    world.tick()
    assert job(world, world.run_id).state == "leased", "a live lease is never taken away"
    world.clock.advance(LEASE + timedelta(seconds=1))
    world.tick()
    found = job(world, world.run_id)
    assert (found.state, found.maybe_done, found.no_records) == ("ready", True, 1)
    assert closed(world) == {"deleted": 3}


def test_a_lease_that_ends_now_is_still_live() -> None:
    world = planned(3)
    world.trace.crash_after(CLAIM)
    with pytest.raises(Crash):
        work(world)
    world.clock.advance(LEASE)
    world.tick()
    assert job(world, world.run_id).state == "leased"


def test_a_claim_whose_reply_was_lost_ends_without_a_record_and_is_taken_over() -> None:
    world = planned(3)
    world.trace.lose_reply(CLAIM)
    assert list(world.work().values()) == [Answer.KEEP]
    assert job(world, world.run_id).state == "leased"
    another_worker(world)
    assert closed(world) == {"deleted": 3}


def test_of_two_workers_that_take_over_one_wins() -> None:
    world = planned(3)
    world.trace.crash_after(CLAIM)
    with pytest.raises(Crash):
        work(world)
    (message,) = world.queue.messages.values()
    world.queue.duplicate(message.message_id)
    world.clock.advance(world.queue.visibility)
    world.trace.calm()
    first, second = world.queue.receive()
    # Both saw the expired lease; the second takes over just before the first does.
    world.trace.at(CLAIM + 1, lambda: world.work_one(second))
    assert world.work_one(first) is Answer.KEEP
    assert (job(world, world.run_id).state, job(world, world.run_id).attempt) == ("succeeded", 2)


def test_a_job_that_is_throttled_for_days_never_fills_its_row() -> None:
    world = planned(1, limits={"max_age": "P10D"}, slo="P14D")
    (row,) = (row for row in world.table.rows.values() if "job_id" in row)
    entry = {"at": 0, "attempt": 1, "event": "throttled", "code": "SlowDown", "summary": "s" * 300}
    row["history"] = [entry] * MOST_HISTORY
    world.troubled.flaky["app/000"] = [SLOW]
    world.work()
    after_release = job(world, world.run_id)
    assert (len(after_release.history), after_release.history[-1].code) == (MOST_HISTORY, "SlowDown")
    assert after_release.history[-1].at == world.clock()
    world.clock.advance(60)
    world.troubled.poison.add("app/000")
    world.drain()
    world.tick()
    assert "no_record" in {each.code for each in job(world, world.run_id).history}
    assert len(job(world, world.run_id).history) == MOST_HISTORY
