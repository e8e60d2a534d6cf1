"""The dead-letter queue on recorded answers: moto and the emulator have no tasks that move messages."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from sexton.aws.dead_letters import SqsDeadLetters
from sexton.errors import CallFailed
from sexton.ports import DeadMessage, Move

URL, ARN = "https://sqs/123456789012/dead", "arn:aws:sqs:eu-central-1:123456789012:dead"


def client() -> Any:
    return boto3.client("sqs", region_name="eu-central-1", aws_access_key_id="x", aws_secret_access_key="y")


@pytest.fixture
def own() -> Iterator[Stubber]:
    with Stubber(client()) as stub:
        yield stub
        stub.assert_no_pending_responses()


@pytest.fixture
def assumed() -> Iterator[Stubber]:
    with Stubber(client()) as stub:
        yield stub
        stub.assert_no_pending_responses()


@pytest.fixture
def queue(own: Stubber, assumed: Stubber) -> SqsDeadLetters:
    return SqsDeadLetters(own.client, URL, lambda: assumed.client)


def expect_arn(stub: Stubber) -> None:
    asked = {"QueueUrl": URL, "AttributeNames": ["QueueArn"]}
    stub.add_response("get_queue_attributes", {"Attributes": {"QueueArn": ARN}}, asked)


def test_messages_are_received_and_hidden_for_a_while(own: Stubber, queue: SqsDeadLetters) -> None:
    message = {"MessageId": "m", "ReceiptHandle": "r", "Body": "{}"}
    asked = {"QueueUrl": URL, "MaxNumberOfMessages": 10, "VisibilityTimeout": 10, "WaitTimeSeconds": 1}
    own.add_response("receive_message", {"Messages": [message]}, asked)
    own.add_response("receive_message", {}, asked)
    assert queue.receive(timedelta(seconds=10)) == [DeadMessage("m", "r", "{}")]
    assert queue.receive(timedelta(seconds=10)) == []


def test_what_could_not_be_removed_is_told_by_its_message(own: Stubber, queue: SqsDeadLetters) -> None:
    entries = [{"Id": "0", "ReceiptHandle": "r1"}, {"Id": "1", "ReceiptHandle": "r2"}]
    failed = {"Id": "1", "Code": "ReceiptHandleIsInvalid", "SenderFault": True}
    answer = {"Successful": [{"Id": "0"}], "Failed": [failed]}
    own.add_response("delete_message_batch", answer, {"QueueUrl": URL, "Entries": entries})
    assert list(queue.remove([DeadMessage("a", "r1", ""), DeadMessage("b", "r2", "")])) == ["b"]


@pytest.mark.parametrize(("rate", "more"), [(None, {}), (50, {"MaxNumberOfMessagesPerSecond": 50})])
def test_messages_are_moved_under_the_redrive_role_to_where_they_came_from(
    own: Stubber, assumed: Stubber, queue: SqsDeadLetters, rate: int | None, more: dict[str, int]
) -> None:
    expect_arn(own)
    assumed.add_response("start_message_move_task", {"TaskHandle": "t"}, {"SourceArn": ARN, **more})
    queue.start_move(rate)


def test_a_task_is_told_with_what_sqs_knows_of_it(own: Stubber, queue: SqsDeadLetters) -> None:
    expect_arn(own)
    running = {
        "TaskHandle": "t",
        "Status": "RUNNING",
        "SourceArn": ARN,
        "MaxNumberOfMessagesPerSecond": 50,
        "ApproximateNumberOfMessagesMoved": 7,
        "ApproximateNumberOfMessagesToMove": 9,
        "StartedTimestamp": 1_772_366_400_000,
    }
    failed = {"Status": "FAILED", "FailureReason": "AccessDenied\x1b[31m", "StartedTimestamp": 1_772_366_400_000}
    asked = {"SourceArn": ARN, "MaxResults": 10}
    own.add_response("list_message_move_tasks", {"Results": [running, failed]}, asked)
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert queue.moves() == [
        Move("t", "RUNNING", 7, 9, 50, "", at),
        Move("", "FAILED", 0, None, None, "AccessDenied [31m", at),
    ]


def test_a_task_is_cancelled_by_its_handle(assumed: Stubber, queue: SqsDeadLetters) -> None:
    answer = {"ApproximateNumberOfMessagesMoved": 3}
    assumed.add_response("cancel_message_move_task", answer, {"TaskHandle": "t"})
    assert queue.cancel_move("t") == 3


def test_a_refusal_is_a_failed_call(own: Stubber, queue: SqsDeadLetters) -> None:
    own.add_client_error("receive_message", "AccessDenied", "sqs:ReceiveMessage")
    with pytest.raises(CallFailed, match="ReceiveMessage"):
        queue.receive(timedelta(seconds=10))
