"""Which times of a schedule no run has taken care of, why, and which of them ring."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sexton.controls import Controls, Pause
from sexton.instant import ms
from sexton.missed import COUNTED, GRACE, KEPT, Covers, Missed, covered_by, missed, schedule_since
from sexton.run import Change
from sexton.table import Row

SINCE = datetime(2026, 3, 1, 12, tzinfo=UTC)
FIRST = datetime(2026, 3, 2, 4, tzinfo=UTC)  # the first time of the schedule below
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NOBODY = Controls()


def row(**more: object) -> Row:
    fields = {"schedule": "cron(0 4 * * ? *)", "timezone": "UTC", "schedule_since": ms(SINCE), "deployed_version": "v"}
    return {"policy": "logs-expire", **fields, **more}


def pauses(*changes: tuple[datetime, str], scope: str = "logs-expire") -> Controls:
    history = tuple(Change(at=at, actor="anna", change=what, reason="an incident") for at, what in changes)
    at, what = changes[-1]
    standing = what == "paused"
    resumed = None if standing else at
    pause = Pause(
        scope=scope, paused=standing, since=at, resumed_at=resumed, actor="anna", reason="an incident", history=history
    )
    return Controls(pauses=(pause,))


def found(now: datetime, controls: Controls = NOBODY, **more: object) -> Missed:
    each = missed(row(**more), controls, now)
    assert each is not None
    return each


def whys(each: Missed) -> list[str]:
    return [time.why for time in each.times]


# when a time is missed


@pytest.mark.parametrize(("late", "is_missed"), [(-1, False), (0, True), (1, True)])
def test_a_late_delivery_is_not_yet_missed(late: int, is_missed: bool) -> None:
    now = FIRST + GRACE + timedelta(seconds=late)
    assert (missed(row(), NOBODY, now) is not None) is is_missed


def test_what_was_missed_is_told_with_why_and_what_to_do() -> None:
    each = found(FIRST + DAY + GRACE)
    assert [time.at for time in each.times] == [FIRST, FIRST + DAY]
    assert whys(each) == ["not_fired", "not_fired"]
    assert (each.count, each.overdue) == (2, 2)
    assert "sexton run start logs-expire --at 2026-03-03T04:00:00Z --reason ..." in each.next_action


def test_a_run_covers_its_time_and_all_before() -> None:
    covered = ms(FIRST + DAY)
    assert missed(row(covered_until=covered), NOBODY, FIRST + DAY + GRACE) is None
    assert found(FIRST + 2 * DAY + GRACE, covered_until=covered).count == 1


@pytest.mark.parametrize(
    "unlike",
    [{"deployed_version": None}, {"schedule_since": None}, {"schedule_since": ms(FIRST)}, {"schedule": ""}],
    ids=["withdrawn", "never registered", "changed since", "without a schedule"],
)
def test_what_was_not_expected_is_not_missed(unlike: Row) -> None:
    there = {name: value for name, value in row(**unlike).items() if value is not None}
    assert missed(there, NOBODY, FIRST + GRACE) is None


def test_the_latest_twenty_are_named_and_of_the_latest_thousand_all_counted() -> None:
    each = found(FIRST + 30 * DAY, schedule="cron(0/10 * * * ? *)")
    within_grace = 38
    assert (each.count, len(each.times)) == (COUNTED - within_grace, KEPT)
    assert each.overdue == each.count
    assert each.times[-1].at == FIRST + 30 * DAY - GRACE - timedelta(minutes=5)


# why


def test_a_time_that_the_clock_was_set_forward_over() -> None:
    since = ms(datetime(2026, 3, 28, 12, tzinfo=UTC))
    more = {"schedule": "cron(30 2 * * ? *)", "timezone": "Europe/Berlin", "schedule_since": since}
    each = found(datetime(2026, 3, 29, 2, tzinfo=UTC), **more)
    assert (whys(each), each.overdue) == (["daylight_saving"], 0)
    assert found(datetime(2026, 3, 29, 12, tzinfo=UTC), **more).overdue == 1


def test_a_trigger_that_was_skipped_says_why() -> None:
    skipped = [
        {"run_id": "logs-expire.20260302T040000Z.1", "open_run": "logs-expire.20260301T040000Z.1", "at": ms(FIRST)},
        {"run_id": "logs-expire.20260303T040000Z.1", "why": "paused", "at": ms(FIRST + DAY)},
        {"run_id": "logs-expire.20260304T040000Z.1", "why": "run_open", "open_run": "x", "at": ms(FIRST + 2 * DAY)},
    ]
    each = found(FIRST + 3 * DAY + HOUR, skipped_triggers=skipped)
    assert whys(each) == ["run_open", "paused", "run_open"]


@pytest.mark.parametrize("scope", ["logs-expire", "all"])
def test_a_time_within_a_pause(scope: str) -> None:
    controls = pauses((FIRST - HOUR, "paused"), (FIRST + HOUR, "resumed"), scope=scope)
    assert whys(found(FIRST + DAY + GRACE, controls)) == ["paused", "not_fired"]


# what rings


def test_a_paused_policy_is_shown_at_once_and_does_not_ring() -> None:
    each = found(FIRST + DAY + GRACE, pauses((FIRST - HOUR, "paused")))
    assert (whys(each), each.overdue) == (["paused", "paused"], 0)
    assert "sexton resume logs-expire --reason ..." in each.next_action
    assert found(FIRST, pauses((FIRST - HOUR, "paused"))).count == 1


def test_a_pause_of_all_is_ended_as_one_of_all() -> None:
    assert "sexton resume --reason ..." in found(FIRST, pauses((FIRST - HOUR, "paused"), scope="all")).next_action


@pytest.mark.parametrize(("late", "overdue"), [(-1, 0), (0, 1)])
def test_a_pause_that_ended_leaves_a_grace_for_the_next_run(late: int, overdue: int) -> None:
    ended = FIRST + 10 * HOUR
    controls = pauses((FIRST - HOUR, "paused"), (ended, "resumed"))
    assert found(ended + GRACE + timedelta(seconds=late), controls).overdue == overdue


def test_while_a_run_is_open_nothing_rings() -> None:
    each = found(FIRST + GRACE, open_run="logs-expire.20260301T130000Z.1")
    assert (each.count, each.overdue) == (1, 0)
    assert "logs-expire.20260301T130000Z.1" in each.next_action


# what a run covers


def test_a_run_covers_what_was_expected_before_it_and_not_its_own_time() -> None:
    assert covered_by(row(), FIRST + 2 * DAY) == Covers(2, (FIRST, FIRST + DAY))
    assert covered_by(row(), FIRST) == Covers()
    assert covered_by(row(), FIRST + timedelta(seconds=59)) == Covers()  # Scheduler is as precise as a minute
    assert covered_by(row(covered_until=ms(FIRST + DAY)), FIRST + 2 * DAY) == Covers()
    assert covered_by({}, FIRST) == Covers()


def test_what_a_run_covers_is_named_up_to_twenty() -> None:
    covers = covered_by(row(), FIRST + 30 * DAY)
    assert (covers.total, len(covers.times), covers.times[-1]) == (30, KEPT, FIRST + 29 * DAY)


# since when


def test_a_schedule_counts_from_when_it_was_deployed_or_changed() -> None:
    now = SINCE + DAY
    assert schedule_since({}, "rate(1 day)", "UTC", now) == ms(now)
    assert schedule_since(row(), "cron(0 4 * * ? *)", "UTC", now) == ms(SINCE)
    assert schedule_since(row(), "cron(0 5 * * ? *)", "UTC", now) == ms(now)
    assert schedule_since(row(), "cron(0 4 * * ? *)", "Europe/Berlin", now) == ms(now)
    withdrawn = {name: value for name, value in row().items() if name != "deployed_version"}
    assert schedule_since(withdrawn, "cron(0 4 * * ? *)", "UTC", now) == ms(now)
    known_before = {name: value for name, value in row().items() if name != "schedule_since"}
    assert schedule_since(known_before, "cron(0 4 * * ? *)", "UTC", now) == ms(now)
