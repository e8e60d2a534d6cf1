"""What is and was in the buckets, in the oracles' own words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from tests.fakes.bucket import FakeBucket, Version
from tests.fakes.records import FakeRecords
from tests.simulation.reminders import Record, Wanted
from tests.simulation.scenario import Rule

Identity = tuple[str, str | None]  # key, and the id of a version or an upload, or the deadline of a record


@dataclass(frozen=True, slots=True)
class Thing:
    """One thing that a policy may mean: an object as written at one time, a version, an upload."""

    key: str
    version_id: str | None
    etag: str
    written: datetime | None

    @property
    def identity(self) -> Identity:
        return self.key, self.version_id


@dataclass
class Store:
    """The buckets by name, and what their states of the moment do not show."""

    buckets: dict[str, FakeBucket]
    tables: Mapping[str, FakeRecords] = field(default_factory=dict)
    noncurrent: dict[tuple[str, str, str], datetime] = field(default_factory=dict)  # since when, by bucket, key, id
    current_again: dict[tuple[str, str, str], datetime] = field(default_factory=dict)
    placed: dict[str, set[Identity]] = field(default_factory=dict)  # by run: the markers that it placed
    undone: set[tuple[str, str]] = field(default_factory=set)  # bucket and key of what somebody brought back

    def name_of(self, bucket: object) -> str:
        return next(name for name, each in self.buckets.items() if each is bucket)

    def looked(self) -> None:
        """Remember since when each version has been noncurrent: its first successor's date is the true one."""
        for name, bucket in self.buckets.items():
            for key, versions in bucket.versions.items():
                for older, newer in pairwise(versions):
                    self.noncurrent.setdefault((name, key, older.id), max(older.at, newer.at))

    def meant(self, rule: Rule, cutoff: datetime) -> Iterator[Thing]:
        """Everything that a rule means at a cutoff, as it is now."""
        if rule.wanted is not None:
            yield from self._meant_records(rule, rule.wanted, cutoff)
            return
        bucket = self.buckets[rule.bucket]
        if rule.kind == "uploads":
            for item in bucket.uploads.values():
                if item.key.startswith(rule.prefix) and item.last_modified and item.last_modified < cutoff:
                    yield Thing(item.key, item.version_id, "", item.last_modified)
            return
        for key, versions in bucket.versions.items():
            if key.startswith(rule.prefix):
                yield from self._meant_of(rule, cutoff, key, versions)

    def _meant_of(self, rule: Rule, cutoff: datetime, key: str, versions: list[Version]) -> Iterator[Thing]:
        if rule.kind == "objects":
            for version in versions[-1:]:
                if version.item is not None and version.at < cutoff:
                    yield Thing(key, None, version.item.etag, version.at)
            return
        for older, newer in pairwise(versions):
            if older.item is not None and max(older.at, newer.at) < cutoff:
                yield Thing(key, older.id, older.item.etag, older.at)

    def _meant_records(self, rule: Rule, wanted: Wanted, cutoff: datetime) -> Iterator[Thing]:
        """Those that listings show as they are: others may well be missed."""
        table = self.tables[rule.bucket]
        for key, record in table.records.items():
            if table.shown.get(key) == record and wanted.means(record, cutoff):
                yield record_thing(key, record, wanted)


def record_thing(key: str, record: Record, wanted: Wanted) -> Thing:
    """A record with its deadline, which is a part of its name."""
    due, seen = wanted.deadline(record), wanted.rests_on(record)
    name = due.isoformat().replace("+00:00", "Z") if due else None
    return Thing(key, name, json.dumps(seen, sort_keys=True, separators=(",", ":")), due)
