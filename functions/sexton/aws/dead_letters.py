"""The dead-letter queue on SQS: a look, a broom, and SQS's own task that moves messages back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sexton.aws.errors import calls, failure
from sexton.errors import Failure
from sexton.ports import DeadMessage, Move
from sexton.redact import redact

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

BATCH = 10
SHOWN = 10  # tasks: as many as SQS tells of


class SqsDeadLetters:
    """One dead-letter queue. `mover` makes the client under whose rights SQS may move messages."""

    def __init__(self, client: SQSClient, url: str, mover: Callable[[], SQSClient] | None = None) -> None:
        self._client = client
        self._url = url
        self._mover = mover or (lambda: client)

    def receive(self, hide: timedelta) -> Sequence[DeadMessage]:
        """Up to 10 messages, hidden from others for so long (whole seconds)."""
        with calls():
            answer = self._client.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=BATCH,
                VisibilityTimeout=int(hide.total_seconds()),
                WaitTimeSeconds=1,  # a short poll asks only some of SQS's servers, and finds nothing at the others
            )
        found = answer.get("Messages", [])
        return [DeadMessage(each["MessageId"], each["ReceiptHandle"], each.get("Body", "")) for each in found]

    def remove(self, messages: Sequence[DeadMessage]) -> Mapping[str, Failure]:
        """Delete up to 10 received messages in one call; returns the failures by message id."""
        ids = {str(place): message.message_id for place, message in enumerate(messages)}
        entries: Any = [{"Id": str(place), "ReceiptHandle": each.receipt} for place, each in enumerate(messages)]
        with calls():
            answer = self._client.delete_message_batch(QueueUrl=self._url, Entries=entries)
        return {ids[each["Id"]]: failure(each["Code"], each.get("Message", "")) for each in answer.get("Failed", [])}

    def moves(self) -> Sequence[Move]:
        """The latest tasks, newest first."""
        with calls():
            answer = self._client.list_message_move_tasks(SourceArn=self._arn(), MaxResults=SHOWN)
        return [_move(each) for each in answer.get("Results", [])]

    def start_move(self, max_rate: int | None) -> None:
        """Start the task; a call is not repeated, since SQS takes one task at a time."""
        rate: Any = {"MaxNumberOfMessagesPerSecond": max_rate} if max_rate else {}
        with calls():
            arn, client = self._arn(), self._mover()
        with calls(only_attempt=True):
            client.start_message_move_task(SourceArn=arn, **rate)

    def cancel_move(self, handle: str) -> int:
        """Stop the task; how many messages it had moved."""
        with calls():
            answer = self._mover().cancel_message_move_task(TaskHandle=handle)
        return answer.get("ApproximateNumberOfMessagesMoved", 0)

    def _arn(self) -> str:
        answer = self._client.get_queue_attributes(QueueUrl=self._url, AttributeNames=["QueueArn"])
        return answer["Attributes"]["QueueArn"]


def _move(task: Any) -> Move:
    started = task.get("StartedTimestamp")
    return Move(
        handle=task.get("TaskHandle", ""),
        status=task.get("Status", "UNKNOWN"),
        moved=task.get("ApproximateNumberOfMessagesMoved", 0),
        to_move=task.get("ApproximateNumberOfMessagesToMove"),
        max_rate=task.get("MaxNumberOfMessagesPerSecond"),
        failure=redact(task.get("FailureReason", "")),
        started_at=datetime.fromtimestamp(started / 1000, UTC) if started else None,
    )
