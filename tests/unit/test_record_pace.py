"""Reading a table keeps to the policy's capacity, whatever a page costs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sexton.aws.records import LONGEST_WAIT, DynamoRecords
from sexton.record_source import RecordSource

CUTOFF = datetime(2026, 1, 1, tzinfo=UTC)
TABLE = {
    "Table": {
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    }
}


class Client:
    """Answers each page with what it is said to cost."""

    def __init__(self, *units: float) -> None:
        self.units = list(units)
        self.limits: list[int] = []

    def describe_table(self, **_: object) -> Any:
        return TABLE

    def scan(self, **asked: Any) -> Any:
        self.limits.append(asked["Limit"])
        return {
            "Items": [{"id": {"S": "a"}}],
            "ScannedCount": 4,
            "ConsumedCapacity": {"CapacityUnits": self.units.pop(0)},
            "LastEvaluatedKey": {"id": {"S": "a"}},
        }


class Pace:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def source(read_capacity: int) -> RecordSource:
    stamp = {"attribute": "deadline", "format": "epoch_s"}
    fields = {"kind": "dynamodb", "table": "reminders", "scan": {"segments": 1}, "timestamp": stamp}
    return RecordSource.model_validate({**fields, "read_capacity": read_capacity})


def records(client: Any, pace: Pace) -> DynamoRecords:
    return DynamoRecords(client, "reminders", sleep=pace.sleep, monotonic=lambda: pace.now)


def test_the_next_page_waits_until_the_last_one_is_paid_for() -> None:
    client, pace = Client(30.0, 5.0, 1.0), Pace()
    table = records(client, pace)
    for _ in range(3):
        assert set(table.scan(source(10), {0: None})) == {0}
    assert pace.slept == [3.0, 0.5]


def test_a_debt_that_is_too_large_for_one_wait_gives_no_page() -> None:
    client, pace = Client(250.0, 1.0), Pace()
    table = records(client, pace)
    table.scan(source(10), {0: None})
    found = [bool(table.scan(source(10), {0: {"id": {"S": "a"}}})) for _ in range(3)]
    assert found == [False, False, True]
    assert pace.slept == [LONGEST_WAIT, LONGEST_WAIT, 5.0]


def test_a_page_is_small_where_the_capacity_is() -> None:
    client = Client(1.0, 1.0)
    table = records(client, Pace())
    table.scan(source(5), {0: None})
    table.scan(source(40_000), {0: None})
    assert client.limits == [20, 1000]


def test_a_size_is_an_estimate_by_what_the_page_took() -> None:
    table = records(Client(2.0), Pace())
    assert table.scan(source(100), {0: None})[0].record_bytes == 2 * 8192 // 4
