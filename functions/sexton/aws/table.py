"""The ledger's table on DynamoDB."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import ClientError
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from sexton.aws.errors import calls, code_of, failure, failure_of
from sexton.aws.expressions import change_action, check_fields, from_item, key_of, to_attribute, update_fields
from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.ports import Rows
from sexton.table import WRITE_ID, Applied, Change, Check, Key, Refused, Row, Write, Written

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

OPEN_INDEX = "open"
ATTEMPTS = 5  # of a write that met another transaction or a throttle, on top of the SDK's own
LONGEST_WAIT = 1.0  # seconds
TOKEN_LENGTH = 36  # of a ClientRequestToken, at most

REFUSED_REASON = "ConditionalCheckFailed"
NO_REASON = "None"

T = TypeVar("T")


class _Busy(Exception):
    """The write was not carried out because something else is going on; trying again may help."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.code)
        self.failure = failure


class DynamoTable:
    """Conditional writes and consistent reads of one table with the keys `pk` and `sk`."""

    def __init__(self, client: DynamoDBClient, name: str, sleep: Callable[[float], None] = time.sleep) -> None:
        self._client: Any = client  # expressions and typed values are built as plain dicts
        self._name = name
        self._sleep = sleep

    def get(self, key: Key) -> Row | None:
        """The row as of now (strongly consistent), or None."""
        with calls():
            answer = self._client.get_item(TableName=self._name, Key=key_of(key), ConsistentRead=True)
        return from_item(answer["Item"]) if "Item" in answer else None

    def write(self, write: Write) -> Written:
        """Apply one conditional write; a repeat of a write that was applied answers as the first should have."""
        return self._patiently(lambda: self._write(write))

    def transact(self, writes: Sequence[Write | Check | Change]) -> Written:
        """Apply all or none; a repeat of a transaction that was applied answers as the first should have."""
        return self._patiently(lambda: self._transact(writes))

    def query(self, pk: str, prefix: str = "", after: str | None = None, descending: bool = False) -> Rows:
        """One page of a partition, strongly consistent; `next` is the last sort key."""
        condition, values = "pk = :pk", {":pk": pk}
        if prefix:  # DynamoDB takes no empty value for a key
            condition, values = f"{condition} AND begins_with(sk, :prefix)", {**values, ":prefix": prefix}
        request = _query_fields(condition, values) | {"ConsistentRead": True, "ScanIndexForward": not descending}
        if after is not None:
            request["ExclusiveStartKey"] = key_of(Key(pk, after))
        return self._page(request, lambda last: str(last["sk"]["S"]))

    def query_open(self, open_pk: str, prefix: str = "", up_to: str | None = None, after: str | None = None) -> Rows:
        """One page of the `open` index; `next` is the whole last key, as JSON."""
        request = _query_fields(*_open_condition(open_pk, prefix, up_to)) | {"IndexName": OPEN_INDEX}
        if after is not None:
            request["ExclusiveStartKey"] = {name: {"S": value} for name, value in json.loads(after).items()}
        return self._page(request, lambda last: json.dumps({name: value["S"] for name, value in last.items()}))

    def _page(self, request: Mapping[str, Any], token: Callable[[Mapping[str, Any]], str]) -> Rows:
        with calls():
            answer = self._client.query(TableName=self._name, **request)
        last = answer.get("LastEvaluatedKey")
        return Rows([from_item(item) for item in answer["Items"]], token(last) if last else None)

    def _patiently(self, attempt: Callable[[], T]) -> T:
        """Try again, with full jitter, what met another transaction or a throttle; then CallFailed."""
        retrying = Retrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.05, max=LONGEST_WAIT),
            retry=retry_if_exception_type(_Busy),
            sleep=self._sleep,
            reraise=True,
        )
        try:
            with calls():
                return retrying(attempt)
        except _Busy as busy:
            raise CallFailed(busy.failure) from busy

    def _write(self, write: Write) -> Written:
        try:
            answer = self._client.update_item(TableName=self._name, ReturnValues="ALL_NEW", **update_fields(write))
        except ClientError as error:
            if code_of(error) == "ConditionalCheckFailedException":
                return _refused_or_own(write, _item_of(error))
            _raise_if_busy(error)
            raise
        return Applied(from_item(answer["Attributes"]))

    def _transact(self, writes: Sequence[Write | Check | Change]) -> Written:
        actions = [self._action(write) for write in writes]
        try:
            self._client.transact_write_items(TransactItems=actions, ClientRequestToken=self._request_token(writes))
        except ClientError as error:
            if code_of(error) == "TransactionCanceledException":
                return _cancelled(writes, error.response.get("CancellationReasons", []), error)
            _raise_if_busy(error)
            raise
        return Applied(None)

    def _request_token(self, writes: Sequence[Write | Check | Change]) -> str:
        """The same for the same writes: DynamoDB then carries a repeat out once (for ten minutes).

        Changes of records only ever go with a write, whose id is no other's.
        """
        rows = [write for write in writes if isinstance(write, Write | Check)]
        names = [self._name, *(f"{row.key.pk}\t{row.key.sk}\t{getattr(row, 'id', '')}" for row in rows)]
        return hashlib.sha256("\n".join(names).encode()).hexdigest()[:TOKEN_LENGTH]

    def _action(self, write: Write | Check | Change) -> dict[str, Any]:
        if isinstance(write, Write):
            return {"Update": {"TableName": self._name, **update_fields(write)}}
        if isinstance(write, Check):
            return {"ConditionCheck": {"TableName": self._name, **check_fields(write)}}
        return change_action(write)


def _query_fields(condition: str, values: Mapping[str, str]) -> dict[str, Any]:
    return {
        "KeyConditionExpression": condition,
        "ExpressionAttributeValues": {name: to_attribute(value) for name, value in values.items()},
    }


def _open_condition(open_pk: str, prefix: str, up_to: str | None) -> tuple[str, dict[str, str]]:
    if up_to is not None and prefix:
        return "open_pk = :pk AND open_sk BETWEEN :from AND :to", {":pk": open_pk, ":from": prefix, ":to": up_to}
    if up_to is not None:
        return "open_pk = :pk AND open_sk <= :to", {":pk": open_pk, ":to": up_to}
    if prefix:
        return "open_pk = :pk AND begins_with(open_sk, :prefix)", {":pk": open_pk, ":prefix": prefix}
    return "open_pk = :pk", {":pk": open_pk}


def _item_of(error: ClientError) -> Mapping[str, Any] | None:
    """The old row that came with a failed condition."""
    response: Mapping[str, Any] = error.response
    return response.get("Item")


def _refused_or_own(write: Write, item: Mapping[str, Any] | None) -> Written:
    old = from_item(item) if item else None
    return Applied(old) if _is_own(write, old) else Refused(old)


def _is_own(write: Write | Check | Change, old: Row | None) -> bool:
    """The old row is this write's own work: its reply was lost, and it was sent again."""
    return isinstance(write, Write) and old is not None and old.get(WRITE_ID) == write.id


def _cancelled(
    writes: Sequence[Write | Check | Change], reasons: Sequence[Mapping[str, Any]], error: ClientError
) -> Written:
    """What a cancelled transaction means: one own row says that all of it took place before."""
    refused = [
        Refused(from_item(reason["Item"]) if reason.get("Item") else None, index)
        for index, reason in enumerate(reasons)
        if reason.get("Code") == REFUSED_REASON
    ]
    if any(_is_own(writes[each.index], each.old) for each in refused):
        return Applied(None)
    if refused:
        return refused[0]
    raise _from_reasons(reasons) from error


def _from_reasons(reasons: Sequence[Mapping[str, Any]]) -> CallFailed | _Busy:
    """The worst of the reasons that are no condition's: a permanent one cannot be waited out."""
    failures = [
        failure(str(reason["Code"]), str(reason.get("Message", "")))
        for reason in reasons
        if reason.get("Code", NO_REASON) != NO_REASON
    ] or [failure("TransactionCanceledException")]
    failures.sort(key=lambda each: each.reason_class is not ReasonClass.PERMANENT)
    return CallFailed(failures[0]) if failures[0].reason_class is ReasonClass.PERMANENT else _Busy(failures[0])


_WORTH_WAITING = {
    "TransactionConflictException",
    "TransactionInProgressException",
    "ReplicatedWriteConflictException",
    "ThrottlingException",
    "RequestLimitExceeded",
    "ProvisionedThroughputExceededException",
}


def _raise_if_busy(error: ClientError) -> None:
    if code_of(error) in _WORTH_WAITING:
        raise _Busy(failure_of(error)) from error
