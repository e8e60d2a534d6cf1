"""What the tables are filled with, and what must become of each record: carriers' reminders, quotes,
contracts and bookings.

The fates are written down here by hand, beside each group; nothing in this module asks Sexton.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sexton.attributes import Attributes, canonical
from sexton.item import rfc3339

from infra.local.demo.application import Mood
from infra.local.demo.seeds import Fate, Kind, Meddling, Seed

REMINDERS, QUOTES = "sexton-demo-reminders", "sexton-demo-quotes"
CONTRACTS, BOOKINGS = "sexton-demo-contracts", "sexton-demo-bookings"
TABLES = (REMINDERS, QUOTES, CONTRACTS, BOOKINGS)
LAPSED = {"lapsed": {"BOOL": True}}  # the mark
CANCELLED = {"cancelled": {"BOOL": True}}  # what the application makes of a booking
NOTHING: Attributes = {}
# How the application takes the calls for each booking.
MOODS = {
    **{f"booking-{number:04}": Mood.WELL for number in range(9)},
    "booking-reply-lost": Mood.LOSES_REPLY,
    "booking-at-noon": Mood.BUSY,
    "booking-shipped": Mood.REFUSES,
}


def records(now: datetime) -> list[Seed]:
    """Every record of the demo."""
    return [*_reminders(now), *_meddled(now), *_quotes(now), *_contracts(now), *_bookings(now)]


def _reminders(now: datetime) -> Iterator[Seed]:
    """The policy reminders-delete: a month after the deadline, by months, but not what is disputed.

    The days around the cutoff are left out: what a calendar month is is not worked out here again.
    """
    for number in range(150):
        yield _reminder(now, f"renew-{number:04}", 33 + number, Fate.DELETED)
    for number in range(40):
        yield _reminder(now, f"renew-soon-{number:04}", 25 - 2 * number, Fate.NOT_DUE)
    for number in range(10):
        yield _reminder(now, f"renew-disputed-{number:04}", 40 + number, Fate.NOT_SELECTED, state="disputed")
    for number in range(6):  # as if they were due in January 1970
        yield _reminder(now, f"renew-in-seconds-{number:04}", 40 + number, Fate.UNREADABLE, in_second=1)


def _meddled(now: datetime) -> Iterator[Seed]:
    """And what changes between plan and removal: a deadline put off, a reminder sent, one that is gone."""
    put_off = _reminder(now, "renew-put-off", 60, Fate.CHANGED)
    later = {"deadline": {"N": _epoch(now + timedelta(days=60), 1000)}, "version": {"N": "2"}}
    yield _amended(put_off, later)
    yield _amended(_reminder(now, "renew-counted-up", 61, Fate.CHANGED), {"version": {"N": "2"}})
    yield replace(_reminder(now, "renew-dropped", 62, Fate.ABSENT), meddling=Meddling.DROP)


def _quotes(now: datetime) -> Iterator[Seed]:
    """The policy quotes-archive: ninety days after the last day on which they could be accepted."""
    for number in range(120):
        yield _quote(f"quote-{number:04}", 91 + number, Fate.DELETED, now - timedelta(days=91 + number))
    for number in range(30):
        yield _quote(f"quote-open-{number:04}", number, Fate.YOUNGER, now - timedelta(days=number))
    unreadable = {
        "by-hand": {"S": "30.06.2025"},
        "no-zone": {"S": "2025-06-30T18:00:00"},
        "a-number": {"N": "1751306400000"},
        "no-such-day": {"S": "2025-06-31T18:00:00Z"},
    }
    for name, value in unreadable.items():
        record = {"id": {"S": f"quote-{name}"}, "valid_until": value}
        yield _seed(QUOTES, record, 90, Fate.UNREADABLE, None)
    yield _seed(QUOTES, {"id": {"S": "quote-without-an-end"}}, 90, Fate.UNREADABLE, None)


def _contracts(now: datetime) -> Iterator[Seed]:
    """The policy contracts-mark: two weeks after they ran out."""
    for number in range(30):
        kind = ("freight", "storage")[number % 2]
        yield _becoming(_contract(now, f"contract-{kind}-{number:04}", 15 + number, kind, Fate.DELETED), LAPSED)
    for number in range(4):
        yield _contract(now, f"contract-lapsed-{number:04}", 60 + number, "freight", Fate.MARKED, LAPSED)
    for number in range(10):
        yield _contract(now, f"contract-running-{number:04}", 12 - 9 * number, "storage", Fate.NOT_DUE)
    yield _amended(
        _contract(now, "contract-prolonged", 40, "freight", Fate.CHANGED),
        {"ends": {"S": rfc3339(now + timedelta(days=365))}},
    )


def _contract(now: datetime, name: str, days: int, kind: str, fate: Fate, more: Attributes = NOTHING) -> Seed:
    ends = now - timedelta(days=days)
    record = {"id": {"S": name}, "kind": {"S": kind}, "ends": {"S": rfc3339(ends)}, **more}
    return _seed(CONTRACTS, record, days, fate, ends)


def _bookings(now: datetime) -> Iterator[Seed]:
    """The policy bookings-cancel: the application is called for each; a record that it has cancelled says so."""
    for number, (name, mood) in enumerate(MOODS.items()):
        fate, changed = (Fate.REFUSED, NOTHING) if mood is Mood.REFUSES else (Fate.DELETED, CANCELLED)
        yield _booking(now, name, 31 + number, fate, changed)
    for number in range(5):
        yield _booking(now, f"booking-soon-{number:04}", 29 - number, Fate.NOT_DUE, NOTHING)


def _booking(now: datetime, name: str, days: int, fate: Fate, changed: Attributes) -> Seed:
    deadline = now - timedelta(days=days)
    record = {
        "id": {"S": name},
        "carrier": {"S": f"carrier-{days % 3}"},
        "state": {"S": "open"},
        "deadline": {"N": _epoch(deadline, 1)},
    }
    return _becoming(_seed(BOOKINGS, record, days, fate, deadline), changed)


def _reminder(now: datetime, name: str, days: int, fate: Fate, state: str = "sent", in_second: int = 1000) -> Seed:
    """A reminder whose deadline was so many days ago, in units of which there are so many in a second."""
    deadline = now - timedelta(days=days)
    record = {
        "id": {"S": name},
        "month": {"S": f"{deadline:%Y-%m}"},
        "deadline": {"N": _epoch(deadline, in_second)},
        "state": {"S": state},
        "version": {"N": "1"},
    }
    return _seed(REMINDERS, record, days, fate, None if fate is Fate.UNREADABLE else deadline)


def _quote(name: str, days: int, fate: Fate, valid_until: datetime) -> Seed:
    stops: dict[str, Any] = {"L": [{"S": "Hamburg"}, {"M": {"until": {"N": str(days)}}}]}
    record = {"id": {"S": name}, "valid_until": {"S": rfc3339(valid_until)}, "version": {"N": "1"}, "stops": stops}
    return _seed(QUOTES, record, days, fate, valid_until)


def _seed(table: str, record: Attributes, days: int, fate: Fate, deadline: datetime | None) -> Seed:
    key = canonical({"id": record["id"]})
    version_id = rfc3339(deadline) if deadline else None
    return Seed(table, key, days, fate, kind=Kind.RECORD, version_id=version_id, record=record)


def _amended(seed: Seed, attributes: Attributes) -> Seed:
    return replace(_becoming(seed, attributes), meddling=Meddling.AMEND)


def _becoming(seed: Seed, attributes: Attributes) -> Seed:
    """With these attributes at the end, if there are any."""
    return replace(seed, becomes={**(seed.record or {}), **attributes}) if attributes else seed


def _epoch(at: datetime, in_second: int) -> str:
    return str(round(at.timestamp() * in_second))
