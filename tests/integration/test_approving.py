"""Approving a plan: exactly the one that was looked at is carried out, or a rule says why not."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from sexton.approval import PLAN_TTL
from sexton.approving import Approved, Approving, same_person
from sexton.errors import BadRunId, CallFailed, NotAllowed, UnknownRun
from sexton.ledger import Ledger
from sexton.policy import Policy
from sexton.run import Change, Run, RunState

from tests.fakes.world import World, policy

ANN = "arn:aws:sts::1:assumed-role/Operator/ann"
ANN_APPROVING = "arn:aws:sts::1:assumed-role/Approver/ann"
BOB = "arn:aws:sts::1:assumed-role/Approver/bob"
WHY = "looked at the fifty of the sample"
SECOND = timedelta(seconds=1)


def approving(world: World, clock: Callable[[], datetime] | None = None) -> Approving:
    return Approving(world.ledger, world.policies, clock or world.clock, world.tokens, world._log)


def waiting_world(rule: Policy | None = None, **trigger: object) -> tuple[World, Run]:
    """Three objects planned, waiting for a person."""
    world = World({"logs-expire": rule or policy(approval="first")})
    world.fill(["app/a.log", "app/b.log", "app/c.log"])
    return world, world.run(world.trigger(**trigger))


def approve(world: World, run: Run, actor: str = BOB) -> Approved:
    return approving(world).approve(run.run_id, str(run.digest), WHY, actor)


def refused(world: World, run: Run, code: str, actor: str = BOB, digest: str | None = None) -> str:
    rows = {key: dict(row) for key, row in world.table.rows.items()}
    with pytest.raises(NotAllowed) as error:
        approving(world).approve(run.run_id, digest or str(run.digest), WHY, actor)
    assert error.value.code == code
    assert world.table.rows == rows
    return str(error.value)


def now(world: World, run: Run) -> Run:
    found = world.ledger.run(run.id)
    assert found is not None
    return found


def test_an_approved_plan_is_carried_out() -> None:
    world, run = waiting_world()
    assert run.state is RunState.AWAITING_APPROVAL
    approved = approve(world, run)
    assert approved == Approved(run_id=run.run_id, state=RunState.DISPATCHING, digest=str(run.digest), planned=3)
    found = now(world, run)
    assert (found.state, found.mode, found.approved_by, found.approved_at) == (
        RunState.DISPATCHING,
        "enforce",
        BOB,
        world.clock(),
    )
    assert found.held_because == run.held_because != ()
    assert found.changes == (
        Change(at=world.clock(), actor=BOB, change="approved", reason=WHY, detail=f"digest {run.digest}"),
    )
    assert world.ledger.policy("logs-expire")["open_run"] == run.run_id
    world.settle()
    assert not world.bucket().keys()
    assert now(world, run).balanced
    assert "open_run" not in world.ledger.policy("logs-expire")


def test_a_report_that_was_looked_at_is_carried_out_as_it_is() -> None:
    """What came since is not touched, and what was reported is what is done."""
    world, run = waiting_world(policy(), mode="report")
    assert (run.state, run.mode) == (RunState.REPORTED, "report")
    world.fill(["app/d.log"])
    approve(world, run)
    world.settle()
    assert world.bucket().keys() == ["app/d.log"]
    report = json.loads(world.evidence.get(f"runs/{run.run_id}/report-1.json") or b"")
    assert (report["mode"], report["deleted"], report["planned"]) == ("enforce", 3, 3)


def test_an_approved_run_is_as_old_as_its_approval() -> None:
    """It waited for a person: the alarm on the oldest job must not ring at once."""
    world, run = waiting_world()
    world.clock.advance(6 * 24 * 3600)
    approve(world, run)
    world.tick()
    assert world.gauges.last("OldestOpenJobAge", "logs-expire") == 0


def test_a_version_is_asked_about_once() -> None:
    world, run = waiting_world()
    approve(world, run)
    world.settle()
    world.clock.advance(3600)
    world.fill(["app/e.log"])
    assert world.run(world.trigger()).state is not RunState.AWAITING_APPROVAL
    assert world.ledger.policy("logs-expire")["approved_versions"] == [run.policy_version]


def test_a_version_that_is_approved_again_is_noted_once() -> None:
    world, run = waiting_world(policy(approval="always"))
    approve(world, run)
    world.settle()
    world.clock.advance(3600)
    world.fill(["app/e.log"])
    approve(world, world.run(world.trigger()))
    assert world.ledger.policy("logs-expire")["approved_versions"] == [run.policy_version]


def test_another_digest_is_refused_with_the_plan_s_own() -> None:
    world, run = waiting_world()
    assert str(run.digest) in refused(world, run, "other_digest", digest="0" * 64)


def test_a_plan_is_good_for_seven_days() -> None:
    world, run = waiting_world()
    assert run.planned_at is not None
    world.clock.move_to(run.planned_at + PLAN_TTL)
    assert "start a new run" in refused(world, run, "plan_expired")
    world.clock.move_to(run.planned_at + PLAN_TTL - SECOND)
    approve(world, run)


@pytest.mark.parametrize("deployed", [policy(approval="first", retain="P31D"), None])
def test_a_plan_of_a_policy_that_is_not_deployed_is_refused(deployed: Policy | None) -> None:
    world, run = waiting_world()
    world.policies.clear()
    if deployed:
        world.policies["logs-expire"] = deployed
    refused(world, run, "policy_changed")


def test_a_policy_that_only_reports_never_removes() -> None:
    world, run = waiting_world(policy(mode="report"))
    assert run.state is RunState.REPORTED
    assert "mode: enforce" in refused(world, run, "policy_reports")


def test_the_slot_must_be_free() -> None:
    world, run = waiting_world()
    world.clock.advance(3600)
    other = world.trigger(plan=False)["run_id"]
    assert str(other) in refused(world, run, "run_open")


@pytest.mark.parametrize("actor", [ANN, ANN_APPROVING])
def test_two_persons_are_two(actor: str) -> None:
    world, run = waiting_world(policy(approval="always", approvers=2), started_by=ANN)
    assert ANN in refused(world, run, "second_person", actor)
    assert approve(world, run, BOB).planned == 3


def test_one_person_suffices_for_a_schedule_s_run_and_where_one_is_asked_for() -> None:
    for rule, started_by in ((policy(approval="always", approvers=2), "schedule"), (policy(approval="first"), ANN)):
        world, run = waiting_world(rule, started_by=started_by)
        assert approve(world, run, ANN).planned == 3


def test_who_may_be_the_same_person() -> None:
    assert same_person(ANN, ANN_APPROVING)
    assert same_person("arn:aws:iam::1:user/ann", "arn:aws:iam::1:user/ann")
    assert same_person("arn:aws:iam::1:user/ops/ann", ANN)
    assert same_person(ANN.replace("/ann", "/Ann"), ANN)
    assert not same_person(ANN, BOB)
    assert not same_person("schedule", ANN)


def test_the_number_of_approvers_is_part_of_the_version_only_when_it_is_two() -> None:
    assert policy(approvers=1).version == policy().version
    assert policy(approvers=2, approval="first").version != policy(approval="first").version
    for wrong in (0, 3, True, "2"):
        with pytest.raises(ValueError, match="approvers"):
            policy(approvers=wrong, approval="first")


def test_what_does_not_wait_is_refused_with_who_approved_it() -> None:
    world, run = waiting_world()
    approve(world, run)
    assert BOB in refused(world, run, "not_waiting", ANN)
    world.settle()
    refused(world, run, "not_waiting", ANN)


def test_two_people_at_once_approve_it_once() -> None:
    world, run = waiting_world()
    todo = [lambda: approve(world, run, ANN)]

    def clock() -> datetime:
        while todo:
            todo.pop()()
        return world.clock()

    with pytest.raises(NotAllowed) as error:
        approving(world, clock).approve(run.run_id, str(run.digest), WHY, BOB)
    assert error.value.code == "moved"
    assert now(world, run).approved_by == ANN


def test_an_approval_whose_reply_was_lost_has_happened() -> None:
    """The person sees a failure, looks, and finds it approved; and the next tick goes on by itself."""
    world, run = waiting_world()
    traced = Ledger(world.trace.wrap("table", world.table))
    world.trace.calm()
    world.trace.lose_reply(3)  # after two rows were read
    with pytest.raises(CallFailed):
        Approving(traced, world.policies, world.clock, world.tokens, world._log).approve(
            run.run_id, str(run.digest), WHY, BOB
        )
    assert now(world, run).approved_by == BOB
    world.settle()
    assert now(world, run).balanced


def test_a_run_that_is_none_is_told() -> None:
    world, run = waiting_world()
    with pytest.raises(BadRunId):
        approving(world).approve("no run", str(run.digest), WHY, BOB)
    with pytest.raises(UnknownRun):
        approving(world).approve("logs-expire.20200101T000000Z.1", str(run.digest), WHY, BOB)
