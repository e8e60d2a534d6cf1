"""The jobs queue on SQS: what discovery sends to it, and what the worker may do with a delivery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from sexton.aws.errors import calls, code_of, failure
from sexton.errors import Failure
from sexton.ports import Send

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef

LONGEST_WAIT = timedelta(hours=12)

# The message is visible again or gone: either way it needs no hiding.
_NO_LONGER_OURS = {"MessageNotInflight", "ReceiptHandleIsInvalid"}


class SqsQueue:
    """The queue, to send; a message's group makes a standard queue fair between policies."""

    def __init__(self, client: SQSClient, url: str) -> None:
        self._client = client
        self._url = url

    def send(self, messages: Sequence[Send]) -> Mapping[str, Failure]:
        """Send up to 10 messages in one call that is not repeated; returns the failures by id."""
        ids = {str(place): message.id for place, message in enumerate(messages)}
        entries = [_entry(place, message) for place, message in enumerate(messages)]
        with calls(only_attempt=True):
            answer = self._client.send_message_batch(QueueUrl=self._url, Entries=entries)
        return {
            ids[failed["Id"]]: failure(failed["Code"], failed.get("Message", "")) for failed in answer.get("Failed", [])
        }


class SqsDeliveries:
    """Received messages, to hide for longer or shorter."""

    def __init__(self, client: SQSClient, url: str) -> None:
        self._client = client
        self._url = url

    def hide(self, receipt: str, wait: timedelta) -> None:
        """Let the message come again after `wait`; whole seconds, rounded up so that it never comes early."""
        seconds = -(-min(max(wait, timedelta()), LONGEST_WAIT) // timedelta(seconds=1))
        with calls(only_attempt=True):
            try:
                self._client.change_message_visibility(
                    QueueUrl=self._url, ReceiptHandle=receipt, VisibilityTimeout=seconds
                )
            except ClientError as error:
                if not _is_too_late(error):
                    raise


def _entry(place: int, message: Send) -> SendMessageBatchRequestEntryTypeDef:
    """Entry ids hold no dots, job ids do: the place in the batch stands for the job."""
    return {"Id": str(place), "MessageBody": message.body, "MessageGroupId": message.group}


def _is_too_late(error: ClientError) -> bool:
    """SQS says `InvalidParameterValue` of a message that is gone, and of much else: its text tells which."""
    code = code_of(error)
    if code in _NO_LONGER_OURS:
        return True
    message = str(error.response.get("Error", {}).get("Message", "")).lower()
    return code == "InvalidParameterValue" and ("does not exist" in message or "receipthandle" in message)
