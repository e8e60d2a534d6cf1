"""Dates in keys: whole periods, in UTC, and nothing guessed."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError
from sexton.key_date import KeyDate, check_key_date


def read(pattern: str, key: str) -> datetime | None:
    return KeyDate(key_date=pattern).reader()(key)


@pytest.mark.parametrize(
    ("pattern", "key", "end"),
    [
        ("dt=%Y-%m-%d", "a/dt=2026-01-01/x", "2026-01-02"),
        ("dt=%Y-%m-%d", "dt=2026-12-31/x", "2027-01-01"),
        ("dt=%Y-%m-%d", "a/dt=2024-02-28", "2024-02-29"),
        ("%Y", "logs/2026/x", "2027-01-01"),
        ("%Y-%m", "logs/2026-12/x", "2027-01-01"),
        ("%Y-%m", "logs/2026-01/x", "2026-02-01"),
        ("%Y/%m/%d/%H", "logs/2026/01/31/23/x", "2026-02-01"),
        ("year=%Y/month=%m/day=%d", "t/year=2026/month=03/day=09/p", "2026-03-10"),
        ("%d.%m.%Y", "a/09.03.2026/x", "2026-03-10"),
        ("%Y%m%dT%H%M", "a/20260309T2359/x", "2026-03-10"),
        ("%Y%m%dT%H%M%S", "a/20260309T235958/x", "2026-03-09T23:59:59"),
        ("*-%Y%m%d.csv", "a/export-20260309.csv", "2026-03-10"),
        ("%Y-%m-%d*", "a/2026-03-09T10-part.csv", "2026-03-10"),
        ("*%Y-%m-%d*", "a/export_2026-03-09_1.csv", "2026-03-10"),
        ("*%Y%m%d*", "a/v2-20260309-1.csv", "2026-03-10"),
        ("*-%Y", "a/report1-2026", "2027-01-01"),
        ("100%%-%Y", "a/100%-2026/x", "2027-01-01"),
        ("d.t=%Y", "a/d.t=2026/x", "2027-01-01"),
        ("dt=%Y-%m-%d", "dt=2026-01-01/dt=2026-01-01/x", "2026-01-02"),  # twice the same is one date
    ],
)
def test_age_counts_from_the_end_of_the_period(pattern: str, key: str, end: str) -> None:
    assert read(pattern, key) == datetime.fromisoformat(end).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("pattern", "key"),
    [
        ("dt=%Y-%m-%d", "a/x"),
        ("dt=%Y-%m-%d", "a/dt=2026-02-30/x"),
        ("dt=%Y-%m-%d", "a/dt=2025-02-29/x"),
        ("dt=%Y-%m-%d", "a/dt=2026-13-01/x"),
        ("dt=%Y-%m-%d", "a/dt=0000-01-01/x"),
        ("dt=%Y-%m-%d", "a/dt=9999-12-31/x"),  # its end is in no calendar
        ("%Y", "a/9999/x"),
        ("%Y-%m", "a/9999-12/x"),
        ("%Y-%m", "a/2026-00/x"),
        ("%Y%m%dT%H", "a/20260101T24/x"),
        ("dt=%Y-%m-%d", "a/dt=2026-1-1/x"),
        ("dt=%Y-%m-%d", "a/dt=2026-01-01-late/x"),
        ("dt=%Y-%m-%d", "a/mydt=2026-01-01/x"),
        ("dt=%Y-%m-%d", "a/DT=2026-01-01/x"),
        ("dt=%Y-%m-%d", "a/dt=\uff12\uff10\uff12\uff16-01-01/x"),  # digits, but not ours
        ("dt=%Y-%m-%d", "a/dt=2026-01-01\n/x"),
        ("*%Y%m%d*", "a/120260309.csv"),
        ("*%Y%m%d*", "a/202603091.csv"),
        ("dt=%Y-%m-%d", "dt=2026-01-01/dt=2026-01-02/x"),
        ("*%Y-%m-%d*", "a/2026-01-01_2026-01-02"),
        ("%Y/%m", "2026/01/2026/02"),
        ("x/%Y/x", "x/2026/x/2025/x"),  # the two share a segment
        ("%Y", "2026/2025/x"),
    ],
)
def test_what_is_no_single_date_is_not_read(pattern: str, key: str) -> None:
    assert read(pattern, key) is None


@given(st.dates(date(1, 1, 1), date(9999, 12, 30)), st.text(max_size=8), st.text("abc/", max_size=8))
def test_the_end_of_a_day_is_the_next_midnight(day: date, before: str, after: str) -> None:
    key = f"{before}/dt={day.isoformat()}/{after}"
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    assert read("dt=%Y-%m-%d", key) == midnight + timedelta(days=1)


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "dt=",
        "%m-%d",
        "%Y-%d",
        "%Y-%m-%d-%Y",
        "%Y-%b",
        "%y%m%d",
        "%Y-*-%m",
        "%Y%",
        "**%Y",
        "%H:%M",
        "%s",
        "%%Y",
        "/%Y",
        "%Y/",
    ],
)
def test_a_pattern_that_names_no_period_is_refused(pattern: str) -> None:
    with pytest.raises(PydanticCustomError, match="write instead"):
        check_key_date(pattern)
