"""Records that are marked: each stays, and one attribute of it says from then on that it has had its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sexton import attributes
from sexton.action import Mark
from sexton.errors import Failure, SourceRefused
from sexton.item import Item, ItemId
from sexton.outcome import MARKED
from sexton.ports import Removed, TableShape
from sexton.record_source import RecordSource
from sexton.records import ListedRecords, RecordsElsewhere
from sexton.table import Update

UNFIT = "mark_unfit"


@dataclass(frozen=True)
class MarkedRecords(ListedRecords):
    """Records beside the ledger, marked with the settlement, each only while it is as it was when it was judged.

    The source reads the marked attribute, too: so one that somebody else marks meanwhile has changed.
    """

    mark: Mark
    effect: str = MARKED

    def prepare(self, items: Sequence[Item]) -> None:
        """Nothing has to stand before a mark."""

    def weight(self, item: Item) -> int:
        """About how many bytes it takes in a transaction."""
        return item.size

    def change(self, item: Item) -> Update:
        """The mark on a record that still is as it was seen."""
        return _marking(self.source, item, self.mark)


@dataclass(frozen=True)
class RecordsMarkedElsewhere(RecordsElsewhere):
    """Records of a table that lies elsewhere, each marked by itself, only while it is as it was when it was judged."""

    mark: Mark

    def remove(self, items: Sequence[Item]) -> Mapping[ItemId, Removed | Failure]:
        """One conditional call each."""
        came = super().remove(items)
        return {each: Removed(effect=MARKED) if isinstance(came[each], Removed) else came[each] for each in came}

    def change_of(self, item: Item) -> Update:
        """The mark on a record that still is as it was seen."""
        return _marking(self.source, item, self.mark)


def _marking(source: RecordSource, item: Item, mark: Mark) -> Update:
    key, seen = attributes.parse(item.key), attributes.parse(item.etag)
    return Update(source.table, key, seen, {mark.attribute: attributes.typed(mark.value)})


def refuse_unfit_mark(mark: Mark, source: RecordSource, shape: TableShape) -> None:
    """Raise SourceRefused where the mark cannot be set, or would move the record in the listing that finds it."""
    keys, named = [shape.keys], f"table {source.table}"
    if source.index:
        keys.append(shape.indexes[source.index])
    if any(mark.attribute in (each.partition, each.sort) for each in keys):
        raise SourceRefused(UNFIT, f"{mark.attribute} is a key by which {named} finds its records, and no mark")
    value, kind = attributes.typed(mark.value), shape.types.get(mark.attribute)
    if kind and (kind not in value or not mark.value):
        raise SourceRefused(
            UNFIT, f"{mark.attribute} is a key of an index of {named}, of type {kind}: {mark.value!r} cannot be one"
        )
