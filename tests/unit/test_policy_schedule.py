"""Schedules: what EventBridge Scheduler takes, and nothing else."""

from __future__ import annotations

import pytest
from pydantic_core import PydanticCustomError
from sexton.schedule import check_schedule, check_zone
from sexton.source import check_bucket


@pytest.mark.parametrize(
    "text",
    ["rate(1 day)", "rate(5 minutes)", "rate(12 hours)", "rate(1 hour)", "rate(30 days)",
     "cron(30 2 * * ? *)", "cron(0 4 ? * SUN *)", "cron(0 4 ? * MON-FRI *)", "cron(0/15 8-18,20 1 JAN,JUL ? 2026-2030)",
     "cron(0 0 L * ? *)", "cron(0 0 LW * ? *)", "cron(0 0 15W * ? *)", "cron(0 0 ? * 6L *)", "cron(0 0 ? * FRI#2 *)",
     "cron(*/10 * * * ? *)", "cron(0 0 1-31/5 * ? *)"],
)  # fmt: skip
def test_a_schedule_is_taken(text: str) -> None:
    assert check_schedule(text) == text


@pytest.mark.parametrize(
    "text",
    ["", "daily", "at(2026-01-01T00:00:00)", "rate(0 days)", "rate(1 week)", "rate(-1 days)", "rate(1.5 hours)",
     "rate(1day)", "rate(1 day", "rate()", "30 2 * * ? *", "cron(30 2 * * ?)", "cron(30 2 * * ? * *)",
     "cron(30 2 * * *)", "cron(30 2 * * * *)", "cron(30 2 ? * ? *)", "cron(60 2 * * ? *)",
     "cron(30 24 * * ? *)", "cron(30 2 0 * ? *)",
     "cron(30 2 32 * ? *)", "cron(30 2 * 13 ? *)", "cron(30 2 * FOO ? *)", "cron(30 2 ? * 0 *)", "cron(30 2 ? * 8 *)",
     "cron(30 2 ? * 3#6 *)", "cron(30 2 ? * 3#1,6#3 *)", "cron(30 2 * * ? 1969)", "cron(30 2 * * ? 2200)",
     "cron(1-2-3 2 * * ? *)", "cron(*/0 2 * * ? *)", "cron(1/ 2 * * ? *)", "cron(1, 2 * * ? *)", "cron(? 2 * * ? *)",
     "cron(30 2 32W * ? *)", "cron(30 2 * * ? *) ", "cron(30 2 * * ?\n*)", "cron(\uff11 2 * * ? *)"],
)  # fmt: skip
def test_what_is_no_recurring_schedule_is_refused(text: str) -> None:
    with pytest.raises(PydanticCustomError, match="write instead"):
        check_schedule(text)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires"])
def test_a_zone_is_taken(zone: str) -> None:
    assert check_zone(zone) == zone


@pytest.mark.parametrize("zone", ["", "Europe", "Mars/Base", "../etc/passwd", "/etc/localtime", "UTC+1", "a\0b", "é"])
def test_what_is_no_zone_is_refused(zone: str) -> None:
    with pytest.raises(PydanticCustomError, match="write instead"):
        check_zone(zone)


@pytest.mark.parametrize("name", ["abc", "a.b-c", "1bucket1", "x" * 63])
def test_a_bucket_name_is_taken(name: str) -> None:
    assert check_bucket(name) == name


@pytest.mark.parametrize(
    "name",
    ["", "ab", "x" * 64, "Abc", "a_b", "-abc", "abc-", ".abc", "a..b", "10.0.0.1", "xn--abc", "abc-s3alias",
     "abc--x-s3", "arn:aws:s3:::abc", "abc/def", "abc\n"],
)  # fmt: skip
def test_what_is_no_bucket_name_is_refused(name: str) -> None:
    with pytest.raises(PydanticCustomError, match="write instead"):
        check_bucket(name)
