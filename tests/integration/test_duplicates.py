"""A message can come twice, early, late or never: each item is removed once and ends once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sexton.working import Answer

from tests.fakes.queue import Message
from tests.fakes.world import LEASE
from tests.integration.crashing import LastingWorld
from tests.integration.given import BROKEN, DENIED, REMOVAL, planned
from tests.integration.seen import job, states, tally


def doubled(world: LastingWorld) -> tuple[Message, Message]:
    """The run's only message, received in two copies."""
    (message,) = world.queue.messages.values()
    world.queue.duplicate(message.message_id)
    first, second = world.queue.receive()
    return first, second


def calls_to_bucket(world: LastingWorld) -> list[str]:
    return [name for name in world.trace.names if name.startswith("bucket")]


def test_a_duplicate_while_the_job_is_leased_waits_and_costs_no_attempt() -> None:
    world = planned(3)
    first, second = doubled(world)
    answers: list[Answer] = []
    world.trace.at(REMOVAL, lambda: answers.append(world.work_one(second)))
    assert world.work_one(first) is Answer.ACK
    assert answers == [Answer.KEEP]
    assert world.queue.hidden == [(second.receipt, LEASE + timedelta(seconds=1))]
    assert job(world, world.run_id).attempt == 1
    assert calls_to_bucket(world) == ["bucket.list", "bucket.remove"]
    world.settle()
    assert tally(world, world.run_id) == {"deleted": 3}


def test_a_duplicate_after_success_is_acknowledged_and_touches_nothing() -> None:
    world = planned(3)
    first, second = doubled(world)
    world.work_one(first)
    world.fill(["app/000"])  # an object of the same name, bytes and age
    world.trace.calm()
    before = dict(world.table.rows)
    assert world.work_one(second) is Answer.ACK
    assert world.table.rows == before
    assert calls_to_bucket(world) == []
    assert not world.queue.messages


def test_a_duplicate_after_death_is_failed_on_and_touches_nothing() -> None:
    world = planned(1)
    world.bucket().failures["app/000"] = DENIED
    first, second = doubled(world)
    world.work_one(first)
    world.trace.calm()
    before = dict(world.table.rows)
    assert world.work_one(second) is Answer.KEEP
    assert world.table.rows == before
    assert calls_to_bucket(world) == []
    world.drain()
    assert len(world.queue.dead) == 2


def test_a_duplicate_after_the_run_closed_is_acknowledged() -> None:
    world = planned(3)
    first, second = doubled(world)
    world.work_one(first)
    world.settle()
    assert world.run({"run_id": world.run_id}).closed
    assert world.work_one(second) is Answer.ACK


def test_a_duplicate_of_a_job_that_was_split_is_acknowledged() -> None:
    world = planned(3)
    world.bucket().failures["app/001"] = DENIED
    first, second = doubled(world)
    world.work_one(first)
    assert world.work_one(second) is Answer.ACK
    world.settle()
    assert states(world, world.run_id) == {"00000000": "succeeded", "00000000.0001": "dead"}


def test_a_message_that_comes_early_waits_and_costs_no_attempt() -> None:
    world = planned(3)
    world.troubled.flaky["app/001"] = [BROKEN]
    first, second = doubled(world)
    world.work_one(first)
    before = job(world, world.run_id)
    assert before.not_before is not None
    world.clock.advance(2)
    assert world.work_one(second) is Answer.KEEP
    assert world.queue.hidden[-1] == (second.receipt, before.not_before - world.clock())
    assert job(world, world.run_id) == before


@pytest.mark.parametrize("copies", [1, 2])
def test_a_lost_message_is_sent_again(copies: int) -> None:
    world = planned(3)
    (message,) = world.queue.messages.values()
    for _ in range(copies - 1):
        world.queue.duplicate(message.message_id)
    world.queue.lose(message.message_id)
    world.settle()
    assert job(world, world.run_id).dispatches == 2
    assert tally(world, world.run_id) == {"deleted": 3}


def test_a_message_that_was_only_late_meets_the_job_that_another_settled() -> None:
    """The queue was slow: the job was dispatched again and done before the first message came."""
    world = planned(3)
    (late,) = world.queue.messages.values()
    world.queue.lose(late.message_id)
    world.settle()
    world.queue.messages[late.message_id, 0] = late
    world.drain()
    assert tally(world, world.run_id) == {"deleted": 3}


def test_a_message_moved_to_the_dead_letters_by_mistake_loses_nothing() -> None:
    """Received and never worked on, as when concurrency throttles the function: the ledger sends it again."""
    world = planned(3)
    while not world.queue.dead:
        world.queue.receive()
        world.clock.advance(world.queue.visibility)
    world.settle()
    assert tally(world, world.run_id) == {"deleted": 3}
    world.queue.redrive()
    world.drain()
    assert tally(world, world.run_id) == {"deleted": 3}
