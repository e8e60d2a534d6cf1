"""What no emulator does, from recorded answers: conflicts, throttles, and errors of single keys in a 200 answer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from boto3.session import Session
from botocore.stub import Stubber
from sexton.aws.bucket import S3Bucket
from sexton.aws.clients import Clients
from sexton.aws.evidence import S3Evidence
from sexton.aws.queue import SqsDeliveries, SqsQueue
from sexton.aws.table import ATTEMPTS, DynamoTable
from sexton.errors import Failure, ReasonClass
from sexton.item import Item
from sexton.ports import Removed, Send
from sexton.table import Applied, Check, Key, Refused, Write, absent, equals

from tests.contract.worlds import failure_in

KEY, OTHER = Key("P", "1"), Key("P", "2")
WRITE = Write(KEY, "w", (absent("pk"),), set={"a": 1})
WRITES: list[Write | Check] = [WRITE, Check(OTHER, (absent("pk"),))]
OWNER = "111122223333"


@pytest.fixture(scope="module")
def clients() -> Clients:
    """Made once: they are slow to make, and each case puts its own recorded answers on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("AWS_ENDPOINT_URL", raising=False)
        made = Clients(Session("AKIAIOSFODNN7EXAMPLE", "secret", region_name="eu-central-1"))
        for name in ("dynamodb", "s3", "s3_deletes", "sqs"):
            getattr(made, name)  # which makes it, under this environment
    return made


class Ledger:
    """A table whose service answers what was recorded, and which notes how long it would have slept."""

    def __init__(self, clients: Clients) -> None:
        self.slept: list[float] = []
        self.service = Stubber(clients.dynamodb)
        self.table = DynamoTable(clients.dynamodb, "ledger", sleep=self.slept.append)

    def refuse(self, operation: str, code: str, times: int = 1, **fields: Any) -> None:
        for _ in range(times):
            self.service.add_client_error(operation, code, "as recorded", modeled_fields=fields)

    def cancel(self, *codes: str, item: dict[str, Any] | None = None, times: int = 1) -> None:
        reasons: list[dict[str, Any]] = [{"Code": code} for code in codes]
        if item is not None:
            reasons[0]["Item"] = item
        self.refuse("transact_write_items", "TransactionCanceledException", times, CancellationReasons=reasons)


@pytest.fixture
def ledger(clients: Clients) -> Iterator[Ledger]:
    ledger = Ledger(clients)
    with ledger.service:
        yield ledger


@pytest.mark.parametrize(
    "code",
    ["TransactionConflictException", "ThrottlingException", "ProvisionedThroughputExceededException"],
)
def test_a_write_that_meets_a_transaction_or_a_throttle_is_tried_again(ledger: Ledger, code: str) -> None:
    ledger.refuse("update_item", code, 2)
    ledger.service.add_response("update_item", {"Attributes": {"pk": {"S": "P"}}})
    assert ledger.table.write(WRITE) == Applied({"pk": "P"})
    assert len(ledger.slept) == 2
    assert all(0 <= slept <= 1 for slept in ledger.slept)


def test_a_write_that_meets_conflicts_only_fails_at_last(ledger: Ledger) -> None:
    ledger.refuse("update_item", "TransactionConflictException", ATTEMPTS)
    failure = failure_in(lambda: ledger.table.write(WRITE))
    assert failure.reason_class is ReasonClass.TRANSIENT
    assert failure.unknown_effect is False
    assert len(ledger.slept) == ATTEMPTS - 1


def test_a_write_that_is_denied_is_not_tried_again(ledger: Ledger) -> None:
    ledger.refuse("update_item", "AccessDeniedException")
    assert failure_in(lambda: ledger.table.write(WRITE)).reason_class is ReasonClass.PERMANENT
    assert ledger.slept == []


def test_a_transaction_that_meets_another_is_tried_again(ledger: Ledger) -> None:
    ledger.cancel("TransactionConflict", "None", times=2)
    ledger.refuse("transact_write_items", "TransactionInProgressException")
    ledger.service.add_response("transact_write_items", {})
    assert ledger.table.transact(WRITES) == Applied(None)
    assert len(ledger.slept) == 3


def test_a_transaction_that_meets_others_only_fails_at_last(ledger: Ledger) -> None:
    ledger.cancel("None", "TransactionConflict", times=ATTEMPTS)
    failure = failure_in(lambda: ledger.table.transact(WRITES))
    assert (failure.reason_class, failure.code) == (ReasonClass.TRANSIENT, "TransactionConflict")


def test_a_throttled_transaction_fails_as_throttled(ledger: Ledger) -> None:
    ledger.cancel("ThrottlingError", "None", times=ATTEMPTS)
    assert failure_in(lambda: ledger.table.transact(WRITES)).reason_class is ReasonClass.THROTTLED


def test_a_conflict_beside_a_failed_condition_is_a_refusal(ledger: Ledger) -> None:
    ledger.cancel("TransactionConflict", "ConditionalCheckFailed")
    assert ledger.table.transact(WRITES) == Refused(None, 1)
    assert ledger.slept == []


def test_a_transaction_with_a_mistake_is_not_tried_again(ledger: Ledger) -> None:
    ledger.cancel("TransactionConflict", "ValidationError")
    failure = failure_in(lambda: ledger.table.transact(WRITES))
    assert (failure.reason_class, failure.code) == (ReasonClass.PERMANENT, "ValidationError")
    assert ledger.slept == []


def test_a_cancelled_transaction_whose_row_is_our_own_took_place(ledger: Ledger) -> None:
    own = {"pk": {"S": "P"}, "sk": {"S": "1"}, "write_id": {"S": "w"}}
    ledger.cancel("ConditionalCheckFailed", "None", item=own)
    assert ledger.table.transact(WRITES) == Applied(None)


def test_a_cancelled_transaction_whose_row_is_another_s_is_refused_with_it(ledger: Ledger) -> None:
    other = {"pk": {"S": "P"}, "sk": {"S": "1"}, "write_id": {"S": "v"}, "n": {"N": "7"}}
    ledger.cancel("ConditionalCheckFailed", "None", item=other)
    assert ledger.table.transact(WRITES) == Refused({"pk": "P", "sk": "1", "write_id": "v", "n": 7}, 0)


def test_a_page_may_be_empty_and_still_have_a_next(ledger: Ledger) -> None:
    last = {"pk": {"S": "P"}, "sk": {"S": "1"}, "open_pk": {"S": "O"}, "open_sk": {"S": "o"}}
    ledger.service.add_response("query", {"Items": [], "LastEvaluatedKey": last})
    ledger.service.add_response(
        "query",
        {"Items": []},
        {
            "TableName": "ledger",
            "IndexName": "open",
            "KeyConditionExpression": "open_pk = :pk",
            "ExpressionAttributeValues": {":pk": {"S": "O"}},
            "ExclusiveStartKey": last,
        },
    )
    page = ledger.table.query_open("O")
    assert page.rows == []
    assert page.next is not None
    assert ledger.table.query_open("O", after=page.next).next is None


def test_reads_are_strongly_consistent(ledger: Ledger) -> None:
    ledger.service.add_response(
        "get_item", {}, {"TableName": "ledger", "Key": {"pk": {"S": "P"}, "sk": {"S": "1"}}, "ConsistentRead": True}
    )
    ledger.service.add_response(
        "query",
        {"Items": []},
        {
            "TableName": "ledger",
            "KeyConditionExpression": "pk = :pk AND begins_with(sk, :prefix)",
            "ExpressionAttributeValues": {":pk": {"S": "P"}, ":prefix": {"S": "JOB#"}},
            "ConsistentRead": True,
            "ScanIndexForward": True,
        },
    )
    assert ledger.table.get(KEY) is None
    assert ledger.table.query("P", "JOB#").next is None


def test_a_condition_on_a_row_that_vanished_is_refused_with_none(ledger: Ledger) -> None:
    ledger.refuse("update_item", "ConditionalCheckFailedException")
    assert ledger.table.write(Write(KEY, "w", (equals("state", "ready"),))) == Refused(None)


def items(*keys: str) -> list[Item]:
    return [Item(key, '"e"', 1, "STANDARD", None) for key in keys]


@pytest.fixture
def deletes(clients: Clients) -> Iterator[Stubber]:
    with Stubber(clients.s3_deletes) as service:
        yield service


@pytest.fixture
def bucket(clients: Clients) -> S3Bucket:
    return S3Bucket(clients.s3, clients.s3_deletes, "items", OWNER)


def test_each_key_of_an_answer_has_its_own_end(bucket: S3Bucket, deletes: Stubber) -> None:
    errors = {
        "changed": ("PreconditionFailed", "At least one of the pre-conditions you specified did not hold"),
        "gone": ("NoSuchKey", "The specified key does not exist."),
        "locked": ("AccessDenied", "Access Denied because object protected by object lock."),
        "denied": ("AccessDenied", "Access Denied"),
        "slow": ("SlowDown", "Please reduce your request rate."),
        "broken": ("InternalError", "We encountered an internal error. Please try again."),
        "new": ("NeverHeardOf", "?"),
    }
    deletes.add_response(
        "delete_objects",
        {
            "Deleted": [
                {"Key": "plain"},
                {"Key": "marked", "DeleteMarker": True, "DeleteMarkerVersionId": "v1"},
            ],
            "Errors": [{"Key": key, "Code": code, "Message": text} for key, (code, text) in errors.items()],
        },
    )
    results = bucket.remove(items("plain", "marked", "silent", *errors))
    assert results["plain"] == Removed()
    assert results["marked"] == Removed("v1")
    ends = {key: (end.reason_class, end.unknown_effect) for key, end in results.items() if isinstance(end, Failure)}
    assert ends == {
        "changed": (ReasonClass.CHANGED, False),
        "gone": (ReasonClass.GONE, False),
        "locked": (ReasonClass.LOCKED, False),
        "denied": (ReasonClass.PERMANENT, False),
        "slow": (ReasonClass.THROTTLED, False),
        "broken": (ReasonClass.TRANSIENT, True),
        "new": (ReasonClass.TRANSIENT, True),
        "silent": (ReasonClass.TRANSIENT, True),
    }


def test_what_an_answer_says_of_other_keys_is_not_believed(bucket: S3Bucket, deletes: Stubber) -> None:
    deletes.add_response("delete_objects", {"Deleted": [{"Key": "other"}]})
    assert set(bucket.remove(items("a"))) == {"a"}


def test_a_removal_is_asked_for_with_etag_and_owner_and_every_answer(bucket: S3Bucket, deletes: Stubber) -> None:
    deletes.add_response(
        "delete_objects",
        {"Deleted": [{"Key": "a"}]},
        {
            "Bucket": "items",
            "Delete": {"Objects": [{"Key": "a", "ETag": '"e"'}], "Quiet": False},
            "ExpectedBucketOwner": OWNER,
        },
    )
    deletes.add_response(
        "delete_object",
        {"DeleteMarker": True, "VersionId": "v2"},
        {"Bucket": "items", "Key": "a\r", "IfMatch": '"e"', "ExpectedBucketOwner": OWNER},
    )
    assert bucket.remove(items("a", "a\r")) == {"a": Removed(), "a\r": Removed("v2")}


def test_a_failed_call_is_told_for_each_of_its_keys_and_not_for_others(bucket: S3Bucket, deletes: Stubber) -> None:
    deletes.add_client_error("delete_objects", "SlowDown", "Reduce your request rate", 503)
    deletes.add_response("delete_object", {})
    results = bucket.remove(items("a", "b", "c\u0001"))
    slow = results["a"]
    assert isinstance(slow, Failure)
    assert (slow.reason_class, slow.unknown_effect) == (ReasonClass.THROTTLED, False)
    assert results["b"] == slow
    assert results["c\u0001"] == Removed()


@pytest.mark.parametrize(("status", "reason_class"), [(403, "permanent"), (503, "throttled"), (500, "transient")])
def test_a_look_that_fails_is_never_an_absence(
    clients: Clients, bucket: S3Bucket, status: int, reason_class: str
) -> None:
    service = Stubber(clients.s3)
    service.add_client_error("head_object", str(status), "", status)
    with service:
        assert failure_in(lambda: bucket.head("a")).reason_class == reason_class


def test_an_object_without_a_readable_date_has_none(clients: Clients, bucket: S3Bucket) -> None:
    service = Stubber(clients.s3)
    entry = {"Key": "a", "ETag": '"e"', "Size": 1, "StorageClass": "GLACIER"}
    service.add_response("list_objects_v2", {"IsTruncated": False, "Contents": [entry]})
    with service:
        assert list(bucket.list("").items) == [Item("a", '"e"', 1, "GLACIER", None)]


def test_two_writers_of_one_file_try_again(clients: Clients) -> None:
    slept: list[float] = []
    evidence = S3Evidence(clients.s3, "evidence", OWNER, sleep=slept.append)
    service = Stubber(clients.s3)
    service.add_client_error("put_object", "ConditionalRequestConflict", "", 409)
    service.add_client_error("put_object", "PreconditionFailed", "", 412)
    with service:
        assert evidence.put_once("a.json", b"x") is False
    assert len(slept) == 1


def test_a_batch_tells_which_message_was_not_taken(clients: Clients) -> None:
    service = Stubber(clients.sqs)
    service.add_response(
        "send_message_batch",
        {
            "Successful": [{"Id": "0", "MessageId": "m", "MD5OfMessageBody": "x"}],
            "Failed": [{"Id": "1", "SenderFault": False, "Code": "InternalError", "Message": "oops"}],
        },
        {
            "QueueUrl": "https://queue/jobs",
            "Entries": [
                {"Id": "0", "MessageBody": "a", "MessageGroupId": "logs"},
                {"Id": "1", "MessageBody": "b", "MessageGroupId": "logs"},
            ],
        },
    )
    with service:
        failures = SqsQueue(clients.sqs, "https://queue/jobs").send(
            [Send("logs.1/000.1", "a", "logs"), Send("logs.1/000.2", "b", "logs")]
        )
    assert set(failures) == {"logs.1/000.2"}
    assert failures["logs.1/000.2"].unknown_effect is True


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("MessageNotInflight", ""),
        ("AWS.SimpleQueueService.MessageNotInflight", ""),
        ("ReceiptHandleIsInvalid", ""),
        (
            "InvalidParameterValue",
            "Value x for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available "
            "for visibility timeout change.",
        ),
    ],
)
def test_hiding_too_late_is_no_error(clients: Clients, code: str, text: str) -> None:
    _hide(clients, code, text)


@pytest.mark.parametrize(
    ("code", "text", "reason_class"),
    [
        ("InvalidParameterValue", "Value 99999 for parameter VisibilityTimeout is invalid.", "permanent"),
        ("AccessDenied", "", "permanent"),
        ("AWS.SimpleQueueService.NonExistentQueue", "The specified queue does not exist.", "permanent"),
        ("RequestThrottled", "", "throttled"),
    ],
)
def test_hiding_that_fails_otherwise_is_told(clients: Clients, code: str, text: str, reason_class: str) -> None:
    assert failure_in(lambda: _hide(clients, code, text)).reason_class == reason_class


def _hide(clients: Clients, code: str, text: str) -> None:
    service = Stubber(clients.sqs)
    service.add_client_error("change_message_visibility", code, text)
    with service:
        SqsDeliveries(clients.sqs, "https://queue/jobs").hide("r", timedelta(seconds=5))
