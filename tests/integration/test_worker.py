"""What comes of a job's items, and of the job, on the real flows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sexton.errors import Failure, ReasonClass
from sexton.working import Answer

from tests.integration.crashing import LastingWorld
from tests.integration.given import (
    BROKEN,
    CALLS,
    DENIED,
    LOOK,
    OUTCOMES,
    REMOVAL,
    SETTLEMENT,
    SLOW,
    UNSURE,
    keys,
    planned,
)
from tests.integration.seen import ends, job, states, tally

CHANGED = Failure(ReasonClass.CHANGED, "PreconditionFailed", "another ETag")
GONE = Failure(ReasonClass.GONE, "NoSuchKey", "no such key")
LOCKED = Failure(ReasonClass.LOCKED, "AccessDenied", "object lock")


def settled(world: LastingWorld) -> dict[str, int]:
    """How the items ended once the run is closed, with balanced books."""
    world.settle()
    run = world.run({"run_id": world.run_id})
    assert run.state == "completed"
    assert run.balanced
    return tally(world, world.run_id)


def test_a_worker_that_meets_no_trouble_makes_eight_calls() -> None:
    world = planned(3)
    assert list(world.work().values()) == [Answer.ACK]
    assert world.trace.names == CALLS
    assert settled(world) == {"deleted": 3}


# changed between planning and deletion


def test_rewritten_between_planning_and_deletion_is_skipped() -> None:
    world = planned(3)
    world.bucket().put("app/001", b"other bytes")
    assert settled(world) == {"deleted": 2, "skipped:changed": 1}
    assert world.bucket().keys() == ["app/001"]


def test_rewritten_with_identical_bytes_between_planning_and_deletion_is_skipped() -> None:
    world = planned(3)
    before = world.bucket().current("app/001")
    after = world.bucket().rewrite("app/001")
    assert before is not None
    assert before.etag == after.etag
    assert settled(world) == {"deleted": 2, "skipped:changed": 1}


def test_rewritten_between_the_look_and_the_deletion_is_skipped() -> None:
    world = planned(3)
    world.trace.at(REMOVAL, lambda: world.bucket().put("app/001", b"other bytes"))
    assert settled(world) == {"deleted": 2, "skipped:changed": 1}
    assert world.bucket().keys() == ["app/001"]


def test_deleted_by_somebody_else_is_skipped_as_absent() -> None:
    world = planned(3)
    world.bucket().delete("app/001")
    assert settled(world) == {"deleted": 2, "skipped:absent": 1}


def test_deleted_by_somebody_else_on_a_versioned_bucket_gets_no_second_marker() -> None:
    world = planned(3, "Enabled")
    world.bucket().delete("app/001")
    assert settled(world) == {"deleted": 2, "skipped:absent": 1}
    assert [world.bucket().markers(key) for key in keys(3)] == [1, 1, 1]


# errors of single keys in an answer of 200


@pytest.mark.parametrize(
    ("failure", "ended"),
    [(CHANGED, "skipped:changed"), (GONE, "skipped:absent"), (LOCKED, "skipped:locked")],
)
def test_a_key_that_needs_no_removal_is_skipped_and_not_tried_again(failure: Failure, ended: str) -> None:
    world = planned(3)
    world.bucket().failures["app/001"] = failure
    assert settled(world) == {"deleted": 2, ended: 1}
    assert world.bucket().calls["remove"] == 1


@pytest.mark.parametrize(("failure", "attempts"), [(BROKEN, 2), (UNSURE, 2), (SLOW, 1)])
def test_a_key_that_may_go_later_is_tried_again(failure: Failure, attempts: int) -> None:
    world = planned(3)
    world.troubled.flaky["app/001"] = [failure]
    world.work()
    released = job(world, world.run_id)
    assert (released.state, released.open_items, released.counts) == ("ready", 1, {"deleted": 2})
    assert (released.reason_class, released.maybe_done) == (failure.reason_class, failure.unknown_effect)
    assert released.not_before is not None
    assert released.not_before > world.clock()
    assert settled(world) == {"deleted": 3}
    assert job(world, world.run_id).attempt == attempts


def test_a_key_whose_reply_was_lost_and_that_is_gone_was_deleted_as_far_as_can_be_known() -> None:
    world = planned(3)
    world.trace.lose_reply(REMOVAL)
    world.work()
    assert job(world, world.run_id).maybe_done
    assert settled(world) == {"deleted:absent_after_attempt": 3}


def test_a_lost_reply_places_no_second_marker() -> None:
    world = planned(3, "Enabled")
    world.trace.lose_reply(REMOVAL)
    assert settled(world) == {"deleted:absent_after_attempt": 3}
    assert [world.bucket().markers(key) for key in keys(3)] == [1, 1, 1]


def test_a_key_that_is_refused_for_good_leaves_and_alone_is_dead() -> None:
    world = planned(3)
    world.bucket().failures["app/001"] = DENIED
    assert settled(world) == {"deleted": 2, "dead:AccessDenied": 1}
    assert states(world, world.run_id) == {"00000000": "succeeded", "00000000.0001": "dead"}


# throttling


def test_throttling_costs_no_attempts() -> None:
    world = planned(1)
    world.troubled.flaky["app/000"] = [SLOW] * 10
    assert settled(world) == {"deleted": 1}
    done = job(world, world.run_id)
    assert (done.attempt, done.throttles) == (1, 10)


def test_throttling_is_bounded_by_age() -> None:
    world = planned(1, limits={"max_age": "PT2H"})
    world.bucket().failures["app/000"] = SLOW
    begun = world.clock()
    assert settled(world) == {"dead:SlowDown": 1}
    assert world.clock() - begun < timedelta(hours=2, minutes=20)
    dead = job(world, world.run_id)
    assert (dead.reason_class, dead.summary) == ("throttled", "slow down")
    assert dead.next_action


def test_the_wait_grows_and_has_its_cap() -> None:
    world = planned(1)
    world.bucket().failures["app/000"] = SLOW
    world.settle()
    waits = [wait for _, wait in world.queue.hidden if wait]
    assert waits[:4] == [timedelta(seconds=seconds) for seconds in (5, 10, 20, 40)]
    assert max(waits) <= timedelta(minutes=15)


def test_what_the_server_asks_to_wait_is_waited() -> None:
    world = planned(1)
    world.troubled.flaky["app/000"] = [Failure(ReasonClass.THROTTLED, "SlowDown", "", retry_after=600)]
    world.work()
    assert job(world, world.run_id).not_before == world.clock() + timedelta(seconds=600)


# attempts and age used up


def test_attempts_used_up_with_every_effect_known_is_dead_at_once() -> None:
    world = planned(1)
    world.bucket().failures["app/000"] = BROKEN
    assert settled(world) == {"dead:OperationAborted": 1}
    dead = job(world, world.run_id)
    assert dead.attempt == 3
    assert [entry.event for entry in dead.history] == ["transient", "transient", "dead"]


def test_attempts_used_up_with_an_unknown_effect_is_observed_before_it_is_dead() -> None:
    world = planned(1)
    world.bucket().failures["app/000"] = UNSURE
    while job(world, world.run_id).attempt < 3:
        world.work()
        world.clock.advance(60)
    released = job(world, world.run_id)
    assert (released.state, released.reason, released.maybe_done) == ("ready", "InternalError", True)
    world.trace.calm()
    world.tick()
    assert "bucket.list" in world.trace.names
    assert "bucket.remove" not in world.trace.names
    assert job(world, world.run_id).state == "dead"
    assert settled(world) == {"dead:InternalError": 1}


def test_attempts_used_up_with_an_unknown_effect_that_took_place_is_no_death() -> None:
    world = planned(1)
    world.bucket().failures["app/000"] = UNSURE
    while job(world, world.run_id).attempt < 3:
        world.work()
        world.clock.advance(60)
    world.bucket().delete("app/000")
    assert settled(world) == {"deleted:absent_after_attempt": 1}


def test_age_used_up_with_an_unknown_effect_is_observed_before_it_is_dead() -> None:
    world = planned(2, limits={"max_age": "PT15M"})
    world.bucket().failures.update(dict.fromkeys(keys(2), UNSURE))
    world.work()
    world.clock.advance(15 * 60)
    world.bucket().delete("app/000")
    world.trace.calm()
    world.tick()
    assert "bucket.list" in world.trace.names
    assert settled(world) == {"deleted:absent_after_attempt": 1, "dead:InternalError": 1}


# a failure of the whole call


def test_a_call_refused_for_good_gives_the_job_back_and_halts_the_run() -> None:
    world = planned(30)
    world.bucket().put("app/000", b"other bytes")
    world.bucket().failures.update(dict.fromkeys(keys(30), DENIED))
    assert list(world.work().values()) == [Answer.ACK]
    back, halted = job(world, world.run_id), world.run({"run_id": world.run_id})
    assert (back.state, back.attempt, back.reason, back.counts) == ("ready", 0, "AccessDenied", {"skipped:changed": 1})
    assert back.dispatch_due is not None
    assert back.dispatch_due <= world.clock()
    assert (halted.state, halted.reason, halted.halted_from) == ("halted", "breaker", "draining")
    assert [(each.actor, each.change) for each in halted.changes] == [("sexton", "halted")]


def test_a_run_whose_permission_was_mended_goes_on_when_it_is_resumed() -> None:
    world = planned(3)
    world.bucket().fail_next("list", DENIED)
    world.work()
    world.stopping().resume_run(world.run_id, "the role may list again", "me")
    assert settled(world) == {"deleted": 3}


def test_a_job_that_is_refused_again_dies_with_the_outcomes_it_had() -> None:
    """Nobody mended it: a person looks at this job, and the rest of the run is not kept for ever."""
    world = planned(30)
    world.bucket().put("app/000", b"other bytes")
    world.bucket().failures.update(dict.fromkeys(keys(30), DENIED))
    world.work()
    world.stopping().resume_run(world.run_id, "perhaps it goes now", "me")
    assert settled(world) == {"skipped:changed": 1, "dead:AccessDenied": 29}
    assert states(world, world.run_id) == {"00000000": "dead"}


def test_an_altered_part_removes_nothing() -> None:
    world = planned(3)
    part_key = job(world, world.run_id).part_key
    world.evidence.files[part_key] = world.evidence.files[part_key].replace(b"app/001", b"app/xxx")
    world.work()
    dead = job(world, world.run_id)
    assert (dead.state, dead.reason) == ("dead", "evidence_altered")
    assert world.bucket().keys() == keys(3)


def test_a_missing_outcome_file_removes_nothing_more() -> None:
    world = planned(3)
    world.troubled.flaky["app/001"] = [BROKEN]
    world.work()
    (file,) = job(world, world.run_id).outcome_files
    del world.evidence.files[file]
    world.clock.advance(60)
    world.work()
    assert job(world, world.run_id).reason == "evidence_altered"
    assert world.bucket().keys() == ["app/001"]


# a dead job and its message


def test_a_dead_jobs_message_is_failed_on_until_sqs_moves_it_to_the_dead_letters() -> None:
    world = planned(1)
    world.bucket().failures["app/000"] = DENIED
    assert list(world.work().values()) == [Answer.KEEP]
    assert job(world, world.run_id).state == "dead"
    world.trace.calm()
    while world.work():
        pass
    (dead,) = world.queue.dead
    assert dead.message.source_arn
    assert world.run_id in dead.message.body
    assert not [name for name in world.trace.names if name.startswith("bucket")]
    assert world.trace.names.count("table.write") == world.trace.names.count("deliveries.hide")


# evidence first


def test_the_outcomes_are_written_before_the_settlement_that_names_them() -> None:
    world = planned(3)
    world.trace.crash_before(SETTLEMENT)
    world.work()
    assert [key for key in world.evidence.files if key.startswith("outcomes/")]
    assert job(world, world.run_id).outcome_files == ()
    assert world.trace.names[OUTCOMES - 1] == "evidence.put_once"
    assert settled(world) == {"deleted:absent_after_attempt": 3}
    assert all(len(names) == 1 for names in ends(world, world.run_id).values())


def test_outcomes_say_when_what_and_what_was_seen() -> None:
    world = planned(2, "Enabled")
    world.bucket().put("app/001", b"other bytes")
    world.trace.at(LOOK, lambda: world.clock.advance(3))
    world.work()
    (file,) = job(world, world.run_id).outcome_files
    deleted, skipped = world.evidence.files[file].splitlines()
    assert b'"marker_version_id":"version-' in deleted
    assert b'"outcome":"skipped"' in skipped
    assert b'"reason":"changed"' in skipped
    assert b'"observed":{"key":"app/001"' in skipped
