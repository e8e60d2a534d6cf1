"""The tables that policies name, created as far as a policy tells how they are keyed.

What it does not tell is the same everywhere: a table's partition key is `id`, and an index `by-day` is partitioned by
`day`; both are text. A table or an index that is queried is sorted by the timestamp of its policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sexton.policy import Policy
from sexton.record_source import RecordSource

ID = "id"
BY = "by-"


@dataclass
class Shape:
    """How one table is keyed: the sort key beside `id`, its indexes' keys by name, the types of all keys."""

    sort: str | None = None
    indexes: dict[str, tuple[str, str]] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=lambda: {ID: "S"})

    def add(self, source: RecordSource) -> None:
        """What one more policy needs of it."""
        if source.scan:
            return
        stamp = source.timestamp
        self.types.setdefault(stamp.attribute, stamp.kind)
        if source.index is None:
            self.sort = stamp.attribute
            return
        partition = source.index.removeprefix(BY)
        self.types.setdefault(partition, "S")
        self.indexes[source.index] = (partition, stamp.attribute)

    def request(self) -> dict[str, Any]:
        """What CreateTable is asked for."""
        types = [{"AttributeName": name, "AttributeType": kind} for name, kind in self.types.items()]
        asked = {
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": types,
            "KeySchema": _keys(ID, self.sort),
            "GlobalSecondaryIndexes": [
                {"IndexName": name, "KeySchema": _keys(*keys), "Projection": {"ProjectionType": "ALL"}}
                for name, keys in self.indexes.items()
            ],
        }
        return {name: value for name, value in asked.items() if value}


def shapes(policies: Iterable[Policy]) -> Mapping[str, Shape]:
    """By its name how each table is keyed that the policies are about."""
    found: dict[str, Shape] = {}
    for policy in policies:
        if isinstance(policy.source, RecordSource):
            found.setdefault(policy.source.table, Shape()).add(policy.source)
    return found


def create(dynamodb: Any, policies: Iterable[Policy]) -> None:
    """Create the tables that there are not."""
    there = {name for page in dynamodb.get_paginator("list_tables").paginate() for name in page["TableNames"]}
    for name, shape in shapes(policies).items():
        if name not in there:
            dynamodb.create_table(TableName=name, **shape.request())


def _keys(partition: str, sort: str | None) -> list[dict[str, str]]:
    keys = {partition: "HASH", **({sort: "RANGE"} if sort else {})}
    return [{"AttributeName": name, "KeyType": kind} for name, kind in keys.items()]
