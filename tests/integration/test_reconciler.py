"""What the minute tick makes true after crashes, changed policies and lost patience."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from sexton.approval import PLAN_TTL
from sexton.errors import Failure, ReasonClass
from sexton.job import Job
from sexton.policy import Policy
from sexton.reconcile import TickFailed
from sexton.run import Run
from sexton.run_transitions import PLANNER_LEASE
from sexton.table import Key

from tests.fakes.recorder import LOST_REPLY, Crash
from tests.fakes.world import LEASE, VISIBILITY, World, policy
from tests.integration.given import CLAIM, REMOVAL

RUN = "logs-expire.20260301T120000Z.1"
SECOND = timedelta(seconds=1)
BROKEN = Failure(ReasonClass.TRANSIENT, "InternalError", "try again")
DENIED = Failure(ReasonClass.PERMANENT, "AccessDenied", "not authorized to perform s3:ListBucket")
SLOW_DOWN = Failure(ReasonClass.THROTTLED, "SlowDown", "reduce your request rate")
CHANGED = policy(retain="P31D")


def at_work(chosen: Policy | None = None, keys: int = 3) -> World:
    """A run that was planned and dispatched, and on which nobody has worked yet."""
    world = World(policies={"logs-expire": chosen or policy(job_size=1, limits={"max_items": 10_000})})
    world.fill(f"app/{n}" for n in range(keys))
    world.trigger()
    return world


def few_attempts() -> Policy:
    return policy(limits={"max_attempts": 3})


def run(world: World, run_id: str = RUN) -> Run:
    return world.run({"run_id": run_id})


def jobs(world: World) -> list[Job]:
    return list(world.ledger.jobs(RUN))


def report(world: World, revision: int = 1) -> dict[str, object]:
    found: dict[str, object] = json.loads(world.evidence.files[f"runs/{RUN}/report-{revision}.json"])
    return found


def tick_after(world: World, wait: timedelta | float) -> Run:
    world.clock.advance(wait)
    world.tick()
    return run(world)


def claim_and_die(world: World) -> None:
    """A worker claims the first job it receives, and its process ends."""
    (message,) = world.queue.receive(1)
    world.trace.calm()
    world.trace.crash_after(CLAIM)
    with pytest.raises(Crash):
        world.work_one(message)
    world.trace.calm()


def remove_and_die(world: World) -> None:
    """A worker removes the objects of the first job it receives, and its process ends before the record."""
    (message,) = world.queue.receive(1)
    world.trace.calm()
    world.trace.crash_after(REMOVAL)
    with pytest.raises(Crash):
        world.work_one(message)
    assert world.trace.names[-1] == "bucket.remove"
    world.trace.calm()


# the policy's version


def test_a_changed_policy_ends_the_run_after_five_minutes_and_not_before() -> None:
    world = at_work()
    world.policies = {"logs-expire": CHANGED}
    assert tick_after(world, 0).mismatch_since == world.clock()
    assert tick_after(world, 299).state == "draining"
    ended = tick_after(world, 1)
    assert (ended.state, ended.reason, ended.closed) == ("invalidated", "policy_changed", True)
    assert policy(job_size=1, limits={"max_items": 10_000}).version[:12] in str(ended.message)
    assert CHANGED.version[:12] in str(ended.message)


def test_a_deploy_that_goes_back_and_forth_ends_no_run_while_each_stay_is_short() -> None:
    world = at_work()
    old = world.policies
    for _ in range(4):
        world.policies = {"logs-expire": CHANGED}
        tick_after(world, 0)
        tick_after(world, 240)
        world.policies = old
        assert tick_after(world, 30).mismatch_since is None
    world.settle()
    assert (run(world).state, report(world)["deleted"]) == ("completed", 3)


def test_nothing_goes_under_the_old_rule_while_another_version_is_deployed() -> None:
    world = at_work()
    world.policies = {"logs-expire": CHANGED}
    for _ in range(5):
        world.work()
        tick_after(world, 59)
    world.work()
    assert len(world.bucket().keys()) == 3
    assert {job.attempt for job in jobs(world)} == {0}


def test_a_removed_policy_ends_its_runs_too_and_they_close_by_the_copy_in_evidence() -> None:
    world = at_work()
    remove_and_die(world)
    world.policies = {}
    tick_after(world, 0)
    ended = tick_after(world, 300)
    assert (ended.state, ended.reason, ended.closed, ended.balanced) == ("invalidated", "policy_changed", True, True)
    assert "no such policy" in str(ended.message)
    assert (report(world)["deleted"], report(world)["deleted_unproven"], report(world)["cancelled"]) == (1, 1, 2)


def test_a_run_still_in_planning_is_left_alone_by_another_version_and_then_ended() -> None:
    world = World()
    world.fill(["app/1"])
    world.trigger(plan=False)
    world.policies = {"logs-expire": CHANGED}
    tick_after(world, 0)
    assert tick_after(world, 240).state == "planning"
    assert "bucket.list" not in world.trace.names
    assert tick_after(world, 60).reason == "policy_changed"


def test_the_next_run_plans_anew_under_the_new_version() -> None:
    world = at_work()
    world.policies = {"logs-expire": CHANGED}
    tick_after(world, 0)
    tick_after(world, 300)
    answer = world.trigger()
    assert answer["created"]
    world.settle()
    assert world.run(answer).policy_version == CHANGED.version
    assert world.bucket().keys() == []


def test_a_reported_run_of_an_old_version_is_ended() -> None:
    world = at_work(policy(mode="report"))
    world.policies = {"logs-expire": CHANGED}
    tick_after(world, 0)
    assert tick_after(world, 300).reason == "policy_changed"


# plans that nobody decides on


@pytest.mark.parametrize("chosen", [policy(mode="report"), policy(approval="always")], ids=["reported", "awaiting"])
def test_a_plan_expires_after_seven_days_and_not_before(chosen: Policy) -> None:
    world = at_work(chosen)
    waiting = run(world).state
    assert tick_after(world, PLAN_TTL - SECOND).state == waiting
    ended = tick_after(world, SECOND)
    assert (ended.state, ended.reason, ended.closed, ended.balanced) == ("invalidated", "plan_expired", True, True)
    assert report(world)["cancelled"] == 3
    assert {"bucket.remove", "queue.send"}.isdisjoint(world.trace.names)


# planning


def test_planning_is_resumed_once_the_lease_of_a_dead_planner_is_over() -> None:
    world = World()
    world.fill(f"app/{n:05d}" for n in range(1500))
    world.trigger(plan=False)
    world.trace.calm()
    world.trace.crash_after(7)
    with pytest.raises(Crash):
        world.discover({"resume": RUN})
    world.trace.calm()
    assert tick_after(world, PLANNER_LEASE).state == "planning"
    assert "discovery.resume" not in world.trace.names
    assert tick_after(world, SECOND).state == "draining"
    assert run(world).planned == 1500


def test_planning_that_takes_longer_than_max_planning_is_ended_by_the_tick() -> None:
    world = World(policies={"logs-expire": policy(limits={"max_planning": "PT1H"})})
    world.fill(["app/1"])
    world.trigger(plan=False)
    world.clock.advance(timedelta(hours=1, seconds=1))
    world.tick()
    assert (run(world).reason, run(world).closed, run(world).balanced) == ("planning_exceeded", True, True)
    assert json.loads(world.evidence.files[f"runs/{RUN}/plan.json"])["parts"] == []


def test_a_run_planned_but_not_yet_judged_is_resumed_at_once() -> None:
    world = World()
    world.fill(["app/1"])
    world.trigger(plan=False)
    world.trace.calm()
    written = f"runs/{RUN}/plan.json"
    world.trace.crash_before(calls_of_planning().index(("evidence.put_once", written)) + 1)
    with pytest.raises(Crash):
        world.discover({"resume": RUN})
    assert run(world).state == "planned"
    world.trace.calm()
    assert tick_after(world, 0).state == "draining"
    assert written in world.evidence.files


def calls_of_planning() -> list[tuple[str, object]]:
    world = World()
    world.fill(["app/1"])
    world.trigger(plan=False)
    world.trace.calm()
    world.discover({"resume": RUN})
    return [(str(call), call.args[0] if call.args else None) for call in world.trace.calls]


# leases


def test_an_abandoned_lease_is_taken_back_when_it_is_over_and_the_job_goes_on() -> None:
    world = at_work(keys=1)
    claim_and_die(world)
    tick_after(world, LEASE)
    assert jobs(world)[0].state == "leased"
    tick_after(world, SECOND)
    (job,) = jobs(world)
    assert (job.state, job.maybe_done, job.no_records, job.lease_token) == ("ready", True, 1, None)
    assert [entry.code for entry in job.history] == ["no_record"]
    assert world.events_logged("lease_expired")[0]["job_id"] == job.job_id
    world.settle()
    assert (report(world)["deleted"], report(world)["balanced"]) == (1, True)


def test_a_removal_without_a_record_is_told_as_what_it_is() -> None:
    world = at_work(keys=1)
    remove_and_die(world)
    world.settle()
    assert (report(world)["deleted"], report(world)["deleted_unproven"], report(world)["skipped"]) == (1, 1, {})


# attempts and age used up


def test_a_job_whose_attempts_are_used_up_dies_without_a_look_when_every_effect_is_known() -> None:
    world = at_work(few_attempts())
    for n in range(3):
        world.bucket().failures[f"app/{n}"] = BROKEN
    world.settle()
    (job,) = jobs(world)
    assert (job.state, job.attempt, job.reason, job.reason_class) == ("dead", 3, "InternalError", "transient")
    assert job.next_action
    assert report(world)["dead"] == {"InternalError": 3}
    assert len(world.bucket().keys()) == 3


def test_a_job_nobody_works_on_dies_of_its_age_by_the_tick() -> None:
    world = at_work(policy(limits={"max_age": "PT1H"}), keys=1)
    world.bucket().failures["app/0"] = BROKEN
    world.work()  # its first claim: from here on its age counts
    for message_id, _ in list(world.queue.messages):
        world.queue.lose(message_id)
    assert tick_after(world, timedelta(minutes=59, seconds=59)).state == "draining"
    assert jobs(world)[0].state == "ready"
    world.trace.calm()
    tick_after(world, SECOND)
    (job,) = jobs(world)
    assert (job.state, job.attempt, job.reason) == ("dead", 1, "InternalError")
    assert {"bucket.list", "bucket.head"}.isdisjoint(world.trace.names)


def used_up_with_lost_replies(happened: bool) -> World:
    """Every removal's reply was lost, until the attempts were used up."""
    world = at_work(few_attempts(), keys=2)
    for n in range(2):
        world.bucket().failures[f"app/{n}"] = LOST_REPLY
    while jobs(world)[0].attempt < 3:
        world.work()
        world.clock.advance(60)
    assert jobs(world)[0].maybe_done
    if happened:
        world.bucket().delete("app/0")
        world.bucket().delete("app/1")
    return world


def test_a_used_up_job_of_unknown_effect_is_looked_at_and_succeeds_if_all_is_gone() -> None:
    world = used_up_with_lost_replies(happened=True)
    world.settle()
    assert jobs(world)[0].state == "succeeded"
    assert (report(world)["deleted"], report(world)["deleted_unproven"]) == (2, 2)


def test_a_used_up_job_of_unknown_effect_is_looked_at_and_dies_with_what_is_still_there() -> None:
    world = used_up_with_lost_replies(happened=False)
    world.bucket().rewrite("app/1")
    world.settle()
    assert jobs(world)[0].state == "dead"
    assert report(world)["skipped"] == {"changed_after_attempt": 1}
    assert report(world)["dead"] == {LOST_REPLY.code: 1}
    assert report(world)["balanced"]


def test_a_job_that_must_not_be_looked_at_dies_as_effect_unknown() -> None:
    world = used_up_with_lost_replies(happened=True)
    world.bucket().call_failures["list"] = [DENIED]
    world.settle()
    (job,) = jobs(world)
    assert (job.state, job.reason, job.reason_class) == ("dead", "effect_unknown", "permanent")
    assert "AccessDenied" in str(job.summary)


def test_the_look_never_removes() -> None:
    world = used_up_with_lost_replies(happened=False)
    world.trace.calm()
    while jobs(world)[0].state != "dead":
        tick_after(world, 60)
    assert "bucket.remove" not in world.trace.names


# an invalidated run


def invalidated(world: World) -> None:
    """Let the run be invalidated by a changed policy in the next tick."""
    row = world.table.rows[Key("POLICY#logs-expire", "RUN#20260301T120000Z#0001")]
    world.policies = {"logs-expire": CHANGED}
    world.table.put({**row, "mismatch_since": 0})


def test_the_jobs_of_an_invalidated_run_are_cancelled_and_it_closes_with_books() -> None:
    world = at_work()
    world.work(1)
    invalidated(world)
    ended = tick_after(world, 0)
    assert (ended.closed, ended.balanced) == (True, True)
    assert (report(world)["deleted"], report(world)["cancelled"], report(world)["state"]) == (1, 2, "invalidated")
    assert f"runs/{RUN}/books-1.ndjson.gz" in world.evidence.files
    world.settle()
    while world.queue.messages:
        world.clock.advance(VISIBILITY)
        world.work()
    assert len(world.bucket().keys()) == 2


def test_a_live_lease_is_waited_for_and_its_worker_may_still_record() -> None:
    world = at_work(keys=1)
    (message,) = world.queue.receive(1)
    world.trace.calm()

    def between_look_and_removal() -> None:
        invalidated(world)
        assert not tick_after(world, 1).closed

    world.trace.at(REMOVAL, between_look_and_removal)
    world.work_one(message)
    assert tick_after(world, 60).closed
    assert (report(world)["deleted"], report(world)["cancelled"]) == (1, 0)


def test_a_live_lease_keeps_no_other_job_from_being_cancelled() -> None:
    world = at_work()
    claim_and_die(world)
    invalidated(world)
    assert not tick_after(world, 1).closed
    assert [job.state for job in jobs(world)] == ["leased", "cancelled", "cancelled"]


@pytest.mark.parametrize(("gone", "deleted", "cancelled"), [(True, 1, 0), (False, 0, 1)])
def test_a_job_of_unknown_effect_is_looked_at_before_it_is_cancelled(gone: bool, deleted: int, cancelled: int) -> None:
    world = at_work(keys=1)
    if gone:
        remove_and_die(world)
    else:
        claim_and_die(world)
    invalidated(world)
    assert not tick_after(world, LEASE).closed
    assert tick_after(world, SECOND).closed
    found = report(world)
    assert (found["deleted"], found["deleted_unproven"], found["cancelled"]) == (deleted, deleted, cancelled)
    assert found["balanced"]


def test_what_cannot_be_looked_at_any_more_does_not_keep_an_invalidated_run_open() -> None:
    world = at_work(keys=1)
    remove_and_die(world)
    world.bucket().missing = True
    invalidated(world)
    ended = tick_after(world, LEASE + SECOND)
    assert (ended.closed, report(world)["dead"]) == (True, {"effect_unknown": 1})


# the index is a hint


def test_a_closing_never_rests_on_an_index_that_shows_no_open_job() -> None:
    world = World()
    world.fill(["app/1"])
    world.trigger(plan=False)
    world.table.freeze_index()  # it knows the run and none of its jobs
    world.discover({"resume": RUN})
    for _ in range(3):
        assert not tick_after(world, 60).closed
    assert not any(key.startswith(f"runs/{RUN}/report") for key in world.evidence.files)
    world.work()
    assert tick_after(world, 60).balanced


def test_a_tick_does_nothing_to_jobs_that_the_index_shows_as_they_were() -> None:
    world = at_work(policy(job_size=1, limits={"max_items": 10_000, "max_age": "PT1H"}))
    world.bucket().failures["app/0"] = BROKEN
    world.work(1)
    world.table.freeze_index()  # app/0 is ready in it, and will be too old
    world.bucket().failures.clear()
    world.clock.advance(60)
    while world.work():
        pass
    tick_after(world, timedelta(hours=2))
    assert {job.state for job in jobs(world)} == {"succeeded"}
    world.table.thaw_index()
    world.settle()
    assert report(world)["deleted"] == 3


def test_a_closed_run_that_the_index_still_shows_as_open_stays_as_it_is() -> None:
    world = at_work()
    world.work()
    world.table.freeze_index()
    closed = tick_after(world, 0)
    assert closed.closed
    assert tick_after(world, 60) == closed
    reports = {key for key in world.evidence.files if key.startswith(f"runs/{RUN}/report")}
    assert reports == {f"runs/{RUN}/report-1.{ending}" for ending in ("csv", "html", "json")}


# several runs


def two_runs() -> World:
    """Two policies at work; the first has a job that must be looked at, on a bucket that is slowed down."""
    other = policy(id="other", source={"kind": "s3", "bucket": "other", "prefixes": ["app/"]})
    world = World(policies={"logs-expire": few_attempts(), "other": other})
    world.fill(["app/1"])
    world.trigger()
    world.bucket().failures["app/1"] = LOST_REPLY
    while jobs(world)[0].attempt < 3:
        world.work()
        world.clock.advance(60)
    world.fill(["app/1"], bucket="other")
    world.trigger("other")
    world.work()
    world.bucket().call_failures["list"] = [SLOW_DOWN]
    return world


def test_one_runs_trouble_does_not_stop_the_others_and_is_raised_at_the_end() -> None:
    world = two_runs()
    with pytest.raises(TickFailed, match=f"{RUN}: 1 jobs could not be looked at.*SlowDown"):
        world.tick()
    (other,) = world.ledger.runs("other")
    assert (other.state, other.balanced) == ("completed", True)
    assert world.gauges.last("DeadJobs") == 0
    assert world.events_logged("run_not_attended")[0]["run_id"] == RUN
    world.settle()
    assert run(world).closed


@pytest.mark.parametrize("altered", [None, b"no policy", b"[]"])
def test_a_lost_or_altered_copy_of_an_old_policy_keeps_no_run_open(altered: bytes | None) -> None:
    world = at_work(keys=2)
    remove_and_die(world)
    copy = f"policies/logs-expire/{run(world).policy_version}.json"
    world.evidence.files.pop(copy)
    if altered is not None:
        world.evidence.files[copy] = altered
    invalidated(world)
    ended = tick_after(world, LEASE + SECOND)
    assert (ended.closed, ended.balanced) == (True, True)
    assert (report(world)["dead"], report(world)["cancelled"]) == ({"evidence_altered": 1}, 1)


# the slot, and what is left for a person


def test_closing_frees_the_slot_only_if_it_names_the_run() -> None:
    world = at_work()
    world.work()
    row = world.ledger.policy("logs-expire")
    world.table.put({**row, "open_run": "logs-expire.20260302T120000Z.1"})
    assert tick_after(world, 0).closed
    assert world.ledger.policy("logs-expire")["open_run"] == "logs-expire.20260302T120000Z.1"


def test_a_run_with_dead_jobs_stays_listed_for_a_person() -> None:
    world = at_work()
    world.bucket().failures["app/1"] = DENIED
    world.settle()
    assert [each.run_id for each in world.ledger.runs_for_a_person()] == [RUN]
    assert list(world.ledger.open_runs()) == []
    assert (run(world).state, run(world).balanced) == ("completed", True)
    assert report(world)["dead"] == {"AccessDenied": 1}


def test_a_run_without_any_trouble_is_listed_nowhere_once_it_is_closed() -> None:
    world = at_work()
    world.settle()
    assert list(world.ledger.runs_for_a_person()) == []
    assert list(world.ledger.open_runs()) == []


# gauges


def test_gauges_are_published_for_an_idle_policy_too() -> None:
    world = World()
    world.tick()
    assert world.gauges.last("OldestOpenJobAge", "logs-expire") == 0
    assert world.gauges.last("DeadJobs") == 0
    assert world.gauges.last("BooksOutOfBalance") == 0


def test_the_age_of_the_oldest_open_work_is_told_per_policy() -> None:
    world = at_work()
    tick_after(world, 3600)
    assert world.gauges.last("OldestOpenJobAge", "logs-expire") == 3600


def test_dead_jobs_are_counted_once_while_the_run_is_open_as_it_closes_and_after() -> None:
    world = at_work()
    world.bucket().failures["app/1"] = DENIED
    counted = []
    while not run(world).closed:
        world.work()
        tick_after(world, 60)
        counted.append(world.gauges.last("DeadJobs"))
    tick_after(world, 60)
    counted.append(world.gauges.last("DeadJobs"))
    assert set(counted) <= {0, 1}
    assert counted[-2:] == [1, 1]


def test_books_that_do_not_balance_are_counted_until_a_person_has_seen_to_them() -> None:
    world = at_work()
    world.work()
    world.evidence.files.pop(jobs(world)[0].outcome_files[0])
    assert tick_after(world, 0).balanced is False
    tick_after(world, 60)
    assert world.gauges.last("BooksOutOfBalance") == 1


# what is deployed


def test_policy_rows_say_what_is_deployed_and_what_is_no_more() -> None:
    world = World(policies={"logs-expire": policy(schedule="rate(1 day)", owner="team")})
    world.tick()
    row = world.ledger.policy("logs-expire")
    assert (row["deployed_version"], row["owner"]) == (world.policies["logs-expire"].version, "team")
    before = world.table.calls["write"]
    world.tick()
    assert world.table.calls["write"] == before
    world.policies = {}
    world.tick()
    assert "deployed_version" not in world.ledger.policy("logs-expire")
