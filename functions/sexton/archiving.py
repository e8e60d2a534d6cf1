"""Records that are archived: each is written whole to evidence before the transaction that removes it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sexton import archived, attributes
from sexton.attributes import Attributes
from sexton.item import Item
from sexton.outcome import ARCHIVED
from sexton.ports import Evidence, Record
from sexton.records import ListedRecords
from sexton.table import Delete

MOST_CONDITIONS = 100  # attributes of one record: an expression has 4 KB, and 300 operators


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
        """The record, and the condition that says much of it again."""
        return 2 * archived.size(self._whole[item.key])

    def change(self, item: Item) -> Delete:
        """The removal of a record that still is what was archived."""
        key, seen = attributes.parse(item.key), attributes.parse(item.etag)
        whole = self._whole[item.key]
        rest = [name for name in whole if name not in seen and name not in key and attributes.is_scalar(whole[name])]
        compared = {name: whole[name] for name in rest[: MOST_CONDITIONS - len(seen)]}
        return Delete(self.source.table, key, {**seen, **compared})
