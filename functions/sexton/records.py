"""Records of a table, as a target: removed in one transaction with the settlement of their job.

A table that lies elsewhere cannot share a transaction with the ledger: there each record is removed by itself, on the
condition that it is as it was seen, and the settlement follows, as with objects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from sexton import attributes
from sexton.errors import Failure, SourceRefused
from sexton.item import RECORD, Item, ItemId, rfc3339
from sexton.observing import Seen
from sexton.ports import CHANGED_AT_ONCE, Record, RecordPage, RecordTable, Removed, TableShape
from sexton.record_source import RecordSource
from sexton.run import Place
from sexton.table import Delete, Update
from sexton.target import Page

DONE = "done"  # of a segment that was read to its end

Numbered = Sequence[tuple[int, Item]]


@dataclass(frozen=True)
class ListedRecords:
    """Records whose timestamp is looked at.

    A place's number is that of the partition, and its start the key that a Query goes on after; of a scan, where each
    segment goes on.
    """

    records: RecordTable
    source: RecordSource
    cutoff: datetime

    @cached_property
    def _partitions(self) -> Sequence[str]:
        return self.source.partition_values(self.cutoff)

    @property
    def ranges(self) -> int:
        """The partitions; a scan is one range, however many segments are read at once."""
        return 1 if self.source.scan else len(self._partitions)

    def page(self, place: Place) -> Page:
        """One Query call, or a Scan call for each segment that has not ended. One without items need not be the end."""
        return self._scan_page(place) if self.source.scan else self._query_page(place)

    def _query_page(self, place: Place) -> Page:
        after = attributes.parse(place.start_after) if place.start_after else None
        found = self.records.query(self.source, self._partitions[place.prefix], self.cutoff, after)
        if found is None:
            return Page((), lambda index: place, place, False)

        def at(after: attributes.Attributes) -> Place:
            return Place(prefix=place.prefix, start_after=attributes.canonical(after))

        following = Place(prefix=place.prefix + 1) if found.next is None else at(found.next)
        ends = following.prefix == self.ranges  # a job may well have records of many partitions
        return Page(_items(self.source, found), lambda index: at(found.records[index].after), following, ends)

    def _scan_page(self, place: Place) -> Page:
        """The segments' pages one behind another: those before an item's are done with, those behind not begun."""
        starts = _Starts.read(place.start_after, self.source)
        pages = self.records.scan(self.source, starts.open)
        items, afters = [], []
        for segment, page in sorted(pages.items()):
            items += _items(self.source, page)
            afters += [(starts, segment, record.after) for record in page.records]
            starts = starts.moved(segment, page.next)
        whole = starts

        def place_after(index: int) -> Place:
            before, segment, after = afters[index]
            return before.moved(segment, after).place()

        ends = not whole.open
        return Page(items, place_after, Place(prefix=place.prefix + 1) if ends else whole.place(), ends)

    def read_tags(self, items: Sequence[Item]) -> Sequence[Item]:
        """Records have none."""
        return items

    def observe(self, items: Sequence[Item], span: int, begun: Callable[[], object]) -> Mapping[ItemId, Seen]:
        """Read consistently what each record is judged by. The size is the planned one: it is an estimate."""
        begun()
        seen_by = {name for item in items for name in attributes.parse(item.etag)}
        there = self._there([item.key for item in items], seen_by.difference(self.source.guarded))
        return {
            item.id: _item(self.source, there[item.key], item.size) if item.key in there else None for item in items
        }

    def at_key(self, key: str) -> Item | None:
        """The record of a key as it is now."""
        found = self._there([key])
        return _item(self.source, found[key], 0) if found else None

    def _there(self, keys: Sequence[str], more: Collection[str] = ()) -> Mapping[str, Record]:
        found = self.records.get(self.source, [attributes.parse(key) for key in dict.fromkeys(keys)], more)
        return {attributes.canonical(record.key): record for record in found}

    def request_timeout(self) -> timedelta:
        """That of the table; of a transaction it is no longer."""
        return self.records.request_timeout()

    def _removal(self, item: Item) -> Delete:
        return Delete(self.source.table, attributes.parse(item.key), attributes.parse(item.etag))


class Records(ListedRecords):
    """Records beside the ledger: they go with the settlement, and only while each is as it was when it was judged."""

    effect: str | None = None

    def prepare(self, items: Sequence[Item]) -> str | None:
        """Nothing has to stand before a removal."""

    def weight(self, item: Item) -> int:
        """About how many bytes it takes in a transaction, as planning estimated."""
        return item.size

    def change(self, item: Item) -> Delete:
        """The removal of a record that still is as it was seen."""
        return self._removal(item)


class RecordsElsewhere(ListedRecords):
    """Records of a table that lies elsewhere, each removed only if all it was judged by is as it was seen."""

    def batches(self, items: Numbered) -> Iterator[Numbered]:
        """As many as are removed at once. A record that was planned twice is gone when its second turn comes."""
        batch: dict[str, tuple[int, Item]] = {}
        for index, item in items:
            if item.key in batch or len(batch) == CHANGED_AT_ONCE:
                yield list(batch.values())
                batch = {}
            batch[item.key] = index, item
        if batch:
            yield list(batch.values())

    def remove(self, items: Sequence[Item]) -> Mapping[ItemId, Removed | Failure]:
        """One conditional call each."""
        came = self.records.change([self.change_of(item) for item in items])
        return {item.id: each for item, each in zip(items, came, strict=True)}

    def change_of(self, item: Item) -> Delete | Update:
        """The removal of a record that still is as it was seen."""
        return self._removal(item)


@dataclass(frozen=True, slots=True)
class _Starts:
    """Where each segment of a scan goes on: after a key, at its beginning (None), or not at all (DONE)."""

    segments: tuple[attributes.Attributes | str | None, ...]

    @staticmethod
    def read(text: str, source: RecordSource) -> _Starts:
        assert source.scan is not None
        found = attributes.parse(text)["segments"] if text else [None] * source.scan.segments
        return _Starts(tuple(found))

    @property
    def open(self) -> dict[int, attributes.Attributes | None]:
        return {
            number: start for number, start in enumerate(self.segments) if start is None or not isinstance(start, str)
        }

    def moved(self, segment: int, to: attributes.Attributes | None) -> _Starts:
        """The segment goes on after this; None: it has ended."""
        changed = list(self.segments)
        changed[segment] = DONE if to is None else to
        return _Starts(tuple(changed))

    def place(self) -> Place:
        return Place(start_after=attributes.canonical({"segments": list(self.segments)}))  # type: ignore[dict-item]


def _items(source: RecordSource, page: RecordPage) -> list[Item]:
    return [_item(source, record, page.record_bytes) for record in page.records]


def _item(source: RecordSource, record: Record, size: int) -> Item:
    seen = {name: record.values.get(name) for name in (*source.guarded, *record.values)}
    readable = all(attributes.is_scalar(value) for value in seen.values())  # else no condition could hold it to that
    at = source.timestamp.read(seen[source.timestamp.attribute]) if readable else None
    key, deadline = attributes.canonical(record.key), rfc3339(at) if at else None
    return Item(key, attributes.canonical(seen), size, RECORD, at, deadline)


def refuse_unfit_table(source: RecordSource, shape: TableShape) -> None:
    """Raise SourceRefused where the policy would find other records than it says, or none."""
    if source.scan:
        return
    where = f"index {source.index} of table {source.table}" if source.index else f"table {source.table}"
    keys = shape.indexes.get(source.index) if source.index else shape.keys
    stamp = source.timestamp
    if keys is None:
        raise SourceRefused(
            "no_such_index", f"there is no {where}; it has {', '.join(sorted(shape.indexes)) or 'none'}"
        )
    if keys.sort != stamp.attribute or shape.types[keys.sort] != stamp.kind:
        raise SourceRefused(
            "index_unfit",
            f"{where} is not sorted by {stamp.attribute} (type {stamp.kind}), so a query cannot stop at the cutoff; "
            "name an index that is, or write scan instead of partitions",
        )
    missing = [name for name in source.guarded if keys.projected is not None and name not in keys.projected]
    if missing:
        raise SourceRefused(
            "index_unfit",
            f"{where} does not show {', '.join(missing)}; project it, or write scan instead of partitions",
        )
    values = source.partitions if isinstance(source.partitions, tuple) else ()
    if shape.types[keys.partition] == "N" and any(attributes.number({"N": value}) is None for value in values):
        raise SourceRefused(
            "index_unfit", f"the partitions of {where} are numbers, and not all of source.partitions are"
        )
    if shape.types[keys.partition] == "B":
        raise SourceRefused("index_unfit", f"the partitions of {where} are bytes, which a policy cannot name")
