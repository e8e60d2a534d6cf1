"""A schedule that does not lead to its run: the tick counts it, `status` tells it, the next run covers it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from sexton import cli_tables, control_transitions, keys
from sexton.approving import Approving
from sexton.cli_output import put
from sexton.errors import Failure, ReasonClass
from sexton.missed import GRACE
from sexton.policy import Policy
from sexton.run import Change
from sexton.showing import show
from sexton.status import Status, status

from tests.fakes.time import START
from tests.fakes.world import World, policy

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
FIRST = datetime(2026, 3, 2, 4, tzinfo=UTC)
EVERY_DAY = "cron(0 4 * * ? *)"


def scheduled(**changes: object) -> Policy:
    return policy(**{"schedule": EVERY_DAY, **changes})


@pytest.fixture
def world() -> World:
    """A policy that is due at four every morning, known since noon."""
    made = World(policies={"logs-expire": scheduled()})
    made.fill(["app/a", "app/b"])
    made.tick()
    return made


def rings(world: World, at: datetime | None = None) -> float | None:
    """What the alarm stands on after a tick."""
    world.clock.move_to(at or world.clock())
    world.tick()
    return world.gauges.last("MissedSchedules")


def asked(world: World) -> Status:
    return status(world.ledger, world.clock())


def shown(found: Status, capsys: pytest.CaptureFixture[str]) -> str:
    put(cli_tables.status(found))
    return capsys.readouterr().out


def change(world: World, what: str) -> None:
    write = control_transitions.pause if what == "paused" else control_transitions.resume
    made = Change(at=world.clock(), actor="anna", change=what, reason="an incident")
    world.table.write(write("logs-expire", made, world.tokens()))


def test_a_schedule_that_fires_rings_never(world: World) -> None:
    for day in range(3):
        world.clock.move_to(FIRST + day * DAY)
        world.trigger()
        world.settle()
        assert rings(world, FIRST + day * DAY + 12 * HOUR) == 0
    assert asked(world).missed == ()


def test_a_schedule_that_does_not_fire_rings_until_a_run_covers_it(world: World) -> None:
    assert rings(world, FIRST + GRACE - timedelta(seconds=1)) == 0
    assert asked(world).quiet
    assert rings(world, FIRST + GRACE) == 1
    assert not asked(world).quiet
    assert rings(world, FIRST + DAY + GRACE) == 2
    world.trigger(at=FIRST + DAY, started_by="anna")
    world.settle()
    assert rings(world) == 0
    assert asked(world).missed == ()


def test_a_report_does_not_silence_it(world: World) -> None:
    rings(world, FIRST + GRACE)
    world.trigger(at=world.clock(), mode="report", started_by="anna")
    assert rings(world) == 1


def test_status_tells_it_with_the_next_action(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.clock.move_to(FIRST + DAY + GRACE)
    found = asked(world)
    (missed,) = found.missed
    assert (missed.policy, missed.count, missed.overdue) == ("logs-expire", 2, 2)
    out = shown(found, capsys)
    assert "2 times of logs-expire (cron(0 4 * * ? *), UTC)" in out
    assert "2026-03-02T04:00:00Z to 2026-03-03T04:00:00Z (2): the schedule did not fire" in out
    assert "sexton run start logs-expire --at 2026-03-03T04:00:00Z" in out


def test_a_pause_is_told_and_rings_only_when_it_is_over(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    change(world, "paused")
    world.clock.move_to(FIRST)
    world.trigger()
    assert rings(world, FIRST + DAY + 8 * HOUR) == 0
    found = asked(world)
    assert [each.why for each in found.missed[0].times] == ["paused", "paused"]  # of the second no event came
    assert found.missed[0].overdue == 0
    out = shown(found, capsys)
    assert "it was paused" in out
    assert "sexton resume logs-expire" in out
    change(world, "resumed")
    assert rings(world) == 0
    assert rings(world, FIRST + DAY + 8 * HOUR + GRACE) == 2


def test_a_skipped_trigger_is_told_and_does_not_ring_while_the_run_is_open(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.trigger(at=START)
    world.clock.move_to(FIRST)
    world.trigger()
    assert rings(world, FIRST + 12 * HOUR) == 0
    assert "another run of the policy was open" in shown(asked(world), capsys)
    world.settle()
    assert rings(world) == 1


def test_an_approved_report_takes_care_of_it(world: World) -> None:
    rings(world, FIRST + GRACE)
    run = world.run(world.trigger(at=FIRST, mode="report", started_by="anna"))
    assert rings(world) == 1
    approving = Approving(world.ledger, world.policies, world.clock, world.tokens, world._log)
    approving.approve(run.run_id, str(run.digest), "it is right", "bob")
    world.settle()
    assert rings(world) == 0


# deploys


def test_a_schedule_that_a_deploy_changed_is_expected_from_then_on(world: World) -> None:
    world.clock.move_to(FIRST + 5 * HOUR)
    world.policies["logs-expire"] = scheduled(schedule="cron(0 3 * * ? *)")
    assert rings(world) == 0
    assert rings(world, FIRST + 23 * HOUR - timedelta(minutes=1)) == 0
    assert rings(world, FIRST + 23 * HOUR + GRACE) == 1


def test_another_version_of_a_policy_keeps_what_was_missed(world: World) -> None:
    world.clock.move_to(FIRST + 5 * HOUR)
    world.policies["logs-expire"] = scheduled(retain="P60D")
    world.tick()
    assert rings(world, FIRST + GRACE) == 1


def test_a_policy_that_is_gone_misses_nothing_and_starts_anew_when_it_is_back(world: World) -> None:
    kept = world.policies.pop("logs-expire")
    world.tick()
    assert rings(world, FIRST + GRACE) == 0
    world.policies["logs-expire"] = kept
    world.tick()
    assert rings(world) == 0
    assert rings(world, FIRST + DAY + GRACE) == 1


def test_the_gauge_is_published_where_nothing_is_deployed_too() -> None:
    world = World()
    world.policies.clear()
    assert rings(world) == 0


# daylight saving


def test_the_night_that_has_no_half_past_two_is_noticed_and_widens_no_cutoff() -> None:
    world = World(policies={"logs-expire": scheduled(schedule="cron(30 2 * * ? *)", timezone="Europe/Berlin")})
    world.clock.move_to(datetime(2026, 3, 28, 12, tzinfo=UTC))
    world.tick()
    left_out = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    assert rings(world, left_out + GRACE) == 1
    (missed,) = asked(world).missed
    assert [(each.at, each.why) for each in missed.times] == [(left_out, "daylight_saving")]
    run = world.run(world.trigger(at=left_out, started_by="anna"))
    assert run.cutoff == left_out - timedelta(days=30)
    world.settle()
    assert rings(world) == 0


# who covers what


def test_a_run_that_covers_nothing_says_nothing_of_it(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    run_id = str(world.trigger()["run_id"])
    world.settle()
    assert "Missed times" not in world.evidence.files[keys.report_html(run_id, 1)].decode()
    put(cli_tables.run(show(world.ledger, run_id)))
    assert "missed" not in capsys.readouterr().out


def test_a_run_and_its_report_say_what_they_cover(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.clock.move_to(FIRST + 30 * DAY)
    run_id = str(world.trigger()["run_id"])
    world.settle()
    view = show(world.ledger, run_id)
    assert (view.covers_total, len(view.covers), view.covers[-1]) == (30, 20, FIRST + 29 * DAY)
    report = json.loads(world.evidence.files[keys.report(run_id, 1)])
    assert (report["covers_total"], report["covers"][-1]) == (30, "2026-03-31T04:00:00Z")
    page = world.evidence.files[keys.report_html(run_id, 1)].decode()
    assert "Missed times that it covers" in page
    put(cli_tables.run(view))
    said = "30 missed times before it (the latest 20: 2026-03-12T04:00:00Z to 2026-03-31T04:00:00Z)"
    assert said in capsys.readouterr().out


# a run that was not carried out


def refused_run(world: World, at: datetime) -> str:
    """The schedule fires, and the bucket refuses to be listed."""
    world.clock.move_to(at)
    world.bucket().fail_next("list", Failure(ReasonClass.PERMANENT, "AccessDenied", "access denied"))
    run_id = str(world.trigger()["run_id"])
    world.settle()
    assert show(world.ledger, run_id).state == "invalidated"
    return run_id


def test_a_run_that_was_refused_its_source_is_missed_and_rings(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """A schedule that fired is not data that went."""
    refused = refused_run(world, FIRST)
    assert rings(world, FIRST + GRACE - HOUR) == 0
    assert rings(world, FIRST + GRACE) == 1
    (missed,) = asked(world).missed
    assert [(each.at, each.why) for each in missed.times] == [(FIRST, "not_carried_out")]
    assert f"sexton run show {refused}" in missed.next_action
    assert "its run was invalidated" in shown(asked(world), capsys)
    assert not asked(world).quiet


def test_each_night_that_was_refused_counts_and_the_run_that_goes_through_covers_them_all(world: World) -> None:
    for day in range(3):
        refused_run(world, FIRST + day * DAY)
    assert rings(world, FIRST + 2 * DAY + GRACE) == 3
    world.clock.move_to(FIRST + 3 * DAY)
    through = world.run(world.trigger())
    world.settle()
    assert through.covers == tuple(FIRST + day * DAY for day in range(3))
    assert rings(world, FIRST + 3 * DAY + GRACE) == 0


def test_a_plan_that_nobody_approved_is_missed_once_it_has_expired(world: World) -> None:
    world.policies["logs-expire"] = scheduled(approval="always", schedule="cron(0 4 2 * ? *)")
    world.tick()
    world.clock.move_to(FIRST)
    waits = world.run(world.trigger())
    assert waits.state == "awaiting_approval"
    assert rings(world, FIRST + 2 * DAY) == 0
    world.clock.move_to(FIRST + 8 * DAY)
    world.tick()
    assert rings(world, FIRST + 8 * DAY + HOUR) == 1


def test_a_reissue_covers_what_the_invalidated_run_did_not(world: World) -> None:
    world.clock.move_to(FIRST)
    run_id = str(world.trigger()["run_id"])
    world.stopping().invalidate(run_id, "a wrong prefix", "me")
    world.settle()
    again = world.trigger(at=FIRST, reissue=True)
    world.settle()
    assert world.run(again).state == "completed"
    assert rings(world, FIRST + GRACE) == 0


def test_an_older_run_that_is_invalidated_later_takes_nothing_from_a_newer_one(world: World) -> None:
    world.policies["logs-expire"] = scheduled(approval="always")
    world.tick()
    world.clock.move_to(FIRST)
    older = str(world.trigger()["run_id"])
    world.clock.move_to(FIRST + DAY)
    world.trigger()
    world.stopping().invalidate(older, "the newer one has it all", "me")
    world.tick()
    assert asked(world).missed == ()


def test_a_schedule_that_finds_a_persons_report_of_its_time_is_missed_with_the_reason(world: World) -> None:
    world.clock.move_to(FIRST)
    report = world.trigger(mode="report", started_by="anna")
    world.trigger()
    assert world.bucket().keys() == ["app/a", "app/b"]
    (missed,) = asked(world).missed
    assert [(each.at, each.why) for each in missed.times] == [(FIRST, "reported")]
    assert f"sexton run approve {report['run_id']}" in missed.next_action
    assert rings(world, FIRST + GRACE) == 1
    world.trigger()  # a late duplicate
    world.trigger(at=world.clock(), started_by="anna")
    world.settle()
    assert rings(world) == 0
