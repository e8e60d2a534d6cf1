"""When a schedule should have fired: EventBridge Scheduler's expressions, in a zone, over daylight saving."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sexton.expected import Expected, expected

YEAR = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 12, 31, 23, 59, tzinfo=UTC)
MANY = 100_000


def days(schedule: str, month: int = 3, limit: int = MANY) -> list[int]:
    """The days of a month of 2026 on which a schedule in UTC fires."""
    after, until = datetime(2026, month, 1, tzinfo=UTC) - timedelta(seconds=1), datetime(2026, month + 1, 1, tzinfo=UTC)
    return [each.at.day for each in expected(schedule, "UTC", after, until - timedelta(seconds=1), limit)]


def times(schedule: str, zone: str, day: str, limit: int = MANY) -> list[tuple[str, bool]]:
    """What is expected on one day of the zone's calendar, in UTC."""
    start = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone))
    end = (datetime.fromisoformat(day) + timedelta(days=1)).replace(tzinfo=ZoneInfo(zone))
    found = expected(schedule, zone, start - timedelta(seconds=1), end - timedelta(seconds=1), limit)
    return [(f"{each.at:%H:%M}", each.left_out) for each in found]


# In March 2026 the 1st is a Sunday; in May the 31st is one, and the 30th a Saturday.
@pytest.mark.parametrize(
    ("schedule", "month", "on"),
    [
        ("cron(0 4 * * ? *)", 3, list(range(1, 32))),
        ("cron(0 4 ? * * *)", 3, list(range(1, 32))),
        ("cron(0 4 1,15 * ? *)", 3, [1, 15]),
        ("cron(0 4 1-31/10 * ? *)", 3, [1, 11, 21, 31]),
        ("cron(0 4 5/10 * ? *)", 3, [5, 15, 25]),
        ("cron(0 4 29 2 ? *)", 2, []),
        ("cron(0 4 31 * ? *)", 4, []),
        ("cron(0 4 L * ? *)", 2, [28]),
        ("cron(0 4 L * ? *)", 3, [31]),
        ("cron(0 4 LW * ? *)", 3, [31]),
        ("cron(0 4 LW * ? *)", 5, [29]),
        ("cron(0 4 1W * ? *)", 3, [2]),
        ("cron(0 4 1W * ? *)", 8, [3]),  # a Saturday, and July is another month
        ("cron(0 4 14W * ? *)", 3, [13]),
        ("cron(0 4 15W * ? *)", 3, [16]),
        ("cron(0 4 31W * ? *)", 5, [29]),
        ("cron(0 4 31W * ? *)", 4, []),
        ("cron(0 4 ? * SUN *)", 3, [1, 8, 15, 22, 29]),
        ("cron(0 4 ? * 1 *)", 3, [1, 8, 15, 22, 29]),
        ("cron(0 4 ? * 7 *)", 3, [7, 14, 21, 28]),
        ("cron(0 4 ? * MON-FRI *)", 8, [3, 4, 5, 6, 7, *range(10, 15), *range(17, 22), *range(24, 29), 31]),
        ("cron(0 4 ? * FRI-MON/3 *)", 3, [2, 6, 9, 13, 16, 20, 23, 27, 30]),
        ("cron(0 4 ? * TUE,5 *)", 3, [3, 5, 10, 12, 17, 19, 24, 26, 31]),
        ("cron(0 4 ? * L *)", 3, [7, 14, 21, 28]),
        ("cron(0 4 ? * 6L *)", 3, [27]),
        ("cron(0 4 ? * FRIL *)", 3, [27]),
        ("cron(0 4 ? * FRI#2 *)", 3, [13]),
        ("cron(0 4 ? * 1#5 *)", 3, [29]),
        ("cron(0 4 ? * 7#5 *)", 3, []),
        ("cron(0 4 1 JAN,MAR ? *)", 3, [1]),
        ("cron(0 4 1 JAN,MAR ? *)", 4, []),
        ("cron(0 4 1 * ? 2025,2027-2030)", 3, []),
        ("cron(0 4 1 * ? 2024/2)", 3, [1]),
        ("cron(0 0/12 1 * ? *)", 3, [1, 1]),
        ("cron(*/30 22-1 1 * ? *)", 3, [1] * 8),
    ],
)  # fmt: skip
def test_the_days_of_a_cron_expression(schedule: str, month: int, on: list[int]) -> None:
    assert days(schedule, month) == on


def test_the_latest_are_given_where_there_are_too_many() -> None:
    assert days("cron(0 4 * * ? *)", limit=3) == [29, 30, 31]
    assert days("cron(0/20 * * * ? *)", limit=74)[:3] == [30, 30, 31]


def test_the_first_instant_is_left_out_and_the_last_is_not() -> None:
    at = datetime(2026, 3, 5, 4, tzinfo=UTC)
    day = timedelta(days=1)
    assert [each.at for each in expected("cron(0 4 * * ? *)", "UTC", at, at + day, MANY)] == [at + day]
    assert expected("cron(0 4 * * ? *)", "UTC", at, at + day - timedelta(seconds=1), MANY) == []
    assert expected("cron(0 4 * * ? *)", "UTC", at, at - day, MANY) == []


def test_a_policy_without_a_schedule_expects_nothing() -> None:
    assert expected("", "UTC", *YEAR, MANY) == []


# daylight saving: in Berlin 2026-03-29 has no 02:xx, and 2026-10-25 has it twice


@pytest.mark.parametrize(
    ("schedule", "zone", "day", "found"),
    [
        ("cron(30 2 * * ? *)", "Europe/Berlin", "2026-03-28", [("01:30", False)]),
        ("cron(30 2 * * ? *)", "Europe/Berlin", "2026-03-29", [("01:30", True)]),
        ("cron(30 2 * * ? *)", "Europe/Berlin", "2026-03-30", [("00:30", False)]),
        ("cron(30 2 * * ? *)", "Europe/Berlin", "2026-10-24", [("00:30", False)]),
        ("cron(30 2 * * ? *)", "Europe/Berlin", "2026-10-25", [("00:30", False)]),
        ("cron(30 2 * * ? *)", "Europe/Berlin", "2026-10-26", [("01:30", False)]),
        # What fires at the same instant by another hand of the clock is not missed.
        ("cron(0 1-4 * * ? *)", "Europe/Berlin", "2026-03-29",
         [("00:00", False), ("01:00", False), ("02:00", False)]),
        ("cron(0,30 2,3 * * ? *)", "Europe/Berlin", "2026-03-29", [("01:00", False), ("01:30", False)]),
        # A midnight that does not exist, and a zone west of Greenwich.
        ("cron(15 0 * * ? *)", "America/Santiago", "2026-09-06", [("04:15", True)]),
        ("cron(30 2 * * ? *)", "America/New_York", "2026-03-08", [("07:30", True)]),
        # Half an hour.
        ("cron(15 2 * * ? *)", "Australia/Lord_Howe", "2026-10-04", [("15:45", True)]),
    ],
)  # fmt: skip
def test_daylight_saving(schedule: str, zone: str, day: str, found: list[tuple[str, bool]]) -> None:
    assert times(schedule, zone, day) == found


def test_a_day_that_a_zone_left_out_is_left_out() -> None:
    after, until = datetime(2011, 12, 29, 0, tzinfo=UTC), datetime(2011, 12, 31, 12, tzinfo=UTC)
    found = expected("cron(0 9 * * ? *)", "Pacific/Apia", after, until, MANY)
    assert found == [Expected(datetime(2011, 12, 29, 19, tzinfo=UTC)), Expected(datetime(2011, 12, 30, 19, tzinfo=UTC))]


# rates


def test_a_rate_counts_what_has_gone_by_since_the_last_run() -> None:
    last = datetime(2026, 3, 28, 12, tzinfo=UTC)
    found = expected("rate(1 day)", "Europe/Berlin", last, last + timedelta(days=3, hours=5), MANY)
    assert found == [Expected(last + timedelta(days=n)) for n in (1, 2, 3)]


@pytest.mark.parametrize(("schedule", "count"), [("rate(5 minutes)", 12), ("rate(1 hour)", 1), ("rate(2 hours)", 0)])
def test_the_units_of_a_rate(schedule: str, count: int) -> None:
    start = YEAR[0]
    assert len(expected(schedule, "UTC", start, start + timedelta(hours=1), MANY)) == count


def test_the_latest_of_a_rate() -> None:
    start = YEAR[0]
    found = expected("rate(1 minute)", "UTC", start, start + timedelta(days=3650, seconds=30), 2)
    assert [each.at - start for each in found] == [timedelta(days=3650, minutes=-1), timedelta(days=3650)]
    assert expected("rate(1 minute)", "UTC", start, start - timedelta(days=2), 2) == []


# what holds of all


@given(
    st.sampled_from(["cron(30 2 * * ? *)", "cron(0/7 1-3 * * ? *)", "cron(0 0 LW * ? *)", "rate(7 hours)"]),
    st.sampled_from(["UTC", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe"]),
    st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 31), timezones=st.just(UTC)),
    st.integers(0, 60 * 24 * 45),
    st.integers(1, 50),
)
def test_a_span_is_told_in_order_once_and_within_its_ends(
    schedule: str, zone: str, after: datetime, minutes: int, limit: int
) -> None:
    until = after + timedelta(minutes=minutes)
    found = [each.at for each in expected(schedule, zone, after, until, limit)]
    assert found == sorted(set(found))
    assert all(after < at <= until for at in found)
    assert found == [each.at for each in expected(schedule, zone, after, until, MANY)][-limit:]
