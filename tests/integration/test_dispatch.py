"""Each ready job's message goes out, once if nothing goes wrong, and again when it was lost."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta

import pytest
from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.job import Job
from sexton.run import Run

from tests.fakes.recorder import Crash
from tests.fakes.world import VISIBILITY, World, policy
from tests.integration.given import CLAIM

RUN = "logs-expire.20260301T120000Z.1"
UNAVAILABLE = Failure(ReasonClass.TRANSIENT, "ServiceUnavailable", "try again")
SECOND = timedelta(seconds=1)


def world_with(jobs: int) -> World:
    """A run of so many jobs of one object each, created and not yet planned."""
    world = World(policies={"logs-expire": policy(job_size=1, limits={"max_items": 10_000})})
    world.fill(f"app/{n:04d}" for n in range(jobs))
    world.trigger(plan=False)
    return world


def discover(world: World) -> Run:
    world.discover({"resume": RUN})
    return run(world)


def run(world: World) -> Run:
    return world.run({"run_id": RUN})


def jobs(world: World) -> list[Job]:
    return list(world.ledger.jobs(RUN))


def sent(world: World) -> Counter[str]:
    """How often each job's message was taken by the queue, by the last part of its id."""
    return Counter(json.loads(message.body)["job_id"].rsplit(".", 1)[1] for message in world.queue.sent)


def once(number: int) -> Counter[str]:
    return Counter(f"{n:08d}" for n in range(number))


def lose_all(world: World) -> None:
    for message_id, _ in list(world.queue.messages):
        world.queue.lose(message_id)


def assert_done(world: World, number: int) -> None:
    world.settle()
    found = run(world)
    assert (found.state, found.balanced, found.planned) == ("completed", True, number)
    assert world.bucket().keys() == []


def test_every_job_is_sent_once_in_batches_of_ten_and_the_run_drains() -> None:
    world = world_with(25)
    assert discover(world).state == "draining"
    assert sent(world) == once(25)
    assert world.queue.calls["send"] == 3
    assert {message.group for message in world.queue.sent} == {"logs-expire"}
    assert_done(world, 25)


def test_a_message_says_what_the_row_says_and_nothing_more() -> None:
    world = world_with(1)
    found = discover(world)
    (job,), (message,) = jobs(world), world.queue.sent
    assert json.loads(message.body) == {
        "schema": 1,
        "job_id": f"{RUN}.00000000",
        "run_id": RUN,
        "policy_version": found.policy_version,
        "cutoff": "2026-01-30T12:00:00Z",
        "part_key": job.part_key,
        "part_sha256": job.part_sha256,
        "start": 0,
        "end": 1,
        "count": 1,
        "first_key": "app/0000",
    }


@pytest.mark.parametrize("character", ["a", "\x01", "é", "\u20ac", "\uffff", "\U0001f5d1"])
def test_a_message_stays_under_8_kb_and_plain_whatever_the_key(character: str) -> None:
    """SQS counts bytes, and refuses control characters, U+FFFE and U+FFFF: one such message fails its whole batch."""
    world = World()
    room = 1024 - len("app/")
    key = "app/" + character * (room // len(character.encode()))
    world.fill([key])
    world.trigger()
    (message,) = world.queue.sent
    assert len(message.body.encode()) < 8 * 1024
    assert message.body.isascii()
    assert message.body.isprintable()
    assert json.loads(message.body)["first_key"] == key
    world.settle()
    assert world.bucket().keys() == []


# lost messages


def test_a_lost_message_is_sent_again_after_waits_that_double() -> None:
    world = world_with(1)
    discover(world)
    waits, last = [], world.clock()
    while len(waits) < 5:
        lose_all(world)
        world.tick()
        if sent(world)["00000000"] > len(waits) + 1:
            waits.append(world.clock() - last)
            last = world.clock()
        world.clock.advance(60)
    assert waits == [VISIBILITY * factor for factor in (1, 2, 4, 8, 16)]
    assert jobs(world)[0].dispatches == 6
    assert_done(world, 1)


def test_the_wait_for_a_lost_message_never_grows_past_a_day() -> None:
    world = world_with(1)
    discover(world)
    for _ in range(12):
        lose_all(world)
        world.clock.advance(timedelta(days=1, minutes=1))
        world.discover({"resume": RUN})
    (job,) = jobs(world)
    assert job.dispatches == 13
    assert job.dispatch_due == world.clock() + timedelta(days=1)


def test_only_the_lost_ones_of_many_are_sent_again() -> None:
    world = world_with(30)
    discover(world)
    for message in world.queue.receive(10):
        world.queue.lose(message.message_id)
    while world.work():
        pass
    assert_done(world, 30)
    assert sorted(sent(world).values()) == [1] * 20 + [2] * 10


def test_nothing_is_sent_before_it_is_due() -> None:
    world = world_with(3)
    discover(world)
    world.clock.advance(VISIBILITY - SECOND)
    world.tick()
    assert sent(world) == once(3)
    world.clock.advance(SECOND)
    world.tick()
    assert set(sent(world).values()) == {2}


# two dispatchers


def calls_of_dispatch(number: int) -> list[str]:
    world = world_with(number)
    world.trace.calm()
    discover(world)
    return world.trace.names


@pytest.mark.parametrize("nth", range(1, len(calls_of_dispatch(12)) + 1))
def test_overlapping_dispatchers_do_not_double(nth: int) -> None:
    """A second discovery does all it can just before any call of the first."""
    world = world_with(12)
    world.trace.calm()
    world.trace.at(nth, lambda: world.discover({"resume": RUN}))
    discover(world)
    world.settle()
    assert sent(world) == once(12)
    assert_done(world, 12)


def test_a_job_that_was_claimed_meanwhile_is_not_sent_again() -> None:
    world = world_with(3)
    discover(world)
    world.clock.advance(VISIBILITY)
    world.trace.calm()
    world.trace.at(3, lambda: world.work())  # run and jobs were read; the workers are faster
    world.discover({"resume": RUN})
    assert sent(world) == once(3)
    assert_done(world, 3)


# what the queue does not take


def test_a_failed_entry_of_a_batch_is_due_again_at_once() -> None:
    world = world_with(3)
    world.queue.refusals["1"] = UNAVAILABLE
    discover(world)
    assert sent(world) == once(3) - Counter({"00000001": 1})
    assert [job.dispatch_due == world.clock() for job in jobs(world)] == [False, True, False]
    world.queue.refusals.clear()
    world.tick()
    assert sent(world) == once(3)
    assert_done(world, 3)


@pytest.mark.parametrize("moment", ["lose_request", "lose_reply", "crash_before", "crash_after"])
def test_a_send_that_fails_or_dies_is_made_again_when_it_counts_as_lost(moment: str) -> None:
    world = world_with(12)
    world.trace.calm()
    getattr(world.trace, moment)(calls_of_dispatch(12).index("queue.send") + 1)
    with pytest.raises((CallFailed, Crash)):
        discover(world)
    assert run(world).state == "dispatching"
    arrived = set() if moment in ("lose_request", "crash_before") else {f"{n:08d}" for n in range(10)}
    assert set(sent(world)) == arrived
    world.tick()
    assert set(sent(world)) == arrived | {"00000010", "00000011"}
    assert_done(world, 12)


@pytest.mark.parametrize("nth", range(1, 11))
def test_a_crash_between_mark_and_send_only_delays(nth: int) -> None:
    world = world_with(10)
    world.trace.calm()
    first_mark = calls_of_dispatch(10).index("queue.send") - 10
    world.trace.crash_after(first_mark + nth)
    with pytest.raises(Crash):
        discover(world)
    assert sum(job.dispatches for job in jobs(world)) == nth
    assert not world.queue.sent
    assert_done(world, 10)
    assert sent(world) == once(10)


@pytest.mark.parametrize(("seconds", "taken"), [(9, 3), (21, 0)])
def test_a_send_that_would_come_late_is_dropped(seconds: int, taken: int) -> None:
    """Later than 20 s after its mark it could double one that another dispatcher makes."""
    world = world_with(3)
    world.trace.calm()
    place = calls_of_dispatch(3).index("queue.send")  # the last mark is slow
    world.trace.at(place, lambda: world.clock.advance(seconds))
    discover(world)
    assert len(world.queue.sent) == taken
    assert_done(world, 3)
    assert sent(world) == once(3)


# the window, and the function's time


def test_no_more_jobs_are_outstanding_than_the_window_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexton.dispatch.WINDOW", 15)
    world = world_with(40)
    assert discover(world).state == "dispatching"
    assert len(world.queue.sent) == 15
    world.tick()
    assert len(world.queue.sent) == 15
    world.work()
    world.tick()
    assert len(world.queue.sent) == 25
    assert_done(world, 40)
    assert sent(world) == once(40)


def test_leased_jobs_are_outstanding_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexton.dispatch.WINDOW", 5)
    world = world_with(10)
    discover(world)
    (message,) = world.queue.receive(1)
    world.trace.calm()
    world.trace.crash_after(CLAIM)
    with pytest.raises(Crash):
        world.work_one(message)
    world.tick()
    assert len(world.queue.sent) == 5
    assert_done(world, 10)


def test_dispatch_stops_in_time_and_goes_on_with_the_next_tick() -> None:
    world = world_with(35)
    left = iter([*[timedelta(minutes=10)] * 3, timedelta(seconds=29)])
    world.discover({"resume": RUN}, lambda: next(left))
    assert run(world).state == "dispatching"
    assert len(world.queue.sent) == 20
    world.tick()
    assert run(world).state == "draining"
    assert sent(world) == once(35)


def test_a_run_that_is_not_at_work_dispatches_nothing() -> None:
    world = world_with(3)
    discover(world)
    world.settle()
    before = len(world.queue.sent)
    world.discover({"resume": RUN})
    assert len(world.queue.sent) == before


def test_a_run_of_another_policy_version_is_left_alone() -> None:
    world = world_with(3)
    world.policies["logs-expire"] = policy(retain="P31D")
    assert discover(world).state == "planning"
    assert world.events_logged("run_left_alone")
    assert not world.queue.sent
