"""The date that a key carries in its name, such as `dt=2026-01-31`.

A date in a key names a whole period: a day for `%d`, an hour for `%H`, and so on, in UTC. Age counts from the
period's end, since something in it can be as young as that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from sexton.problem import refused
from sexton.selection import check_key_text

EXAMPLE = "a pattern such as 'dt=%Y-%m-%d', 'year=%Y/month=%m/day=%d' or '*-%Y%m%d.csv'"

# The directives from the longest period down, with their digits. A pattern has the first few of them.
_DIGITS = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2}
_UNITS = "".join(_DIGITS)
_LENGTHS = {
    3: timedelta(days=1),
    4: timedelta(hours=1),
    5: timedelta(minutes=1),
    6: timedelta(seconds=1),
}

ReadDate = Callable[[str], datetime | None]


def key_date_regex(pattern: str) -> str:
    """The pattern as a regular expression for `search`.

    It must fill whole path segments; a `*` at its start or end lets other text stand there in the segment, but
    no digit right beside a number of the date.
    """
    tokens = _tokens(_core(pattern))
    body = "".join(_token_regex(token) for token in tokens)
    before = after = ""
    if not pattern.startswith("*"):
        before = r"(?<![^/])"
    elif _is_number(tokens[0]):
        before = r"(?<![0-9])"
    if not pattern.endswith("*"):
        after = r"(?![^/])"
    elif _is_number(tokens[-1]):
        after = r"(?![0-9])"
    return f"{before}{body}{after}"


def _core(pattern: str) -> str:
    return pattern.removeprefix("*").removesuffix("*")


def _tokens(core: str) -> list[str]:
    return re.findall(r"%.|.", core, flags=re.DOTALL)


def _is_number(token: str) -> bool:
    return len(token) == 2 and token != "%%"


def _token_regex(token: str) -> str:
    if _is_number(token):
        return f"([0-9]{{{_DIGITS[token[1]]}}})"
    return re.escape(token[-1])


def _letters(pattern: str) -> str:
    """The directives of a pattern in the order they stand in it."""
    return "".join(token[1] for token in _tokens(_core(pattern)) if _is_number(token))


def check_key_date(pattern: str) -> str:
    """Give the pattern back, or raise PydanticCustomError saying what to write instead."""
    check_key_text(pattern)
    tokens, letters = _tokens(_core(pattern)), _letters(pattern)
    unknown = [letter for letter in letters if letter not in _DIGITS] or ["" for token in tokens if token == "%"]
    if unknown:
        raise refused(f"key date {pattern!r} has %{unknown[0]}, and only %Y %m %d %H %M %S are known", EXAMPLE)
    if pattern.startswith("/") or pattern.endswith("/"):
        raise refused(f"key date {pattern!r} has a / at its edge, where it always stands at one", EXAMPLE)
    if "*" in _core(pattern):
        raise refused(f"key date {pattern!r} has * elsewhere than at its start and end", EXAMPLE)
    if not letters or sorted(letters) != sorted(_UNITS[: len(letters)]):
        raise refused(f"key date {pattern!r} names no period (from %Y down, each unit exactly once)", EXAMPLE)
    return pattern


class KeyDate(BaseModel):
    """Age from a date in the key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key_date: Annotated[str, AfterValidator(check_key_date)]

    def reader(self) -> ReadDate:
        """The function that gives the end of the period a key names, or None.

        None where the key has no such date, an impossible one (2026-02-30), or two that disagree.
        """
        return date_reader(self.key_date)


class TagDate(BaseModel):
    """Age from a date in the value of a tag, such as `created` = `2026-01-31`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tag_date: Annotated[str, AfterValidator(check_key_date)] = "%Y-%m-%d"
    tag: Annotated[str, Field(min_length=1, max_length=128)]

    def reader(self) -> ReadDate:
        """The function that gives the end of the period a tag's value names, or None where it names none."""
        return date_reader(self.tag_date)


def date_reader(pattern: str) -> ReadDate:
    """The function that gives the end of the period that a text names once, or None."""
    search = re.compile(key_date_regex(pattern)).search
    units = _letters(pattern)

    def read(text: str) -> datetime | None:
        match = search(text)
        if match is None:
            return None
        numbers = match.groups()
        while match := search(text, match.start() + 1):
            if match.groups() != numbers:
                return None
        return _period_end(units, numbers)

    return read


@lru_cache(maxsize=4096)  # neighbouring keys mostly share their date
def _period_end(units: str, numbers: tuple[str, ...]) -> datetime | None:
    """The first instant after the period, or None for a date that no calendar has."""
    values = {unit: int(number) for unit, number in zip(units, numbers, strict=True)}
    year, month, day, hour, minute, second = (values.get(unit, int(unit in "md")) for unit in _UNITS)
    try:
        if len(values) == 1:
            return datetime(year + 1, 1, 1, tzinfo=UTC)
        if len(values) == 2:
            return (datetime(year, month, 1, tzinfo=UTC) + timedelta(days=31)).replace(day=1)
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC) + _LENGTHS[len(values)]
    except (ValueError, OverflowError):
        return None
