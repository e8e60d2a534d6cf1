"""Instants: aware datetimes inside, epoch milliseconds in the ledger, compact stamps in ids."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import AwareDatetime, BeforeValidator

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STAMP = "%Y%m%dT%H%M%SZ"


def ms(at: datetime) -> int:
    """Epoch milliseconds, cut (not rounded)."""
    return (at - EPOCH) // timedelta(milliseconds=1)


def from_ms(value: int) -> datetime:
    """The instant of epoch milliseconds."""
    return EPOCH + timedelta(milliseconds=value)


def stamp(at: datetime) -> str:
    """`20261130T020000Z`: how a scheduled time stands in ids."""
    return at.astimezone(UTC).strftime(STAMP)


def from_stamp(text: str) -> datetime:
    """The instant of a stamp. Raises ValueError."""
    return datetime.strptime(text, STAMP).replace(tzinfo=UTC)


def latest(*times: datetime | None) -> datetime | None:
    """The latest of those that are known."""
    return max((at for at in times if at is not None), default=None)


def _read(value: object) -> object:
    try:
        return from_ms(value) if isinstance(value, int) else value
    except OverflowError as error:
        raise ValueError("no such time") from error


Instant = Annotated[AwareDatetime, BeforeValidator(_read)]
"""An aware datetime, which a row holds as epoch milliseconds."""
