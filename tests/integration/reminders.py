"""The table of reminders that tests of records make, by what clients call it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TABLE, INDEX = "reminders", "by-status"


def create(client: Any) -> None:
    """The table, with an index by status that is sorted by the deadline."""
    keys = {"id": "S", "status": "S", "deadline": "N"}
    client.create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": kind} for name, kind in keys.items()],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        GlobalSecondaryIndexes=[
            {
                "IndexName": INDEX,
                "KeySchema": [
                    {"AttributeName": "status", "KeyType": "HASH"},
                    {"AttributeName": "deadline", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
        ],
    )


def ids(client: Any) -> list[str]:
    """Of the reminders that there are, in order."""
    return sorted(each["id"]["S"] for each in client.scan(TableName=TABLE)["Items"])


def put(client: Any, deadlines: Mapping[str, int]) -> None:
    """Reminders by their ids, all of them open, due at an epoch second."""
    for name, deadline in deadlines.items():
        record = {"id": {"S": name}, "status": {"S": "open"}, "deadline": {"N": f"{deadline}"}}
        client.put_item(TableName=TABLE, Item=record)
