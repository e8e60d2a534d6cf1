"""How long a policy keeps things, and the cutoff that follows.

The arithmetic is done on the UTC calendar, whatever the policy's schedule zone: the zone says when a run starts,
not what it may remove, so that changing it (or a daylight saving switch) never moves a cutoff.
"""

from __future__ import annotations

import calendar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator

from sexton.duration import LONGEST, parse, to_text
from sexton.problem import refused, shown

DAY = timedelta(days=1)
LONGEST_MONTHS = 100 * 12
EXAMPLE = "an ISO 8601 duration such as P30D, P3M or P1Y"


@dataclass(frozen=True, slots=True)
class Retain:
    """A calendar duration: whole months, then a fixed length. Longer than nothing."""

    months: int
    rest: timedelta

    def __str__(self) -> str:
        years, months = divmod(self.months, 12)
        calendar_part = (f"{years}Y" if years else "") + (f"{months}M" if months else "")
        if not self.rest:
            return f"P{calendar_part}"
        return f"P{calendar_part}{to_text(self.rest)[1:]}"

    @property
    def under_a_day(self) -> bool:
        """Whether it can be shorter than a day."""
        return not self.months and self.rest < DAY


def parse_retain(value: object) -> Retain:
    """Read a `retain` such as P30D, P3M or P1Y6M. Raises PydanticCustomError saying what to write instead."""
    if isinstance(value, Retain):
        return value
    months, rest = parse(value, EXAMPLE)
    if months < 0 or rest < timedelta(0) or (not months and not rest):
        raise refused(f"retain {shown(value)} is zero or negative", EXAMPLE)
    if months > LONGEST_MONTHS or rest > LONGEST:
        raise refused(f"retain {shown(value)} is longer than a hundred years", EXAMPLE)
    if months % 1 or rest.microseconds:
        raise refused(f"retain {shown(value)} has a fraction of a month or a second", EXAMPLE)
    return Retain(int(months), rest)


def cutoff(scheduled_time: datetime, retain: Retain) -> datetime:
    """The instant, in UTC, before which a thing has had its time: `scheduled_time` less `retain`.

    Months go first, at the same time of day; a day that the target month lacks becomes its last day
    (2025-03-31 less P1M is 2025-02-28). Then the fixed rest. Raises ValueError for a naive time, OverflowError
    before year 1.
    """
    if scheduled_time.utcoffset() is None:
        raise ValueError("a scheduled time needs a zone")
    return _months_before(scheduled_time.astimezone(UTC), retain.months) - retain.rest


def _months_before(at: datetime, months: int) -> datetime:
    year, month_index = divmod(at.year * 12 + at.month - 1 - months, 12)
    if year < 1:
        raise OverflowError(f"{months} months before {at} is before year 1")
    last_day = calendar.monthrange(year, month_index + 1)[1]
    return at.replace(year=year, month=month_index + 1, day=min(at.day, last_day))


RetainField = Annotated[Retain, PlainValidator(parse_retain), PlainSerializer(str, return_type=str)]
