"""From a trigger to a run: once for each scheduled time, and never for more than the policy says."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from sexton import control_transitions
from sexton.errors import CallFailed, Refused
from sexton.instant import ms
from sexton.item import Item
from sexton.part import read
from sexton.policy import Policy
from sexton.run import Change, Run, RunId
from sexton.table import Key

from tests.fakes.recorder import Crash
from tests.fakes.time import START
from tests.fakes.world import World, policy

EARLIER = START - timedelta(hours=2)


def small_world(*policies: Policy) -> World:
    """Five objects that had their time, in jobs of two."""
    chosen = policies or (policy(job_size=2, limits={"max_items": 10_000}),)
    world = World(policies={each.id: each for each in chosen})
    world.fill(f"app/{n}" for n in range(5))
    world.fill(["app/young"], age=timedelta(days=1))
    return world


def calls_of_a_trigger() -> int:
    world = small_world()
    world.trigger()
    return len(world.trace.calls)


def planned(world: World, run: Run) -> list[Item]:
    """What the ledger's parts hold."""
    jobs = world.ledger.jobs(run.run_id)
    return [item for job in jobs for item in read(world.evidence.files[job.part_key], job.part_sha256)]


def only_run(world: World) -> Run:
    (run,) = world.ledger.runs("logs-expire")
    return run


def assert_one_run_one_plan(world: World) -> None:
    run = only_run(world)
    assert [item.key for item in planned(world, run)] == [f"app/{n}" for n in range(5)]
    assert (run.state, run.balanced, run.planned, run.jobs) == ("completed", True, 5, 3)
    assert list(world.bucket().keys()) == ["app/young"]
    assert "open_run" not in world.ledger.policy("logs-expire")


# once for each scheduled time


def test_the_same_scheduled_time_twice_is_one_run_with_one_plan() -> None:
    world = small_world()
    first = world.trigger()
    world.trace.calm()
    second = world.trigger()
    assert (first["created"], second["created"]) == (True, False)
    assert second["run_id"] == first["run_id"]
    assert {"bucket.list", "queue.send", "evidence.get"}.isdisjoint(world.trace.names)
    world.settle()
    assert_one_run_one_plan(world)


def test_a_duplicate_after_the_run_closed_starts_nothing() -> None:
    world = small_world()
    answer = world.trigger()
    world.settle()
    world.fill(["app/late"])
    again = world.trigger(at=START)
    assert (again["run_id"], again["created"], again["state"]) == (answer["run_id"], False, "completed")
    world.settle()
    assert world.bucket().current("app/late") is not None


@pytest.mark.parametrize("moment", ["crash_before", "crash_after", "lose_request", "lose_reply"])
@pytest.mark.parametrize("nth", range(1, calls_of_a_trigger() + 1))
def test_a_discovery_that_fails_anywhere_and_is_retried_twice_is_one_run_with_one_plan(nth: int, moment: str) -> None:
    world = small_world()
    getattr(world.trace, moment)(nth)
    with pytest.raises((Crash, CallFailed)):
        world.trigger()
    world.trigger(at=START)
    world.clock.advance(60)
    world.trigger(at=START)
    world.settle()
    assert_one_run_one_plan(world)


def test_a_time_in_another_zone_or_with_a_fraction_is_the_same_time() -> None:
    world = small_world()
    first = world.discover({"policy": "logs-expire", "scheduled_time": "2026-03-01T12:00:00Z"})
    world.clock.advance(1)
    for same in ("2026-03-01T13:00:00+01:00", "2026-03-01T12:00:00.500Z"):
        again = world.discover({"policy": "logs-expire", "scheduled_time": same})
        assert (again["run_id"], again["created"]) == (first["run_id"], False)


# what is refused


@pytest.mark.parametrize(
    ("event", "code", "says"),
    [
        ({"scheduled_time": "<aws.scheduler.scheduled-time>"}, "bad_event", "did not fill in"),
        ({"scheduled_time": "2026-03-01T12:00:01Z"}, "bad_event", "still to come"),
        ({"scheduled_time": "2026-03-01T12:00:00"}, "bad_event", "its zone"),
        ({"scheduled_time": "2026-03-01"}, "bad_event", "RFC 3339"),
        ({"scheduled_time": "2026"}, "bad_event", "RFC 3339"),
        ({"scheduled_time": 1772366400}, "bad_event", "RFC 3339"),
        ({"scheduled_time": "0001-01-01T00:00:00Z"}, "bad_event", "1970"),
        ({"scheduled_time": "9999-12-31T23:59:59-23:59"}, "bad_event", "9999"),
        ({"scheduled_time": None}, "bad_event", "RFC 3339"),
        ({"scheduled_time": "soon"}, "bad_event", "RFC 3339"),
        ({"policy": "logs-expired"}, "unknown_policy", "deployed are: logs-expire"),
        ({"policy": ["logs-expire"]}, "bad_event", "policy"),
        ({"retain": "P1D"}, "bad_event", "retain"),
        ({"cutoff": "2026-03-01T12:00:00Z"}, "bad_event", "cutoff"),
        ({"mode": "purge"}, "bad_event", "mode"),
        ({"resume": "logs-expire.20260301T120000Z.1"}, "unknown_run", "no run"),
        ({"resume": "../etc"}, "bad_event", "no run id"),
        ({"resume": None}, "bad_event", "no run id"),
    ],
)
def test_a_bad_event_is_refused_by_name_and_changes_nothing(event: dict[str, object], code: str, says: str) -> None:
    world = small_world()
    asked = {"policy": "logs-expire", "scheduled_time": "2026-03-01T12:00:00Z", **event}
    with pytest.raises(Refused, match=re.escape(says)):
        world.discover(asked)  # so that a schedule's event ends in the failure queue
    answer = world.discover(asked | {"plan": False})
    assert answer["error"]["code"] == code  # type: ignore[index]
    assert says in answer["error"]["message"]  # type: ignore[index]
    assert (world.table.rows, world.evidence.files) == ({}, {})
    assert world.events_logged("event_refused")


@pytest.mark.parametrize("missing", ["policy", "scheduled_time"])
def test_an_event_that_lacks_something_is_refused(missing: str) -> None:
    event: dict[str, object] = {"policy": "logs-expire", "scheduled_time": "2026-03-01T12:00:00Z"}
    del event[missing]
    answer = small_world().discover(event | {"plan": False})
    assert missing in answer["error"]["message"]  # type: ignore[index]


# an event narrows and never widens


@pytest.mark.parametrize(
    ("policy_mode", "asked", "mode"),
    [
        ("enforce", None, "enforce"),
        ("enforce", "report", "report"),
        ("report", None, "report"),
        ("report", "enforce", "report"),
    ],
)
def test_an_event_can_only_narrow_the_mode(policy_mode: str, asked: str | None, mode: str) -> None:
    world = small_world(policy(mode=policy_mode))
    assert world.run(world.trigger(mode=asked)).mode == mode


def test_an_earlier_time_only_makes_the_cutoff_earlier() -> None:
    world = small_world()
    run = world.run(world.trigger(at=START - timedelta(days=31)))
    assert run.cutoff == START - timedelta(days=61)
    assert run.planned == 0
    assert run.scanned == {"younger": 6}


# overlap


def test_an_overlapping_trigger_is_skipped_and_recorded() -> None:
    world = small_world()
    first = world.trigger(at=EARLIER)
    world.clock.advance(60)
    second = world.trigger(at=START)
    assert (second["skipped"], second["created"], second["run_id"]) == (True, False, first["run_id"])
    assert only_run(world).run_id == first["run_id"]
    assert world.ledger.policy("logs-expire")["skipped_triggers"] == [
        {
            "run_id": "logs-expire.20260301T120000Z.1",
            "why": "run_open",
            "open_run": "logs-expire.20260301T100000Z.1",
            "at": ms(START + timedelta(seconds=60)),
        }
    ]


def test_a_late_duplicate_of_a_skipped_trigger_starts_it_with_its_own_cutoff() -> None:
    world = small_world()
    world.trigger(at=EARLIER)
    world.trigger(at=START)
    world.settle()
    world.clock.advance(timedelta(hours=5))
    late = world.trigger(at=START)
    assert late["created"]
    assert world.run(late).cutoff == START - timedelta(days=30)
    world.settle()
    assert world.run(late).balanced


def test_a_trigger_skipped_again_and_again_is_recorded_once_and_the_last_twenty_are_kept() -> None:
    world = small_world()
    world.trigger(at=START - timedelta(days=1))
    times = [START - timedelta(minutes=minute) for minute in range(25, 0, -1)]
    for at in times:
        world.trigger(at=at)
        world.trigger(at=at)
    kept = [entry["run_id"] for entry in world.ledger.policy("logs-expire")["skipped_triggers"]]
    assert kept == [str(RunId("logs-expire", at)) for at in times[-20:]]


def test_policies_do_not_stand_in_each_others_way() -> None:
    other = policy(id="other", source={"kind": "s3", "bucket": "other", "prefixes": ["app/"]})
    world = small_world(policy(), other)
    assert world.trigger()["created"]
    assert world.trigger("other")["created"]


def test_a_reported_run_does_not_hold_the_slot() -> None:
    world = small_world()
    assert world.trigger(at=EARLIER, mode="report")["state"] == "reported"
    assert world.trigger()["created"]


def test_the_last_scheduled_time_never_goes_back() -> None:
    world = small_world()
    world.trigger(at=START, mode="report")
    world.trigger(at=EARLIER, mode="report")
    assert world.ledger.policy("logs-expire")["last_scheduled_time"] == ms(START)


# a paused policy


def pause(world: World, scope: str = "logs-expire") -> None:
    change = Change(at=world.clock(), actor="anna", change="paused", reason="an incident")
    world.table.write(control_transitions.pause(scope, change, world.tokens()))


def resume(world: World, scope: str = "logs-expire") -> None:
    change = Change(at=world.clock(), actor="anna", change="resumed", reason="it is over")
    world.table.write(control_transitions.resume(scope, change, world.tokens()))


@pytest.mark.parametrize("scope", ["logs-expire", "all"])
def test_a_schedules_trigger_of_a_paused_policy_is_recorded_as_skipped(scope: str) -> None:
    world = small_world()
    pause(world, scope)
    assert world.trigger() == {"run_id": None, "state": None, "created": False, "skipped": True}
    world.trigger()
    assert list(world.ledger.runs("logs-expire")) == []
    assert world.ledger.policy("logs-expire")["skipped_triggers"] == [
        {"run_id": "logs-expire.20260301T120000Z.1", "why": "paused", "at": ms(START)}
    ]
    resume(world, scope)
    assert world.trigger(at=START)["created"]


def test_a_pause_of_another_policy_is_none_of_this_one() -> None:
    world = small_world()
    pause(world, "other")
    assert world.trigger()["created"]


def test_a_person_is_told_that_the_policy_is_paused() -> None:
    world = small_world()
    pause(world)
    answer = world.trigger(started_by="arn:aws:iam::123456789012:user/bob", plan=False)
    error = answer["error"]
    assert error["code"] == "paused"  # type: ignore[index]
    assert "since 2026-03-01T12:00:00Z by anna (an incident)" in error["message"]  # type: ignore[index]
    assert set(world.table.rows) == {Key("CONTROL", "PAUSE#logs-expire")}


def test_a_duplicate_that_comes_while_paused_finds_its_run() -> None:
    world = small_world()
    first = world.trigger()
    pause(world)
    again = world.trigger(at=START)
    assert (again["run_id"], again["created"], again["skipped"]) == (first["run_id"], False, False)
    assert "skipped_triggers" not in world.ledger.policy("logs-expire")


# what was missed before


def scheduled_world(schedule: str = "cron(0 * * * ? *)") -> World:
    """A policy that is due every hour, known to the ledger since 12:00."""
    world = small_world(policy(schedule=schedule))
    world.tick()
    return world


def test_a_run_covers_what_was_missed_before_it() -> None:
    world = scheduled_world()
    world.clock.advance(timedelta(hours=4))
    run = world.run(world.trigger())
    assert run.covers == tuple(START + timedelta(hours=n) for n in (1, 2, 3))
    assert run.covers_total == 3
    world.settle()
    world.clock.move_to(START + timedelta(hours=5))
    assert world.run(world.trigger()).covers_total == 0


def test_a_run_names_the_latest_twenty_that_it_covers_and_their_number() -> None:
    world = scheduled_world()
    world.clock.advance(timedelta(hours=50))
    run = world.run(world.trigger())
    assert run.covers == tuple(START + timedelta(hours=n) for n in range(30, 50))
    assert run.covers_total == 49


def test_a_missed_time_can_be_started_after_a_later_run_and_covers_nothing_then() -> None:
    world = scheduled_world()
    world.clock.advance(timedelta(hours=4))
    world.trigger()
    world.settle()
    late = world.run(world.trigger(at=START + timedelta(hours=2)))
    assert (late.cutoff, late.covers_total) == (START + timedelta(hours=2) - timedelta(days=30), 0)
    assert world.ledger.policy("logs-expire")["covered_until"] == ms(START + timedelta(hours=4))


def test_a_report_of_an_enforcing_policy_covers_nothing() -> None:
    world = scheduled_world()
    world.clock.advance(timedelta(hours=4))
    run = world.run(world.trigger(mode="report"))
    assert (run.covers, run.covers_total) == ((), 0)
    assert "covered_until" not in world.ledger.policy("logs-expire")


def test_a_rate_that_drifts_by_seconds_has_missed_nothing() -> None:
    world = scheduled_world("rate(1 hour)")
    for n in (1, 2, 3):
        world.clock.move_to(START + timedelta(hours=n, seconds=7 * n))
        assert world.run(world.trigger()).covers == ()
        world.settle()


# a further issue


def test_a_time_that_was_never_issued_is_not_issued_again() -> None:
    answer = small_world().trigger(reissue=True, plan=False)
    assert answer["error"]["code"] == "refused"  # type: ignore[index]
    assert "never issued" in answer["error"]["message"]  # type: ignore[index]


@pytest.mark.parametrize("settled", [False, True])
def test_a_run_at_work_or_completed_is_not_issued_again(settled: bool) -> None:
    world = small_world()
    world.trigger()
    if settled:
        world.settle()
    answer = world.trigger(at=START, reissue=True, plan=False)
    assert "only an invalidated or reported run" in answer["error"]["message"]  # type: ignore[index]
    assert only_run(world).n == 1


def test_a_reported_run_is_issued_again_as_the_next_n_with_the_same_cutoff() -> None:
    world = small_world()
    first = world.run(world.trigger(mode="report"))
    second = world.run(world.trigger(reissue=True))
    assert (second.n, second.run_id, second.cutoff) == (2, "logs-expire.20260301T120000Z.2", first.cutoff)
    world.settle()
    assert world.run({"run_id": second.run_id}).balanced


def test_an_invalidated_run_is_issued_again_and_a_schedule_event_still_means_the_first() -> None:
    world = small_world()
    world.bucket().missing = True
    first = world.trigger()
    assert first["state"] == "invalidated"
    world.settle()
    world.bucket().missing = False
    assert world.trigger(at=START)["created"] is False
    again = world.trigger(at=START, reissue=True)
    assert (again["created"], world.run(again).n) == (True, 2)
    duplicate = world.trigger(at=START)
    assert (duplicate["run_id"], duplicate["created"]) == (first["run_id"], False)


def test_a_further_issue_waits_for_the_slot_too() -> None:
    world = small_world()
    world.trigger(at=EARLIER, mode="report")
    world.trigger(at=START)
    assert world.trigger(at=EARLIER, reissue=True)["skipped"]


# rows and files


def test_the_run_row_stands_where_a_policy_and_a_time_find_it() -> None:
    world = small_world()
    world.trigger(started_by="arn:aws:iam::123456789012:user/anna")
    row = world.table.rows[Key("POLICY#logs-expire", "RUN#20260301T120000Z#0001")]
    assert row["run_id"] == "logs-expire.20260301T120000Z.1"
    assert row["scheduled_time"] == 1772366400000
    assert row["cutoff"] == 1772366400000 - 30 * 24 * 3600 * 1000
    assert row["policy_version"] == world.policies["logs-expire"].version
    assert row["started_by"] == "arn:aws:iam::123456789012:user/anna"
    assert only_run(world).created_at == datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_the_policy_row_names_its_open_run() -> None:
    world = small_world()
    answer = world.trigger()
    row = world.table.rows[Key("POLICY#logs-expire", "POLICY")]
    assert (row["open_run"], row["last_scheduled_time"]) == (answer["run_id"], 1772366400000)


def test_the_canonical_policy_stands_in_evidence_under_its_own_digest() -> None:
    world = small_world(policy(description="Old logs", schedule="rate(1 day)", owner="team"))
    run = world.run(world.trigger())
    text = world.evidence.files[f"policies/logs-expire/{run.policy_version}.json"]
    assert hashlib.sha256(text).hexdigest() == run.policy_version
    assert {"description", "owner", "schedule", "timezone"}.isdisjoint(json.loads(text))
    assert Policy.from_canonical(text).version == run.policy_version
