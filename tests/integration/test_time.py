"""Cutoffs come from scheduled times alone, and nothing younger ever goes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from sexton.item import Item, rfc3339
from sexton.part import read
from sexton.run import Run

from tests.fakes.time import START, FakeClock
from tests.fakes.world import World, policy

CUTOFF = START - timedelta(days=30)
SECOND = timedelta(seconds=1)
BERLIN = ZoneInfo("Europe/Berlin")


def planned(world: World, run: Run) -> list[str]:
    jobs = world.ledger.jobs(run.run_id)
    return [item.key for job in jobs for item in read(world.evidence.files[job.part_key], job.part_sha256)]


def put(world: World, key: str, modified: datetime) -> None:
    world.bucket().place(Item(key, f'"{key}"', 1, "STANDARD", modified))


def test_at_the_cutoff_and_a_second_around_it_through_the_whole_line() -> None:
    world = World()
    put(world, "app/before", CUTOFF - SECOND)
    put(world, "app/at", CUTOFF)
    put(world, "app/after", CUTOFF + SECOND)
    answer = world.trigger()
    world.settle()
    assert world.run(answer).scanned == {"expired": 1, "younger": 2}
    assert world.bucket().keys() == ["app/after", "app/at"]


@pytest.mark.parametrize("late", [timedelta(0), timedelta(hours=6), timedelta(days=3)])
def test_a_start_that_comes_late_removes_no_more_than_one_in_time(late: timedelta) -> None:
    world = World()
    put(world, "app/before", CUTOFF - SECOND)
    put(world, "app/at", CUTOFF)
    world.clock.advance(late)
    answer = world.trigger(at=START)
    world.settle()
    assert (world.run(answer).cutoff, world.bucket().keys()) == (CUTOFF, ["app/at"])


def test_what_becomes_old_enough_while_the_run_goes_on_stays_for_the_next() -> None:
    world = World()
    put(world, "app/before", CUTOFF - SECOND)
    put(world, "app/at", CUTOFF)
    world.trigger(plan=False)
    world.clock.advance(timedelta(hours=3))
    world.settle()
    assert world.bucket().keys() == ["app/at"]


def test_a_report_at_ten_and_a_run_at_five_past_plan_one_set_for_one_scheduled_time() -> None:
    world = World(clock=FakeClock(datetime(2026, 3, 1, 10, 0, tzinfo=UTC)))
    at = world.clock()
    for minute in range(-10, 11):
        put(world, f"app/{minute:+03d}", at - timedelta(days=30) + timedelta(minutes=minute))
    report = world.run(world.trigger(at=at, mode="report"))
    world.clock.advance(timedelta(minutes=5))
    enforcing = world.run(world.trigger(at=at, reissue=True))
    assert report.state == "reported"
    assert planned(world, report) == planned(world, enforcing)
    assert len(planned(world, report)) == 10
    assert (report.digest, report.cutoff) == (enforcing.digest, enforcing.cutoff)


@pytest.mark.parametrize(
    ("local", "cutoff"),
    [
        # 02:30 is skipped on 29 March 2026 and comes twice on 25 October 2026; the runs around those days:
        (datetime(2026, 3, 28, 2, 30, tzinfo=BERLIN), "2026-02-26T01:30:00Z"),
        (datetime(2026, 3, 30, 2, 30, tzinfo=BERLIN), "2026-02-28T00:30:00Z"),
        (datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN), "2026-09-25T00:30:00Z"),
        (datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1), "2026-09-25T01:30:00Z"),
        (datetime(2026, 10, 26, 2, 30, tzinfo=BERLIN), "2026-09-26T01:30:00Z"),
    ],
)
def test_a_switch_of_daylight_saving_moves_no_cutoff(local: datetime, cutoff: str) -> None:
    """Thirty days are 720 hours before the instant that was scheduled, whatever clocks on walls did between."""
    world = World(
        policies={"logs-expire": policy(timezone="Europe/Berlin", schedule="cron(30 2 * * ? *)")},
        clock=FakeClock(local.astimezone(UTC) + SECOND),
    )
    run = world.run(world.discover({"policy": "logs-expire", "scheduled_time": local.isoformat()}))
    assert rfc3339(run.cutoff) == cutoff
    assert local.astimezone(UTC) - run.cutoff == timedelta(hours=720)


def test_a_skipped_day_is_made_up_for_by_the_next_and_widens_nothing() -> None:
    world = World(clock=FakeClock(datetime(2026, 3, 30, 0, 31, tzinfo=UTC)))
    put(world, "app/of-the-skipped-day", datetime(2026, 2, 27, 12, tzinfo=UTC))
    put(world, "app/younger", datetime(2026, 2, 28, 0, 30, tzinfo=UTC))
    world.trigger(at=datetime(2026, 3, 30, 2, 30, tzinfo=BERLIN))
    world.settle()
    assert world.bucket().keys() == ["app/younger"]


def test_the_policys_time_zone_changes_neither_version_nor_cutoff() -> None:
    for zone in ("UTC", "Europe/Berlin", "Pacific/Kiritimati"):
        world = World(policies={"logs-expire": policy(timezone=zone)})
        run = world.run(world.trigger())
        assert (run.policy_version, run.cutoff) == (policy().version, CUTOFF)


@pytest.mark.parametrize(
    ("retain", "at", "cutoff"),
    [
        ("P1M", "2026-03-31T12:00:00Z", "2026-02-28T12:00:00Z"),
        ("P1Y", "2028-02-29T12:00:00Z", "2027-02-28T12:00:00Z"),
        ("P1M1D", "2026-03-31T12:00:00Z", "2026-02-27T12:00:00Z"),
    ],
)
def test_calendar_months_and_years_end_on_a_day_that_there_is(retain: str, at: str, cutoff: str) -> None:
    scheduled = datetime.fromisoformat(at)
    world = World(policies={"logs-expire": policy(retain=retain)}, clock=FakeClock(scheduled))
    assert rfc3339(world.run(world.trigger()).cutoff) == cutoff


def test_an_object_rewritten_since_stays_though_it_is_older_than_the_policys_days_by_then() -> None:
    world = World()
    put(world, "app/old", CUTOFF - SECOND)
    world.trigger()
    put(world, "app/old", CUTOFF + SECOND)
    world.clock.advance(timedelta(hours=1))
    world.settle()
    assert world.bucket().keys() == ["app/old"]
