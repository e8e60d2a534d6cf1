"""What a call did to a service, as those see it who look at the service itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from sexton.table import Change, Check, Key, Row, Write

from tests.fakes.bucket import FakeBucket, Version
from tests.fakes.recorder import Call
from tests.fakes.records import FakeRecords
from tests.fakes.table import FakeTable
from tests.simulation.reminders import Record
from tests.simulation.scheduling import Task

FROM_BUCKETS = frozenset({"bucket.remove", "bucket.remove_versions", "bucket.abort_upload"})
BY_CALL = "endpoints.call"
FROM_TABLES = "records.change"  # of a table that lies elsewhere; others lose records in transactions of the ledger
TABLE_WRITES = frozenset({"table.write", "table.transact"})


@dataclass(slots=True)
class Changed:
    """A row before and after a write that took place."""

    key: Key
    old: Row | None
    new: Row


@dataclass(slots=True)
class Gone:
    """What a removal did to one key: `lost` is a version or upload that is no more, `marker` a marker it placed.

    `before` are the versions of the key before it, oldest first.
    """

    key: str
    lost: Version | None
    marker: Version | None
    before: tuple[Version, ...]


@dataclass(slots=True)
class Touched:
    """A record before and after a call that changed it; `after` is None where it is no more."""

    table: str
    key: str
    before: Record | None
    after: Record | None


@dataclass(slots=True)
class Effect:
    """A call that has just acted on a service, seen from the service."""

    at: datetime
    task: Task
    call: Call
    name: str
    result: object
    service: object
    changed: Sequence[Changed] = ()
    gone: Sequence[Gone] = ()
    touched: Sequence[Touched] = ()


def record_changes(call: Call) -> Sequence[Change]:
    """What a call is to change of records."""
    if call.method == "transact":
        return [each for each in cast("Sequence[object]", call.args[0]) if isinstance(each, Change)]
    return cast("Sequence[Change]", call.args[0]) if call.method == "change" else ()


Rows = Mapping[Key, Row | None]


def rows_before(call: Call, table: FakeTable) -> Rows:
    """The rows that a write may change, as they are. Rows are replaced, never changed in place."""
    writes = call.args[0] if call.method == "transact" else call.args
    keys = [write.key for write in cast("Sequence[object]", writes) if isinstance(write, Write | Check)]
    return {key: table.rows.get(key) for key in keys}


def changed(before: Rows, table: FakeTable) -> Iterator[Changed]:
    """Which of these rows are others now."""
    for key, old in before.items():
        new = table.rows.get(key)
        if new is not old and new is not None:
            yield Changed(key, old, new)


Records = Mapping[str, Mapping[str, Record]]


def records_before(tables: Mapping[str, FakeRecords]) -> Records:
    """All records, by table. Records are replaced, never changed in place."""
    return {name: dict(table.records) for name, table in tables.items()}


def touched(before: Records, tables: Mapping[str, FakeRecords]) -> Iterator[Touched]:
    """Which of all records are others now, or are gone."""
    for name, records in before.items():
        now = tables[name].records
        for key in sorted(records.keys() | now.keys()):
            if records.get(key) is not now.get(key):
                yield Touched(name, key, records.get(key), now.get(key))


Standing = Mapping[object, tuple[Version, ...]]


def standing(bucket: FakeBucket) -> Standing:
    """All versions and uploads of a bucket."""
    return {key: tuple(versions) for key, versions in bucket.versions.items()} | {
        upload: (Version(upload[1] or "", item, item.last_modified or bucket.clock(), 0),)
        for upload, item in bucket.uploads.items()
    }


def gone(before: Standing, bucket: FakeBucket) -> Iterator[Gone]:
    """What is no more, and which markers are new."""
    after = standing(bucket)
    for key, versions in before.items():
        now = after.get(key, ())
        if now is versions or now == versions:
            continue
        name = key if isinstance(key, str) else cast("tuple[str, str]", key)[0]
        left = {version.number for version in now}
        yield from (Gone(name, version, None, versions) for version in versions if version.number not in left)
        had = {version.number for version in versions}
        yield from (Gone(name, None, version, versions) for version in now if version.number not in had)
