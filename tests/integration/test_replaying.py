"""Dead jobs: replayed, redriven, resolved; and what becomes of their runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from sexton import control_transitions, run_transitions
from sexton.dead_letters import dead_letters
from sexton.errors import BadJobId, Failure, NotAllowed, ReasonClass, UnknownJob, UnknownRun
from sexton.job import MAX_REPLAYS, Job, JobState
from sexton.job_history import job_history
from sexton.policy import Policy
from sexton.replay_preview import ReplayPreview
from sexton.replaying import BELIEVED_AFTER, MOST_NOTED, OLDEST, REDRIVE, Replaying
from sexton.run import ATTENTION, Change, Run, RunId, RunState
from sexton.run_transitions import policy_key
from sexton.status import status
from sexton.working import Answer, Delivery

from tests.fakes.world import VISIBILITY, World, policy

RUN = "logs-expire.20260301T120000Z.1"
SECOND = timedelta(seconds=1)
BROKEN = Failure(ReasonClass.TRANSIENT, "InternalError", "it broke")
DENIED = Failure(ReasonClass.PERMANENT, "AccessDenied", "denied by a bucket policy")
ANN, BOB = "arn:aws:sts::1:assumed-role/Operator/ann", "arn:aws:sts::1:assumed-role/Operator/bob"
WHY = "the bucket policy is mended"


def replaying(world: World) -> Replaying:
    return Replaying(world.ledger, world.policies, world.clock, world.tokens, world._log)


def preview(world: World) -> ReplayPreview:
    return ReplayPreview(world.ledger, world.evidence, world.stores, world.clock)


def run_of(world: World) -> Run:
    run = world.ledger.run(RunId.parse(RUN))
    assert run is not None
    return run


def dead_jobs(world: World) -> list[Job]:
    return [job for job in world.ledger.jobs(RUN) if job.state is JobState.DEAD]


def dead_job(world: World) -> Job:
    (job,) = dead_jobs(world)
    return job


def rule(job_size: int = 1000) -> Policy:
    return policy(job_size=job_size, limits={"max_items": 1000})


def closed_world(*sealed: str, job_size: int = 1000, failure: Failure = DENIED) -> World:
    """Five objects; the sealed ones could not be removed: their jobs are dead, and the run is closed."""
    world = World({"logs-expire": rule(job_size)})
    world.fill([f"app/{name}.log" for name in "abcde"])
    sealed = sealed or ("app/c.log",)
    world.bucket().failures |= dict.fromkeys(sealed, failure)
    world.trigger()
    world.settle()
    world.tick()
    assert run_of(world).open_pk == ATTENTION
    return world


def mend(world: World) -> None:
    world.bucket().failures.clear()


def report(world: World, revision: int) -> dict[str, object]:
    text = world.evidence.get(f"runs/{RUN}/report-{revision}.json")
    assert text is not None
    found: dict[str, object] = json.loads(text)
    return found


# a replay


def test_a_replayed_job_is_tried_again_and_its_run_closes_with_a_new_report() -> None:
    world = closed_world()
    assert (report(world, 1)["deleted"], report(world, 1)["dead"]) == (4, {"AccessDenied": 1})
    mend(world)
    job = dead_job(world)
    replayed = replaying(world).replay(job.job_id, WHY, ANN)
    assert (replayed.job_id, replayed.replays, replayed.reopened) == (job.job_id, 1, True)
    assert run_of(world).state is RunState.DRAINING
    world.settle()
    run = run_of(world)
    assert (run.state, run.balanced, run.report_revision, run.replays) == (RunState.COMPLETED, True, 2, 1)
    assert (report(world, 2)["deleted"], report(world, 2)["dead"]) == (5, {})
    assert not world.bucket().keys()
    found = world.ledger.job(job.key)
    assert found is not None
    assert (found.state, found.replays, found.attempt) == (JobState.SUCCEEDED, 1, 1)


def test_the_history_and_the_run_say_who_replayed_it_and_why() -> None:
    world = closed_world()
    job = dead_job(world)
    at = world.clock()
    replaying(world).replay(job.job_id, WHY, ANN)
    world.settle()
    dead, replayed, again = job_history(world.ledger, job.job_id, world.clock()).history
    assert (dead.event, again.event, replayed.event) == ("dead", "dead", "replayed")
    assert (replayed.actor, replayed.reason, replayed.at) == (ANN, WHY, at)
    (change,) = run_of(world).changes
    assert change == Change(at=at, actor=ANN, change="replayed", reason=WHY, detail=job.job_id)


def test_a_replay_looks_again_before_it_removes() -> None:
    world = closed_world("app/b.log", "app/c.log", "app/d.log", job_size=1)
    mend(world)
    world.bucket().put("app/b.log", b"written again")
    world.bucket().delete("app/d.log")
    for job in dead_jobs(world):
        replaying(world).replay(job.job_id, WHY, ANN)
    world.settle()
    assert world.bucket().keys() == ["app/b.log"]
    assert report(world, 2)["skipped"] == {"absent": 1, "changed": 1}
    assert run_of(world).balanced


def test_a_replay_starts_attempts_and_age_again() -> None:
    world = closed_world()
    mend(world)
    world.clock.advance(30 * 24 * 3600)
    replaying(world).replay(dead_job(world).job_id, WHY, ANN)
    world.settle()
    assert report(world, 2)["deleted"] == 5


def test_a_run_that_is_opened_again_is_as_old_as_its_replay() -> None:
    """Its objects waited for a person, not for Sexton: the alarm on the oldest job must not ring at once."""
    world = closed_world()
    world.clock.advance(30 * 24 * 3600)
    replaying(world).replay(dead_job(world).job_id, WHY, ANN)
    world.tick()
    assert world.gauges.last("OldestOpenJobAge", "logs-expire") == 0


def test_the_report_says_who_replayed_what() -> None:
    world = closed_world()
    job = dead_job(world)
    replaying(world).replay(job.job_id, WHY, ANN)
    world.settle()
    (change,) = report(world, 2)["changes"]  # type: ignore[misc]
    assert {**change, "at": None} == {
        "at": None,
        "actor": ANN,
        "change": "replayed",
        "reason": WHY,
        "detail": job.job_id,
    }


def test_what_fails_again_is_a_dead_letter_again() -> None:
    world = closed_world()
    for turn in range(1, MAX_REPLAYS + 1):
        replaying(world).replay(dead_job(world).job_id, WHY, ANN)
        world.settle()
        world.tick()
        assert dead_job(world).replays == turn
        assert run_of(world).report_revision == turn + 1
    assert [change.change for change in run_of(world).changes] == ["replayed"] * MAX_REPLAYS
    refused(world, "replays_used_up")


def test_a_replay_needs_no_slot_while_another_run_is_open() -> None:
    world = closed_world()
    mend(world)
    world.clock.advance(60)
    world.fill(["app/new.log"])
    world.trigger(plan=False)
    slot = world.ledger.policy("logs-expire")["open_run"]
    replaying(world).replay(dead_job(world).job_id, WHY, ANN)
    assert world.ledger.policy("logs-expire")["open_run"] == slot != RUN
    world.settle()
    assert [run.balanced for run in world.ledger.runs("logs-expire")] == [True, True]


def test_many_replays_of_one_request_are_one_change_of_the_run() -> None:
    world = closed_world("app/a.log", "app/b.log", "app/c.log", job_size=1)
    one, two, three = dead_jobs(world)
    replaying(world).replay(one.job_id, WHY, ANN, "request-1")
    replaying(world).replay(two.job_id, WHY, ANN, "request-1")
    assert [change.detail for change in run_of(world).changes] == [one.job_id]
    replaying(world).replay(three.job_id, WHY, ANN, "request-2")
    assert [change.request for change in run_of(world).changes] == ["request-1", "request-2"]
    assert run_of(world).replays == 3


def test_a_run_s_row_keeps_no_more_than_it_has_room_for() -> None:
    world = closed_world("app/a.log", "app/b.log", job_size=1)
    one, two = dead_jobs(world)
    change = Change(at=world.clock(), actor=ANN, change="replayed", reason=WHY, request="r")
    world.table.rows[run_of(world).key]["changes"] = [change.to_row()] * (MOST_NOTED - 1)
    replaying(world).replay(one.job_id, WHY, ANN, "last")
    replaying(world).replay(two.job_id, WHY, ANN, "too many")
    assert (len(run_of(world).changes), run_of(world).changes[-1].request) == (MOST_NOTED, "last")
    assert run_of(world).replays == 2


def test_a_replay_while_the_run_is_at_work_leaves_its_state() -> None:
    world = World({"logs-expire": rule(job_size=1)})
    world.fill(["app/a.log", "app/b.log"])
    world.bucket().failures["app/a.log"] = DENIED
    world.trigger()
    world.work(1)
    mend(world)
    assert not replaying(world).replay(dead_job(world).job_id, WHY, ANN).reopened
    world.settle()
    assert report(world, 1)["deleted"] == 2


# what forbids it


def refused(world: World, code: str, job_id: str | None = None) -> None:
    rows = {key: dict(row) for key, row in world.table.rows.items()}
    with pytest.raises(NotAllowed) as error:
        replaying(world).replay(job_id or dead_job(world).job_id, WHY, ANN)
    assert error.value.code == code
    assert world.table.rows == rows


def test_two_people_at_once_replay_a_job_once() -> None:
    world = closed_world()
    job = dead_job(world)
    rival = replaying(world)
    late = replace(rival, clock=_once(lambda: rival.replay(job.job_id, WHY, BOB), world))
    with pytest.raises(NotAllowed) as error:
        late.replay(job.job_id, WHY, ANN)
    assert error.value.code == "not_dead"
    found = world.ledger.job(job.key)
    assert found is not None
    assert (found.replays, [entry.actor for entry in found.history]) == (1, [None, BOB])
    assert [change.actor for change in run_of(world).changes] == [BOB]


def _once(do: Callable[[], object], world: World) -> Callable[[], object]:
    """A clock that lets somebody else go first, when it is read for the first time."""
    todo = [do]

    def clock() -> object:
        while todo:
            todo.pop()()
        return world.clock()

    return clock


def test_a_replay_that_loses_to_another_of_its_run_is_made_all_the_same() -> None:
    """The first one moves the run's rev between the reading and the writing of the second."""
    world = closed_world("app/a.log", "app/b.log", job_size=1)
    one, two = dead_jobs(world)
    transact, todo = world.table.transact, [one.job_id]

    def raced(writes: object) -> object:
        while todo:
            replaying(world).replay(todo.pop(), WHY, BOB)
        return transact(writes)  # type: ignore[arg-type]

    world.table.transact = raced  # type: ignore[method-assign, assignment]
    assert replaying(world).replay(two.job_id, WHY, ANN).replays == 1
    assert run_of(world).replays == 2


def test_a_job_is_not_replayed_while_its_run_is_being_closed() -> None:
    """Its closing was written and not yet announced: announcing would list the reopened run no more."""
    world = closed_world()
    run = run_of(world)
    world.table.rows[run.key]["open_pk"] = "RUNS"
    refused(world, "run_closing")
    world.tick()
    replaying(world).replay(dead_job(world).job_id, WHY, ANN)


def test_a_replay_before_the_state_change_keeps_the_run_open() -> None:
    """The books are compared, a replay comes, and the closing that did not see it is refused."""
    world = World({"logs-expire": rule(job_size=1)})
    world.fill(["app/a.log", "app/b.log"])
    world.bucket().failures["app/a.log"] = DENIED
    world.trigger()
    while world.work():
        pass
    mend(world)
    put_once, todo = world.evidence.put_once, [dead_job(world).job_id]

    def raced(key: str, content: bytes) -> bool:
        if "/books-" in key and todo:
            replaying(world).replay(todo.pop(), WHY, ANN)
        return put_once(key, content)

    world.evidence.put_once = raced  # type: ignore[method-assign]
    world.tick()
    assert not todo
    assert run_of(world).state is RunState.DRAINING
    world.settle()
    assert run_of(world).balanced
    assert report(world, run_of(world).report_revision)["deleted"] == 2


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"state": "halted"}, "run_halted"),
        ({"state": "invalidated"}, "run_invalidated"),
        ({"undone_by": ["logs-expire.20260301T120000Z.u1"]}, "run_undone"),
        ({"policy_version": "b" * 64}, "policy_changed"),
    ],
)
def test_a_run_that_may_not_go_on_forbids_it(fields: dict[str, object], code: str) -> None:
    world = closed_world()
    world.table.rows[run_of(world).key].update(fields)
    refused(world, code)


def test_a_run_whose_rows_begin_to_leave_the_ledger_is_left_alone() -> None:
    world = closed_world()
    world.clock.move_to(run_of(world).created_at + OLDEST + SECOND)
    refused(world, "run_too_old")
    world.clock.move_to(run_of(world).created_at + OLDEST)
    replaying(world).replay(dead_job(world).job_id, WHY, ANN)


def test_a_policy_that_was_taken_out_forbids_it() -> None:
    world = closed_world()
    world.policies.clear()
    refused(world, "policy_changed")


def test_what_is_not_dead_is_neither_replayed_nor_resolved() -> None:
    world = closed_world("app/c.log", job_size=1)
    refused(world, "not_dead", f"{RUN}.00000000")
    with pytest.raises(NotAllowed):
        replaying(world).resolve(f"{RUN}.00000000", WHY, ANN)


def test_a_job_that_is_none_is_told() -> None:
    world = closed_world()
    with pytest.raises(BadJobId):
        replaying(world).replay("no job", WHY, ANN)
    with pytest.raises(BadJobId):
        replaying(world).replay("no.run.id.00000000", WHY, ANN)
    with pytest.raises(UnknownJob):
        replaying(world).resolve(f"{RUN}.00000077", WHY, ANN)


def test_a_job_whose_run_has_left_the_ledger_can_only_be_resolved() -> None:
    world = closed_world()
    job = dead_job(world)
    del world.table.rows[run_of(world).key]
    with pytest.raises(UnknownRun):
        replaying(world).replay(job.job_id, WHY, ANN)
    assert preview(world).of_run(RUN).of(job).code == "unknown_run"
    replaying(world).resolve(job.job_id, WHY, ANN)
    assert dead_job(world).resolved_by == ANN


# resolving


def test_a_resolved_job_is_listed_no_more_and_its_items_stay_dead() -> None:
    world = closed_world("app/b.log", "app/c.log", job_size=1)
    one, two = dead_jobs(world)
    replaying(world).resolve(one.job_id, WHY, ANN)
    assert [letter.job_id for letter in dead_letters(world.ledger, world.clock())] == [two.job_id]
    refused(world, "resolved", one.job_id)
    mend(world)
    replaying(world).replay(two.job_id, WHY, ANN)
    world.settle()
    assert (report(world, 2)["deleted"], report(world, 2)["dead"]) == (4, {"AccessDenied": 1})
    assert run_of(world).balanced
    assert [change.change for change in run_of(world).changes] == ["resolved", "replayed"]


def test_a_closed_run_leaves_the_list_once_a_person_has_been_through_its_dead() -> None:
    world = closed_world("app/b.log", "app/c.log", job_size=1)
    one, two = dead_jobs(world)
    replaying(world).resolve(one.job_id, WHY, ANN, "request")
    world.tick()
    assert [run.run_id for run in world.ledger.runs_for_a_person()] == [RUN]
    replaying(world).resolve(two.job_id, WHY, ANN, "request")
    world.tick()
    assert not list(world.ledger.runs_for_a_person())
    assert len(run_of(world).changes) == 1
    assert world.gauges.last("DeadJobs") == 0
    rev = run_of(world).rev
    world.tick()
    assert run_of(world).rev == rev


def test_a_run_stays_listed_where_the_index_has_not_heard_of_its_dead() -> None:
    world = closed_world()
    job = dead_job(world)
    hidden = world.table.rows[job.key].pop("open_pk")
    world.tick()
    assert [run.run_id for run in world.ledger.runs_for_a_person()] == [RUN]
    world.table.rows[job.key]["open_pk"] = hidden


def test_a_run_whose_books_do_not_balance_stays_listed() -> None:
    world = closed_world()
    replaying(world).resolve(dead_job(world).job_id, WHY, ANN)
    world.table.rows[run_of(world).key]["balanced"] = False
    world.tick()
    assert [run.run_id for run in world.ledger.runs_for_a_person()] == [RUN]


# a redrive


def redriven(world: World, after: timedelta, job: Job | None = None) -> Answer:
    """The worker gets the dead job's message, put on the queue so long after its death."""
    job = job or dead_job(world)
    assert job.dead_at is not None
    message = next(each for each in world.queue.sent if json.loads(each.body)["job_id"] == job.job_id)
    return world.working().work(Delivery("redriven", "receipt", message.body, job.dead_at + after))


def redrivable() -> World:
    """One job, dead whole, and its cause mended."""
    world = closed_world("app/c.log", job_size=1)
    mend(world)
    world.clock.advance(600)
    return world


def test_a_redriven_message_replays_its_job_and_is_worked_on_at_once() -> None:
    world = redrivable()
    assert redriven(world, BELIEVED_AFTER + SECOND) is Answer.ACK
    assert not world.bucket().keys()
    (change,) = run_of(world).changes
    assert (change.actor, change.change) == (REDRIVE, "replayed")
    world.settle()
    assert (report(world, 2)["deleted"], run_of(world).balanced) == (5, True)


def test_the_queue_s_own_redrive_does_it() -> None:
    world = redrivable()
    world.queue.redrive()
    world.settle()
    assert report(world, 2)["deleted"] == 5


def test_a_message_that_is_redriven_too_early_is_failed_on_and_that_is_told_once() -> None:
    world = redrivable()
    for _ in range(2):
        assert redriven(world, BELIEVED_AFTER) is Answer.KEEP
        at = dead_job(world).redriven_early_at
        world.clock.advance(60)
    assert at is not None
    assert dead_job(world).redriven_early_at == at
    assert len(world.events_logged("redriven_early")) == 1
    (letter,) = dead_letters(world.ledger, world.clock())
    assert "redrive it again" in str(letter.next_action)
    assert status(world.ledger, world.clock()).dead.next_action.startswith("1 of them were redriven in vain")
    assert redriven(world, BELIEVED_AFTER + SECOND) is Answer.ACK
    (job,) = [job for job in world.ledger.jobs(RUN) if job.replays]
    assert job.redriven_early_at is None


@pytest.mark.parametrize("after", [-timedelta(hours=1), timedelta()])
def test_an_old_message_of_a_dead_job_that_comes_late_is_no_redrive(after: timedelta) -> None:
    world = redrivable()
    before = dict(world.table.rows[dead_job(world).key])
    assert redriven(world, after) is Answer.KEEP
    assert world.table.rows[dead_job(world).key] == before
    assert world.queue.hidden[-1][1] == timedelta()


def test_an_old_message_that_comes_after_a_replay_is_one_more_chance_and_no_replay() -> None:
    """The replayed job is ready: any of its messages may claim it, and it is done once."""
    world = redrivable()
    job = dead_job(world)
    replaying(world).replay(job.job_id, WHY, ANN)
    assert redriven(world, -timedelta(hours=1), job) is Answer.ACK
    world.settle()
    found = world.ledger.job(job.key)
    assert found is not None
    assert (found.replays, found.state, report(world, 2)["deleted"]) == (1, JobState.SUCCEEDED, 5)


def test_a_death_in_the_hand_of_a_redriven_message_is_no_further_redrive() -> None:
    world = redrivable()
    world.bucket().failures["app/c.log"] = DENIED
    assert redriven(world, BELIEVED_AFTER + SECOND) is Answer.KEEP
    assert dead_job(world).replays == 1


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"state": "halted"}, "run_halted"),
        ({"state": "invalidated"}, "run_invalidated"),
        ({"state": "completed", "undone_by": ["logs-expire.20260301T120000Z.u1"]}, "run_undone"),
    ],
)
def test_a_redrive_that_a_rule_forbids_is_failed_on_and_told_once(fields: dict[str, object], code: str) -> None:
    world = redrivable()
    world.table.rows[run_of(world).key].update(fields)
    for _ in range(2):
        assert redriven(world, BELIEVED_AFTER + SECOND) is Answer.KEEP
    assert world.queue.hidden[-1][1] == timedelta()
    assert dead_job(world).redrive_refused == code
    assert len(world.events_logged("redrive_refused")) == 1
    assert [letter.redrive_refused for letter in dead_letters(world.ledger, world.clock())] in ([code], [])


def test_a_redrive_after_too_many_replays_or_under_another_policy_is_refused() -> None:
    world = redrivable()
    world.table.rows[dead_job(world).key]["replays"] = MAX_REPLAYS
    assert redriven(world, BELIEVED_AFTER + SECOND) is Answer.KEEP
    assert dead_job(world).redrive_refused == "replays_used_up"
    world = redrivable()
    world.policies["logs-expire"] = policy(retain="P31D")
    assert redriven(world, BELIEVED_AFTER + SECOND) is Answer.KEEP
    assert dead_job(world).redrive_refused == "policy_changed"


def test_a_redrive_while_the_policy_is_paused_is_refused() -> None:
    world = redrivable()
    pause(world)
    assert redriven(world, BELIEVED_AFTER + SECOND) is Answer.KEEP
    assert dead_job(world).redrive_refused == "paused"


def pause(world: World) -> None:
    change = Change(at=world.clock(), actor=ANN, change="paused", reason=WHY)
    world.table.write(control_transitions.pause("all", change, world.tokens()))


def test_a_redrive_of_a_run_that_is_being_closed_waits_a_minute() -> None:
    world = redrivable()
    world.table.rows[run_of(world).key]["open_pk"] = "RUNS"
    assert redriven(world, BELIEVED_AFTER + SECOND) is Answer.KEEP
    assert world.queue.hidden[-1][1] == timedelta(minutes=1)
    assert dead_job(world).redrive_refused is None


def test_a_thousand_redrives_of_an_hour_are_one_change_of_their_run() -> None:
    world = closed_world("app/a.log", "app/b.log", "app/c.log", job_size=1)
    mend(world)
    world.clock.advance(600)
    for job in dead_jobs(world):
        redriven(world, BELIEVED_AFTER + SECOND, job)
    assert len(run_of(world).changes) == 1
    assert run_of(world).replays == 3


def test_a_redriven_job_whose_worker_dies_is_dispatched_again() -> None:
    """Between the replay and the claim: the row is due when its message would count as lost."""
    world = redrivable()
    job = dead_job(world)
    due = replaying(world).redrive(job, world.clock(), VISIBILITY)
    found = world.ledger.job(job.key)
    assert found is not None
    assert (due, found.dispatch_due) == ("again", world.clock() + VISIBILITY)
    world.settle()
    assert report(world, 2)["deleted"] == 5


# what a replay would do


def test_the_preview_tells_what_a_replay_would_do_and_the_replay_does_it() -> None:
    world = closed_world(*(f"app/{name}.log" for name in "abcde"), failure=BROKEN)
    world.bucket().put("app/b.log", b"written again")
    world.bucket().delete("app/d.log")
    hold(world, "s3://logs/app/e")
    before, calls = dict(world.table.rows), world.bucket().keys()
    (letter,) = dead_letters(world.ledger, world.clock(), preview(world))
    assert (world.table.rows, world.bucket().keys()) == (before, calls)
    now = letter.replay_now
    assert now is not None
    assert now.would == {"remove": 2, "skipped:absent": 1, "skipped:changed": 1, "skipped:held": 1}
    assert (now.allowed, now.code, now.looked_at) == (True, None, 5)
    assert "try again to remove 2" in now.sentence
    mend(world)
    replaying(world).replay(letter.job_id, WHY, ANN)
    world.settle()
    assert report(world, 2)["deleted"] == 2
    assert report(world, 2)["skipped"] == {"absent": 1, "changed": 1, "held": 1}


def hold(world: World, scope: str) -> None:
    change = Change(at=world.clock(), actor=ANN, change="held", reason=WHY)
    world.table.write(control_transitions.hold(scope, change, world.tokens()))


def test_the_preview_asks_the_rules_first() -> None:
    world = closed_world()
    world.table.rows[run_of(world).key]["state"] = "halted"
    calls = world.bucket().calls.copy()
    now = preview(world).of_run(RUN).of(dead_job(world))
    assert (now.allowed, now.code, now.would) == (False, "run_halted", {})
    assert "resume" in now.sentence
    assert world.bucket().calls == calls


def test_the_preview_knows_the_deployed_version_from_the_ledger() -> None:
    world = closed_world()
    world.table.rows[policy_key("logs-expire")]["deployed_version"] = "c" * 64
    assert preview(world).of_run(RUN).of(dead_job(world)).code == "policy_changed"


def test_the_preview_says_that_a_pause_comes_first() -> None:
    world = closed_world()
    pause(world)
    now = preview(world).of_run(RUN).of(dead_job(world))
    assert now.allowed
    assert now.sentence.endswith("once the pause is over")


def test_the_preview_of_what_it_may_not_see_says_so() -> None:
    world = closed_world()
    world.bucket().fail_next("list", DENIED)
    now = preview(world).of_run(RUN).of(dead_job(world))
    assert "AccessDenied" in now.sentence + str(now.would)


def test_the_preview_of_altered_evidence_says_so() -> None:
    world = closed_world()
    world.evidence.files[dead_job(world).part_key] = b"altered\n"
    now = preview(world).of_run(RUN).of(dead_job(world))
    assert "evidence_altered" in now.sentence


def test_the_preview_of_a_sparse_job_is_bounded_and_says_so() -> None:
    world = World({"logs-expire": rule()})
    names = [f"app/{number:04d}.log" for number in range(200)]
    world.fill(names)
    world.bucket().failures |= dict.fromkeys(names, BROKEN)
    world.trigger()
    world.settle()
    for row in world.table.rows.values():
        if "span" in row:
            row["span"] = 10_000_000
    world.bucket().calls.clear()
    now = preview(world).of_run(RUN).of(dead_job(world))
    assert now.looked_at == 50
    assert "of the first 50 of 200 items" in now.sentence
    assert world.bucket().calls.total() <= 50


# the whole history


def test_the_history_tells_children_and_lineage() -> None:
    world = closed_world("app/b.log", "app/d.log")
    parent = f"{RUN}.00000000"
    found = job_history(world.ledger, parent, world.clock())
    assert (found.state, found.dead_at, found.lineage) == (JobState.SUCCEEDED, None, ())
    assert [(child.job_id, child.state) for child in found.children] == [
        (f"{parent}.0001", JobState.DEAD),
        (f"{parent}.0003", JobState.DEAD),
    ]
    child = job_history(world.ledger, f"{parent}.0001", world.clock(), preview(world))
    assert (child.lineage, child.inherited_files, child.children) == ((parent,), found.outcome_files, ())
    assert child.replay_now is not None
    assert child.replay_now.would == {"remove": 1}
    assert child.first_failure_at == child.last_failure_at == child.dead_at is not None


def test_what_is_resolved_keeps_its_history() -> None:
    world = closed_world()
    job = dead_job(world)
    replaying(world).resolve(job.job_id, WHY, ANN)
    found = job_history(world.ledger, job.job_id, world.clock(), preview(world))
    assert (found.state, found.resolved_by, found.history[-1].event) == (JobState.DEAD, ANN, "resolved")


def test_an_unbalanced_closing_is_not_hidden_by_a_replay() -> None:
    """`balanced` is gone while the run is open again, and comes back as the new books say."""
    world = closed_world()
    replaying(world).replay(dead_job(world).job_id, WHY, ANN)
    assert run_of(world).balanced is None
    invalidated = run_transitions.invalidate(run_of(world), "by_hand", "for a test", world.clock(), world.tokens())
    world.table.write(invalidated)
    world.settle()
    run = run_of(world)
    assert (run.state, run.balanced, report(world, 2)["cancelled"]) == (RunState.INVALIDATED, True, 1)
