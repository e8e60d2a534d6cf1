"""The syntax of the recurring schedules that EventBridge Scheduler takes: `cron()` and `rate()`.

Checked here so that a broken schedule fails the synth with its line, not the deploy half way.
"""

from __future__ import annotations

import re
import zoneinfo
from difflib import get_close_matches
from typing import Annotated, NamedTuple

from pydantic import AfterValidator

from sexton.problem import refused

CRON_EXAMPLE = "cron(30 2 * * ? *) (minute, hour, day of month, month, day of week, year) or rate(1 day)"

DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")


class CronField(NamedTuple):
    """What one field of a cron expression may hold. `alone` matches the forms that cannot stand in a list."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    alone: str = ""


CRON_FIELDS = (
    CronField("minute", 0, 59),
    CronField("hour", 0, 23),
    CronField("day of month", 1, 31, alone=r"L|LW|(?:[1-9]|[12]\d|3[01])W"),
    CronField("month", 1, 12, MONTHS),
    CronField("day of week", 1, 7, DAYS, rf"L|(?:[1-7]|{'|'.join(DAYS)})(?:L|#[1-5])"),
    CronField("year", 1970, 2199),
)
RATE = re.compile(r"rate\(([0-9]{1,9}) (minutes?|hours?|days?)\)")


def check_schedule(text: str) -> str:
    """Give the expression back, or raise PydanticCustomError saying what to write instead."""
    if text.startswith("at("):
        raise refused(f"{text!r} fires once, and a policy recurs", CRON_EXAMPLE)
    if text.startswith("rate("):
        _check_rate(text)
    elif text.startswith("cron(") and text.endswith(")"):
        _check_cron(text[5:-1].split(" "))
    else:
        raise refused(f"schedule {text!r} is neither cron() nor rate()", CRON_EXAMPLE)
    return text


def _check_rate(text: str) -> None:
    match = RATE.fullmatch(text)
    if match is None or not int(match[1]):
        raise refused(f"schedule {text!r} is not a rate", "rate(1 day), rate(12 hours) or rate(30 minutes)")


def _check_cron(fields: list[str]) -> None:
    if len(fields) != len(CRON_FIELDS):
        raise refused(f"cron() has {len(fields)} fields instead of six", CRON_EXAMPLE)
    if (fields[2] == "?") == (fields[4] == "?"):
        raise refused("cron() needs ? as exactly one of day of month and day of week", CRON_EXAMPLE)
    for number, (text, rule) in enumerate(zip(fields, CRON_FIELDS, strict=True)):
        if text == "?" and number in (2, 4):
            continue
        if rule.alone and re.fullmatch(rule.alone, text):
            continue
        for element in text.split(","):
            _check_element(element, rule)


def _check_element(text: str, rule: CronField) -> None:
    name, low, high = rule.name, rule.low, rule.high
    span, _, step = text.partition("/")
    bounds = [cron_value(part, rule) for part in span.split("-")]
    in_range = span == "*" or (len(bounds) <= 2 and all(b is not None and low <= b <= high for b in bounds))
    good_step = "/" not in text or re.fullmatch(r"[1-9][0-9]{0,3}", step)
    if not in_range or not good_step:
        raise refused(f"cron() cannot have {text!r} as {name} ({low} to {high})", CRON_EXAMPLE)


def cron_value(text: str, rule: CronField) -> int | None:
    """The number that a value of a field stands for, None where it is none."""
    if text in rule.names:
        return rule.low + rule.names.index(text)
    return int(text) if re.fullmatch(r"[0-9]{1,4}", text) else None


def check_zone(name: str) -> str:
    """Give the IANA zone's name back, or raise PydanticCustomError naming a near one."""
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        near = get_close_matches(name, sorted(zoneinfo.available_timezones()), n=1, cutoff=0.5)
        raise refused(f"{name!r} is no time zone", near[0] if near else "UTC or Europe/Berlin") from error
    return name


# Empty where a policy was read from its canonical text, which has no schedule.
Schedule = Annotated[str, AfterValidator(lambda text: text and check_schedule(text))]
Zone = Annotated[str, AfterValidator(check_zone)]
