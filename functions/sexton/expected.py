"""When a schedule should have fired: `cron()` and `rate()` as EventBridge Scheduler documents them.

A local time that daylight saving leaves out is skipped, one that comes twice fires once (the first time is taken
here). A rate counts hours that have gone by, whatever the clock on the wall says.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from sexton.schedule import CRON_FIELDS, DAYS, RATE, CronField, cron_value

DAY = timedelta(days=1)
SATURDAY, SUNDAY = 6, 7  # of the ISO week
UNITS = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": DAY}
_MINUTE, _HOUR, _DAY_OF_MONTH, _MONTH, _DAY_OF_WEEK, _YEAR = CRON_FIELDS


class Expected(NamedTuple):
    """One time, in UTC. `left_out`: no clock of the zone shows it, so nothing fires; then `at` is where the clock
    that was not set forward would have shown it."""

    at: datetime
    left_out: bool = False


def expected(schedule: str, timezone: str, after: datetime, until: datetime, limit: int) -> list[Expected]:
    """The latest `limit` times of a checked schedule in (after, until], ascending; none where there is no schedule.

    A rate counts from `after`.
    """
    if schedule.startswith("rate("):
        return _rate(schedule, after, until, limit)
    return _cron(schedule, ZoneInfo(timezone), after, until, limit) if schedule else []


def _rate(schedule: str, after: datetime, until: datetime, limit: int) -> list[Expected]:
    match = RATE.fullmatch(schedule)
    assert match is not None, f"{schedule} was never checked"
    step = int(match[1]) * UNITS[match[2].removesuffix("s")]
    last = (until - after) // step
    return [Expected(after + step * number) for number in range(max(1, last - limit + 1), last + 1)]


def _cron(schedule: str, zone: ZoneInfo, after: datetime, until: datetime, limit: int) -> list[Expected]:
    """From the last day back, as many days as it takes; a day more at each end, since a clock can cross midnight."""
    minutes, hours, days, months, weekdays, years = schedule[5:-1].split(" ")
    times = [time(h, m) for h in sorted(_values(hours, _HOUR)) for m in sorted(_values(minutes, _MINUTE))]
    falls_on = _day_of_month(days) if weekdays == "?" else _day_of_week(weekdays)
    in_month, in_year = _values(months, _MONTH), _values(years, _YEAR)
    found: dict[datetime, bool] = {}
    for day in _days_back(until.astimezone(zone).date() + DAY, after.astimezone(zone).date() - DAY):
        if len(found) >= limit:
            break
        if day.year in in_year and day.month in in_month and falls_on(day):
            for at, left_out in (_instant(day, each, zone) for each in times):
                if after < at <= until:
                    found[at] = found.get(at, True) and left_out
    return [Expected(at, left_out) for at, left_out in sorted(found.items())][-limit:]


def _days_back(last: date, first: date) -> Iterator[date]:
    return (last - DAY * number for number in range((last - first).days + 1))


def _instant(day: date, at: time, zone: ZoneInfo) -> Expected:
    local = datetime.combine(day, at, zone)
    instant = local.astimezone(UTC)
    return Expected(instant, instant.astimezone(zone).replace(tzinfo=None) != local.replace(tzinfo=None))


# the fields


def _values(text: str, rule: CronField) -> frozenset[int]:
    return frozenset(value for element in text.split(",") for value in _element(element, rule))


def _element(text: str, rule: CronField) -> Iterator[int]:
    """`*`, `a`, `a-b`, each with or without `/step`; `a/step` goes on to the field's end, `FRI-MON` wraps."""
    span, _, step = text.partition("/")
    low, _, high = (f"{rule.low}-{rule.high}" if span == "*" else span).partition("-")
    first, last = _value(low, rule), _value(high, rule) if high else rule.high if step else _value(low, rule)
    size = rule.high - rule.low + 1
    for offset in range(0, (last - first) % size + 1, int(step or 1)):
        yield rule.low + (first - rule.low + offset) % size


def _value(text: str, rule: CronField) -> int:
    value = cron_value(text, rule)
    assert value is not None, f"{text} was never checked"
    return value


def _day_of_month(text: str) -> Callable[[date], bool]:
    if text == "L":
        return lambda day: day.day == _last(day)
    if text == "LW":
        return lambda day: day == _nearest_weekday(day.replace(day=_last(day)))
    if text.endswith("W"):
        number = int(text[:-1])
        return lambda day: number <= _last(day) and day == _nearest_weekday(day.replace(day=number))
    days = _values(text, _DAY_OF_MONTH)
    return lambda day: day.day in days


def _day_of_week(text: str) -> Callable[[date], bool]:
    if match := re.fullmatch(r"(\d|[A-Z]{3})(L|#\d)", text):
        return _of_month(_value(match[1], _DAY_OF_WEEK), match[2])
    days = _values(DAYS[-1] if text == "L" else text, _DAY_OF_WEEK)  # L alone: the week's last day
    return lambda day: _weekday(day) in days


def _of_month(weekday: int, which: str) -> Callable[[date], bool]:
    """The last (`L`) or the n-th (`#n`) of a weekday in its month."""
    if which == "L":
        return lambda day: _weekday(day) == weekday and day.day > _last(day) - 7
    return lambda day: _weekday(day) == weekday and (day.day - 1) // 7 + 1 == int(which[1:])


def _weekday(day: date) -> int:
    """Sunday is 1, Saturday is 7."""
    return day.isoweekday() % 7 + 1


def _last(day: date) -> int:
    return monthrange(day.year, day.month)[1]


def _nearest_weekday(day: date) -> date:
    """Monday to Friday, and never in another month."""
    if day.isoweekday() == SATURDAY:
        return day - DAY if day.day > 1 else day + 2 * DAY
    if day.isoweekday() == SUNDAY:
        return day + DAY if day.day < _last(day) else day - 2 * DAY
    return day
