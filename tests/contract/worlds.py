"""Where the contract suites run: on the fakes, on moto inside this process, on MiniStack behind a socket.

A world makes ports, and hands to do what the outside world does. Each thing it makes is new.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Protocol, cast

from botocore.exceptions import ClientError, ReadTimeoutError
from sexton import ports
from sexton.attributes import Attributes, canonical
from sexton.aws.bucket import S3Bucket
from sexton.aws.clients import Clients
from sexton.aws.dead_letters import SqsDeadLetters
from sexton.aws.events import EventBridgeEvents
from sexton.aws.evidence import S3Evidence
from sexton.aws.functions import LambdaDiscovery
from sexton.aws.queue import SqsDeliveries, SqsQueue
from sexton.aws.records import DynamoRecords
from sexton.aws.table import DynamoTable
from sexton.errors import CallFailed, Failure
from sexton.item import Item

from tests.fakes.bucket import FakeBucket
from tests.fakes.dead_letters import FakeDeadLetters
from tests.fakes.evidence import FakeEvidence
from tests.fakes.queue import FakeQueue
from tests.fakes.recorder import LOST_REPLY
from tests.fakes.records import FakeRecords
from tests.fakes.table import FakeTable
from tests.fakes.time import FakeClock

PART_OF_A_PAGE = 300_000  # characters: four such rows do not fit into one page of DynamoDB (1 MB)


class BucketHands(Protocol):
    """What others do to a bucket."""

    def put(self, key: str, content: bytes) -> object: ...

    def delete(self, key: str) -> None: ...

    def marker(self, key: str) -> str | None:
        """The version id of the delete marker that is current, None where there is none."""

    def markers(self, key: str) -> int:
        """How many delete markers the key has."""

    def versions(self, key: str) -> int:
        """How many versions that are no markers the key has."""

    def delete_version(self, key: str, version_id: str) -> None: ...

    def lock(self, key: str, version_id: str, how: str) -> None:
        """Put a version under `GOVERNANCE` or `COMPLIANCE` until tomorrow, or under a legal `HOLD`."""

    def tag(self, key: str, tags: Mapping[str, str], version_id: str | None = None) -> None: ...

    def begin_upload(self, key: str) -> str:
        """The id of an upload of many parts that is never completed."""


@dataclass(frozen=True)
class Delivery:
    """A received message as far as the suites look."""

    body: str
    receipt: str
    group: str
    received: int
    source_arn: str | None


class QueueHands(Protocol):
    """What the event source mapping does with a queue."""

    def receive(self) -> list[Delivery]: ...

    def ack(self, receipt: str) -> None: ...

    def dead(self) -> list[str]: ...

    def dead_letters(self) -> ports.DeadLetters: ...


class RecordHands(Protocol):
    """What an application does to its table."""

    name: str

    def put(self, **values: Any) -> None:
        """Place a record, in typed form."""

    def ids(self) -> list[str]:
        """The ids of all records, ascending."""


class World(Protocol):
    """One place with ports."""

    name: str

    def pass_time(self, seconds: float) -> None: ...

    def table(self) -> ports.Table: ...

    def records(self) -> tuple[ports.Table, ports.RecordTable, RecordHands]:
        """The ledger's table, and one with reminders, keyed as the fake's is: both can be in one transaction."""

    def lose_reply_of_write(self, table: ports.Table) -> None:
        """The SDK does not get the reply to the next write or transaction, and sends it again."""

    def lose_reply_of_change(self, records: ports.RecordTable, key: Attributes) -> None:
        """The next change of the record, which is the next of all, takes place, and its reply is lost."""

    def evidence(self) -> ports.Evidence: ...

    def lose_reply_of_put(self, evidence: ports.Evidence) -> None:
        """The SDK does not get the reply to the next upload, and sends it again."""

    def bucket(self, versioning: str = "Unversioned") -> tuple[ports.Bucket, BucketHands]: ...

    def locking_bucket(self) -> tuple[ports.Bucket, BucketHands]:
        """A versioned bucket with Object Lock."""

    def missing_bucket(self) -> ports.Bucket: ...

    def lose_reply_of_remove(self, bucket: ports.Bucket) -> None:
        """The next removal takes place, of whatever kind, and its reply is lost."""

    def queue(self, max_receive_count: int = 100) -> tuple[ports.Queue, ports.Deliveries, QueueHands]: ...


class FakeWorld:
    """The fakes, on one clock."""

    name = "fake"

    def __init__(self) -> None:
        self.clock = FakeClock()

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def table(self) -> ports.Table:
        return FakeTable(page_size=3)

    def records(self) -> tuple[ports.Table, ports.RecordTable, RecordHands]:
        table, records = FakeTable(page_size=3), FakeRecords()
        table.tables["reminders"] = records
        return table, records, _FakeRecordHands(records)

    def lose_reply_of_write(self, table: ports.Table) -> None:
        """The fake has no SDK: what it would do is sending the same write again."""
        fake = cast(FakeTable, table)
        fake.write = _twice(fake.write)  # type: ignore[method-assign]
        fake.transact = _twice(fake.transact)  # type: ignore[method-assign]

    def lose_reply_of_change(self, records: ports.RecordTable, key: Attributes) -> None:
        cast(FakeRecords, records).refusals[canonical(key)] = [LOST_REPLY]

    def evidence(self) -> ports.Evidence:
        return FakeEvidence()

    def lose_reply_of_put(self, evidence: ports.Evidence) -> None:
        """The fake has no SDK, and no replies to lose."""

    def bucket(self, versioning: str = "Unversioned") -> tuple[ports.Bucket, BucketHands]:
        fake = FakeBucket(self.clock, versioning)
        return fake, _FakeBucketHands(fake)

    def locking_bucket(self) -> tuple[ports.Bucket, BucketHands]:
        return self.bucket("Enabled")

    def missing_bucket(self) -> ports.Bucket:
        fake = FakeBucket(self.clock)
        fake.missing = True
        return fake

    def lose_reply_of_remove(self, bucket: ports.Bucket) -> None:
        for method in ("remove", "remove_versions", "abort_upload"):
            cast(FakeBucket, bucket).fail_next(method, LOST_REPLY)

    def queue(self, max_receive_count: int = 100) -> tuple[ports.Queue, ports.Deliveries, QueueHands]:
        fake = FakeQueue(self.clock, max_receive_count=max_receive_count)
        return fake, fake, _FakeQueueHands(fake)


def _twice(call: Callable[..., Any]) -> Callable[..., Any]:
    def repeated(*args: object) -> object:
        call(*args)
        return call(*args)

    return repeated


@dataclass
class _FakeBucketHands:
    fake: FakeBucket

    def put(self, key: str, content: bytes) -> object:
        return self.fake.put(key, content)

    def delete(self, key: str) -> None:
        self.fake.delete(key)

    def marker(self, key: str) -> str | None:
        versions = self.fake.versions.get(key)
        return versions[-1].id if versions and versions[-1].item is None else None

    def markers(self, key: str) -> int:
        return self.fake.markers(key)

    def versions(self, key: str) -> int:
        return sum(version.item is not None for version in self.fake.versions.get(key, []))

    def delete_version(self, key: str, version_id: str) -> None:
        self.fake.delete_version(key, version_id)

    def lock(self, key: str, version_id: str, how: str) -> None:
        self.fake.lock_version(key, version_id)

    def tag(self, key: str, tags: Mapping[str, str], version_id: str | None = None) -> None:
        self.fake.tag(key, dict(tags), version_id)

    def begin_upload(self, key: str) -> str:
        return str(self.fake.begin_upload(key).version_id)


@dataclass
class _FakeRecordHands:
    fake: FakeRecords
    name: str = "reminders"

    def put(self, **values: Any) -> None:
        self.fake.put(**values)

    def ids(self) -> list[str]:
        return sorted(record["id"]["S"] for record in self.fake.records.values())


@dataclass
class _DynamoHands:
    clients: Clients
    name: str

    def put(self, **values: Any) -> None:
        self.clients.dynamodb.put_item(TableName=self.name, Item=values)

    def ids(self) -> list[str]:
        items = self.clients.dynamodb.scan(TableName=self.name, ConsistentRead=True)["Items"]
        return sorted(str(item["id"]["S"]) for item in items)


@dataclass
class _FakeQueueHands:
    fake: FakeQueue

    def receive(self) -> list[Delivery]:
        return [
            Delivery(each.body, each.receipt, each.group, each.received, each.source_arn or None)
            for each in self.fake.receive()
        ]

    def ack(self, receipt: str) -> None:
        self.fake.ack(receipt)

    def dead(self) -> list[str]:
        return [each.message.body for each in self.fake.dead if each.message.source_arn]

    def dead_letters(self) -> ports.DeadLetters:
        return FakeDeadLetters(self.fake, self.fake.clock)


_NUMBERS = count(1)


@dataclass
class AwsWorld:
    """The adapters on an emulator of AWS, reached as AWS would be. Clients are shared by all cases: they are slow."""

    name: str
    clients: Clients
    account: str
    region: str
    _mishaps: list[tuple[Any, str, Callable[..., object]]] = field(default_factory=list)

    def pass_time(self, seconds: float) -> None:
        time.sleep(seconds)

    def table(self) -> ports.Table:
        name = _new("ledger")
        self.clients.dynamodb.create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[
                {"AttributeName": each, "AttributeType": "S"} for each in ("pk", "sk", "open_pk", "open_sk")
            ],
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": "open",
                    "KeySchema": [
                        {"AttributeName": "open_pk", "KeyType": "HASH"},
                        {"AttributeName": "open_sk", "KeyType": "RANGE"},
                    ],
                    "Projection": {"ProjectionType": "ALL"},
                }
            ],
        )
        return DynamoTable(self.clients.dynamodb, name, sleep=lambda _: None)

    def records(self) -> tuple[ports.Table, ports.RecordTable, RecordHands]:
        name = _new("reminders")
        by = {"by-status": "status", "by-day": "day"}
        types = {"id": "S", "deadline": "N", **dict.fromkeys(by.values(), "S")}
        self.clients.dynamodb.create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": each, "AttributeType": cast(Any, types[each])} for each in types],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": index,
                    "KeySchema": [
                        {"AttributeName": key, "KeyType": "HASH"},
                        {"AttributeName": "deadline", "KeyType": "RANGE"},
                    ],
                    "Projection": {"ProjectionType": "ALL"},
                }
                for index, key in by.items()
            ],
        )
        changes = self.clients.dynamodb_changes
        records = DynamoRecords(self.clients.dynamodb, name, changes, sleep=lambda _: None)
        return self.table(), records, _DynamoHands(self.clients, name)

    def lose_reply_of_write(self, table: ports.Table) -> None:
        self._send_again(self.clients.dynamodb, "UpdateItem")
        self._send_again(self.clients.dynamodb, "TransactWriteItems")

    def lose_reply_of_change(self, records: ports.RecordTable, key: Attributes) -> None:
        self._lose_reply(self.clients.dynamodb_changes, "DeleteItem")

    def evidence(self) -> ports.Evidence:
        return S3Evidence(self.clients.s3, self._new_bucket("evidence"), self.account, sleep=lambda _: None)

    def lose_reply_of_put(self, evidence: ports.Evidence) -> None:
        self._send_again(self.clients.s3, "PutObject")

    def bucket(self, versioning: str = "Unversioned") -> tuple[ports.Bucket, BucketHands]:
        name = self._new_bucket("items")
        if versioning != "Unversioned":
            self.clients.s3.put_bucket_versioning(
                Bucket=name, VersioningConfiguration={"Status": cast(Any, versioning)}
            )
        return self._port(name), _S3Hands(self.clients, name)

    def locking_bucket(self) -> tuple[ports.Bucket, BucketHands]:
        name = self._new_bucket("locked", ObjectLockEnabledForBucket=True)
        return self._port(name), _S3Hands(self.clients, name)

    def missing_bucket(self) -> ports.Bucket:
        return self._port(_new("missing"))

    def lose_reply_of_remove(self, bucket: ports.Bucket) -> None:
        for operation in ("DeleteObjects", "DeleteObject", "AbortMultipartUpload"):
            self._lose_reply(self.clients.s3_deletes, operation)

    def queue(self, max_receive_count: int = 100) -> tuple[ports.Queue, ports.Deliveries, QueueHands]:
        sqs = self.clients.sqs
        dead = sqs.create_queue(QueueName=_new("dead"))["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": max_receive_count})
        url = sqs.create_queue(
            QueueName=_new("jobs"), Attributes={"RedrivePolicy": redrive, "VisibilityTimeout": "720"}
        )["QueueUrl"]
        return SqsQueue(sqs, url), SqsDeliveries(sqs, url), _SqsHands(self.clients, url, dead)

    def discovery(self, function: str) -> ports.Discovery:
        """Discovery by the name of a function, which may be missing."""
        return LambdaDiscovery(self.clients.functions, self.clients.waiting, function)

    def events(self) -> ports.Events:
        """The default bus."""
        return EventBridgeEvents(self.clients.events, "default")

    def calm(self) -> None:
        """Take back every mishap that did not come to pass: the clients live on."""
        for client, event, handler in self._mishaps:
            client.meta.events.unregister(event, handler)

    def _once(self, client: Any, event: str, mishap: Callable[[], object]) -> None:
        def handler(**_: object) -> object:
            client.meta.events.unregister(event, handler)
            return mishap()

        client.meta.events.register_first(event, handler)
        self._mishaps.append((client, event, handler))

    def _send_again(self, client: Any, operation: str) -> None:
        """Let the SDK believe once that no reply came, so that it repeats what was carried out."""
        self._once(client, f"needs-retry.{client.meta.service_model.service_name}.{operation}", lambda: 0.0)

    def _lose_reply(self, client: Any, operation: str) -> None:
        """Let the next call fail after it was carried out."""
        self._once(client, f"after-call.{client.meta.service_model.service_name}.{operation}", _no_reply)

    def _port(self, name: str) -> S3Bucket:
        return S3Bucket(self.clients.s3, self.clients.s3_deletes, name, self.account)

    def _new_bucket(self, kind: str, **more: bool) -> str:
        name = _new(kind)
        self.clients.s3.create_bucket(
            Bucket=name, CreateBucketConfiguration={"LocationConstraint": cast(Any, self.region)}, **cast(Any, more)
        )
        return name


def _no_reply() -> None:
    raise ReadTimeoutError(endpoint_url="https://s3.example?X-Amz-Signature=0123456789abcdef")


@dataclass
class _S3Hands:
    clients: Clients
    bucket: str

    def content(self, key: str) -> bytes:
        """The current object's bytes."""
        return self.clients.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()

    def put(self, key: str, content: bytes) -> object:
        return self.clients.s3.put_object(Bucket=self.bucket, Key=key, Body=content)

    def delete(self, key: str) -> None:
        self.clients.s3.delete_object(Bucket=self.bucket, Key=key)

    def marker(self, key: str) -> str | None:
        """From the headers of a HEAD's 404: a listing of versions cannot show every key on an emulator."""
        try:
            self.clients.s3.head_object(Bucket=self.bucket, Key=key)
        except ClientError as error:
            headers: Mapping[str, str] = error.response["ResponseMetadata"]["HTTPHeaders"]
            return headers.get("x-amz-version-id") if headers.get("x-amz-delete-marker") == "true" else None
        return None

    def markers(self, key: str) -> int:
        listed = self.clients.s3.list_object_versions(Bucket=self.bucket)
        return sum(each["Key"] == key for each in listed.get("DeleteMarkers", []))

    def versions(self, key: str) -> int:
        listed = self.clients.s3.list_object_versions(Bucket=self.bucket)
        return sum(each["Key"] == key for each in listed.get("Versions", []))

    def delete_version(self, key: str, version_id: str) -> None:
        self.clients.s3.delete_object(Bucket=self.bucket, Key=key, VersionId=version_id)

    def lock(self, key: str, version_id: str, how: str) -> None:
        which = {"Bucket": self.bucket, "Key": key, "VersionId": version_id}
        if how == "HOLD":
            self.clients.s3.put_object_legal_hold(**cast(Any, which), LegalHold={"Status": "ON"})
        else:
            until = datetime.now(UTC) + timedelta(days=1)
            retention = {"Mode": how, "RetainUntilDate": until}
            self.clients.s3.put_object_retention(**cast(Any, which), Retention=cast(Any, retention))

    def tag(self, key: str, tags: Mapping[str, str], version_id: str | None = None) -> None:
        version = {"VersionId": version_id} if version_id else {}
        tagging = {"TagSet": [{"Key": name, "Value": value} for name, value in tags.items()]}
        self.clients.s3.put_object_tagging(
            Bucket=self.bucket, Key=key, Tagging=cast(Any, tagging), **cast(Any, version)
        )

    def begin_upload(self, key: str) -> str:
        return self.clients.s3.create_multipart_upload(Bucket=self.bucket, Key=key)["UploadId"]


@dataclass
class _SqsHands:
    clients: Clients
    url: str
    dead_url: str

    def receive(self) -> list[Delivery]:
        return [_delivery(each) for each in self._messages(self.url)]

    def ack(self, receipt: str) -> None:
        self.clients.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=receipt)

    def dead(self) -> list[str]:
        found = [_delivery(each) for each in self._messages(self.dead_url)]
        return [each.body for each in found if each.source_arn]

    def dead_letters(self) -> ports.DeadLetters:
        return SqsDeadLetters(self.clients.sqs, self.dead_url)

    def _messages(self, url: str) -> Sequence[Mapping[str, Any]]:
        answer = self.clients.sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"]
        )
        return answer.get("Messages", [])


def _delivery(message: Mapping[str, Any]) -> Delivery:
    attributes = message["Attributes"]
    return Delivery(
        message["Body"],
        message["ReceiptHandle"],
        attributes.get("MessageGroupId", ""),
        int(attributes["ApproximateReceiveCount"]),
        attributes.get("DeadLetterQueueSourceArn"),
    )


def _new(kind: str) -> str:
    return f"{kind}-{next(_NUMBERS)}"


def failure_in(call: Callable[[], object]) -> Failure:
    """The failure that a call as a whole ends in."""
    try:
        call()
    except CallFailed as failed:
        return failed.failure
    raise AssertionError("the call did not fail")


def listed(bucket: ports.Bucket, prefix: str = "", limit: int = 1000) -> list[Item]:
    """All current objects, page by page."""
    items: list[Item] = []
    while True:
        page = bucket.list(prefix, items[-1].key if items else "", limit)
        items += page.items
        if not page.truncated:
            return items


def all_versions(bucket: ports.Bucket, prefix: str = "", limit: int = 1000) -> list[Item]:
    """All versions and delete markers, page by page."""
    return _every(bucket.list_versions, prefix, limit)


def all_uploads(bucket: ports.Bucket, prefix: str = "", limit: int = 1000) -> list[Item]:
    """All incomplete uploads, page by page."""
    return _every(bucket.list_uploads, prefix, limit)


def _every(pages: Callable[[str, str, str, int], ports.Versions], prefix: str, limit: int) -> list[Item]:
    items: list[Item] = []
    after = ("", "")
    while True:
        page = pages(prefix, *after, limit)
        items += page.items
        after = (page.next_key, page.next_version)
        if not page.truncated:
            assert after == ("", "")
            return items
        assert len(page.items) <= limit
