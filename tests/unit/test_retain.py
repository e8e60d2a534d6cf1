"""Retention arithmetic on the UTC calendar."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError
from sexton.duration import parse_fixed, to_text
from sexton.retain import Retain, cutoff, parse_retain

retains = st.builds(
    Retain, st.integers(0, 1200), st.integers(0, 36_525 * 86_400 - 1).map(lambda s: timedelta(seconds=s))
).filter(lambda retain: retain.months or retain.rest)
times = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("scheduled", "retain", "expected"),
    [
        ("2026-11-30T02:30:00+00:00", "P30D", "2026-10-31T02:30:00+00:00"),
        ("2025-03-31T02:30:00+00:00", "P1M", "2025-02-28T02:30:00+00:00"),
        ("2024-03-31T02:30:00+00:00", "P1M", "2024-02-29T02:30:00+00:00"),
        ("2024-02-29T00:00:00+00:00", "P1Y", "2023-02-28T00:00:00+00:00"),
        ("2024-02-29T00:00:00+00:00", "P4Y", "2020-02-29T00:00:00+00:00"),
        ("2026-01-15T00:00:00+00:00", "P1M", "2025-12-15T00:00:00+00:00"),
        ("2026-01-15T00:00:00+00:00", "P12M", "2025-01-15T00:00:00+00:00"),
        ("2026-05-31T00:00:00+00:00", "P3M1D", "2026-02-27T00:00:00+00:00"),  # months first, then days
        ("2026-11-30T02:30:00+00:00", "P2W", "2026-11-16T02:30:00+00:00"),
        ("2026-11-30T02:30:00+00:00", "PT36H", "2026-11-28T14:30:00+00:00"),
        # In a zone it is still 31 March; in UTC it is 1 April, and that counts.
        ("2026-03-31T20:00:00-05:00", "P1M", "2026-03-01T01:00:00+00:00"),
    ],
)
def test_cutoff(scheduled: str, retain: str, expected: str) -> None:
    result = cutoff(at(scheduled), parse_retain(retain))
    assert result == at(expected)
    assert result.tzinfo is UTC


def test_daylight_saving_moves_no_cutoff() -> None:
    zone = ZoneInfo("Europe/Berlin")
    before, after = datetime(2026, 3, 28, 2, 30, tzinfo=zone), datetime(2026, 3, 30, 2, 30, tzinfo=zone)
    day = parse_retain("P1D")
    assert cutoff(before, day) == at("2026-03-27T01:30:00+00:00")
    assert cutoff(after, day) == at("2026-03-29T00:30:00+00:00")


def test_a_naive_time_has_no_cutoff() -> None:
    with pytest.raises(ValueError, match="needs a zone"):
        cutoff(datetime(2026, 1, 1), parse_retain("P1D"))


def test_before_the_first_year_there_is_no_cutoff() -> None:
    with pytest.raises(OverflowError):
        cutoff(datetime(90, 1, 1, tzinfo=UTC), parse_retain("P100Y"))


@given(times, retains)
def test_a_cutoff_is_before_its_scheduled_time(scheduled: datetime, retain: Retain) -> None:
    assert cutoff(scheduled, retain) < scheduled


@given(times, retains, st.integers(0, 800))
def test_a_later_day_never_has_an_earlier_cutoff(scheduled: datetime, retain: Retain, days: int) -> None:
    """At one time of day. Within the days that a shorter month swallows, a later hour can have an earlier cutoff."""
    assert cutoff(scheduled, retain) <= cutoff(scheduled + timedelta(days=days), retain)


@given(times, times, retains)
def test_cutoffs_go_back_by_less_than_a_day(one: datetime, other: datetime, retain: Retain) -> None:
    earlier, later = sorted((one, other))
    assert cutoff(earlier, retain) - cutoff(later, retain) < timedelta(days=1)


@given(times, retains, st.integers(0, 24), st.integers(0, 10**6))
def test_a_longer_retention_never_has_a_later_cutoff(
    scheduled: datetime, retain: Retain, months: int, seconds: int
) -> None:
    longer = Retain(retain.months + months, retain.rest + timedelta(seconds=seconds))
    assert cutoff(scheduled, longer) <= cutoff(scheduled, retain)


@given(times, retains, st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kathmandu"]))
def test_the_zone_of_the_scheduled_time_does_not_matter(scheduled: datetime, retain: Retain, zone: str) -> None:
    assert cutoff(scheduled.astimezone(ZoneInfo(zone)), retain) == cutoff(scheduled, retain)


@given(retains)
def test_text_and_back(retain: Retain) -> None:
    assert parse_retain(str(retain)) == retain


@pytest.mark.parametrize(
    ("spelled", "canonical"),
    [
        ("P12M", "P1Y"),
        ("P2W", "P14D"),
        ("PT24H", "P1D"),
        ("P1Y14M", "P2Y2M"),
        ("PT90M", "PT1H30M"),
        ("+P1D", "P1D"),
        ("P0.5Y", "P6M"),
    ],
)
def test_equal_durations_have_one_text(spelled: str, canonical: str) -> None:
    assert str(parse_retain(spelled)) == canonical


@pytest.mark.parametrize(
    "text",
    ["P0D", "PT0S", "-P1D", "-P1M", "P", "", "30 days", "P0.1Y", "P1.5M", "PT0.5S", "P101Y", "P99999999999D", "p1d",
     30, None, True, ["P1D"]],
)  # fmt: skip
def test_what_is_no_retention_is_refused(text: object) -> None:
    with pytest.raises(PydanticCustomError, match="write instead"):
        parse_retain(text)


@given(st.integers(1, 10**8).map(lambda seconds: timedelta(seconds=seconds)))
def test_fixed_text_and_back(length: timedelta) -> None:
    assert parse_fixed(to_text(length)) == length
    assert parse_fixed(length) == length


@pytest.mark.parametrize("text", ["P1M", "P1Y", "PT0S", "-PT1H", "PT1.5S", "six hours", 6, None])
def test_what_has_no_fixed_length_is_refused(text: object) -> None:
    with pytest.raises(PydanticCustomError, match="write instead"):
        parse_fixed(text)
