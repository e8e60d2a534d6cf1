"""Records that are archived: each is written whole to evidence before the transaction that removes it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from sexton import archived, attributes
from sexton.attributes import Attribute, Attributes
from sexton.item import Item
from sexton.outcome import ARCHIVED
from sexton.ports import Evidence, Record
from sexton.records import ListedRecords
from sexton.table import Delete

MOST_COMPARED = 100  # attributes of one record: an expression has 4 KB, and 300 operators
LONGEST_COMPARED = 1024  # bytes of a value: what a condition says counts in the size of the transaction, too


@dataclass(frozen=True)
class ArchivingRecords(ListedRecords):
    """Records beside the ledger that are read whole at the look, and removed only while they are what was read.

    What tells that is the version attribute, which the application changes with each write. Single values are compared
    too, as many as a condition has room for: they tell of an application that forgets to.
    """

    evidence: Evidence
    run_id: str
    effect: str = ARCHIVED
    _whole: dict[str, Attributes] = field(default_factory=dict)  # as last looked at, by key

    def _there(self, keys: Sequence[str], more: Collection[str] = ()) -> Mapping[str, Record]:
        """The records are read whole, and shown as narrowly as ever: nothing else may be judged, or told."""
        shown = {*self.source.guarded, *more}
        found = {}
        for record in self.records.read([attributes.parse(key) for key in dict.fromkeys(keys)]):
            key = attributes.canonical(record.key)
            self._whole[key] = record.values
            values = {name: value for name, value in record.values.items() if name in shown}
            found[key] = replace(record, values=values)
        return found

    def prepare(self, items: Sequence[Item]) -> str | None:
        """Write them to evidence; the key of the file. Raises EvidenceAltered, CallFailed."""
        kept = {item.key: self._whole[item.key] for item in items}
        return archived.write(self.evidence, self.run_id, kept) if kept else None

    def weight(self, item: Item) -> int:
        """The record, and what its condition says again."""
        return archived.size(self._whole[item.key]) + archived.size(self._expected(item))

    def change(self, item: Item) -> Delete:
        """The removal of a record that still is what was archived."""
        return Delete(self.source.table, attributes.parse(item.key), self._expected(item))

    def _expected(self, item: Item) -> dict[str, Attribute | None]:
        """What the record was judged by, and as many of its other values as a condition has room for."""
        seen, key = attributes.parse(item.etag), attributes.parse(item.key)
        others = {name: value for name, value in self._whole[item.key].items() if name not in seen and name not in key}
        compared = {name: value for name, value in others.items() if _is_short(value)}
        return {**seen, **dict(islice(compared.items(), max(0, MOST_COMPARED - len(seen))))}


def _is_short(value: Attribute) -> bool:
    return attributes.is_scalar(value) and archived.size({"": value}) <= LONGEST_COMPARED
