"""Archived records, as a target: what an undo puts back, each where nothing has taken its key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from sexton import archived, attributes
from sexton.attributes import Attributes
from sexton.errors import EvidenceAltered
from sexton.item import Item, ItemId
from sexton.observing import Seen
from sexton.outcome import RESTORED
from sexton.ports import Evidence, RecordTable
from sexton.record_source import RecordSource
from sexton.table import Put

IN_USE = 1  # the rank of an archived record whose key another one has


@dataclass(frozen=True)
class ArchivedRecords:
    """Records that a run archived. An item's etag is the file that has it, which is read when it is put back."""

    records: RecordTable
    source: RecordSource
    evidence: Evidence
    effect: str = RESTORED
    _files: dict[str, archived.Records] = field(default_factory=dict)

    def read_tags(self, items: Sequence[Item]) -> Sequence[Item]:
        """Records have none."""
        return items

    def observe(self, items: Sequence[Item], span: int, begun: Callable[[], object]) -> Mapping[ItemId, Seen]:
        """Whether their keys are free. What is seen is the archived record: alone, or behind another one (rank 1)."""
        begun()
        asked = [attributes.parse(item.key) for item in items]
        taken = {attributes.canonical(record.key) for record in self.records.get(self.source, asked)}
        return {item.id: item._replace(rank=IN_USE) if item.key in taken else item for item in items}

    def prepare(self, items: Sequence[Item]) -> str | None:
        """Nothing has to stand before a record is put back."""

    def weight(self, item: Item) -> int:
        """About how many bytes the record takes. Raises EvidenceAltered where its file is not whole."""
        return archived.size(self._record(item))

    def change(self, item: Item) -> Put:
        """The record, whole, where there is none of its key."""
        return Put(self.source.table, attributes.parse(item.key), self._record(item))

    def request_timeout(self) -> timedelta:
        """That of the table; of a transaction it is no longer."""
        return self.records.request_timeout()

    def _record(self, item: Item) -> Attributes:
        if item.etag not in self._files:
            self._files[item.etag] = archived.read(self.evidence, item.etag)
        try:
            return self._files[item.etag][item.key]
        except KeyError as error:
            raise EvidenceAltered(f"the archive {item.etag} has no record {item.key[:200]}") from error
