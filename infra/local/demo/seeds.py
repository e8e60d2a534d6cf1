"""What the buckets are filled with, and what must become of each object.

The fates are written down here by hand, beside each group; nothing in this module asks Sexton. Of the tables that is
in `records.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from enum import Enum, StrEnum, auto

from sexton.attributes import Attributes, canonical
from sexton.item import ItemId

LOGS, EXPORTS, UPLOADS = "sexton-demo-logs", "sexton-demo-exports", "sexton-demo-uploads"
RECORDS, SCRATCH, INCOMING = "sexton-demo-records", "sexton-demo-scratch", "sexton-demo-incoming"
VERSIONED = (UPLOADS, RECORDS)
SEVERAL_A_KEY = (RECORDS, INCOMING)  # what lies there is told apart by the id of a version or an upload
LONGEST_KEY = 1024  # bytes, S3's limit


class Fate(StrEnum):
    """What must become of an object or a record. The names with a colon are outcomes as the evidence counts them."""

    DELETED = "deleted"
    CHANGED = "skipped:changed"
    ABSENT = "skipped:absent"
    RETAGGED = "skipped:excluded"
    LOCKED = "skipped:locked"
    DEAD = "dead:AccessDenied"
    REFUSED = "dead:http_422"
    PLANNED = "planned"  # a report, or a plan that waits for a person: it stays
    REPORT_ONLY = "report_only"  # of a cohort that is no canary
    YOUNGER = "younger"
    EXCLUDED = "excluded"
    NOT_SELECTED = "not_selected"
    UNREADABLE_DATE = "unreadable_date"
    UNREADABLE = "unreadable"  # a record whose timestamp cannot be read
    CURRENT = "current_version"
    KEPT_LATEST = "kept_latest"
    OUTSIDE = "outside"  # under no policy's prefixes: never even listed
    COMPLETE = "complete"  # an object, where the policy is about uploads: not listed either
    MARKED = "marked"  # a record that bears its policy's mark already
    NOT_DUE = "not_due"  # a record past the cutoff, where a query ends

    @property
    def recorded(self) -> bool:
        """Whether the evidence has an outcome of it. That an item is dead stands in the ledger alone."""
        return self is Fate.DELETED or self.startswith("skipped:")

    @property
    def in_plan(self) -> bool:
        """Whether it is an item of a plan."""
        return self.recorded or self.dead or self is Fate.PLANNED

    @property
    def dead(self) -> bool:
        """Whether it ends in the dead-letter list."""
        return self.startswith("dead:")

    @property
    def listed(self) -> bool:
        """Whether the planner comes to see it."""
        return self not in (Fate.OUTSIDE, Fate.COMPLETE, Fate.NOT_DUE)

    @property
    def stays(self) -> bool:
        """Whether it is there at the end."""
        return self not in (Fate.DELETED, Fate.ABSENT)


class Meddling(StrEnum):
    """What happens to an object or a record after the plan stands and before the worker looks."""

    REWRITE = "rewritten"
    RETOUCH = "the same bytes again"
    REMOVE = "removed by hand"
    SEAL = "sealed"
    RETAG = "tagged"
    HOLD = "put under legal hold"
    COMPLETE = "completed"
    AMEND = "amended in its table"
    DROP = "dropped from its table"


class Kind(Enum):
    """What lies in a bucket or a table."""

    OBJECT = auto()
    MARKER = auto()  # a delete marker
    UPLOAD = auto()  # an incomplete multipart upload
    RECORD = auto()


@dataclass(frozen=True, slots=True)
class Seed:
    """One object, last modified `days` ago. Those of one key are its versions, the oldest first.

    `tags` are as a URL's query has them. `version_id`, of a version or an upload, is known once it was put in. Of a
    record it is the deadline; `record` are its attributes, and `becomes` what they are at the end, if others.
    """

    store: str
    key: str
    days: int
    fate: Fate
    meddling: Meddling | None = None
    kind: Kind = Kind.OBJECT
    tags: str = ""
    version_id: str | None = None
    record: Attributes | None = None
    becomes: Attributes | None = None

    @property
    def body(self) -> bytes:
        """Its bytes: its own key, as often as it is days old; folders' and delete markers are empty."""
        empty = self.kind is Kind.MARKER or self.key.endswith("/")
        return b"" if empty else (self.key + "\n").encode() * self.days

    @property
    def size(self) -> int:
        """Its bytes as a plan counts them: S3 does not tell how large an incomplete upload is."""
        return 0 if self.kind is Kind.UPLOAD else len(self.body)

    @property
    def id(self) -> ItemId:
        """What tells it from everything else in its bucket or table."""
        return self.key, self.version_id

    @property
    def left(self) -> ItemId | None:
        """What of it is there at the end: of a record all attributes; a completed upload became an object."""
        if self.meddling is Meddling.COMPLETE:
            return self.key, None
        left = self.becomes or (self.record if self.fate.stays else None)
        if left is not None:
            return self.key, canonical(left)
        return self.id if self.fate.stays else None


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
    logs = [*_logs(), *MEDDLED, *_odd_logs()]
    return [*logs, *_exports(today), *_uploads(), *_records(), *_deleted_records(), *_scratch(), *_incoming()]


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
    gone, kept, young, current = Fate.DELETED, Fate.KEPT_LATEST, Fate.YOUNGER, Fate.CURRENT
    for number in range(30):
        replaced_long_ago = {400: gone, 300: gone, 200: kept, 150: kept, 20: current}
        yield from _history(f"records/contracts/{number:02}.json", replaced_long_ago)
        replaced_lately = {500: young, 80: young, 70: kept, 60: kept, 1: current}
        yield from _history(f"records/drafts/{number:02}.json", replaced_lately)
        yield from _history(f"records/letters/{number:02}.json", {600: current})
    disputed = {400: Fate.LOCKED, 300: gone, 200: kept, 150: kept, 20: current}
    yield from _history("records/contracts/disputed.json", disputed)


def _deleted_records() -> Iterator[Seed]:
    """Of the same policy: delete markers go once nothing lies behind them, ninety days after they were placed."""
    gone, kept, current = Fate.DELETED, Fate.KEPT_LATEST, Fate.CURRENT
    for number in range(5):
        hides_two = {500: gone, 400: gone, 300: kept, 200: kept, 100: current}
        yield from _history(f"records/deleted/{number:02}.json", hides_two, markers=[100])
        yield from _history(f"records/restored/{number:02}.json", {500: kept, 450: gone, 300: current}, markers=[450])
        yield from _history(f"records/purged/{number:02}.json", {120: gone}, markers=[120])
        yield from _history(f"records/purged-lately/{number:02}.json", {60: Fate.YOUNGER}, markers=[60])


def _history(key: str, fates: Mapping[int, Fate], markers: Collection[int] = ()) -> Iterator[Seed]:
    """The versions of a key by the days since they were written; those of `markers` are delete markers."""
    for days, fate in fates.items():
        meddling = Meddling.HOLD if fate is Fate.LOCKED else None
        yield Seed(RECORDS, key, days, fate, meddling, Kind.MARKER if days in markers else Kind.OBJECT)


def _scratch() -> Iterator[Seed]:
    """The policy scratch-tags: two weeks, what is tagged class=scratch and not keep=yes; team-a is its canary."""
    scratch = "class=scratch"
    yield from _tagged("shared/team-a/{:02}.bin", 40, range(15, 200), Fate.DELETED, f"{scratch}&team=a")
    yield from _tagged("shared/team-b/{:02}.bin", 20, range(15, 200), Fate.REPORT_ONLY, f"{scratch}&keep=no")
    yield from _tagged("shared/recent/{:02}.bin", 20, range(1, 13), Fate.YOUNGER, scratch)
    yield from _tagged("shared/models/{:02}.bin", 10, range(15, 200), Fate.NOT_SELECTED, "class=model")
    yield from _tagged("shared/untagged/{:02}.bin", 10, range(15, 200), Fate.NOT_SELECTED, "")
    yield from _tagged("shared/team-a/kept-{:02}.bin", 10, range(15, 200), Fate.EXCLUDED, f"{scratch}&keep=yes")
    yield Seed(SCRATCH, "shared/team-a/wanted-after-all.bin", 30, Fate.RETAGGED, Meddling.RETAG, tags=scratch)


def _incoming() -> Iterator[Seed]:
    """The policy incoming-abort: uploads that were begun a week ago; complete objects are none of its business."""
    yield from _begun("incoming/{:02}.mov", 20, range(8, 90), Fate.DELETED)
    yield from _begun("incoming/{:02}.mov", 6, range(1, 7), Fate.YOUNGER)  # the same keys, begun anew
    yield from _begun("outgoing/{:02}.mov", 3, range(30, 60), Fate.OUTSIDE)
    yield from _many("incoming/complete/{:02}.mov", 5, range(30, 60), Fate.COMPLETE, INCOMING)
    yield Seed(INCOMING, "incoming/slow.mov", 20, Fate.ABSENT, Meddling.COMPLETE, Kind.UPLOAD)


def _tagged(pattern: str, count: int, days: range, fate: Fate, tags: str) -> Iterator[Seed]:
    return (replace(seed, tags=tags) for seed in _many(pattern, count, days, fate, SCRATCH))


def _begun(pattern: str, count: int, days: range, fate: Fate) -> Iterator[Seed]:
    return (replace(seed, kind=Kind.UPLOAD) for seed in _many(pattern, count, days, fate, INCOMING))


def _many(pattern: str, count: int, days: range, fate: Fate, store: str = LOGS) -> Iterator[Seed]:
    """Numbered objects, their ages spread over `days`."""
    for number in range(count):
        yield Seed(store, pattern.format(number), days[number * len(days) // count], fate)
