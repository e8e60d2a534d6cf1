"""Pause, halt, hold, invalidate: stopping beats queued work, loses nothing, and is told with who and why."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sexton.controls import Controls
from sexton.errors import BadRunId, NotAllowed, UnknownPolicy, UnknownRun
from sexton.job import JobState
from sexton.replaying import Replaying
from sexton.run import Run, RunState
from sexton.table import Key, Write
from sexton.working import Answer

from tests.integration.crashing import LastingWorld
from tests.integration.given import BROKEN, DENIED, LOOK, after, keys, planned, rule
from tests.integration.seen import job, states, tally

WHY = "the policy names the wrong prefix"
ME = "arn:aws:sts::123456789012:assumed-role/Operator/me"


def run_of(world: LastingWorld) -> Run:
    return world.run({"run_id": world.run_id})


def slow_look(world: LastingWorld) -> None:
    """The first listing takes so long that it is made again."""
    world.troubled.slow = [timedelta(seconds=11)]


# pause


@pytest.mark.parametrize("scope", ["logs-expire", "all"])
def test_a_paused_policy_removes_nothing_and_its_message_goes(scope: str) -> None:
    world = planned(3)
    world.stopping().pause(scope, WHY, ME)
    assert list(world.work().values()) == [Answer.ACK]
    parked = job(world, world.run_id)
    assert (parked.state, parked.attempt, parked.dispatch_due) == ("ready", 0, world.clock())
    assert world.troubled.keys() == keys(3)
    assert [fields["job_id"] for fields in world.events_logged("job_parked")] == [parked.job_id]


def test_a_pause_that_comes_and_goes_every_day_does_not_outgrow_its_row() -> None:
    world = planned(3)
    for _ in range(150):
        world.stopping().pause("all", WHY, ME)
        world.clock.advance(60)
        world.stopping().resume("all", WHY, ME)
        world.clock.advance(60)
    world.stopping().pause("all", "the last one", ME)
    (pause,) = world.ledger.controls().pauses
    assert (pause.paused, len(pause.history)) == (True, 200)
    assert pause.history[-1].reason == "the last one"


def test_another_policys_pause_stops_nothing() -> None:
    world = planned(3)
    world.policies["other"] = rule(id="other")
    world.stopping().pause("other", WHY, ME)
    world.work()
    assert tally(world, world.run_id) == {"deleted": 3}


def test_nothing_is_sent_and_nothing_dies_while_it_is_paused_and_all_goes_on_afterwards() -> None:
    world = planned(3)
    world.stopping().pause("logs-expire", WHY, ME)
    world.work()
    for _ in range(20):
        world.clock.advance(timedelta(hours=1))
        world.tick()
        assert not world.work()
    assert job(world, world.run_id).state == "ready"
    world.stopping().resume("logs-expire", "mended", ME)
    world.settle()
    assert tally(world, world.run_id) == {"deleted": 3}


def test_a_jobs_age_counts_from_the_end_of_the_pause() -> None:
    """It was claimed once and failed; then a pause outlasted its max_age."""
    world = planned(3)
    world.troubled.flaky = {key: [BROKEN] for key in keys(3)}
    world.work()
    assert job(world, world.run_id).first_claim_at is not None
    world.stopping().pause("logs-expire", WHY, ME)
    world.clock.advance(timedelta(hours=7))
    world.tick()
    world.stopping().resume("logs-expire", "mended", ME)
    world.settle()
    assert tally(world, world.run_id) == {"deleted": 3}


def test_a_pause_beats_a_job_that_is_being_worked_on() -> None:
    """It comes between a look and the next one: what was removed is recorded, the rest is left ready and due."""
    world = planned(3)
    slow_look(world)
    after(world, LOOK, lambda: world.stopping().pause("all", WHY, ME))
    assert list(world.work().values()) == [Answer.ACK]
    back = job(world, world.run_id)
    assert (back.state, back.attempt, back.dispatch_due) == ("ready", 0, world.clock())
    assert world.troubled.keys() == keys(3)


def test_planning_stops_at_a_page_and_goes_on_where_it_was() -> None:
    world = LastingWorld()
    world.fill(f"app/{number:04d}" for number in range(2500))
    world.troubled.slow = [timedelta(seconds=16)]  # so that the controls are read again after the first page
    world.trace.at(8, lambda: world.stopping().pause("logs-expire", WHY, ME))
    answer = world.trigger()
    assert answer["state"] == "planning"
    so_far = world.run(answer).planned
    assert 0 < so_far < 2500
    world.tick()
    assert world.run(answer).planned == so_far
    world.clock.advance(timedelta(days=1))
    world.stopping().resume("logs-expire", "mended", ME)
    world.settle()
    assert (world.run(answer).state, world.run(answer).planned) == ("completed", 2500)


def test_a_pause_is_told_with_its_history_and_said_twice_changes_nothing() -> None:
    world = planned(1)
    assert world.stopping().pause("logs-expire", WHY, ME).changed
    assert not world.stopping().pause("logs-expire", "again", "another").changed
    assert world.stopping().resume("logs-expire", "mended", ME).changed
    assert not world.stopping().resume("logs-expire", "again", "another").changed
    (pause,) = world.ledger.controls().pauses
    assert [(each.change, each.actor, each.reason) for each in pause.history] == [
        ("paused", ME, WHY),
        ("resumed", ME, "mended"),
    ]


def test_no_deploy_undoes_a_pause() -> None:
    world = planned(3)
    world.stopping().pause("logs-expire", WHY, ME)
    del world.policies["logs-expire"]
    world.tick()
    world.policies["logs-expire"] = rule()
    world.tick()
    assert list(world.work().values()) == [Answer.ACK]
    assert world.troubled.keys() == keys(3)


def test_a_policy_that_is_not_deployed_cannot_be_paused_but_an_old_pause_can_be_ended() -> None:
    world = planned(1)
    with pytest.raises(UnknownPolicy, match="logs-expire"):
        world.stopping().pause("nonsense", WHY, ME)
    world.stopping().pause("logs-expire", WHY, ME)
    del world.policies["logs-expire"]
    assert world.stopping().resume("logs-expire", "mended", ME).changed


# halt and resume


def test_a_halted_run_is_parked_and_goes_on_when_it_is_resumed() -> None:
    world = planned(3)
    world.stopping().halt(world.run_id, WHY, ME)
    assert list(world.work().values()) == [Answer.ACK]
    for _ in range(10):
        world.clock.advance(timedelta(hours=1))
        world.tick()
        assert not world.work()
    assert world.stopping().resume_run(world.run_id, "mended", ME).state is RunState.DRAINING
    world.settle()
    assert tally(world, world.run_id) == {"deleted": 3}
    assert [(each.change, each.actor, each.reason) for each in run_of(world).changes] == [
        ("halted", ME, WHY),
        ("resumed", ME, "mended"),
    ]


def test_a_lease_that_expires_in_a_halted_run_is_made_ready() -> None:
    world = planned(3)
    world.trace.crash_after(LOOK)
    world.work()
    world.trace.calm()
    world.stopping().halt(world.run_id, WHY, ME)
    world.clock.advance(timedelta(minutes=5))
    world.tick()
    assert (job(world, world.run_id).state, job(world, world.run_id).maybe_done) == ("ready", True)
    assert run_of(world).state == "halted"


def test_a_halt_that_meets_another_change_is_refused_or_done_never_half() -> None:
    world = planned(3)
    world.stopping().invalidate(world.run_id, WHY, ME)
    with pytest.raises(NotAllowed) as refused:
        world.stopping().halt(world.run_id, WHY, ME)
    assert refused.value.code == "not_at_work"
    with pytest.raises(NotAllowed) as not_halted:
        world.stopping().resume_run(world.run_id, WHY, ME)
    assert not_halted.value.code == "not_halted"


@pytest.mark.parametrize(("run_id", "error"), [("x", BadRunId), ("logs-expire.20200101T000000Z.1", UnknownRun)])
def test_a_run_that_is_none_is_refused_by_name(run_id: str, error: type[Exception]) -> None:
    world = planned(1)
    with pytest.raises(error):
        world.stopping().halt(run_id, WHY, ME)


# invalidate


def test_an_invalidated_runs_jobs_are_cancelled_and_its_time_can_be_issued_again() -> None:
    world = planned(3)
    world.stopping().invalidate(world.run_id, WHY, ME)
    world.settle()
    world.drain()
    ended = run_of(world)
    assert (ended.state, ended.closed, ended.balanced) == ("invalidated", True, True)
    assert (ended.reason, ended.message) == ("invalidated_by_person", WHY)
    assert tally(world, world.run_id) == {"cancelled": 3}
    again = world.trigger(at=ended.scheduled_time, reissue=True)
    world.settle()
    assert tally(world, str(again["run_id"])) == {"deleted": 3}


def test_a_completed_run_cannot_be_invalidated() -> None:
    world = planned(1)
    world.settle()
    with pytest.raises(NotAllowed, match="undo") as refused:
        world.stopping().invalidate(world.run_id, WHY, ME)
    assert refused.value.code == "completed"


# holds


def test_what_is_held_when_it_would_be_removed_stays_whatever_was_planned() -> None:
    world = planned(3)
    world.stopping().hold("s3://logs/app/001", "a lawsuit", ME)
    world.settle()
    assert tally(world, world.run_id) == {"deleted": 2, "skipped:held": 1}
    assert world.troubled.keys() == ["app/001"]


@pytest.mark.parametrize("scope", ["s3://logs", "s3://logs/", "s3://logs/a", "s3://logs/app/"])
def test_a_hold_keeps_all_that_begins_with_its_scope(scope: str) -> None:
    world = planned(3)
    world.stopping().hold(scope, "a lawsuit", ME)
    world.settle()
    assert tally(world, world.run_id) == {"skipped:held": 3}


@pytest.mark.parametrize("scope", ["s3://log", "s3://logs/app/0010", "s3://logs/App/", "s3://logs2/app/"])
def test_a_hold_on_another_place_keeps_nothing(scope: str) -> None:
    world = planned(3)
    world.stopping().hold(scope, "a lawsuit", ME)
    world.settle()
    assert tally(world, world.run_id) == {"deleted": 3}


def test_a_released_hold_keeps_nothing_more() -> None:
    world = planned(3)
    world.stopping().hold("s3://logs/app/", "a lawsuit", ME)
    world.stopping().release("s3://logs/app/", "it is over", "another")
    world.settle()
    assert tally(world, world.run_id) == {"deleted": 3}
    (hold,) = world.ledger.controls().holds
    assert (hold.active, [each.actor for each in hold.history]) == (False, [ME, "another"])


def test_a_hold_placed_while_a_look_grows_old_is_seen_by_the_next() -> None:
    world = planned(3)
    slow_look(world)
    after(world, LOOK, lambda: world.stopping().hold("s3://logs/app/", "a lawsuit", ME))
    world.settle()
    assert tally(world, world.run_id) == {"skipped:held": 3}


@pytest.mark.parametrize(
    "scope",
    [
        *("logs/app/", "s3://", "s3:///app/", "https://logs/app/", "s3://logs/" + "x" * 1200),
        *("s3://LOGS/app/", "s3://*/app/", "s3://logs /app/", "s3://logs\\app", "s3://logs?x", "s3://logs\n/app/"),
    ],
)
def test_what_is_no_place_cannot_be_held(scope: str) -> None:
    world = planned(1)
    with pytest.raises(NotAllowed) as refused:
        world.stopping().hold(scope, WHY, ME)
    assert refused.value.code == "bad_scope"
    assert world.ledger.controls() == Controls()


def test_a_hold_that_never_was_cannot_be_released() -> None:
    world = planned(1)
    with pytest.raises(NotAllowed) as refused:
        world.stopping().release("s3://logs/app/", WHY, ME)
    assert refused.value.code == "no_such_hold"


def test_a_control_row_that_cannot_be_read_stops_everything() -> None:
    world = planned(3)
    world.table.write(Write(Key("CONTROL", "HOLD#broken"), "1", (), set={"scope": 7}))
    with pytest.raises(ValueError, match="Hold"):
        world.work()
    assert world.troubled.keys() == keys(3)


# the breaker


def test_a_run_too_much_of_which_died_is_halted_with_the_rest_left_ready() -> None:
    world = _many_jobs(30, refused=20)
    for _ in range(2):
        world.work()
    world.tick()
    halted = run_of(world)
    assert (halted.state, halted.reason) == ("halted", "breaker")
    assert "20 of 20 jobs are dead" in halted.changes[0].reason
    world.work()
    assert sorted(states(world, world.run_id).values()) == ["dead"] * 20 + ["ready"] * 10


def test_what_the_breaker_halted_grows_older_so_that_the_alarm_on_age_tells_of_it() -> None:
    world = _many_jobs(30, refused=20)
    for _ in range(2):
        world.work()
    world.tick()
    world.clock.advance(timedelta(hours=2))
    world.tick()
    assert run_of(world).state == "halted"
    assert world.gauges.last("OldestOpenJobAge", "logs-expire") >= 2 * 3600


def test_few_deaths_among_many_break_nothing() -> None:
    world = _many_jobs(30, refused=3)
    world.settle()
    assert tally(world, world.run_id) == {"deleted": 27, "dead:AccessDenied": 3}


def test_a_resumed_run_is_judged_by_what_happens_afterwards() -> None:
    world = _many_jobs(60, refused=20)
    for _ in range(2):
        world.work()
    world.tick()
    world.stopping().resume_run(world.run_id, "they may be refused", ME)
    world.settle()
    assert tally(world, world.run_id) == {"deleted": 40, "dead:AccessDenied": 20}
    assert run_of(world).state == "completed"


def test_what_is_replayed_after_a_resume_and_dies_again_is_counted_again() -> None:
    world = _many_jobs(30, refused=20)
    for _ in range(2):
        world.work()
    world.tick()
    world.clock.advance(60)
    world.stopping().resume_run(world.run_id, "they may go now", ME)
    replaying = Replaying(world.ledger, world.policies, world.clock, world.tokens, world._log)
    for each in list(world.ledger.open_jobs(world.run_id, JobState.DEAD)):
        replaying.replay(each.job_id, "they may go now", ME)
    world.clock.advance(60)
    world.tick()
    for _ in range(2):
        world.work()
    world.tick()
    halted = run_of(world)
    assert (halted.state, halted.reason) == ("halted", "breaker")
    assert "10 of 20 jobs are dead" in str(halted.message)


def _many_jobs(number: int, refused: int) -> LastingWorld:
    world = planned(number, job_size=1)
    world.queue.max_receive_count = 1  # the message of a dead job does not come before those of others
    world.troubled.failures = dict.fromkeys(keys(refused), DENIED)
    return world


def test_a_run_that_is_halted_and_resumed_for_ever_never_fills_its_row() -> None:
    world = planned(3)
    for turn in range(120):
        world.stopping().halt(world.run_id, f"{turn} " + "é" * 490, ME)
        world.stopping().resume_run(world.run_id, f"{turn} " + "é" * 490, ME)
    changes = run_of(world).changes
    assert len(changes) == 100
    assert changes[-1].reason.startswith("119 ")
    world.settle()
    assert tally(world, world.run_id) == {"deleted": 3}
