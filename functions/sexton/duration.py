"""ISO 8601 durations of a fixed length, as limits use them."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Annotated

import isodate
from pydantic import PlainSerializer, PlainValidator

from sexton.problem import refused, shown

EXAMPLE = "an ISO 8601 duration such as PT6H or P1D"
LONGEST = timedelta(days=36_525)

_IN_WORDS = re.compile(
    r"P?T?(\d{1,6})\s*(seconds?|minutes?|min|hours?|days?|weeks?|months?|years?|[shdwy])", re.IGNORECASE
)


def parse(value: object, example: str = EXAMPLE) -> tuple[Decimal, timedelta]:
    """Read an ISO 8601 duration as months and a fixed rest, of any sign.

    Raises PydanticCustomError saying what to write instead: the duration that the text seems to mean, or the example.
    """
    if not isinstance(value, str):
        raise refused(f"{shown(value)} is not a duration", example)
    try:
        length = isodate.parse_duration(value)
    except (isodate.ISO8601Error, OverflowError) as error:
        raise refused(f"{shown(value)} is not a duration that can be read", _meant(value) or example) from error
    if isinstance(length, isodate.Duration):
        return Decimal(length.years) * 12 + Decimal(length.months), length.tdelta
    return Decimal(0), length


def _meant(text: str) -> str:
    """The duration of `30 days`, `6h` or `P6H`, or nothing."""
    found = _IN_WORDS.fullmatch(text.strip())
    if not found:
        return ""
    number, unit = found[1], found[2]
    clock = unit.lower().startswith(("s", "h", "mi"))
    return f"P{'T' if clock else ''}{number}{unit[0].upper()}"


def parse_fixed(value: object) -> timedelta:
    """Read a duration that has the same length on every day: whole seconds, longer than nothing."""
    months, length = (Decimal(0), value) if isinstance(value, timedelta) else parse(value)
    if months:
        raise refused(f"{shown(value)} has months or years, whose length varies", "weeks, days or hours")
    if length <= timedelta(0):
        raise refused(f"{shown(value)} is zero or negative", EXAMPLE)
    if length > LONGEST:
        raise refused(f"{shown(value)} is longer than a hundred years", EXAMPLE)
    if length.microseconds:
        raise refused(f"{shown(value)} has a fraction of a second", "whole seconds")
    return length


def to_text(length: timedelta) -> str:
    """The one ISO 8601 spelling that Sexton writes of a length in whole seconds: PT6H, P1DT12H."""
    hours, rest = divmod(length.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    day_part = f"{length.days}D" if length.days else ""
    clock = ((hours, "H"), (minutes, "M"), (seconds, "S"))
    time_part = "".join(f"{count}{unit}" for count, unit in clock if count)
    return f"P{day_part}T{time_part}" if time_part else f"P{day_part or '0D'}"


FixedDuration = Annotated[timedelta, PlainValidator(parse_fixed), PlainSerializer(to_text, return_type=str)]
