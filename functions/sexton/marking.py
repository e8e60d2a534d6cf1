"""Records that are marked: each stays, and one attribute of it says from then on that it has had its time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sexton import attributes
from sexton.action import Mark
from sexton.errors import SourceRefused
from sexton.item import Item
from sexton.outcome import MARKED
from sexton.ports import TableShape
from sexton.record_source import RecordSource
from sexton.records import ListedRecords
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
        key, seen = attributes.parse(item.key), attributes.parse(item.etag)
        return Update(self.source.table, key, seen, {self.mark.attribute: attributes.typed(self.mark.value)})


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
