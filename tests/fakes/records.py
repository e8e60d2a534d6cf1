"""Tables with records in memory, with DynamoDB's order, pages and conditions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from zlib import crc32

from sexton.attributes import Attributes, canonical, number
from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.ports import KeyShape, Record, RecordPage, Removed, TableShape
from sexton.record_source import RecordSource
from sexton.table import Change, Delete, Put, Update

# The running example: reminders by id, and by the day on which they are due.
REMINDERS = TableShape(
    KeyShape("id"),
    {"by-status": KeyShape("status", "deadline"), "by-day": KeyShape("day", "deadline")},
    {"id": "S", "status": "S", "day": "S", "deadline": "N"},
)

GONE = Failure(ReasonClass.GONE, "ConditionalCheckFailedException", "gone")
CHANGED = Failure(ReasonClass.CHANGED, "ConditionalCheckFailedException", "changed")


class FakeRecords:
    """Records by key, in typed form. A page looks at `most` records, whether they are meant or not."""

    def __init__(self, shape: TableShape = REMINDERS, most: int = 1000) -> None:
        self._shape = shape
        self.most = most
        self.records: dict[str, dict[str, Any]] = {}
        self.used_up = 0  # of so many listings to come the read capacity says: later
        self.failure: Failure | None = None  # of a transaction, and then no more
        self.unfit: set[str] = set()  # keys of records that no transaction may change
        self.before_transaction: list[Any] = []  # what happens just before the next ones
        self.refusals: dict[str, list[Failure]] = {}  # of single changes, in order; what may have acted has
        self.before_change: list[Any] = []  # what happens just before the next single ones
        self._shown: dict[str, dict[str, Any]] | None = None  # what listings show instead of what is there

    def put(self, **values: Any) -> str:
        """Place a record; plain text, numbers and truth values get their types. Returns its key."""
        typed = {name: _typed(value) for name, value in values.items()}
        key = canonical({name: typed[name] for name in _names(self._shape.keys)})
        self.records[key] = typed
        return key

    def shape(self) -> TableShape:
        return self._shape

    def query(
        self, source: RecordSource, partition: str, cutoff: datetime, after: Attributes | None = None
    ) -> RecordPage | None:
        if self._waits():
            return None
        keys = self._shape.indexes[source.index] if source.index else self._shape.keys
        assert keys.sort is not None
        bound, kind = source.timestamp.bound(cutoff), self._shape.types[keys.partition]
        within = [
            record
            for record in self.shown.values()
            if record.get(keys.partition) == {kind: partition}
            and keys.sort in record
            and record[keys.sort].keys() == bound.keys()
            and _order(record[keys.sort]) < _order(bound)
        ]
        return self._page(source, keys, within, after)

    def scan(self, source: RecordSource, starts: Mapping[int, Attributes | None]) -> Mapping[int, RecordPage]:
        assert source.scan is not None
        if self._waits():
            return {}
        return {
            segment: self._page(source, self._shape.keys, self._segment(segment, source.scan.segments), after)
            for segment, after in starts.items()
        }

    def _segment(self, segment: int, total: int) -> list[dict[str, Any]]:
        """The same records whatever else comes or goes."""
        return [record for key, record in self.shown.items() if crc32(key.encode()) % total == segment]

    def get(self, source: RecordSource, keys: Sequence[Attributes], more: Collection[str] = ()) -> Sequence[Record]:
        found = (self.records.get(canonical(key)) for key in keys)
        return [self._record(source, self._shape.keys, record, more) for record in found if record is not None]

    def read(self, keys: Sequence[Attributes]) -> Sequence[Record]:
        found = (self.records.get(canonical(key)) for key in keys)
        names = _table(self._shape)
        return [
            Record({name: record[name] for name in names}, dict(record), {name: record[name] for name in names})
            for record in found
            if record is not None
        ]

    def request_timeout(self) -> timedelta:
        return timedelta(seconds=23)

    # For tests only: what the outside world does to the table.

    @property
    def shown(self) -> Mapping[str, dict[str, Any]]:
        """What queries and scans show: they are eventually consistent."""
        return self.records if self._shown is None else self._shown

    def freeze_listings(self) -> None:
        """Let queries and scans stay behind at what they show now. Records are replaced, never changed in place."""
        self._shown = dict(self.records)

    def thaw_listings(self) -> None:
        """Let them catch up."""
        self._shown = None

    def change(self, changes: Sequence[Delete | Update]) -> Sequence[Removed | Failure]:
        """One by one, in order; those of `refusals` fail in their turns."""
        return [self._changed(change) for change in changes]

    def _changed(self, change: Delete | Update) -> Removed | Failure:
        if self.before_change:
            self.before_change.pop(0)()
        if refusals := self.refusals.get(canonical(change.key)):
            failure = refusals.pop(0)
            if failure.unknown_effect and self.permits(change):
                self.carry_out(change)
            return failure
        if canonical(change.key) not in self.records:
            return GONE
        if not self.permits(change):
            return CHANGED
        self.carry_out(change)
        return Removed()

    # the transactions of the ledger's table

    def permits(self, change: Change) -> bool:
        """Whether the record is as it is expected; of a Put, whether there is none."""
        if isinstance(change, Put):
            return canonical(change.key) not in self.records
        record = self.records.get(canonical(change.key), {})
        return all(record.get(name) == value for name, value in change.expected.items())

    def begin(self) -> None:
        """A transaction is about to be judged."""
        if self.before_transaction:
            self.before_transaction.pop(0)()
        failure, self.failure = self.failure, None
        if failure is not None:
            raise CallFailed(failure)

    def weight(self, change: Change) -> int:
        """About how many bytes of the table it takes in; refused where the record would be none that fits."""
        if canonical(change.key) in self.unfit:
            raise CallFailed(Failure(ReasonClass.PERMANENT, "ValidationError", "the record would be too large"))
        return len(canonical(change.record if isinstance(change, Put) else self.records[canonical(change.key)]))

    def carry_out(self, change: Change) -> None:
        """Make a permitted change."""
        if isinstance(change, Put):
            self.records[canonical(change.key)] = dict(change.record)
        elif isinstance(change, Update):
            key = canonical(change.key)
            self.records[key] = {**self.records.get(key, change.key), **change.values}
        else:
            self.remove(change)

    def remove(self, delete: Delete) -> None:
        """Carry out a permitted removal; a record that is not there is no error."""
        self.records.pop(canonical(delete.key), None)

    def _waits(self) -> bool:
        self.used_up -= 1
        return self.used_up >= 0

    def _page(
        self, source: RecordSource, keys: KeyShape, within: list[dict[str, Any]], after: Attributes | None
    ) -> RecordPage:
        names = _names(keys)

        def place(record: Mapping[str, Any]) -> tuple[Any, ...]:
            return (*(_order(record[name]) for name in names), *(_order(record[name]) for name in _table(self._shape)))

        ordered = sorted(within, key=place)
        if after is not None:
            ordered = [record for record in ordered if place(record) > place(after)]
        page = tuple(self._record(source, keys, record) for record in ordered[: self.most])
        # Like DynamoDB, a page that is full has a next even when nothing follows.
        return RecordPage(page, page[-1].after if len(page) == self.most else None, 100)

    def _record(
        self, source: RecordSource, keys: KeyShape, record: Mapping[str, Any], more: Collection[str] = ()
    ) -> Record:
        start = {*_names(keys), *_table(self._shape)}
        shown_of = {*source.guarded, *more, *start.difference(_table(self._shape))}
        return Record(
            {name: record[name] for name in _table(self._shape)},
            {name: record[name] for name in shown_of if name in record},
            {name: record[name] for name in start if name in record},
        )


def _typed(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    if isinstance(value, bool):
        return {"BOOL": value}
    return {"S": value} if isinstance(value, str) else {"N": str(value)}


def _names(keys: KeyShape) -> list[str]:
    return [name for name in (keys.partition, keys.sort) if name]


def _table(shape: TableShape) -> list[str]:
    return _names(shape.keys)


def _order(value: Mapping[str, Any]) -> Any:
    return number(value) if "N" in value else next(iter(value.values()))
