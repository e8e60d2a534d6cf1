"""When a worker looks again, and when it stops."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sexton import run_transitions
from sexton.item import Item
from sexton.working import Answer

from tests.fakes.time import FakeTimeLeft
from tests.fakes.world import LEASE
from tests.integration.crashing import LastingWorld, TroubledBucket
from tests.integration.given import CALLS, LOOK, PART, REMOVAL, after, keys, planned, rule
from tests.integration.seen import job, tally

TIMEOUT = timedelta(seconds=15)  # of the fake bucket's calls
LEAST = TIMEOUT + timedelta(seconds=10)  # of the lease, when an effect begins


def invalidate(world: LastingWorld, seconds: float = 0) -> None:
    world.clock.advance(seconds)
    run = world.run({"run_id": world.run_id})
    world.table.write(run_transitions.invalidate(run, "by_hand", "for a test", world.clock(), world.tokens()))


# a fresh look


def test_a_look_of_ten_seconds_is_fresh() -> None:
    world = planned(3)
    slow_look(world, seconds=10)
    world.work()
    assert world.trace.names == CALLS


def test_a_look_older_than_ten_seconds_is_made_again_and_the_runs_state_read_again() -> None:
    world = planned(3)
    slow_look(world, seconds=10.001)
    world.work()
    assert world.trace.names[LOOK - 1 : REMOVAL + 3] == [
        "bucket.list",
        "table.get",
        "table.query",
        "bucket.list",
        "bucket.remove",
    ]
    assert tally(world, world.run_id) == {"deleted": 3}


def slow_look(world: LastingWorld, seconds: float) -> None:
    """The first listing takes so long."""
    world.troubled.slow = [timedelta(seconds=seconds)]


def test_rewritten_with_identical_bytes_while_a_look_grew_old_is_skipped() -> None:
    world = planned(3)
    slow_look(world, seconds=11)
    after(world, LOOK, lambda: world.bucket().rewrite("app/001"))
    world.work()
    assert tally(world, world.run_id) == {"deleted": 2, "skipped:changed": 1}


def test_a_job_whose_looks_take_long_is_done_in_groups_that_keep_them_fresh() -> None:
    """A thousand items far apart are looked at one by one; all of them at once would never be fresh."""
    world = planned(200)
    sparse(world)
    slow_heads(world.troubled, timedelta(milliseconds=150))
    world.work(time_left=FakeTimeLeft(world.clock, timedelta(minutes=15)))
    assert tally(world, world.run_id) == {"deleted": 200}
    assert world.bucket().calls["head"] == 200
    assert world.bucket().calls["remove"] == 4


def test_looks_that_take_longer_still_make_the_groups_smaller() -> None:
    world = planned(60)
    sparse(world)
    slow_heads(world.troubled, timedelta(milliseconds=500))
    world.work(time_left=FakeTimeLeft(world.clock, timedelta(minutes=15)))
    assert tally(world, world.run_id) == {"deleted": 60}


def sparse(world: LastingWorld) -> None:
    world.table.rows[job(world, world.run_id).key]["span"] = 10**7


def slow_heads(bucket: TroubledBucket, each: timedelta) -> None:
    real = bucket.head

    def head(key: str) -> Item | None:
        bucket.clock.advance(each)
        return real(key)

    bucket.head = head  # type: ignore[method-assign]


# the lease and the function's time


@pytest.mark.parametrize(("left", "removed"), [(LEAST, True), (LEAST - timedelta(milliseconds=1), False)])
def test_no_effect_begins_when_the_lease_does_not_outlast_it_by_ten_seconds(left: timedelta, removed: bool) -> None:
    world = planned(3)
    world.trace.at(PART, lambda: world.clock.advance(LEASE - left))
    world.work(time_left=lambda: timedelta(minutes=15))
    assert ("bucket.remove" in world.trace.names) == removed


def test_a_look_that_outlasts_the_lease_begins_no_effect() -> None:
    world = planned(3)
    slow_look(world, seconds=LEASE.total_seconds() - 20)
    world.work(time_left=lambda: timedelta(minutes=15))
    assert "bucket.remove" not in world.trace.names
    assert job(world, world.run_id).state == "ready"


def test_out_of_time_before_any_outcome_costs_an_attempt_and_gives_the_job_back() -> None:
    world = planned(3)
    world.trace.at(PART, lambda: world.clock.advance(100))
    assert list(world.work().values()) == [Answer.KEEP]
    given_back = job(world, world.run_id)
    assert (given_back.state, given_back.attempt, given_back.maybe_done) == ("ready", 1, False)
    world.settle()
    assert tally(world, world.run_id) == {"deleted": 3}


def test_out_of_time_after_some_outcomes_gives_the_rest_back_at_no_cost() -> None:
    world = planned([*keys(2), "app/odd\x01", "app/odd\x02"])
    after(world, REMOVAL, lambda: world.clock.advance(100))
    assert list(world.work().values()) == [Answer.KEEP]
    given_back = job(world, world.run_id)
    assert (given_back.state, given_back.attempt, given_back.open_items) == ("ready", 0, 2)
    assert given_back.reason == "out_of_time"
    assert given_back.not_before == world.clock()
    world.settle()
    assert tally(world, world.run_id) == {"deleted": 4}


def test_the_last_of_a_slow_batch_is_not_claimed() -> None:
    world = planned(3)
    assert list(world.work(time_left=lambda: timedelta(seconds=20)).values()) == [Answer.KEEP]
    assert (job(world, world.run_id).state, job(world, world.run_id).attempt) == ("ready", 0)


# the run is not at work any more


def test_a_run_invalidated_while_a_look_grew_old_stops_the_worker_before_its_effect() -> None:
    world = planned(3)
    slow_look(world, seconds=11)
    after(world, LOOK, lambda: invalidate(world))
    assert list(world.work().values()) == [Answer.ACK]
    assert "bucket.remove" not in world.trace.names
    assert tally(world, world.run_id) == {"cancelled": 3}
    assert world.bucket().keys() == keys(3)


def test_a_run_invalidated_after_some_effects_keeps_their_outcomes() -> None:
    world = planned([*keys(2), "app/odd\x01"])
    after(world, REMOVAL, lambda: invalidate(world, seconds=11))
    world.work()
    assert tally(world, world.run_id) == {"deleted": 2, "cancelled": 1}
    world.settle()
    assert world.run({"run_id": world.run_id}).balanced


def test_a_run_invalidated_after_a_lost_reply_is_observed_before_it_is_cancelled() -> None:
    world = planned([*keys(2), "app/odd\x01"])
    world.trace.lose_reply(REMOVAL)
    world.trace.at(REMOVAL, lambda: invalidate(world, seconds=11))
    world.work()
    assert (job(world, world.run_id).state, job(world, world.run_id).maybe_done) == ("ready", True)
    world.settle()
    assert tally(world, world.run_id) == {"deleted:absent_after_attempt": 2, "cancelled": 1}


def test_a_message_of_an_invalidated_run_makes_no_call_to_the_bucket() -> None:
    world = planned(3)
    invalidate(world)
    assert list(world.work().values()) == [Answer.KEEP]
    assert not [name for name in world.trace.names if name.startswith("bucket")]
    world.settle()
    world.drain()
    assert tally(world, world.run_id) == {"cancelled": 3}


# another policy version is deployed


def test_another_deployed_version_parks_the_job() -> None:
    world = planned(3)
    world.policies["logs-expire"] = rule(retain="P31D")
    assert list(world.work().values()) == [Answer.KEEP]
    assert world.trace.names == ["table.get", "table.query", "deliveries.hide"]
    assert world.queue.hidden[-1][1] == timedelta(seconds=60)
    assert (job(world, world.run_id).state, job(world, world.run_id).attempt) == ("ready", 0)


def test_a_parked_job_goes_on_when_the_deploy_was_only_half_done() -> None:
    world = planned(3)
    world.policies["logs-expire"] = rule(retain="P31D")
    for _ in range(3):
        world.work()
        world.tick()
        world.clock.advance(60)
    world.policies["logs-expire"] = rule()
    world.settle()
    assert tally(world, world.run_id) == {"deleted": 3}


def test_a_parked_job_is_cancelled_when_the_policy_has_really_changed() -> None:
    world = planned(3)
    world.policies["logs-expire"] = rule(retain="P31D")
    world.settle()
    world.drain()
    assert world.run({"run_id": world.run_id}).reason == "policy_changed"
    assert tally(world, world.run_id) == {"cancelled": 3}
    assert world.bucket().keys() == keys(3)
