"""A record's own timestamp: which attribute holds its deadline, and in what form.

What cannot be read under the declared form is never a deadline: text where a number is declared, seconds taken for
milliseconds, a time without its zone, a year that no deadline has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sexton.attributes import Attribute, number

Name = Annotated[str, Field(min_length=1, max_length=255)]

# Seconds since 1970 that are read as milliseconds fall into the first weeks of 1970, milliseconds read as seconds
# far past any calendar: between these two lies every deadline that is meant.
FIRST, LAST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
A_DAY = timedelta(days=1)  # more than any zone is from UTC

_IN_SECOND: Mapping[str, int] = {"epoch_s": 1, "epoch_ms": 1000}
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)


class Timestamp(BaseModel):
    """`attribute` holds the deadline: a number of seconds or milliseconds since 1970, or text with its zone."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    attribute: Name
    format: Literal["epoch_s", "epoch_ms", "iso8601"]

    @property
    def kind(self) -> str:
        """DynamoDB's type of it: `N` or `S`."""
        return "S" if self.format == "iso8601" else "N"

    def read(self, value: Attribute | None) -> datetime | None:
        """The deadline, aware; None where it cannot be read, or no deadline can be meant."""
        at = self._text(value) if self.format == "iso8601" else self._number(value)
        return at if at is not None and FIRST <= at < LAST else None

    def _number(self, value: Attribute | None) -> datetime | None:
        found = number(value)
        if found is None:
            return None
        seconds = found / _IN_SECOND[self.format]
        return EPOCH + timedelta(microseconds=int(seconds * 1_000_000)) if abs(seconds) < Decimal(10**10) else None

    @staticmethod
    def _text(value: Attribute | None) -> datetime | None:
        text = (value or {}).get("S")
        if not isinstance(text, str) or not _ISO.fullmatch(text):
            return None
        try:
            return datetime.fromisoformat(text).astimezone(UTC)
        except (ValueError, OverflowError):
            return None

    def bound(self, cutoff: datetime) -> dict[str, Any]:
        """What every deadline before the cutoff sorts before, in DynamoDB's order; others may as well.

        Texts of other zones do not sort by time: each is less than a day from UTC's, so the bound is a day later.
        """
        if self.format == "iso8601":
            return {"S": (cutoff + A_DAY).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")}
        passed = (cutoff - EPOCH) / timedelta(microseconds=1) * _IN_SECOND[self.format] / 1_000_000
        return {"N": str(-int(-passed // 1))}
