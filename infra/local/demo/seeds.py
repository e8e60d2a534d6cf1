"""What the buckets are filled with, and what must become of each object.

The fates are written down here by hand, beside each group; nothing in this module asks Sexton.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum

LOGS, EXPORTS, UPLOADS = "sexton-demo-logs", "sexton-demo-exports", "sexton-demo-uploads"
RECORDS = "sexton-demo-records"
VERSIONED = (UPLOADS, RECORDS)
LONGEST_KEY = 1024  # bytes, S3's limit


class Fate(StrEnum):
    """What must become of an object. The names with a colon are outcomes as the evidence counts them."""

    DELETED = "deleted"
    CHANGED = "skipped:changed"
    ABSENT = "skipped:absent"
    DEAD = "dead:AccessDenied"
    PLANNED = "planned"  # a report, or a plan that waits for a person: it stays
    YOUNGER = "younger"
    EXCLUDED = "excluded"
    NOT_SELECTED = "not_selected"
    UNREADABLE_DATE = "unreadable_date"
    CURRENT = "current_version"
    KEPT_LATEST = "kept_latest"
    OUTSIDE = "outside"  # under no policy's prefixes: never even listed

    @property
    def in_plan(self) -> bool:
        """Whether the object is an item of a plan."""
        return self in (Fate.DELETED, Fate.CHANGED, Fate.ABSENT, Fate.DEAD, Fate.PLANNED)

    @property
    def stays(self) -> bool:
        """Whether the object is there at the end."""
        return self not in (Fate.DELETED, Fate.ABSENT)


class Meddling(StrEnum):
    """What happens to an object after the plan stands and before the worker looks."""

    REWRITE = "rewritten"
    RETOUCH = "the same bytes again"
    REMOVE = "removed by hand"
    SEAL = "sealed"


@dataclass(frozen=True, slots=True)
class Seed:
    """One object: last modified `days` ago. Those of one key are its versions, the oldest first."""

    bucket: str
    key: str
    days: int
    fate: Fate
    meddling: Meddling | None = None

    @property
    def body(self) -> bytes:
        """Its bytes: its own key, as often as it is days old; a folder's marker is empty."""
        return b"" if self.key.endswith("/") else (self.key + "\n").encode() * self.days


# Each is one that some deletion script has stumbled over.
ODD = (
    "a b.log",
    "a%2Fb.log",
    "100%.log",
    "//double.log",
    "up/../again.log",
    "./here.log",
    "folder/",
    "bell\x07.log",
    "Grüße-日本-🙂.log",
    "<b>&amp;'\".log",
    "new\nline.log",
)
SEALED = Seed(LOGS, "app/worker/sealed.log", 50, Fate.DEAD, Meddling.SEAL)
MEDDLED = (
    Seed(LOGS, "app/web/rewritten.log", 90, Fate.CHANGED, Meddling.REWRITE),
    Seed(LOGS, "app/web/uploaded-again.log", 90, Fate.CHANGED, Meddling.RETOUCH),
    Seed(LOGS, "app/web/removed-by-hand.log", 90, Fate.ABSENT, Meddling.REMOVE),
    SEALED,
)


def seeds(today: date) -> list[Seed]:
    """Every object of the demo."""
    return [*_logs(), *MEDDLED, *_odd_logs(), *_exports(today), *_uploads(), *_records()]


def _logs() -> Iterator[Seed]:
    """The policy logs-expire: under app/, past thirty days, but not app/audit/."""
    yield from _many("app/web/{:04}.log", 900, range(31, 400), Fate.DELETED)
    yield from _many("app/worker/{:04}.log", 500, range(32, 60), Fate.DELETED)
    yield from _many("app/web/recent/{:04}.log", 200, range(1, 29), Fate.YOUNGER)
    yield from _many("app/audit/{:04}.log", 100, range(100, 300), Fate.EXCLUDED)
    yield from _many("application/{:04}.log", 50, range(100, 300), Fate.OUTSIDE)


def _odd_logs() -> Iterator[Seed]:
    stem = "app/odd/long/"
    yield Seed(LOGS, stem + "é" * ((LONGEST_KEY - len(stem)) // 2) + "x", 45, Fate.DELETED)
    for name in ODD:
        yield Seed(LOGS, f"app/odd/{name}", 45, Fate.DELETED)
    yield Seed(LOGS, "app/odd/a+b.log", 5, Fate.YOUNGER)  # becomes "a b" when it is decoded once too often
    yield Seed(LOGS, "app/odd/a/b.log", 5, Fate.YOUNGER)  # what "a%2Fb" becomes


def _exports(today: date) -> Iterator[Seed]:
    """The policy exports-report: the date in the key, three months, only *.parquet. Every upload is a day old.

    The days around the cutoff are left out: what three calendar months are is not worked out here again.
    """
    for days in range(240):
        folder = f"exports/dt={today - timedelta(days=days)}"
        if days < 80 or days > 100:
            yield Seed(EXPORTS, f"{folder}/part-0.parquet", 1, Fate.YOUNGER if days < 80 else Fate.PLANNED)
        if days % 10 == 0:
            yield Seed(EXPORTS, f"{folder}/manifest.json", 1, Fate.NOT_SELECTED)
    yield Seed(EXPORTS, "exports/dt=2026-02-30/part-0.parquet", 1, Fate.UNREADABLE_DATE)
    yield Seed(EXPORTS, "exports/latest/part-0.parquet", 1, Fate.UNREADABLE_DATE)


def _uploads() -> Iterator[Seed]:
    """The policy uploads-approval: a year, but nothing in a folder named keep."""
    yield from _many("uploads/customer/{:03}.jpg", 60, range(367, 700), Fate.PLANNED, UPLOADS)
    yield from _many("uploads/customer/recent/{:03}.jpg", 60, range(1, 360), Fate.YOUNGER, UPLOADS)
    yield from _many("uploads/customer/keep/{:03}.pdf", 10, range(400, 700), Fate.EXCLUDED, UPLOADS)


def _records() -> Iterator[Seed]:
    """The policy versions-purge: ninety days after they were replaced, but the two newest noncurrent ones stay."""
    gone, kept, young, current = Fate.PLANNED, Fate.KEPT_LATEST, Fate.YOUNGER, Fate.CURRENT
    for number in range(30):
        replaced_long_ago = {400: gone, 300: gone, 200: kept, 150: kept, 20: current}
        yield from _history(f"records/contracts/{number:02}.json", replaced_long_ago)
        replaced_lately = {500: young, 80: young, 70: kept, 60: kept, 1: current}
        yield from _history(f"records/drafts/{number:02}.json", replaced_lately)
        yield from _history(f"records/letters/{number:02}.json", {600: current})


def _history(key: str, fates: Mapping[int, Fate]) -> Iterator[Seed]:
    """The versions of a key by the days since they were written."""
    return (Seed(RECORDS, key, days, fate) for days, fate in fates.items())


def _many(pattern: str, count: int, days: range, fate: Fate, bucket: str = LOGS) -> Iterator[Seed]:
    """Numbered objects, their ages spread over `days`."""
    for number in range(count):
        yield Seed(bucket, pattern.format(number), days[number * len(days) // count], fate)
