"""Tables with records: which of them a policy means, in the oracles' words, and what tables hold to begin with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Literal

from tests.fakes.records import FakeRecords
from tests.fakes.time import START

Record = Mapping[str, Any]  # typed attributes, by name

STATUSES = "open", "sent", "kept"
CARRIERS = "dhl", "ups"
HOST = "reminders.example.com"
SWEPT = {"BOOL": True}
Does = Literal["delete", "mark", "archive", "call", "call once"]
DOES: tuple[Does, ...] = ("delete", "delete", "mark", "archive", "archive", "call", "call once")
IDS = 14  # so many records a table may have
PLAUSIBLE = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records are meant, beside their age.

    `statuses`: the partitions that are queried, none where the table is scanned. `carrier`: what the filter wants.
    `counted`: every rewriting counts up the attribute `changes`. `in_second`: how a deadline is written.
    `elsewhere`: the table lies in another region, where no transaction takes it in together with the ledger.
    `does`: what becomes of a record; `call` and `call once` leave it to its application, which removes it.
    """

    statuses: tuple[str, ...]
    segments: int
    carrier: str | None
    counted: bool
    in_second: int
    elsewhere: bool
    does: Does

    @staticmethod
    def drawn(random: Random) -> Wanted:
        statuses = random.choice(((), ("open",), ("open", "sent")))
        carrier = random.choice((None, None, "dhl"))
        elsewhere, in_second = random.random() < 0.25, random.choice((1, 1, 1000))
        does = random.choice(("delete", "call", "call once") if elsewhere else DOES)
        counted = does == "archive" or random.random() < 0.4
        return Wanted(statuses, random.randint(1, 3), carrier, counted, in_second, elsewhere, does)

    def source(self, table: str) -> dict[str, object]:
        """The same as a policy says it."""
        stamp = {"attribute": "deadline", "format": "epoch_s" if self.in_second == 1 else "epoch_ms"}
        found = {"index": "by-status", "partitions": [*self.statuses]} if self.statuses else self._scan()
        more = {"filter": {"carrier": self.carrier}} if self.carrier else {}
        counted = {"version_attribute": "changes"} if self.counted else {}
        place = {"region": "eu-west-1"} if self.elsewhere else {}
        return {"kind": "dynamodb", "table": table, "timestamp": stamp, **place, **found, **more, **counted}

    @property
    def calls(self) -> bool:
        """Whether the application does it."""
        return self.does in ("call", "call once")

    def action(self) -> object:
        """What a policy says of it."""
        if self.does == "mark":
            return {"kind": "mark", "attribute": "swept", "value": True}
        if not self.calls:
            return self.does
        call = {"kind": "http", "method": "POST", "hosts": [HOST], "url": f"https://{HOST}/{{id}}", "rate": 100}
        return {**call, "success": [204], "idempotent": self.does == "call"}

    def _scan(self) -> dict[str, object]:
        return {"scan": {"segments": self.segments}}

    def deadline(self, record: Record) -> datetime | None:
        """None where it is missing, or is none that anybody means."""
        value = (record.get("deadline") or {}).get("N")
        if not isinstance(value, str) or not value.isdecimal():
            return None
        at = int(value) / self.in_second
        return datetime.fromtimestamp(at, UTC) if PLAUSIBLE[0].timestamp() <= at < PLAUSIBLE[1].timestamp() else None

    def means(self, record: Record, cutoff: datetime) -> bool:
        """Whether a record has had its time, and is one that the policy is about."""
        due = self.deadline(record)
        queried = not self.statuses or record.get("status", {}).get("S") in self.statuses
        filtered = self.carrier is None or record.get("carrier") == {"S": self.carrier}
        marked = self.does == "mark" and record.get("swept") == SWEPT
        return due is not None and due < cutoff and queried and filtered and not marked

    def after(self, record: Record) -> Record | None:
        """What a record is once it was dealt with; None where it is no more."""
        return {**record, "swept": SWEPT} if self.does == "mark" else None

    def rests_on(self, record: Record) -> dict[str, Any]:
        """What a removal is judged by: it must be as it was seen."""
        more = {"status": self.statuses, "carrier": self.carrier, "changes": self.counted, "swept": self.does == "mark"}
        return {name: record.get(name) for name in ("deadline", *(name for name, asked in more.items() if asked))}


def fill(table: FakeRecords, wanted: Wanted, retain: timedelta, random: Random) -> None:
    """Records of any age, some of which nobody can read."""
    for number in range(random.randint(3, IDS // 2) if wanted.calls else random.randint(4, IDS)):
        table.put(**new(f"{number:02d}", wanted, retain, random))


def new(name: str, wanted: Wanted, retain: timedelta, random: Random) -> dict[str, Any]:
    """A record as the application writes it: old, young, on either side of a cutoff, or with an odd deadline."""
    near = timedelta(seconds=random.choice((-600, -60, -1, 0, 1, 60)))
    age = random.choice((*[retain * 2] * 4, retain / 2, retain + near))
    status = random.choice((*(wanted.statuses * 6), *STATUSES))
    carrier = random.choice((*([wanted.carrier] * 6 if wanted.carrier else ()), *CARRIERS))
    deadline = written(START - age, wanted) if random.random() < 0.9 else odd(START - age, wanted, random)
    return {"id": name, "status": status, "carrier": carrier, "changes": 1, **deadline}


def written(at: datetime, wanted: Wanted) -> dict[str, Any]:
    """A deadline as the policy expects it."""
    return {"deadline": int(at.timestamp()) * wanted.in_second}


def odd(at: datetime, wanted: Wanted, random: Random) -> dict[str, Any]:
    """A deadline that nobody can read: of the other unit, a text, none at all."""
    other = int(at.timestamp()) * (1000 if wanted.in_second == 1 else 1)
    return random.choice(({"deadline": other}, {"deadline": "soon"}, {"deadline": 0}, {}))
