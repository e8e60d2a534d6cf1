"""Tables with records on DynamoDB: only keys are read, and what a policy judges by."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from sexton.attributes import Attributes
from sexton.aws.errors import SDK_ERRORS, calls, code_of, failure, failure_of
from sexton.aws.expressions import Placeholders, delete_fields, from_wire, record_update_fields, to_wire, wire_key
from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.ports import CHANGED_AT_ONCE, KeyShape, Record, RecordPage, Removed, TableShape
from sexton.record_source import RecordSource
from sexton.table import Delete, Update

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

MOST_RECORDS = 1000  # in a page
MOST_KEYS = 100  # in one BatchGetItem
TURNS = 5  # of a BatchGetItem that leaves keys over
LONGEST_WAIT = 10.0  # seconds, for read capacity; then an empty page lets the planner look about
UNIT_BYTES = 8192  # read by one capacity unit, eventually consistent
SECONDS_A_PAGE = 2  # of the read capacity, that a page of 4 KB records may take
TIMEOUT = timedelta(seconds=23)
CONDITION = "ConditionalCheckFailedException"
GONE = Failure(ReasonClass.GONE, CONDITION, "there is no such record")
CHANGED = Failure(ReasonClass.CHANGED, CONDITION, "the record is not as it was seen")


class DynamoRecords:
    """One table with records. It keeps the pace of its reads, so that one is to be kept as long as a plan is made.

    `changes` is the client that changes single records: it must not repeat a call, nor wait longer than `timeout`.
    """

    def __init__(
        self,
        client: DynamoDBClient,
        name: str,
        changes: DynamoDBClient | None = None,
        timeout: timedelta = TIMEOUT,
        *,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client: Any = client  # expressions and typed values are built as plain dicts
        self._changes: Any = changes or client
        self._timeout = timeout
        self._name = name
        self._sleep = sleep
        self._monotonic = monotonic
        self._ready_at = 0.0  # when what was read is paid for, at the pace of the source

    def shape(self) -> TableShape:
        """How it is keyed."""
        return self._shape

    @cached_property
    def _shape(self) -> TableShape:
        with calls():
            table = self._client.describe_table(TableName=self._name)["Table"]
        keys = _key_shape(table)
        indexes = [*table.get("GlobalSecondaryIndexes", []), *table.get("LocalSecondaryIndexes", [])]
        types = {each["AttributeName"]: each["AttributeType"] for each in table["AttributeDefinitions"]}
        return TableShape(keys, {each["IndexName"]: _index_shape(each, keys) for each in indexes}, types)

    def query(
        self, source: RecordSource, partition: str, cutoff: datetime, after: Attributes | None = None
    ) -> RecordPage | None:
        """One page of a partition, up to the cutoff."""
        if not self._paid(source):
            return None
        keys = self._shape.indexes[source.index] if source.index else self._shape.keys
        use = Placeholders()
        partition_value = to_wire({self._shape.types[keys.partition]: partition})
        condition = f"{use.name(keys.partition)} = {use.typed(partition_value)}"
        stamp = source.timestamp
        condition += f" AND {use.name(stamp.attribute)} < {use.typed(stamp.bound(cutoff))}"
        request = {"KeyConditionExpression": condition, **self._reading(source, keys, use)}
        if source.index:
            request["IndexName"] = source.index
        if after:
            request["ExclusiveStartKey"] = wire_key(after)
        with calls():
            answer = self._client.query(**request)
        return self._page(source, keys, answer)

    def scan(self, source: RecordSource, starts: Mapping[int, Attributes | None]) -> Mapping[int, RecordPage]:
        """One page of each of these segments, all at once."""
        assert source.scan is not None
        if not self._paid(source):
            return {}
        total, keys = source.scan.segments, self._shape.keys

        def page(segment: int) -> Any:
            request = {**self._reading(source, keys, Placeholders()), "Segment": segment, "TotalSegments": total}
            if start := starts[segment]:
                request["ExclusiveStartKey"] = wire_key(start)
            return self._client.scan(**request)

        with calls(), ThreadPoolExecutor(len(starts)) as pool:
            answers = list(pool.map(page, starts))
        return {segment: self._page(source, keys, answer) for segment, answer in zip(starts, answers, strict=True)}

    def get(self, source: RecordSource, keys: Sequence[Attributes], more: Collection[str] = ()) -> Sequence[Record]:
        """BatchGetItem, consistent; what it leaves over is asked for again."""
        return self._read(keys, (*source.guarded, *more))

    def read(self, keys: Sequence[Attributes]) -> Sequence[Record]:
        """The same, of which each record is whole."""
        return self._read(keys, None)

    def request_timeout(self) -> timedelta:
        """The longest that one call may take."""
        return self._timeout

    def change(self, changes: Sequence[Delete | Update]) -> Sequence[Removed | Failure]:
        """One DeleteItem or UpdateItem each, all at once."""
        with ThreadPoolExecutor(CHANGED_AT_ONCE) as pool:
            return list(pool.map(self._change, changes))

    def _change(self, change: Delete | Update) -> Removed | Failure:
        """Of the record that a condition met nothing is kept but whether there is one."""
        if isinstance(change, Update):
            call, fields = self._changes.update_item, record_update_fields(change)
        else:
            call, fields = self._changes.delete_item, delete_fields(change)
        try:
            call(TableName=self._name, ReturnValuesOnConditionCheckFailure="ALL_OLD", **fields)
        except SDK_ERRORS as error:
            if isinstance(error, ClientError) and code_of(error) == CONDITION:
                return CHANGED if error.response.get("Item") else GONE
            return failure_of(error, only_attempt=True)
        return Removed()

    def _read(self, keys: Sequence[Attributes], shown: Sequence[str] | None) -> Sequence[Record]:
        found: list[Record] = []
        for at in range(0, len(keys), MOST_KEYS):
            found += self._get([wire_key(key) for key in keys[at : at + MOST_KEYS]], shown)
        return found

    def _get(self, keys: list[dict[str, Any]], shown: Sequence[str] | None) -> Iterator[Record]:
        names = list(keys[0])
        use = Placeholders()
        projection: dict[str, Any] = {}
        if shown is not None:
            projection["ProjectionExpression"] = ", ".join(use.name(name) for name in sorted({*names, *shown}))
        for turn in range(TURNS):
            asked = {"Keys": keys, "ConsistentRead": True, **projection, **use.fields()}
            with calls():
                answer = self._client.batch_get_item(RequestItems={self._name: asked})
            for item in answer["Responses"].get(self._name, []):
                yield _record(shown, names, names, item)
            keys = answer.get("UnprocessedKeys", {}).get(self._name, {}).get("Keys", [])
            if not keys:
                return
            self._sleep(0.1 * 2**turn)
        raise CallFailed(failure("ProvisionedThroughputExceededException", "keys were left unread again and again"))

    # reading at a pace

    def _reading(self, source: RecordSource, keys: KeyShape, use: Placeholders) -> dict[str, Any]:
        """What a Query and a Scan have in common."""
        names = sorted({*_names(self._shape.keys), *_names(keys), *source.guarded})
        segments = source.scan.segments if source.scan else 1
        most = source.read_capacity * 2 * SECONDS_A_PAGE // segments  # half a unit each, if they are of 4 KB
        return {
            "TableName": self._name,
            "ProjectionExpression": ", ".join(use.name(name) for name in names),
            "Limit": max(1, min(MOST_RECORDS, most)),
            "ReturnConsumedCapacity": "TOTAL",
            **use.fields(),
        }

    def _paid(self, source: RecordSource) -> bool:
        """Wait until what was read keeps to the source's capacity; False where that takes too long for one call."""
        wait = self._ready_at - self._monotonic()
        if wait > 0:
            self._sleep(min(wait, LONGEST_WAIT))
        return wait <= LONGEST_WAIT

    def _page(self, source: RecordSource, keys: KeyShape, answer: Mapping[str, Any]) -> RecordPage:
        units = float(answer.get("ConsumedCapacity", {}).get("CapacityUnits", 0.0))
        self._ready_at = max(self._ready_at, self._monotonic()) + units / source.read_capacity
        table, last = _names(self._shape.keys), answer.get("LastEvaluatedKey")
        start = [*table, *(name for name in _names(keys) if name not in table)]
        shown = (*source.guarded, *start[len(table) :])
        records = tuple(_record(shown, table, start, item) for item in answer["Items"])
        size = round(units * UNIT_BYTES / max(1, answer.get("ScannedCount", len(records))))
        return RecordPage(records, {name: from_wire(last[name]) for name in last} if last else None, size)


def _names(keys: KeyShape) -> list[str]:
    return [name for name in (keys.partition, keys.sort) if name]


def _record(shown: Sequence[str] | None, key: Sequence[str], start: Sequence[str], item: Mapping[str, Any]) -> Record:
    """The record with what is to be shown of it, which is all where nothing is named."""
    values = {name: from_wire(item[name]) for name in item}
    return Record(
        {name: values[name] for name in key},
        values if shown is None else {name: values[name] for name in shown if name in values},
        {name: values[name] for name in start},
    )


def _key_shape(described: Mapping[str, Any]) -> KeyShape:
    kinds = {each["KeyType"]: str(each["AttributeName"]) for each in described["KeySchema"]}
    return KeyShape(kinds["HASH"], kinds.get("RANGE"))


def _index_shape(described: Mapping[str, Any], table: KeyShape) -> KeyShape:
    keys, projection = _key_shape(described), described["Projection"]
    if projection.get("ProjectionType") == "ALL":
        return keys
    shown = {*_names(table), *_names(keys), *projection.get("NonKeyAttributes", [])}
    return KeyShape(keys.partition, keys.sort, frozenset(shown))
